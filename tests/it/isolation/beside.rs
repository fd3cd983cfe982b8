//! A copy of a directory in which another task writes.

use std::fs;

use crate::sandbox::Sandbox;

#[test]
fn a_directory_is_copied_before_another_task_writes_there_or_when_it_is_done() {
    let sandbox = Sandbox::new()
        .file("repo/state", "old\n")
        .file("other/x", "")
        .named_task(
            "a-writes",
            "model: scripted/../writes.yaml\ntools: [Bash]\nsandbox: off\n\
             permissions: { allow: [\"Bash(sh ../write.sh)\"] }\n",
        )
        .named_task(
            "b-copies",
            "model: scripted/../copies.yaml\ntools: [Read]\nworkspace: { path: ../repo, isolation: copy }\n",
        )
        .named_task(
            "c-elsewhere",
            "model: scripted/../elsewhere.yaml\ntools: []\nworkspace: { path: ../other }\n",
        )
        // Whoever opens a pipe waits for its other end: half of the work is done meanwhile.
        .file("write.sh", "echo half > state\nread word < ../gate\necho whole > state\n")
        .file("writes.yaml", "- tool_calls: [{ name: Bash, input: { command: sh ../write.sh } }]\n- text: done\n")
        .file("copies.yaml", "- tool_calls: [{ name: Read, input: { file_path: state } }]\n- text: done\n  expect: [whole]\n")
        .file("elsewhere.yaml", "- text: done\n");
    let gate = sandbox.path().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let tasks = [
        "tasks/a-writes.yaml",
        "tasks/b-copies.yaml",
        "tasks/c-elsewhere.yaml",
    ];
    let mut child = sandbox
        .command(&[&tasks[..], &["--jobs", "3"]].concat())
        .spawn()
        .unwrap();
    let run = sandbox.path().join("agent-batch-results");
    // The third one of the plan is over, so the second one would have begun.
    let elsewhere = run.join("c-elsewhere/1/transcript.jsonl");
    while !fs::read_to_string(&elsewhere).is_ok_and(|text| text.contains("task_finished")) {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        std::thread::yield_now();
    }
    assert!(!run.join("b-copies").exists());
    fs::write(&gate, "go\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(run.join("b-copies/1/transcript.jsonl").exists());
}
