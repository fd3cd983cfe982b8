//! A fake of the Messages API on the loopback interface, which plays what a test tells it and holds every request to the
//! protocol's rules.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The key that requests must bring.
pub(crate) const KEY: &str = "sk-test-0123456789";

/// What the server does with the next request.
#[derive(Debug, Clone)]
pub(crate) enum Play {
    /// Answers with this message, streamed or whole as the request wants it.
    Say(Value),
    /// Answers with a status, headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Begins to say the message and fails.
    Break(Break, Value),
    /// Sends these bytes as the body of a stream.
    Stream(String),
}

/// How an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// The connection closes before any byte.
    BeforeAnswer,
    /// The connection closes in mid-answer.
    Cut,
    /// The body ends properly, but the message does not.
    Truncate,
    /// Half an answer, then silence.
    Stall,
    /// Half an answer, then pings.
    StallWithPings,
    /// No byte at all.
    Hang,
    /// Half an answer, then an `error` event.
    ErrorEvent,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// Whether the answer was whole, so that the next request must go on from it.
    pub(crate) answered: bool,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The server; it lives as long as the test's process.
pub(crate) struct Server {
    pub(crate) address: String,
    received: Arc<Mutex<Vec<Received>>>,
    count: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server that plays one thing after the other, and after the last one refuses.
    pub(crate) fn start(plays: impl IntoIterator<Item = Play>) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        let mut plays = plays.into_iter().collect::<Vec<_>>().into_iter();
        let server = Self::listening(move |stream| {
            let Some(mut request) = read(&stream) else {
                return;
            };
            let play = plays
                .next()
                .unwrap_or_else(|| refuse("the script of the fake server has ended"));
            request.answered = matches!(play, Play::Say(_));
            let streaming = request.body["stream"] == true;
            kept.lock().unwrap().push(request);
            // A stalled connection must not keep the next one waiting.
            thread::spawn(move || answer(stream, &play, streaming));
        });
        Self { received, ..server }
    }

    /// Starts a server that answers each request on its own thread, as many conversations at the same time as there are. It
    /// keeps only how many requests came.
    pub(crate) fn answering(play: impl Fn(&Received) -> Play + Send + Sync + 'static) -> Self {
        let play = Arc::new(play);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = Self::listening(move |stream| {
            let (play, counted) = (Arc::clone(&play), Arc::clone(&counted));
            thread::spawn(move || {
                let Some(request) = read(&stream) else {
                    return;
                };
                counted.fetch_add(1, Ordering::SeqCst);
                let streaming = request.body["stream"] == true;
                answer(stream, &play(&request), streaming);
            });
        });
        Self { count, ..server }
    }

    fn listening(mut serve: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap());
            }
        });
        Self {
            address,
            received: Arc::default(),
            count: Arc::default(),
        }
    }

    /// How many requests came.
    pub(crate) fn received(&self) -> usize {
        self.count.load(Ordering::SeqCst) + self.received.lock().unwrap().len()
    }

    /// Everything that a server with a script received, after the rules were checked on it.
    pub(crate) fn requests(&self) -> Vec<Received> {
        let received = self.received.lock().unwrap().clone();
        check_invariants(&received);
        received
    }
}

fn refuse(message: &str) -> Play {
    let body =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    Play::Status(400, Vec::new(), body.to_string())
}

/// An error of the API.
pub(crate) fn status(status: u16, kind: &str, message: &str) -> Play {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_body"});
    Play::Status(status, Vec::new(), body.to_string())
}

/// A message with these blocks.
pub(crate) fn message(content: Value, stop_reason: &str) -> Value {
    let mut message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": null,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 11, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 7},
    });
    message["content"] = content;
    message
}

fn read(stream: &TcpStream) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")?
        .1
        .parse()
        .ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Received {
        line: line.trim_end().to_owned(),
        headers,
        body: serde_json::from_slice(&body).ok()?,
        answered: false,
    })
}

fn answer(mut stream: TcpStream, play: &Play, streaming: bool) {
    // The client may hang up at any point; that is its right.
    let _ = match play {
        Play::Say(message) if streaming => {
            let events: String = events(message).concat();
            send_stream(&mut stream, &events).and_then(|()| end_stream(&mut stream))
        }
        Play::Say(message) => send(&mut stream, 200, &[], &message.to_string()),
        Play::Status(status, headers, body) => send(&mut stream, *status, headers, body),
        Play::Stream(body) => send_stream(&mut stream, body).and_then(|()| end_stream(&mut stream)),
        Play::Break(how, message) if streaming => break_stream(&mut stream, *how, message),
        Play::Break(how, message) => break_whole(&mut stream, *how, message),
    };
}

fn send(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &str,
) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\nrequest-id: req_head\r\n"
    )?;
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "content-length: {}\r\n\r\n{body}", body.len())
}

const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\nrequest-id: req_head\r\ntransfer-encoding: chunked\r\n\r\n";

/// Sends a stream without its end, in pieces of an awkward size (of a decent one where there is much).
fn send_stream(stream: &mut TcpStream, body: &str) -> std::io::Result<()> {
    stream.write_all(STREAM_HEAD.as_bytes())?;
    let size = if body.len() > 100_000 { 65_521 } else { 37 };
    for piece in body.as_bytes().chunks(size) {
        send_piece(stream, piece)?;
    }
    Ok(())
}

fn send_piece(stream: &mut TcpStream, piece: &[u8]) -> std::io::Result<()> {
    write!(stream, "{:x}\r\n", piece.len())?;
    stream.write_all(piece)?;
    stream.write_all(b"\r\n")
}

fn end_stream(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"0\r\n\r\n")
}

fn break_stream(stream: &mut TcpStream, how: Break, message: &Value) -> std::io::Result<()> {
    let events = events(message);
    let half: String = events[..events.len() / 2].concat();
    match how {
        Break::BeforeAnswer => Ok(()),
        Break::Hang => wait_for_hang_up(stream),
        Break::Cut => send_stream(stream, &half),
        Break::Truncate => send_stream(stream, &half).and_then(|()| end_stream(stream)),
        Break::Stall => send_stream(stream, &half).and_then(|()| wait_for_hang_up(stream)),
        Break::StallWithPings => {
            send_stream(stream, &half)?;
            loop {
                send_piece(stream, b"event: ping\ndata: {\"type\": \"ping\"}\n\n")?;
                thread::sleep(Duration::from_millis(2));
            }
        }
        Break::ErrorEvent => {
            let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
            send_stream(stream, &format!("{half}event: error\ndata: {error}\n\n"))
                .and_then(|()| end_stream(stream))
        }
    }
}

fn break_whole(stream: &mut TcpStream, how: Break, message: &Value) -> std::io::Result<()> {
    let body = message.to_string();
    let half = &body[..body.len() / 2];
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    match how {
        Break::BeforeAnswer => Ok(()),
        Break::Hang | Break::StallWithPings => wait_for_hang_up(stream),
        Break::Cut => stream.write_all(format!("{head}{half}").as_bytes()),
        Break::Truncate => send(stream, 200, &[], half),
        Break::Stall => {
            stream.write_all(format!("{head}{half}").as_bytes())?;
            wait_for_hang_up(stream)
        }
        Break::ErrorEvent => send(
            stream,
            200,
            &[],
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ),
    }
}

fn wait_for_hang_up(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read(&mut [0; 1]).map(drop)
}

/// The events of a message. Text, thinking and tool input come in pieces, and pings and an unknown event in between. Tool
/// input that is a string is sent as it stands, broken or not.
fn events(message: &Value) -> Vec<String> {
    let event = |data: Value| {
        format!(
            "event: {}\r\ndata: {data}\r\n\r\n",
            data["type"].as_str().unwrap()
        )
    };
    let mut begun = message.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = json!(1);
    let mut events = vec![
        event(json!({"type": "message_start", "message": begun})),
        event(json!({"type": "ping"})),
    ];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let (start, deltas) = pieces_of(block);
        events.push(event(
            json!({"type": "content_block_start", "index": index, "content_block": start}),
        ));
        events.push(event(json!({"type": "future_event", "index": index})));
        for delta in deltas {
            events.push(event(
                json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ));
        }
        events.push(event(json!({"type": "content_block_stop", "index": index})));
    }
    let mut delta =
        json!({"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]});
    if let Some(details) = message.get("stop_details") {
        delta["stop_details"] = details.clone();
    }
    let usage = json!({"output_tokens": message["usage"]["output_tokens"]});
    events.push(event(
        json!({"type": "message_delta", "delta": delta, "usage": usage}),
    ));
    events.push(event(json!({"type": "message_stop"})));
    events
}

fn pieces_of(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    let mut split = |text: &str, kind: &str, key: &str| {
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(3) {
            deltas.push(json!({"type": kind, key: piece.iter().collect::<String>()}));
        }
    };
    match block["type"].as_str().unwrap() {
        "text" => {
            split(block["text"].as_str().unwrap(), "text_delta", "text");
            start["text"] = json!("");
        }
        "thinking" => {
            split(
                block["thinking"].as_str().unwrap(),
                "thinking_delta",
                "thinking",
            );
            start["thinking"] = json!("");
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
            start["signature"] = json!("");
        }
        "tool_use" => {
            let raw = match &block["input"] {
                Value::String(raw) => raw.clone(),
                Value::Object(fields) if fields.is_empty() => String::new(),
                input => input.to_string(),
            };
            split(&raw, "input_json_delta", "partial_json");
            start["input"] = json!({});
        }
        _ => {}
    }
    (start, deltas)
}

/// What must hold for all requests of one conversation.
fn check_invariants(received: &[Received]) {
    for request in received {
        assert_eq!(request.line, "POST /v1/messages HTTP/1.1");
        assert_eq!(request.header("x-api-key"), Some(KEY));
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        check_body(&request.body);
    }
    for pair in received.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        for key in ["model", "system", "tools", "cache_control", "stream"] {
            assert_eq!(
                before.body[key].to_string(),
                after.body[key].to_string(),
                "`{key}` changed"
            );
        }
        if before.answered {
            let (old, new) = (before.messages(), after.messages());
            assert!(new.len() > old.len(), "nothing was added after an answer");
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                assert_eq!(old.to_string(), new.to_string(), "message {index} changed");
            }
        } else {
            assert_eq!(
                before.body.to_string(),
                after.body.to_string(),
                "a retry is not the same request"
            );
        }
    }
}

fn check_body(body: &Value) {
    for key in [
        "temperature",
        "top_p",
        "top_k",
        "container",
        "previous_response_id",
    ] {
        assert!(body.get(key).is_none(), "`{key}` must not be sent");
    }
    assert!(body["max_tokens"].as_u64().unwrap() > 0);
    for tool in body["tools"].as_array().into_iter().flatten() {
        assert!(
            tool.get("type").is_none_or(|kind| kind == "custom"),
            "a tool of the server: {tool}"
        );
    }
    let mut open: Vec<String> = Vec::new();
    for (index, message) in body["messages"].as_array().unwrap().iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(
            message["role"], role,
            "roles do not alternate at message {index}"
        );
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let texts = |kind: &str, key: &str| -> Vec<String> {
            let found = blocks.iter().filter(|block| block["type"] == kind);
            found
                .map(|block| block[key].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(
            texts("tool_result", "tool_use_id"),
            open,
            "message {index} does not answer the calls before it"
        );
        open = texts("tool_use", "id");
        for block in &blocks {
            assert!(
                block["type"] != "text" || !block["text"].as_str().unwrap().trim().is_empty(),
                "blank text"
            );
            assert!(
                block["type"] != "tool_use" || block["input"].is_object(),
                "tool input is no object"
            );
        }
        assert!(
            message["content"].is_string() || !blocks.is_empty(),
            "message {index} is empty"
        );
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}
