//! Checks as their users meet them: an agent that did something, a verdict, and reports that say why.

use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

/// A task with these checks and lines, in a repository with a program and its test.
fn project(task: &str) -> Sandbox {
    Sandbox::new()
        .program("repo/tests/run.sh", "#!/bin/sh\ngrep -q right answer\n")
        .file("repo/answer", "wrong\n")
        .task(&format!("permissions: {{ mode: acceptEdits }}\n{task}"))
}

fn checks(run: &Run) -> Vec<Value> {
    run.events_of("task", "check_finished")
}

fn results(run: &Run) -> Vec<String> {
    let found = checks(run);
    let results = found.iter().map(|check| check["result"].as_str().unwrap());
    results.map(str::to_owned).collect()
}

fn message(run: &Run, index: usize) -> String {
    checks(run)[index]["message"].as_str().unwrap().to_owned()
}

/// Reads a file, then replaces it.
fn writes(path: &str, content: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    format!(
        "- tool_calls: [{{ name: Read, input: {{ file_path: {path} }} }}]\n\
         - tool_calls: [{{ name: Write, input: {{ file_path: {path}, content: {content} }} }}]\n"
    )
}

const FROM_BASE: &str =
    "checks:\n  - command: { run: sh tests/run.sh, from: base, files: [\"tests/**\"] }\n";

#[test]
fn an_agent_that_edits_the_test_to_make_it_pass_fails_and_the_report_names_the_file() {
    let script = writes("tests/run.sh", "#!/bin/sh\nexit 0\n") + "- text: All tests pass now.\n";
    let run = project(FROM_BASE).script(&script).run().exit(1);
    assert_eq!(run.outcome("task"), "check_failed");
    assert_eq!(
        message(&run, 0),
        "exit code 1, expected 0; the agent changed `tests/run.sh`, which this check takes from base"
    );
    for report in [run.junit(), run.stdout()] {
        assert!(report.contains("the agent changed"), "{report}");
        assert!(report.contains("tests/run.sh"), "{report}");
    }
    // The agent's own tree is as it left it: nothing was put back there.
    assert!(run.read("repo/tests/run.sh").contains("exit 0"));
}

#[test]
fn without_the_base_the_same_agent_would_have_passed() {
    let script = writes("tests/run.sh", "#!/bin/sh\nexit 0\n") + "- text: done\n";
    project("checks:\n  - command: { run: sh tests/run.sh }\n")
        .script(&script)
        .run()
        .exit(0);
}

#[test]
fn an_agent_that_does_the_work_passes_and_its_edits_of_tests_are_still_named() {
    let right = writes("answer", "right\n") + "- text: done\n";
    let run = project(FROM_BASE).script(&right).run().exit(0);
    assert_eq!(message(&run, 0), "");
    let both = writes("answer", "right\n")
        + "- tool_calls: [{ name: Write, input: { file_path: tests/more.sh, content: \"exit 1\" } }]\n\
           - text: done\n";
    let run = project(FROM_BASE).script(&both).run().exit(0);
    let message = message(&run, 0);
    assert!(message.contains("`tests/more.sh`"), "{message}");
}

#[test]
fn a_base_that_has_none_of_the_files_is_an_error_also_under_not() {
    let task =
        "checks:\n  - not: { command: { run: \"false\", from: base, files: [\"spec/**\"] } }\n";
    let run = project(task).script("- text: done\n").run().exit(3);
    assert_eq!(run.outcome("task"), "check_error");
    let message = message(&run, 0);
    assert!(message.contains("measure nothing"), "{message}");
}

#[test]
fn every_kind_gives_its_answer_and_says_why_in_one_line() {
    let task = r#"checks:
  - file: { path: answer, contains: right }
  - file: { path: answer, absent: true }
  - file: { path: out.json, json: { /ok: true }, schema: { required: [ok] } }
  - changed: { only: [answer], max_files: 2, max_lines: 3 }
  - reply: { schema: { type: object, required: [done] } }
  - command: { run: "echo out; echo err >&2", stdout: { contains: out, not_contains: err }, stderr: { matches: "^err" } }
  - calls: { required: ["Edit(answer)"], forbidden: [Bash], order: [Read, Write] }
  - calls: { count: [{ call: Write, at_most: 0 }] }
  - steps: { at_most: 4, at_least: 3 }
  - tokens: { at_most: 1 }
  - time: { at_most: 1h }
  - cost: { at_most: 0.01 }
  - any: [{ reply: { contains: never } }, { file: { path: answer } }]
  - all: [{ file: { path: answer } }, { not: { file: { path: answer } } }]
"#;
    let script = writes("answer", "right\n")
        + "- tool_calls: [{ name: Write, input: { file_path: out.json, content: '{\"ok\": true}' } }]\n\
           - text: '{\"done\": 1}'\n";
    let run = project(task).script(&script).run().exit(1);
    assert_eq!(
        results(&run),
        [
            "passed", "failed", "passed", "failed", "passed", "passed", "passed", "failed",
            "passed", "failed", "passed", "passed", "passed", "failed"
        ],
        "{:#?}",
        checks(&run)
    );
    for check in checks(&run) {
        let message = check["message"].as_str().unwrap();
        assert_eq!(message.lines().count(), usize::from(!message.is_empty()));
        assert!(
            check["result"] == "passed" || !message.is_empty(),
            "{check}"
        );
    }
    let details = checks(&run)[13]["details"].as_str().unwrap().to_owned();
    let begin = "passed: file `answer` exists\nfailed: not: ";
    assert!(details.starts_with(begin), "{details}");
}

#[test]
fn a_structured_answer_is_taken_validated_stored_and_looked_at() {
    let task = "tools: [Read]\npermissions: { mode: strict }\n\
        output_schema: { type: object, properties: { severity: { enum: [low, high] } }, required: [severity] }\n\
        checks:\n  - output: { json: { /severity: high } }\n";
    let sandbox = Sandbox::new().task(task).script(
        "- tool_calls: [{ name: StructuredOutput, input: { severity: middle } }]\n\
         - tool_calls: [{ name: StructuredOutput, input: { severity: high } }]\n  expect: [\"expected one of\"]\n\
         - text: done\n",
    );
    let run = sandbox.run().exit(0);
    let answer = run.read("agent-batch-results/task/1/output.json");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer, serde_json::json!({"severity": "high"}));
    let low = Sandbox::new().task(task).script(
        "- tool_calls: [{ name: StructuredOutput, input: { severity: low } }]\n- text: done\n",
    );
    let run = low.run().exit(1);
    let message = message(&run, 0);
    assert!(
        message.contains("`\"low\"` at `/severity`, expected `\"high\"`"),
        "{message}"
    );
}

#[test]
fn an_answer_that_was_promised_and_not_given_fails_without_being_asked_for() {
    let task = "tools: []\noutput_schema: { type: object }\n";
    let run = Sandbox::new()
        .task(task)
        .script("- text: '{\"severity\": \"low\"}'\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "check_failed");
    assert!(run.junit().contains("did not call `StructuredOutput`"));
}

#[test]
fn without_an_output_schema_there_is_no_such_tool() {
    let run = Sandbox::new()
        .task("tools: []\n")
        .script("- tool_calls: [{ name: StructuredOutput, input: {} }]\n- text: done\n  expect: [There is no tool]\n")
        .run()
        .exit(0);
    assert!(!run.path("agent-batch-results/task/1/output.json").exists());
}

#[test]
fn a_denial_that_is_expected_does_not_fail_the_task_and_any_other_does() {
    let task = "tools: [Bash]\nchecks:\n  - denials: { expected: [\"Bash(git push:*)\"] }\n";
    let push = "- tool_calls: [{ name: Bash, input: { command: git push } }]\n";
    let remove = "- tool_calls: [{ name: Bash, input: { command: rm -rf x } }]\n";
    let run = |script: String| Sandbox::new().task(task).script(&script).run();

    let expected = run(format!("{push}- text: done\n")).exit(0);
    assert_eq!(expected.outcome("task"), "completed");
    let denials = &expected.summary()["tasks"][0]["denials"];
    assert_eq!(denials["items"][0]["expected"], true);

    let other = run(format!("{push}{remove}- text: done\n")).exit(1);
    assert_eq!(other.outcome("task"), "denied");
    let summary = other.summary();
    let message = summary["tasks"][0]["message"].as_str().unwrap();
    assert!(message.contains("rm"), "{message}");

    let none = run("- text: done\n".to_owned()).exit(1);
    assert_eq!(none.outcome("task"), "check_failed");
    assert!(none.junit().contains("was not tried"));
}

#[test]
fn an_id_that_comes_again_excuses_nothing() {
    let task = "tools: [Bash]\nchecks:\n  - denials: { expected: [\"Bash(git push:*)\"] }\n";
    let run = Sandbox::new()
        .task(task)
        .script(
            "- tool_calls: [{ id: same, name: Bash, input: { command: git push } }]\n\
             - tool_calls: [{ id: same, name: Bash, input: { command: rm -rf x } }]\n\
             - text: done\n",
        )
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "denied");
}

const JUDGED: &str = "checks:\n  - reply: { contains: done }\n  - judge: { model: scripted/judge.yaml, rubric: Is it short?, threshold: 0.5 }\n";

#[test]
fn a_judge_passes_or_fails_by_its_score_and_its_price_counts() {
    let judge = |score: &str| {
        format!(
            "price: {{ input: 1000, output: 1000 }}\nreplies:\n  - text: '{{\"score\": {score}, \"reason\": \"it is short\"}}'\n"
        )
    };
    let sandbox = |score: &str| {
        Sandbox::new()
            .task(JUDGED)
            .script("- text: done\n")
            .file("tasks/judge.yaml", judge(score))
    };
    let run = sandbox("0.9").run().exit(0);
    assert_eq!(message(&run, 1), "score 0.9, threshold 0.5: it is short");
    let spent = &checks(&run)[1]["spent"]["cost_usd"];
    assert!(spent.as_f64().unwrap() > 0.0);
    // The task itself was free.
    assert_eq!(&run.summary()["tasks"][0]["cost_usd"], spent);
    let run = sandbox("0.1").run().exit(1);
    assert_eq!(run.outcome("task"), "check_failed");
}

#[test]
fn a_judge_that_says_something_else_is_an_error_and_no_pass() {
    let run = Sandbox::new()
        .task(JUDGED)
        .script("- text: done\n")
        .file("tasks/judge.yaml", "- text: I give it 10 of 10.\n")
        .run()
        .exit(3);
    assert_eq!(run.outcome("task"), "check_error");
}

#[test]
fn a_task_that_only_a_judge_decides_on_gets_a_warning() {
    let judge = "judge: { model: scripted/judge.yaml, rubric: r }";
    for (lines, is_warned) in [
        (format!("checks:\n  - {judge}\n"), true),
        (format!("checks:\n  - any: [{{ {judge} }}]\n"), true),
        (
            format!("checks:\n  - {judge}\n  - steps: {{ at_most: 5 }}\n"),
            false,
        ),
    ] {
        let run = Sandbox::new()
            .task(&lines)
            .script("- text: done\n")
            .file(
                "tasks/judge.yaml",
                "- text: '{\"score\": 1, \"reason\": \"r\"}'\n",
            )
            .run()
            .exit(0);
        let warned = run.stderr().contains("a model's opinion");
        assert_eq!(warned, is_warned, "{lines}");
    }
}

#[test]
fn every_mistake_has_its_line_before_the_first_model_call() {
    let task = r#"output_schema: { type: array }
checks:
  - file: { path: ../out, matches: "(" }
  - calls: { only: ["bash(x)"] }
  - any:
      - reply: { contains: "" }
      - not: { command: { run: "", from: base } }
  - all: []
  - not: { denials: { expected: [Read] } }
  - judge: { model: nowhere/x, rubric: "", threshold: 2 }
  - time: { at_most: 10 }
"#;
    let run = Sandbox::new()
        .task(task)
        .script("- text: never\n")
        .run()
        .exit(2);
    let said = run.stderr();
    for (line, words) in [
        (1, "is not of `\"type\": \"object\"`"),
        (3, "leaves the workspace"),
        (3, "not a regular expression"),
        (4, "tool names are case sensitive"),
        (6, "`contains` is empty"),
        (7, "the command is empty"),
        (7, "does not say which files"),
        (8, "the group is empty"),
        (9, "cannot stand in a group"),
        (10, "the rubric is empty"),
        (10, "expected a threshold"),
        (11, "a span of time with a unit"),
    ] {
        assert!(said.contains(words), "{words}\n{said}");
        // Model, prompt and workspace stand above.
        let place = format!("task.yaml:{}:", line + 3);
        assert!(said.contains(&place), "{place} {words}\n{said}");
    }
}
