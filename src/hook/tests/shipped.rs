//! The hooks that are shipped in `tasks/hooks`, run for real.

use std::io::Write as _;
use std::process::Stdio;

use super::*;

/// Starts programs without supervision: enough for two short scripts.
struct Plain;

#[async_trait::async_trait]
impl Start for Plain {
    #[expect(
        clippy::disallowed_methods,
        reason = "the launcher needs the built program, which a unit test does not have"
    )]
    async fn start(
        &self,
        spec: Spec,
        _redactor: Arc<Redactor>,
        _cancel: &CancellationToken,
    ) -> std::io::Result<Finished> {
        let mut child = std::process::Command::new(&spec.argv[0])
            .args(&spec.argv[1..])
            .current_dir(&spec.cwd)
            .env_clear()
            .envs(&spec.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // A script that ends early closes its stdin; that is its own affair.
        let _ = child.stdin.take().unwrap().write_all(&spec.stdin);
        let output = child.wait_with_output()?;
        Ok(exited(
            output.status.code().unwrap(),
            &String::from_utf8_lossy(&output.stdout),
            &String::from_utf8_lossy(&output.stderr),
        ))
    }
}

async fn ask(workspace: &Path, command: &[&str], tool: &str, input: &Value) -> HookAnswer {
    let script = format!("{}/tasks/hooks/{}", env!("CARGO_MANIFEST_DIR"), command[0]);
    let mut argv = vec![script.as_str()];
    argv.extend(&command[1..]);
    let specs = [spec(HookEvent::PreToolUse, "", &argv)];
    let hooks = Hooks::build_in(&specs, &[], surroundings(Plain, workspace)).unwrap();
    let fields = json!({"tool_name": tool, "tool_input": input, "tool_use_id": "toolu_1"});
    let context = HookContext {
        session_id: "fix-bug#2".to_owned(),
        ..HookContext::default()
    };
    let fields = fields.as_object().unwrap().clone();
    hooks
        .run(HookEvent::PreToolUse, tool, fields, &context)
        .await
}

#[tokio::test]
async fn no_rm_rf_blocks_what_it_says_and_misses_what_it_says() {
    let workspace = tempfile::tempdir().unwrap();
    for (tool, command, blocked) in [
        ("Bash", "rm -rf build", true),
        ("Bash", "cd x && sudo rm -rf /", true),
        ("Bash", "echo '\"tool_name\":\"Read\"'; rm -rf .", true),
        ("Bash", "rm build/app.tmp", false),
        ("Bash", "rm -r -f build", false),
        ("Bash", "rm  -rf build", false),
        ("Write", "rm -rf build", false),
        ("Write", "\"tool_name\":\"Bash\" rm -rf", false),
    ] {
        let input = json!({"command": command});
        let answer = ask(workspace.path(), &["no-rm-rf.sh"], tool, &input).await;
        assert_eq!(
            answer.blocked.is_some(),
            blocked,
            "{tool} {command}: {answer:?}"
        );
        if let Some(block) = answer.blocked {
            assert_eq!(
                block.reason,
                "`rm -rf` is always blocked; remove single files instead"
            );
            assert!(!block.failure);
        }
    }
}

#[tokio::test]
async fn audit_writes_one_line_for_each_call() {
    let workspace = tempfile::tempdir().unwrap();
    let log = tempfile::tempdir().unwrap();
    let directory = log.path().to_str().unwrap();
    for command in ["ls", "printf 'a\nb' %s \\n", "帶吧"] {
        let input = json!({"command": command});
        let answer = ask(workspace.path(), &["audit.sh", directory], "Bash", &input).await;
        assert!(answer.blocked.is_none(), "{answer:?}");
    }
    let text = std::fs::read_to_string(log.path().join("audit-fix-bug-2.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["tool_input"]["command"], "printf 'a\nb' %s \\n");
    assert_eq!(lines[2]["tool_use_id"], "toolu_1");
}

#[tokio::test]
async fn audit_blocks_when_it_cannot_log() {
    let workspace = tempfile::tempdir().unwrap();
    let inside = workspace.path().to_str().unwrap();
    for command in [
        &["audit.sh"][..],
        &["audit.sh", "relative"],
        &["audit.sh", "/no/such/directory"],
        &["audit.sh", inside],
    ] {
        let answer = ask(workspace.path(), command, "Bash", &json!({})).await;
        assert!(answer.blocked.unwrap().failure, "{command:?}");
    }
}
