//! How the processes of one attempt are held: from the task, the batch and what works on this machine to a launcher.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::block_in_place;

use super::attempt::Attempt;
use crate::agent::Ended;
use crate::egress::{self, Bounds, Egress, Outside};
use crate::event::{Emitter, Kind, SandboxRecord};
use crate::proc::{Enforced, Launcher};
use crate::sandbox::{Layers, Missing, Mode, Network, Plan, Superuser, Survey};
use crate::workspace::Workspace;

/// What starts the processes of an attempt, and what is told about it.
pub(super) struct Held {
    /// Starts every process of the attempt.
    pub(super) launcher: Launcher,
    /// What holds them; empty where nothing does.
    pub(super) layers: Layers,
    /// For the transcript.
    pub(super) record: SandboxRecord,
    /// What is not enforced, for a warning.
    pub(super) warning: Option<String>,
    /// Why the task must not start.
    pub(super) refusal: Option<String>,
    /// The way out of the network, where the task names hosts and they can be held.
    egress: Option<Arc<Egress>>,
    /// The directories that are written, and what lay in them at the start.
    surveyed: Vec<(PathBuf, Survey)>,
}

/// What the task's processes did, though they must not.
struct Breach {
    /// In words.
    message: String,
    /// Whether it counts as a denied action; else it is a warning.
    is_denied: bool,
}

impl Held {
    /// What processes did past the gate is told, and denied afterwards. Looked up when no process of the task is left.
    pub(super) fn look_back(
        &self,
        mut ended: Ended,
        workspace: &Workspace,
        emitter: &Emitter,
    ) -> io::Result<Ended> {
        for breach in block_in_place(|| self.breaches(|path| workspace.is_ignored(path))) {
            let message = breach.message;
            if breach.is_denied {
                ended.denials = ended.denials.saturating_add(1);
                ended.first_denial.get_or_insert_with(|| message.clone());
            }
            emitter.emit(Kind::Warned {
                code: "breach".into(),
                message,
            })?;
        }
        for message in self.egress.iter().flat_map(|egress| egress.close()) {
            ended.denials = ended.denials.saturating_add(1);
            ended.first_denial.get_or_insert(message);
        }
        Ok(ended)
    }

    /// What processes have to know to find the way out.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        self.egress.iter().flat_map(|_| egress::variables())
    }

    /// What is not as the sandbox must keep it: replaced links, and
    /// repositories that came to be. One in a place that git ignores, where builds fetch what they need, is a warning.
    fn breaches(&self, is_ignored: impl Fn(&Path) -> bool) -> Vec<Breach> {
        let links = self.launcher.breaches().into_iter().map(|message| Breach {
            message,
            is_denied: true,
        });
        let repositories = self.surveyed.iter().flat_map(|(root, before)| {
            let now = Survey::of(root);
            let looked = (now.is_cut && !before.is_cut).then(|| Breach {
                message: format!("`{}` has become too large to be looked over for repositories", root.display()),
                is_denied: false,
            });
            let since = now.since(before);
            let told = since.into_iter().map(|path| Breach {
                is_denied: !is_ignored(&path),
                message: format!(
                    "a repository came to be, or was changed, at `{}`: git runs what its configuration and hooks name for \
                     whoever calls it there",
                    path.strip_prefix(root).unwrap_or(&path).display()
                ),
            });
            looked.into_iter().chain(told).collect::<Vec<_>>()
        });
        links.chain(repositories).collect()
    }
}

impl Attempt<'_> {
    /// Finds out what can be enforced and holds the attempt's processes to its workspace; they read what it has borrowed.
    pub(super) async fn hold(
        &self,
        root: &Path,
        borrowed: &[PathBuf],
        environment: &BTreeMap<String, String>,
        emitter: &Emitter,
    ) -> Held {
        let (mode, network) = (self.task.sandbox, self.task.network);
        let mut held = Held {
            launcher: self.batch.launcher.clone(),
            layers: Layers::default(),
            record: SandboxRecord {
                mode: mode.name().to_owned(),
                network: network.name().to_owned(),
                hosts: self.task.hosts.clone(),
                used: self.task.starts_processes(),
                ..SandboxRecord::default()
            },
            warning: None,
            refusal: None,
            egress: None,
            surveyed: Vec::new(),
        };
        if !held.record.used {
            return held;
        }
        if mode == Mode::Off {
            held.warning =
                Some("the sandbox is off: processes run with all rights of the user".to_owned());
            return held;
        }
        let enforced = held
            .launcher
            .enforceable(network, self.batch.scratch.root())
            .await;
        held.record.layers = enforced.layers.names();
        held.record.held.clone_from(&enforced.held);
        held.record.missing.clone_from(&enforced.missing);
        if !enforced.is_whole() {
            let lack = lack(&enforced);
            if mode == Mode::Required {
                held.refusal = Some(format!("the task demands a whole sandbox, and {lack}"));
            } else if enforced.layers.is_empty() {
                // Nobody said that it may be so, other than with `off`.
                let search = self.batch.environment.get("PATH");
                match Superuser::of(search.map_or("", String::as_str)) {
                    Some(Superuser::Root) => held.refusal = Some(as_root(&lack)),
                    Some(sudo) => held.warning = Some(format!("{lack}; they {}", sudo.means())),
                    None => held.warning = Some(lack),
                }
            } else {
                held.warning = Some(lack);
            }
        }
        if let Some(foreign) = foreign(root) {
            let before = held.warning.take().map(|before| format!("{before}; "));
            held.warning = Some(format!("{}{foreign}", before.unwrap_or_default()));
        }
        let mut plan = block_in_place(|| self.plan(root, borrowed, environment));
        if network == Network::Hosts {
            self.open_hosts(&enforced, &mut held, &mut plan, emitter);
        }
        held.surveyed = std::mem::take(&mut plan.surveyed);
        held.launcher = held.launcher.confined(enforced.layers.clone(), plan);
        held.layers = enforced.layers.clone();
        held
    }

    /// A launcher that holds its processes to another directory in the workspace's place.
    pub(super) fn held_to(
        &self,
        root: &Path,
        borrowed: &[PathBuf],
        layers: &Layers,
        environment: &BTreeMap<String, String>,
    ) -> Launcher {
        let plain = &self.batch.launcher;
        if layers.is_empty() {
            plain.clone()
        } else {
            plain.confined(layers.clone(), self.plan(root, borrowed, environment))
        }
    }

    /// Gives the processes a way to the task's hosts. Only a network of their own can keep them from everything else; without
    /// one they reach nothing.
    fn open_hosts(&self, enforced: &Enforced, held: &mut Held, plan: &mut Plan, emitter: &Emitter) {
        if enforced.layers.bubblewrap.is_some() {
            let egress = Arc::new(Egress::new(
                self.task.hosts.clone(),
                Outside::system(),
                Bounds::default(),
                emitter.clone(),
            ));
            held.launcher = held.launcher.clone().through(Arc::clone(&egress));
            held.egress = Some(egress);
            return;
        }
        plan.set_network(Network::Deny);
        Network::Deny.name().clone_into(&mut held.record.network);
        held.record.hosts.clear();
        let lack = format!(
            "this machine gives processes no network of their own, so a list of hosts cannot be held; to change that, {}",
            Layers::advice()
        );
        if self.task.sandbox == Mode::Required {
            held.refusal.get_or_insert(lack);
        } else {
            let before = held.warning.take();
            let before = before.map_or_else(String::new, |before| format!("{before}; "));
            held.warning = Some(format!("{before}no host is reached: {lack}"));
        }
    }

    fn plan(
        &self,
        root: &Path,
        borrowed: &[PathBuf],
        environment: &BTreeMap<String, String>,
    ) -> Plan {
        let task = self.task;
        let mut plan = Plan::new(
            root,
            &self.scratch.join("home"),
            &self.scratch.join("tmp"),
            environment,
        );
        plan.set_network(task.network);
        for objects in borrowed {
            plan.read(objects);
        }
        for directory in &task.additional {
            plan.writable.push(directory.clone());
            plan.protect_repository(directory);
        }
        if let Some(home) = self
            .batch
            .environment
            .get("HOME")
            .filter(|home| !home.is_empty())
        {
            plan.hide_home(Path::new(home));
        }
        plan.hidden.extend(self.batch.closed.iter().cloned());
        if let Ok(output) = self.output_dir().canonicalize() {
            plan.read(&output);
        }
        // Hooks are the task's own programs; what lies beside them belongs to them.
        let files = task
            .hooks
            .iter()
            .flat_map(|hook| &hook.command)
            .map(Path::new);
        for file in files.filter(|file| file.is_absolute()) {
            plan.read_program(file);
        }
        plan.protect_steering(root, |name| {
            task.allow.iter().any(|rule| rule.text().contains(name))
        });
        let own = self.never_write(root);
        let program = [self.batch.launcher.program().to_path_buf()];
        // A run of many tasks has many files, and few directories.
        let mut directories = HashMap::new();
        for path in self.batch.never_write.iter().chain(&own).chain(&program) {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            let found = directories
                .entry(parent)
                .or_insert_with(|| physical(parent));
            let Some(path) = found.as_ref().map(|parent| parent.join(name)) else {
                continue;
            };
            let mut writable = plan.writable.iter();
            if writable.any(|place| path.starts_with(place) && path != *place) {
                plan.protect(path, Missing::Placeholder);
            }
        }
        plan
    }
}

/// A directory behind whatever links lead to it; `None` where none is.
fn physical(directory: &Path) -> Option<PathBuf> {
    directory.canonicalize().ok().filter(|found| found.is_dir())
}

/// What is to be told of a workspace in which root can write and, without its rights over the files of others, cannot.
fn foreign(root: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;

    let found = root.metadata().ok()?;
    let writes = found.mode() & 0o002 != 0 || found.gid() == 0 && found.mode() & 0o020 != 0;
    let is_foreign = rustix::process::geteuid().is_root() && found.uid() != 0 && !writes;
    is_foreign.then(|| {
        let owner = found.uid();
        format!(
            "the workspace belongs to user {owner}, and root has no rights over the files of others in the sandbox, so \
             processes cannot write there: run as that user, use `isolation: copy`, or `chown -R root` it before"
        )
    })
}

/// Why a task with an automatic sandbox does not start.
fn as_root(lack: &str) -> String {
    format!("{lack}; they would run as root here: to let them, name `--sandbox off`")
}

/// What this machine cannot enforce, why, and what to do.
fn lack(enforced: &Enforced) -> String {
    let what = if enforced.layers.is_empty() {
        "no sandbox works on this machine: processes run with all rights of the user".to_owned()
    } else {
        let layers = enforced.layers.names().join(", ");
        format!(
            "this machine's ({layers}) does not hold: {}",
            enforced.missing.join("; ")
        )
    };
    let why = if enforced.problems.is_empty() {
        String::new()
    } else {
        format!(" ({})", enforced.problems.join("; "))
    };
    format!("{what}{why}; to change that, {}", Layers::advice())
}
