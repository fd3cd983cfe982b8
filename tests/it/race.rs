//! A directory that turns into a link and back while the Write tool writes below it: gate, resolver and opener together.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_batch::policy::{Action, Effect, Policy, Roots, Rule, Source, decide, queries};
use agent_batch::policy::{Call, Mode};
use agent_batch::proc::Launcher;
use agent_batch::redact::Redactor;
use agent_batch::tool::{Seen, ToolContext, builtin};
use agent_batch::workspace::resolve_all;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

const ROUNDS: usize = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapping_a_directory_for_a_link_never_lets_the_write_tool_out() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    let (root, outside) = (base.join("ws"), base.join("outside"));
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "mine").unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let source = Source {
        layer: "task".into(),
        file: "task.yaml".into(),
    };
    let policy = Arc::new(Policy {
        mode: Mode::Strict,
        allow: vec![Rule::parse("Write(**)", Effect::Allow, source).unwrap()],
        deny: Vec::new(),
        roots: Roots {
            workspace: root.clone(),
            ..Roots::default()
        },
    });
    let context = ToolContext {
        launcher: Launcher::new("/nowhere/supervisor".into()),
        environment: std::collections::BTreeMap::new(),
        output_dir: base.join("output"),
        output_stem: "call-1".to_owned(),
        output_limit: 20_000,
        time_limit: std::time::Duration::from_secs(60),
        cancel: tokio_util::sync::CancellationToken::new(),
        redactor: Arc::new(Redactor::default()),
        seen: Arc::new(Seen::default()),
    };

    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, dir, link) = (Arc::clone(&stop), root.join("dir"), root.join("link"));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        })
    };
    let tool = builtin("Write").unwrap();
    let (mut denied, mut failed, mut written) = (0, 0, 0);
    for round in 0..ROUNDS {
        // A new name each round: a file that is there has to be read first.
        let path = format!("dir/{round}");
        let input = json!({"file_path": path, "content": "theirs"});
        let action = tool.action(&input);
        assert_eq!(action, Action::Write { path });
        let facts = resolve_all(&root, &queries(&action, &policy));
        let call = Call {
            tool: "Write",
            input: &input,
            action,
            read_only: false,
        };
        let Ok(permit) = decide(&call, &facts, &policy) else {
            denied += 1;
            continue;
        };
        if tool.call(permit, &context).await.is_error {
            failed += 1;
        } else {
            written += 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert_eq!(denied + failed + written, ROUNDS);
    assert!(
        written > 0 && denied > 0,
        "the race was run: {denied} denied, {failed} failed, {written} written"
    );
    let left: Vec<_> = fs::read_dir(&outside).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"mine");
}
