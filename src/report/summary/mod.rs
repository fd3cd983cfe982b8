//! The fold: plan and events in, what the run came to out.
//!
//! [`Summary::fold`] is the only way in, for a run that is going on and for transcripts that are read back, so a report that is
//! made again says the same. Memory does not grow with content: counts are exact, texts are clipped, lists
//! are bounded ([`record`]).

mod compared;
pub mod record;
mod repeats;
mod trials;
mod task;
mod fold;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use time::OffsetDateTime;

use crate::event::{Event, Kind};
use crate::outcome::{Exit, OnDenied, Outcome, Verdict};
use crate::report::plan::{PlannedTask, RunPlan};
use crate::usage::{Usage, Usd};

pub use compared::{Baseline, Before, Class, Compared, Gate, Measure, Shift};
pub use record::{
    AttemptRecord, CheckRecord, Denial, HookRecord, HostRecord, Kept, RepeatedCall, StepRecord,
    Warning,
};
pub use task::TaskSummary;

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// What was planned.
    pub plan: RunPlan,
    /// The run directory as reports name it, relative to where the run was started.
    pub dir: String,
    /// The tasks in the order of the plan; behind them those that left events without being planned.
    pub tasks: Vec<TaskSummary>,
    /// The time of the latest event.
    pub finished_at: Option<OffsetDateTime>,
    /// The signal that ended the run, if one did.
    pub signal: Option<u8>,
    /// How often fewer calls were made at the same time, because the API refused for load.
    pub eased: u64,
    /// What was wrong with the run directory when it was read back, and the faults of a merge, one sentence each. A run with
    /// damages never passes.
    pub damages: Vec<String>,
    /// How the transcripts of finished attempts end, by their paths: the hash in the `chain` of the last line. Empty while nobody
    /// has [sealed](crate::report::seal) the run.
    pub chains: BTreeMap<String, String>,
    /// What the run was compared with, if it was; each task then says what the comparison came to.
    pub baseline: Option<Baseline>,
    places: HashMap<String, usize>,
    /// The latest event of the run before it went on for the first time, for the second time, and so on.
    ends: Vec<Option<OffsetDateTime>>,
}

/// Sums over all tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// All tasks.
    pub tasks: u64,
    /// Tasks by verdict.
    pub passed: u64,
    /// Failed their gate.
    pub failed: u64,
    /// Infrastructure errors.
    pub errors: u64,
    /// Never started.
    pub skipped: u64,
    /// Denied calls.
    pub denials: u64,
    /// Model calls, of all attempts.
    pub steps: u64,
    /// Tokens, of all attempts.
    pub usage: Usage,
    /// Money, of all attempts, as far as prices are known.
    pub cost: Usd,
    /// Whether some price is not known, so that `cost` is only a part.
    pub cost_is_partial: bool,
    /// Whether calls that were cut off are in `usage` and `cost` at the most that they can have cost.
    pub has_estimates: bool,
}

impl Summary {
    /// A run of which nothing has happened yet.
    pub fn new(plan: RunPlan, dir: impl Into<String>) -> Self {
        let tasks: Vec<TaskSummary> = plan.own().map(TaskSummary::new).collect();
        let places = tasks
            .iter()
            .enumerate()
            .map(|(place, task)| (task.name.clone(), place))
            .collect();
        let resumed = plan.resumed.len();
        let faults = plan.merge.iter().flat_map(|merge| &merge.faults);
        Self {
            damages: faults.cloned().collect(),
            plan,
            dir: dir.into(),
            tasks,
            finished_at: None,
            signal: None,
            eased: 0,
            chains: BTreeMap::new(),
            baseline: None,
            places,
            ends: vec![None; resumed + 1],
        }
    }

    /// Takes one event in. Events of one attempt come in their order; events of different tasks may interleave.
    pub fn fold(&mut self, event: &Event) {
        if event.kind.is_transient() {
            return;
        }
        self.finished_at = self.finished_at.max(Some(event.at));
        let before = self
            .plan
            .resumed
            .partition_point(|resumed| resumed.at <= event.at);
        if let Some(end) = self.ends.get_mut(before) {
            *end = (*end).max(Some(event.at));
        }
        if event.task.is_empty() && event.attempt == 0 {
            return self.fold_batch(&event.kind);
        }
        let place = if let Some(place) = self.places.get(&event.task) {
            *place
        } else {
            let place = self.tasks.len();
            self.places.insert(event.task.clone(), place);
            self.tasks.push(TaskSummary::new(&unplanned(&event.task)));
            place
        };
        if let Some(task) = self.tasks.get_mut(place) {
            task.fold(event);
        }
    }

    /// Takes in what happened to the batch as a whole.
    fn fold_batch(&mut self, kind: &Kind) {
        match kind {
            Kind::TasksNotRun { tasks, reason } => {
                for name in tasks {
                    let place = self.places.get(name);
                    if let Some(task) = place.and_then(|place| self.tasks.get_mut(*place)) {
                        task.will_not_run(reason);
                    }
                }
            }
            Kind::RunInterrupted { signal } => self.signal = Some(*signal),
            Kind::CallsEased { .. } => self.eased = self.eased.saturating_add(1),
            _ => {}
        }
    }

    /// An attempt has a transcript that cannot be read to its end, so that nothing is known of how it ended.
    pub(crate) fn lose(&mut self, task: &str, attempt: u32, why: &str) {
        let place = self.places.get(task);
        if let Some(task) = place.and_then(|place| self.tasks.get_mut(*place)) {
            task.lose(attempt, why);
        }
    }

    /// The task of this name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&TaskSummary> {
        self.tasks.get(*self.places.get(name)?)
    }

    /// What a merge found missing, twice there or different.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        self.plan.merge.as_ref().map_or(&[], |merge| &merge.faults)
    }

    /// The exit code. Nothing proves nothing: a run without tasks is a usage error (a shard without is none), and a
    /// damaged one cannot pass.
    #[must_use]
    pub fn exit(&self) -> Exit {
        if let Some(signal) = self.signal {
            return Exit::Signal(signal);
        }
        // A merge that is not complete has no verdict, whatever its tasks say.
        if !self.faults().is_empty() {
            return Exit::Infrastructure;
        }
        if self.tasks.is_empty() && self.plan.shard.is_none() {
            return Exit::Usage;
        }
        if self.is_failed_by_damage() {
            return Exit::Infrastructure;
        }
        compared::exit(self)
    }

    /// Whether tasks passed as far as one knows, and only the damage to their record keeps the run from passing.
    #[must_use]
    pub fn is_failed_by_damage(&self) -> bool {
        !self.damages.is_empty() && compared::exit(self) == Exit::Passed
    }

    /// The sums.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for task in &self.tasks {
            totals.tasks += 1;
            match task.outcome.verdict() {
                Verdict::Passed => totals.passed += 1,
                Verdict::Failed => totals.failed += 1,
                Verdict::Errored => totals.errors += 1,
                Verdict::Skipped => totals.skipped += 1,
            }
            totals.denials += task.denials.total;
            totals.steps += task.all_steps();
            totals.usage += task.all_usage();
            totals.cost = totals
                .cost
                .saturating_add(task.cost.unwrap_or_default())
                .saturating_add(task.earlier_cost);
            totals.has_estimates |= task.has_estimates;
            totals.cost_is_partial |=
                (task.cost.is_none() && task.usage.total() > 0) || task.earlier_cost_is_partial;
        }
        totals
    }

    /// The wall-clock time of the run so far. That between a run and one that goes on with it is not counted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let resumed = self.plan.resumed.iter().map(|resumed| resumed.at);
        let begins = std::iter::once(self.plan.started_at).chain(resumed);
        let spans = begins.zip(&self.ends).filter_map(|(begin, end)| {
            let span = end.as_ref().copied()? - begin;
            Duration::try_from(span).ok()
        });
        spans.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// All tasks as a person reads them: by [`TaskSummary::rank`], and in plan order where that is the same.
    #[must_use]
    pub fn ranked(&self) -> Vec<&TaskSummary> {
        let mut tasks: Vec<&TaskSummary> = self.tasks.iter().collect();
        tasks.sort_by_key(|task| task.rank());
        tasks
    }

    /// Those that a person has to look at: those that ran and did not pass, and those that passed with denials where the task
    /// file asks for a warning. A task that was not run has nothing to tell but its row.
    #[must_use]
    pub fn notable(&self) -> Vec<&TaskSummary> {
        let mut tasks = self.ranked();
        tasks.retain(|task| match task.outcome {
            Outcome::Completed => task.on_denied == OnDenied::Warn && !task.denials.is_empty(),
            Outcome::NotRun => false,
            _ => true,
        });
        tasks
    }
}

fn unplanned(name: &str) -> PlannedTask {
    PlannedTask {
        name: name.to_owned(),
        line: 1,
        ..PlannedTask::default()
    }
}
