//! Which tasks of an earlier run are done.

use crate::batch::EarlierAttempt;
use crate::outcome::{Outcome, Trials, Verdict};

/// Whether an attempt came to a verdict on the task. One that ended in infrastructure, or was cut off, did not, and is
/// made up for: whoever resumes may have changed what was wrong.
#[must_use]
pub fn is_verdict(attempt: &EarlierAttempt) -> bool {
    matches!(attempt.outcome.verdict(), Verdict::Passed | Verdict::Failed)
}

/// How the outcome of an earlier attempt counts for whoever goes on: a verdict stays, and everything else is `not_run`.
#[must_use]
pub fn as_earlier(outcome: Outcome) -> Outcome {
    match outcome.verdict() {
        Verdict::Passed | Verdict::Failed => outcome,
        Verdict::Errored | Verdict::Skipped => Outcome::NotRun,
    }
}

/// Whether a task with these attempts is done: every trial has its verdict, or, unless all are wanted, enough of them to know
/// how it ends.
#[must_use]
pub fn is_done(trials: Trials, runs_all: bool, attempts: &[EarlierAttempt]) -> bool {
    let verdicts = attempts.iter().filter(|attempt| is_verdict(attempt));
    let (mut passed, mut failed) = (0_u32, 0_u32);
    for attempt in verdicts {
        match attempt.outcome.verdict() {
            Verdict::Passed => passed += 1,
            _ => failed += 1,
        }
    }
    if runs_all {
        return passed.saturating_add(failed) >= trials.count;
    }
    passed >= trials.pass || failed > trials.count.saturating_sub(trials.pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(outcomes: &[Outcome]) -> Vec<EarlierAttempt> {
        let numbered = (1..).zip(outcomes);
        numbered
            .map(|(number, outcome)| EarlierAttempt {
                number,
                trial: number,
                outcome: *outcome,
            })
            .collect()
    }

    #[test]
    fn a_task_is_done_when_it_passed_or_failed_and_not_when_infrastructure_did() {
        let done = |outcomes: &[Outcome]| is_done(Trials::default(), false, &attempts(outcomes));
        assert!(done(&[Outcome::Completed]));
        assert!(done(&[Outcome::StepLimit]));
        assert!(done(&[Outcome::ApiError, Outcome::CheckFailed]));
        for outcome in [
            Outcome::ApiError,
            Outcome::AuthError,
            Outcome::CheckError,
            Outcome::Unfinished,
            Outcome::Cancelled,
            Outcome::NotRun,
        ] {
            assert!(!done(&[outcome]), "{outcome:?}");
        }
        assert!(!done(&[]));
    }

    #[test]
    fn trials_are_done_when_they_are_decided() {
        let trials = Trials { count: 5, pass: 4 };
        let done = |outcomes: &[Outcome]| is_done(trials, false, &attempts(outcomes));
        let (good, bad, broken) = (
            Outcome::Completed,
            Outcome::CheckFailed,
            Outcome::Unfinished,
        );
        assert!(!done(&[good, good, good, broken]));
        assert!(done(&[good, broken, good, good, good]));
        assert!(!done(&[bad, good]));
        assert!(done(&[bad, broken, bad]));
        assert!(!is_done(trials, true, &attempts(&[bad, broken, bad])));
        assert!(is_done(trials, true, &attempts(&[bad; 5])));
    }
}
