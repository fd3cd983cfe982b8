//! Transcripts of real runs: shown in part, exported, and by the schemas that we publish.

use std::fs;
use std::path::{Path, PathBuf};

use agent_batch::event::Event;
use agent_batch::message::{Message, check_well_formed};
use agent_batch::report::export::{self, Format};
use agent_batch::report::{json, schema};
use serde_json::Value;

use crate::readers::python;
use crate::report::{fold, hostile, readable};
use crate::sandbox::Sandbox;

/// A run of two examples: one that passes with several tools and turns, one that is denied an action.
fn ran() -> Sandbox {
    let sandbox = Sandbox::new();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate::examples::copy(&checkout.join("tasks"), &sandbox.path().join("tasks"));
    let tasks = ["tasks/umbrella.yaml", "tasks/gating/denied.yaml"];
    sandbox.call(&tasks).exit(1);
    sandbox
}

const UMBRELLA: &str = "agent-batch-results/umbrella/1";
const DENIED: &str = "agent-batch-results/denied/1";

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect()
}

/// Leaves the last line of a transcript half written, as a kill does.
fn cut(sandbox: &Sandbox, attempt: &str) {
    let path = sandbox.path().join(attempt).join("transcript.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 20]).unwrap();
}

fn exported(events: &[Event], format: Format) -> String {
    let mut out = Vec::new();
    let events = events.iter().cloned().map(Ok);
    export::write(&mut out, events, format).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn show_picks_steps_tools_denials_and_errors() {
    let sandbox = ran();
    let show = |attempt: &str, args: &[&str]| {
        let args = [&["show", attempt, "--format", "json"], args].concat();
        lines(&sandbox.call(&args).exit(0).stdout())
    };
    let all = show(DENIED, &[]);
    assert_eq!(types(&all).first(), Some(&"task_started"));
    assert_eq!(types(&all).last(), Some(&"task_finished"));
    assert_eq!(
        types(&show(DENIED, &["--denied"])),
        ["tool_decided", "tool_finished"]
    );
    assert_eq!(
        types(&show(DENIED, &["--step", "3", "--tool", "Bash"])),
        ["assistant_replied", "tool_decided", "tool_finished"]
    );
    let steps = show(DENIED, &["--step", "1..2"]);
    let step = |line: &Value| line["step"].as_u64();
    assert!(steps.len() >= 8 && steps.iter().all(|line| matches!(step(line), Some(1 | 2))));
    assert_eq!(show(DENIED, &["--step", "99"]), Vec::<Value>::new());
    assert_eq!(show(UMBRELLA, &["--errors"]), Vec::<Value>::new());
    // Nothing that fits is no answer to be silent about.
    for format in ["text", "json"] {
        let none = sandbox
            .call(&["show", DENIED, "--tool", "Nothing", "--format", format])
            .exit(0);
        assert_eq!(none.stdout(), "");
        let told = "nothing in the transcript is what was looked for";
        assert!(none.stderr().contains(told), "{}", none.stderr());
    }
    let text = sandbox.call(&["show", DENIED, "--denied"]).exit(0).stdout();
    assert!(text.contains("git push --force") && text.contains("to allow it: Bash(git push"));
    assert!(!text.contains("allow Edit"), "{text}");
    for wrong in ["0", "b", "3..1"] {
        sandbox.call(&["show", DENIED, "--step", wrong]).exit(2);
    }
}

#[test]
fn what_is_not_whole_is_shown_as_far_as_it_goes_and_is_no_success() {
    let sandbox = ran();
    cut(&sandbox, DENIED);
    for args in [
        &["show", DENIED][..],
        &["show", DENIED, "--format", "json"],
        &["show", DENIED, "--denied"],
        &["export", DENIED, "--format", "stream-json"],
        &["export", DENIED, "--format", "atif"],
    ] {
        let run = sandbox.call(args).exit(3);
        assert!(run.stderr().contains("unfinished"), "{}", run.stderr());
        assert!(run.stdout().contains("git push"), "{}", run.stdout());
    }
    for args in [
        &["show", "missing.jsonl"][..],
        &["show", "tasks"],
        &["export", "tasks", "--format", "atif"],
    ] {
        sandbox.call(args).exit(2);
    }
}

#[test]
fn a_task_with_one_attempt_is_shown_and_of_a_run_directory_the_attempts_are_listed() {
    let sandbox = ran();
    let (task, _) = DENIED.rsplit_once('/').unwrap();
    let (run, _) = task.rsplit_once('/').unwrap();
    let shown = |path: &str| sandbox.call(&["show", path, "--denied"]);
    assert_eq!(shown(task).exit(0).stdout(), shown(DENIED).exit(0).stdout());
    let listed = shown(run).exit(2);
    for attempt in [DENIED, UMBRELLA] {
        assert!(
            listed.stderr().contains(&format!("`{attempt}`")),
            "{}",
            listed.stderr()
        );
    }
}

#[test]
fn an_export_without_a_format_is_told_which_there_are() {
    let run = ran().call(&["export", DENIED]).exit(2);
    assert!(
        run.stderr().contains("--format <stream-json|atif>"),
        "{}",
        run.stderr()
    );
}

#[test]
fn stream_json_is_a_dialogue_that_the_api_would_take() {
    let sandbox = ran();
    for (attempt, success) in [(UMBRELLA, true), (DENIED, false)] {
        let run = sandbox.call(&["export", attempt, "--format", "stream-json"]);
        let lines = lines(&run.exit(0).stdout());
        let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
        assert_eq!(
            (&first["type"], &first["subtype"]),
            (&"system".into(), &"init".into())
        );
        assert_eq!(last["type"], "result");
        assert_eq!(last["is_error"], !success);
        assert_eq!(last["subtype"] == "success", success);
        let denials = last["permission_denials"].as_array().unwrap();
        assert_eq!(denials.len(), usize::from(!success));
        let messages: Vec<Message> = lines
            .iter()
            .filter(|line| matches!(line["type"].as_str(), Some("user" | "assistant")))
            .map(|line| {
                let message = &line["message"];
                let (role, content) = (&message["role"], &message["content"]);
                serde_json::from_value(serde_json::json!({ "role": role, "content": content }))
                    .unwrap()
            })
            .collect();
        assert!(messages.len() >= 6);
        assert_eq!(check_well_formed(&messages), Ok(()));
        // One chain, so that a viewer of transcripts on disk shows one conversation.
        let mut parent = &Value::Null;
        for line in &lines {
            assert_eq!(&line["parentUuid"], parent);
            assert_eq!(line["session_id"], first["session_id"]);
            parent = &line["uuid"];
        }
    }
    assert_eq!(
        sandbox
            .call(&["export", DENIED, "--format", "stream-json"])
            .stdout(),
        sandbox
            .call(&["export", DENIED, "--format", "stream-json"])
            .stdout(),
        "an export that is made again is the same"
    );
}

#[test]
fn a_public_viewer_opens_the_stream_json() {
    let sandbox = ran();
    let files = [UMBRELLA, DENIED].map(|attempt| {
        let run = sandbox.call(&["export", attempt, "--format", "stream-json"]);
        let path = sandbox.path().join(attempt).with_extension("jsonl");
        fs::write(&path, run.exit(0).stdout()).unwrap();
        path
    });
    let files = [files[0].as_path(), &files[1]];
    if let Some(text) = python("claude_code_transcripts", "viewed_text.py", &files) {
        for shown in ["rain-chance.csv", "帶吧", "git push --force origin main"] {
            assert!(
                text.contains(shown),
                "the viewer does not show `{shown}`: {text}"
            );
        }
    }
}

#[test]
fn atif_documents_are_valid_by_the_published_type() {
    let sandbox = ran();
    let write = |name: &str, text: String| -> PathBuf {
        let path = sandbox.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let call = |attempt: &str, code: i32| {
        let run = sandbox.call(&["export", attempt, "--format", "atif"]);
        run.exit(code).stdout()
    };
    let umbrella = write("umbrella.json", call(UMBRELLA, 0));
    let denied = write("denied.json", call(DENIED, 0));
    cut(&sandbox, DENIED);
    let cut = write("cut.json", call(DENIED, 3));
    let mut files = vec![umbrella, denied, cut];
    for (plan, events) in [readable(), hostile()] {
        for (n, task) in plan.tasks.iter().enumerate() {
            let events: Vec<Event> = events
                .iter()
                .filter(|event| event.task == task.name && event.attempt == 1)
                .cloned()
                .collect();
            if !events.is_empty() {
                files.push(write(&format!("{n}.json"), exported(&events, Format::Atif)));
                // Also without its head.
                files.push(write(
                    &format!("{n}-tail.json"),
                    exported(&events[1..], Format::Atif),
                ));
            }
        }
    }
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let Some(said) = python("harbor.models.trajectories", "atif_steps.py", &files) else {
        return;
    };
    let read: Vec<Value> = serde_json::from_str(&said).unwrap();
    assert_eq!(read.len(), files.len());
    let denied = &read[1];
    assert_eq!(denied["sources"][0], "system");
    assert_eq!(denied["sources"][1], "user");
    assert_eq!(
        denied["calls"].as_array().unwrap().len(),
        denied["answers"].as_array().unwrap().len()
    );
    assert!(denied["calls"].as_array().unwrap().contains(&"Bash".into()));
    assert!(denied["prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(denied["notes"], Value::Null);
    assert!(read[2]["notes"].as_str().unwrap().contains("unfinished"));
}

#[test]
fn hostile_text_comes_through_an_export_unchanged_and_does_nothing_on_the_way() {
    let (_, events) = hostile();
    for format in [Format::StreamJson, Format::Atif] {
        let mut all = String::new();
        let mut tasks: Vec<&str> = events.iter().map(|event| event.task.as_str()).collect();
        tasks.dedup();
        for task in tasks {
            let of: Vec<Event> = events
                .iter()
                .filter(|event| event.task == task)
                .cloned()
                .collect();
            let text = exported(&of, format);
            for line in text.lines() {
                serde_json::from_str::<Value>(line).unwrap();
            }
            all.push_str(&text);
        }
        for obeyed in ["##[", "\n::", "\u{1b}", "\u{202e}", "\u{200b}", "\u{9b}"] {
            assert!(!all.contains(obeyed), "{obeyed:?} in {format:?}");
        }
        assert!(all.contains("\\u202e"), "shown as an escape of JSON");
    }
}

/// Every line and every summary of the run directories is valid by the schemas that the program prints.
#[test]
fn transcripts_and_summaries_are_valid_by_the_published_schemas() {
    let sandbox = ran();
    let printed = |flag: &str| -> Value {
        serde_json::from_str(&sandbox.call(&["schema", flag]).exit(0).stdout()).unwrap()
    };
    let (line, summary) = (printed("--transcript"), printed("--summary"));
    assert_eq!(line, schema::transcript());
    let validator = |schema: &Value| jsonschema::draft202012::new(schema).unwrap();
    let (line, summary) = (validator(&line), validator(&summary));
    let check = |validator: &jsonschema::Validator, value: &Value| {
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?} in {value:#}");
    };
    for attempt in [UMBRELLA, DENIED] {
        let path = sandbox.path().join(attempt).join("transcript.jsonl");
        for value in lines(&fs::read_to_string(path).unwrap()) {
            check(&line, &value);
        }
    }
    let path = sandbox.path().join("agent-batch-results/summary.json");
    check(
        &summary,
        &serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap(),
    );
    for (plan, events) in [readable(), hostile()] {
        for event in &events {
            check(&line, &serde_json::to_value(event).unwrap());
        }
        let report = json::render(&fold(plan, &events)).unwrap();
        check(&summary, &serde_json::from_str(&report).unwrap());
    }
    // They can fail.
    let mut wrong = serde_json::to_value(&readable().1[0]).unwrap();
    assert!(line.is_valid(&wrong));
    wrong["seq"] = "first".into();
    assert!(!line.is_valid(&wrong));
    wrong["seq"] = 0.into();
    wrong["type"] = "never_heard_of".into();
    assert!(!line.is_valid(&wrong));
}
