//! One task from its start to its last event.
//!
//! This is the frame: the transcript, and somebody who gives the work up when it does not end. Inside of it the work is a straight line
//! ([`work`]): `prepare` makes what the agent needs, `record` says what it starts with and how it ended, `compare` looks at what
//! it left.

mod compare;
mod prepare;
mod record;
mod work;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::agent::{Ended, Interrupt, Shutdown, panic_message};
use crate::batch::course::Number;
use crate::batch::overseer::{HOUSEKEEPING, Phase, overdue};
use crate::batch::{Batch, Job};
use crate::check::CallLog;
use crate::event::{Emitter, Kind, SharedSink, Spent};
use crate::outcome::{ChecksResult, Outcome, Stop};
use crate::report::{run_dir, transcript};
use crate::task::Task;
use crate::workspace::Git;

/// Runs one attempt and returns how it ended, and why its loop did where there was one. Its result is its transcript; when that cannot be written, there is only the
/// log to say so, and every report says `not_run` or `unfinished`.
pub(super) async fn run(
    batch: &Arc<Batch>,
    job: &Arc<Job>,
    number: Number,
    has_copied: impl FnOnce() + Send + 'static,
    shutdown: &Shutdown,
) -> (Outcome, Option<Stop>) {
    let attempt = Attempt::new(batch, job, number);
    let calls = Arc::new(Mutex::new(CallLog::default()));
    let emitter = match attempt.open_transcript(Arc::clone(&calls) as SharedSink) {
        Ok(emitter) => emitter,
        Err(error) => {
            tracing::error!(%error, task = job.task.name, "the transcript could not be opened");
            return (Outcome::IoError, None);
        }
    };
    let began = batch.clock.start();
    let work = attempt
        .oversee(&emitter, calls, batch, job, has_copied, shutdown)
        .await;
    let finished = attempt.last_event(work, began.elapsed_millis());
    let how = (finished.outcome, Some(finished.stop));
    // It is synced to the disk, which the other tasks need not wait for.
    let stored = block_in_place(|| emitter.emit(Kind::TaskFinished(Box::new(finished))));
    if let Err(error) = stored {
        tracing::error!(%error, task = job.task.name, "the transcript could not be finished");
    }
    how
}

pub(super) struct Attempt<'a> {
    pub(super) batch: &'a Batch,
    job: &'a Job,
    pub(super) task: &'a Task,
    number: u32,
    trial: u32,
    /// Where transcript and output go.
    dir: PathBuf,
    /// Private HOME, TMPDIR and copy of the workspace.
    pub(super) scratch: PathBuf,
}

/// What came out of an attempt.
struct Work {
    ended: Ended,
    denials: u32,
    checks: ChecksResult,
    /// One line for each check that did not pass.
    failures: Vec<String>,
}

impl<'a> Attempt<'a> {
    fn new(batch: &'a Batch, job: &'a Job, number: Number) -> Self {
        let name = &job.task.name;
        let Number {
            attempt: number,
            trial,
        } = number;
        let dir = batch.out.join(run_dir::attempt(name, number));
        let scratch = batch.scratch.root().join(name).join(number.to_string());
        Self {
            batch,
            job,
            task: &job.task,
            number,
            trial,
            dir,
            scratch,
        }
    }

    fn open_transcript(&self, calls: SharedSink) -> io::Result<Emitter> {
        make(&self.dir)?;
        let store = transcript::Writer::create(&self.dir.join(run_dir::TRANSCRIPT))?;
        let redactor = Arc::clone(&self.batch.redactor);
        let watchers = self.batch.watchers.iter().cloned().chain([calls]).collect();
        Ok(Emitter::new(
            &*self.task.name,
            self.number,
            self.batch.clock,
            redactor,
            Box::new(store),
            watchers,
        ))
    }

    /// Does the work in a task of the runtime's own, so that neither a crash nor something that does not end takes the batch
    /// with it.
    async fn oversee(
        &self,
        emitter: &Emitter,
        calls: Arc<Mutex<CallLog>>,
        batch: &Arc<Batch>,
        job: &Arc<Job>,
        has_copied: impl FnOnce() + Send + 'static,
        shutdown: &Shutdown,
    ) -> Work {
        let (interrupt, _clock) = Interrupt::start(shutdown, self.task.limits.timeout);
        let (phase, phases) = watch::channel(Phase::Within(HOUSEKEEPING, "preparing"));
        let mut work = tokio::spawn({
            let (batch, job, emitter) = (Arc::clone(batch), Arc::clone(job), emitter.clone());
            let (interrupt, shutdown) = (interrupt.clone(), shutdown.clone());
            let number = Number {
                attempt: self.number,
                trial: self.trial,
            };
            async move {
                Attempt::new(&batch, &job, number)
                    .work(&emitter, &calls, &interrupt, &phase, &shutdown, has_copied)
                    .await
            }
        });
        let ended = tokio::select! {
            ended = &mut work => ended,
            phase = overdue(phases, &interrupt, shutdown) => {
                work.abort();
                let (stop, reason) = match phase {
                    Phase::Agent => interrupt.reason(),
                    Phase::Within(..) if shutdown.token().is_cancelled() => shutdown.reason(),
                    Phase::Within(limit, _) => {
                        let limit = humantime::format_duration(limit);
                        (Stop::Timeout, format!("it took longer than {limit}"))
                    }
                };
                let message = format!("{reason}; it could not be ended while {} and was given up", phase.name());
                return Work::stopped(stop, message, self.task);
            }
        };
        match ended {
            Ok(Ok(work)) => work,
            Ok(Err(error)) => Work::failed(&error, self.task),
            Err(crash) => {
                let message = format!("the runner crashed in this task: {}", panic_message(crash));
                Work::stopped(Stop::IoError, message, self.task)
            }
        }
    }

    /// Where the structured answer lies, if the task demands one.
    fn answer_file(&self) -> Option<PathBuf> {
        let demanded = self.task.output_schema.is_some();
        demanded.then(|| self.dir.join(run_dir::ANSWER))
    }

    /// The git of the search path that we were started with.
    fn git(&self) -> io::Result<Git> {
        let search = self.batch.environment.get("PATH");
        let avoid = [&*self.task.workspace, self.batch.scratch.root()];
        Git::find(
            search.map_or("", String::as_str),
            &avoid,
            self.batch.launcher.clone(),
        )
    }

    pub(super) fn output_dir(&self) -> PathBuf {
        self.dir.join(run_dir::OUTPUT)
    }
}

impl Work {
    /// The attempt could not be carried out.
    fn failed(error: &io::Error, task: &Task) -> Self {
        Self::stopped(Stop::IoError, error.to_string(), task)
    }

    /// The agent was not asked at all.
    fn stopped(stop: Stop, message: String, task: &Task) -> Self {
        let ended = Ended {
            stop,
            message,
            reply: String::new(),
            turns_skipped: u32::try_from(task.turns.len()).unwrap_or(u32::MAX),
            leaked_processes: 0,
            denials: 0,
            first_denial: None,
            steps: 0,
            spent: Spent::default(),
            messages: Vec::new(),
        };
        Self {
            ended,
            denials: 0,
            checks: ChecksResult::NotRun,
            failures: Vec::new(),
        }
    }
}

fn warn(emitter: &Emitter, code: &str, message: String) -> io::Result<()> {
    let code = code.to_owned();
    emitter.emit(Kind::Warned { code, message })
}

fn make(directory: &Path) -> io::Result<()> {
    let made = fs::create_dir_all(directory);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
}
