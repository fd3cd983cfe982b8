//! What a hostile model did to get out of the sandbox, to leave something for the next call, or to be believed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use agent_batch::proc::{Ending, Launcher};
use agent_batch::redact::Redactor;
use agent_batch::sandbox::{Ceilings, Layers, Missing};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::sandbox::{Run, Sandbox};
use crate::sandboxed::{Cell, PROGRAM, TRY, cells, has_mounts, is_whole};

/// A task that may call Bash with anything, and a model that makes these calls: past the gate, which reads no scripts.
fn hostile(yaml: &str, commands: &[&str]) -> Sandbox {
    let mut sandbox = Sandbox::new();
    let mut script = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        let name = format!("attack/{number}.sh");
        let call = json!({ "name": "Bash", "input": { "command": format!("bash {name}") } });
        script.push(json!({ "tool_calls": [call] }));
        sandbox = sandbox.file(&format!("repo/{name}"), command);
    }
    script.push(json!({ "text": "done" }));
    sandbox
        .task(&format!("tools: [Bash]\n{yaml}"))
        .script(&serde_json::Value::from(script).to_string())
        .args(&["--allow-bypass"])
}

const FREE: &str = "sandbox: required\npermissions: { mode: bypassPermissions }\n";

/// What the Bash calls printed.
fn said(run: &Run) -> Vec<String> {
    let finished = run.events_of("task", "tool_finished");
    let text = |event: &serde_json::Value| event["content"].as_str().unwrap().to_owned();
    finished.iter().map(text).collect()
}

fn warnings(run: &Run) -> String {
    let warned = run.events_of("task", "warned");
    let messages = warned.iter().filter_map(|event| event["message"].as_str());
    messages.collect::<Vec<_>>().join("\n")
}

/// Pauses between two looks at what another process does.
fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

// ---- what is protected

#[test]
fn the_repository_of_an_additional_directory_is_read_only() {
    if !is_whole() {
        return;
    }
    let yaml = "sandbox: required\npermissions: { mode: bypassPermissions, additional_directories: [../extra] }\n";
    let command = "touch ../extra/.git/hooks/x || echo held; echo '[core]' >> ../extra/.git/config || echo held; \
                   mv ../extra/.git ../extra/gone || echo held; echo x > ../extra/fine";
    let run = hostile(yaml, &[command])
        .file("extra/.git/config", "")
        .file("extra/.git/hooks/kept", "")
        .run()
        .exit(0);
    assert_eq!(
        said(&run)[0].matches("held\n").count(),
        3,
        "{:?}",
        said(&run)
    );
    assert_eq!(run.read("extra/.git/config"), "");
    assert_eq!(run.read("extra/fine"), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_protected_is_not_run() {
    for (name, mut cell) in cells().into_iter().filter(|(_, cell)| has_mounts(cell)) {
        fs::create_dir(cell.at("ws/tasks")).unwrap();
        cell.plan
            .protect(cell.at("ws/tasks/a.yaml"), Missing::Placeholder);
        assert_eq!(cell.bash("echo ran").await, "ran\n", "{name}");
        fs::remove_dir(cell.at("ws/tasks")).unwrap();
        let error = cell.try_bash("touch ran").await.unwrap_err().to_string();
        assert!(
            error.contains("tasks/a.yaml` cannot be protected"),
            "{name}: {error}"
        );
        assert!(!cell.at("ws/ran").exists(), "{name}");
    }
}

#[test]
fn protected_links_stay_and_what_they_lead_to_is_read_only() {
    if !is_whole() {
        return;
    }
    let sandbox = hostile(
        FREE,
        &[
            "echo x >> AGENTS.md || echo held; echo x >> CLAUDE.md || echo held; rm CLAUDE.md; echo hostile > CLAUDE.md; \
             rm .git; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
            "cat CLAUDE.md; ls .git/hooks || echo none",
            "echo steered > later.md",
        ],
    )
    .file("repo/AGENTS.md", "the rules\n")
    .file("elsewhere/HEAD", "");
    for (link, target) in [
        ("CLAUDE.md", "AGENTS.md"),
        (".git", "../elsewhere"),
        ("GEMINI.md", "later.md"),
    ] {
        symlink(target, sandbox.path().join("repo").join(link)).unwrap();
    }
    let run = sandbox.run().exit(1);
    assert_eq!(
        said(&run)[0].matches("held\n").count(),
        2,
        "{:?}",
        said(&run)
    );
    assert!(
        said(&run)[1].starts_with("the rules\n") && said(&run)[1].ends_with("none\n"),
        "{:?}",
        said(&run)
    );
    assert_eq!(run.outcome("task"), "denied");
    assert_eq!(
        fs::read_link(run.path("repo/.git")).unwrap(),
        Path::new("../elsewhere")
    );
    assert_eq!(
        fs::read_link(run.path("repo/CLAUDE.md")).unwrap(),
        Path::new("AGENTS.md")
    );
    assert_eq!(run.read("repo/AGENTS.md"), "the rules\n");
    let told = warnings(&run);
    for (name, what) in [
        ("CLAUDE.md", "replaced; it has been put back"),
        (".git", "replaced"),
        ("GEMINI.md", "exchanged"),
    ] {
        assert!(
            told.lines()
                .any(|line| line.contains(name) && line.contains(what)),
            "{name}: {told}"
        );
    }
}

#[test]
fn a_rule_that_names_what_a_link_leads_to_opens_it() {
    if !is_whole() {
        return;
    }
    let yaml = "sandbox: required\npermissions: { allow: [Bash, 'Edit(AGENTS.md)'] }\n";
    let sandbox = hostile(yaml, &["cp new AGENTS.md && echo written"])
        .file("repo/AGENTS.md", "")
        .file("repo/new", "changed");
    symlink("AGENTS.md", sandbox.path().join("repo/CLAUDE.md")).unwrap();
    let run = sandbox.run();
    assert_eq!(said(&run), ["written\n"], "{}", run.stderr());
}

#[test]
fn a_repository_that_comes_to_be_fails_the_task_and_is_named() {
    if !is_whole() {
        return;
    }
    let plant = "mkdir -p a/b/c/d/e/f/.git/hooks bare/objects bare/refs; echo ref: refs/heads/x > bare/HEAD; \
                 mkdir file; echo gitdir: ../x > file/.git";
    let run = hostile(FREE, &[plant])
        .file("repo/.git/HEAD", "")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "denied");
    let told = warnings(&run);
    for name in ["`a/b/c/d/e/f/.git`", "`bare`", "`file/.git`"] {
        assert!(told.contains(name), "{name}: {told}");
    }
    assert!(
        run.junit().contains("a repository came to be"),
        "{}",
        run.junit()
    );

    let ignored = hostile(FREE, &["mkdir -p target/dependency/.git"])
        .file("repo/.gitignore", "/target/\n")
        .file("repo/.git/HEAD", "")
        .run()
        .exit(0);
    assert!(
        warnings(&ignored).contains("target/dependency/.git"),
        "builds fetch there"
    );
}

#[test]
fn a_deep_repository_that_is_made_to_run_something_fails_the_task() {
    if !is_whole() {
        return;
    }
    let hook = "a/b/c/d/e/f/.git/hooks/post-checkout";
    let run = hostile(FREE, &[&format!("echo evil > {hook}")])
        .file("repo/a/b/c/d/e/f/.git/hooks/kept", "")
        .run()
        .exit(1);
    assert!(
        warnings(&run).contains("`a/b/c/d/e/f/.git`"),
        "{}",
        warnings(&run)
    );
}

// ---- what one call leaves for the next

#[test]
fn no_link_in_a_place_that_is_written_steers_the_mounts_of_the_next_call() {
    if !is_whole() {
        return;
    }
    // The private directories lie in the workspace, because the temporary directory does.
    let steer = "d=$(dirname \"$(dirname \"$HOME\")\"); mkdir -p \"$PWD/lure/1/home\" \"$PWD/lure/1/tmp\"; \
                 mv \"$d\" \"$d.old\" && ln -s \"$PWD/../outside\" \"$d\" && echo steered";
    let sandbox = hostile(FREE, &[steer, "touch \"$HOME/planted\"; echo ran"])
        .file("outside/1/home/kept", "")
        .file("outside/1/tmp/kept", "");
    let tmp = sandbox.path().join("repo/tmp");
    fs::create_dir(&tmp).unwrap();
    let run = sandbox.env("TMPDIR", tmp.to_str().unwrap()).run();
    assert!(!run.path("outside/1/home/planted").exists());
    let said = said(&run);
    assert!(
        said[1].contains("has become a symbolic link") || !said[0].contains("steered"),
        "{said:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_comes_in_the_place_of_ours_is_not_run() {
    for (name, cell) in cells() {
        let copy = cell.at("outside/agent-batch");
        fs::copy(PROGRAM, &copy).unwrap();
        let launcher = Launcher::new(copy.clone()).confined(cell.layers.clone(), cell.plan.clone());
        let evil = cell.at("outside/evil");
        fs::write(
            &evil,
            format!("#!/bin/sh\ntouch {}\n", cell.at("outside/ran").display()),
        )
        .unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&evil, &copy).unwrap();
        let finished = launcher
            .run(
                cell.spec("echo ours"),
                Arc::new(Redactor::default()),
                &CancellationToken::new(),
            )
            .await
            .unwrap();
        assert_eq!(finished.stdout.text, "ours\n", "{name}");
        assert!(!cell.at("outside/ran").exists(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_was_exchanged_does_not_tell_what_the_sandbox_holds() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("agent-batch");
    fs::copy(PROGRAM, &copy).unwrap();
    let launcher = Launcher::new(copy.clone());
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "#!/bin/sh\necho '[]'\n").unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let enforced = launcher
        .enforceable(agent_batch::sandbox::Network::Deny, dir.path())
        .await;
    assert!(!enforced.is_whole(), "{enforced:?}");
    assert!(
        enforced
            .problems
            .iter()
            .any(|problem| problem.contains("not the program any more")),
        "{enforced:?}"
    );
}

// ---- who is believed

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_command_holds_the_socket_or_writes_the_report() {
    let forge = r#"
        report='{"nonce":"","report":{"ended":{"code":0,"signal":null,"leaked":0}}}'
        for fd in /proc/self/fd/* /proc/$PPID/fd/* /proc/1/fd/* /proc/2/fd/* /dev/fd/*; do
            case $fd in */1|*/2) continue;; esac
            echo "$report" > $fd
        done 2>/dev/null
        for fd in 0 3 4 5 6 7 8 9 10 11 12; do echo "$report" >&$fd; done 2>/dev/null
        kill -9 $PPID 2>/dev/null && echo killed its parent
        ls -l /proc/self/fd | grep -c socket:
        exit 3"#;
    for (name, cell) in cells() {
        let mut spec = cell.spec(forge);
        spec.stdin = Vec::new();
        let finished = cell.run(spec).await.unwrap();
        // The kernel lets a command end its parent where Landlock does not scope signals; that is told as a signal.
        if cell.layers.landlock.is_some() {
            // The shell's own copy of its standard error is among what it wrote to.
            assert_eq!(finished.stdout.text.lines().last(), Some("0"), "{name}");
            assert_eq!(finished.ending, Ending::Exited(3), "{name}");
        } else {
            assert_ne!(
                finished.ending,
                Ending::Exited(0),
                "{name}: {}",
                finished.stdout.text
            );
        }
    }
}

// ---- sockets

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_in_a_directory_that_is_read_or_written_is_not_reached() {
    for (name, mut cell) in cells() {
        for part in ["ws/deep", "lib", "ws/.git/ipc"] {
            fs::create_dir_all(cell.at(part)).unwrap();
        }
        let first = UnixListener::bind(cell.at("ws/deep/first")).unwrap();
        // The plan sees the first one; the others begin to listen later.
        let mut plan = agent_batch::sandbox::Plan::new(
            &cell.at("ws"),
            &cell.at("home"),
            &cell.at("tmp"),
            &crate::sandboxed::environment(&cell.at("")),
        );
        plan.read(&cell.at("lib"));
        cell.plan = plan;
        let late = ["ws/late", "lib/late", "ws/.git/ipc/late"]
            .map(|part| UnixListener::bind(cell.at(part)).unwrap());
        let connect = |path: &str| {
            format!(
                "try '{path}' perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un($ARGV[0])) or exit 1' {}\n",
                cell.at(path).display()
            )
        };
        let paths = ["ws/deep/first", "ws/late", "lib/late", "ws/.git/ipc/late"];
        let script: String = paths.map(connect).concat();
        assert_eq!(cell.bash(&format!("{TRY}{script}")).await, "", "{name}");
        // The name that hides it stays.
        cell.bash("mv deep shallow; mv deep/first other").await;
        let moved = ["ws/shallow/first", "ws/other"].map(connect).concat();
        assert_eq!(
            cell.bash(&format!("{TRY}{script}{moved}")).await,
            "",
            "{name}"
        );
        for listener in late.iter().chain([&first]) {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "{name}");
        }
    }
}

// ---- placeholders

const STANDS: [&str; 4] = [".git", ".mcp.json", "AGENTS.md", "agent-batch.yaml"];

fn stands(directory: &Path) -> bool {
    STANDS.iter().any(|name| directory.join(name).exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ends_leaves_the_placeholders_of_another_run_alone() {
    for (name, cell) in cells().into_iter().filter(|(_, cell)| has_mounts(cell)) {
        fs::remove_dir_all(cell.at("ws/.git")).unwrap();
        let long = format!(
            "touch up; until [ -e go ]; do sleep 0.01; done\n{TRY}try git mkdir -p .git/hooks\ntry mcp touch .mcp.json\ntry agents touch AGENTS.md"
        );
        let first = cell.bash(&long);
        let second = async {
            let up = cell.at("ws/up");
            let waited = move || until("the first call runs", || up.exists());
            tokio::task::spawn_blocking(waited).await.unwrap();
            assert_eq!(cell.bash("echo second").await, "second\n");
            let there = stands(&cell.at("ws"));
            fs::write(cell.at("ws/go"), "").unwrap();
            there
        };
        let (said, there) = tokio::join!(first, second);
        assert!(there, "{name}");
        assert_eq!(said, "", "{name}");
        assert!(!stands(&cell.at("ws")), "{name}");
    }
}

fn start(sandbox: &Sandbox) -> Child {
    let child = sandbox.command(&["tasks/task.yaml"]).spawn().unwrap();
    let up = sandbox.path().join("repo/up");
    until("the call runs", || up.exists());
    assert!(stands(&sandbox.path().join("repo")));
    child
}

#[test]
fn no_signal_leaves_a_placeholder() {
    use rustix::process::{Pid, Signal, kill_process};
    if !is_whole() {
        return;
    }
    for (signal, code) in [
        (Signal::TERM, Some(143)),
        (Signal::INT, Some(130)),
        (Signal::HUP, Some(129)),
        (Signal::KILL, None),
    ] {
        let sandbox = hostile(FREE, &["touch up; sleep 1000"]);
        let mut child = start(&sandbox);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code, "{signal:?}");
        let repo = sandbox.path().join("repo");
        // After SIGKILL the supervisor does it, and nobody waits for it.
        until("the placeholders go", || !stands(&repo));
    }
}

#[test]
fn what_a_power_cut_left_goes_at_the_next_start() {
    if !is_whole() {
        return;
    }
    let sandbox = hostile(
        "permissions: { allow: [Bash, 'Write(AGENTS.md)'] }\n",
        &["true"],
    );
    let stale = sandbox.path().join("repo/AGENTS.md");
    fs::create_dir(&stale).unwrap();
    fs::set_permissions(&stale, fs::Permissions::from_mode(0o555)).unwrap();
    let before_git = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(499_137_600);
    let times = fs::FileTimes::new().set_modified(before_git);
    fs::File::open(&stale).unwrap().set_times(times).unwrap();
    fs::create_dir(sandbox.path().join("repo/.github")).unwrap();
    let run = sandbox.run().exit(0);
    assert!(!stale.exists());
    assert!(
        run.path("repo/.github").exists(),
        "an empty directory of somebody's"
    );
}

// ---- places that no sandbox can hold

#[test]
fn a_workspace_that_holds_the_home_directory_is_refused() {
    let refused = |yaml: &str, home: &str| {
        let sandbox = hostile(yaml, &["true"]).file("home/checkout/file", "");
        let home = sandbox.path().join(home);
        sandbox.env("HOME", home.to_str().unwrap()).run()
    };
    let allow = "permissions: { allow: [Bash] }\n";
    for (yaml, what) in [
        ("workspace: { path: ../home }\n", "the home directory"),
        ("workspace: { path: .. }\n", "the home directory"),
        (
            "workspace: { path: ../home, isolation: copy }\n",
            "the home directory",
        ),
        ("workspace: { path: / }\n", "the root of the file system"),
    ] {
        let run = refused(&format!("{yaml}{allow}"), "home").exit(2);
        assert!(run.stderr().contains(what), "{yaml}: {}", run.stderr());
    }
    let additional = "permissions: { allow: [Bash], additional_directories: [../home] }\n";
    let run = refused(additional, "home").exit(2);
    assert!(
        run.stderr().contains("the home directory"),
        "{}",
        run.stderr()
    );
    refused(
        &format!("workspace: {{ path: ../home/checkout }}\n{allow}"),
        "home",
    )
    .exit(0);
    refused(&format!("workspace: {{ path: ../home }}\n{allow}"), "tasks").exit(0);
    refused(
        &format!("sandbox: off\nworkspace: {{ path: ../home }}\n{allow}"),
        "home",
    )
    .exit(0);
}

// ---- what an agent can spoil

/// The command as an ordinary user, who is stopped by modes; root is not.
fn ordinary(sandbox: &Sandbox) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(sandbox.command(&["tasks/task.yaml"]));
    }
    let root = sandbox.path().display();
    let prepared = sandbox.shell(&format!(
        "chown -R 65534:65534 {root} && chmod 755 {root} && setpriv --reuid 65534 --regid 65534 --clear-groups test -x {PROGRAM}"
    ));
    if !prepared.output.status.success() {
        eprintln!("SKIPPED: no ordinary user can run the program here");
        return None;
    }
    let mut command = sandbox.shell_environment(Path::new("setpriv"));
    command
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            PROGRAM,
        ])
        .args(["tasks/task.yaml", "--allow-bypass"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Some(command)
}

#[test]
fn a_closed_workspace_is_a_clean_end_and_nothing_is_left_of_it() {
    if !is_whole() {
        return;
    }
    for isolation in ["copy", "none"] {
        let yaml = format!("workspace: {{ path: ../repo, isolation: {isolation} }}\n{FREE}");
        let close = "mkdir -p sub/deeper $HOME/x && touch sub/new && chmod 000 sub $HOME/x $TMPDIR && chmod 000 . && echo closed";
        let sandbox = hostile(&yaml, &[close, "echo again"]).file("repo/sub/file", "");
        let Some(mut command) = ordinary(&sandbox) else {
            return;
        };
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{isolation}: {stderr}");
        let left: Vec<_> = fs::read_dir(sandbox.path().join("tmp"))
            .unwrap()
            .flatten()
            .collect();
        assert!(left.is_empty(), "{isolation}: {left:?}: {stderr}");
        let again = command.output().unwrap();
        assert_ne!(
            again.status.code(),
            Some(2),
            "{isolation}: {}",
            String::from_utf8_lossy(&again.stderr)
        );
    }
}

#[test]
fn a_hook_behind_a_link_is_found_and_runs() {
    if !is_whole() {
        return;
    }
    for link in ["linked", "repo/linked"] {
        let yaml = format!("{FREE}hooks:\n  PreToolUse: [{{ command: [../{link}/hook.sh] }}]\n");
        let sandbox = hostile(&yaml, &["ls hook-ran"]).program(
            "real/hooks/hook.sh",
            "#!/bin/sh\ncat >/dev/null\ntouch \"$CLAUDE_PROJECT_DIR/hook-ran\"\n",
        );
        let target = sandbox.path().canonicalize().unwrap().join("real/hooks");
        symlink(target, sandbox.path().join(link)).unwrap();
        let run = sandbox.run().exit(0);
        assert_eq!(said(&run), ["hook-ran\n"], "{link}");
    }
}

// ---- what a call may take

async fn with_ceilings(cell: &Cell, ceilings: Ceilings, script: &str) -> String {
    let launcher = cell.launcher().with_ceilings(ceilings);
    let (redactor, cancel) = (Arc::new(Redactor::default()), CancellationToken::new());
    let run = launcher.run(cell.spec(script), redactor, &cancel);
    run.await.unwrap_err().to_string()
}

/// Starts 400 processes that end by themselves, and says how many it could start. Never more: a bomb without an end takes
/// the machine along when a bound is missing.
const SPAWNER: &str = r"perl -e '
    for (1..400) { my $p = fork; if (!defined $p) { $failed++ } elsif (!$p) { sleep 20; exit } else { push @p, $p } }
    print scalar(@p), qq( started, $failed failed\n); kill KILL => @p;'";

/// Held by a test that starts [`SPAWNER`]: beside another one a call with a low ceiling now and then fails to start a thread.
static STORM: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn a_call_starts_no_more_processes_than_it_may_whoever_runs_it() {
    let _alone = STORM.lock().await;
    for (name, cell) in cells() {
        let few = Ceilings {
            processes: 60,
            ..Ceilings::default()
        };
        let launcher = cell.launcher().with_ceilings(few);
        let (redactor, cancel) = (Arc::new(Redactor::default()), CancellationToken::new());
        let run = launcher.run(cell.spec(SPAWNER), redactor, &cancel);
        match run.await {
            Ok(finished) => {
                let said = finished.stdout.text;
                let started: Option<u32> = said
                    .split(' ')
                    .next()
                    .and_then(|number| number.parse().ok());
                assert!(
                    started.is_some_and(|started| started < 60),
                    "{name}: {said}"
                );
            }
            // No control group can be made here, and the limit of a user does not bind root.
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains("60 are the most"), "{name}: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_processes_that_leave_their_session_and_end_at_once_is_caught() {
    for (name, cell) in cells() {
        // One process at a time, which ends by itself in some seconds.
        let chain = "perl -MPOSIX -e 'for (1..20000) { my $p = fork; exit if $p; POSIX::setsid(); print STDOUT qq(x) if $_ == 100 }' </dev/null & sleep 0.3";
        let finished = cell.try_bash(chain).await.unwrap();
        assert_eq!(finished.ending, Ending::Exited(0), "{name}");
        assert!(finished.leaked >= 1, "{name}: {finished:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_much_is_ended_and_says_of_what() {
    let _alone = STORM.lock().await;
    let none = Ceilings {
        processes: u32::MAX / 4,
        free_disk: 0,
        free_memory: 0,
        only_watched: true,
    };
    for (name, cell) in cells() {
        let few = Ceilings {
            processes: 60,
            ..none.clone()
        };
        // An ordinary user's are bounded by the kernel before they are too many.
        if rustix::process::geteuid().is_root() {
            let error = with_ceilings(&cell, few, SPAWNER).await;
            assert!(error.contains("60 are the most"), "{name}: {error}");
        }
        let disk = Ceilings {
            free_disk: u64::MAX,
            ..none.clone()
        };
        let fill = "dd if=/dev/zero of=big bs=1M count=400 status=none; sleep 100";
        let error = with_ceilings(&cell, disk, fill).await;
        assert!(error.contains("nearly full"), "{name}: {error}");
        let memory = Ceilings {
            free_memory: u64::MAX,
            ..none.clone()
        };
        let error = with_ceilings(&cell, memory, "sleep 100").await;
        assert!(error.contains("memory"), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_and_endless_files_are_bounded() {
    for (name, cell) in cells() {
        let mut spec =
            cell.spec("yes & sleep 0.2; truncate -s 1T sparse || echo refused >&2; kill %1");
        spec.keep = 1000;
        let finished = cell.run(spec).await.unwrap();
        assert!(finished.stdout.text.len() < 2000, "{name}");
        let sparse = cell.at("ws/sparse");
        assert!(
            fs::metadata(sparse).map_or(0, |found| found.len()) <= 16 << 30,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_ends_a_call_before_the_runner_when_memory_is_used_up() {
    for (name, cell) in cells() {
        assert_eq!(
            cell.bash("cat /proc/self/oom_score_adj").await,
            "1000\n",
            "{name}"
        );
    }
    assert_ne!(
        fs::read_to_string("/proc/self/oom_score_adj").unwrap(),
        "1000\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_memory_is_small() {
    let whole = Layers::found().bubblewrap.is_some();
    if let Some((_, cell)) = cells().into_iter().next().filter(|_| whole) {
        let sizes = cell
            .bash("df -k --output=size /tmp /dev/shm | tail -n 2")
            .await;
        assert!(
            sizes
                .lines()
                .all(|size| size.trim().parse::<u64>().unwrap() <= 2 << 20),
            "{sizes}"
        );
    }
}
