//! What a failed try means: for the loop ([`ModelErrorKind`]) and for the next try ([`Retry`]).
//!
//! One place sorts the errors of the Messages API, whether they came as a status, inside a stream, or from a
//! script that plays them. What a server wrote is quoted bounded, on one line and without control characters.

use std::time::Duration;

use serde_json::Value;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::{ModelError, ModelErrorKind};

/// Most characters of a server's words that are quoted.
const QUOTE_LIMIT: usize = 300;

/// Stands where a quote was cut.
const CUT: char = '…';

/// Stands where a key stood.
const HIDDEN: &str = "***";

/// Fewer bytes are no key.
const SHORTEST_KEY: usize = 8;

/// The error code of a 429 that waiting does not cure.
const SPEND_LIMIT: &str = "enforced_spend_limit_reached";

/// One try gave no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the loop is told if this was the last try.
    pub error: ModelError,
    /// Whether another try has a chance.
    pub retry: Retry,
    /// The server has too much to do, or the account too little left: every call of the run has to slow down.
    pub is_for_load: bool,
}

/// Whether another try has a chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It would fail in the same way.
    Never,
    /// After the schedule's own wait.
    Backoff,
    /// After the wait that the server asked for.
    After(Duration),
}

/// The head of an answer that is no reply.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head<'a> {
    /// The HTTP status.
    pub status: u16,
    /// `retry-after`: seconds or a date.
    pub retry_after: Option<&'a str>,
    /// `date`: the server's clock, by which a date in `retry-after` is meant.
    pub date: Option<&'a str>,
    /// `x-should-retry`: the server's own word.
    pub should_retry: Option<&'a str>,
    /// `location` of a redirect, which is not followed.
    pub location: Option<&'a str>,
    /// `request-id`.
    pub request_id: Option<&'a str>,
}

impl Failure {
    /// Ends the call as an infrastructure error.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self::of(ModelErrorKind::Api, Retry::Never, message)
    }

    /// May pass: the connection failed, or the answer broke off before it was complete.
    pub fn passing(message: impl Into<String>) -> Self {
        Self::of(ModelErrorKind::Api, Retry::Backoff, message)
    }

    fn of(kind: ModelErrorKind, retry: Retry, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            error: ModelError { kind, message },
            retry,
            is_for_load: false,
        }
    }

    /// Sorts an answer whose status is not 200. `model` is named where it may be the cause.
    #[must_use]
    pub fn of_status(head: Head<'_>, body: &[u8], model: &str) -> Self {
        let said = Said::of_body(body);
        let request = match head.request_id {
            Some(id) => format!(", request `{}`", quote(id)),
            None => String::new(),
        };
        let found = format!("{}{}{request}", head.status, said.after_status());
        let mut failure = match head.status {
            300..=399 => Self::fatal(format!(
                "the API answered with a redirect to `{}` ({found}), and redirects are not followed; set the base URL to the final address",
                quote(head.location.unwrap_or_default())
            )),
            429 if said.code == SPEND_LIMIT => Self::fatal(format!(
                "the spend limit of the API account is reached ({found}); raise it or wait for the next period"
            )),
            408 | 429 | 500..=599 => Self::passing(format!("the API failed with {found}")),
            status => Self::of_request(status, &said.message, &found, model),
        };
        if failure.retry == Retry::Backoff {
            failure.is_for_load = matches!(head.status, 429 | 529);
            failure.retry = match (head.should_retry, head.retry_after) {
                (Some("false"), _) => Retry::Never,
                (_, Some(value)) => {
                    retry_after(value, head.date).map_or(Retry::Backoff, Retry::After)
                }
                _ => Retry::Backoff,
            };
        }
        failure
    }

    /// Sorts the errors that lie in the request: trying again gives the same answer.
    fn of_request(status: u16, message: &str, found: &str, model: &str) -> Self {
        match status {
            401 | 403 => Self::of(
                ModelErrorKind::Auth,
                Retry::Never,
                format!(
                    "the API refused the key ({found}); check the environment variable `ANTHROPIC_API_KEY`"
                ),
            ),
            402 => Self::fatal(format!(
                "the API account has a billing problem ({found}); check its balance and payment"
            )),
            404 => Self::fatal(format!(
                "the API does not know the model `{}`, or nothing answers at this address ({found}); check the model's id, which may have been retired, and the base URL",
                quote(model)
            )),
            413 => Self::too_large(found),
            400 if is_too_large(message) => Self::too_large(found),
            _ => Self::fatal(format!("the API refused the request ({found})")),
        }
    }

    fn too_large(found: &str) -> Self {
        Self::of(
            ModelErrorKind::TooLarge,
            Retry::Never,
            format!("the conversation is too large for the model ({found})"),
        )
    }

    /// Sorts an `error` object that came after a 200: inside a stream, or as the body.
    #[must_use]
    pub fn of_error(error: &Value, model: &str) -> Self {
        let said = Said::of_error(error);
        let found = said.alone();
        let status = match said.kind.as_str() {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            _ if said.code == SPEND_LIMIT => {
                return Self::fatal(format!(
                    "the spend limit of the API account is reached ({found}); raise it or wait for the next period"
                ));
            }
            // Overloaded, rate limited, timed out, failed inside, or a type of tomorrow: nothing of the reply was
            // used, so another try is safe, and the number of tries is bounded.
            kind => {
                return Self {
                    is_for_load: matches!(kind, "overloaded_error" | "rate_limit_error"),
                    ..Self::passing(format!("the API failed while it answered: {found}"))
                };
            }
        };
        Self::of_request(status, &said.message, &found, model)
    }

    /// The failure without the key, should a server have sent it back; a quote's end may have cut the key in two. What is
    /// shorter than any real key is left alone, since it would be found inside plain words.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        if key.len() < SHORTEST_KEY {
            return self;
        }
        let message = self.error.message.replace(key, HIDDEN);
        let starts = (SHORTEST_KEY..key.len())
            .rev()
            .filter_map(|end| key.get(..end));
        self.error.message = starts.fold(message, |message, start| {
            message.replace(&format!("{start}{CUT}"), HIDDEN)
        });
        self
    }
}

/// What a server said about its error, quoted.
struct Said {
    kind: String,
    message: String,
    code: String,
}

impl Said {
    fn of_error(error: &Value) -> Self {
        let text = |value: Option<&Value>| quote(value.and_then(Value::as_str).unwrap_or_default());
        Self {
            kind: text(error.get("type")),
            message: text(error.get("message")),
            code: text(error.pointer("/details/error_code")),
        }
    }

    /// The API's own shape, or, from a proxy in between, whatever text there is.
    fn of_body(body: &[u8]) -> Self {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        match parsed.as_ref().and_then(|body| body.get("error")) {
            Some(error) if error.is_object() => Self::of_error(error),
            _ => {
                let start = &body[..body.len().min(8 * QUOTE_LIMIT)];
                Self {
                    kind: String::new(),
                    message: quote(&String::from_utf8_lossy(start)),
                    code: String::new(),
                }
            }
        }
    }

    fn after_status(&self) -> String {
        let alone = self.alone();
        if alone.is_empty() {
            alone
        } else {
            format!(" {alone}")
        }
    }

    fn alone(&self) -> String {
        match (self.kind.as_str(), self.message.as_str()) {
            ("", "") => String::new(),
            ("", message) => format!("`{message}`"),
            (kind, "") => kind.to_owned(),
            (kind, message) => format!("{kind}: `{message}`"),
        }
    }
}

/// The sentences by which the API says, under status 400, that the window is full.
fn is_too_large(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("prompt is too long") || message.contains("exceed context limit")
}

/// A server's words on one line: control characters and runs of white space become one space, backticks
/// become quotes, and what is long is cut.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::new();
    let mut length = 0;
    for word in text.split(|c: char| c.is_control() || c.is_whitespace() || is_invisible(c)) {
        if word.is_empty() {
            continue;
        }
        if length > 0 {
            quoted.push(' ');
            length += 1;
        }
        for c in word.chars() {
            if length >= QUOTE_LIMIT {
                quoted.push(CUT);
                return quoted;
            }
            quoted.push(if c == '`' { '\'' } else { c });
            length += 1;
        }
    }
    quoted
}

/// Marks that turn the direction of text or take no room, with which a quote could pretend to be something else.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Reads `retry-after`: whole or broken seconds, or an HTTP date, which is measured by the answer's own `date`, so that
/// a wrong clock on our side does not matter. `None` for anything else.
fn retry_after(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let wait = http_date(value)? - http_date(date?)?;
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

fn http_date(text: &str) -> Option<OffsetDateTime> {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    PrimitiveDateTime::parse(text.trim(), format)
        .ok()
        .map(PrimitiveDateTime::assume_utc)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(status: u16, body: &Value) -> Failure {
        let head = Head {
            status,
            ..Head::default()
        };
        Failure::of_status(head, body.to_string().as_bytes(), "claude-x")
    }

    fn error(kind: &str, message: &str) -> Value {
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }

    #[test]
    fn each_status_has_its_meaning() {
        use ModelErrorKind::{Api, Auth, TooLarge};
        for (code, kind, retry) in [
            (301, Api, Retry::Never),
            (400, Api, Retry::Never),
            (401, Auth, Retry::Never),
            (402, Api, Retry::Never),
            (403, Auth, Retry::Never),
            (404, Api, Retry::Never),
            (408, Api, Retry::Backoff),
            (409, Api, Retry::Never),
            (413, TooLarge, Retry::Never),
            (429, Api, Retry::Backoff),
            (500, Api, Retry::Backoff),
            (503, Api, Retry::Backoff),
            (504, Api, Retry::Backoff),
            (529, Api, Retry::Backoff),
        ] {
            let failure = status(code, &error("some_error", "words"));
            assert_eq!((failure.error.kind, failure.retry), (kind, retry), "{code}");
            assert!(failure.error.message.contains(&code.to_string()));
            assert!(failure.error.message.contains("some_error: `words`"));
        }
    }

    #[test]
    fn a_full_window_is_recognised_under_status_400() {
        let body = error(
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        );
        assert_eq!(status(400, &body).error.kind, ModelErrorKind::TooLarge);
        let body = error(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
        );
        assert_eq!(status(400, &body).error.kind, ModelErrorKind::TooLarge);
    }

    #[test]
    fn a_reached_spend_limit_is_not_waited_for() {
        let mut body = error("rate_limit_error", "limit");
        assert_eq!(status(429, &body).retry, Retry::Backoff);
        body["error"]["details"] = json!({"error_code": SPEND_LIMIT});
        let failure = status(429, &body);
        assert_eq!(failure.retry, Retry::Never);
        assert!(failure.error.message.contains("spend limit"));
    }

    #[test]
    fn a_server_that_asks_not_to_be_asked_again_is_obeyed() {
        let head = Head {
            status: 500,
            should_retry: Some("false"),
            retry_after: Some("1"),
            ..Head::default()
        };
        assert_eq!(Failure::of_status(head, b"", "m").retry, Retry::Never);
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, date, expected) in [
            ("7", None, Some(Duration::from_secs(7))),
            (" 0.5 ", None, Some(Duration::from_millis(500))),
            (
                "Sun, 06 Nov 1994 08:50:07 GMT",
                date,
                Some(Duration::from_secs(30)),
            ),
            ("Sun, 06 Nov 1994 08:49:00 GMT", date, Some(Duration::ZERO)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", None, None),
            ("-3", None, None),
            ("NaN", None, None),
            ("1e300", None, None),
            ("soon", date, None),
        ] {
            assert_eq!(retry_after(value, date), expected, "{value:?}");
        }
    }

    #[test]
    fn an_error_in_mid_stream_is_sorted_by_its_type() {
        let sorted = |kind: &str| {
            let failure = Failure::of_error(&json!({"type": kind, "message": "m"}), "claude-x");
            (failure.error.kind, failure.retry)
        };
        assert_eq!(
            sorted("overloaded_error"),
            (ModelErrorKind::Api, Retry::Backoff)
        );
        assert_eq!(sorted("api_error"), (ModelErrorKind::Api, Retry::Backoff));
        assert_eq!(
            sorted("future_error"),
            (ModelErrorKind::Api, Retry::Backoff)
        );
        assert_eq!(
            sorted("authentication_error"),
            (ModelErrorKind::Auth, Retry::Never)
        );
        assert_eq!(
            sorted("request_too_large"),
            (ModelErrorKind::TooLarge, Retry::Never)
        );
        assert_eq!(
            sorted("invalid_request_error"),
            (ModelErrorKind::Api, Retry::Never)
        );
    }

    #[test]
    fn a_hostile_body_is_quoted_on_one_short_line() {
        let body = format!(
            "<html>\r\n::error::x\u{1b}[31m`\u{202e}{}",
            "y".repeat(10_000)
        );
        let head = Head {
            status: 502,
            ..Head::default()
        };
        let message = Failure::of_status(head, body.as_bytes(), "m").error.message;
        assert!(message.chars().count() < 400, "{message}");
        assert!(!message.contains(|c: char| c.is_control() || c == '\u{202e}'));
        assert!(
            message.starts_with("the API failed with 502 `<html> ::error::x [31m'"),
            "{message}"
        );
    }

    #[test]
    fn a_key_that_a_server_sends_back_is_not_repeated_even_in_part() {
        const KEY: &str = "sk-ant-0123456789";
        let refused = |message: &str| {
            let failure = status(401, &error("authentication_error", message)).without(KEY);
            failure.error.message
        };
        let message = refused(&format!("bad key {KEY}"));
        assert!(message.contains("`bad key ***`"), "{message}");
        assert!(message.contains("`ANTHROPIC_API_KEY`"));
        let message = refused(&format!("{}{KEY}", "x".repeat(QUOTE_LIMIT - 12)));
        assert!(message.contains("xx***`"), "{message}");
        assert!(!message.contains("sk-ant-0"), "{message}");
    }

    #[test]
    fn a_key_that_is_none_does_not_spoil_the_words() {
        let failure = Failure::fatal("the key").without("k").without("");
        assert_eq!(failure.error.message, "the key");
    }
}
