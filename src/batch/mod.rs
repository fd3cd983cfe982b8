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

use std::collections::{BTreeMap, HashMap};
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

/// What the tasks of a run have in common.
pub struct Batch {
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

/// How many tasks have to wait for another one because they share its directory.
#[must_use]
pub fn serialised(jobs: &[Job]) -> usize {
    lanes::waiting(jobs.iter().map(|job| lanes::hold(&job.task)))
}

/// A task on its way.
struct Way {
    /// Until its last attempt has ended: of a finished task nothing stays but what the reports need.
    job: Option<Arc<Job>>,
    course: Course,
}

impl Batch {
    /// Runs tasks, in plan order. Once `shutdown` has begun no task is started, and the running ones end in an orderly way.
    ///
    /// What is not run is told in the journal as soon as that is certain, with the reason.
    pub async fn run(self: &Arc<Self>, jobs: Vec<Job>, shutdown: &Shutdown) {
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
        self.conduct(jobs, shutdown).await;
        drop(timer);
    }

    async fn conduct(self: &Arc<Self>, jobs: Vec<Job>, shutdown: &Shutdown) {
        let mut queue = Queue::new(jobs.iter().map(|job| &*job.task), &self.rules.groups);
        let mut ways: Vec<Way> = jobs.into_iter().map(|job| self.way(job)).collect();
        for (place, way) in ways.iter().enumerate() {
            if way.course.goes_on() {
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
                let Some(Way {
                    job: Some(job),
                    course,
                }) = ways.get_mut(place)
                else {
                    continue;
                };
                let number = course.next();
                let (batch, job, shutdown) = (Arc::clone(self), Arc::clone(job), shutdown.clone());
                let tell = tell.clone();
                let attempt = async move {
                    let has_copied = move || {
                        // Nobody waits for it any more where nobody hears it.
                        let _ = tell.send(place);
                    };
                    attempt::run(&batch, &job, number, has_copied, &shutdown).await
                };
                busy.insert(running.spawn(attempt).id(), place);
            }
            if let Some(reason) = self.obstacle(shutdown, lost) {
                let left = queue.drain();
                self.leave_out(left.iter().filter_map(|place| ways.get(*place)), &reason);
            }
            let ended = tokio::select! {
                ended = running.join_next_with_id() => ended,
                Some(place) = copied.recv() => {
                    queue.has_copied(place);
                    continue;
                }
                () = shutdown.ending().cancelled(), if !queue.is_empty() => continue,
            };
            let (id, (outcome, stop)) = match ended {
                None => return,
                Some(Ok(ended)) => ended,
                Some(Err(error)) => {
                    // An attempt catches what happens in it; the transcript has no last event then.
                    tracing::error!(%error, "an attempt crashed");
                    (error.id(), (Outcome::Unfinished, None))
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
            let Some(way) = ways.get_mut(place) else {
                continue;
            };
            way.course.note(outcome, stop);
            if way.course.goes_on() {
                queue.add(place);
                continue;
            }
            way.job = None;
            lost += u32::from(way.course.is_lost());
        }
    }

    fn way(&self, job: Job) -> Way {
        let task = &job.task;
        let course = Course::new(
            task.trials,
            task.retries,
            self.rules.all_trials,
            &job.earlier,
        );
        Way {
            job: course.goes_on().then(|| Arc::new(job)),
            course,
        }
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

    fn leave_out<'w>(&self, left: impl Iterator<Item = &'w Way>, reason: &str) {
        let jobs = left.filter_map(|way| way.job.as_ref());
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
