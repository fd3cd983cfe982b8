//! The only place that reads a clock. Everybody else is handed a [`Clock`].

use std::time::{Duration, Instant};

use time::OffsetDateTime;

/// Tells wall-clock time and measures spans; tests can freeze the wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock {
    fixed: Option<OffsetDateTime>,
}

/// A point on the monotonic clock, from [`Clock::start`].
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Clock {
    /// The system's clock.
    #[must_use]
    pub const fn system() -> Self {
        Self { fixed: None }
    }

    /// A clock whose wall time stands still; spans are still measured.
    #[must_use]
    pub const fn fixed(at: OffsetDateTime) -> Self {
        Self { fixed: Some(at) }
    }

    /// The wall-clock time in UTC, to the millisecond.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        let now = self.fixed.unwrap_or_else(system_now);
        now.replace_millisecond(now.millisecond()).unwrap_or(now)
    }

    /// Starts measuring a span.
    #[must_use]
    pub fn start(&self) -> Stopwatch {
        Stopwatch(monotonic_now())
    }
}

impl Stopwatch {
    /// The time since the start; never negative, whatever the wall clock does.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        monotonic_now().saturating_duration_since(self.0)
    }

    /// The same in whole milliseconds, as events tell it.
    #[must_use]
    pub fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this file is the one place that reads clocks"
)]
fn system_now() -> OffsetDateTime {
    OffsetDateTime::now_utc()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this file is the one place that reads clocks"
)]
fn monotonic_now() -> Instant {
    Instant::now()
}
