//! Tests of the command check.

use std::fs;

use super::super::context::fixture::{Place, world};
use super::judge::tail;
use super::variables::with_variables;
use super::*;
use crate::event::CheckResult;
use crate::proc::{Captured, Ending, Finished};

fn spec(json: serde_json::Value) -> CommandSpec {
    serde_json::from_value(json).unwrap()
}

fn command(json: serde_json::Value) -> Command {
    let spec = spec(json);
    let mut problems = Vec::new();
    let apart = spec.stdout.is_some() || spec.stderr.is_some();
    let command = Command {
        script: spec.run,
        variables: BTreeMap::new(),
        timeout: DEFAULT_TIMEOUT,
        expect_exit: spec.expect_exit.unwrap_or(0),
        output: Words::new(
            spec.contains,
            spec.not_contains,
            spec.matches,
            &mut problems,
        ),
        apart,
        stdout: Stream::new("stdout", spec.stdout, Path::new("/"), &mut problems),
        stderr: Stream::new("stderr", spec.stderr, Path::new("/"), &mut problems),
        base: Globs::new("files", &spec.files.unwrap_or_default(), &mut problems),
    };
    assert_eq!(problems, []);
    command
}

fn finished(ending: Ending, text: &str) -> Finished {
    let stdout = Captured {
        text: text.to_owned(),
        bytes: text.len() as u64,
        spilled: None,
    };
    Finished {
        ending,
        stdout,
        stderr: Captured::default(),
        leaked: 0,
        left: Vec::new(),
    }
}

#[test]
fn the_exit_code_decides_and_the_message_has_the_output_s_end() {
    let check = command(serde_json::json!({"run": "make"}));
    assert_eq!(
        check.judge(&finished(Ending::Exited(0), "ok"), &|_| true),
        Finding::passed()
    );
    assert_eq!(
        check.judge(&finished(Ending::Exited(2), "a\nb\n"), &|_| true),
        Finding::failed("exit code 2, expected 0\na\nb")
    );
    let odd = command(serde_json::json!({"run": "false", "expect_exit": 1}));
    assert_eq!(
        odd.judge(&finished(Ending::Exited(1), ""), &|_| true)
            .result,
        CheckResult::Passed
    );
    let silent = odd.judge(&finished(Ending::Exited(0), ""), &|_| true);
    assert_eq!(silent.message, "exit code 0, expected 1");
    assert_eq!(silent.details, "there was no output");
}

#[test]
fn a_time_limit_fails_and_names_the_limit_while_an_interruption_is_no_finding() {
    let check = command(serde_json::json!({"run": "sleep 9999"}));
    let late = check.judge(&finished(Ending::TimedOut, ""), &|_| true);
    assert_eq!((late.result, late.decisive), (CheckResult::Failed, false));
    assert!(
        late.message.contains("time limit of 10m"),
        "{}",
        late.message
    );
    let cancelled = check.judge(&finished(Ending::Cancelled, ""), &|_| true);
    assert_eq!(cancelled.result, CheckResult::Errored);
    let killed = check.judge(&finished(Ending::Signaled(9), ""), &|_| true);
    assert!(killed.message.contains("signal 9"));
}

#[test]
fn the_output_must_match_when_the_task_says_so() {
    let check = command(serde_json::json!({"run": "t", "matches": "[0-9]+ passed"}));
    assert_eq!(
        check.judge(&finished(Ending::Exited(0), "12 passed"), &|_| true),
        Finding::passed()
    );
    assert_eq!(
        check
            .judge(&finished(Ending::Exited(0), "none passed"), &|_| true)
            .result,
        CheckResult::Failed
    );
}

#[test]
fn the_tail_is_bounded_in_lines_and_characters() {
    let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    let lines = lines.join("\n");
    assert_eq!(tail(&lines).lines().count(), 20);
    assert!(tail(&lines).ends_with("line 99"));
    assert_eq!(tail(&"é".repeat(5000)).chars().count(), 2000);
    assert_eq!(tail("short"), "short");
}

#[test]
fn a_variable_s_value_never_becomes_shell_code() {
    let environment = BTreeMap::from([("TITLE".to_owned(), "x; rm -rf /".to_owned())]);
    let mut problems = Vec::new();
    let (script, variables) = with_variables(
        "echo \"${TITLE}\" $${own} ${NO:-d}",
        &environment,
        &mut problems,
    );
    assert_eq!(script, "echo \"${TITLE}\" ${own} ${NO:-d}");
    assert_eq!(variables["TITLE"], "x; rm -rf /");
    assert_eq!(problems, []);
}

#[test]
fn everything_that_is_wrong_with_a_command_is_said_at_once() {
    let problems = spec(serde_json::json!({
        "run": "echo ${GONE}", "timeout": "0s", "matches": "(", "from": "base",
        "stdout": {}, "stderr": {"schema": {"type": 1}},
    }))
    .build(world())
    .unwrap_err();
    let places: Vec<String> = problems.iter().map(Problem::place).collect();
    assert_eq!(
        places,
        [
            "run",
            "timeout",
            "matches",
            "stdout",
            "stderr.schema",
            "from"
        ]
    );
    let why = &problems[2].message;
    assert!(why.contains("unclosed group"), "{why}");
}

#[test]
fn each_stream_has_demands_of_its_own() {
    let check = command(serde_json::json!({
        "run": "t", "stdout": {"json": {"/ok": true}}, "stderr": {"not_contains": "warning"}
    }));
    let run = |stdout: &str, stderr: &str| {
        let mut finished = finished(Ending::Exited(0), stdout);
        finished.stderr.text = stderr.to_owned();
        check.judge(&finished, &|_| true)
    };
    assert_eq!(run("{\"ok\": true}", ""), Finding::passed());
    assert_eq!(
        run("{\"ok\": true}", "warning: x").message,
        "stderr contains `warning`"
    );
    let broken = run("no", "warning");
    assert!(
        broken.message.starts_with("stdout is not JSON"),
        "{}",
        broken.message
    );
    assert!(
        broken.message.ends_with("(and 1 more)"),
        "{}",
        broken.message
    );
}

#[test]
fn of_an_output_that_is_cut_nobody_says_what_it_does_not_hold() {
    let long = |spec: serde_json::Value| {
        let mut finished = finished(Ending::Exited(0), "begin {}\n...\nend");
        finished.stdout.bytes = KEPT_OUTPUT as u64 + 1;
        let finding = command(spec).judge(&finished, &|_| true);
        (finding.result, finding.decisive)
    };
    let unknown = (CheckResult::Failed, false);
    for (spec, expected) in [
        (serde_json::json!({"run": "t"}), (CheckResult::Passed, true)),
        (
            serde_json::json!({"run": "t", "contains": "end", "matches": "^begin"}),
            (CheckResult::Passed, true),
        ),
        (serde_json::json!({"run": "t", "contains": "FAIL"}), unknown),
        (serde_json::json!({"run": "t", "matches": "FAIL"}), unknown),
        (
            serde_json::json!({"run": "t", "not_contains": "FAIL"}),
            unknown,
        ),
        (
            serde_json::json!({"run": "t", "stdout": {"not_contains": "FAIL"}}),
            unknown,
        ),
        (
            serde_json::json!({"run": "t", "stdout": {"schema": {}}}),
            unknown,
        ),
    ] {
        assert_eq!(long(spec.clone()), expected, "{spec}");
    }
    let json = command(serde_json::json!({"run": "t", "stdout": {"json": {"/ok": true}}}));
    assert!(
        !json
            .judge(&finished(Ending::Exited(0), "garbage"), &|_| true)
            .decisive
    );
    assert!(
        json.judge(&finished(Ending::Exited(0), "{\"ok\": false}"), &|_| true)
            .decisive
    );
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_an_error_and_not_a_failure() {
    let place = Place::new();
    let finding = command(serde_json::json!({"run": "true"}))
        .run(&place.context())
        .await;
    assert_eq!(finding.result, CheckResult::Errored);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_fill_the_disk_is_not_copied() {
    let place = Place::new();
    let huge = fs::File::create(place.dir.path().join("big")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let check = command(serde_json::json!({"run": "true", "files": ["tests/**"]}));
    let finding = check.run(&place.context()).await;
    assert_eq!(finding.result, CheckResult::Errored);
    assert!(
        finding.message.contains("1048576 MiB"),
        "{}",
        finding.message
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_without_any_of_the_files_is_an_error() {
    let place = Place::new();
    let check = command(serde_json::json!({"run": "true", "files": ["tests/**"]}));
    let finding = check.run(&place.context()).await;
    assert_eq!(finding.result, CheckResult::Errored);
    assert!(
        finding.message.contains("measure nothing"),
        "{}",
        finding.message
    );
}

#[test]
fn a_mistyped_program_measures_nothing_and_a_script_that_says_127_does() {
    let judged = |run: &str, code| {
        let check = command(serde_json::json!({ "run": run }));
        check.judge(&finished(Ending::Exited(code), ""), &|name| name == "cargo")
    };
    for code in [126, 127] {
        let mistyped = judged("carg test", code);
        assert_eq!(mistyped.result, CheckResult::Errored);
        let told = "there is no program `carg` in the check's PATH";
        assert!(mistyped.message.contains(told), "{mistyped:?}");
        for run in ["cargo test", "./run-tests", "exit 127"] {
            let failed = judged(run, code);
            assert_eq!(
                (failed.result, failed.decisive),
                (CheckResult::Failed, false)
            );
        }
    }
    assert_eq!(judged("carg test", 1).result, CheckResult::Failed);
    let wanted = command(serde_json::json!({ "run": "carg", "expect_exit": 127 }));
    let finding = wanted.judge(&finished(Ending::Exited(127), ""), &|_| false);
    assert_eq!(finding.result, CheckResult::Passed);
}
