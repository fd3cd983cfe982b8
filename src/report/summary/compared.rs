//! What the comparison with a baseline says of a run and of its tasks, and what that means for the exit code.
//!
//! `report::baseline` reads a baseline and makes these; reports show them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::record::Kept;
use super::{Summary, TaskSummary};
use crate::outcome::{Exit, OnDenied, Outcome, Verdict};
use crate::usage::Usd;

/// What a run was compared with.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Baseline {
    /// The file or directory, as it was named.
    pub source: String,
    /// When the run began that it is of.
    #[serde(with = "crate::clock::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub started_at: Option<OffsetDateTime>,
    /// What fails the run, in place of any failure. Empty: any failure does, and the comparison is only shown.
    pub gate: Vec<Gate>,
    /// Tasks of the baseline that the task files no longer have.
    pub removed: Kept<String>,
    /// Tasks of the baseline that this run did not ask for: `--filter` left them out, or their task file was not named. They
    /// may be there or not.
    pub not_selected: Kept<String>,
}

/// What fails a run that is compared with a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// A task that passed in the baseline fails now.
    Broken,
    /// A task fails that the baseline has no verdict of.
    New,
    /// A task costs notably more than in the baseline.
    Cost,
    /// A task takes notably more steps than in the baseline.
    Steps,
}

/// The word of the command line.
impl std::fmt::Display for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Broken => "broken",
            Self::New => "new",
            Self::Cost => "cost",
            Self::Steps => "steps",
        })
    }
}

/// A task in the light of the baseline.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It passed, and passes.
    Passing,
    /// It failed, and passes.
    Fixed,
    /// It passed, and fails: a regression.
    Broken,
    /// It failed, and fails.
    StillFailing,
    /// The baseline has no verdict of it.
    New,
    /// This run has no verdict of it: an infrastructure error, or it was not run.
    NotEvaluated,
}

impl Class {
    /// The word in every report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Fixed => "fixed",
            Self::Broken => "broken",
            Self::StillFailing => "still failing",
            Self::New => "new",
            Self::NotEvaluated => "not evaluated",
        }
    }

    /// The class of a task by its verdict in the baseline, if there is one, and now.
    #[must_use]
    pub fn of(before: Option<Verdict>, now: Verdict) -> Self {
        use Verdict::{Errored, Failed, Passed, Skipped};
        match (before, now) {
            (_, Errored | Skipped) => Self::NotEvaluated,
            (Some(Passed), Passed) => Self::Passing,
            (Some(Failed), Passed) => Self::Fixed,
            (Some(Passed), Failed) => Self::Broken,
            (Some(Failed), Failed) => Self::StillFailing,
            (None | Some(Errored | Skipped), Passed | Failed) => Self::New,
        }
    }
}

/// What the comparison says of one task.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// The class.
    pub class: Class,
    /// How it was in the baseline, if it was there.
    pub before: Option<Before>,
    /// What changed notably. Only of tasks that passed both times: a failure stops early or runs on, and says nothing.
    pub shifts: Vec<Shift>,
    /// Whether the gate fails the run for this task, a quarantine left aside; `null` without a gate.
    pub gated: Option<bool>,
}

/// A task of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    /// The task file, as it was named then; empty where that is not known.
    #[serde(default)]
    pub file: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it passed only after another try had not.
    #[serde(default)]
    pub flaky: bool,
    /// Model calls.
    pub steps: u32,
    /// Money, where the price is known.
    #[serde(rename = "cost_usd")]
    pub cost: Option<Usd>,
}

/// A notable change of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Shift {
    /// What is measured.
    pub measure: Measure,
    /// In the baseline: dollars or steps.
    pub before: f64,
    /// Now, in the same unit.
    pub now: f64,
}

impl Shift {
    /// Whether there is more of it now.
    #[must_use]
    pub fn is_rise(&self) -> bool {
        self.now > self.before
    }
}

/// What is compared beside verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Dollars.
    Cost,
    /// Model calls.
    Steps,
}

/// One line for a person: `cost $0.0100 -> $0.0300 (+200 %)`.
impl std::fmt::Display for Shift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.measure {
            Measure::Cost => write!(f, "cost ${:.4} -> ${:.4}", self.before, self.now)?,
            Measure::Steps => write!(f, "steps {:.0} -> {:.0}", self.before, self.now)?,
        }
        if self.before > 0.0 {
            let percent = (self.now / self.before - 1.0) * 100.0;
            write!(f, " ({percent:+.0} %)")?;
        }
        Ok(())
    }
}

impl Gate {
    /// Whether a task of this class, with this verdict and these changes, fails a run that is gated by this.
    pub(in crate::report) fn fails(self, class: Class, now: Verdict, shifts: &[Shift]) -> bool {
        let rises = |measure| {
            let mut shifts = shifts.iter();
            shifts.any(|shift| shift.measure == measure && shift.is_rise())
        };
        match self {
            Self::Broken => class == Class::Broken,
            Self::New => class == Class::New && now == Verdict::Failed,
            Self::Cost => rises(Measure::Cost),
            Self::Steps => rises(Measure::Steps),
        }
    }
}

impl TaskSummary {
    /// Whether the task makes the run fail: by the gate if there is one, else by its verdict, and never in quarantine.
    #[must_use]
    pub fn fails_run(&self) -> bool {
        let gated = self.compared.as_ref().and_then(|compared| compared.gated);
        self.quarantine.is_none() && gated.unwrap_or(self.verdict() == Verdict::Failed)
    }

    /// Where the task stands among the others for a person: what fails the run first, what nobody has to look at last.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self.verdict() {
            Verdict::Failed if self.excuse().is_none() => 0,
            Verdict::Errored => 1,
            Verdict::Skipped => 2,
            Verdict::Failed => 3,
            Verdict::Passed if self.on_denied == OnDenied::Warn && !self.denials.is_empty() => 4,
            Verdict::Passed => 5,
        }
    }

    /// Why the run does not fail for this task although the task failed: what follows `that`.
    #[must_use]
    pub fn excuse(&self) -> Option<&'static str> {
        if self.verdict() != Verdict::Failed || self.fails_run() {
            return None;
        }
        if self.is_excused() {
            return Some("is in quarantine");
        }
        Some(
            match self.compared.as_ref().map(|compared| compared.class) {
                Some(Class::StillFailing) => "also failed in the baseline",
                Some(Class::Broken) => "passed in the baseline (this gate does not look at that)",
                _ => "the baseline has no verdict of",
            },
        )
    }
}

/// The exit code of the tasks: what gates fails, what could not be measured is infrastructure, what is in quarantine
/// fails nothing.
pub(super) fn exit(summary: &Summary) -> Exit {
    let mut exit = Exit::Passed;
    for task in &summary.tasks {
        if task.fails_run() {
            return Exit::Failed;
        }
        if matches!(task.verdict(), Verdict::Errored | Verdict::Skipped) {
            exit = Exit::Infrastructure;
        }
    }
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_task_that_passed_can_be_broken() {
        use Verdict::{Errored, Failed, Passed, Skipped};
        let verdicts = [
            None,
            Some(Passed),
            Some(Failed),
            Some(Errored),
            Some(Skipped),
        ];
        for before in verdicts {
            for now in [Passed, Failed, Errored, Skipped] {
                let class = Class::of(before, now);
                let is_broken = before == Some(Passed) && now == Failed;
                assert_eq!(class == Class::Broken, is_broken, "{before:?} {now:?}");
                let is_measured = matches!(now, Passed | Failed);
                assert_eq!(class == Class::NotEvaluated, !is_measured);
            }
        }
    }

    #[test]
    fn a_shift_is_told_with_its_unit_and_share() {
        let shift = |measure, before, now| {
            Shift {
                measure,
                before,
                now,
            }
            .to_string()
        };
        assert_eq!(
            shift(Measure::Cost, 0.01, 0.03),
            "cost $0.0100 -> $0.0300 (+200 %)"
        );
        assert_eq!(shift(Measure::Steps, 10.0, 5.0), "steps 10 -> 5 (-50 %)");
        assert_eq!(shift(Measure::Cost, 0.0, 0.03), "cost $0.0000 -> $0.0300");
    }
}
