//! The Messages API against a fake server: every fault, both ways of answering, and the protocol on every request.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests may fail as a test does"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agent_batch::message::{Block, Message};
use agent_batch::model::anthropic::{Anthropic, Settings};
use agent_batch::model::http::{self, Connection};
use agent_batch::model::retry::{Jitter, Schedule};
use agent_batch::model::{Listener, Model, ModelError, ModelErrorKind, Reply, Request};
use agent_batch::redact::Secret;
use serde_json::{Value, json};

use self::server::{Break, KEY, Play, Server, message, status};

pub(crate) mod server;

/// A limit that a test wants to see reached.
const SHORT: Duration = Duration::from_millis(500);

/// A limit that no test reaches.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Heard {
    text: Mutex<Vec<String>>,
    retries: Mutex<Vec<(u32, Duration, String)>>,
}

impl Listener for Heard {
    fn text(&self, piece: &str) {
        self.text.lock().unwrap().push(piece.to_owned());
    }

    fn retried(&self, attempt: u32, delay: Duration, reason: &str) {
        self.retries
            .lock()
            .unwrap()
            .push((attempt, delay, reason.to_owned()));
    }
}

impl Heard {
    fn reasons(&self) -> Vec<String> {
        self.retries
            .lock()
            .unwrap()
            .iter()
            .map(|(_, _, reason)| reason.clone())
            .collect()
    }
}

/// Four tries without waits; silence and stalls are given time.
fn settings(base_url: &str) -> Settings {
    Settings {
        base_url: base_url.to_owned(),
        idle_timeout: LONG,
        progress_timeout: LONG,
        retry: Schedule {
            max_tries: 4,
            first_wait: Duration::ZERO,
            fixed_wait: Some(Duration::ZERO),
            jitter: Jitter::None,
            ..Schedule::default()
        },
        ..Settings::new(Secret::new(KEY.to_owned()))
    }
}

fn model(settings: Settings) -> Anthropic {
    Anthropic::new(
        "claude-test",
        settings,
        http::client(&Connection::default()).unwrap(),
    )
    .unwrap()
}

async fn call(model: &Anthropic, messages: &[Message], heard: &Heard) -> Result<Reply, ModelError> {
    let tools = [
        json!({"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}),
    ];
    let request = Request {
        system: "You are tested.",
        messages,
        tools: &tools,
        max_tokens: 1000,
    };
    // A client that waits for ever fails its test instead of holding up all the others.
    tokio::time::timeout(LONG / 2, model.reply(request, heard))
        .await
        .unwrap()
}

async fn ask(settings: Settings, heard: &Heard) -> Result<Reply, ModelError> {
    call(&model(settings), &[Message::user("go")], heard).await
}

fn hello() -> Value {
    message(json!([{"type": "text", "text": "hello there"}]), "end_turn")
}

/// Plays a conversation to its end: each tool call is answered, and after the last reply comes another turn.
async fn converse(said: &[Value], streaming: bool) -> (Vec<Message>, Vec<Reply>) {
    let server = Server::start(said.iter().cloned().map(Play::Say));
    let model = model(Settings {
        streaming,
        ..settings(&server.address)
    });
    let mut messages = vec![Message::user("go")];
    let mut replies = Vec::new();
    for _ in said {
        let reply = call(&model, &messages, &Heard::default()).await.unwrap();
        messages.push(Message::assistant(reply.content.clone()));
        let calls = Message::assistant(reply.content.clone()).tool_calls();
        messages.push(if calls.is_empty() {
            Message::user("and then?")
        } else {
            Message::results(
                calls
                    .iter()
                    .map(|call| Block::tool_result(&call.id, "done", false))
                    .collect(),
            )
        });
        replies.push(reply);
    }
    assert_eq!(server.requests().len(), said.len());
    (messages, replies)
}

#[tokio::test]
async fn streamed_or_whole_a_conversation_is_the_same() {
    let said = [
        message(
            json!([
                {"type": "thinking", "thinking": "which file?", "signature": "c2lnbmF0dXJl"},
                {"type": "text", "text": "台北 needs an umbrella"},
                {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a/台.rs", "n": [1, {"x": null}]}},
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {}},
            ]),
            "tool_use",
        ),
        message(
            json!([{"type": "tool_use", "id": "t3", "name": "Read", "input": "{\"path\": ,,"}]),
            "tool_use",
        ),
        message(
            json!([{"type": "future", "z": 1, "a": {"b": []}}, {"type": "redacted_thinking", "data": "eA=="}]),
            "pause_turn",
        ),
        message(json!([]), "end_turn"),
        message(json!([{"type": "text", "text": " "}]), "stop_sequence"),
        message(json!([{"type": "text", "text": "cut o"}]), "max_tokens"),
    ];
    let (streamed, replies) = converse(&said, true).await;
    let (whole, whole_replies) = converse(&said, false).await;
    assert_eq!(
        serde_json::to_string(&streamed).unwrap(),
        serde_json::to_string(&whole).unwrap()
    );
    for ((reply, whole), said) in replies.iter().zip(&whole_replies).zip(&said) {
        assert_eq!(
            serde_json::to_string(&reply.content).unwrap(),
            said["content"].to_string()
        );
        assert_eq!(reply.stop_reason.as_deref(), said["stop_reason"].as_str());
        assert_eq!(
            (&reply.stop_reason, reply.usage, &reply.request_id),
            (&whole.stop_reason, whole.usage, &whole.request_id)
        );
    }
    assert_eq!(
        (replies[0].usage.input(), replies[0].usage.output_tokens),
        (16, 7)
    );
    assert_eq!(replies[0].request_id.as_deref(), Some("req_head"));
}

#[tokio::test]
async fn a_refusal_keeps_its_details_both_ways() {
    let mut refusal = message(json!([]), "refusal");
    refusal["stop_details"] = json!({"type": "refusal", "category": "cyber"});
    for streaming in [true, false] {
        let (_, replies) = converse(&[refusal.clone()], streaming).await;
        assert_eq!(
            replies[0].stop_details,
            Some(json!({"type": "refusal", "category": "cyber"}))
        );
    }
}

#[tokio::test]
async fn text_is_heard_in_pieces_while_it_streams() {
    let server = Server::start([Play::Say(hello())]);
    let heard = Heard::default();
    ask(settings(&server.address), &heard).await.unwrap();
    assert_eq!(*heard.text.lock().unwrap(), ["hel", "lo ", "the", "re"]);
}

#[tokio::test]
async fn what_may_pass_is_tried_again_with_the_same_request() {
    let errors = [
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
        (500, "api_error"),
    ];
    for streaming in [true, false] {
        let plays = errors
            .iter()
            .map(|(code, kind)| status(*code, kind, "later"))
            .chain([Play::Say(hello())]);
        let server = Server::start(plays);
        let heard = Heard::default();
        let settings = Settings {
            streaming,
            ..settings(&server.address)
        };
        let reply = ask(settings, &heard).await.unwrap();
        assert_eq!(reply.content, [Block::text("hello there")]);
        assert_eq!(
            heard.reasons(),
            errors.map(|(code, kind)| format!(
                "the API failed with {code} {kind}: `later`, request `req_head`"
            ))
        );
        assert_eq!(server.requests().len(), 4);
    }
}

#[tokio::test]
async fn a_broken_answer_is_thrown_away_whole_and_asked_for_again() {
    let with_call = message(
        json!([{"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1}}, {"type": "text", "text": "more"}]),
        "tool_use",
    );
    for (how, streamed, whole) in [
        (
            Break::BeforeAnswer,
            "the connection to the API broke: ",
            "the connection to the API broke: ",
        ),
        (
            Break::Cut,
            "the connection to the API broke: ",
            "the connection to the API broke: ",
        ),
        (
            Break::Truncate,
            "the API's answer ended before it was complete",
            "the API's answer is not JSON",
        ),
        (
            Break::ErrorEvent,
            "the API failed while it answered: overloaded_error: `Overloaded`",
            "the API failed while it answered: ",
        ),
    ] {
        let plays = || [Play::Break(how, with_call.clone()), Play::Say(hello())];
        for (streaming, reason) in [(true, streamed), (false, whole)] {
            let server = Server::start(plays());
            let heard = Heard::default();
            let settings = Settings {
                streaming,
                ..settings(&server.address)
            };
            let reply = ask(settings, &heard).await.unwrap();
            assert_eq!(reply.content, [Block::text("hello there")], "{how:?}");
            assert!(
                heard.reasons()[0].starts_with(reason),
                "{how:?}: {:?}",
                heard.reasons()
            );
            assert_eq!(server.requests().len(), 2);
        }
    }
}

#[tokio::test]
async fn silence_ends_a_try() {
    for (how, reason) in [
        (Break::Stall, "the API sent nothing for 500ms"),
        (Break::Hang, "the API did not begin to answer for 500ms"),
    ] {
        let server = Server::start([Play::Break(how, hello()), Play::Break(how, hello())]);
        let heard = Heard::default();
        let mut settings = settings(&server.address);
        settings.idle_timeout = SHORT;
        settings.retry.max_tries = 2;
        let error = ask(settings, &heard).await.unwrap_err();
        assert_eq!(error.message, format!("{reason}; gave up after 2 tries"));
        assert_eq!(heard.reasons(), [reason]);
    }
}

#[tokio::test]
async fn pings_are_a_sign_of_life_but_no_progress() {
    let server = Server::start([Play::Break(Break::StallWithPings, hello())]);
    let mut settings = settings(&server.address);
    settings.progress_timeout = SHORT;
    settings.retry.max_tries = 1;
    let error = ask(settings, &Heard::default()).await.unwrap_err();
    assert_eq!(
        error.message,
        "the API made no progress for 500ms; gave up after 1 try"
    );
}

#[tokio::test]
async fn errors_in_the_request_end_the_call_at_once() {
    use ModelErrorKind::{Api, Auth, TooLarge};
    for (play, kind, part) in [
        (
            status(401, "authentication_error", "invalid x-api-key"),
            Auth,
            "`ANTHROPIC_API_KEY`",
        ),
        (
            status(403, "permission_error", "no"),
            Auth,
            "`ANTHROPIC_API_KEY`",
        ),
        (
            status(402, "billing_error", "no credit"),
            Api,
            "billing problem",
        ),
        (
            status(404, "not_found_error", "model: claude-test"),
            Api,
            "does not know the model `claude-test`",
        ),
        (
            status(413, "request_too_large", "33 MB"),
            TooLarge,
            "the conversation is too large",
        ),
        (
            status(
                400,
                "invalid_request_error",
                "prompt is too long: 9 tokens > 8 maximum",
            ),
            TooLarge,
            "prompt is too long",
        ),
        (
            status(400, "invalid_request_error", "tools.0: bad"),
            Api,
            "`tools.0: bad`",
        ),
    ] {
        for streaming in [true, false] {
            let server = Server::start([play.clone()]);
            let heard = Heard::default();
            let settings = Settings {
                streaming,
                ..settings(&server.address)
            };
            let error = ask(settings, &heard).await.unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert!(
                error.message.contains(part) && !error.message.contains(KEY),
                "{error}"
            );
            assert_eq!(server.requests().len() + heard.reasons().len(), 1);
        }
    }
}

#[tokio::test]
async fn retry_after_is_told_and_a_spend_limit_is_not_waited_for() {
    let later = |retry_after: &str| {
        let body = r#"{"error":{"type":"rate_limit_error","message":"later"}}"#;
        Play::Status(
            429,
            vec![
                ("retry-after", retry_after.to_owned()),
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
            ],
            body.to_owned(),
        )
    };
    let server = Server::start([
        later("0.01"),
        later("Sun, 06 Nov 1994 08:49:38 GMT"),
        later("9999"),
    ]);
    let heard = Heard::default();
    let mut settings = settings(&server.address);
    settings.retry.fixed_wait = None;
    let error = ask(settings.clone(), &heard).await.unwrap_err();
    assert!(error.message.contains("again in 2h 46m"), "{error}");
    assert_eq!(server.requests().len(), 3, "not called again");
    let waits: Vec<u128> = heard
        .retries
        .lock()
        .unwrap()
        .iter()
        .map(|(_, delay, _)| delay.as_millis())
        .collect();
    assert_eq!(waits, [10, 1000]);

    let body = r#"{"error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let server = Server::start([Play::Status(429, Vec::new(), body.to_owned())]);
    settings.base_url.clone_from(&server.address);
    let error = ask(settings, &Heard::default()).await.unwrap_err();
    assert!(error.message.contains("spend limit"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start([Play::Say(hello())]);
    let location = format!("{}/v1/messages", elsewhere.address);
    let server = Server::start([Play::Status(
        307,
        vec![("location", location.clone())],
        String::new(),
    )]);
    let error = ask(settings(&server.address), &Heard::default())
        .await
        .unwrap_err();
    assert!(error.message.contains(&location), "{error}");
    assert!(elsewhere.requests().is_empty(), "the key went elsewhere");
}

#[tokio::test]
async fn an_answer_that_is_not_from_the_api_is_named() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";
    let (address, _) = raw_server(move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(page.as_bytes());
    });
    let error = ask(settings(&format!("http://{address}")), &Heard::default())
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .contains("found `text/html`; check the base URL"),
        "{error}"
    );
}

#[tokio::test]
async fn garbage_in_a_stream_is_a_failed_try_and_a_huge_event_ends_the_call() {
    let garbage = "data: {not json\n\n".to_owned();
    let server = Server::start([Play::Stream(garbage), Play::Say(hello())]);
    let heard = Heard::default();
    ask(settings(&server.address), &heard).await.unwrap();
    assert_eq!(
        heard.reasons(),
        ["the API's stream is garbled: the data of `message` is not JSON"]
    );

    let huge = format!("data: {}", "x".repeat(9 * 1024 * 1024));
    let server = Server::start([Play::Stream(huge)]);
    let error = ask(settings(&server.address), &Heard::default())
        .await
        .unwrap_err();
    assert!(
        error.message.contains("larger than 8388608 bytes"),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_without_counts_is_estimated() {
    let mut uncounted = hello();
    uncounted["usage"] = json!({});
    let server = Server::start([Play::Say(uncounted)]);
    let settings = Settings {
        streaming: false,
        ..settings(&server.address)
    };
    let usage = ask(settings, &Heard::default()).await.unwrap().usage;
    assert!(usage.input_tokens > 0 && usage.output_tokens > 0);
}

#[tokio::test]
async fn nobody_there_is_tried_again_and_then_said() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let heard = Heard::default();
    let error = ask(settings(&format!("http://{free}")), &heard)
        .await
        .unwrap_err();
    assert!(error.message.contains(" cannot be reached: "), "{error}");
    assert!(error.message.ends_with("gave up after 4 tries"), "{error}");
    assert_eq!(heard.reasons().len(), 3);
}

/// A server for what is below HTTP; it counts its connections.
fn raw_server(
    serve: impl Fn(std::net::TcpStream) + Send + 'static,
) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            serve(stream.unwrap());
        }
    });
    (address, connections)
}

/// A server with a certificate of an authority that nobody knows.
fn tls_server() -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let certificate = include_bytes!("../data/tls/loopback.cert.der")
        .to_vec()
        .into();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(
        include_bytes!("../data/tls/loopback.key.der").to_vec(),
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    let config = Arc::new(config);
    raw_server(move |stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        if stream.read(&mut [0; 4096]).is_ok() {
            let body = hello().to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    })
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_ends_the_call_at_once() {
    let (address, connections) = tls_server();
    let heard = Heard::default();
    let error = ask(settings(&format!("https://{address}")), &heard)
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with("the server's certificate is not trusted: "),
        "{error}"
    );
    assert_eq!(
        (heard.reasons().len(), connections.load(Ordering::SeqCst)),
        (0, 1)
    );
}

#[tokio::test]
async fn a_client_for_plain_connections_trusts_no_certificate() {
    let (address, _) = tls_server();
    let connection = Connection {
        tls: false,
        extra_roots: Some(include_bytes!("../data/tls/authority.pem").to_vec()),
        ..Connection::default()
    };
    let client = http::client(&connection).unwrap();
    let settings = settings(&format!("https://{address}"));
    let model = Anthropic::new("claude-test", settings, client).unwrap();
    let error = call(&model, &[Message::user("go")], &Heard::default())
        .await
        .unwrap_err();
    let expected = "the server's certificate is not trusted: ";
    assert!(error.message.starts_with(expected), "{error}");
}

#[tokio::test]
async fn an_authority_may_be_added_to_the_systems() {
    let (address, _) = tls_server();
    let connection = Connection {
        extra_roots: Some(include_bytes!("../data/tls/authority.pem").to_vec()),
        ..Connection::default()
    };
    let client = http::client(&connection).unwrap();
    let model = Anthropic::new(
        "claude-test",
        settings(&format!("https://{address}")),
        client,
    )
    .unwrap();
    let reply = call(&model, &[Message::user("go")], &Heard::default())
        .await
        .unwrap();
    assert_eq!(reply.content, [Block::text("hello there")]);
}
