//! Trials: a task that is run several times, as a measurement. What the results say, and when they have said it; pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Outcome, Verdict};

/// How often a task is run as a measurement, and how many of these runs have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trials {
    /// How often it is run, from 1 to [`Trials::MOST`].
    pub count: u32,
    /// How many of these runs have to pass, from 1 to `count`.
    pub pass: u32,
}

/// The results of the trials so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tally {
    /// Passed their gate.
    pub passed: u32,
    /// Failed it.
    pub failed: u32,
    /// Ended in infrastructure, with no retry left: they measured nothing.
    pub errored: u32,
}

/// What a tally says of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Enough trials have passed.
    Passed,
    /// So many have failed that enough cannot pass any more.
    Failed,
    /// Enough cannot pass any more, but only because some measured nothing.
    Errored,
    /// Not decided yet.
    Open,
}

impl Trials {
    /// The most trials of one task.
    pub const MOST: u32 = 100;

    /// What the results so far say.
    #[must_use]
    pub fn standing(self, tally: Tally) -> Standing {
        if tally.passed >= self.pass {
            Standing::Passed
        } else if self.count.saturating_sub(tally.failed) < self.pass {
            Standing::Failed
        } else if self.count.saturating_sub(tally.failed + tally.errored) < self.pass {
            Standing::Errored
        } else {
            Standing::Open
        }
    }
}

impl Default for Trials {
    fn default() -> Self {
        Self { count: 1, pass: 1 }
    }
}

impl Tally {
    /// Counts a trial that is over. One that was not run is none.
    pub fn note(&mut self, outcome: Outcome) {
        let count = match outcome.verdict() {
            Verdict::Passed => &mut self.passed,
            Verdict::Failed => &mut self.failed,
            Verdict::Errored => &mut self.errored,
            Verdict::Skipped => return,
        };
        *count = count.saturating_add(1);
    }

    /// Trials that are over.
    #[must_use]
    pub fn run(self) -> u32 {
        self.passed
            .saturating_add(self.failed)
            .saturating_add(self.errored)
    }

    /// Trials that measured something.
    #[must_use]
    pub fn measured(self) -> u32 {
        self.passed.saturating_add(self.failed)
    }

    /// The share that passed of those that measured something.
    #[must_use]
    pub fn pass_rate(self) -> Option<f64> {
        let measured = self.measured();
        (measured > 0).then(|| f64::from(self.passed) / f64::from(measured))
    }

    /// Between which rates the true one lies with a confidence of 95 %: the interval of Wilson, which holds for few trials
    /// and for rates near 0 and 1.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        const Z: f64 = 1.959_963_984_540_054;
        let rate = self.pass_rate()?;
        let n = f64::from(self.measured());
        let spread = Z * Z / n;
        let middle = (rate + spread / 2.0) / (1.0 + spread);
        let half = Z / (1.0 + spread) * (rate * (1.0 - rate) / n + spread / (4.0 * n)).sqrt();
        Some(((middle - half).max(0.0), (middle + half).min(1.0)))
    }

    /// The probability that `k` runs of the task all pass (`pass^k`), estimated without bias from the trials: the share of
    /// all ways to choose `k` of them that chooses only passed ones. `None` for fewer trials than `k`.
    #[must_use]
    pub fn pass_all(self, k: u32) -> Option<f64> {
        let (passed, measured) = (self.passed, self.measured());
        if k == 0 || k > measured {
            return None;
        }
        if k > passed {
            return Some(0.0);
        }
        let factor = |i: u32| f64::from(passed - i) / f64::from(measured - i);
        Some((0..k).map(factor).product())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(passed: u32, failed: u32, errored: u32) -> Tally {
        Tally {
            passed,
            failed,
            errored,
        }
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 5e-4, "{found} is not {expected}");
    }

    #[test]
    fn trials_are_decided_as_soon_as_they_can_be() {
        let trials = Trials { count: 5, pass: 4 };
        assert_eq!(trials.standing(tally(3, 1, 0)), Standing::Open);
        assert_eq!(trials.standing(tally(4, 0, 0)), Standing::Passed);
        assert_eq!(trials.standing(tally(0, 2, 0)), Standing::Failed);
        assert_eq!(trials.standing(tally(2, 1, 1)), Standing::Errored);
        assert_eq!(trials.standing(tally(0, 2, 2)), Standing::Failed);
    }

    #[test]
    fn the_interval_is_that_of_the_tables() {
        // 4 of 5: 0.3755 to 0.9638; 10 of 10: 0.7225 to 1.
        let (low, high) = tally(4, 1, 0).interval().unwrap();
        near(low, 0.3755);
        near(high, 0.9638);
        let (low, high) = tally(10, 0, 3).interval().unwrap();
        near(low, 0.7225);
        near(high, 1.0);
        assert_eq!(tally(0, 0, 2).interval(), None);
    }

    #[test]
    fn pass_all_counts_the_ways_to_choose() {
        // 3 of 5 passed: of the 10 pairs, 3 have passed both.
        near(tally(3, 2, 0).pass_all(2).unwrap(), 0.3);
        near(tally(3, 2, 0).pass_all(1).unwrap(), 0.6);
        assert_eq!(tally(3, 2, 0).pass_all(4), Some(0.0));
        assert_eq!(tally(3, 2, 0).pass_all(6), None);
        assert_eq!(tally(5, 0, 0).pass_all(5), Some(1.0));
    }

    proptest! {
        #[test]
        fn rates_lie_in_their_interval_and_all_lie_between_nothing_and_one(passed in 0_u32..200, failed in 0_u32..200, k in 0_u32..50) {
            let tally = tally(passed, failed, 1);
            if let (Some(rate), Some((low, high))) = (tally.pass_rate(), tally.interval()) {
                prop_assert!(0.0 <= low && low <= rate + 1e-9 && rate <= high + 1e-9 && high <= 1.0);
            }
            if let Some(all) = tally.pass_all(k) {
                prop_assert!((0.0..=1.0).contains(&all));
            }
        }
    }
}
