//! When to try again: a pure schedule. Who sleeps, and what a failure is, others know ([`super::failure`]).
//!
//! A reply is handed over whole or not at all, so a retry never happens after a tool call of it was acted on.

use std::time::Duration;

use super::ModelError;
use super::failure::{Failure, Retry};
use crate::text;

/// Exponential backoff with a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Most tries of one call, the first included; 0 counts as 1.
    pub max_tries: u32,
    /// The wait after the first failure; it doubles with each one that follows.
    pub first_wait: Duration,
    /// No wait of our own is longer.
    pub longest_wait: Duration,
    /// A server that asks for more is not asked again in this call.
    pub longest_retry_after: Duration,
    /// The waits of one call that a server asked for are no longer than this together.
    pub longest_sum: Duration,
    /// Every wait is this one, whoever asks for another one: for scripts and tests.
    pub fixed_wait: Option<Duration>,
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
    /// What the server has asked for so far.
    waited: Duration,
}

impl Default for Schedule {
    /// Ten tries, half a second doubling up to half a minute, `retry-after` up to five minutes at once and a quarter of an hour
    /// together.
    fn default() -> Self {
        Self {
            max_tries: 10,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            longest_retry_after: Duration::from_secs(5 * 60),
            longest_sum: Duration::from_secs(15 * 60),
            fixed_wait: None,
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
            waited: Duration::ZERO,
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
    /// There is no next try: the failure is of a kind that repeats itself, all tries are used up, or the server wants to be left
    /// alone for longer than a call waits. It is never asked earlier than it wants.
    pub fn after(&mut self, failure: Failure, random: f64) -> Result<Wait, ModelError> {
        self.failed = self.failed.saturating_add(1);
        let (delay, asked) = match (failure.retry, self.schedule.fixed_wait) {
            (Retry::Never, _) => return Err(failure.error),
            (Retry::Backoff | Retry::After(_), Some(fixed)) => (fixed, Duration::ZERO),
            (Retry::Backoff, None) => (self.schedule.backoff(self.failed, random), Duration::ZERO),
            (Retry::After(asked), None) => (asked, asked),
        };
        let ModelError { kind, message } = failure.error;
        self.waited = self.waited.saturating_add(asked);
        let beyond = if asked > self.schedule.longest_retry_after {
            Some(("", self.schedule.longest_retry_after))
        } else if self.waited > self.schedule.longest_sum {
            Some((" together with its waits before", self.schedule.longest_sum))
        } else {
            None
        };
        if let Some((together, most)) = beyond {
            let message = format!(
                "{message}; it asks to be called again in {} (`retry-after`){together}, and a call waits for {} at most",
                text::duration(asked),
                text::duration(most)
            );
            return Err(ModelError { kind, message });
        }
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
        longest_sum: Duration::from_secs(100),
        fixed_wait: None,
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
    fn a_server_is_called_again_when_it_wants_or_not_at_all() {
        let after = |seconds| passing(Retry::After(Duration::from_secs(seconds)));
        let wait = |seconds| STEADY.tries().after(after(seconds), 0.5);
        assert_eq!(wait(7).unwrap().delay.as_secs(), 7);
        assert_eq!(wait(60).unwrap().delay.as_secs(), 60);
        let error = wait(3600).unwrap_err();
        assert!(error.message.contains("again in 1h"), "{error}");
        assert!(wait(u64::MAX).is_err());
        let mut tries = STEADY.tries();
        tries.after(after(50), 0.5).unwrap();
        tries.after(after(50), 0.5).unwrap();
        let error = tries.after(after(1), 0.5).unwrap_err();
        assert!(error.message.contains("together"), "{error}");
        let fixed = Schedule {
            fixed_wait: Some(Duration::ZERO),
            ..STEADY
        };
        let wait = fixed.tries().after(after(3600), 0.5).unwrap();
        assert_eq!(wait.delay, Duration::ZERO);
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
