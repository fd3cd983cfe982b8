//! Every case of `tests/data/corpus`, answered by the built program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;
use serde_json::Value;

/// What other tests need of a case.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) command: String,
    pub(crate) expect: String,
}

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/corpus")
        .join(file)
}

pub(crate) fn cases(file: &str) -> Vec<Case> {
    fs::read_to_string(path(file))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test starts the program that it tests"
)]
fn explain(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_agent-batch"))
        .arg("explain")
        .arg("--cases")
        .arg(file)
        .env_clear()
        .output()
        .unwrap()
}

fn run(file: &str) {
    let known = cases(file);
    assert!(known.len() > 50, "{file} holds {} cases", known.len());
    let output = explain(&path(file));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let wrong: Vec<String> = lines
        .iter()
        .filter(|line| line["as_expected"] != true)
        .map(Value::to_string)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} cases of {file} are wrong:\n{}",
        wrong.len(),
        known.len(),
        wrong.join("\n")
    );
    let ids: Vec<&str> = lines
        .iter()
        .map(|line| line["id"].as_str().unwrap())
        .collect();
    let all: Vec<&str> = known.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, all, "{}", String::from_utf8_lossy(&output.stderr));
    for (line, case) in lines.iter().zip(&known) {
        assert_eq!(line["decision"], case.expect.as_str(), "{}", case.id);
        assert!(
            line["reason"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty())
        );
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn command_lines_are_answered_as_the_corpus_says() {
    run("bash.jsonl");
}

#[test]
fn paths_are_answered_as_the_corpus_says() {
    run("path.jsonl");
}

#[test]
fn hosts_and_mcp_tools_are_answered_as_the_corpus_says() {
    run("other.jsonl");
}

#[test]
fn a_wrong_answer_fails_and_a_bad_file_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let case = r#"{"id":"x-001","class":"x","mode":"default","allow":[],"deny":[],"command":"id","expect":"allow","why":"x"}"#;
    let wrong = explain(&file("wrong.jsonl", &format!("{case}\n")));
    assert_eq!(wrong.status.code(), Some(1));
    let line: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(line["id"], "x-001");
    assert_eq!(line["decision"], "deny");
    assert_eq!(line["as_expected"], false);

    let bad = explain(&file("bad.jsonl", &format!("{case}\nnot a case\n")));
    assert_eq!(bad.status.code(), Some(2));
    assert!(
        bad.stdout.is_empty(),
        "no answer before the file is understood"
    );
    assert!(String::from_utf8_lossy(&bad.stderr).contains("bad.jsonl:2: no case"));

    let none = explain(&dir.path().join("none.jsonl"));
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("none.jsonl"));
}
