//! The course of one task: which attempt comes next, and when there is none. Pure.
//!
//! An attempt belongs to a trial. One that ended in infrastructure is made up for by another one of the same trial as long as
//! retries are left; any other one is its trial's result. Trials follow one another, until what they say together is
//! decided or all are run.

use std::collections::BTreeSet;

use super::EarlierAttempt;
use super::plan::resume::is_verdict;
use crate::outcome::{Outcome, Standing, Stop, Tally, Trials, Verdict};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Course {
    trials: Trials,
    /// Whether trials are run that cannot change the verdict any more.
    runs_all: bool,
    retries: u32,
    tally: Tally,
    /// The trial of the next attempt, from 1: the first one that has no result.
    trial: u32,
    /// The trials behind that one that have a result, from an earlier run.
    settled: BTreeSet<u32>,
    /// The number of the last attempt.
    number: u32,
    /// An attempt ended in a way after which no other one is to come.
    is_cut: bool,
}

/// Which attempt is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    /// Of the attempt, from 1.
    pub(super) attempt: u32,
    /// Of its trial, from 1.
    pub(super) trial: u32,
}

impl Course {
    /// A course on which an earlier run has made some attempts.
    pub(super) fn new(
        trials: Trials,
        retries: u32,
        runs_all: bool,
        earlier: &[EarlierAttempt],
    ) -> Self {
        let mut course = Self {
            trials,
            runs_all,
            retries,
            tally: Tally::default(),
            trial: 1,
            settled: BTreeSet::new(),
            number: 0,
            is_cut: false,
        };
        // A trial has its number for good. Where that is none of the task's, or was given twice, the verdict counts for the first one
        // that has none.
        let mut unplaced: u32 = 0;
        for made in earlier {
            course.number = course.number.max(made.number);
            if is_verdict(made) {
                course.tally.note(made.outcome);
                let is_placed =
                    (1..=trials.count).contains(&made.trial) && course.settled.insert(made.trial);
                unplaced += u32::from(!is_placed);
            }
        }
        course.skip_settled();
        (0..unplaced).for_each(|_| course.advance());
        course
    }

    /// Whether there is an attempt to come.
    pub(super) fn goes_on(&self) -> bool {
        let is_decided = self.standing() != Standing::Open;
        !self.is_cut && self.trial <= self.trials.count && (self.runs_all || !is_decided)
    }

    /// The next attempt.
    pub(super) fn next(&mut self) -> Number {
        self.number = self.number.saturating_add(1);
        Number {
            attempt: self.number,
            trial: self.trial,
        }
    }

    /// Takes in how the attempt ended, and why its loop did where that is known.
    pub(super) fn note(&mut self, outcome: Outcome, stop: Option<Stop>) {
        let row = outcome.row();
        if matches!(outcome, Outcome::Cancelled | Outcome::NotRun) {
            self.is_cut = true;
        } else if row.verdict == Verdict::Errored
            && row.retryable
            && stop != Some(Stop::ScriptError)
            && self.retries > 0
        {
            self.retries -= 1;
        } else {
            self.settle(outcome);
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        self.tally.note(outcome);
        self.advance();
    }

    fn advance(&mut self) {
        self.trial += 1;
        self.skip_settled();
    }

    fn skip_settled(&mut self) {
        while self.settled.remove(&self.trial) {
            self.trial += 1;
        }
    }

    fn standing(&self) -> Standing {
        self.trials.standing(self.tally)
    }

    /// Whether the task has not passed, however it may go on.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.standing(), Standing::Failed | Standing::Errored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(count: u32, pass: u32, retries: u32) -> Course {
        Course::new(Trials { count, pass }, retries, false, &[])
    }

    /// Plays outcomes; returns the numbers of the attempts.
    fn play(course: &mut Course, outcomes: &[Outcome]) -> Vec<(u32, u32)> {
        let mut outcomes = outcomes.iter();
        let mut made = Vec::new();
        while course.goes_on()
            && let Some(outcome) = outcomes.next()
        {
            let Number { attempt, trial } = course.next();
            made.push((attempt, trial));
            course.note(*outcome, None);
        }
        made
    }

    #[test]
    fn only_infrastructure_is_tried_again_and_only_so_often() {
        use Outcome::{ApiError, CheckFailed, Completed};
        let mut failed = course(1, 1, 3);
        assert_eq!(play(&mut failed, &[CheckFailed, Completed]), [(1, 1)]);
        assert!(failed.is_lost());
        let mut flaky = course(1, 1, 1);
        assert_eq!(play(&mut flaky, &[ApiError, Completed]), [(1, 1), (2, 1)]);
        assert!(!flaky.is_lost());
        let mut ran_out = course(1, 1, 3);
        ran_out.next();
        ran_out.note(ApiError, Some(Stop::ScriptError));
        assert!(!ran_out.goes_on(), "a script does not change");
        let mut broken = course(1, 1, 1);
        assert_eq!(play(&mut broken, &[ApiError; 5]).len(), 2);
        assert!(broken.is_lost());
    }

    #[test]
    fn what_nobody_could_repair_by_waiting_is_not_tried_again() {
        let mut refused = course(1, 1, 5);
        assert_eq!(play(&mut refused, &[Outcome::AuthError; 3]).len(), 1);
    }

    #[test]
    fn trials_end_when_they_are_decided() {
        use Outcome::{CheckFailed, Completed};
        let mut passes = course(5, 3, 0);
        let outcomes = [Completed, CheckFailed, Completed, Completed, Completed];
        assert_eq!(play(&mut passes, &outcomes).len(), 4);
        let mut fails = course(5, 4, 0);
        assert_eq!(play(&mut fails, &[CheckFailed; 5]).len(), 2);
        let mut all = Course::new(Trials { count: 5, pass: 4 }, 0, true, &[]);
        assert_eq!(play(&mut all, &[CheckFailed; 9]).len(), 5);
    }

    #[test]
    fn an_interrupted_task_makes_no_other_attempt() {
        assert_eq!(
            play(&mut course(5, 5, 5), &[Outcome::Cancelled; 3]).len(),
            1
        );
    }

    #[test]
    fn a_run_that_goes_on_makes_only_what_is_missing() {
        let earlier = [
            made(1, 1, Outcome::Completed),
            made(2, 2, Outcome::Unfinished),
            made(3, 2, Outcome::CheckFailed),
        ];
        let mut course = Course::new(Trials { count: 3, pass: 2 }, 0, false, &earlier);
        assert_eq!(play(&mut course, &[Outcome::Completed; 9]), [(4, 3)]);
        let whole = [made(1, 1, Outcome::Completed)];
        assert!(!Course::new(Trials::default(), 0, false, &whole).goes_on());
    }

    fn made(number: u32, trial: u32, outcome: Outcome) -> EarlierAttempt {
        EarlierAttempt {
            number,
            trial,
            outcome,
        }
    }

    #[test]
    fn a_trial_that_measured_nothing_gets_its_own_number_again() {
        use Outcome::{ApiError, CheckFailed, Completed};
        let all = |earlier: &[EarlierAttempt]| {
            let mut course = Course::new(Trials { count: 5, pass: 5 }, 0, true, earlier);
            play(&mut course, &[Completed; 9])
        };
        let broken = [
            made(1, 1, Completed),
            made(2, 2, ApiError),
            made(3, 3, CheckFailed),
            made(4, 4, Outcome::Unfinished),
            made(5, 5, Completed),
        ];
        assert_eq!(all(&broken), [(6, 2), (7, 4)]);
        // Whatever numbers a transcript claims, five trials are five.
        let odd = [
            made(1, 0, Completed),
            made(2, 3, Completed),
            made(3, 3, Completed),
            made(4, u32::MAX, Completed),
        ];
        assert_eq!(all(&odd).len(), 1);
    }
}
