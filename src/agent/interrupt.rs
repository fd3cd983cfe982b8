//! What ends a task from the outside: its own time, or the end of the whole run.
//!
//! A task's time is the time that it works: while it waits for the API's load or for the batch's purse, its clock stands
//! still. A run ends in two stages, [`Shutdown`]: first nothing new begins and what is under way may finish, then all is cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::outcome::Stop;

/// The end of a run, for all tasks of it. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    ending: CancellationToken,
    cut: CancellationToken,
    why: Arc<OnceLock<(Stop, String)>>,
}

impl Shutdown {
    /// Nothing new begins: no task, no model call, no tool call. What is under way may finish. The first reason stays.
    pub fn begin(&self, stop: Stop, reason: impl Into<String>) {
        let _ = self.why.set((stop, reason.into()));
        self.ending.cancel();
    }

    /// What is under way is cut, too.
    pub fn cut(&self) {
        self.ending.cancel();
        self.cut.cancel();
    }

    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// Cancelled when it begins.
    #[must_use]
    pub fn ending(&self) -> &CancellationToken {
        &self.ending
    }

    /// Cancelled when all is cut.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.cut
    }

    /// Why, once it has begun.
    #[must_use]
    pub fn reason(&self) -> (Stop, String) {
        let unknown = || (Stop::Cancelled, "the run was interrupted".to_owned());
        self.why.get().cloned().unwrap_or_else(unknown)
    }
}

/// Cancelled when the task's time is up or the run is cut; remembers which.
#[derive(Debug, Clone)]
pub struct Interrupt {
    token: CancellationToken,
    shutdown: Shutdown,
    timed_out: Arc<AtomicBool>,
    time: Arc<WorkTime>,
    limit: Duration,
}

impl Interrupt {
    /// Starts the task's clock. It stops when the guard is dropped.
    #[must_use]
    pub fn start(run: &Shutdown, limit: Duration) -> (Self, DropGuard) {
        let token = run.token().child_token();
        let interrupt = Self {
            token: token.clone(),
            shutdown: run.clone(),
            timed_out: Arc::default(),
            time: Arc::new(WorkTime::start()),
            limit,
        };
        let watched = interrupt.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = watched.time.used_up(limit) => {
                    watched.timed_out.store(true, Ordering::SeqCst);
                    watched.token.cancel();
                }
                () = watched.token.cancelled() => {}
            }
        });
        (interrupt, token.drop_guard())
    }

    /// Cancelled when what the task is doing has to end.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Whether the task may begin nothing new.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.token.is_cancelled() || self.shutdown.has_begun()
    }

    /// Returns when the run ends and nothing new may begin.
    pub async fn ending(&self) {
        self.shutdown.ending().cancelled().await;
    }

    /// Why, once it is raised.
    #[must_use]
    pub fn reason(&self) -> (Stop, String) {
        if self.timed_out.load(Ordering::SeqCst) {
            let limit = humantime::format_duration(self.limit);
            let message = format!("the time limit of {limit} (`timeout`) was reached");
            (Stop::Timeout, message)
        } else {
            self.shutdown.reason()
        }
    }

    /// The task waits for something that is not its doing; its clock stands still until [`Interrupt::resume`].
    pub fn pause(&self) {
        self.time.pause();
    }

    /// Ends one wait.
    pub fn resume(&self) {
        self.time.resume();
    }
}

/// The time that a task has worked, by the runtime's clock.
#[derive(Debug)]
struct WorkTime {
    state: Mutex<Worked>,
    changed: Notify,
}

#[derive(Debug)]
struct Worked {
    before: Duration,
    since: Instant,
    waits: u32,
}

impl WorkTime {
    fn start() -> Self {
        Self {
            state: Mutex::new(Worked {
                before: Duration::ZERO,
                since: Instant::now(),
                waits: 0,
            }),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Worked> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) {
        let mut state = self.lock();
        if state.waits == 0 {
            let worked = state.since.elapsed();
            state.before += worked;
        }
        state.waits += 1;
        self.changed.notify_one();
    }

    fn resume(&self) {
        let mut state = self.lock();
        state.waits = state.waits.saturating_sub(1);
        if state.waits == 0 {
            state.since = Instant::now();
        }
        self.changed.notify_one();
    }

    /// What is left of `limit`; `None` while the clock stands still.
    fn left(&self, limit: Duration) -> Option<Duration> {
        let state = self.lock();
        (state.waits == 0).then(|| limit.saturating_sub(state.before + state.since.elapsed()))
    }

    /// Returns when the task has worked for `limit`.
    async fn used_up(&self, limit: Duration) {
        loop {
            match self.left(limit) {
                Some(Duration::ZERO) => return,
                Some(left) => tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn waiting_is_not_working() {
        let (interrupt, _clock) = Interrupt::start(&Shutdown::default(), LIMIT);
        tokio::time::sleep(LIMIT / 2).await;
        interrupt.pause();
        interrupt.pause();
        tokio::time::sleep(LIMIT * 10).await;
        interrupt.resume();
        tokio::time::sleep(LIMIT * 10).await;
        assert!(!interrupt.is_raised());
        interrupt.resume();
        tokio::time::sleep(LIMIT).await;
        assert!(interrupt.is_raised());
        assert_eq!(interrupt.reason().0, Stop::Timeout);
    }

    #[tokio::test]
    async fn a_run_that_ends_lets_what_is_under_way_finish_and_then_cuts_it() {
        let shutdown = Shutdown::default();
        let (interrupt, _clock) = Interrupt::start(&shutdown, LIMIT);
        assert!(!interrupt.is_raised());
        shutdown.begin(Stop::Cancelled, "SIGTERM came");
        shutdown.begin(Stop::Timeout, "later");
        assert!(interrupt.is_raised() && !interrupt.token().is_cancelled());
        assert_eq!(
            interrupt.reason(),
            (Stop::Cancelled, "SIGTERM came".to_owned())
        );
        shutdown.cut();
        assert!(interrupt.token().is_cancelled());
    }
}
