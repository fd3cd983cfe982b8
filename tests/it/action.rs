//! `action.yml` as a workflow uses it, run by `act` on this machine. The cache action is replaced by one that finds the
//! program that the tests have built, so that nothing is compiled here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

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
  injected:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: batch
        continue-on-error: true
        uses: ./
        with: { tasks: '$(touch injected) `touch injected` ; touch injected', out: results-injected }
      - run: test ! -e injected && test '${{ steps.batch.outcome }}' = failure
";

fn act() -> Option<PathBuf> {
    let act = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/act");
    let found = [act, PathBuf::from("act")].into_iter().find(|act| {
        Command::new(act)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("SKIPPED: `act` is not installed, so the action was not run");
    }
    found
}

/// A repository with the action, the examples and the workflow.
fn repository() -> Sandbox {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sandbox = Sandbox::new().with_toolchain();
    let sandbox = sandbox.file(".github/workflows/test.yml", WORKFLOW);
    for file in ["action.yml", "Cargo.toml", "Cargo.lock"] {
        fs::copy(checkout.join(file), sandbox.path().join(file)).unwrap();
    }
    let cached = "runs:\n  using: composite\n  steps:\n    - shell: bash\n      run: |\n        mkdir -p \"$RUNNER_TEMP/agent-batch/bin\"\n        cp PROGRAM \"$RUNNER_TEMP/agent-batch/bin/agent-batch\"\n";
    let cached = format!("name: cache\ndescription: finds what the tests have built\n{cached}")
        .replace("PROGRAM", env!("CARGO_BIN_EXE_agent-batch"));
    let sandbox = sandbox
        .file("src/lib.rs", "")
        .file("tmp/cache/action.yml", cached)
        .file(".gitignore", "tmp\n");
    crate::examples::copy(&checkout.join("tasks"), &sandbox.path().join("tasks"));
    sandbox.shell("git init -q -b main && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm all").exit(0);
    sandbox
}

/// The cache action that `action.yml` pins, as `owner/name@ref`.
fn pinned_cache() -> String {
    let action =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml")).unwrap();
    let line = action
        .lines()
        .find_map(|line| line.trim().strip_prefix("uses: actions/cache@"))
        .unwrap()
        .to_owned();
    format!("actions/cache@{}", line.split_whitespace().next().unwrap())
}

fn job(act: &Path, sandbox: &Sandbox, name: &str) -> (bool, Vec<Value>) {
    let cache = format!(
        "{}={}",
        pinned_cache(),
        sandbox.path().join("tmp/cache").display()
    );
    let mut command = sandbox.shell_environment(act);
    // What it keeps for itself must not lie in the repository that it copies.
    let own = tempfile::tempdir().unwrap();
    for name in ["HOME", "XDG_CACHE_HOME", "TMPDIR"] {
        command.env(name, own.path());
    }
    command.args([
        "push",
        "-P",
        "ubuntu-latest=-self-hosted",
        "--action-offline-mode",
        "--json",
        "-j",
        name,
    ]);
    command.args(["--local-repository", &cache]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() || name == "gating",
        "{text}\n{errors}"
    );
    (output.status.success(), lines)
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
    assert!(said(&lines, "summary").contains("2 of 2 tasks passed"));
    let outputs = said(&lines, "set-output");
    assert!(
        outputs.contains("\"conclusion\"") && outputs.contains("success"),
        "{outputs}"
    );
    let (passed, lines) = job(&act, &sandbox, "gating");
    assert!(!passed, "the job ends with the run's exit code");
    assert!(said(&lines, "summary").contains("0 of 3 tasks passed"));
    let checked = lines.iter().any(|line| {
        line["stepResult"] == "success"
            && line["step"]
                .as_str()
                .is_some_and(|step| step.contains("test "))
    });
    assert!(checked, "the outputs were not as expected");
    let (passed, _) = job(&act, &sandbox, "injected");
    assert!(passed);
}
