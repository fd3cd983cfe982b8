//! The self-test from inside: a process under the confinement attempts what must fail, and tells what did not.
//!
//! The runner lays out [`Targets`]: things that exist, that it can reach itself, and that a confined process must not.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a connection that nobody answers is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the process inside attempts to reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Targets {
    /// A directory that is not in the plan.
    pub outside: PathBuf,
    /// A file in it, with content.
    pub secret: PathBuf,
    /// Files that must not come into being: a protected path that is missing, something in a protected directory.
    pub protected: Vec<PathBuf>,
    /// A directory that must be writable, or the sandbox is of no use.
    pub workspace: PathBuf,
    /// A listener on the loopback device of the machine, when the network is denied.
    pub port: Option<u16>,
    /// A listening Unix socket outside.
    pub socket: PathBuf,
    /// The name of a listening abstract Unix socket.
    pub abstract_socket: String,
    /// The runner's process, unless processes have a namespace of their own.
    pub runner: Option<u32>,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Stable word.
    pub probe: String,
    /// In words: what is enforced when it failed, what is missing when it did not.
    pub what: String,
    /// Whether it failed, as it must.
    pub held: bool,
}

/// Attempts everything.
#[must_use]
pub fn run(targets: &Targets) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let mut attempt = |probe: &str, what: &str, held: bool| {
        attempts.push(Attempt {
            probe: probe.to_owned(),
            what: what.to_owned(),
            held,
        });
    };
    attempt(
        "write",
        "no writing outside of the workspace",
        writes_nowhere(targets),
    );
    attempt(
        "modes",
        "no change of modes, owners and times of files outside of the workspace",
        !changes_mode(&targets.secret),
    );
    attempt(
        "workspace",
        "the workspace can be written",
        File::create(targets.workspace.join(".agent-batch-probe")).is_ok(),
    );
    let _ = fs::remove_file(targets.workspace.join(".agent-batch-probe"));
    let protected = targets.protected.iter().all(|path| {
        let made = path.parent().is_some_and(Path::is_dir) && File::create_new(path).is_ok();
        if made {
            let _ = fs::remove_file(path);
        }
        !made
    });
    attempt(
        "protected",
        "`.git` and the runner's own files are read-only, also where they do not exist yet",
        protected,
    );
    attempt(
        "read",
        "no reading of files that the task does not need",
        fs::read(&targets.secret).is_err(),
    );
    if let Some(port) = targets.port {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        attempt(
            "tcp",
            "no network",
            TcpStream::connect_timeout(&address, PATIENCE).is_err(),
        );
    }
    attempt(
        "unix",
        "no Unix sockets of the machine",
        UnixStream::connect(&targets.socket).is_err(),
    );
    #[cfg(target_os = "linux")]
    linux(targets, &mut attempt);
    attempts
}

fn writes_nowhere(targets: &Targets) -> bool {
    let places = [
        targets.outside.clone(),
        "/usr".into(),
        "/etc".into(),
        "/".into(),
        "/var".into(),
    ];
    places.iter().all(|place| {
        let path = place.join(".agent-batch-probe");
        let made = File::create_new(&path).is_ok();
        if made {
            let _ = fs::remove_file(path);
        }
        !made
    })
}

fn changes_mode(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).is_ok()
}

#[cfg(target_os = "linux")]
fn linux(targets: &Targets, attempt: &mut impl FnMut(&str, &str, bool)) {
    use rustix::process::{Pid, test_kill_process};

    attempt(
        "abstract",
        "no abstract Unix sockets of the machine",
        connect_abstract(&targets.abstract_socket).is_err(),
    );
    let mut processes = vec!["1".to_owned()];
    processes.extend(targets.runner.map(|pid| pid.to_string()));
    let closed = processes.iter().all(|pid| {
        // Process 1 of a namespace of its own has nothing to tell.
        fs::read(format!("/proc/{pid}/environ")).map_or(true, |text| text.is_empty())
            && fs::read_link(format!("/proc/{pid}/root")).map_or(true, |_| targets.runner.is_none())
    });
    attempt(
        "processes",
        "no environment and no memory of other processes",
        closed,
    );
    if let Some(runner) = targets
        .runner
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
    {
        attempt(
            "signals",
            "no signals to the runner",
            test_kill_process(runner).is_err(),
        );
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    attempt("privileges", "no new privileges and no capabilities", {
        let none = |name| field(name).is_some_and(|set| set.bytes().all(|digit| digit == b'0'));
        field("NoNewPrivs:") == Some("1") && none("CapEff:") && none("CapPrm:")
    });
    attempt(
        "seccomp",
        "system calls are filtered",
        field("Seccomp:") == Some("2"),
    );
    #[expect(
        deprecated,
        reason = "the descriptor table, which makes `unshare` unsafe, is not touched"
    )]
    let unshared = {
        use rustix::thread::{UnshareFlags, unshare};
        unshare(UnshareFlags::NEWUSER).is_ok() || unshare(UnshareFlags::NEWNS).is_ok()
    };
    attempt("namespaces", "no new namespaces", !unshared);
}

#[cfg(target_os = "linux")]
fn connect_abstract(name: &str) -> io::Result<UnixStream> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    UnixStream::connect_addr(&address)
}
