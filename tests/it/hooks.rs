//! Hooks as real processes under the real supervisor: what they are given, how they end, what is left of them.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_batch::hook::{HookAnswer, HookContext, HookEvent, HookRuntime, HookSpec, Hooks};
use agent_batch::proc::Launcher;
use agent_batch::redact::Redactor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A workspace, and beside it a hook of this text.
struct World {
    workspace: TempDir,
    hooks: TempDir,
    timeout: Duration,
    cancel: CancellationToken,
}

impl World {
    fn new(script: &str) -> Self {
        let hooks = tempfile::tempdir().unwrap();
        let path = hooks.path().join("hook.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            workspace: tempfile::tempdir().unwrap(),
            hooks,
            timeout: Duration::from_secs(60),
            cancel: CancellationToken::new(),
        }
    }

    fn build(&self) -> Hooks {
        let spec = HookSpec {
            event: HookEvent::PreToolUse,
            matcher: "Bash".to_owned(),
            command: vec![
                self.hooks
                    .path()
                    .join("hook.sh")
                    .to_str()
                    .unwrap()
                    .to_owned(),
                "$(touch injected)".to_owned(),
            ],
            timeout: self.timeout,
        };
        let runtime = HookRuntime {
            launcher: Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into()),
            environment: BTreeMap::from([
                ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ]),
            workspace: self.workspace.path().to_path_buf(),
            redactor: Arc::new(Redactor::default()),
            cancel: self.cancel.clone(),
        };
        Hooks::build(&[spec], &[], runtime).unwrap()
    }

    async fn ask(&self, input: Value) -> HookAnswer {
        ask(&self.build(), input).await
    }
}

async fn ask(hooks: &Hooks, input: Value) -> HookAnswer {
    let fields = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": "toolu_1"});
    let fields = fields.as_object().unwrap().clone();
    let context = HookContext {
        session_id: "fix#1".to_owned(),
        ..HookContext::default()
    };
    hooks
        .run(HookEvent::PreToolUse, "Bash", fields, &context)
        .await
}

/// The reason of a block by a hook that did not work.
#[track_caller]
fn failure(answer: &HookAnswer) -> &str {
    match &answer.blocked {
        Some(block) if block.failure => &block.reason,
        other => panic!("expected a failure, found {other:?}"),
    }
}

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

#[tokio::test]
async fn a_hook_gets_the_call_on_stdin_and_nothing_of_it_elsewhere() {
    let world = World::new("cat >stdin; env >environment; printf '%s' \"$*\" >arguments; pwd >cwd");
    let answer = world.ask(json!({"command": "echo canary"})).await;
    assert!(
        answer.blocked.is_none() && answer.warnings.is_empty(),
        "{answer:?}"
    );
    let workspace = world.workspace.path();
    let stdin: Value = serde_json::from_str(&read(workspace, "stdin")).unwrap();
    assert_eq!(stdin["session_id"], "fix#1");
    assert_eq!(stdin["tool_input"], json!({"command": "echo canary"}));
    assert_eq!(read(workspace, "arguments"), "$(touch injected)");
    assert!(!workspace.join("injected").exists());
    assert_eq!(
        Path::new(read(workspace, "cwd").trim()),
        workspace.canonicalize().unwrap()
    );
    let environment = read(workspace, "environment");
    assert!(!environment.contains("canary"), "{environment}");
    assert!(
        environment.contains(&format!("CLAUDE_PROJECT_DIR={}", workspace.display())),
        "{environment}"
    );
    assert!(
        !environment.contains("CARGO"),
        "nothing of our own environment: {environment}"
    );
}

#[tokio::test]
async fn exit_codes_and_signals_mean_what_they_should() {
    let pass = World::new("exit 0").ask(json!({})).await;
    assert!(pass.blocked.is_none());

    let block = World::new("echo 'not on main' >&2; exit 2")
        .ask(json!({}))
        .await;
    let block = block.blocked.unwrap();
    assert_eq!(
        (block.reason.as_str(), block.failure),
        ("not on main", false)
    );

    for (script, part) in [
        ("exit 1", "code 1"),
        ("no-such-command-at-all", "code 127"),
        ("kill -9 $$", "signal 9"),
        ("echo '{'", "JSON is not valid"),
    ] {
        let answer = World::new(script).ask(json!({})).await;
        assert!(failure(&answer).contains(part), "{answer:?}");
    }
}

#[tokio::test]
async fn a_program_that_the_system_cannot_start_blocks() {
    let world = World::new("exit 0");
    let path = world.hooks.path().join("hook.sh");
    std::fs::write(&path, "#!/no/such/interpreter\n").unwrap();
    let answer = world.ask(json!({})).await;
    failure(&answer);
}

#[tokio::test]
async fn a_hook_that_hangs_is_ended_with_its_children_and_blocks() {
    let mut world = World::new("sleep 600 & sleep 600");
    world.timeout = Duration::from_millis(300);
    let answer = world.ask(json!({})).await;
    assert!(failure(&answer).contains("time limit"), "{answer:?}");
}

#[tokio::test]
async fn what_a_hook_leaves_in_the_background_is_ended_and_counted() {
    let world = World::new("sleep 600 >/dev/null 2>&1 & exit 0");
    let answer = world.ask(json!({})).await;
    assert!(answer.blocked.is_none(), "{answer:?}");
    assert_eq!(answer.leaked, 1);
}

#[tokio::test]
async fn a_hook_of_a_cancelled_task_is_not_waited_for() {
    let world = World::new("sleep 600");
    world.cancel.cancel();
    let answer = world.ask(json!({})).await;
    assert!(failure(&answer).contains("with the run"), "{answer:?}");
}

#[tokio::test]
async fn a_hook_that_prints_without_end_blocks() {
    let world = World::new("head -c 3000000 /dev/zero | tr '\\0' x");
    let answer = world.ask(json!({})).await;
    assert!(failure(&answer).contains("at most"), "{answer:?}");
}

#[tokio::test]
async fn a_hook_need_not_read_its_input() {
    let world = World::new("exit 0");
    let answer = world.ask(json!({"content": "x".repeat(2_000_000)})).await;
    assert!(answer.blocked.is_none(), "{answer:?}");
}

#[tokio::test]
async fn a_large_rewrite_arrives_whole() {
    let world = World::new(
        "content=$(head -c 600000 /dev/zero | tr '\\0' x)\n\
         printf '{\"hookSpecificOutput\":{\"updatedInput\":{\"content\":\"%s\"}}}' \"$content\"",
    );
    let answer = world.ask(json!({})).await;
    let content = answer.updated_input.unwrap()["content"]
        .as_str()
        .unwrap()
        .len();
    assert_eq!(content, 600_000);
}

#[tokio::test]
async fn an_agent_that_rewrites_the_hook_gains_nothing() {
    let world = World::new("echo no >&2; exit 2");
    let hooks = world.build();
    std::fs::write(world.hooks.path().join("hook.sh"), "#!/bin/sh\ntouch ran\n").unwrap();
    let answer = ask(&hooks, json!({})).await;
    assert!(
        failure(&answer).contains("changed since the start"),
        "{answer:?}"
    );
    assert!(!world.workspace.path().join("ran").exists());
    assert_eq!(hooks.tampered(), ["hook.sh"]);
}
