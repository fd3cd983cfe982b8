//! Real processes in the real sandbox, each layer alone and all together: what they reach, and what they do not.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail as tests do, and say loudly what they skip"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_batch::proc::{Enforced, Finished, Launcher, Spec, Stderr, child_environment};
use agent_batch::redact::Redactor;
use agent_batch::sandbox::{Layers, Missing, Network, Plan};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-batch");

/// A workspace with a repository, things outside of it, and a launcher that holds processes to the workspace.
struct Cell {
    dir: TempDir,
    plan: Plan,
    layers: Layers,
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
        Self { dir, plan, layers }
    }

    fn at(&self, part: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(part)
    }

    fn launcher(&self) -> Launcher {
        Launcher::new(PROGRAM.into()).confined(self.layers.clone(), self.plan.clone())
    }

    async fn try_bash(&self, script: &str) -> std::io::Result<Finished> {
        let spec = Spec {
            argv: ["/bin/bash", "--noprofile", "--norc", "-c", script].map(str::to_owned).to_vec(),
            cwd: self.at("ws"),
            env: environment(&self.at("")),
            stdin: b"input".to_vec(),
            time_limit: Duration::from_secs(120),
            keep: 100_000,
            spill: None,
            stderr: Stderr::Merged,
        };
        self.launcher().run(spec, Arc::new(Redactor::default()), &CancellationToken::new()).await
    }

    /// What a script prints.
    async fn bash(&self, script: &str) -> String {
        self.try_bash(script).await.unwrap().stdout.text
    }
}

fn environment(root: &Path) -> BTreeMap<String, String> {
    let parent = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    child_environment(parent, &root.join("home"), &root.join("tmp"))
}

/// Layers of this machine, one by one and together; what it lacks is said and left out.
fn cells() -> Vec<(&'static str, Cell)> {
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
    add("bubblewrap", bubblewrap.is_some(), Layers { bubblewrap: bubblewrap.clone(), seccomp: true, ..none() });
    add("landlock", landlock.is_some(), Layers { landlock, seccomp: true, ..none() });
    add("bubblewrap and landlock", bubblewrap.is_some() && landlock.is_some(), found);
    cells
}

#[tokio::test]
async fn a_command_runs_with_its_input_its_directory_and_its_exit_code() {
    for (name, cell) in cells() {
        let finished = cell.try_bash("cat; pwd; echo $HOME; touch new $HOME/x $TMPDIR/y /tmp/z; exit 7").await.unwrap();
        let expected = format!("input{}\n{}\n", cell.at("ws").display(), cell.at("home").display());
        eprintln!("{name}: {}", finished.stdout.text);
        assert_eq!(finished.stdout.text, expected, "{name}");
        assert_eq!(finished.ending, agent_batch::proc::Ending::Exited(7), "{name}");
        assert!(cell.at("ws/new").exists(), "{name}");
    }
}

#[tokio::test]
async fn the_self_test_finds_what_is_enforced() {
    for (name, cell) in cells() {
        let launcher = Launcher::new(PROGRAM.into()).with_layers(cell.layers.clone());
        let enforced: Arc<Enforced> = launcher.enforceable(Network::Deny, cell.dir.path()).await;
        eprintln!("{name}: {enforced:#?}");
        assert_eq!(enforced.layers, cell.layers, "{name}: {enforced:#?}");
    }
}
