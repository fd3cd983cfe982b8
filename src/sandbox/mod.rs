//! What a process that the model, a hook or a check starts can reach: a workspace, a private home, the system to read.
//!
//! Everything here is data and what is done with it: a [`Plan`] says which paths a task may use, [`Layers`] which
//! mechanisms hold it to them, and a [`Confinement`] is both together. `proc` starts processes by it: outside, the
//! supervisor puts `bubblewrap` before the command ([`Confinement::outer`]); inside, the thread that starts the command
//! takes away from itself what is left ([`Confinement::restrict`]). No single mechanism is relied upon where two can
//! be had:
//!
//! | layer | what it holds |
//! |---|---|
//! | `bubblewrap` | own mounts, processes, network, IPC; protected paths read-only, secrets not there |
//! | Landlock | the same file rules once more, no signals and no abstract sockets to the outside |
//! | seccomp | system calls that no build needs, families of sockets |
//! | rlimits | sizes and numbers |
//!
//! That it works is not believed but tried: [`probe`] runs inside and attempts what has to fail.

mod bubblewrap;
mod closed;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
mod links;
mod listeners;
mod pins;
mod placeholder;
mod plan;
pub mod probe;
mod repository;
#[cfg(target_os = "linux")]
mod seccomp;
mod superuser;
mod survey;
mod toolchain;

use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::limits::Ceilings;
pub use self::pins::Pins;
pub use self::placeholder::{Held, remove_stale};
pub use self::plan::{Missing, Place, Plan, Protected};
pub use self::repository::work_tree;
pub use self::superuser::Superuser;
pub use self::survey::Survey;

/// Whether processes run in a sandbox.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No sandbox.
    Off,
    /// The strongest that this machine has; what it lacks is a warning in every report.
    #[default]
    Auto,
    /// Whole, or the task is an error before the first model call.
    Required,
}

impl Mode {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Required => "required",
        }
    }
}

/// Whether processes reach the network.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Nothing outside of the sandbox is reached, the machine's own services included.
    #[default]
    Deny,
    /// Named hosts, through a proxy in the runner; nothing else, the machine's own services included.
    Hosts,
    /// The machine's network.
    Allow,
}

impl Network {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Hosts => "hosts",
            Self::Allow => "allow",
        }
    }
}

/// The mechanisms that hold a process. What can be had is found by [`Layers::found`]; that it works is for the
/// self-test to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// The `bwrap` program.
    pub bubblewrap: Option<PathBuf>,
    /// The ABI of Landlock in the running kernel, if it is there and enabled.
    pub landlock: Option<u32>,
    /// System call filters.
    pub seccomp: bool,
    /// `bwrap` is older than 0.8 and cannot forbid further user namespaces; the filter does.
    #[serde(default)]
    pub old_bubblewrap: bool,
    /// Mounts let everything through: for tests that the other layers hold by themselves.
    #[serde(default)]
    pub loose_mounts: bool,
}

impl Layers {
    /// What this machine has, untried.
    #[must_use]
    pub fn found() -> Self {
        Self {
            bubblewrap: bubblewrap::find(),
            landlock: landlock_abi(),
            seccomp: cfg!(all(
                target_os = "linux",
                any(target_arch = "x86_64", target_arch = "aarch64")
            )),
            old_bubblewrap: false,
            loose_mounts: false,
        }
    }

    /// Whether there is no layer at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bubblewrap.is_none() && self.landlock.is_none() && !self.seccomp
    }

    /// The layers that are left when the strongest does not work.
    #[must_use]
    pub fn weaker(&self) -> Self {
        let mut weaker = self.clone();
        if weaker.bubblewrap.is_some() && !weaker.old_bubblewrap {
            weaker.old_bubblewrap = true;
            return weaker;
        }
        weaker.old_bubblewrap = false;
        if weaker.bubblewrap.take().is_none() && weaker.landlock.take().is_none() {
            weaker.seccomp = false;
        }
        weaker
    }

    /// The layers by name, strongest first, as reports show them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let bubblewrap = self.bubblewrap.as_ref().map(|_| "bubblewrap".to_owned());
        let landlock = self.landlock.map(|abi| format!("landlock (ABI {abi})"));
        let seccomp = self.seccomp.then(|| "seccomp".to_owned());
        let limits = (!self.is_empty()).then(|| "rlimits".to_owned());
        [bubblewrap, landlock, seccomp, limits]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Why `bubblewrap` may not work on this machine, and what to do. For error texts.
    #[must_use]
    pub fn advice() -> String {
        bubblewrap::advice()
    }
}

/// How the processes of a task are held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// By what.
    pub layers: Layers,
    /// To what.
    pub plan: Plan,
}

impl Confinement {
    /// Makes what the mounts need, and keeps it until it is dropped. Before [`Confinement::outer`] and
    /// [`Confinement::pins`].
    ///
    /// # Errors
    /// A protected path could come to be inside; nothing must be started then.
    pub fn hold(&self) -> io::Result<Option<Held>> {
        let mounted = self.layers.bubblewrap.is_some();
        mounted.then(|| Held::new(&self.plan)).transpose()
    }

    /// What has to be found at the mounted paths inside.
    #[must_use]
    pub fn pins(&self) -> Pins {
        if self.layers.bubblewrap.is_some() && !self.layers.loose_mounts {
            Pins::of(&self.plan)
        } else {
            Pins::default()
        }
    }

    /// Puts back the protected links that a call has replaced, and tells which.
    #[must_use]
    pub fn restore_links(&self) -> Vec<String> {
        let links = self.plan.links.iter().rev();
        links.filter_map(links::Link::restore).collect()
    }

    /// The command line that stands before the program inside: `bwrap ... --`, or nothing.
    ///
    /// # Errors
    /// A path of the plan has become a link; nothing must be started then.
    pub fn outer(&self, cwd: &Path) -> io::Result<Vec<std::ffi::OsString>> {
        let Some(bwrap) = &self.layers.bubblewrap else {
            return Ok(Vec::new());
        };
        self.plan.check()?;
        Ok(bubblewrap::command_line(
            bwrap,
            &self.plan,
            cwd,
            &self.layers,
        ))
    }

    /// Gives up, for the calling thread and everything that it starts, what the plan does not name. Cannot be undone.
    ///
    /// # Errors
    /// A layer that was found is not enforced; nothing must be started then.
    pub fn restrict(&self, ceilings: &Ceilings) -> io::Result<()> {
        limits::apply(ceilings, self.layers.bubblewrap.is_some())?;
        #[cfg(target_os = "linux")]
        {
            if self.layers.landlock.is_some() {
                landlock::restrict(&self.plan, &self.layers)?;
            }
            if self.layers.seccomp {
                seccomp::restrict(self.sockets(), self.layers.bubblewrap.is_some())?;
            }
        }
        Ok(())
    }

    /// Which sockets are harmless: with a network of its own, all ordinary ones; in the network of the machine,
    /// those that cannot reach one of its services by a path or a name.
    #[cfg(target_os = "linux")]
    fn sockets(&self) -> seccomp::Sockets {
        let scoped = self
            .layers
            .landlock
            .is_some_and(|abi| abi >= landlock::SCOPES);
        let namespaces = self.layers.bubblewrap.is_some();
        match (self.plan.network, namespaces) {
            (Network::Deny | Network::Hosts, true) => seccomp::Sockets::All,
            (Network::Allow, true) if scoped => seccomp::Sockets::All,
            (Network::Allow, _) => seccomp::Sockets::Internet,
            (Network::Deny | Network::Hosts, false) => seccomp::Sockets::Pairs,
        }
    }
}

#[cfg(target_os = "linux")]
fn landlock_abi() -> Option<u32> {
    landlock::abi()
}

#[cfg(not(target_os = "linux"))]
fn landlock_abi() -> Option<u32> {
    None
}
