//! Runs that end otherwise than planned: killed, interrupted, run beside another.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Child;

use crate::sandbox::Sandbox;

/// Two tasks; the second one sits in a long tool call when its line with the marker appears.
fn two_tasks() -> Sandbox {
    Sandbox::new()
        .args(&["--jobs", "1"])
        .file(
            "tasks/quick.yaml",
            "model: scripted/quick-script.yaml\nprompt: Do it.\nworkspace: { path: ../repo }\n",
        )
        .file("tasks/quick-script.yaml", "- text: done\n")
        .named_task(
            "slow",
            "tools: [Bash]\npermissions: { allow: [\"Bash(sleep:*)\"] }\n",
        )
        .file(
            "tasks/unstarted.yaml",
            "model: scripted/quick-script.yaml\nprompt: Do it.\nworkspace: { path: ../repo }\n",
        )
        .script(&format!(
            "- tool_calls: [{{ name: Bash, input: {{ command: {} }} }}]\n- text: never\n",
            nap()
        ))
}

/// A call that takes for ever, and that no other test on this machine makes.
fn nap() -> String {
    format!("sleep 31337.{}", std::process::id())
}

/// Starts the run and waits until the slow task's tool runs.
fn start(sandbox: &Sandbox) -> Child {
    let mut child = sandbox
        .command(&[
            "tasks/quick.yaml",
            "tasks/slow.yaml",
            "tasks/unstarted.yaml",
            "--grace",
            "10ms",
        ])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let transcript = sandbox
        .path()
        .join("agent-batch-results/slow/1/transcript.jsonl");
    while !fs::read_to_string(&transcript)
        .unwrap_or_default()
        .contains("\"tool_decided\"")
    {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        wait_a_little();
    }
    std::thread::spawn(move || lines.by_ref().for_each(drop));
    child
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Whether a process with this in its command line is left.
pub(crate) fn is_left(needle: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
            String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .contains(needle)
        })
    })
}

/// Waits for what must come soon; a test that waits for ever is ended by its runner.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        wait_a_little();
    }
}

/// Between two looks at something that another process does; how long does not matter to any result.
fn wait_a_little() {
    std::thread::park_timeout(std::time::Duration::from_millis(5));
}

#[test]
fn after_sigkill_the_reports_are_made_from_the_transcripts() {
    let sandbox = two_tasks();
    let mut child = start(&sandbox);
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    until(|| !is_left(&nap()));
    for line in fs::read_to_string(
        sandbox
            .path()
            .join("agent-batch-results/slow/1/transcript.jsonl"),
    )
    .unwrap()
    .lines()
    {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let run = sandbox
        .without_args()
        .call(&["report", "agent-batch-results"])
        .exit(3);
    assert_eq!(run.outcome("quick"), "completed");
    assert_eq!(run.outcome("slow"), "unfinished");
    assert_eq!(run.outcome("unstarted"), "not_run");
    assert!(
        run.junit().contains("type=\"unfinished\""),
        "{}",
        run.junit()
    );
}

#[test]
fn after_sigterm_the_reports_are_written_and_nothing_is_left() {
    let sandbox = two_tasks();
    let mut child = start(&sandbox);
    signal(&child, rustix::process::Signal::TERM);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert!(!is_left(&nap()));
    let summary =
        fs::read_to_string(sandbox.path().join("agent-batch-results/summary.json")).unwrap();
    assert!(
        summary.contains("\"cancelled\"") && summary.contains("\"not_run\""),
        "{summary}"
    );
    let junit = fs::read_to_string(sandbox.path().join("agent-batch-results/junit.xml")).unwrap();
    assert!(junit.contains("type=\"cancelled\""), "{junit}");
}

#[test]
fn an_interruption_is_told_in_words_and_only_calls_that_ran_are_said_to_have_run() {
    let sandbox = Sandbox::new()
        .file("repo/a.txt", "a")
        .task("tools: [Bash, Read]\npermissions: { allow: [\"Bash(sleep:*)\"] }\n")
        .script(&format!(
            "- tool_calls: [{{ name: Bash, input: {{ command: {} }} }}, {{ name: Read, input: {{ file_path: a.txt }} }}]\n- text: never\n",
            nap()
        ));
    let mut child = sandbox
        .command(&["tasks/task.yaml", "--grace", "10ms"])
        .spawn()
        .unwrap();
    let transcript = sandbox
        .path()
        .join("agent-batch-results/task/1/transcript.jsonl");
    until(|| fs::read_to_string(&transcript).is_ok_and(|text| text.contains("\"tool_decided\"")));
    signal(&child, rustix::process::Signal::INT);
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let told = "SIGINT: what is under way may finish; once more ends it at once";
    assert!(lines.iter().any(|line| line == told), "{lines:#?}");
    assert!(
        !lines.iter().any(|line| line.starts_with("[]")),
        "{lines:#?}"
    );
    let summary = fs::read(sandbox.path().join("agent-batch-results/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let message = summary["tasks"][0]["message"].as_str().unwrap();
    assert!(
        message.ends_with("while running Bash in step 1"),
        "{message}"
    );
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_that_is_told_and_kills_nobody() {
    let sandbox = two_tasks();
    let program = sandbox.command(&[]).get_program().to_owned();
    let mut command = sandbox.shell_environment(std::path::Path::new("bash"));
    // Room for the plan and not for a transcript.
    let output = command
        .args(["-c", "ulimit -f 1; exec \"$0\" tasks/quick.yaml"])
        .arg(program)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("could not write"), "{stderr}");
    assert!(!output.stdout.is_empty());
}

#[test]
fn few_open_files_mean_fewer_tasks_at_the_same_time_and_no_errors() {
    let sandbox = two_tasks();
    let program = sandbox.command(&[]).get_program().to_owned();
    let run = |limit: &str| {
        let script = format!("ulimit {limit}; exec \"$0\" tasks/quick.yaml --jobs 50");
        let mut command = sandbox.shell_environment(std::path::Path::new("bash"));
        let output = command.args(["-c", &script]).arg(&program).output();
        let output = output.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        stderr.contains("at most 1 task at the same time")
    };
    assert!(run("-n 64"), "the limit cannot be raised");
    assert!(!run("-Sn 64"), "the limit was raised");
}

#[test]
fn a_temporary_directory_that_is_not_there_is_named() {
    let sandbox = two_tasks();
    let mut command = sandbox.command(&["tasks/quick.yaml"]);
    let output = command.env("TMPDIR", "/not/there").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("the temporary directory `/not/there`") && stderr.contains("set TMPDIR"),
        "{stderr}"
    );
}

#[test]
fn two_runs_do_not_share_a_run_directory() {
    let sandbox = two_tasks();
    let mut child = start(&sandbox);
    let second = sandbox.call(&["tasks/quick.yaml"]).exit(3);
    assert!(
        second.stderr().contains("another run"),
        "{}",
        second.stderr()
    );
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_directory_that_is_no_run_directory_is_not_touched() {
    let sandbox = Sandbox::new()
        .file("mine/thesis.txt", "years of work")
        .task("")
        .script("- text: done\n");
    let run = sandbox.call(&["tasks/task.yaml", "--out", "mine"]).exit(2);
    assert!(run.stderr().contains("mine"), "{}", run.stderr());
    assert_eq!(run.read("mine/thesis.txt"), "years of work");
}
