//! Configuration that is read from a commit: a contribution is judged by what it did not write.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sandbox::Sandbox;

const STRICT: &str = "tools: [Bash, Read]\npermissions: { mode: strict }\nhooks:\n  SessionStart: [{ command: [../hooks/note.sh] }]\n";
const LOOSE: &str = "tools: [Bash, Read]\npermissions: { allow: [\"Bash(touch:*)\"] }\n";
const SCRIPT: &str =
    "- tool_calls: [{ name: Bash, input: { command: touch owned } }]\n- text: agreed\n";

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(["-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

/// A repository whose first commit holds a strict task, and whose work tree is a contribution that loosens everything.
fn contribution() -> Sandbox {
    let agreed = Sandbox::new()
        .task(STRICT)
        .script(SCRIPT)
        .program("hooks/note.sh", "#!/bin/sh\ntouch agreed-hook\n")
        .file("repo/README", "1\n");
    let top = agreed.path().to_path_buf();
    fs::write(top.join(".gitignore"), "tmp\nagent-batch-results\n").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "agreed"],
        &["tag", "base"],
    ] {
        git(&top, arguments);
    }
    fs::remove_file(top.join("hooks/note.sh")).unwrap();
    let loosened = agreed
        .task(LOOSE)
        .script("- tool_calls: [{ name: Bash, input: { command: touch owned } }]\n- text: ours\n")
        .file(
            "agent-batch.yaml",
            "defaults: { permissions: { on_denied: ignore } }\n",
        );
    git(&top, &["add", "-A"]);
    git(&top, &["commit", "-qm", "contribution"]);
    loosened
}

#[test]
fn a_contribution_that_loosens_its_task_is_judged_by_the_base() {
    let sandbox = contribution();
    sandbox.run().exit(0);
    assert!(sandbox.path().join("repo/owned").exists());
    fs::remove_file(sandbox.path().join("repo/owned")).unwrap();

    let run = sandbox
        .call(&["tasks/task.yaml", "--config-from", "base"])
        .exit(1);
    assert_eq!(run.outcome("task"), "denied");
    assert!(run.everything().contains("agreed"), "{}", run.everything());
    assert!(!sandbox.path().join("repo/owned").exists());
    // The workspace is the work tree, and the hook is the one of the commit.
    assert!(sandbox.path().join("repo/agreed-hook").exists());
    let commit = &run.events_of("task", "task_started")[0]["config_commit"];
    let told = format!(
        "note: configuration is read from commit {} (`base`)",
        commit.as_str().unwrap()
    );
    assert!(run.stderr().contains(&told), "{}", run.stderr());
    let page = run.read("agent-batch-results/report.html");
    assert!(page.contains(&format!(
        "of commit <code>{}</code>",
        commit.as_str().unwrap()
    )));
    assert_eq!(&run.summary()["config_commit"], commit);
    let plan: serde_json::Value =
        serde_json::from_str(&run.read("agent-batch-results/run.json")).unwrap();
    assert_eq!(&plan["config_commit"], commit);
    // Nothing is left of the commit's files.
    let left = fs::read_dir(sandbox.path().join("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn all_commands_read_the_configuration_of_the_commit() {
    let sandbox = contribution();
    let from = ["--config-from", "base"];
    let run = sandbox
        .call(&["check", "tasks/task.yaml", from[0], from[1]])
        .exit(0);
    assert!(run.stdout().contains("strict"), "{}", run.stdout());
    let call = ["--tool", "Bash", "--input", r#"{"command":"touch x"}"#];
    let explain = |from: &[&str], code| {
        let mut arguments = vec!["explain", "tasks/task.yaml"];
        arguments.extend(call);
        arguments.extend(from);
        sandbox.call(&arguments).exit(code).stdout()
    };
    assert!(!explain(&[], 0).contains("config_commit"));
    assert!(explain(&from, 1).contains("\"config_commit\":\""));
}

#[test]
fn what_the_commit_does_not_have_is_told() {
    let sandbox = contribution();
    for (arguments, told) in [
        (
            &["tasks/none.yaml", "--config-from", "base"][..],
            "tasks/none.yaml",
        ),
        (
            &["tasks", "--config-from", "nowhere"],
            "has no commit `nowhere`; fetch it first",
        ),
        (
            &["tasks", "--config-from=--output=x"],
            "has no commit `--output=x`",
        ),
        (
            &["../tasks/task.yaml", "--config-from", "base"],
            "`../tasks/task.yaml` leads out of the current directory",
        ),
        (
            &["/tasks/task.yaml", "--config-from", "base"],
            "leads out of the current directory",
        ),
    ] {
        let run = sandbox.call(arguments).exit(2);
        assert!(
            run.stderr().contains(told),
            "{arguments:?}: {}",
            run.stderr()
        );
    }
    let bare = Sandbox::new().task("").script("- text: done\n");
    let run = bare.call(&["tasks", "--config-from", "main"]).exit(2);
    assert!(
        run.stderr().contains("lies in no git repository"),
        "{}",
        run.stderr()
    );
}

#[test]
fn a_link_of_the_commit_leads_to_no_file_of_the_work_tree() {
    let sandbox = contribution();
    let top = sandbox.path();
    let outside = top.join("tasks/task.yaml");
    std::os::unix::fs::symlink(&outside, top.join("tasks/absolute.yaml")).unwrap();
    std::os::unix::fs::symlink("../../../tasks/task.yaml", top.join("tasks/up.yaml")).unwrap();
    std::os::unix::fs::symlink("task.yaml", top.join("tasks/inside.yaml")).unwrap();
    git(top, &["add", "-A"]);
    git(top, &["commit", "-qm", "links"]);
    let from = ["--config-from", "HEAD"];
    for name in ["tasks/absolute.yaml", "tasks/up.yaml"] {
        let run = sandbox.call(&["check", name, from[0], from[1]]).exit(2);
        assert!(run.stderr().contains(name), "{}", run.stderr());
    }
    sandbox
        .call(&["check", "tasks/inside.yaml", from[0], from[1]])
        .exit(0);
}
