//! What ends a task from the outside: its wall clock, or a signal to the whole run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::outcome::Stop;

/// Cancelled when the task's time is up or the run is cancelled; remembers which.
#[derive(Debug, Clone)]
pub struct Interrupt {
    token: CancellationToken,
    timed_out: Arc<AtomicBool>,
    limit: Duration,
}

impl Interrupt {
    /// Starts the task's clock. It stops when the guard is dropped.
    #[must_use]
    pub fn start(run: &CancellationToken, limit: Duration) -> (Self, DropGuard) {
        let token = run.child_token();
        let timed_out = Arc::new(AtomicBool::new(false));
        let interrupt = Self {
            token: token.clone(),
            timed_out: Arc::clone(&timed_out),
            limit,
        };
        let clock = token.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(limit) => {
                    timed_out.store(true, Ordering::SeqCst);
                    clock.cancel();
                }
                () = clock.cancelled() => {}
            }
        });
        (interrupt, token.drop_guard())
    }

    /// Cancelled when the task has to end.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Whether the task has to end.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Why, once it is raised.
    #[must_use]
    pub fn reason(&self) -> (Stop, String) {
        if self.timed_out.load(Ordering::SeqCst) {
            (
                Stop::Timeout,
                format!(
                    "the time limit of {} (`timeout`) was reached",
                    humantime::format_duration(self.limit)
                ),
            )
        } else {
            (Stop::Cancelled, "the run was interrupted".to_owned())
        }
    }
}
