//! Real processes in the real sandbox, each layer alone and all together: what they reach, and what they do not.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "helpers of tests fail as tests do, and say loudly what they skip"
)]

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use agent_batch::event::{Event, Kind};
use agent_batch::outcome::Outcome;
use agent_batch::proc::{Ending, Enforced, Finished, Launcher, Spec, Stderr, child_environment};
use agent_batch::redact::Redactor;
use agent_batch::sandbox::{Layers, Missing, Network, Plan};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::batch;
use crate::sandbox::{Run, Sandbox};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-batch");

/// A workspace with a repository, things outside of it, and a launcher that holds processes to the workspace.
pub(crate) struct Cell {
    dir: TempDir,
    pub(crate) plan: Plan,
    pub(crate) layers: Layers,
}

impl Cell {
    fn new(layers: Layers) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for part in ["ws/.git/hooks", "home", "tmp", "outside/.ssh"] {
            fs::create_dir_all(root.join(part)).unwrap();
        }
        fs::write(root.join("ws/.git/config"), "[core]\n").unwrap();
        fs::write(root.join("outside/.ssh/id"), "the key").unwrap();
        let at = |part: &str| root.join(part);
        let mut plan = Plan::new(&at("ws"), &at("home"), &at("tmp"), &environment(&root));
        plan.protect(at("ws/agent-batch.yaml"), Missing::Placeholder);
        plan.protect(at("ws/agent-batch-results"), Missing::Placeholder);
        plan.protect_steering(&at("ws"), |_| false);
        Self { dir, plan, layers }
    }

    pub(crate) fn at(&self, part: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(part)
    }

    pub(crate) fn launcher(&self) -> Launcher {
        Launcher::new(PROGRAM.into()).confined(self.layers.clone(), self.plan.clone())
    }

    pub(crate) fn spec(&self, script: &str) -> Spec {
        Spec {
            argv: ["/bin/bash", "--noprofile", "--norc", "-c", script]
                .map(str::to_owned)
                .to_vec(),
            cwd: self.at("ws"),
            env: environment(&self.at("")),
            stdin: b"input".to_vec(),
            time_limit: Duration::from_secs(120),
            keep: 100_000,
            spill: None,
            stderr: Stderr::Merged,
        }
    }

    pub(crate) async fn run(&self, spec: Spec) -> std::io::Result<Finished> {
        self.launcher()
            .run(
                spec,
                Arc::new(Redactor::default()),
                &CancellationToken::new(),
            )
            .await
    }

    pub(crate) async fn try_bash(&self, script: &str) -> std::io::Result<Finished> {
        self.run(self.spec(script)).await
    }

    /// What a script prints.
    pub(crate) async fn bash(&self, script: &str) -> String {
        self.try_bash(script).await.unwrap().stdout.text
    }
}

pub(crate) fn environment(root: &Path) -> BTreeMap<String, String> {
    let parent = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    child_environment(parent, &root.join("home"), &root.join("tmp"))
}

/// Layers of this machine, one by one and together; what it lacks is said and left out.
pub(crate) fn cells() -> Vec<(&'static str, Cell)> {
    let found = Layers::found();
    let mut cells = Vec::new();
    let mut add = |name, there: bool, layers: Layers| {
        if there {
            cells.push((name, Cell::new(layers)));
        } else {
            eprintln!("SKIPPED: this machine has no {name}");
        }
    };
    let none = Layers::default;
    let (bubblewrap, landlock) = (found.bubblewrap.clone(), found.landlock);
    add(
        "bubblewrap",
        bubblewrap.is_some(),
        Layers {
            bubblewrap: bubblewrap.clone(),
            seccomp: true,
            ..none()
        },
    );
    add(
        "landlock",
        landlock.is_some(),
        Layers {
            landlock,
            seccomp: true,
            ..none()
        },
    );
    add(
        "bubblewrap and landlock",
        bubblewrap.is_some() && landlock.is_some(),
        found,
    );
    cells
}

/// Layers that keep parts of the workspace read-only.
pub(crate) fn has_mounts(cell: &Cell) -> bool {
    cell.layers.bubblewrap.is_some()
}

/// A shell function: `try NAME COMMAND...` says what could be done.
pub(crate) const TRY: &str =
    "try() { name=$1; shift; if \"$@\" >/dev/null 2>&1; then echo \"BROKEN $name\"; fi; }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_with_its_input_its_directory_and_its_exit_code() {
    for (name, cell) in cells() {
        let finished = cell
            .try_bash("cat; pwd; echo $HOME; touch new $HOME/x $TMPDIR/y; exit 7")
            .await
            .unwrap();
        let expected = format!(
            "input{}\n{}\n",
            cell.at("ws").display(),
            cell.at("home").display()
        );
        assert_eq!(finished.stdout.text, expected, "{name}");
        assert_eq!(finished.ending, Ending::Exited(7), "{name}");
        assert!(
            cell.at("ws/new").exists() && cell.at("home/x").exists() && cell.at("tmp/y").exists(),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_exist_and_a_signal_are_told_from_inside() {
    for (name, cell) in cells() {
        let finished = cell.try_bash("kill -TERM $$").await.unwrap();
        assert_eq!(finished.ending, Ending::Signaled(15), "{name}");
        let mut spec = cell.spec("");
        spec.argv = vec!["/nonexistent/program".to_owned()];
        let error = cell.run(spec).await.unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/program"),
            "{name}: {error}"
        );
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_of_the_workspace_is_written_or_read() {
    for (name, cell) in cells() {
        let outside = cell.at("outside").display().to_string();
        let script = format!(
            "{TRY}try write touch {outside}/x\ntry link ln -s x {outside}/l\ntry mkdir mkdir {outside}/d\n\
             try usr touch /usr/x\ntry etc touch /etc/x\ntry root touch /x\ntry var touch /var/x\n\
             try remove rm {outside}/.ssh/id\n\
             try read cat {outside}/.ssh/id\ntry shadow cat /etc/shadow\n\
             ln -s {outside}/.ssh/id through; try through cat through\n\
             ln {outside}/.ssh/id hard 2>/dev/null; try hard cat hard"
        );
        assert_eq!(cell.bash(&script).await, "", "{name}");
        if has_mounts(&cell) {
            assert_eq!(
                cell.bash(&format!(
                    "{TRY}try chmod chmod 777 {outside} {outside}/.ssh/id /usr"
                ))
                .await,
                "",
                "{name}"
            );
        }
        assert_eq!(
            fs::read_dir(cell.at("outside")).unwrap().count(),
            1,
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_and_the_runner_s_files_stay_as_they_are_also_where_they_are_not() {
    for (name, cell) in cells().into_iter().filter(|(_, cell)| has_mounts(cell)) {
        fs::create_dir_all(cell.at("ws/tasks")).unwrap();
        fs::write(cell.at("ws/tasks/a.yaml"), "the task").unwrap();
        let mut cell = cell;
        for task in ["ws/tasks/a.yaml", "ws/tasks/b.yaml", "ws/.github/c.yaml"] {
            cell.plan.protect(cell.at(task), Missing::Placeholder);
        }
        let script = format!(
            "{TRY}try hook touch .git/hooks/x\ntry config sh -c 'echo x >> .git/config'\ntry move mv .git gone\n\
             try remove rm -rf .git/hooks\ntry own touch agent-batch.yaml\ntry own2 sh -c 'echo x > agent-batch.yaml'\n\
             try own3 mv new agent-batch.yaml\ntry own4 rmdir agent-batch.yaml\n\
             try results mkdir -p agent-batch-results/x\ntry results2 ln -s /tmp agent-batch-results/x\n\
             try task sh -c 'echo x > tasks/a.yaml'\ntry other touch tasks/b.yaml\ntry nested touch .github/c.yaml\ntry task2 mv tasks other\ntry task3 rm tasks/a.yaml\n\
             try mcp touch .mcp.json\ntry agents sh -c 'echo x > AGENTS.md'\ntry flow mkdir -p .github/workflows\n\
             touch fine tasks/fine || echo broken"
        );
        assert_eq!(cell.bash(&script).await, "", "{name}");
        let mut names: Vec<_> = fs::read_dir(cell.at("ws"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [".git", "fine", "tasks"],
            "{name}: no placeholder is left"
        );
        assert_eq!(
            fs::read_to_string(cell.at("ws/tasks/a.yaml")).unwrap(),
            "the task"
        );
        assert_eq!(
            fs::read_to_string(cell.at("ws/.git/config")).unwrap(),
            "[core]\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn git_reads_its_repository_and_is_not_shown_what_is_not_there() {
    let git = |directory: &Path, arguments: &[&str]| {
        let done = Command::new("git")
            .current_dir(directory)
            .args(arguments)
            .output();
        done.is_ok_and(|done| done.status.success())
    };
    for (name, cell) in cells() {
        let ws = cell.at("ws");
        fs::remove_dir_all(ws.join(".git")).unwrap();
        if !git(&ws, &["init", "-q"]) {
            return eprintln!("SKIPPED: there is no git");
        }
        fs::write(ws.join("seen"), "").unwrap();
        assert_eq!(
            cell.bash("git status --porcelain").await,
            "?? seen\n",
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_service_of_the_machine_is_reached() {
    for (name, cell) in cells() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let socket = cell.at("outside/socket");
        let unix = UnixListener::bind(&socket).unwrap();
        let abstract_name = format!("agent-batch-test-{}-{name}", std::process::id());
        let hidden = UnixListener::bind_addr(
            &std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name).unwrap(),
        )
        .unwrap();
        for listener in [&unix, &hidden] {
            listener.set_nonblocking(true).unwrap();
        }
        tcp.set_nonblocking(true).unwrap();
        let script = format!(
            "{TRY}try tcp bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'\nbash -c 'echo x > /dev/udp/127.0.0.1/{}' 2>/dev/null\n\
             try unix perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un($ARGV[0])) or exit 1' {}\n\
             try abstract perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack(\"S a*\", 1, \"\\0$ARGV[0]\")) or exit 1' '{abstract_name}'\n\
             try netlink perl -MSocket -e 'socket(S, 16, SOCK_RAW, 0) or exit 1'\n\
             try packet perl -MSocket -e 'socket(S, 17, SOCK_RAW, 0) or exit 1'\n\
             try vsock perl -MSocket -e 'socket(S, 40, SOCK_STREAM, 0) or exit 1'\n\
             perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or exit 1' || echo broken",
            tcp.local_addr().unwrap().port(),
            udp.local_addr().unwrap().port(),
            socket.display(),
        );
        assert_eq!(cell.bash(&script).await, "", "{name}");
        assert!(
            tcp.accept().is_err() && unix.accept().is_err() && hidden.accept().is_err(),
            "{name}"
        );
        assert!(udp.recv(&mut [0; 8]).is_err(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_allowed_is_reached_and_the_machine_s_sockets_are_not() {
    for (name, mut cell) in cells() {
        cell.plan.set_network(Network::Allow);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let abstract_name = format!("agent-batch-open-{}-{name}", std::process::id());
        let _hidden = UnixListener::bind_addr(
            &std::os::unix::net::SocketAddr::from_abstract_name(&abstract_name).unwrap(),
        )
        .unwrap();
        let script = format!(
            "{TRY}bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}' || echo closed\n\
             try abstract perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack(\"S a*\", 1, \"\\0$ARGV[0]\")) or exit 1' '{abstract_name}'",
            tcp.local_addr().unwrap().port(),
        );
        assert_eq!(cell.bash(&script).await, "", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_has_a_loopback_device_of_its_own() {
    for (name, cell) in cells().into_iter().filter(|(_, cell)| has_mounts(cell)) {
        let script = "perl -MSocket -e 'socket(L, AF_INET, SOCK_STREAM, 0) && bind(L, sockaddr_in(0, INADDR_LOOPBACK)) && listen(L, 1) \
                      or die; socket(C, AF_INET, SOCK_STREAM, 0) && connect(C, getsockname(L)) or die; print \"connected\"'";
        assert_eq!(cell.bash(script).await, "connected", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_and_other_processes_are_out_of_reach() {
    for (name, cell) in cells() {
        let runner = std::process::id();
        let script = format!(
            "{TRY}try signal kill -0 {runner}\ntry memory sh -c ': < /proc/{runner}/mem'\ntry environ cat /proc/{runner}/environ\n\
             try root ls /proc/{runner}/root/\ntry cwd ls /proc/{runner}/cwd/\n\
             cat /proc/1/environ 2>/dev/null | wc -c\n\
             cat /proc/$PPID/environ 2>/dev/null | wc -c\ntry parent sh -c \": < /proc/$PPID/mem\"\ntry fds readlink /proc/$PPID/fd/0\n\
             env | cut -d= -f1 | grep -i -E 'key|secret|password|^GITHUB|^LD_|^SSH' | grep -v ^GIT_CONFIG || true"
        );
        assert_eq!(cell.bash(&script).await, "0\n0\n", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_gone_and_system_calls_of_an_escape_are_refused() {
    let calls: &[(&str, libc::c_long, &str)] = &[
        ("ptrace", libc::SYS_ptrace, "0, 0, 0, 0"),
        (
            "process_vm_readv",
            libc::SYS_process_vm_readv,
            "$$, 0, 0, 0, 0, 0",
        ),
        (
            "process_vm_writev",
            libc::SYS_process_vm_writev,
            "$$, 0, 0, 0, 0, 0",
        ),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0"),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            "0, 0, 0, 0, 0",
        ),
        ("userfaultfd", libc::SYS_userfaultfd, "1"),
        ("keyctl", libc::SYS_keyctl, "0, -3, 0"),
        ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0"),
        ("request_key", libc::SYS_request_key, "0, 0, 0, 0"),
        ("mount", libc::SYS_mount, "0, 0, 0, 0, 0"),
        ("umount2", libc::SYS_umount2, "0, 0"),
        ("pivot_root", libc::SYS_pivot_root, "0, 0"),
        ("fsopen", libc::SYS_fsopen, "0, 0"),
        ("open_tree", libc::SYS_open_tree, "-100, 0, 0"),
        ("move_mount", libc::SYS_move_mount, "0, 0, 0, 0, 0"),
        ("setns", libc::SYS_setns, "0, 0"),
        ("unshare, all", libc::SYS_unshare, "0"),
        (
            "clone with a user namespace",
            libc::SYS_clone,
            "0x10000011, 0, 0, 0, 0",
        ),
        (
            "clone with a network namespace",
            libc::SYS_clone,
            "0x40000011, 0, 0, 0, 0",
        ),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, 0"),
        ("init_module", libc::SYS_init_module, "0, 0, 0"),
        ("personality", libc::SYS_personality, "0x0040000"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "0, 0, 0"),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, "0, 0, 0"),
        ("TIOCSTI", libc::SYS_ioctl, "0, 0x5412, 0"),
        ("TIOCLINUX", libc::SYS_ioctl, "0, 0x541c, 0"),
    ];
    for (name, cell) in cells() {
        let mut program = String::new();
        for (call, number, arguments) in calls {
            program.push_str(&format!(
                "$! = 0; syscall({number}, {arguments}); print \"{call}: $!\\n\" if $! + 0 != 1;\n"
            ));
        }
        program.push_str(&format!(
            "$! = 0; syscall({}, 0, 0); print \"clone3: $!\\n\" if $! + 0 != 38;\n",
            libc::SYS_clone3
        ));
        fs::write(cell.at("ws/calls.pl"), program).unwrap();
        let script = format!(
            "perl calls.pl\n{TRY}try user unshare -U true\ntry mounts unshare -m true\ntry network unshare -n true\n\
             grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'"
        );
        let expected =
            "CapPrm:0000000000000000\nCapEff:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n";
        assert_eq!(cell.bash(&script).await, expected, "{name}");
    }
}

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn system_calls_by_another_abi_end_the_process() {
    for (name, cell) in cells() {
        let finished = cell
            .try_bash("exec perl -e 'syscall(0x40000000 | 39)'")
            .await
            .unwrap();
        assert_eq!(
            finished.ending,
            Ending::Signaled(31),
            "{name}: x32: {}",
            finished.stdout.text
        );
        // `getpid` of 32 bits from a program of 64.
        fs::write(
            cell.at("ws/old.c"),
            "int main(void) { __asm__ volatile(\"int $0x80\" : : \"a\"(20)); return 0; }",
        )
        .unwrap();
        let finished = cell
            .try_bash("cc -o old old.c && exec ./old")
            .await
            .unwrap();
        if finished.stdout.text.contains("not found") {
            eprintln!("SKIPPED: there is no C compiler");
        } else {
            assert!(
                matches!(finished.ending, Ending::Signaled(31 | 11)),
                "{name}: i386: {:?} {}",
                finished.ending,
                finished.stdout.text
            );
        }
    }
}

/// Where there is no namespace for it, what is shared by a number would stay on the machine when the call has ended.
#[tokio::test(flavor = "multi_thread")]
async fn no_shared_memory_is_left_on_the_machine() {
    let key = std::process::id();
    for (name, cell) in cells() {
        let made = format!(
            "perl -e '$a = shmget(0x{key:x}, 4096, 01600); $b = msgget(0x{key:x}, 01600); print defined $a ? 1 : 0, defined $b ? 1 : 0'"
        );
        let expected = if cell.layers.bubblewrap.is_some() {
            "11"
        } else {
            "00"
        };
        assert_eq!(cell.bash(&made).await, expected, "{name}");
        let left = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let left = left
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&key.to_string()));
        assert!(!left, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_left_that_runs_with_the_rights_of_its_owner() {
    for (name, cell) in cells() {
        for line in [
            "chmod u+s a",
            "chmod 2755 a",
            "perl -e 'use Fcntl; sysopen(F, \"b\", O_CREAT | O_WRONLY, 04755) or exit 1'",
            "perl -e 'use Fcntl; sysopen(F, \"c\", O_CREAT | O_WRONLY, 02755) or exit 1'",
            "perl -e 'exit(syscall(437, -100, \"d\", pack(\"Q3\", 0101, 04755, 0), 24) < 0 ? 1 : 0)'",
            "install -m 4755 /bin/true e",
            "mknod -m 4755 f p",
        ] {
            let finished = cell.try_bash(&format!("touch a; {line}")).await.unwrap();
            assert_ne!(finished.ending, Ending::Exited(0), "{name}: {line}");
        }
        for line in [
            "chmod 755 a",
            "chmod +x a",
            "install -m 755 /bin/true g",
            "touch h",
        ] {
            let finished = cell.try_bash(&format!("touch a; {line}")).await.unwrap();
            assert_eq!(finished.ending, Ending::Exited(0), "{name}: {line}");
        }
        for entry in fs::read_dir(cell.at("ws")).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            let is_file = entry.file_type().unwrap().is_file();
            assert!(!is_file || mode & 0o6000 == 0, "{name}: {:?}", entry.path());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outlives_the_call() {
    for (number, (name, cell)) in cells().into_iter().enumerate() {
        let mark = format!("{}.{number}", 100_000 + std::process::id());
        let script = format!(
            "setsid bash -c '(setsid sleep {mark} & echo started > up) &' ; until [ -s up ]; do sleep 0.01; done; \
             nohup sleep {mark} >/dev/null 2>&1 & disown; echo done"
        );
        let finished = cell.try_bash(&script).await.unwrap();
        assert_eq!(finished.stdout.text, "done\n", "{name}");
        assert!(finished.leaked > 0, "{name}: what was left is told");
        assert!(!is_running(&mark), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_soon_after_the_command_is_waited_for() {
    for (name, cell) in cells() {
        let finished = cell
            .try_bash("exec > >(sleep 0.02; cat); echo late")
            .await
            .unwrap();
        assert_eq!(
            (finished.stdout.text.as_str(), finished.leaked),
            ("late\n", 0),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_and_a_fork_storm_end_with_everything_gone() {
    for (number, (name, cell)) in cells().into_iter().enumerate() {
        let mark = format!("{}.5{number}", 200_000 + std::process::id());
        let mut spec = cell.spec(&format!(
            "for i in $(seq 200); do setsid sleep {mark} & done; touch up; wait"
        ));
        spec.time_limit = Duration::from_secs(1);
        let finished = cell.run(spec).await.unwrap();
        assert_eq!(finished.ending, Ending::TimedOut, "{name}");
        assert!(!is_running(&mark), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_have_ceilings() {
    for (name, cell) in cells() {
        let limits = cell.bash("ulimit -Hc; ulimit -Hf; ulimit -Hn").await;
        let numbers: Vec<u64> = limits
            .lines()
            .map(|line| line.parse().unwrap_or(u64::MAX))
            .collect();
        assert_eq!(numbers.len(), 3, "{name}: {limits}");
        assert_eq!(numbers[0], 0, "{name}");
        // In blocks of 1024 bytes.
        assert!(
            numbers[1] <= 16 << 20 && numbers[2] <= 65_536,
            "{name}: {limits}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_crate_is_built_and_tested_offline() {
    for (name, cell) in cells() {
        let toml = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
        let code = "#[test]\nfn works() {\n    std::fs::write(std::env::temp_dir().join(\"t\"), \"x\").unwrap();\n}\n";
        fs::write(cell.at("ws/Cargo.toml"), toml).unwrap();
        fs::create_dir(cell.at("ws/src")).unwrap();
        fs::write(cell.at("ws/src/lib.rs"), code).unwrap();
        let finished = cell.try_bash("cargo test --offline 2>&1").await.unwrap();
        assert!(
            finished.stdout.text.contains("test works ... ok"),
            "{name}: {}",
            finished.stdout.text
        );
        assert_eq!(finished.ending, Ending::Exited(0), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn landlock_holds_where_the_mounts_do_not() {
    let Layers {
        bubblewrap: Some(bubblewrap),
        landlock: Some(abi),
        ..
    } = Layers::found()
    else {
        return eprintln!("SKIPPED: this machine has not both bubblewrap and Landlock");
    };
    let loose = Layers {
        bubblewrap: Some(bubblewrap),
        landlock: Some(abi),
        seccomp: true,
        loose_mounts: true,
        old_bubblewrap: false,
    };
    let cell = Cell::new(loose.clone());
    let outside = cell.at("outside").display().to_string();
    let script = format!(
        "{TRY}try write touch {outside}/x\ntry read cat {outside}/.ssh/id\ntry etc touch /etc/x\ntry shadow cat /etc/shadow"
    );
    assert_eq!(cell.bash(&script).await, "");
    // The test can fail: without Landlock the loose mounts let the same through.
    let open = Cell::new(Layers {
        landlock: None,
        ..loose
    });
    let outside = open.at("outside").display().to_string();
    assert_eq!(
        open.bash(&format!("{TRY}try write touch {outside}/x"))
            .await,
        "BROKEN write\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_self_test_says_what_is_enforced_and_what_is_not() {
    for (name, cell) in cells() {
        let launcher = Launcher::new(PROGRAM.into()).with_layers(cell.layers.clone());
        let enforced: Arc<Enforced> = launcher.enforceable(Network::Deny, cell.dir.path()).await;
        assert_eq!(enforced.layers, cell.layers, "{name}: {enforced:#?}");
        assert_eq!(
            enforced.is_whole(),
            has_mounts(&cell),
            "{name}: {enforced:#?}"
        );
        if !has_mounts(&cell) {
            let missing = enforced.missing.join("\n");
            assert!(
                enforced.missing.len() == 2
                    && missing.contains(".git")
                    && missing.contains("modes"),
                "{missing}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_lets_something_through_is_found_out() {
    let found = Layers::found();
    if found.bubblewrap.is_none() {
        return eprintln!("SKIPPED: this machine has no bubblewrap");
    }
    let dir = tempfile::tempdir().unwrap();
    let loose = Layers {
        landlock: None,
        seccomp: false,
        loose_mounts: true,
        ..found
    };
    let launcher = Launcher::new(PROGRAM.into()).with_layers(loose);
    let enforced = launcher.enforceable(Network::Deny, dir.path()).await;
    let missing = enforced.missing.join("\n");
    for lost in [
        "no writing",
        "`.git`",
        "no reading",
        "no Unix sockets",
        "no change of modes",
        "system calls",
    ] {
        assert!(missing.contains(lost), "{lost}: {missing}");
    }
    assert!(!enforced.is_whole());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_does_not_start_is_left_away_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let found = Layers::found();
    let broken = Layers {
        bubblewrap: Some("/bin/false".into()),
        ..found.clone()
    };
    let launcher = Launcher::new(PROGRAM.into()).with_layers(broken);
    let enforced = launcher.enforceable(Network::Deny, dir.path()).await;
    assert_eq!(
        enforced.layers,
        Layers {
            bubblewrap: None,
            ..found
        }
    );
    assert!(
        enforced.problems[0].contains("before the command was started"),
        "{:?}",
        enforced.problems
    );

    let none = Launcher::new(PROGRAM.into()).with_layers(Layers::default());
    let enforced = none.enforceable(Network::Deny, dir.path()).await;
    assert!(!enforced.is_whole() && enforced.layers.is_empty() && !enforced.missing.is_empty());
}

/// Whether a process sleeps for this time.
fn is_running(mark: &str) -> bool {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| {
            String::from_utf8_lossy(&line)
                .split('\0')
                .collect::<Vec<_>>()
                == ["sleep", mark, ""]
        })
}

// ---- whole runs

/// A task whose agent may call Bash with anything.
fn free(yaml: &str, command: &str) -> Sandbox {
    let script = serde_json::json!([
        { "tool_calls": [{ "name": "Bash", "input": { "command": command } }] },
        { "text": "done" },
    ]);
    Sandbox::new()
        .task(&format!(
            "tools: [Bash]\npermissions: {{ mode: bypassPermissions }}\n{yaml}"
        ))
        .script(&script.to_string())
        .args(&["--allow-bypass"])
}

/// What the first Bash call printed.
fn said(run: &Run) -> String {
    run.events_of("task", "tool_finished")[0]["content"]
        .as_str()
        .unwrap()
        .to_owned()
}

pub(crate) fn is_whole() -> bool {
    let whole = Layers::found().bubblewrap.is_some();
    if !whole {
        eprintln!("SKIPPED: this machine has no bubblewrap");
    }
    whole
}

#[test]
fn a_task_s_tools_hooks_and_checks_are_all_held_and_the_reports_say_by_what() {
    if !is_whole() {
        return;
    }
    let probe = "#!/bin/sh\ncat >/dev/null\nif touch /etc/agent-batch-hook \"$CLAUDE_PROJECT_DIR/agent-batch.yaml\" 2>/dev/null; \
                 then echo broken >> \"$CLAUDE_PROJECT_DIR/broken\"; fi\ntouch \"$CLAUDE_PROJECT_DIR/hook-ran\"\n";
    let run = free(
        "sandbox: required\nhooks:\n  PreToolUse: [{ command: [../hooks/probe.sh] }]\n\
         checks:\n- command: { run: 'test -f ran && test -f hook-ran && test ! -e broken && ! touch agent-batch.yaml && ! touch /usr/x' }\n",
        "bash probe.sh",
    )
    .file("repo/probe.sh", "touch ran; touch /usr/x || echo held; echo x > ../tasks/task.yaml; cat ../secret || echo held")
    .file("secret", "beside the workspace")
    .program("hooks/probe.sh", probe)
    .run()
    .exit(0);
    let said = said(&run);
    assert_eq!(said.matches("held\n").count(), 2, "{said}");
    assert!(
        run.read("tasks/task.yaml").contains("sandbox: required"),
        "a private place may be written, the file may not"
    );
    let started = &run.events_of("task", "task_started")[0]["sandbox"];
    assert_eq!(
        (started["mode"].as_str(), started["network"].as_str()),
        (Some("required"), Some("deny"))
    );
    assert_eq!(started["layers"][0], "bubblewrap");
    assert_eq!(started["missing"], serde_json::json!([]));
    assert!(
        run.junit()
            .contains("[[PROPERTY|sandbox=required: bubblewrap"),
        "{}",
        run.junit()
    );
    assert_eq!(run.summary()["tasks"][0]["sandbox"]["used"], true);
    assert!(
        !run.stderr().contains("WARNING: the sandbox") && !run.stderr().contains("NO SANDBOX"),
        "{}",
        run.stderr()
    );
    assert!(
        run.events_of("task", "workspace_compared")[0]["changes"]
            .as_array()
            .unwrap()
            .len()
            == 2
    );
}

#[test]
fn without_a_sandbox_every_report_says_so() {
    for (yaml, args) in [
        ("sandbox: off\n", &[][..]),
        ("sandbox: required\n", &["--sandbox", "off"]),
    ] {
        let run = free(yaml, "echo free").args(args).run().exit(0);
        let github = run.read("agent-batch-results/summary.md");
        for (name, report) in [
            ("account", run.stdout()),
            ("junit", run.junit()),
            ("page", github),
        ] {
            assert!(
                report.contains("sandbox off: processes ran with all rights"),
                "{name}: {report}"
            );
        }
        assert_eq!(
            run.events_of("task", "warned")
                .iter()
                .filter(|event| event["code"] == "sandbox")
                .count(),
            1
        );
        assert_eq!(run.summary()["tasks"][0]["sandbox"]["mode"], "off");
    }
}

#[test]
fn a_task_that_starts_no_process_needs_no_sandbox() {
    let run = Sandbox::new()
        .task("sandbox: off\n")
        .script("- text: done\n")
        .run()
        .exit(0);
    assert!(!run.stderr().contains("sandbox"), "{}", run.stderr());
    assert_eq!(run.summary()["tasks"][0]["sandbox"]["used"], false);
}

#[test]
fn a_workspace_of_somebody_else_is_read_with_git_and_root_is_told_that_it_cannot_write_there() {
    if !rustix::process::geteuid().is_root() || !is_whole() {
        return eprintln!("SKIPPED: only root can give a directory away");
    }
    let sandbox = Sandbox::new()
        .file("ws/a", "")
        .task("workspace: { path: ../ws }\ntools: [Bash]\npermissions: { allow: [Bash] }\n")
        .script(
            "- tool_calls: [{ name: Bash, input: { command: 'git status --short; touch b' } }]\n- text: done\n",
        );
    let line = "cd ws && git init -q . && chown -R 12345 .";
    let status = Command::new("sh")
        .args(["-c", line])
        .current_dir(sandbox.path())
        .status();
    assert!(status.unwrap().success());
    let run = sandbox.run();
    let said = said(&run);
    assert!(
        said.contains("?? a") && said.contains("Permission denied"),
        "{said}"
    );
    let stderr = run.stderr();
    assert!(
        stderr.contains("the workspace belongs to user 12345"),
        "{stderr}"
    );
}

#[test]
fn a_policy_names_the_least_sandbox_and_no_network() {
    let policy = "policy: { sandbox: required, network: deny }\n";
    for (yaml, args, wrong) in [
        (
            "sandbox: auto\n",
            &[][..],
            "the sandbox `auto` is less than the `required` that the policy demands",
        ),
        (
            "",
            &["--sandbox", "off"],
            "the sandbox `off` is less than the `required`",
        ),
        ("network: allow\n", &[], "the policy allows no network"),
        ("sandbox: perhaps\n", &[], "perhaps"),
    ] {
        let run = free(yaml, "true")
            .file("agent-batch.yaml", policy)
            .args(args)
            .run()
            .exit(2);
        assert!(
            run.stderr().contains(wrong),
            "{yaml}{args:?}: {}",
            run.stderr()
        );
    }
    if is_whole() {
        let run = free("", "true")
            .file("agent-batch.yaml", policy)
            .run()
            .exit(0);
        assert_eq!(
            run.events_of("task", "task_started")[0]["sandbox"]["mode"],
            "required"
        );
    }
}

/// One task on a machine that has these layers; gives the outcome, the events and the number of model calls.
pub(crate) async fn on_machine(layers: Layers, yaml: &str) -> (Outcome, Vec<Event>) {
    let (_dir, root) = batch::place();
    let yaml = format!("tools: [Bash]\n{yaml}");
    let job = batch::job(&root, "t", &yaml, batch::done());
    let launcher = Launcher::new(PROGRAM.into()).with_layers(layers);
    let environment = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
    let events = batch::run(&root, vec![job], launcher, environment).await;
    let Some(Kind::TaskFinished(finished)) = events.last().map(|event| &event.kind) else {
        unreachable!("{events:?}")
    };
    (finished.outcome, events)
}

fn kinds(events: &[Event], wanted: impl Fn(&Kind) -> bool) -> usize {
    events.iter().filter(|event| wanted(&event.kind)).count()
}

/// The task ended before the first model call, with a message that says `fix`.
fn assert_refused(outcome: Outcome, events: &[Event], fix: &str) {
    assert_eq!(outcome, Outcome::SandboxUnavailable);
    assert_eq!(
        kinds(events, |kind| matches!(kind, Kind::StepStarted { .. })),
        0
    );
    let Some(Kind::TaskFinished(finished)) = events.last().map(|event| &event.kind) else {
        unreachable!()
    };
    assert!(finished.message.contains(fix), "{}", finished.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_sandbox_that_is_not_whole_is_an_error_before_the_first_model_call() {
    let landlock = Layers {
        bubblewrap: None,
        ..Layers::found()
    };
    for layers in [Layers::default(), landlock] {
        let (outcome, events) = on_machine(layers, "sandbox: required\n").await;
        assert_refused(outcome, &events, "to change that, ");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_sandbox_that_is_not_whole_is_a_warning() {
    let landlock = Layers {
        bubblewrap: None,
        ..Layers::found()
    };
    for (layers, words) in [
        (Layers::default(), "no sandbox works"),
        (landlock, "does not hold"),
    ] {
        let is_refused = layers.is_empty() && rustix::process::geteuid().is_root();
        let (outcome, events) = on_machine(layers, "").await;
        if is_refused {
            // As the next test says.
            assert_eq!(outcome, Outcome::SandboxUnavailable);
            continue;
        }
        assert_eq!(outcome, Outcome::Completed);
        let warned = |kind: &Kind| matches!(kind, Kind::Warned { code, message } if code == "sandbox" && message.contains(words));
        assert_eq!(kinds(&events, warned), 1, "{events:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_sandbox_works_root_runs_a_task_only_when_it_says_off() {
    let (outcome, events) = on_machine(Layers::default(), "").await;
    if rustix::process::geteuid().is_root() {
        assert_refused(outcome, &events, "name `--sandbox off`");
    } else {
        assert_eq!(outcome, Outcome::Completed);
    }
    let (outcome, _) = on_machine(Layers::default(), "sandbox: \"off\"\n").await;
    assert_eq!(outcome, Outcome::Completed);
}

#[test]
fn a_link_beside_a_directory_of_the_search_path_is_there_in_every_call() {
    let sandbox = Sandbox::new()
        .program("venv/bin/tool", "#!/bin/sh\nexit 0\n")
        .file("venv/lib/part", "there\n")
        .task("tools: [Bash]\npermissions: { allow: [Bash] }\n");
    let venv = sandbox.path().canonicalize().unwrap().join("venv");
    std::os::unix::fs::symlink("lib", venv.join("lib64")).unwrap();
    let call = format!(
        "- tool_calls: [{{ name: Bash, input: {{ command: \"tool && cat {}/lib64/part #{{{{ step }}}}\" }} }}]\n  repeat: 3\n",
        venv.display()
    );
    let path = format!("{}:/usr/bin:/bin", venv.join("bin").display());
    let run = sandbox
        .script(&format!("{call}- text: done\n  expect: [there]\n"))
        .env("PATH", &path)
        .run()
        .exit(0);
    for finished in run.events_of("task", "tool_finished") {
        assert_eq!(finished["content"], "there\n", "{finished}");
    }
}

#[test]
fn what_a_call_leaves_in_tmp_is_not_there_for_the_next_one() {
    let call = |command: &str| serde_json::json!({ "tool_calls": [{ "name": "Bash", "input": { "command": command } }] });
    let script = serde_json::json!([
        call("mkdir -p /tmp/way && ln -s /oldroot/etc /tmp/way/link && echo made > \"$TMPDIR/kept\""),
        call("ls /tmp; cat \"$TMPDIR/kept\""),
        { "text": "done" },
    ]);
    let run = Sandbox::new()
        .task("sandbox: required\ntools: [Bash]\npermissions: { allow: [Bash] }\n")
        .script(&script.to_string())
        .run();
    if !is_whole() {
        return;
    }
    let run = run.exit(0);
    let second = run.events_of("task", "tool_finished").remove(1);
    let said = second["content"].as_str().unwrap();
    assert!(said.contains("made") && !said.contains("way"), "{said}");
}

#[test]
fn an_open_file_of_whoever_started_the_runner_is_no_way_out() {
    let sandbox = free("", "echo escaped >&9; echo tried");
    let program = env!("CARGO_BIN_EXE_agent-batch");
    let run = sandbox
        .shell(&format!(
            "{program} tasks/task.yaml --allow-bypass 9>> outside.txt"
        ))
        .exit(0);
    assert_eq!(run.read("outside.txt"), "");
    assert!(said(&run).contains("tried"));
}

#[test]
fn a_search_path_in_the_workspace_opens_nothing() {
    let sandbox = free("", "cat bin/tool; echo tried")
        .file("secret/key", "the-private-key")
        .file("repo/bin/x", "");
    let root = sandbox.path().canonicalize().unwrap();
    std::os::unix::fs::symlink(root.join("secret/key"), root.join("repo/bin/tool")).unwrap();
    let path = format!("{}:/usr/bin:/bin", root.join("repo/bin").display());
    let run = sandbox.env("PATH", &path).run().exit(0);
    assert!(
        said(&run).contains("tried") && !run.everything().contains("the-private-key"),
        "{}",
        said(&run)
    );
}
