//! Whether a sandbox holds, found out by a process inside that attempts what must fail.
//!
//! Tried once in a run for each answer on the network, strongest layers first. What does not start is left away; what
//! starts and lets something through is kept and told.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{collections::BTreeMap, fs};

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::{Ending, Launcher, Spec, Stderr};
use crate::redact::Redactor;
use crate::sandbox::probe::{self, Attempt, Targets};
use crate::sandbox::{Layers, Missing, Network, Plan};

/// How long one try may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of a probe's input.
const INPUT_LIMIT: u64 = 1024 * 1024;
/// Tells what is tried from a hostile file of the same name.
const SECRET: &str = "outside of the sandbox";

/// What is enforced on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enforced {
    /// The layers that work together.
    pub layers: Layers,
    /// What was attempted from inside and failed, in words.
    pub held: Vec<String>,
    /// What was attempted from inside and did not fail, in words.
    pub missing: Vec<String>,
    /// Why stronger layers were left away.
    pub problems: Vec<String>,
}

impl Enforced {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.layers.is_empty() && self.missing.is_empty()
    }
}

/// The answers of a run, by network.
#[derive(Debug, Default)]
pub(super) struct Tested {
    deny: OnceCell<Arc<Enforced>>,
    allow: OnceCell<Arc<Enforced>>,
}

impl Launcher {
    /// What can be enforced here, tried out once. `scratch` is a private directory that exists.
    pub async fn enforceable(&self, network: Network, scratch: &Path) -> Arc<Enforced> {
        let cell = match network {
            Network::Deny => &self.tested.deny,
            Network::Allow => &self.tested.allow,
        };
        let answer =
            cell.get_or_init(|| async { Arc::new(self.try_layers(network, scratch).await) });
        Arc::clone(answer.await)
    }

    async fn try_layers(&self, network: Network, scratch: &Path) -> Enforced {
        let mut enforced = Enforced {
            layers: self.layers.clone(),
            ..Enforced::default()
        };
        if enforced.layers.bubblewrap.is_none() {
            enforced
                .problems
                .push("`bwrap` is not installed".to_owned());
        }
        while !enforced.layers.is_empty() {
            match self.attempt(&enforced.layers, network, scratch).await {
                Ok(attempts) => {
                    let (held, missing): (Vec<_>, Vec<_>) =
                        attempts.into_iter().partition(|attempt| attempt.held);
                    enforced.held = held.into_iter().map(|attempt| attempt.what).collect();
                    enforced.missing = missing.into_iter().map(|attempt| attempt.what).collect();
                    return enforced;
                }
                Err(error) => {
                    let names = enforced.layers.names().join(", ");
                    enforced.problems.push(format!("{names}: {error}"));
                    enforced.layers = enforced.layers.weaker();
                }
            }
        }
        enforced
            .missing
            .push("everything: processes run with all rights of this user".to_owned());
        enforced
    }

    /// The probe is run by the path of this program, which must be this program still: another one would tell what it
    /// likes.
    fn is_untouched(&self) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let identity = |found: &fs::Metadata| (found.dev(), found.ino(), found.size());
        let opened = self.opened.as_ref().map(|file| file.metadata());
        let now = fs::metadata(&self.supervisor)?;
        match opened.transpose()? {
            Some(then) if identity(&then) == identity(&now) => Ok(()),
            _ => Err(io::Error::other(format!(
                "`{}` is not the program any more that was started",
                self.supervisor.display()
            ))),
        }
    }

    /// Lays out the targets and runs the probe among them.
    async fn attempt(
        &self,
        layers: &Layers,
        network: Network,
        scratch: &Path,
    ) -> io::Result<Vec<Attempt>> {
        let place = tempfile::Builder::new()
            .prefix("self-test-")
            .tempdir_in(scratch)?;
        let at = |name: &str| place.path().join(name);
        for directory in [
            "outside",
            "workspace",
            "workspace/.git",
            "workspace/.git/hooks",
            "home",
            "tmp",
        ] {
            fs::create_dir_all(at(directory))?;
        }
        fs::write(at("outside/secret"), SECRET)?;
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok();
        let unix = UnixListener::bind(at("outside/socket"));
        let name = format!(
            "agent-batch-{}-{}",
            std::process::id(),
            place.path().display()
        );
        let hidden = abstract_listener(&name);
        let mut plan = Plan::new(&at("workspace"), &at("home"), &at("tmp"), &BTreeMap::new());
        plan.network = network;
        let own = at("workspace/agent-batch.yaml");
        plan.protect(own.clone(), Missing::Placeholder);
        let port = tcp
            .as_ref()
            .and_then(|listener| listener.local_addr().ok())
            .map(|address| address.port());
        let targets = Targets {
            outside: at("outside"),
            secret: at("outside/secret"),
            protected: vec![own, at("workspace/.git/hooks/pre-commit")],
            workspace: at("workspace"),
            port: port.filter(|_| network == Network::Deny),
            socket: unix.is_ok().then(|| at("outside/socket")),
            abstract_socket: hidden.is_ok().then_some(name),
            runner: layers.bubblewrap.is_none().then(std::process::id),
        };
        self.is_untouched()?;
        plan.readable.push(self.supervisor.clone());
        let program = self.supervisor.to_string_lossy().into_owned();
        let spec = Spec {
            argv: vec![program, "probe-sandbox".to_owned()],
            cwd: at("workspace"),
            env: BTreeMap::new(),
            stdin: serde_json::to_vec(&targets)?,
            time_limit: TIME_LIMIT,
            keep: 64 * 1024,
            spill: None,
            stderr: Stderr::Separate,
        };
        let finished = self
            .confined(layers.clone(), plan)
            .run(
                spec,
                Arc::new(Redactor::default()),
                &CancellationToken::new(),
            )
            .await;
        drop((tcp, unix, hidden));
        let finished = finished?;
        match finished.ending {
            Ending::Exited(0) => Ok(serde_json::from_str(&finished.stdout.text)?),
            ending => Err(io::Error::other(format!(
                "the self-test ended with {ending:?}: {}",
                crate::text::head(finished.stderr.text.trim(), 300)
            ))),
        }
    }
}

#[cfg(target_os = "linux")]
fn abstract_listener(name: &str) -> io::Result<UnixListener> {
    use std::os::linux::net::SocketAddrExt as _;
    UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn abstract_listener(_name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What `agent-batch probe-sandbox` does: targets from standard input, attempts to standard output. Gives the exit code.
#[must_use]
pub fn probe_sandbox() -> u8 {
    let mut input = Vec::new();
    let read = io::stdin().lock().take(INPUT_LIMIT).read_to_end(&mut input);
    let Some(targets) = read
        .ok()
        .and_then(|_| serde_json::from_slice::<Targets>(&input).ok())
    else {
        return 2;
    };
    match serde_json::to_writer(io::stdout().lock(), &probe::run(&targets)) {
        Ok(()) => 0,
        Err(_) => 3,
    }
}
