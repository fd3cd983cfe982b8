//! The program against a Messages API: what it sends, what it says, and that the key stays where it is.

use serde_json::{Value, json};

use crate::model::server::{KEY, Play, Server, message, status};
use crate::sandbox::{Run, Sandbox};

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn sandbox(server: &Server, task: &str) -> Sandbox {
    Sandbox::new()
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", &server.address)
        .file("repo/a.txt", "alpha\n")
        .task(&format!("model: anthropic/claude-haiku-4-5\n{task}"))
}

/// Two turns, a thinking block with a signature, a block type from the future, parallel calls, one of them denied.
fn conversation() -> Vec<Play> {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"});
    let future = json!({"type": "future_block", "z": 1, "a": [2, 3]});
    vec![
        Play::Say(message(
            json!([thinking, {"type": "text", "text": "Both."}, future, call("t1", "Read", &json!({"file_path": "a.txt"})), call("t2", "Bash", &json!({"command": "rm a.txt"}))]),
            "tool_use",
        )),
        Play::Say(message(
            json!([{"type": "text", "text": "One is done."}]),
            "end_turn",
        )),
        Play::Say(message(
            json!([call("t3", "Glob", &json!({"pattern": "*.txt"}))]),
            "tool_use",
        )),
        Play::Say(message(
            json!([{"type": "text", "text": "a.txt"}]),
            "end_turn",
        )),
    ]
}

/// The conversation of every request, rebuilt from the transcript alone.
fn rebuilt(run: &Run) -> Vec<Vec<Value>> {
    let (mut messages, mut results, mut requests) =
        (Vec::new(), std::collections::HashMap::new(), Vec::new());
    for event in run.events("task") {
        match event["type"].as_str().unwrap() {
            "prompt_appended" => messages.push(json!({"role": "user", "content": event["text"]})),
            "step_started" => requests.push(messages.clone()),
            "assistant_replied" => messages.push(event["message"].clone()),
            "tool_finished" => {
                let mut block = json!({"type": "tool_result", "tool_use_id": event["tool_use_id"], "content": event["content"]});
                if event["result"] != "ok" {
                    block["is_error"] = true.into();
                }
                results.insert(event["tool_use_id"].as_str().unwrap().to_owned(), block);
            }
            "results_appended" => {
                let ids = event["tool_use_ids"].as_array().unwrap().iter();
                let blocks: Vec<Value> = ids
                    .map(|id| results[id.as_str().unwrap()].clone())
                    .collect();
                messages.push(json!({"role": "user", "content": blocks}));
            }
            _ => {}
        }
    }
    requests
}

#[test]
fn every_request_can_be_rebuilt_from_the_transcript_streamed_or_not() {
    let mut bodies = Vec::new();
    for args in [
        &["tasks/task.yaml"][..],
        &["tasks/task.yaml", "--no-stream"],
    ] {
        let server = Server::start(conversation());
        let task = "turns: [first, second]\ntools: [Read, Glob, Bash]\npermissions: { on_denied: ignore }\n";
        let run = sandbox(&server, task).call(args).exit(0);
        let requests = server.requests();
        let sent: Vec<Vec<Value>> = requests
            .iter()
            .map(|request| request.body["messages"].as_array().unwrap().clone())
            .collect();
        assert_eq!(sent, rebuilt(&run));
        let started = run.events_of("task", "task_started").remove(0);
        for request in &requests {
            assert_eq!(request.body["system"], started["system"]);
            assert_eq!(request.body["tools"], started["tools"]);
            assert_eq!(request.body["model"], "claude-haiku-4-5");
            assert!(
                request.body.get("previous_response_id").is_none()
                    && request.body.get("container").is_none()
            );
        }
        bodies.push(sent);
    }
    assert_eq!(
        bodies[0], bodies[1],
        "streamed and whole answers give the same conversation"
    );
}

#[test]
fn a_wrong_key_is_one_clear_line_and_infrastructure() {
    let server = Server::start([status(
        401,
        "authentication_error",
        &format!("invalid x-api-key {KEY}"),
    )]);
    let run = sandbox(&server, "").run().exit(3);
    assert_eq!(run.outcome("task"), "auth_error");
    assert!(run.junit().contains("<error type=\"auth_error\""));
    let lines: Vec<String> = run
        .stderr()
        .lines()
        .filter(|line| line.contains("refused the key"))
        .map(str::to_owned)
        .collect();
    assert!(
        lines.iter().all(|line| line.contains("ANTHROPIC_API_KEY")),
        "{lines:?}"
    );
    assert!(!run.everything().contains(KEY));
}

#[test]
fn the_key_reaches_no_child_no_file_and_no_terminal() {
    let echo = |text: &str| json!([{"type": "text", "text": text}]);
    let server = Server::start([
        Play::Say(message(
            json!([call("t1", "Bash", &json!({"command": "env"}))]),
            "tool_use",
        )),
        Play::Say(message(echo(&format!("the key is {KEY}")), "end_turn")),
    ]);
    let task = "tools: [Bash]\npermissions: { allow: [\"Bash(env)\"] }\nchecks:\n  - command: { run: env }\nhooks:\n  PreToolUse: [{ command: [./env.sh] }]\n";
    let run = sandbox(&server, task)
        .program("tasks/env.sh", "#!/bin/sh\nenv >&2\nexit 0\n")
        .run()
        .exit(0);
    let result = &run.events_of("task", "tool_finished")[0];
    assert!(result["content"].as_str().unwrap().contains("PATH="));
    assert!(!run.everything().contains(KEY));
    assert!(
        run.events_of("task", "task_finished")[0]["reply"]
            .as_str()
            .unwrap()
            .contains("the key is ***")
    );
}

#[test]
fn a_task_without_a_key_is_refused_before_anything_runs() {
    let run = Sandbox::new()
        .task("model: anthropic/claude-haiku-4-5\n")
        .run()
        .exit(3);
    assert!(run.stderr().contains("ANTHROPIC_API_KEY"));
    assert!(!run.path("agent-batch-results").exists());
}

#[test]
fn an_endpoint_is_the_operators_word_alone() {
    let server = Server::start([Play::Say(message(
        json!([{"type": "text", "text": "hi"}]),
        "end_turn",
    ))]);
    let sandbox = sandbox(&server, "")
        .env("HTTPS_PROXY", "http://127.0.0.1:1")
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .file(".env", "ANTHROPIC_BASE_URL=http://127.0.0.1:1\n")
        .file("repo/.env", "ANTHROPIC_BASE_URL=http://127.0.0.1:1\n");
    sandbox.run().exit(0);
    assert_eq!(server.requests().len(), 1);
}
