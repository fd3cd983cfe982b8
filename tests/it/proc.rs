//! Real processes under the real supervisor: how they end, what is left of them, what they see.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent_batch::proc::{CALL_MARKER, Ending, Finished, Launcher, Spec, Stderr, child_environment};
use agent_batch::redact::Redactor;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-batch");

fn spec(script: &str) -> Spec {
    Spec {
        argv: ["/bin/bash", "--noprofile", "--norc", "-c", script]
            .map(str::to_owned)
            .to_vec(),
        cwd: "/".into(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        stdin: Vec::new(),
        time_limit: Duration::from_secs(60),
        keep: 10_000,
        spill: None,
        stderr: Stderr::Merged,
    }
}

async fn try_run(spec: Spec) -> std::io::Result<Finished> {
    Launcher::new(PROGRAM.into())
        .run(
            spec,
            Arc::new(Redactor::default()),
            &CancellationToken::new(),
        )
        .await
}

async fn run(spec: Spec) -> Finished {
    try_run(spec).await.unwrap()
}

/// Waits until the file has content: the process that writes it is where the test wants it.
async fn written(path: &Path) -> String {
    for _ in 0..3000 {
        if let Ok(text) = std::fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return text.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("`{}` was never written", path.display());
}

/// Whether the process is there and no zombie.
fn is_alive(pid: &str) -> bool {
    let pid: u32 = pid.parse().unwrap();
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

/// A shell fragment that leaves a process which was forked twice, has a session of its own, holds the pipe open, and
/// has written its id to the file when the fragment ends.
fn daemon(file: &Path) -> String {
    let file = file.display();
    format!(
        "setsid bash -c '(echo $BASHPID > {file}; exec sleep 1000) &' ; until [ -s {file} ]; do sleep 0.01; done"
    )
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    assert_eq!(run(spec("exit 0")).await.ending, Ending::Exited(0));
    assert_eq!(run(spec("exit 7")).await.ending, Ending::Exited(7));
    assert_eq!(run(spec("kill -15 $$")).await.ending, Ending::Signaled(15));
}

#[tokio::test]
async fn both_streams_come_in_order_when_merged() {
    let finished = run(spec("echo one; echo two >&2; echo three; echo four >&2")).await;
    assert_eq!(finished.stdout.text, "one\ntwo\nthree\nfour\n");
    assert_eq!(finished.stderr.text, "");
}

#[tokio::test]
async fn streams_can_be_kept_apart() {
    let mut spec = spec("echo out; echo err >&2");
    spec.stderr = Stderr::Separate;
    let finished = run(spec).await;
    assert_eq!(finished.stdout.text, "out\n");
    assert_eq!(finished.stderr.text, "err\n");
}

#[tokio::test]
async fn standard_input_arrives_whole_and_ends() {
    let mut spec = spec("cat | wc -c");
    spec.stdin = vec![b'x'; 3_000_000];
    assert_eq!(run(spec).await.stdout.text.trim(), "3000000");
}

#[tokio::test]
async fn a_command_need_not_read_its_input() {
    let mut spec = spec("echo done");
    spec.stdin = vec![b'x'; 3_000_000];
    assert_eq!(run(spec).await.stdout.text, "done\n");
}

#[tokio::test]
async fn the_environment_is_exactly_the_one_given() {
    let mut spec = spec("");
    spec.argv = vec!["/usr/bin/env".to_owned(), "-0".to_owned()];
    spec.env = BTreeMap::from([
        ("ONE".to_owned(), "first\nsecond".to_owned()),
        ("TWO".to_owned(), "ä".to_owned()),
    ]);
    let expected = spec.env.clone();
    let finished = run(spec).await;
    let mut seen: BTreeMap<String, String> = finished
        .stdout
        .text
        .split_terminator('\0')
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert!(seen.remove(CALL_MARKER).is_some());
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn the_supervisor_shows_nothing_of_the_call() {
    let mut spec = spec("tr '\\0' ' ' < /proc/$PPID/cmdline; echo; cat /proc/$PPID/environ");
    spec.env.insert("CANARY".into(), "canary".into());
    let text = run(spec).await.stdout.text;
    assert_eq!(text.trim(), format!("{PROGRAM} supervise"));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_that_names_it() {
    let mut missing = spec("");
    missing.argv = vec!["/nowhere/at-all".to_owned()];
    let error = try_run(missing).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(error.to_string().contains("`/nowhere/at-all`"), "{error}");

    let mut empty = spec("");
    empty.argv.clear();
    assert!(try_run(empty).await.is_err());
}

#[tokio::test]
async fn a_daemon_left_behind_is_killed_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let finished = run(spec(&daemon(&file))).await;
    assert_eq!(finished.ending, Ending::Exited(0));
    assert_eq!(finished.leaked, 1);
    assert!(!is_alive(&written(&file).await));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_is_left_behind_is_told_with_its_ports() {
    let directory = tempfile::tempdir().unwrap();
    let port = directory.path().join("port");
    let server = "import os, socket, sys, time\n\
                  s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen()\n\
                  open(sys.argv[1] + \".new\", \"w\").write(str(s.getsockname()[1]))\n\
                  os.rename(sys.argv[1] + \".new\", sys.argv[1]); time.sleep(1000)\n";
    std::fs::write(directory.path().join("server.py"), server).unwrap();
    let script = format!(
        "cd '{}'; setsid python3 server.py port >/dev/null 2>&1 & until [ -e '{}' ]; do sleep 0.01; done",
        directory.path().display(),
        port.display()
    );
    let finished = run(spec(&script)).await;
    let port = std::fs::read_to_string(port).unwrap();
    let told = format!("`python3 server.py port`, listening on {port}");
    assert_eq!(finished.leaked, 1);
    assert!(finished.left[0].ends_with(&told), "{:?}", finished.left);
}

#[tokio::test]
async fn a_daemon_without_environment_is_killed_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = daemon(&file).replace("setsid bash", "env -i PATH=$PATH setsid bash");
    assert_eq!(run(spec(&script)).await.leaked, 1);
    assert!(!is_alive(&written(&file).await));
}

#[tokio::test]
async fn nothing_is_leaked_by_a_process_that_ends_by_itself() {
    let finished = run(spec("echo x > >(cat); exit 0")).await;
    assert_eq!(finished.leaked, 0);
    assert_eq!(finished.stdout.text, "x\n");
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_tree() {
    let directory = tempfile::tempdir().unwrap();
    let (child, stray) = (
        directory.path().join("child"),
        directory.path().join("stray"),
    );
    let script = format!(
        "trap '' TERM; {}; (echo $BASHPID > {}; sleep 1000); echo never",
        daemon(&stray),
        child.display()
    );
    let mut spec = spec(&script);
    spec.time_limit = Duration::from_secs(2);
    let finished = run(spec).await;
    assert_eq!(finished.ending, Ending::TimedOut);
    assert_eq!(
        finished.leaked, 1,
        "the daemon, and not the command's own tree"
    );
    assert!(!is_alive(&written(&child).await));
    assert!(!is_alive(&written(&stray).await));
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let cancel = CancellationToken::new();
    let launcher = Launcher::new(PROGRAM.into());
    let script = format!("{}; echo before; sleep 1000", daemon(&file));
    let call = launcher.run(spec(&script), Arc::new(Redactor::default()), &cancel);
    let (finished, pid) = tokio::join!(call, async {
        let pid = written(&file).await;
        cancel.cancel();
        pid
    });
    assert_eq!(finished.unwrap().ending, Ending::Cancelled);
    assert!(!is_alive(&pid));
}

#[tokio::test]
async fn a_cancelled_task_starts_nothing() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let launcher = Launcher::new("/nowhere/supervisor".into());
    let finished = launcher
        .run(spec("true"), Arc::new(Redactor::default()), &cancel)
        .await
        .unwrap();
    assert_eq!(finished.ending, Ending::Cancelled);
}

#[tokio::test]
async fn a_dropped_call_ends_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("{}; sleep 1000", daemon(&file));
    let call = tokio::spawn(run(spec(&script)));
    let pid = written(&file).await;
    call.abort();
    let _ = call.await;
    gone(&pid).await;
}

async fn gone(pid: &str) {
    for _ in 0..3000 {
        if !is_alive(pid) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still alive");
}

#[tokio::test]
async fn when_the_runner_dies_everything_ends() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let (mut control, remote) = UnixStream::pair().unwrap();
    let mut supervisor = supervisor(remote.into());
    let script = format!("{}; sleep 1000", daemon(&file));
    let header = serde_json::json!({
        "argv": ["/bin/bash", "-c", script], "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "nonce": "a word",
    })
    .to_string();
    control
        .write_all(&(header.len() as u64).to_le_bytes())
        .unwrap();
    control.write_all(header.as_bytes()).unwrap();
    control.write_all(&0_u64.to_le_bytes()).unwrap();
    let pid = written(&file).await;
    assert!(is_alive(&pid));
    // What the kernel does for a runner that was killed.
    drop(control);
    assert!(supervisor.wait().unwrap().success());
    assert!(!is_alive(&pid));
}

#[test]
fn a_supervisor_without_an_order_does_nothing() {
    let (control, remote) = UnixStream::pair().unwrap();
    let mut supervisor = supervisor(remote.into());
    (&control).write_all(&[1, 0, 0]).unwrap();
    control.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(supervisor.wait().unwrap().code(), Some(3));
    let mut answer = Vec::new();
    let _ = (&control).read_to_end(&mut answer);
    assert!(answer.is_empty());
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test stands in for the runner"
)]
fn supervisor(control: OwnedFd) -> std::process::Child {
    Command::new(PROGRAM)
        .arg("supervise")
        .stdin(control)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn killing_the_supervisor_frees_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (shell, stray) = (
        directory.path().join("shell"),
        directory.path().join("stray"),
    );
    let script = format!(
        "{}; echo $$ > {}; kill -9 $PPID; sleep 1000",
        daemon(&stray).replace("setsid bash", "env -i PATH=$PATH setsid bash"),
        shell.display()
    );
    let finished = run(spec(&script)).await;
    assert_eq!(finished.ending, Ending::Signaled(9));
    assert!(finished.leaked >= 2, "{finished:?}");
    assert!(!is_alive(&written(&shell).await));
    assert!(!is_alive(&written(&stray).await));
}

/// Containers and CI runners give us process namespaces whose session began outside: there its id is 0, which is no id.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test starts itself in another process namespace"
)]
fn killing_the_supervisor_frees_nobody_in_a_foreign_session_either() {
    let this = std::env::current_exe().unwrap();
    let output = Command::new("bwrap")
        .args(["--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc"])
        .arg("--")
        .arg(this)
        .args(["--exact", "proc::killing_the_supervisor_frees_nobody"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[tokio::test]
async fn a_sweep_spares_other_calls() {
    let directory = tempfile::tempdir().unwrap();
    let (ready, go) = (directory.path().join("ready"), directory.path().join("go"));
    let script = format!(
        "echo x > {}; until [ -e {} ]; do sleep 0.01; done; echo survived",
        ready.display(),
        go.display()
    );
    let (other, ()) = tokio::join!(run(spec(&script)), async {
        written(&ready).await;
        run(spec("kill -9 $PPID; sleep 1000")).await;
        std::fs::write(&go, "").unwrap();
    });
    assert_eq!(other.ending, Ending::Exited(0));
    assert_eq!(other.stdout.text, "survived\n");
}

#[tokio::test]
async fn fifty_megabytes_cost_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let mut spec = spec("yes 0123456789012345678901234567890123456789012345678 | head -c 50000000");
    spec.spill = Some(path.clone());
    let before = peak_memory();
    let finished = run(spec).await;
    let grown = peak_memory() - before;
    assert_eq!(finished.stdout.bytes, 50_000_000);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 50_000_000);
    assert!(finished.stdout.text.len() < 11_000);
    assert!(finished.stdout.text.contains("left out"));
    assert!(grown < 20_000, "{grown} kB more at the peak");
}

/// In kB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_ascii_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn binary_output_becomes_text_without_loss_of_count() {
    let finished = run(spec(r"printf 'a\xff\x00\xc3'")).await;
    assert_eq!(finished.stdout.bytes, 4);
    assert_eq!(finished.stdout.text, "a\u{fffd}\0\u{fffd}");
}

#[tokio::test]
async fn processes_that_fork_faster_than_one_can_look_are_caught() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("count");
    let script = format!(
        "f() {{ (echo x >> {file}; f &) ; }}; (f &); until [ -s {file} ]; do :; done",
        file = file.display()
    );
    assert!(run(spec(&script)).await.leaked >= 1);
    let marked = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&script))
        });
    assert_eq!(marked.count(), 0);
}

#[tokio::test]
async fn git_runs_no_program_that_a_repository_names() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let parent = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let mut hostile = spec(
        "git init -q repo && cd repo \
         && printf '#!/bin/sh\\necho ran >> ../canary\\n' > evil && chmod +x evil \
         && mkdir hooks && cp evil hooks/pre-commit && cp evil hooks/post-checkout \
         && git config core.fsmonitor ./evil && git config core.hooksPath hooks \
         && git config core.pager ./evil && git config core.editor ./evil \
         && git add . && git -c user.name=n -c user.email=e commit -q -m one \
         && git status --short && git log --oneline | wc -l && git checkout -q -b two",
    );
    hostile.cwd = directory.path().to_path_buf();
    hostile.env = child_environment(parent.into_iter(), &home, directory.path());
    let finished = run(hostile).await;
    assert_eq!(
        finished.ending,
        Ending::Exited(0),
        "{}",
        finished.stdout.text
    );
    assert_eq!(finished.stdout.text.trim(), "1");
    assert!(!directory.path().join("canary").exists());
}
