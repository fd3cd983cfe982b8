//! The Messages API of Anthropic, streamed or whole.
//!
//! Both ways give the same [`Reply`]: `stream` assembles it from events, `whole` reads it from one body, and both
//! treat tool input by the same strict rules (`input`). `request` writes the body. Nothing is kept between calls.

mod input;
mod quota;
mod request;
mod stream;
mod whole;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode, Url};

use self::stream::{Assembly, Heard};
use super::failure::{Failure, Head};
use super::gate::{Gate, Pass};
use super::retry::Schedule;
use super::{
    Listener, Model, ModelError, ModelErrorKind, Reply, Request, Waiting, estimate, http, sse,
};
use crate::message::Block;
use crate::redact::Secret;
use crate::usage::{ModelFacts, Usage};

/// Where the API is when nobody says otherwise.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// The version of the API that this module speaks.
const API_VERSION: &str = "2023-06-01";

/// Most bytes of one answer; the API's own limit for a request is the same.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;

/// Most bytes of one event of a stream.
const EVENT_LIMIT: usize = 8 * 1024 * 1024;

/// Most bytes of an error's body that are read.
const ERROR_LIMIT: usize = 64 * 1024;

/// How long the end of a body may take after the last event, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(20);

/// How to talk to the API. The environment and the command line are read by the caller.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The API key.
    pub key: Secret,
    /// The address before `/v1/messages`.
    pub base_url: String,
    /// Whether the answer is streamed.
    pub streaming: bool,
    /// Whether the API is asked to cache the conversation's prefix.
    pub caching: bool,
    /// Most silence: no byte at all.
    pub idle_timeout: Duration,
    /// Most time without progress: bytes may come, but they say nothing (`ping`). Without streaming, the time that
    /// the whole answer may need before its first byte.
    pub progress_timeout: Duration,
    /// Tries and waits.
    pub retry: Schedule,
    /// The gate that all calls of the run pass; `None`: nobody limits them.
    pub gate: Option<Arc<Gate>>,
}

impl Settings {
    /// Streaming from the public address with prompt caching, ten tries, two minutes of silence, ten minutes without
    /// progress.
    #[must_use]
    pub fn new(key: Secret) -> Self {
        Self {
            key,
            base_url: BASE_URL.to_owned(),
            streaming: true,
            caching: true,
            idle_timeout: Duration::from_secs(2 * 60),
            progress_timeout: Duration::from_secs(10 * 60),
            retry: Schedule::default(),
            gate: None,
        }
    }
}

/// A model behind the Messages API.
#[derive(Debug, Clone)]
pub struct Anthropic {
    name: String,
    id: String,
    url: Url,
    headers: HeaderMap,
    settings: Settings,
    client: Client,
}

impl Anthropic {
    /// A model by its id (`claude-...`), called through `client` (see [`http::client`]). Makes no call.
    ///
    /// # Errors
    /// The key is empty or no header value ([`ModelErrorKind::Auth`]), or the base URL is no HTTP address.
    pub fn new(
        model_id: impl Into<String>,
        settings: Settings,
        client: Client,
    ) -> Result<Self, ModelError> {
        let id = model_id.into();
        Ok(Self {
            name: format!("anthropic/{id}"),
            url: endpoint(&settings.base_url)?,
            headers: headers(&settings.key)?,
            id,
            settings,
            client,
        })
    }

    /// The call as it is sent, the same for every try.
    fn call(&self, request: &Request<'_>) -> Result<reqwest::Request, ModelError> {
        let body = request::body(&self.id, request, &self.settings).map_err(|error| {
            Failure::fatal(format!("the request cannot be written: {error}")).error
        })?;
        self.client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body)
            .build()
            .map_err(|error| http::transport(&error).error)
    }

    /// Waits at the gate.
    async fn pass(&self, listener: &dyn Listener, again: bool) -> Option<Pass> {
        let gate = self.settings.gate.as_ref()?;
        let _waiting = Waiting::of(listener);
        Some(gate.enter(again).await)
    }

    /// One try.
    async fn once(
        &self,
        call: reqwest::Request,
        pass: Option<&Pass>,
        listener: &dyn Listener,
    ) -> Result<Reply, Failure> {
        listener.sent();
        let sent = self.client.execute(call);
        let patience = if self.settings.streaming {
            self.settings.idle_timeout
        } else {
            self.settings.progress_timeout
        };
        let mut response = match tokio::time::timeout(patience, sent).await {
            Ok(sent) => sent.map_err(|error| http::transport(&error))?,
            Err(_) => return Err(http::stalled("did not begin to answer", patience)),
        };
        let request_id = header(response.headers(), "request-id").map(str::to_owned);
        if response.status() != StatusCode::OK {
            return Err(self.refusal(&mut response).await);
        }
        if let Some(pass) = pass {
            pass.taken();
            if let Some(wait) = quota::exhausted(response.headers()) {
                pass.exhausted(wait.min(self.settings.retry.longest_retry_after));
            }
        }
        let kind = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
        let mut reply = if kind.starts_with("text/event-stream") {
            listener.begun();
            self.streamed(&mut response, listener).await?
        } else if kind.starts_with("application/json") {
            listener.begun();
            let body = http::body(&mut response, ANSWER_LIMIT, self.settings.idle_timeout).await?;
            let reply = whole::reply(&body, &self.id).inspect_err(|_| {
                if whole::is_error(&body) {
                    listener.declined();
                }
            })?;
            for text in reply.content.iter().filter_map(Block::as_text) {
                listener.text(text);
            }
            reply
        } else {
            return Err(Failure::fatal(format!(
                "expected the Messages API to answer with `text/event-stream` or `application/json`, found `{}`; check the base URL",
                super::failure::quote(kind)
            )));
        };
        reply.request_id = request_id.or(reply.request_id);
        Ok(reply)
    }

    /// Reads events until the message is whole.
    async fn streamed(
        &self,
        response: &mut reqwest::Response,
        listener: &dyn Listener,
    ) -> Result<Reply, Failure> {
        let limit = self.settings.progress_timeout;
        let mut progress = Box::pin(tokio::time::sleep(limit));
        let mut decoder = sse::Decoder::new(EVENT_LIMIT);
        let mut assembly = Assembly::default();
        let mut received = 0_usize;
        loop {
            let chunk = tokio::select! {
                // In this order: a flood of pings must not keep the timer from being looked at.
                biased;
                () = &mut progress => return Err(http::stalled("made no progress", limit)),
                chunk = http::chunk(response, self.settings.idle_timeout) => chunk?,
            };
            let Some(chunk) = chunk else {
                return Err(Failure::passing(
                    "the API's answer ended before it was complete",
                ));
            };
            received = received.saturating_add(chunk.len());
            if received > ANSWER_LIMIT {
                return Err(http::too_much(ANSWER_LIMIT));
            }
            let pushed = decoder.push(&chunk);
            while let Some(event) = decoder.pull() {
                let heard = assembly.take(&event, &self.id).inspect_err(|_| {
                    if !assembly.has_begun() && event.name == "error" {
                        listener.declined();
                    }
                })?;
                let (usage, is_whole) = assembly.counted();
                listener.counted(&usage, is_whole);
                match heard {
                    Heard::Nothing => {}
                    Heard::Progress => progress.set(tokio::time::sleep(limit)),
                    Heard::Text(piece) => {
                        progress.set(tokio::time::sleep(limit));
                        listener.text(&piece);
                    }
                    Heard::End => {
                        let _ = http::chunk(response, DRAIN).await;
                        return assembly.finish();
                    }
                }
            }
            pushed.map_err(|error| Failure::fatal(error.to_string()))?;
        }
    }

    /// Sorts an answer that is no 200.
    async fn refusal(&self, response: &mut reqwest::Response) -> Failure {
        // A body that breaks off or is too long loses its words; the status still decides.
        let body = http::body(response, ERROR_LIMIT, self.settings.idle_timeout)
            .await
            .unwrap_or_default();
        let headers = response.headers();
        let head = Head {
            status: response.status().as_u16(),
            retry_after: header(headers, "retry-after"),
            date: header(headers, "date"),
            should_retry: header(headers, "x-should-retry"),
            location: header(headers, "location"),
            request_id: header(headers, "request-id"),
        };
        Failure::of_status(head, &body, &self.id)
    }
}

#[async_trait]
impl Model for Anthropic {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Option<ModelFacts> {
        ModelFacts::of(&self.id)
    }

    async fn reply(
        &self,
        mut request: Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ModelError> {
        let mut call = self.call(&request)?;
        let mut tries = self.settings.retry.tries();
        let mut was_refused = false;
        loop {
            let pass = self.pass(listener, was_refused).await;
            // A body of bytes can always be cloned, and its bytes are shared; there is always a next call.
            let next = call.try_clone();
            let failure = match self.once(call, pass.as_ref(), listener).await {
                Ok(mut reply) => {
                    if reply.usage == Usage::default() {
                        // A gateway that counts nothing must not make a task free of its budget.
                        reply.usage = estimate::usage(&request, &reply.content);
                    }
                    return Ok(reply);
                }
                Err(failure) => failure.without(self.settings.key.expose()),
            };
            listener.failed(&failure.error.message);
            was_refused = failure.is_for_load;
            let wait = tries.after(failure, random());
            let delay = wait.as_ref().map_or(Duration::ZERO, |wait| wait.delay);
            let is_gated = match pass {
                Some(pass) if was_refused => {
                    pass.refused(delay);
                    true
                }
                Some(pass) => {
                    pass.failed();
                    false
                }
                None => false,
            };
            let wait = wait?;
            let Some(granted) = listener.again(request.max_tokens).await else {
                return Err(ModelError {
                    kind: ModelErrorKind::Api,
                    message: wait.reason,
                });
            };
            let is_shorter = granted < request.max_tokens;
            request.max_tokens = granted.min(request.max_tokens);
            listener.retried(wait.attempt, delay, &wait.reason);
            // What the gate makes all calls wait for, this one waits for there.
            if !is_gated {
                let _waiting = was_refused.then(|| Waiting::of(listener));
                tokio::time::sleep(delay).await;
            }
            call = match next {
                Some(next) if !is_shorter => next,
                _ => self.call(&request)?,
            };
        }
    }
}

fn endpoint(base_url: &str) -> Result<Url, ModelError> {
    let wrong = |why: &str| ModelError {
        kind: ModelErrorKind::Api,
        message: format!("the base URL of the API {why}; expected an address such as `{BASE_URL}`"),
    };
    let url = Url::parse(&format!("{}/v1/messages", base_url.trim_end_matches('/')))
        .map_err(|error| wrong(&format!("cannot be read ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither `http` nor `https`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds credentials, which would end up in logs"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("has a query or a fragment"));
    }
    Ok(url)
}

fn headers(key: &Secret) -> Result<HeaderMap, ModelError> {
    let refused = |why: &str| ModelError {
        kind: ModelErrorKind::Auth,
        message: format!("the API key {why}; check the environment variable `ANTHROPIC_API_KEY`"),
    };
    if key.expose().is_empty() {
        return Err(refused("is empty"));
    }
    let mut value = HeaderValue::from_str(key.expose())
        .map_err(|_| refused("holds characters that no header may hold, such as a line end"))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([
        (HeaderName::from_static("x-api-key"), value),
        (
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static(API_VERSION),
        ),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ]))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// A number in 0..1 that differs between processes, for jitter. The standard library seeds its hashers at random, and
/// more than that is not needed.
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are exact in a float of 64"
)]
fn random() -> f64 {
    let bits = RandomState::new().hash_one(0) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(base_url: &str, key: &str) -> String {
        let settings = Settings {
            base_url: base_url.to_owned(),
            ..Settings::new(Secret::new(key.to_owned()))
        };
        let client = http::client(&http::Connection::default()).unwrap();
        Anthropic::new("m", settings, client).unwrap_err().message
    }

    #[test]
    fn a_key_that_cannot_work_is_refused_before_any_call_and_not_shown() {
        assert!(
            error(BASE_URL, "")
                .contains("is empty; check the environment variable `ANTHROPIC_API_KEY`")
        );
        let message = error(BASE_URL, "sk-secret\n");
        assert!(message.contains("`ANTHROPIC_API_KEY`") && !message.contains("sk-secret"));
    }

    #[test]
    fn an_address_that_is_none_is_refused_before_any_call() {
        for (url, part) in [
            ("nowhere", "cannot be read"),
            ("ftp://x", "neither `http` nor `https`"),
            ("https://u:p@x", "holds credentials"),
            ("https://x?y=", "has a query"),
        ] {
            let message = error(url, "k");
            assert!(message.contains(part), "{url}: {message}");
            assert!(!message.contains("u:p"));
        }
    }

    #[test]
    fn the_address_may_end_in_a_slash() {
        for base in ["https://x/y", "https://x/y/"] {
            assert_eq!(endpoint(base).unwrap().as_str(), "https://x/y/v1/messages");
        }
    }

    #[test]
    fn settings_and_model_do_not_show_the_key() {
        let client = http::client(&http::Connection::default()).unwrap();
        let model =
            Anthropic::new("m", Settings::new(Secret::new("sk-secret".into())), client).unwrap();
        assert!(!format!("{model:?}").contains("sk-secret"));
    }

    #[test]
    fn jitter_is_in_its_range() {
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random())));
    }
}
