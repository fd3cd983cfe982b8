//! Tasks in worktrees of a real repository, which stays as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use super::patch::git;
use crate::sandbox::{Run, Sandbox};

const TASK: &str =
    "permissions: { mode: acceptEdits }\nworkspace: { path: ../repo, isolation: worktree }\n";

/// A sandbox whose `repo/` is a repository with one commit: `a.txt` with five lines, and `sub/b.txt`.
pub(crate) fn repository() -> Sandbox {
    let sandbox = Sandbox::new()
        .file("repo/a.txt", "1\n2\n3\n4\n5\n")
        .file("repo/sub/b.txt", "b\n");
    let repo = sandbox.path().join("repo");
    git(&repo, &["init", "-q", "-b", "main"]);
    commit(&repo);
    sandbox
}

pub(crate) fn commit(repo: &Path) {
    git(repo, &["add", "-A"]);
    git(repo, &["commit", "-qm", "c"]);
}

/// All that must be the same afterwards.
pub(crate) fn state(repo: &Path) -> String {
    [
        git(repo, &["worktree", "list", "--porcelain"]),
        git(repo, &["status", "--porcelain", "--ignored"]),
        git(repo, &["stash", "list"]),
        git(repo, &["for-each-ref"]),
        git(repo, &["count-objects", "-v"]),
        git(repo, &["fsck", "--full", "--unreachable"]),
        fs::read_to_string(repo.join(".git/config")).unwrap(),
        format!("{:?}", fs::read(repo.join(".git/index")).unwrap()),
    ]
    .join("\n--\n")
}

fn warnings(run: &Run, task: &str) -> String {
    run.events_of(task, "warned")
        .iter()
        .map(|event| event["message"].as_str().unwrap().to_owned() + "\n")
        .collect()
}

/// What is left in the temporary directory of the runner.
pub(crate) fn left(sandbox: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path().join("tmp")).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn two_tasks_write_one_file_at_once_and_each_has_its_own_right_patch() {
    let edit = |name: &str, old: &str, new: &str| {
        (
            format!("tasks/{name}.yaml"),
            format!("model: scripted/{name}-script.yaml\nprompt: x\ntools: [Read, Edit]\n{TASK}"),
            format!("tasks/{name}-script.yaml"),
            format!(
                "- tool_calls: [{{ name: Read, input: {{ file_path: a.txt }} }}, {{ name: Edit, input: {{ file_path: a.txt, old_string: \"{old}\", new_string: \"{new}\" }} }}]\n- text: done\n"
            ),
        )
    };
    let mut sandbox = repository();
    let (one, two) = (edit("one", "1", "one"), edit("two", "5", "five"));
    for (file, text, script_file, script) in [one, two] {
        sandbox = sandbox.file(&file, text).file(&script_file, script);
    }
    let repo = sandbox.path().join("repo");
    let before = state(&repo);
    let run = sandbox.call(&["tasks/one.yaml", "tasks/two.yaml"]).exit(0);
    assert_eq!(state(&repo), before);
    assert_eq!(left(&sandbox), Vec::<String>::new());
    assert!(!run.stderr().contains("wait for it"), "{}", run.stderr());
    for (task, text) in [("one", "one\n2\n3\n4\n5\n"), ("two", "1\n2\n3\n4\nfive\n")] {
        let patch = run.path(&format!("agent-batch-results/{task}/1/changes.patch"));
        let patch = patch.to_str().unwrap();
        git(&repo, &["apply", "--index", "--check", patch]);
        git(&repo, &["apply", "--index", patch]);
        assert_eq!(fs::read_to_string(repo.join("a.txt")).unwrap(), text);
        git(&repo, &["reset", "-q", "--hard"]);
    }
    // Both together, as they touch other lines.
    for task in ["one", "two"] {
        let patch = run.path(&format!("agent-batch-results/{task}/1/changes.patch"));
        git(&repo, &["apply", "--3way", patch.to_str().unwrap()]);
    }
    assert_eq!(
        fs::read_to_string(repo.join("a.txt")).unwrap(),
        "one\n2\n3\n4\nfive\n"
    );
    let summary = run.summary();
    assert_eq!(
        summary["tasks"][0]["patch"], "one/1/changes.patch",
        "{summary:#}"
    );
}

#[test]
fn after_sigkill_the_source_is_unchanged_and_the_next_run_removes_what_was_left() {
    let sandbox = repository()
        .task(&format!(
            "tools: [Bash]\n{}",
            TASK.replace("mode: acceptEdits", "allow: [\"Bash(sleep:*)\"]")
        ))
        .script("- tool_calls: [{ name: Bash, input: { command: sleep 31338 } }]\n- text: never\n")
        .file(
            "tasks/quick.yaml",
            "model: scripted/quick-script.yaml\nprompt: x\nworkspace: { path: ../repo }\n",
        )
        .file("tasks/quick-script.yaml", "- text: done\n");
    let repo = sandbox.path().join("repo");
    let before = state(&repo);
    let mut child = sandbox
        .command(&["tasks/task.yaml"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let transcript = sandbox
        .path()
        .join("agent-batch-results/task/1/transcript.jsonl");
    while !fs::read_to_string(&transcript)
        .unwrap_or_default()
        .contains("\"tool_decided\"")
    {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(state(&repo), before);
    assert_eq!(left(&sandbox).len(), 1);
    // Another run directory: its run finds the other's leavings all the same.
    sandbox
        .call(&["tasks/quick.yaml", "--out", "other"])
        .exit(0);
    assert_eq!(left(&sandbox), Vec::<String>::new());
    assert_eq!(state(&repo), before);
}

#[test]
fn a_hostile_repository_runs_nothing_of_ours() {
    let sandbox = repository()
        .file("repo/.gitattributes", "* filter=evil diff=evil merge=evil\n")
        .task(&format!("tools: [Write]\n{TASK}"))
        .script("- tool_calls: [{ name: Write, input: { file_path: new.txt, content: x } }]\n- text: done\n");
    let repo = sandbox.path().join("repo");
    commit(&repo);
    let canary = sandbox.path().join("canary");
    let program = sandbox.path().join("evil.sh");
    fs::write(
        &program,
        format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", canary.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = program.to_str().unwrap();
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-commit",
    ] {
        fs::copy(&program, repo.join(".git/hooks").join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "merge.evil.driver",
        "credential.helper",
        "gpg.program",
        "pager.status",
        "uploadpack.packObjectsHook",
    ] {
        git(&repo, &["config", key, evil]);
    }
    git(&repo, &["config", "filter.evil.required", "true"]);
    git(&repo, &["config", "alias.read-tree", &format!("!{evil}")]);
    // A stamp that differs from the index makes git look at the file.
    fs::write(repo.join("a.txt"), "1\n2\n3\n4\n6\n").unwrap();
    fs::remove_file(&canary).ok();
    let run = sandbox.run().exit(0);
    assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap());
    assert!(
        run.read("agent-batch-results/task/1/changes.patch")
            .contains("+x")
    );
    assert!(warnings(&run, "task").contains("filters of `.gitattributes` do not run"));
}

#[test]
fn a_task_that_a_run_would_refuse_is_not_valid() {
    let yaml = "workspace: { path: ../repo, isolation: worktree, ref: nowhere }\n";
    let sandbox = repository().task(yaml).script("- text: done\n");
    for arguments in [&["tasks/task.yaml"][..], &["check", "tasks/task.yaml"]] {
        let run = sandbox.call(arguments).exit(2);
        let told = "has no commit `nowhere`";
        assert!(run.stderr().contains(told), "{}", run.stderr());
    }
}

#[test]
fn what_is_not_committed_is_told() {
    let sandbox = repository()
        .file("repo/a.txt", "changed\n")
        .file("repo/untracked.txt", "u\n")
        .task(&format!("tools: [Read]\n{TASK}"))
        .script("- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: done\n  expect: [\"5\"]\n");
    let run = sandbox.run().exit(0);
    let warnings = warnings(&run, "task");
    assert!(warnings.contains("without 2 paths of"), "{warnings}");
}

#[test]
fn git_works_for_the_agent_and_the_repository_is_not_its_to_write() {
    let sandbox = repository()
        .task(&format!(
            "tools: [Bash, Read, Edit]\n{}",
            TASK.replace("mode: acceptEdits", "mode: acceptEdits, allow: [\"Bash(git:*)\"]")
        ))
        .script(
            "- tool_calls: [{ name: Read, input: { file_path: a.txt } }, { name: Edit, input: { file_path: a.txt, old_string: \"3\", new_string: three } }, { name: Bash, input: { command: \"git status --short\" } }, { name: Bash, input: { command: \"git log --oneline main\" } }, { name: Bash, input: { command: \"git diff\" } }]\n\
             - text: done\n",
        );
    let repo = sandbox.path().join("repo");
    let before = state(&repo);
    let run = sandbox.run().exit(0);
    let said: Vec<String> = run
        .events_of("task", "tool_finished")
        .iter()
        .map(|event| event["content"].as_str().unwrap().to_owned())
        .collect();
    assert!(said[2].contains(" M a.txt"), "{said:?}");
    assert!(
        said[3].contains(" c\n") || said[3].ends_with(" c"),
        "{said:?}"
    );
    assert!(said[4].contains("+three"), "{said:?}");
    assert_eq!(state(&repo), before);
}

#[test]
fn a_folder_of_a_repository_is_a_folder_of_the_worktree() {
    let sandbox = repository()
        .task(&format!("tools: [Read, Edit]\n{}", TASK.replace("../repo", "../repo/sub")))
        .script("- tool_calls: [{ name: Read, input: { file_path: b.txt } }, { name: Edit, input: { file_path: b.txt, old_string: b, new_string: c } }]\n- text: done\n");
    let repo = sandbox.path().join("repo");
    let run = sandbox.run().exit(0);
    let patch = run.path("agent-batch-results/task/1/changes.patch");
    git(&repo, &["apply", "--index", patch.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(repo.join("sub/b.txt")).unwrap(), "c\n");
}

#[test]
fn the_named_commit_is_where_it_begins() {
    let sandbox = repository()
        .task(&format!("tools: [Read]\n{}", TASK.replace("worktree }", "worktree, ref: v1 }")))
        .script("- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: done\n  expect: [\"5\"]\n");
    let repo = sandbox.path().join("repo");
    git(&repo, &["tag", "v1"]);
    fs::write(repo.join("a.txt"), "later\n").unwrap();
    commit(&repo);
    let run = sandbox.run().exit(0);
    assert_eq!(warnings(&run, "task"), "");
    let compared = run.events_of("task", "workspace_compared");
    assert_eq!(
        compared[0]["commit"],
        git(&repo, &["rev-parse", "v1"]).trim()
    );
}

#[test]
fn a_worktree_that_cannot_be_made_is_a_mistake_before_the_first_model_call() {
    let plain = Sandbox::new().file("repo/a", "a");
    let unborn = Sandbox::new().file("repo/a", "a");
    git(&unborn.path().join("repo"), &["init", "-q"]);
    let bare = Sandbox::new();
    git(&bare.path().join("repo"), &["init", "-q", "--bare"]);
    let broken = repository();
    fs::write(broken.path().join("repo/.git/config"), "[core\n").unwrap();
    let other = |text: &str| TASK.replace("worktree }", &format!("worktree, ref: {text} }}"));
    for (sandbox, task, expected) in [
        (
            plain,
            TASK.to_owned(),
            "lies in none; use `isolation: copy`",
        ),
        (
            unborn,
            TASK.to_owned(),
            "has no commit that `isolation: worktree` could begin with",
        ),
        (bare, TASK.to_owned(), "a repository without a work tree"),
        (broken, TASK.to_owned(), "fatal: bad config line 1 in file"),
        (
            repository(),
            other("no-such"),
            "has no commit `no-such`; fetch it first",
        ),
    ] {
        let run = sandbox.task(&task).script("- text: never\n").run().exit(2);
        assert!(run.stderr().contains(expected), "{}", run.stderr());
        assert!(!run.path("agent-batch-results/task").exists());
    }
}

#[test]
fn shallow_sparse_linked_and_borrowing_repositories_have_worktrees_too() {
    let origin = repository();
    let repo = origin.path().join("repo");
    fs::write(repo.join("a.txt"), "2nd\n").unwrap();
    commit(&repo);
    let url = format!("file://{}", repo.display());
    let here = origin.path().to_path_buf();
    git(&here, &["clone", "-q", "--depth", "1", &url, "shallow"]);
    git(
        &here,
        &[
            "clone",
            "-q",
            "--shared",
            repo.to_str().unwrap(),
            "borrowing",
        ],
    );
    git(&here, &["clone", "-q", repo.to_str().unwrap(), "sparse"]);
    git(&here.join("sparse"), &["sparse-checkout", "set", "sub"]);
    git(
        &repo,
        &[
            "worktree",
            "add",
            "-q",
            "--detach",
            here.join("linked").to_str().unwrap(),
        ],
    );
    for (name, log) in [
        ("shallow", 1),
        ("borrowing", 2),
        ("sparse", 2),
        ("linked", 2),
    ] {
        let sandbox = Sandbox::new();
        let task = TASK
            .replace("../repo", here.join(name).to_str().unwrap())
            .replace("mode: acceptEdits", "allow: [\"Bash(git:*)\"]");
        let run = sandbox
            .task(&format!("tools: [Bash, Read]\n{task}"))
            .script(
                "- tool_calls: [{ name: Bash, input: { command: \"git log --format=tformat:COMMIT\" } }, { name: Read, input: { file_path: sub/b.txt } }, { name: Bash, input: { command: git status --short } }]\n- text: done\n",
            )
            .run()
            .exit(0);
        let said = run.events_of("task", "tool_finished");
        let content = |index: usize| said[index]["content"].as_str().unwrap().to_owned();
        assert_eq!(
            content(0).matches("COMMIT").count(),
            log,
            "{name}: {}",
            content(0)
        );
        assert_eq!(said[1]["result"], "ok", "{name}");
        assert!(!content(2).contains(".txt"), "{name}: {}", content(2));
    }
}

#[test]
fn of_a_partial_clone_there_is_what_it_has_and_nothing_is_fetched() {
    let origin = repository();
    let repo = origin.path().join("repo");
    fs::write(repo.join("a.txt"), "2nd\n").unwrap();
    commit(&repo);
    git(&repo, &["config", "uploadpack.allowFilter", "true"]);
    let here = origin.path().to_path_buf();
    let url = format!("file://{}", repo.display());
    git(
        &here,
        &["clone", "-q", "--filter=blob:none", &url, "partial"],
    );
    let partial = here.join("partial");
    // Whoever fetched something would leave a mark.
    let mark = here.join("fetched");
    let helper = format!("ext::touch {}", mark.display());
    git(&partial, &["config", "remote.origin.url", &helper]);
    git(&partial, &["config", "protocol.ext.allow", "always"]);
    let read = "- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: done\n  expect: [2nd]\n";
    for isolation in ["copy", "worktree"] {
        let path = partial.to_str().unwrap();
        let task = |more: &str| {
            let place = format!("{{ path: {path}, isolation: {isolation}{more} }}");
            format!("tools: [Read]\nworkspace: {place}\n")
        };
        let run = Sandbox::new().task(&task("")).script(read).run().exit(0);
        let told = warnings(&run, "task");
        assert!(
            told.contains("is a partial clone: git has no older contents"),
            "{told}"
        );
        if isolation == "worktree" {
            let sandbox = Sandbox::new().task(&task(", ref: HEAD~1")).script(read);
            for arguments in [&["tasks/task.yaml"][..], &["check", "tasks/task.yaml"]] {
                let said = sandbox.call(arguments).exit(2).stderr();
                let told = "a partial clone that lacks files of commit";
                assert!(said.contains(told), "{said}");
                assert!(said.contains("missing blob object"), "{said}");
            }
        }
    }
    assert!(!mark.exists());
    // The mark tells: git itself would fetch.
    let mut fetching = std::process::Command::new("git");
    let fetched = fetching.args(["-C", partial.to_str().unwrap(), "show", "HEAD~1:a.txt"]);
    assert!(!fetched.output().unwrap().status.success());
    assert!(mark.exists());
}

#[test]
fn submodules_are_empty_and_that_is_told() {
    let sandbox = repository()
        .task(&format!("tools: [Read]\n{TASK}"))
        .script("- text: done\n");
    let repo = sandbox.path().join("repo");
    let other = sandbox.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("o"), "o").unwrap();
    git(&other, &["init", "-q"]);
    commit(&other);
    git(
        &repo,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "add",
            "-q",
            other.to_str().unwrap(),
            "lib",
        ],
    );
    commit(&repo);
    let run = sandbox.run().exit(0);
    assert!(
        warnings(&run, "task").contains("submodules are empty"),
        "{}",
        warnings(&run, "task")
    );
}
