//! Every file in `tasks/` and every command in the README and the docs is run, in a copy of the checkout's `tasks/`.

use std::fs;
use std::path::Path;

use crate::documents;
use crate::replay;
use crate::sandbox::{Run, Sandbox};

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A directory with the examples and the toolchain that one of them needs.
fn examples() -> Sandbox {
    let sandbox = Sandbox::new();
    copy(&checkout().join("tasks"), &sandbox.path().join("tasks"));
    sandbox.with_toolchain()
}

fn task_files(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(checkout().join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = names
        .filter(|name| name.ends_with(".yaml"))
        .map(|name| format!("{directory}/{name}"))
        .collect();
    files.sort();
    files
}

fn count(junit: &str, attribute: &str) -> u32 {
    let root = junit
        .split_once("<testsuites")
        .unwrap()
        .1
        .split('>')
        .next()
        .unwrap();
    let value = root
        .split(&format!("{attribute}=\""))
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    value.parse().unwrap()
}

#[test]
fn the_examples_pass_twice_and_leave_the_checkout_as_it_was() {
    let sandbox = examples();
    let before = listing(&sandbox.path().join("tasks"));
    for _ in 0..2 {
        let run = sandbox.call(&["tasks/*.yaml"]).exit(0);
        let files = u32::try_from(task_files("tasks").len()).unwrap();
        assert!(files >= 6);
        assert_eq!(
            (
                count(&run.junit(), "tests"),
                count(&run.junit(), "failures")
            ),
            (files, 0)
        );
    }
    replay::assert_reports_can_be_made_again(&sandbox, 0);
    assert_eq!(listing(&sandbox.path().join("tasks")), before);
}

fn listing(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        } else {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn the_gating_tasks_fail_for_their_reasons() {
    let sandbox = examples();
    let run = sandbox.call(&["tasks/gating/*.yaml"]).exit(1);
    for (task, outcome) in [
        ("step-limit", "step_limit"),
        ("denied", "denied"),
        ("failing-check", "check_failed"),
    ] {
        assert_eq!(run.outcome(task), outcome);
        assert!(run.junit().contains(&format!("type=\"{outcome}\"")));
    }
    assert_eq!(count(&run.junit(), "failures"), 3);
    replay::assert_reports_can_be_made_again(&sandbox, 1);
    let replies = run.events_of("denied", "assistant_replied");
    assert_eq!(replies.last().unwrap()["stop_reason"], "end_turn");

    let file = sandbox.path().join("tasks/gating/denied.yaml");
    let ignoring = fs::read_to_string(&file)
        .unwrap()
        .replace("on_denied: fail", "on_denied: ignore");
    fs::write(&file, ignoring).unwrap();
    sandbox.call(&["tasks/gating/denied.yaml"]).exit(0);
}

#[test]
fn the_live_examples_are_valid_and_say_what_key_they_need() {
    let sandbox = examples();
    for file in task_files("tasks/live") {
        sandbox.call(&["check", &file]).exit(0);
        assert!(
            sandbox
                .call(&[&file])
                .exit(3)
                .stderr()
                .contains("ANTHROPIC_API_KEY")
        );
    }
}

/// The commands of the fenced `sh` blocks of a document.
fn commands(document: &str) -> Vec<String> {
    let blocks = documents::blocks(&documents::read(document), "sh");
    let lines = blocks.iter().flat_map(|block| block.lines());
    lines.map(str::to_owned).collect()
}

/// Runs a documented command the way a shell would, with the built program under its name.
pub(crate) fn documented(sandbox: &Sandbox, command: &str) -> Run {
    let program = env!("CARGO_BIN_EXE_agent-batch");
    let functions =
        format!("agent-batch() {{ {program} \"$@\"; }}; cargo() {{ shift 2; {program} \"$@\"; }}");
    sandbox.shell(&format!("{functions}; {command}"))
}

#[test]
fn every_command_in_the_documents_works() {
    let sandbox = examples();
    // The README's own task is none of the examples. Its workspace is this world, which must not hold the home.
    let first_task = Sandbox::new().env("HOME", "/nonexistent");
    documents::write_named_files(&first_task, &documents::read("README.md"));
    let mut ran = 0;
    for document in documents::all() {
        // Its example stands in the page, and has a test of its own.
        if document == "docs/scripts.md" {
            continue;
        }
        for command in commands(&document) {
            // `cargo test` is what runs this; a build and `cargo bench` take minutes; a test is not root.
            let is_elsewhere = ["cargo test", "cargo bench", "cargo install", "sudo "]
                .iter()
                .any(|start| command.starts_with(start));
            if is_elsewhere {
                continue;
            }
            // A key is nothing that a test has.
            let code = i32::from(command.starts_with("ANTHROPIC_API_KEY=")) * 3;
            let command = command.replace(
                "ANTHROPIC_API_KEY=...",
                "ANTHROPIC_BASE_URL=http://127.0.0.1:1 ANTHROPIC_API_KEY=none-here",
            ) + if code == 0 { "" } else { " --max-tries 1" };
            let world = if command.contains("tasks/fix-parser.yaml") {
                &first_task
            } else {
                &sandbox
            };
            documented(world, &command).exit(code);
            ran += 1;
        }
    }
    assert!(ran >= 25, "{ran} commands were found");
}

#[test]
fn the_task_files_in_the_documents_are_valid() {
    let mut checked = 0;
    for document in documents::all() {
        let text = documents::read(&document);
        for (n, block) in documents::blocks(&text, "yaml").iter().enumerate() {
            let sandbox = Sandbox::new();
            if block.contains("uses: ") {
                // A part of a workflow.
                continue;
            }
            if ["defaults:", "policy:", "quarantine:", "batch:"]
                .iter()
                .any(|key| block.lines().any(|line| line.starts_with(key)))
            {
                let sandbox = sandbox
                    .file("agent-batch.yaml", block)
                    .task("model: anthropic/claude-sonnet-5\n");
                sandbox.call(&["check", "tasks/task.yaml"]).exit(0);
            } else if block.contains("prompt:") {
                let sandbox = sandbox
                    .file(&format!("tasks/{n}.yaml"), block)
                    .file("tasks/scripts/bump.yaml", "- text: done\n");
                let commit = "git init -q -b main && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m 1";
                sandbox.shell(commit).exit(0);
                // A task beside its checkout's root has a workspace that holds this world's home.
                let sandbox = sandbox.env("HOME", "/nonexistent");
                sandbox.call(&["check", &format!("tasks/{n}.yaml")]).exit(0);
            } else if [
                "checks:",
                "permissions:",
                "hooks:",
                "sandbox:",
                "network:",
                "output_schema:",
                "trials:",
            ]
            .iter()
            .any(|key| block.starts_with(key))
            {
                // A part of a task, with what every task needs.
                let part = format!("model: anthropic/claude-sonnet-5\nprompt: x\n{block}");
                let sandbox = sandbox
                    .file("tasks/part.yaml", part)
                    .program("tasks/hooks/no-rm-rf.sh", "#!/bin/sh\n")
                    .env("HOME", "/nonexistent");
                sandbox.call(&["check", "tasks/part.yaml"]).exit(0);
            } else {
                continue;
            }
            checked += 1;
        }
    }
    assert!(checked >= 18, "{checked} blocks were found");
}
