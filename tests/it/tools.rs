//! Bash through the real gate and the real supervisor.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_batch::policy::{Call, Mode, Policy, Roots, decide, queries};
use agent_batch::proc::Launcher;
use agent_batch::redact::Redactor;
use agent_batch::tool::{Seen, ToolContext, ToolOutput, builtin};
use agent_batch::workspace::resolve_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A workspace in which the gate asks for no rules.
struct Bench {
    _directory: tempfile::TempDir,
    root: PathBuf,
    context: ToolContext,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let root = base.join("workspace");
        std::fs::create_dir(&root).unwrap();
        let context = ToolContext {
            launcher: Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into()),
            environment: BTreeMap::from([
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
                ("BASH_ENV".to_owned(), "/dev/stdin".to_owned()),
            ]),
            output_dir: base.join("output"),
            output_stem: "call-1".to_owned(),
            output_limit: 20_000,
            time_limit: Duration::from_secs(60),
            cancel: CancellationToken::new(),
            redactor: Arc::new(Redactor::default()),
            seen: Arc::new(Seen::default()),
        };
        Self {
            _directory: directory,
            root,
            context,
        }
    }

    async fn call(&self, name: &str, input: Value) -> ToolOutput {
        let tool = builtin(name).unwrap();
        let policy = Arc::new(Policy {
            mode: Mode::BypassPermissions,
            roots: Roots {
                workspace: self.root.clone(),
                output: Some(self.context.output_dir.clone()),
                ..Roots::default()
            },
            ..Policy::default()
        });
        let call = Call {
            tool: name,
            input: &input,
            action: tool.action(&input),
            read_only: tool.is_read_only(&input),
        };
        let facts = resolve_all(&self.root, &queries(&call.action, &policy));
        let permit = decide(&call, &facts, &policy).unwrap();
        tool.call(permit, &self.context).await
    }

    async fn bash(&self, command: &str) -> ToolOutput {
        self.call("Bash", json!({"command": command})).await
    }
}

#[tokio::test]
async fn a_command_runs_in_the_workspace_and_its_output_comes_back() {
    let bench = Bench::new();
    std::fs::write(bench.root.join("a.txt"), "hello\n").unwrap();
    let output = bench.bash("cat a.txt").await;
    assert_eq!((output.text.as_str(), output.is_error), ("hello\n", false));
    let output = bench.bash("cat missing.txt").await;
    assert!(
        output.is_error && output.text.starts_with("Exit code 1\n"),
        "{}",
        output.text
    );
    let output = bench.bash("grep nothing a.txt").await;
    assert_eq!(
        (output.text.as_str(), output.is_error),
        ("[no output, exit code 1]", false)
    );
}

#[tokio::test]
async fn the_bytes_that_were_judged_are_the_bytes_that_run() {
    let bench = Bench::new();
    let output = bench.bash("  printf '%s|' \"a  b\"   'ä\\n' \\\\  ").await;
    assert_eq!(output.text, "a  b|ä\\n|\\|");
}

#[tokio::test]
async fn a_time_limit_of_the_model_is_cut_to_the_tasks() {
    let mut bench = Bench::new();
    bench.context.time_limit = Duration::from_millis(500);
    let output = bench
        .call(
            "Bash",
            json!({"command": "sleep 1000", "timeout": 1_000_000}),
        )
        .await;
    assert!(output.is_error && output.timed_out);
    assert!(
        output.text.contains("time limit of 500 ms"),
        "{}",
        output.text
    );
}

#[tokio::test]
async fn output_that_does_not_fit_is_read_in_parts() {
    let bench = Bench::new();
    let output = bench.bash("seq 1 1000000").await;
    assert!(output.text.len() <= bench.context.output_limit);
    let (path, bytes) = output.spilled.unwrap();
    assert_eq!(bytes, 6_888_896);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
    let input = json!({"file_path": path, "offset": 999_999, "limit": 1});
    let output = bench.call("Read", input).await;
    assert!(
        output.text.starts_with("999999\t999999\n"),
        "{}",
        output.text
    );
}
