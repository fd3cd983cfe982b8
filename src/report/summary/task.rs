//! What one task came to. How events change it stands in `fold`.

use std::collections::{BTreeMap, VecDeque};

use time::OffsetDateTime;

use super::compared::Compared;
use super::record::{
    AttemptRecord, CheckRecord, Denial, HookRecord, HostRecord, Kept, RepeatedCall, StepRecord,
    Warning,
};
use super::repeats::Repeats;
use super::trials::TrialsSoFar;
use crate::event::{Change, CheckResult, Concern, Omitted, RuleRecord, SandboxRecord};
use crate::outcome::{OnDenied, Outcome, Stop, Trials, Verdict};
use crate::report::plan::{PlannedTask, Quarantine};
use crate::usage::{Usage, Usd};

/// What a task came to. Counts are those of the last attempt, unless they say `earlier`.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSummary {
    /// The task's name.
    pub name: String,
    /// The task file, relative to where the run was started.
    pub file: String,
    /// The line on which the task begins.
    pub line: u32,
    /// `provider/model`.
    pub model: String,
    /// The pinned permission mode.
    pub mode: String,
    /// The task's tags.
    pub tags: Vec<String>,
    /// `none` or `copy`.
    pub isolation: String,
    /// How its processes were held.
    pub sandbox: SandboxRecord,
    /// What a denial means.
    pub on_denied: OnDenied,
    /// Why a failure does not count for now, if it does not.
    pub quarantine: Option<Quarantine>,
    /// What the comparison with a baseline came to, if there was one.
    pub compared: Option<Compared>,
    /// The last attempt, from 1; 0 while there is none.
    pub attempt: u32,
    /// What the task came to: `not_run` without an event, `unfinished` without a `task_finished`. Of several trials, what
    /// they say together.
    pub outcome: Outcome,
    /// How often the task is run as a measurement, and how many of these runs have to pass.
    pub trials: Trials,
    /// The trial that the last attempt belongs to, from 1; 0 where that is not known.
    pub trial: u32,
    /// How the last attempt ended.
    pub attempt_outcome: Outcome,
    /// What is said of the last attempt.
    pub attempt_message: String,
    /// Attempts that ended in infrastructure and were made up for by another one of the same trial.
    pub made_up: u32,
    /// Why the loop ended.
    pub stop: Option<Stop>,
    /// One line for a person.
    pub message: String,
    /// The end of the last reply.
    pub reply: String,
    /// The raw stop reasons and how often each came.
    pub stop_reasons: BTreeMap<String, u32>,
    /// User turns that were planned.
    pub turns: u32,
    /// User turns that the model ended.
    pub turns_done: u32,
    /// User turns that were planned and not run.
    pub turns_skipped: u32,
    /// Model calls.
    pub steps: u32,
    /// Tool calls that the model asked for.
    pub tool_calls: u64,
    /// Tool calls by tool.
    pub calls_by_tool: BTreeMap<String, u32>,
    /// Calls that were answered with an error, denials left out.
    pub tool_errors: u64,
    /// Calls that were not allowed.
    pub denials: Kept<Denial>,
    /// The hosts that processes asked the runner's proxy for.
    pub hosts: Kept<HostRecord>,
    /// Hooks that blocked on purpose.
    pub hooks_blocked: u64,
    /// Hooks that did not work.
    pub hooks_failed: u64,
    /// The hooks that blocked or failed.
    pub hooks: Kept<HookRecord>,
    /// Model calls that failed and were tried again.
    pub retries: u64,
    /// Why the last of them was.
    pub last_retry: String,
    /// Tokens.
    pub usage: Usage,
    /// Money; `None` where a price is not known.
    pub cost: Option<Usd>,
    /// Time from the start, in milliseconds; of an unfinished task, up to its last event.
    pub duration_ms: u64,
    /// The checks, in the order in which they ran.
    pub checks: Kept<CheckRecord>,
    /// What changed in the workspace.
    pub changes: Kept<Change>,
    /// What of that a person should look at before the patch is used.
    pub concerns: Kept<Concern>,
    /// The patch, relative to the run directory; `None` when there is none.
    pub patch: Option<String>,
    /// Its size.
    pub patch_bytes: u64,
    /// The changes that are not in the patch.
    pub patch_omitted: Kept<Omitted>,
    /// What a reader should know.
    pub warnings: Kept<Warning>,
    /// Calls that came again and again.
    pub repeated: Vec<RepeatedCall>,
    /// Allow rules that no call used.
    pub unused_allow: Vec<RuleRecord>,
    /// Processes that outlived their call and were killed.
    pub leaked_processes: u32,
    /// The last steps.
    pub last_steps: VecDeque<StepRecord>,
    /// What the task was doing when it was last heard of; empty once it finished.
    pub doing: String,
    /// Files with whole outputs, relative to the run directory.
    pub output_files: Kept<String>,
    /// The transcript, relative to the run directory; `None` while there is no attempt.
    pub transcript: Option<String>,
    /// When the attempt began.
    pub started_at: Option<OffsetDateTime>,
    /// Events whose number says that others are missing before them.
    pub gaps: u64,
    /// Attempts before the last.
    pub earlier: Vec<AttemptRecord>,
    /// Model calls of earlier attempts.
    pub earlier_steps: u64,
    /// Tokens of earlier attempts.
    pub earlier_usage: Usage,
    /// Money of earlier attempts, as far as known.
    pub earlier_cost: Usd,
    /// Whether `earlier_cost` is only a part.
    pub earlier_cost_is_partial: bool,
    /// Time of earlier attempts, in milliseconds.
    pub earlier_duration_ms: u64,
    /// Whether tokens and money of all attempts hold calls that were cut off, at the most that they can have cost.
    pub has_estimates: bool,
    pub(super) repeats: Repeats,
    /// The number that the next event of the attempt has.
    pub(super) next_seq: u64,
    pub(super) standing: TrialsSoFar,
}

impl TaskSummary {
    /// A task of which nothing has happened yet.
    #[must_use]
    pub fn new(planned: &PlannedTask) -> Self {
        Self {
            name: planned.name.clone(),
            file: planned.file.clone(),
            line: planned.line,
            model: planned.model.clone(),
            mode: planned.mode.clone(),
            tags: planned.tags.clone(),
            isolation: planned.isolation.clone(),
            sandbox: SandboxRecord::default(),
            on_denied: planned.on_denied,
            quarantine: planned.quarantine.clone(),
            compared: None,
            attempt: 0,
            outcome: Outcome::NotRun,
            trials: planned.trials,
            trial: 0,
            attempt_outcome: Outcome::NotRun,
            attempt_message: String::new(),
            made_up: 0,
            stop: None,
            message: Outcome::NotRun.row().meaning.to_owned(),
            reply: String::new(),
            stop_reasons: BTreeMap::new(),
            turns: 0,
            turns_done: 0,
            turns_skipped: 0,
            steps: 0,
            tool_calls: 0,
            calls_by_tool: BTreeMap::new(),
            tool_errors: 0,
            denials: Kept::default(),
            hosts: Kept::default(),
            hooks_blocked: 0,
            hooks_failed: 0,
            hooks: Kept::default(),
            retries: 0,
            last_retry: String::new(),
            usage: Usage::default(),
            cost: None,
            duration_ms: 0,
            checks: Kept::default(),
            changes: Kept::default(),
            concerns: Kept::default(),
            patch: None,
            patch_bytes: 0,
            patch_omitted: Kept::default(),
            warnings: Kept::default(),
            repeated: Vec::new(),
            unused_allow: Vec::new(),
            leaked_processes: 0,
            last_steps: VecDeque::new(),
            doing: String::new(),
            output_files: Kept::default(),
            transcript: None,
            started_at: None,
            gaps: 0,
            earlier: Vec::new(),
            earlier_steps: 0,
            earlier_usage: Usage::default(),
            earlier_cost: Usd::ZERO,
            earlier_cost_is_partial: false,
            earlier_duration_ms: 0,
            has_estimates: false,
            repeats: Repeats::default(),
            next_seq: 0,
            standing: TrialsSoFar::default(),
        }
    }

    /// What the task's gate makes of its outcome.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.outcome.verdict()
    }

    /// Model calls of all attempts.
    #[must_use]
    pub fn all_steps(&self) -> u64 {
        self.earlier_steps.saturating_add(self.steps.into())
    }

    /// Tokens of all attempts.
    #[must_use]
    pub fn all_usage(&self) -> Usage {
        let mut usage = self.earlier_usage;
        usage += self.usage;
        usage
    }

    /// Money of all attempts; `None` where a price that belongs to it is not known.
    #[must_use]
    pub fn all_cost(&self) -> Option<Usd> {
        if self.earlier_cost_is_partial {
            return None;
        }
        match self.cost {
            Some(cost) => Some(self.earlier_cost.saturating_add(cost)),
            // An attempt without a reply has no cost, which takes nothing from those before.
            None if self.usage.total() == 0 && self.earlier_usage.total() > 0 => {
                Some(self.earlier_cost)
            }
            None => None,
        }
    }

    /// Time of all attempts, in milliseconds; that between them is not counted.
    #[must_use]
    pub fn all_duration_ms(&self) -> u64 {
        self.earlier_duration_ms.saturating_add(self.duration_ms)
    }

    /// Whether the task failed and its quarantine excuses that.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.quarantine.is_some() && self.verdict() == Verdict::Failed
    }

    /// The checks that did not pass, among those that were kept.
    pub fn broken_checks(&self) -> impl Iterator<Item = &CheckRecord> {
        self.checks
            .items
            .iter()
            .filter(|check| check.result != CheckResult::Passed)
    }
}
