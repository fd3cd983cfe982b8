//! `action.yml` as a workflow uses it, and the example of a matrix in the documents, run by `act` on this machine. The cache
//! action is replaced by one that finds the program that the tests have built, so that nothing is compiled here; those of
//! artifacts by ones that copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::ci;
use crate::sandbox::Sandbox;

const WORKFLOW: &str = r"
on: push
jobs:
  passing:
    runs-on: ubuntu-latest
    outputs:
      all: ${{ steps.batch.outputs.conclusion }} ${{ steps.batch.outputs.passed }} ${{ steps.batch.outputs.failed }} ${{ steps.batch.outputs.errors }}
    steps:
      - uses: actions/checkout@v4
      - id: batch
        uses: ./
        with: { tasks: tasks/review.yaml tasks/umbrella.yaml, out: results-passing, args: --jobs 2 }
      - run: test -f '${{ steps.batch.outputs.junit }}' && test -d '${{ steps.batch.outputs.run-dir }}'
  gating:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: batch
        uses: ./
        with: { tasks: 'tasks/gating/*.yaml', out: results-gating }
      - if: always()
        run: test '${{ steps.batch.outputs.conclusion }} ${{ steps.batch.outputs.failed }}' = 'failure 3'
  chosen:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: batch
        uses: ./
        with:
          tasks: tasks/review.yaml tasks/umbrella.yaml
          filter: name(review) & !name(umbrella)
          jobs: 1
          shard: auto
          history: not/there/yet
          out: results chosen
        env: { AGENT_BATCH_JOB_INDEX: 0, AGENT_BATCH_JOB_TOTAL: 1 }
      - run: test '${{ steps.batch.outputs.passed }} ${{ steps.batch.outputs.run-dir }}' = '1 results chosen'
      - id: again
        uses: ./
        with: { tasks: tasks/review.yaml, filter: name(review), history: results chosen, resume: results chosen }
      - id: compared
        uses: ./
        with: { tasks: tasks/review.yaml, baseline: results chosen, gate: broken, out: compared, config-from: HEAD }
      - uses: ./
        with: { tasks: tasks/review.yaml, baseline: not/there/yet, gate: broken, out: first }
      - run: test '${{ steps.again.outputs.passed }} ${{ steps.again.outputs.run-dir }}' = '1 results chosen' && test ! -e agent-batch-results
  injected:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
";

/// What a shell would run if an input were pasted into a script.
const INJECTED: &str = "'$(touch injected) `touch injected` \"; touch injected; \" --version'";

/// Stands in for the upload of artifacts: a directory for each, of which none is there twice.
const UPLOAD: &str = r#"
name: upload
description: copies
inputs:
  name: { description: which, required: true }
  path: { description: what, required: true }
  overwrite: { description: in place of an earlier one }
runs:
  using: composite
  steps:
    - shell: bash
      env: { NAME: '${{ inputs.name }}', FROM: '${{ inputs.path }}' }
      run: mkdir "STORE/$NAME" && cp -a "$FROM/." "STORE/$NAME"
"#;

/// Stands in for the download of several artifacts: a directory for each.
const DOWNLOAD: &str = r#"
name: download
description: copies
inputs:
  pattern: { description: which, required: true }
  path: { description: where to, required: true }
runs:
  using: composite
  steps:
    - shell: bash
      env: { PATTERN: '${{ inputs.pattern }}', TO: '${{ inputs.path }}' }
      run: mkdir "$TO" && cp -a STORE/$PATTERN "$TO"
"#;

fn act() -> Option<PathBuf> {
    installed("act")
}

fn installed(program: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/python/bin")
        .join(program);
    let found = [own, PathBuf::from(program)].into_iter().find(|program| {
        Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("SKIPPED: `{program}` is not installed");
    }
    found
}

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The action without its source, and what stands in for the cache.
fn with_action(sandbox: Sandbox, place: &str) -> Sandbox {
    let mut sandbox = sandbox;
    for file in ["action.yml", "Cargo.toml", "Cargo.lock"] {
        let text = fs::read(checkout().join(file)).unwrap();
        sandbox = sandbox.file(&format!("{place}{file}"), text);
    }
    let cached = "runs:\n  using: composite\n  steps:\n    - shell: bash\n      run: |\n        mkdir -p \"$RUNNER_TEMP/agent-batch/bin\"\n        cp PROGRAM \"$RUNNER_TEMP/agent-batch/bin/agent-batch\"\n";
    let cached = format!("name: cache\ndescription: finds what the tests have built\n{cached}")
        .replace("PROGRAM", env!("CARGO_BIN_EXE_agent-batch"));
    sandbox
        .file(&format!("{place}src/lib.rs"), "")
        .file("tmp/cache/action.yml", cached)
        .file(".gitignore", "tmp\n")
}

fn committed(sandbox: Sandbox) -> Sandbox {
    sandbox.shell("git init -q -b main && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm all").exit(0);
    sandbox
}

/// A repository with the action, the examples and the workflow.
fn repository() -> Sandbox {
    let mut workflow = WORKFLOW.to_owned();
    for input in [
        "tasks",
        "out",
        "filter",
        "jobs",
        "shard",
        "history",
        "resume",
        "merge",
        "baseline",
        "gate",
        "config-from",
        "args",
    ] {
        let tasks = if input == "tasks" {
            ""
        } else {
            "          tasks: tasks/review.yaml\n"
        };
        workflow.push_str(&format!(
            "      - continue-on-error: true\n        uses: ./\n        with:\n{tasks}          {input}: {INJECTED}\n      - run: test ! -e injected\n"
        ));
    }
    let sandbox = with_action(Sandbox::new().with_toolchain(), "")
        .file(".github/workflows/test.yml", workflow);
    crate::examples::copy(&checkout().join("tasks"), &sandbox.path().join("tasks"));
    committed(sandbox)
}

/// The action of this name in a workflow or an action, with the version that it names: `owner/name@ref`.
fn used(file: &str, name: &str) -> String {
    let text = fs::read_to_string(checkout().join(file)).unwrap();
    let prefix = format!("uses: {name}@");
    let line = text.lines().find_map(|line| {
        line.trim()
            .trim_start_matches("- ")
            .strip_prefix(&prefix)
            .map(str::to_owned)
    });
    let line = line.unwrap_or_else(|| panic!("{file} does not use {name}"));
    format!("{name}@{}", line.split_whitespace().next().unwrap())
}

/// Runs jobs on this machine. `stand_ins` are actions with the directories of the sandbox to take instead of them.
fn run_jobs(
    act: &Path,
    sandbox: &Sandbox,
    args: &[&str],
    stand_ins: &[(String, &str)],
) -> (bool, Vec<Value>, String) {
    let mut command = sandbox.shell_environment(act);
    // What it keeps for itself must not lie in the repository that it copies.
    let own = tempfile::tempdir().unwrap();
    for name in ["HOME", "XDG_CACHE_HOME", "TMPDIR"] {
        command.env(name, own.path());
    }
    command.args(args).args([
        "-P",
        "ubuntu-latest=-self-hosted",
        "--action-offline-mode",
        "--json",
    ]);
    for (action, place) in stand_ins {
        let place = sandbox.path().join(place);
        command.args([
            "--local-repository",
            &format!("{action}={}", place.display()),
        ]);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    (output.status.success(), lines, format!("{text}\n{errors}"))
}

fn job(act: &Path, sandbox: &Sandbox, name: &str) -> (bool, Vec<Value>) {
    let cache = (used("action.yml", "actions/cache"), "tmp/cache");
    let (passed, lines, all) = run_jobs(act, sandbox, &["push", "-j", name], &[cache]);
    assert!(passed || name == "gating", "{all}");
    (passed, lines)
}

fn said(lines: &[Value], command: &str) -> String {
    lines
        .iter()
        .filter(|line| line["command"] == command)
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_action_tells_results_outputs_and_summary() {
    let Some(act) = act() else { return };
    let sandbox = repository();
    let (passed, lines) = job(&act, &sandbox, "passing");
    assert!(passed);
    assert!(said(&lines, "summary").contains("Passed: all 2 tasks"));
    let outputs = said(&lines, "set-output");
    assert!(
        outputs.contains("\"conclusion\"") && outputs.contains("success"),
        "{outputs}"
    );
    let (passed, lines) = job(&act, &sandbox, "gating");
    assert!(!passed, "the job ends with the run's exit code");
    assert!(said(&lines, "summary").contains("Failed: 3 of 3 tasks"));
    let checked = lines.iter().any(|line| {
        line["stepResult"] == "success"
            && line["step"]
                .as_str()
                .is_some_and(|step| step.contains("test "))
    });
    assert!(checked, "the outputs were not as expected");
}

#[test]
fn inputs_of_the_action_choose_tasks_and_go_on_with_runs() {
    let Some(act) = act() else { return };
    let (passed, lines) = job(&act, &repository(), "chosen");
    assert!(passed);
    let all = format!("{lines:?}");
    for said in [
        "there is no history yet",
        "0 of 1 tasks left to run",
        "configuration is read from commit",
        "only this fails the run: broken",
        "there is no baseline yet",
    ] {
        assert!(all.contains(said), "{said}\n{all}");
    }
}

#[test]
fn no_input_of_the_action_is_run_by_its_shell() {
    let Some(act) = act() else { return };
    let (passed, lines) = job(&act, &repository(), "injected");
    assert!(passed);
    let checked = lines.iter().filter(|line| {
        line["stepResult"] == "success"
            && line["step"] == "test ! -e injected"
            && line["stage"] == "Main"
    });
    assert_eq!(checked.count(), 12);
}

#[test]
fn the_github_example_runs_its_shards_and_merges_them() {
    let Some(act) = act() else { return };
    const EXAMPLE: &str = "docs/ci/github.yml";
    let workflow = fs::read(checkout().join(EXAMPLE)).unwrap();
    let store = |sandbox: &Sandbox, text: &str| {
        text.replace("STORE", &sandbox.path().join("tmp/store").to_string_lossy())
    };
    let sandbox = with_action(ci::checkout(), "tmp/action/");
    let (upload, download) = (store(&sandbox, UPLOAD), store(&sandbox, DOWNLOAD));
    let sandbox = committed(
        sandbox
            .file(".github/workflows/agents.yml", workflow)
            .file("repo/README", "")
            .file("tmp/upload/action.yml", upload)
            .file("tmp/download/action.yml", download),
    );
    let stand_ins = [
        (used("action.yml", "actions/cache"), "tmp/cache"),
        (used(EXAMPLE, "agent-batch/agent-batch"), "tmp/action"),
        (used(EXAMPLE, "actions/upload-artifact"), "tmp/upload"),
        (used(EXAMPLE, "actions/download-artifact"), "tmp/download"),
    ];
    let all_jobs = |sandbox: &Sandbox| {
        let store = sandbox.path().join("tmp/store");
        let _ = fs::remove_dir_all(&store);
        fs::create_dir_all(&store).unwrap();
        let (passed, _, all) = run_jobs(&act, sandbox, &["workflow_dispatch"], &stand_ins);
        let summary = store.join("agent-batch-results/summary.json");
        let summary = fs::read_to_string(summary).unwrap_or_else(|error| panic!("{error}\n{all}"));
        (passed, summary, all)
    };
    let (passed, summary, all) = all_jobs(&sandbox);
    assert!(passed, "{all}");
    ci::merged(&summary);
    // A task that fails its check fails its shard, and the merge all the same has all of them.
    let sandbox = sandbox.named_task(
        "two",
        "model: scripted/../replies.yaml\ntools: []\nchecks: [{ reply: { contains: never } }]\n",
    );
    let (passed, summary, all) = all_jobs(&sandbox);
    assert!(!passed, "{all}");
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["totals"]["passed"], 2, "{all}");
    assert_eq!(summary["totals"]["failed"], 1, "{all}");
    assert_eq!(summary["merge"]["faults"].as_array().unwrap().len(), 0);
}

#[test]
fn workflows_are_as_actionlint_wants_them() {
    let Some(actionlint) = installed("actionlint") else {
        return;
    };
    let output = Command::new(actionlint)
        .current_dir(checkout())
        .args(["-no-color", "-oneline"])
        .args([
            ".github/workflows/agent-batch.yml",
            ".github/workflows/audit.yml",
            ".github/workflows/ci.yml",
            "docs/ci/github.yml",
            "docs/ci/github-nightly.yml",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
