//! Scripts read and played.

use std::fmt::Write as _;
use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::ModelErrorKind;

/// Keeps what a listener hears.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push(piece.to_owned());
    }

    fn retried(&self, attempt: u32, delay: Duration, reason: &str) {
        let line = format!("try {attempt}, {}ms: {reason}", delay.as_millis());
        self.0.lock().unwrap().push(line);
    }
}

fn model(text: &str) -> Scripted {
    Scripted::new("scripted/s.yaml", Script::parse("s.yaml", text).unwrap())
}

/// A conversation in which `steps` replies were given.
fn conversation(steps: usize, last: &str) -> Vec<Message> {
    let mut messages = Vec::new();
    for step in 0..steps {
        messages.push(Message::user(format!("turn {step}")));
        messages.push(Message::assistant(vec![Block::text("ok")]));
    }
    messages.push(Message::user(last));
    messages
}

async fn play(model: &Scripted, messages: &[Message]) -> (Result<Reply, ModelError>, Vec<String>) {
    let heard = Heard::default();
    let request = Request {
        system: "",
        messages,
        tools: &[],
        max_tokens: 100,
    };
    let reply = model.reply(request, &heard).await;
    (reply, heard.all())
}

async fn step(model: &Scripted, step: usize) -> Reply {
    play(model, &conversation(step, "go")).await.0.unwrap()
}

fn parse_error(text: &str) -> String {
    Script::parse("s.yaml", text).unwrap_err().to_string()
}

#[tokio::test]
async fn the_step_is_read_from_the_conversation_and_nothing_is_kept() {
    let model = model(
        "- text: first\n- tool_calls: [{name: Read, input: {path: a}}, {name: Glob}]\n- text: last\n",
    );
    for _ in 0..2 {
        let second = step(&model, 1).await;
        let calls = Message::assistant(second.content).tool_calls();
        assert_eq!(calls[0].id, "toolu_2_1");
        assert_eq!(
            (calls[1].id.as_str(), &calls[1].input),
            ("toolu_2_2", &json!({}))
        );
        assert_eq!(second.stop_reason.as_deref(), Some("tool_use"));
    }
    assert_eq!(
        step(&model, 2).await.stop_reason.as_deref(),
        Some("end_turn")
    );
}

#[tokio::test]
async fn parts_stand_in_the_order_of_a_real_reply() {
    let reply = step(
        &model("- {text: t, thinking: hm, tool_calls: [{name: Read}]}"),
        0,
    )
    .await;
    let kinds: Vec<&str> = reply.content.iter().map(Block::kind).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
}

#[tokio::test]
async fn stop_reasons_may_be_anything_and_null() {
    let model = model(concat!(
        "- {text: a, stop_reason: future_reason}\n",
        "- {text: b, stop_reason: null}\n",
        "- {stop_reason: refusal, stop_details: {category: cyber}}\n",
        "- {stop_reason: stop_sequence, stop_sequence: END}\n",
    ));
    assert_eq!(
        step(&model, 0).await.stop_reason.as_deref(),
        Some("future_reason")
    );
    assert_eq!(step(&model, 1).await.stop_reason, None);
    assert_eq!(
        step(&model, 2).await.stop_details,
        Some(json!({"category": "cyber"}))
    );
    assert_eq!(step(&model, 3).await.stop_sequence.as_deref(), Some("END"));
}

#[tokio::test]
async fn blocks_come_out_verbatim() {
    let reply = step(&model("- blocks: [{type: future, z: 1, a: [2]}, {type: tool_use, id: x, name: Bash, input: '{broken'}]"), 0).await;
    assert_eq!(
        reply.content[0].value().to_string(),
        r#"{"type":"future","z":1,"a":[2]}"#
    );
    assert_eq!(
        reply.content[1].as_tool_call().unwrap().input,
        json!("{broken")
    );
    assert_eq!(reply.stop_reason.as_deref(), Some("tool_use"));
}

#[tokio::test]
async fn chunks_are_heard_one_by_one_and_make_the_text() {
    let model = model("- chunks: [帶, 吧]\n- text: whole\n");
    let (reply, heard) = play(&model, &conversation(0, "go")).await;
    assert_eq!(
        (reply.unwrap().content, heard),
        (
            vec![Block::text("帶吧")],
            vec!["帶".to_owned(), "吧".to_owned()]
        )
    );
    assert_eq!(play(&model, &conversation(1, "go")).await.1, ["whole"]);
}

#[tokio::test]
async fn usage_is_estimated_unless_the_script_says_it() {
    let model = model(
        "- text: hello\n- {text: hello, usage: {input_tokens: 7, cache_read_input_tokens: 5}}\n",
    );
    let estimated = step(&model, 0).await.usage;
    assert!(estimated.input_tokens > 0 && estimated.output_tokens > 0);
    let said = step(&model, 1).await.usage;
    assert_eq!(
        (
            said.input_tokens,
            said.cache_read_input_tokens,
            said.output_tokens
        ),
        (7, 5, estimated.output_tokens)
    );
}

#[tokio::test]
async fn a_repeated_reply_may_differ_by_its_step() {
    let model = model(
        "- {tool_calls: [{name: Bash, input: {command: 'true {{ step }}'}}], repeat: 2}\n- {text: 'at {{ step }}', repeat: forever}\n",
    );
    for (at, expected) in [(0, "true 1"), (1, "true 2")] {
        let call = step(&model, at).await.content[0].as_tool_call().unwrap();
        assert_eq!(
            (call.input, call.id),
            (json!({"command": expected}), format!("toolu_{}_1", at + 1))
        );
    }
    assert_eq!(step(&model, 99).await.content, [Block::text("at 100")]);
}

#[tokio::test]
async fn a_reply_that_is_not_repeated_keeps_its_braces() {
    assert_eq!(
        step(&model("- text: '{{ step }}'"), 0).await.content,
        [Block::text("{{ step }}")]
    );
}

#[tokio::test]
async fn a_script_that_ran_out_says_so() {
    let (reply, _) = play(&model("- text: only\n"), &conversation(1, "go")).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Script);
    assert_eq!(
        error.message,
        "script `s.yaml`, step 2: the script has no more replies (it holds 1 reply)"
    );
}

#[tokio::test]
async fn an_unmet_expectation_names_the_step_and_what_was_found() {
    let model = model("- text: x\n- {text: y, expect: [fn main, hello]}\n");
    let mut messages = vec![
        Message::user("go"),
        Message::assistant(vec![Block::tool_use(&ToolCall {
            id: "t".into(),
            name: "Read".into(),
            input: json!({}),
        })]),
        Message::results(vec![Block::tool_result(
            "t",
            "fn main() { \"hello\" }",
            false,
        )]),
    ];
    play(&model, &messages).await.0.unwrap();
    messages[2] = Message::results(vec![Block::tool_result("t", "no such file", true)]);
    assert_eq!(
        play(&model, &messages).await.0.unwrap_err().message,
        "script `s.yaml`, step 2: expected the last message to contain `fn main`, found `no such file`"
    );
}

#[tokio::test]
async fn a_conversation_that_the_api_would_refuse_is_refused() {
    let messages = [Message::user("go"), Message::user("again")];
    let error = play(&model("- text: x"), &messages).await.0.unwrap_err();
    assert!(
        error.message.contains("not well formed"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_fault_is_played_through_the_schedule_and_then_the_reply_comes() {
    let model = model(
        "retry_delay: 0s\nreplies:\n- {text: at last, fault: {status: 529, times: 2}}\n- {text: once, fault: cut}\n",
    );
    let (reply, heard) = play(&model, &conversation(0, "go")).await;
    assert_eq!(reply.unwrap().content, [Block::text("at last")]);
    let failed = "the API failed with 529 overloaded_error: `played by the script`";
    assert_eq!(
        heard,
        [
            format!("try 1, 0ms: {failed}"),
            format!("try 2, 0ms: {failed}"),
            "at last".to_owned()
        ]
    );
    assert_eq!(play(&model, &conversation(1, "go")).await.1.len(), 2);
}

#[tokio::test]
async fn a_fault_without_a_reply_uses_up_all_tries() {
    for fault in ["429", "500", "cut", "truncate", "stall", "overloaded"] {
        let model = model(&format!("retry_delay: 0s\nreplies: [{{fault: {fault}}}]"));
        let (reply, heard) = play(&model, &conversation(0, "go")).await;
        let error = reply.unwrap_err();
        assert_eq!(
            (error.kind, heard.len()),
            (ModelErrorKind::Api, 9),
            "{fault}"
        );
        assert!(
            error.message.ends_with("gave up after 10 tries"),
            "{}",
            error.message
        );
        assert!(error.message.starts_with("script `s.yaml`, step 1: "));
    }
}

#[tokio::test]
async fn faults_that_repeat_themselves_end_the_call_at_once() {
    use ModelErrorKind::{Api, Auth, TooLarge};
    for (fault, kind) in [
        ("401", Auth),
        ("400", Api),
        ("404", Api),
        ("413", TooLarge),
        ("prompt_too_long", TooLarge),
        ("spend_limit", Api),
    ] {
        let (reply, heard) =
            play(&model(&format!("- fault: {fault}")), &conversation(0, "go")).await;
        assert_eq!((reply.unwrap_err().kind, heard.len()), (kind, 0), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_and_delays_are_those_that_a_server_would_cause() {
    let model = model(
        "- {text: x, delay: 3s, fault: {status: 429, retry_after: 7, times: 1}}\n- {text: y, fault: {kind: stall, times: 2}}\n",
    );
    let began = tokio::time::Instant::now();
    let (_, heard) = play(&model, &conversation(0, "go")).await;
    assert!(heard[0].starts_with("try 1, 7000ms: "));
    assert_eq!(began.elapsed().as_secs(), 10);
    let (_, heard) = play(&model, &conversation(1, "go")).await;
    assert!(heard[0].starts_with("try 1, 500ms: the API sent nothing for 2m"));
    assert!(heard[1].starts_with("try 2, 1000ms: "));
}

#[test]
fn a_script_costs_nothing_unless_it_names_a_price() {
    let facts = model("- text: x").facts().unwrap();
    assert_eq!((facts.price.input, facts.price.output), (0, 0));
    let facts = model("price: {input: 3, output: 15}\ncontext_window: 1000\nreplies: [{text: x}]")
        .facts()
        .unwrap();
    let price = facts.price;
    assert_eq!(
        (
            price.input,
            price.cache_write,
            price.cache_read,
            price.output
        ),
        (3000, 3750, 300, 15_000)
    );
    assert_eq!(facts.context_window, 1000);
}

#[test]
fn jsonl_holds_one_reply_a_line() {
    let script = Script::parse(
        "s.jsonl",
        "{\"text\":\"a\"}\n\n{\"text\":\"b\",\"repeat\":3}\n",
    )
    .unwrap();
    assert_eq!(script.steps(), 4);
    let error =
        Script::parse("s.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\",\"txet\":1}\n").unwrap_err();
    assert_eq!(error.place.map(|(line, _)| line), Some(2));
    assert!(error.to_string().starts_with("s.jsonl:2:"), "{error}");
    assert!(error.message.contains("unknown field `txet`") && !error.message.contains("at line"));
}

#[test]
fn errors_stand_at_their_place() {
    let message = parse_error("- text: a\n- txt: b\n");
    assert!(message.starts_with("s.yaml:2:3: "), "{message}");
    assert!(message.contains("unknown field `txt`"), "{message}");
    for (text, line, part) in [
        ("replies:\n- text: [1]\n", 2, "expected a string"),
        ("replies:\n- text: a\n  text: b\n", 2, "duplicate"),
        (
            "- text: a\n- {text: b, repeat: 0}\n",
            2,
            "a number of steps from 1 or `forever`",
        ),
        (
            "- text: a\n- {text: b, fault: 200}\n",
            2,
            "a status from 400 to 599",
        ),
        (
            "- text: a\n- {text: b, fault: hiccup}\n",
            2,
            "found `hiccup`",
        ),
        (
            "- text: a\n- {text: b, delay: soon}\n",
            2,
            "expected a time such as `200ms`",
        ),
        (
            "- text: a\n- {text: b, blocks: []}\n",
            2,
            "`blocks` is the whole reply",
        ),
        (
            "- text: a\n- {text: ab, chunks: [a, c]}\n",
            2,
            "`chunks` joined give `ac`",
        ),
        ("- text: a\n- {}\n", 2, "a reply says nothing"),
        (
            "- text: a\n- {tool_calls: [{nmae: Read}]}\n",
            2,
            "unknown field `nmae`",
        ),
        ("retry: 1\nreplies: []\n", 1, "unknown field `retry`"),
        (
            "just text\n",
            1,
            "a list of replies, or a map with `replies`",
        ),
        ("- text: 'a\n", 2, "quoted scalar at line 1"),
    ] {
        let message = parse_error(text);
        assert!(
            message.starts_with(&format!("s.yaml:{line}:")),
            "{text:?}: {message}"
        );
        assert!(message.contains(part), "{text:?}: {message}");
    }
}

#[test]
fn a_script_that_cannot_be_played_is_refused() {
    assert!(parse_error("[]").contains("at least one reply"));
    assert!(
        parse_error("- {text: a, repeat: forever}\n- text: never\n")
            .contains("would never be given")
    );
}

#[test]
fn a_missing_file_and_a_huge_one_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.yaml");
    assert!(
        Script::load(&path)
            .unwrap_err()
            .message
            .contains("cannot be read")
    );
    std::fs::write(&path, "#".repeat(5 * 1024 * 1024)).unwrap();
    assert!(
        Script::load(&path)
            .unwrap_err()
            .message
            .contains("larger than")
    );
    std::fs::write(&path, "- text: hi\n").unwrap();
    assert_eq!(Script::load(&path).unwrap().steps(), 1);
}

#[test]
fn a_bomb_of_aliases_does_not_go_off() {
    let mut text =
        String::from("- text: x\n  stop_details:\n    a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        writeln!(
            text,
            "    a{level}: &a{level} [{}]",
            [alias.as_str(); 9].join(", ")
        )
        .unwrap();
    }
    assert!(Script::parse("s.yaml", &text).is_err());
}

#[test]
fn the_example_of_the_documentation_is_a_script() {
    let source = include_str!("script.rs");
    let example = source.split("//! ```").nth(1).unwrap();
    let lines = example.lines().skip(1);
    let yaml: Vec<&str> = lines.map(|line| line.trim_start_matches("//!")).collect();
    let yaml = yaml.join("\n");
    assert_eq!(
        Script::parse("doc.yaml", &yaml).unwrap().steps(),
        usize::MAX
    );
}

proptest! {
    #[test]
    fn no_text_is_a_panic(
        lines in proptest::collection::vec(
            ("(- |  |)(text|blocks|fault|repeat|tool_calls|expect|usage|delay|chunks|replies)", "(: |:)(a|1|-1|null|\\[\\]|\\{\\}|\\[\\{|forever|cut|.{0,5})"),
            0..6,
        ),
    ) {
        let lines: Vec<String> = lines.iter().map(|(key, value)| format!("{key}{value}")).collect();
        let text = lines.join("\n");
        let _ = Script::parse("s.yaml", &text);
        let _ = Script::parse("s.jsonl", &text);
    }
}
