//! Many tasks at once. `queue` says which may start (`lanes` which may run side by side), `course` which attempts a task
//! makes, an `attempt` is one task from its start to its last event, `overseer` gives up one that cannot be ended, and
//! `journal` tells what happens to the batch as a whole.
//!
//! What happens is in the transcripts; the batch itself keeps nothing. Reports are folds over them, in plan order.

mod attempt;
mod checking;
mod confine;
mod course;
mod journal;
mod lanes;
mod overseer;
mod pinned;
pub mod plan;
mod queue;
mod scratch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

use self::course::Course;
use self::queue::Queue;

pub use journal::Journal;
pub use pinned::Pinned;
pub use scratch::Scratch;

use crate::agent::Shutdown;
use crate::budget::Purse;
use crate::clock::Clock;
use crate::event::{Kind, SharedSink};
use crate::hook::CallbackSpec;
use crate::model::Model;
use crate::outcome::{Outcome, Stop};
use crate::proc::Launcher;
use crate::redact::Redactor;
use crate::task::Task;
use crate::text;
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
    /// The trial that it belongs to, from 1; 0 where that is not known.
    pub trial: u32,
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
    /// How tasks are started and when no more are.
    pub rules: Rules,
    /// What all tasks together may spend, where that is limited.
    pub purse: Option<Arc<Purse>>,
    /// What happens to the batch as a whole.
    pub journal: Journal,
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
    pub never_write: Arc<[PathBuf]>,
    /// The configuration, which must be the same at the end.
    pub pinned: Pinned,
    /// The commit that the configuration was read from, if not the work tree.
    pub config_commit: Option<String>,
    /// Paths that no task may read or write: the CI runner's command files.
    pub closed: Vec<PathBuf>,
    /// Tools beside the built-in ones; a task names them in `tools`.
    pub extra_tools: Vec<Arc<dyn Tool>>,
    /// In-process hooks of every task, run after the task's own.
    pub callbacks: Vec<CallbackSpec>,
}

/// How tasks are started and when no more are.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Most tasks at the same time, by group; a group that is not here has no limit.
    pub groups: BTreeMap<String, u32>,
    /// After so many tasks that did not pass no other one is started.
    pub max_failures: Option<u32>,
    /// Whether trials are run that cannot change a task's verdict any more.
    pub all_trials: bool,
    /// The wall clock of the whole run; at its end everything is cut.
    pub timeout: Option<Duration>,
}

impl Batch {
    /// How many tasks have to wait for another one because they share its directory.
    #[must_use]
    pub fn serialised(&self) -> usize {
        lanes::waiting(self.jobs.iter().map(|job| lanes::hold(&job.task)))
    }

    /// Runs all tasks. Once `shutdown` has begun no task is started, and the running ones end in an orderly way.
    ///
    /// What is not run is told in the journal as soon as that is certain, with the reason.
    pub async fn run(self: &Arc<Self>, shutdown: &Shutdown) {
        self.forget_journal();
        let clock = shutdown.clone();
        let timer = self.rules.timeout.map(|limit| {
            AbortOnDrop(tokio::spawn(async move {
                tokio::time::sleep(limit).await;
                let limit = humantime::format_duration(limit);
                clock.begin(
                    Stop::Timeout,
                    format!("the time limit of the run, {limit} (`--timeout`), was reached"),
                );
                clock.cut();
            }))
        });
        self.conduct(shutdown).await;
        drop(timer);
    }

    async fn conduct(self: &Arc<Self>, shutdown: &Shutdown) {
        let mut courses: Vec<Course> = self.jobs.iter().map(|job| self.course(job)).collect();
        let tasks = self.jobs.iter().map(|job| &*job.task);
        let mut queue = Queue::new(tasks, &self.rules.groups);
        for (place, course) in courses.iter().enumerate() {
            if course.goes_on() {
                queue.add(place);
            }
        }
        let (tell, mut copied) = mpsc::unbounded_channel();
        let mut busy: HashMap<Id, usize> = HashMap::new();
        let mut running = JoinSet::new();
        let mut lost = 0;
        loop {
            while running.len() < self.parallel.max(1)
                && self.obstacle(shutdown, lost).is_none()
                && let Some(place) = queue.start()
            {
                let Some(course) = courses.get_mut(place) else {
                    continue;
                };
                let number = course.next();
                let (batch, shutdown) = (Arc::clone(self), shutdown.clone());
                let tell = tell.clone();
                let attempt =
                    async move { attempt::run(batch, place, number, &tell, &shutdown).await };
                busy.insert(running.spawn(attempt).id(), place);
            }
            if let Some(reason) = self.obstacle(shutdown, lost) {
                self.leave_out(&queue.drain(), &reason);
            }
            let ended = tokio::select! {
                ended = running.join_next_with_id() => ended,
                Some(place) = copied.recv() => {
                    queue.has_copied(place);
                    continue;
                }
                () = shutdown.ending().cancelled(), if !queue.is_empty() => continue,
            };
            let (id, outcome) = match ended {
                None => return,
                Some(Ok(ended)) => ended,
                Some(Err(error)) => {
                    // An attempt catches what happens in it; the transcript has no last event then.
                    tracing::error!(%error, "an attempt crashed");
                    (error.id(), Outcome::Unfinished)
                }
            };
            // What an attempt told before its end must not be taken for a word of the task's next one.
            while let Ok(place) = copied.try_recv() {
                queue.has_copied(place);
            }
            let Some(place) = busy.remove(&id) else {
                continue;
            };
            queue.end(place);
            let Some(course) = courses.get_mut(place) else {
                continue;
            };
            course.note(outcome);
            if course.goes_on() {
                queue.add(place);
            } else if course.is_lost() {
                lost += 1;
            }
        }
    }

    fn course(&self, job: &Job) -> Course {
        let task = &job.task;
        Course::new(
            task.trials,
            task.retries,
            self.rules.all_trials,
            &job.earlier,
        )
    }

    /// Why no other attempt is started, if none is. Once there is a reason, there always is one.
    fn obstacle(&self, shutdown: &Shutdown, lost: u32) -> Option<String> {
        if shutdown.has_begun() {
            return Some(shutdown.reason().1);
        }
        if let Some(most) = self.rules.max_failures.filter(|most| lost >= *most) {
            let tasks = text::plural(lost.into(), "task");
            return Some(format!(
                "{tasks} did not pass, and after {most} no other one is started (`--max-failures`)"
            ));
        }
        let purse = self
            .purse
            .as_ref()
            .filter(|purse| purse.is_winding_down())?;
        Some(format!(
            "{}, and from {} % on no task is started",
            purse.state(),
            purse.limits().wind_down
        ))
    }

    fn leave_out(&self, places: &BTreeSet<usize>, reason: &str) {
        let jobs = places.iter().filter_map(|place| self.jobs.get(*place));
        let tasks: Vec<String> = jobs.map(|job| job.task.name.clone()).collect();
        if !tasks.is_empty() {
            self.tell(Kind::TasksNotRun {
                tasks,
                reason: reason.to_owned(),
            });
        }
    }
}

/// A task of the runtime that ends with us.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
