//! What the trials of a task say together, and which attempt belongs to which of them.

use std::collections::BTreeMap;

use super::record::{self, AttemptRecord};
use super::task::TaskSummary;
use crate::outcome::{Outcome, Standing, Tally, Trials, Verdict};

/// The trials before the last attempt, and what will not come any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TrialsSoFar {
    /// The results of the trials that are over.
    tally: Tally,
    /// How the last one of them that failed ended, and the last one that measured nothing.
    failed: Option<Outcome>,
    errored: Option<Outcome>,
    /// The attempt before this one, of which is not known yet whether this one makes up for it.
    before: Option<(u32, Outcome)>,
    /// The trials that measured nothing, with how they ended: a run that goes on counts verdicts only, so that a number can
    /// come again.
    unmeasured: BTreeMap<u32, Outcome>,
    /// Why the trials that are missing are not run.
    not_run: Option<String>,
}

impl TrialsSoFar {
    fn with(&self, outcome: Outcome) -> Self {
        let mut next = self.clone();
        next.tally.note(outcome);
        match outcome.verdict() {
            Verdict::Failed => next.failed = Some(outcome),
            Verdict::Errored => next.errored = Some(outcome),
            Verdict::Passed | Verdict::Skipped => {}
        }
        next
    }

    /// What they have come to, in one line for a person.
    fn line(&self, Trials { count, pass }: Trials) -> String {
        let tally = self.tally;
        let mut line = format!(
            "{} of {} trials passed, {pass} of {count} have to",
            tally.passed,
            tally.run()
        );
        if let Some((low, high)) = tally.interval() {
            line.push_str(&format!(
                " (95 % interval of the pass rate: {:.0} % to {:.0} %)",
                low * 100.0,
                high * 100.0
            ));
        }
        if tally.errored > 0 {
            line.push_str(&format!("; {} measured nothing", tally.errored));
        }
        line
    }
}

impl TaskSummary {
    /// The last attempt, as far as it has come.
    #[must_use]
    pub fn last_attempt(&self) -> Option<AttemptRecord> {
        Some(AttemptRecord {
            attempt: self.attempt,
            trial: self.trial,
            outcome: self.attempt_outcome,
            message: self.attempt_message.clone(),
            steps: self.steps,
            tokens: self.usage.total(),
            duration_ms: self.duration_ms,
            cost: self.cost,
            transcript: self.transcript.clone()?,
        })
    }

    /// The results of all trials that are over.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.with_last().tally
    }

    /// What the trials have come to so far, in one line for a person; `None` of a task that is run once.
    #[must_use]
    pub fn trials_line(&self) -> Option<String> {
        (self.trials != Trials::default()).then(|| self.line_of(&self.with_last()))
    }

    /// Whether the task did now this and now that: some trials passed and others failed, or it passed only after an
    /// attempt that ended in infrastructure. One that was cut off from outside is none of these.
    #[must_use]
    pub fn is_flaky(&self) -> bool {
        let tally = self.tally();
        (tally.passed > 0 && tally.failed > 0)
            || (self.verdict() == Verdict::Passed && self.made_up > 0)
    }

    /// The task, or what is missing of its trials, is not run.
    pub(super) fn will_not_run(&mut self, reason: &str) {
        self.standing.not_run = Some(record::sentence(reason));
        self.judge_trials();
    }

    /// Carries the trials over to the next attempt.
    pub(super) fn open_trial(&mut self, last: &mut Self) {
        self.standing = std::mem::take(&mut last.standing);
        self.standing.before = Some((last.trial, last.attempt_outcome));
        self.made_up = last.made_up;
    }

    /// The attempt says which trial it belongs to: a new one, or that of the attempt before, which then does not count.
    pub(super) fn belong_to_trial(&mut self, trial: u32) {
        self.trial = trial;
        let Some((before, outcome)) = self.standing.before.take() else {
            return self.judge_trials();
        };
        // A verdict stays, whatever number comes after it.
        let is_verdict = matches!(outcome.verdict(), Verdict::Passed | Verdict::Failed);
        let makes_up = if before == 0 || trial == 0 {
            outcome.row().retryable
        } else {
            before == trial && !is_verdict
        };
        if makes_up {
            self.make_up(outcome);
        } else {
            self.standing = self.standing.with(outcome);
            if outcome.verdict() == Verdict::Errored {
                self.standing.unmeasured.insert(before, outcome);
            }
            if trial > 0
                && let Some(outcome) = self.standing.unmeasured.remove(&trial)
            {
                let errored = &mut self.standing.tally.errored;
                *errored = errored.saturating_sub(1);
                self.make_up(outcome);
            }
        }
        self.judge_trials();
    }

    /// Another attempt makes up for one that ended so.
    fn make_up(&mut self, outcome: Outcome) {
        self.made_up = self
            .made_up
            .saturating_add(u32::from(!outcome.is_cut_off()));
    }

    /// The trials with the last attempt, if that is over.
    fn with_last(&self) -> TrialsSoFar {
        match self.attempt_outcome {
            Outcome::Unfinished | Outcome::NotRun => self.standing.clone(),
            outcome => self.standing.with(outcome),
        }
    }

    /// Says of trials that are left out because the verdict is certain without them that this is why; else a reader looks for
    /// what became of them.
    fn spared(&self, all: &TrialsSoFar) -> Option<String> {
        let is_between = matches!(
            self.attempt_outcome,
            Outcome::Unfinished | Outcome::NotRun | Outcome::Cancelled
        );
        let is_open = self.trials.standing(all.tally) == Standing::Open;
        if is_between || is_open || all.not_run.is_some() {
            return None;
        }
        match self.trials.count.saturating_sub(all.tally.run()) {
            0 => None,
            1 => Some("the last one was not run, as it cannot change the verdict".to_owned()),
            more => Some(format!(
                "the last {more} were not run, as they cannot change the verdict"
            )),
        }
    }

    /// What the trials have come to, in one line for a person.
    fn line_of(&self, all: &TrialsSoFar) -> String {
        let mut line = all.line(self.trials);
        if let Some(spared) = self.spared(all) {
            line.push_str(&format!("; {spared}"));
        }
        line
    }

    /// What the task comes to as things stand.
    pub(super) fn judge_trials(&mut self) {
        if self.trials == Trials::default() {
            self.outcome = self.attempt_outcome;
            self.message = match &self.standing.not_run {
                Some(reason) if self.attempt == 0 => reason.clone(),
                _ => self.attempt_message.clone(),
            };
            return;
        }
        let all = self.with_last();
        let run = all.tally.run();
        self.outcome = match self.trials.standing(all.tally) {
            Standing::Passed => Outcome::Completed,
            Standing::Failed => all.failed.unwrap_or(Outcome::CheckFailed),
            Standing::Errored => all.errored.unwrap_or(Outcome::ApiError),
            Standing::Open => match self.attempt_outcome {
                Outcome::Cancelled => Outcome::Cancelled,
                Outcome::Unfinished => Outcome::Unfinished,
                Outcome::NotRun => Outcome::NotRun,
                _ if all.not_run.is_some() || run == 0 => Outcome::NotRun,
                _ => Outcome::Unfinished,
            },
        };
        if run == 0 && self.outcome == Outcome::NotRun {
            // Nothing that a line could count.
            let reason = all.not_run.as_ref().unwrap_or(&self.attempt_message);
            self.message = reason.clone();
            return;
        }
        let mut message = self.line_of(&all);
        let more = match (&all.not_run, self.outcome.verdict()) {
            (Some(reason), Verdict::Skipped | Verdict::Errored) => reason.as_str(),
            (_, Verdict::Passed) => "",
            _ => &self.attempt_message,
        };
        if !more.is_empty() {
            message.push_str(&format!("; {more}"));
        }
        self.message = record::sentence(&message);
    }
}
