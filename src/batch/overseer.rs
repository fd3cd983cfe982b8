//! The clock outside of an attempt: an attempt that neither ends nor can be ended is given up, and the batch goes on.
//!
//! The attempt says in which phase it is. While the agent works, its own limits end it, and it is given up only when it
//! does not heed them; every other phase has a time of its own.

use std::time::Duration;

use tokio::sync::watch;

use crate::agent::{Interrupt, Shutdown};

/// How long an attempt may take to end after it was told to.
pub(super) const HEED: Duration = Duration::from_secs(30);
/// How long preparing a workspace, comparing it and removing it may each take.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(30 * 60);

/// What an attempt is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The agent works, within the limits of the task.
    Agent,
    /// Something that has to end within this time.
    Within(Duration, &'static str),
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Agent => "running the agent",
            Self::Within(_, name) => name,
        }
    }
}

/// Returns when the attempt has to be given up. Does not return once nobody sends phases any more: the attempt is ending.
pub(super) async fn overdue(
    mut phases: watch::Receiver<Phase>,
    interrupt: &Interrupt,
    shutdown: &Shutdown,
) -> Phase {
    loop {
        let phase = *phases.borrow_and_update();
        tokio::select! {
            changed = phases.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
            () = late(phase, interrupt, shutdown) => return phase,
        }
    }
}

async fn late(phase: Phase, interrupt: &Interrupt, shutdown: &Shutdown) {
    let unheeded = async {
        match phase {
            Phase::Agent => interrupt.token().cancelled().await,
            Phase::Within(..) => shutdown.token().cancelled().await,
        }
        tokio::time::sleep(HEED).await;
    };
    match phase {
        Phase::Agent => unheeded.await,
        Phase::Within(limit, _) => tokio::select! {
            () = unheeded => {}
            () = tokio::time::sleep(limit) => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_agent_is_given_up_when_it_does_not_heed_its_limit() {
        let shutdown = Shutdown::default();
        let limit = Duration::from_secs(600);
        let (interrupt, _clock) = Interrupt::start(&shutdown, limit);
        let (phase, phases) = watch::channel(Phase::Agent);
        let began = tokio::time::Instant::now();
        assert_eq!(overdue(phases, &interrupt, &shutdown).await, Phase::Agent);
        assert_eq!(began.elapsed(), limit + HEED);
        drop(phase);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_phase_has_its_own_time_and_ends_with_the_run() {
        let shutdown = Shutdown::default();
        let (interrupt, _clock) = Interrupt::start(&shutdown, Duration::from_secs(1));
        let (phase, phases) = watch::channel(Phase::Within(HOUSEKEEPING, "comparing"));
        let began = tokio::time::Instant::now();
        overdue(phases.clone(), &interrupt, &shutdown).await;
        assert_eq!(began.elapsed(), HOUSEKEEPING);
        shutdown.cut();
        overdue(phases, &interrupt, &shutdown).await;
        assert_eq!(began.elapsed(), HOUSEKEEPING + HEED);
        drop(phase);
    }
}
