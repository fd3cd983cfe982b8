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
/// Times in files, for serde: RFC 3339 in UTC, always with milliseconds, so that they are equally wide and sort as text.
pub mod rfc3339 {
    use serde::ser::{Error as _, Serializer};
    use time::format_description::BorrowedFormatItem;
    use time::macros::format_description;
    use time::{OffsetDateTime, UtcOffset};

    pub use time::serde::rfc3339::deserialize;

    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

    /// Writes a time.
    ///
    /// # Errors
    /// A year that the format has no room for.
    pub fn serialize<S: Serializer>(at: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
        let at = at
            .checked_to_offset(UtcOffset::UTC)
            .filter(|at| (0..=9999).contains(&at.year()))
            .ok_or_else(|| S::Error::custom("a time outside of the years 0 to 9999"))?;
        let text = at.format(FORMAT).map_err(S::Error::custom)?;
        serializer.serialize_str(&text)
    }

    /// The same for a time that may not be known.
    pub mod option {
        use serde::ser::Serializer;
        use time::OffsetDateTime;

        pub use time::serde::rfc3339::option::deserialize;

        /// Writes a time, or `null`.
        ///
        /// # Errors
        /// Those of [`super::serialize`].
        pub fn serialize<S: Serializer>(
            at: &Option<OffsetDateTime>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => super::serialize(at, serializer),
                None => serializer.serialize_none(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use time::OffsetDateTime;
    use time::macros::datetime;

    #[test]
    fn times_in_files_are_equally_wide_and_read_back() {
        #[derive(Serialize, Deserialize)]
        struct At(#[serde(with = "super::rfc3339")] OffsetDateTime);
        for (at, text) in [
            (
                datetime!(2026-01-02 03:04:05 UTC),
                "\"2026-01-02T03:04:05.000Z\"",
            ),
            (
                datetime!(2026-01-02 03:04:05.12 UTC),
                "\"2026-01-02T03:04:05.120Z\"",
            ),
            (
                datetime!(2026-01-02 04:04:05.123 +1),
                "\"2026-01-02T03:04:05.123Z\"",
            ),
        ] {
            assert_eq!(serde_json::to_string(&At(at)).unwrap(), text);
            assert_eq!(serde_json::from_str::<At>(text).unwrap().0, at);
        }
        let late = At(datetime!(9999-12-31 23:59:59 -1));
        assert!(serde_json::to_string(&late).is_err());
    }
}
