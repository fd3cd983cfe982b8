//! Trees of any shape, as an agent can leave them and as a repository can have them: none is an error of the
//! infrastructure, none stays behind.

use std::fs;
use std::os::unix::net::UnixListener;

use super::patch::git;
use super::worktree::{commit, left, repository};

/// Leaves one of everything.
const LEAVE: &str = r#"
import os, socket
top = os.getcwd()
for name, levels in [("d", 400), ("n" * 250, 40)]:
    os.chdir(top)
    for _ in range(levels):
        os.mkdir(name)
        os.chdir(name)
    open("end", "w").close()
os.chdir(top)
os.symlink("loop", "loop")
os.symlink(".", "here")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("l" * 255, "w").close()
open("plain.txt", "w").write("plain\n")
for closed in ["closed/inner", "unlisted"]:
    os.makedirs(closed)
    open(closed + "/file", "w").close()
os.chmod("unlisted", 0o100)
os.chmod("closed/inner", 0)
os.chmod("closed", 0)
open(".gitignore", "w").write("*.x\n")
os.chmod(".gitignore", 0)
"#;

#[test]
fn no_tree_that_an_agent_leaves_is_an_error_or_stays_behind() {
    for isolation in ["copy", "worktree"] {
        let sandbox = repository()
            .file("repo/leave.py", LEAVE)
            .task(&format!(
                "tools: [Bash]\npermissions: {{ allow: [\"Bash(python3 leave.py)\"] }}\n\
                 workspace: {{ path: ../repo, isolation: {isolation} }}\nretries: 2\n\
                 checks:\n  - command: {{ run: test -f plain.txt, from: base, files: [\"leave.py\"] }}\n  \
                 - file: {{ path: d/d/d, absent: true }}\n  - not: {{ file: {{ path: loop }} }}\n  - changed: {{ only: [\"**\"], max_lines: 9 }}\n"
            ))
            .script(
                "- tool_calls: [{ name: Bash, input: { command: python3 leave.py } }]\n- text: done\n",
            );
        commit(&sandbox.path().join("repo"));
        let run = sandbox.run().exit(1);
        assert_eq!(run.outcome("task"), "check_failed", "{isolation}");
        assert_eq!(left(&sandbox), Vec::<String>::new(), "{isolation}");
        assert!(!run.path("agent-batch-results/task/2").exists());
        let results: Vec<_> = run
            .events_of("task", "check_finished")
            .iter()
            .map(|event| event["result"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(results, ["passed", "failed", "passed", "failed"]);
        let compared = &run.events_of("task", "workspace_compared")[0];
        let told = |path: &str| {
            let mut changes = compared["changes"].as_array().unwrap().iter();
            changes.any(|change| change["path"].as_str().unwrap() == path)
        };
        let deepest = format!("{}end", "d/".repeat(400));
        for path in [
            "pipe",
            "socket",
            "loop",
            "closed/inner/file",
            "unlisted/file",
            &deepest,
        ] {
            assert!(told(path), "{isolation}: {path}");
        }
        let concerns = compared["concerns"].as_array().unwrap();
        let sealed = concerns.iter().any(|concern| {
            concern["path"].as_str().unwrap().starts_with("nnn") && concern["kind"] == "not_a_file"
        });
        assert!(sealed, "{concerns:?}");
        let patch = run.read("agent-batch-results/task/1/changes.patch");
        assert!(patch.contains("+plain"), "{patch}");
        assert!(patch.contains("directories deep"), "{patch}");
    }
}

#[test]
fn a_workspace_that_its_agent_removed_or_replaced_is_a_workspace_without_files() {
    for replace in ["", "os.symlink('/etc', top)\n"] {
        let sandbox = repository()
            .file(
                "repo/sub/leave.py",
                format!("import os, shutil\ntop = os.getcwd()\nshutil.rmtree(top)\n{replace}"),
            )
            .task(
                "tools: [Bash]\npermissions: { allow: [\"Bash(python3 sub/leave.py)\"] }\nretries: 2\n\
                 workspace: { path: ../repo, isolation: copy, include_ignored: true }\nsandbox: off\n\
                 checks:\n  - file: { path: a.txt }\n  - command: { run: test -f a.txt }\n",
            )
            .script(
                "- tool_calls: [{ name: Bash, input: { command: python3 sub/leave.py } }]\n- text: done\n",
            );
        let run = sandbox.run().exit(1);
        assert_eq!(run.outcome("task"), "check_failed", "{replace}");
        assert_eq!(left(&sandbox), Vec::<String>::new());
        let compared = &run.events_of("task", "workspace_compared")[0];
        let changes = compared["changes"].as_array().unwrap();
        assert!(
            changes.iter().all(|change| change["kind"] == "deleted") && changes.len() == 3,
            "{changes:?}"
        );
    }
}

#[test]
fn what_a_repository_holds_besides_files_is_left_out_of_a_copy_and_told() {
    let sandbox = repository()
        .task("tools: [Read]\nworkspace: { path: ../repo, isolation: copy }\n")
        .script("- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: done\n");
    let repo = sandbox.path().join("repo");
    git(&repo, &["status"]);
    let _socket = UnixListener::bind(repo.join("socket")).unwrap();
    for path in ["pipe", ".git/pipe"] {
        let path = repo.join(path);
        let (place, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(place, &path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    }
    std::os::unix::fs::symlink("loop", repo.join("loop")).unwrap();
    let mut deep = repo.clone();
    while deep.as_os_str().len() < 3800 {
        deep.push("d".repeat(100));
        fs::create_dir(&deep).unwrap();
    }
    fs::write(deep.join("end"), "e").unwrap();
    let run = sandbox.run().exit(0);
    let warnings = run.events_of("task", "warned");
    let told = warnings.iter().any(|event| {
        let message = event["message"].as_str().unwrap();
        message.ends_with("devices: .git/pipe, pipe, socket")
    });
    assert!(told, "{warnings:?}");
    // Where nobody looks into a transcript too: while it runs, and in the account.
    let live = run.stderr();
    assert!(
        live.contains("[task] warning workspace: not copied, because"),
        "{live}"
    );
    let account = run.stdout();
    let told = "task: passed with a warning: not copied, because";
    assert!(account.contains(told), "{account}");
    assert_eq!(left(&sandbox), Vec::<String>::new());
}
