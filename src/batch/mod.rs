//! Many tasks at once: lanes say which may run side by side, an attempt is one task from its start to its last event.
//!
//! What happens is in the transcripts; the batch itself keeps nothing. Reports are folds over them, in plan order.

mod attempt;
mod checking;
mod confine;
mod lanes;
mod pinned;
pub mod plan;
mod scratch;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

pub use pinned::Pinned;
pub use scratch::Scratch;

use crate::clock::Clock;
use crate::event::SharedSink;
use crate::hook::CallbackSpec;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::proc::Launcher;
use crate::redact::Redactor;
use crate::task::Task;
use crate::tool::Tool;

/// A task and the model that it talks to.
#[derive(Clone)]
pub struct Job {
    /// The task.
    pub task: Arc<Task>,
    /// Its model.
    pub model: Arc<dyn Model>,
    /// The models of its checks that judge, by the names in the task file.
    pub judges: BTreeMap<String, Arc<dyn Model>>,
    /// The attempts of the task that an earlier run has made, by number; for a run that goes on with that one.
    pub earlier: Vec<EarlierAttempt>,
}

/// An attempt that an earlier run has made. Its transcript stays, and the next attempt has the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Its number, from 1.
    pub number: u32,
    /// How it ended. One that passed or failed is a trial that is done; any other one ([`plan::resume::is_verdict`]) is to be
    /// made up for, and counts against no limit on retries.
    pub outcome: Outcome,
}

/// A run of many tasks.
pub struct Batch {
    /// The tasks in plan order.
    pub jobs: Vec<Job>,
    /// Most tasks at the same time.
    pub parallel: usize,
    /// Where the run was started: paths in reports are relative to it.
    pub base: PathBuf,
    /// The run directory, absolute.
    pub out: PathBuf,
    /// Private place for copies, HOME and TMPDIR of the attempts.
    pub scratch: Scratch,
    /// Whether copies of workspaces stay after the run.
    pub keep_workspaces: bool,
    /// Starts processes.
    pub launcher: Launcher,
    /// Our own environment, from which the children's is built.
    pub environment: BTreeMap<String, String>,
    /// Removes secrets.
    pub redactor: Arc<Redactor>,
    /// Tells the time.
    pub clock: Clock,
    /// Console, progress: they see every event after it is stored.
    pub watchers: Vec<SharedSink>,
    /// Paths that no task may write: task files, project configuration, the run directory.
    pub never_write: Vec<PathBuf>,
    /// The configuration, which must be the same at the end.
    pub pinned: Pinned,
    /// Paths that no task may read or write: the CI runner's command files.
    pub closed: Vec<PathBuf>,
    /// Tools beside the built-in ones; a task names them in `tools`.
    pub extra_tools: Vec<Arc<dyn Tool>>,
    /// In-process hooks of every task, run after the task's own.
    pub callbacks: Vec<CallbackSpec>,
}

impl Batch {
    /// How many tasks have to wait for another one because they share its directory.
    #[must_use]
    pub fn serialised(&self) -> usize {
        let holds: Vec<_> = self.jobs.iter().map(|job| lanes::hold(&job.task)).collect();
        let waits = |n: usize| {
            holds
                .iter()
                .take(n)
                .any(|earlier| lanes::conflict(*earlier, holds.get(n).copied().flatten()))
        };
        (0..holds.len()).filter(|n| waits(*n)).count()
    }

    /// Runs all tasks. After `cancel` no task is started, and the running ones end in an orderly way.
    ///
    /// The next task is always the first one of the plan that may start: a task that writes in a directory without
    /// isolation has it for itself.
    pub async fn run(self: &Arc<Self>, cancel: &CancellationToken) {
        let mut waiting: Vec<&Job> = self.jobs.iter().collect();
        let mut busy: HashMap<Id, &Task> = HashMap::new();
        let mut running = JoinSet::new();
        loop {
            while running.len() < self.parallel.max(1) && !cancel.is_cancelled() {
                let may_start = |job: &&Job| {
                    let hold = lanes::hold(&job.task);
                    !busy
                        .values()
                        .any(|task| lanes::conflict(hold, lanes::hold(task)))
                };
                let Some(next) = waiting.iter().position(may_start) else {
                    break;
                };
                let job = waiting.remove(next);
                let (batch, own, cancel) = (Arc::clone(self), job.clone(), cancel.clone());
                let last = job.earlier.iter().map(|earlier| earlier.number).max();
                let number = last.unwrap_or(0).saturating_add(1);
                let started =
                    running.spawn(async move { attempt::run(&batch, &own, number, &cancel).await });
                busy.insert(started.id(), &job.task);
            }
            let ended = match running.join_next_with_id().await {
                None => return,
                Some(Ok((id, ()))) => id,
                Some(Err(error)) => {
                    // The transcript has no last event then, and every report says `unfinished`.
                    tracing::error!(%error, "a task crashed");
                    error.id()
                }
            };
            busy.remove(&ended);
        }
    }
}
