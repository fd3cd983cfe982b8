//! A batch in this process, for what cannot be said on the command line: other layers, models of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_batch::agent::Shutdown;
use agent_batch::batch::{Batch, Job, Journal, Pinned, Rules, Scratch};
use agent_batch::clock::Clock;
use agent_batch::event::{Event, Recording, SharedSink};
use agent_batch::model::Model;
use agent_batch::model::scripted::{Script, Scripted};
use agent_batch::proc::Launcher;
use agent_batch::task::{self, LoadOptions, Task, TaskFile};
use tempfile::TempDir;

const DONE: &str = "- text: done\n";

/// A directory with a run directory, a workspace `ws`, and a script `s.yaml` that ends at once.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for directory in ["ws", "out"] {
        fs::create_dir(root.join(directory)).unwrap();
    }
    fs::write(root.join("s.yaml"), DONE).unwrap();
    (dir, root)
}

/// The model of that script.
pub(crate) fn done() -> Arc<dyn Model> {
    let script = Script::parse("s.yaml", DONE).unwrap();
    Arc::new(Scripted::new("scripted/s.yaml", script))
}

/// A task of that script in that workspace, with this further YAML, that talks to `model`.
pub(crate) fn job(root: &Path, name: &str, yaml: &str, model: Arc<dyn Model>) -> Job {
    let yaml = format!("model: scripted/s.yaml\nprompt: p\nworkspace: {{ path: ws }}\n{yaml}");
    Job {
        task: Arc::new(load(root, name, &yaml)),
        model,
        judges: BTreeMap::new(),
        earlier: Vec::new(),
    }
}

fn load(root: &Path, name: &str, yaml: &str) -> Task {
    let display = format!("{name}.yaml");
    let absolute = root.join(&display);
    fs::write(&absolute, yaml).unwrap();
    let options = LoadOptions {
        cwd: root.to_path_buf(),
        ..LoadOptions::default()
    };
    let file = TaskFile { display, absolute };
    let mut loaded = task::load(&[file], None, &options).unwrap();
    loaded.tasks.remove(0)
}

/// A batch that runs jobs one after the other with the run directory `root/out`, which is there; and who records it.
pub(crate) fn build(
    root: &Path,
    launcher: Launcher,
    environment: BTreeMap<String, String>,
) -> (Batch, Arc<Mutex<Recording>>) {
    let out = root.join("out");
    let recording = Arc::new(Mutex::new(Recording::default()));
    let batch = Batch {
        parallel: 1,
        rules: Rules::default(),
        purse: None,
        journal: Journal::default(),
        base: root.to_path_buf(),
        scratch: Scratch::create(root, &out, false).unwrap(),
        out,
        keep_workspaces: false,
        launcher,
        environment,
        redactor: Arc::default(),
        clock: Clock::system(),
        watchers: vec![Arc::clone(&recording) as SharedSink],
        never_write: [].into(),
        pinned: Pinned::default(),
        config_commit: None,
        closed: Vec::new(),
        extra_tools: Vec::new(),
        callbacks: Vec::new(),
    };
    (batch, recording)
}

/// Runs such a batch; gives all events.
pub(crate) async fn run(
    root: &Path,
    jobs: Vec<Job>,
    launcher: Launcher,
    environment: BTreeMap<String, String>,
) -> Vec<Event> {
    let (batch, recording) = build(root, launcher, environment);
    Arc::new(batch).run(jobs, &Shutdown::default()).await;
    recording.lock().unwrap().events().to_vec()
}
