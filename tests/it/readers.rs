//! Readers that others wrote read our reports: `xmllint`, Python and npm packages. `.ci/run` installs them; without one, its
//! test says loudly that it was skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_batch::event::Kind;
use agent_batch::outcome::{Outcome, Verdict};
use agent_batch::report::junit::{self, Dialect};
use agent_batch::report::{RunPlan, Summary};
use serde_json::{Value, json};

use crate::report::{HOSTILE, START, fold, hostile, readable};

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a reader prints, or nothing where it is not installed. A reader that fails fails the test.
fn ask(reader: &str, command: &mut Command, probe: &[&str]) -> Option<String> {
    let mut installed = Command::new(command.get_program());
    let installed = installed
        .args(probe)
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success());
    if !installed {
        eprintln!("SKIPPED: {reader} is not installed; `.ci/run` installs it");
        return None;
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reader}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A Python package of the tests' own environment.
pub(crate) fn python(package: &str, script: &str, args: &[&Path]) -> Option<String> {
    let python = checkout().join("target/python/bin/python");
    let mut command = Command::new(python);
    command
        .arg(checkout().join("tests/readers").join(script))
        .args(args);
    ask(package, &mut command, &["-c", &format!("import {package}")])
}

/// An npm package of the tests' own directory.
fn npm(package: &str, script: &str, file: &Path) -> Option<String> {
    let modules = checkout().join("target/node");
    let mut command = Command::new("node");
    command
        .arg(checkout().join("tests/readers").join(script))
        .args([&modules, file]);
    let found = format!(
        "process.exit(require('fs').existsSync({}) ? 0 : 1)",
        json!(modules.join("node_modules").join(package))
    );
    ask(package, &mut command, &["-e", &found])
}

fn xmllint(args: &[&Path]) -> Option<String> {
    let mut command = Command::new("xmllint");
    command.arg("--noout").args(args);
    ask("xmllint", &mut command, &["--version"])
}

/// A run of every outcome of the table with hostile text everywhere, and two tasks that were tried again: one that
/// passed in the end and one that did not.
fn every_outcome() -> Summary {
    let (hostile, mut events) = hostile();
    let (readable, more) = readable();
    let mut tasks = hostile.tasks;
    for (name, outcome) in [("flaky", Outcome::Completed), ("broken", Outcome::ApiError)] {
        let mut planned = readable.tasks[2].clone();
        assert_eq!(planned.name, "flaky");
        planned.name = name.into();
        tasks.push(planned);
        for mut event in more.iter().filter(|event| event.task == "flaky").cloned() {
            event.task = name.into();
            if let Kind::TaskFinished(finished) = &mut event.kind {
                finished.message = format!("{}: {HOSTILE}", finished.message);
                if event.attempt == 2 {
                    finished.outcome = outcome;
                }
            }
            events.push(event);
        }
    }
    fold(RunPlan::new("0.1.0", START, 2, tasks), &events)
}

/// Tests, failures, errors and skipped, by the table.
fn expected() -> Value {
    let of = |verdict| {
        let outcomes = Outcome::ALL.iter();
        outcomes
            .filter(|outcome| outcome.verdict() == verdict)
            .count()
    };
    json!({
        "tests": Outcome::ALL.len() + 2,
        "failures": of(Verdict::Failed),
        "errors": of(Verdict::Errored) + 1,
        "skipped": of(Verdict::Skipped),
    })
}

struct Report {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn report(dialect: Dialect) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("junit.xml");
    std::fs::write(&path, junit::render(&every_outcome(), dialect).unwrap()).unwrap();
    Report { _dir: dir, path }
}

fn parsed(said: &str) -> Value {
    serde_json::from_str(said).unwrap()
}

fn assert_unique(names: &Value) {
    let names = names.as_array().unwrap();
    let mut seen: Vec<String> = names.iter().map(ToString::to_string).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), Outcome::ALL.len() + 2);
    assert_eq!(seen.len(), names.len());
}

#[test]
fn the_strict_dialect_is_valid_by_the_schema_of_jenkins_and_the_common_one_is_not() {
    let schema = checkout().join("tests/data/junit/jenkins-junit-10.xsd");
    let strict = report(Dialect::Strict);
    let common = report(Dialect::Common);
    if xmllint(&[Path::new("--schema"), &schema, &strict.path]).is_none() {
        return;
    }
    xmllint(&[&common.path]).unwrap();
    // What the strict one leaves out is left out for a reason.
    let refused = Command::new("xmllint")
        .arg("--noout")
        .arg("--schema")
        .args([&schema, &common.path])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr);
    for attribute in ["'file'", "'line'", "'skipped'"] {
        assert!(errors.contains(attribute), "{errors}");
    }
}

#[test]
fn junitparser_counts_every_outcome_and_finds_the_attempts_before_the_last() {
    for dialect in [Dialect::Common, Dialect::Strict] {
        let report = report(dialect);
        let Some(said) = python("junitparser", "junitparser_counts.py", &[&report.path]) else {
            return;
        };
        let read = parsed(&said);
        assert_eq!(read["counted"], expected());
        if dialect == Dialect::Common {
            assert_eq!(read["stated"], expected());
        }
        assert_eq!(read["reruns"], 2);
        assert_unique(&read["names"]);
    }
}

#[test]
fn junit2json_counts_every_outcome() {
    let report = report(Dialect::Common);
    let Some(said) = npm("junit2json", "junit2json_counts.mjs", &report.path) else {
        return;
    };
    let read = parsed(&said);
    assert_eq!(read["stated"], expected());
    assert_eq!(read["counted"], expected());
    assert_unique(&read["names"]);
}

#[test]
fn test_results_parser_counts_every_outcome_and_finds_the_transcripts() {
    let report = report(Dialect::Common);
    let script = "test_results_parser_counts.mjs";
    let Some(said) = npm("test-results-parser", script, &report.path) else {
        return;
    };
    let read = parsed(&said);
    let expected = expected();
    let count = |word: &str| expected[word].as_u64().unwrap();
    let failed = count("failures") + count("errors");
    assert_eq!(
        read["counted"],
        json!({"passed": 2, "failed": failed, "skipped": count("skipped")})
    );
    assert_eq!(read["stated"]["skipped"], expected["skipped"]);
    assert_eq!(read["stated"]["errors"], expected["errors"]);
    assert_eq!(read["stated"]["failed"], expected["failures"]);
    let attachments = read["attachments"].as_array().unwrap();
    assert_eq!(attachments.len(), Outcome::ALL.len() + 1);
    for path in attachments {
        let path = path.as_str().unwrap();
        assert!(path.starts_with("agent-batch-results/"), "{path}");
        assert!(path.ends_with("/transcript.jsonl"), "{path}");
    }
}
