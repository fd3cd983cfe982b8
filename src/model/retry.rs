//! When to try again: a pure schedule. Who sleeps, and what a failure is, others know ([`super::failure`]).
//!
//! A reply is handed over whole or not at all, so a retry never happens after a tool call of it was acted on.

use std::time::Duration;

use super::ModelError;
use super::failure::{Failure, Retry};

/// Exponential backoff with a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Most tries of one call, the first included; 0 counts as 1.
    pub max_tries: u32,
    /// The wait after the first failure; it doubles with each one that follows.
    pub first_wait: Duration,
    /// No wait of our own is longer.
    pub longest_wait: Duration,
    /// A server that asks for more is asked again after this.
    pub longest_retry_after: Duration,
    /// Spreads our own waits.
    pub jitter: Jitter,
}

/// How a wait is spread, so that many runners which failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Not at all.
    None,
    /// Anything between nothing and the whole wait.
    Full,
}

/// A wait between two tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The try that failed, from 1.
    pub attempt: u32,
    /// How long to wait.
    pub delay: Duration,
    /// Why the try failed.
    pub reason: String,
}

/// The tries of one call.
#[derive(Debug, Clone)]
pub struct Tries {
    schedule: Schedule,
    failed: u32,
}

impl Default for Schedule {
    /// Ten tries, half a second doubling up to half a minute, `retry-after` up to five minutes.
    fn default() -> Self {
        Self {
            max_tries: 10,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            longest_retry_after: Duration::from_secs(5 * 60),
            jitter: Jitter::Full,
        }
    }
}

impl Schedule {
    /// A new call.
    #[must_use]
    pub fn tries(self) -> Tries {
        Tries {
            schedule: self,
            failed: 0,
        }
    }

    /// The wait after `failed` failures (at least one), `random` being in 0..1.
    fn backoff(&self, failed: u32, random: f64) -> Duration {
        let factor = 2_u32.saturating_pow(failed.saturating_sub(1));
        let wait = self
            .first_wait
            .saturating_mul(factor)
            .min(self.longest_wait);
        match self.jitter {
            Jitter::None => wait,
            Jitter::Full => wait.mul_f64(random.clamp(0.0, 1.0)),
        }
    }
}

impl Tries {
    /// Takes a failure and says how long to wait before the next try. `random` (0..1) is used for jitter only.
    ///
    /// # Errors
    /// There is no next try: the failure is of a kind that repeats itself, or all tries are used up.
    pub fn after(&mut self, failure: Failure, random: f64) -> Result<Wait, ModelError> {
        self.failed = self.failed.saturating_add(1);
        let delay = match failure.retry {
            Retry::Never => return Err(failure.error),
            Retry::Backoff => self.schedule.backoff(self.failed, random),
            Retry::After(asked) => asked.min(self.schedule.longest_retry_after),
        };
        let ModelError { kind, message } = failure.error;
        if self.failed >= self.schedule.max_tries {
            let tries = if self.failed == 1 { "try" } else { "tries" };
            let message = format!("{message}; gave up after {} {tries}", self.failed);
            return Err(ModelError { kind, message });
        }
        Ok(Wait {
            attempt: self.failed,
            delay,
            reason: message,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STEADY: Schedule = Schedule {
        max_tries: 10,
        first_wait: Duration::from_millis(500),
        longest_wait: Duration::from_secs(30),
        longest_retry_after: Duration::from_secs(60),
        jitter: Jitter::None,
    };

    fn passing(retry: Retry) -> Failure {
        Failure {
            retry,
            ..Failure::passing("overloaded")
        }
    }

    #[test]
    fn waits_double_up_to_the_ceiling_and_the_tenth_failure_is_the_last() {
        let mut tries = STEADY.tries();
        let mut waits = Vec::new();
        let end = loop {
            match tries.after(passing(Retry::Backoff), 0.0) {
                Ok(wait) => waits.push((wait.attempt, wait.delay.as_millis())),
                Err(error) => break error,
            }
        };
        assert_eq!(
            waits,
            [
                (1, 500),
                (2, 1000),
                (3, 2000),
                (4, 4000),
                (5, 8000),
                (6, 16_000),
                (7, 30_000),
                (8, 30_000),
                (9, 30_000)
            ]
        );
        assert_eq!(end.message, "overloaded; gave up after 10 tries");
    }

    #[test]
    fn a_failure_that_repeats_itself_is_not_tried_again() {
        let failure = Failure::fatal("no");
        assert_eq!(
            STEADY.tries().after(failure.clone(), 0.0),
            Err(failure.error)
        );
    }

    #[test]
    fn retry_after_is_honoured_up_to_its_own_ceiling() {
        let wait = |seconds| {
            STEADY
                .tries()
                .after(passing(Retry::After(Duration::from_secs(seconds))), 0.5)
                .unwrap()
                .delay
                .as_secs()
        };
        assert_eq!((wait(7), wait(45), wait(3600)), (7, 45, 60));
    }

    #[test]
    fn a_single_try_may_be_all_there_is() {
        for max_tries in [0, 1] {
            let schedule = Schedule {
                max_tries,
                ..STEADY
            };
            let error = schedule
                .tries()
                .after(passing(Retry::Backoff), 0.0)
                .unwrap_err();
            assert_eq!(error.message, "overloaded; gave up after 1 try");
        }
    }

    proptest! {
        #[test]
        fn full_jitter_stays_between_nothing_and_the_steady_wait(failed in 0_u32..2000, random in 0.0_f64..1.0) {
            let full = Schedule { jitter: Jitter::Full, ..STEADY };
            prop_assert!(full.backoff(failed, random) <= STEADY.backoff(failed, 0.0));
            prop_assert!(STEADY.backoff(failed, 0.0) <= STEADY.longest_wait);
        }
    }
}
