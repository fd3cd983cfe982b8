//! `summary.json`: the report for programs.
//!
//! The format is versioned by `version`: fields are only added within a version. Amounts are dollars or `null` where a price
//! is not known, spans are milliseconds, times are RFC 3339 in UTC, words are those of the outcome table. Texts are
//! hostile and clipped; JSON's own escapes are the only ones.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use time::OffsetDateTime;

use super::plan::Merge;
use super::plan::Quarantine;
use super::summary::{
    AttemptRecord, Baseline, CheckRecord, Compared, Denial, HookRecord, HostRecord, Kept,
    RepeatedCall, StepRecord, Summary, TaskSummary, Warning,
};
use super::{gate, is_bypass, verdict_word};
use crate::event::{Change, Concern, Omitted, RuleRecord, SandboxRecord};
use crate::outcome::{OnDenied, Stop, Tally, Trials};
use crate::usage::{Usage, Usd};

/// The version of the format.
pub const VERSION: u32 = 1;

/// The report, indented, with a line feed at its end.
///
/// # Errors
/// A time beyond the year 9999.
pub fn render(summary: &Summary) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Report::of(summary)).map(|text| text + "\n")
}

/// Writes what [`render`] gives, one task after the other, so that a report of many tasks is never in memory as a whole.
///
/// # Errors
/// Those of `out`, and a time beyond the year 9999.
pub fn write(mut out: impl Write, summary: &Summary) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, &Report::of(summary))?;
    out.write_all(b"\n")
}

/// The whole document.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report<'a> {
    version: u32,
    program_version: &'a str,
    plan_sha256: &'a str,
    /// The commit that the configuration was read from; `null`: the work tree.
    config_commit: Option<&'a str>,
    /// The part of the plan that this run worked on; `null`: all of it.
    shard: Option<Part>,
    /// What a merge found that joined shards; `null`: this is no merge.
    merge: Option<&'a Merge>,
    #[serde(with = "crate::clock::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    started_at: OffsetDateTime,
    #[serde(with = "crate::clock::rfc3339::option")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    finished_at: Option<OffsetDateTime>,
    duration_ms: u64,
    exit_code: u8,
    conclusion: &'static str,
    /// Why the exit code is another one than the verdicts alone would give: which failures do not count, or what fails the run
    /// beside failures. `null` where they agree.
    exit_reason: Option<String>,
    run_dir: &'a str,
    totals: Totals,
    /// What the run was compared with, and which tasks of that are gone.
    baseline: Option<&'a Baseline>,
    /// The hash in the `chain` of the last line of each finished attempt's transcript, by its path in the run directory. `report`
    /// compares the transcripts with it before it writes this file again.
    chains: &'a BTreeMap<String, String>,
    /// What was wrong with the run directory; such a run never passes.
    damages: &'a [String],
    /// In the order of the plan.
    #[serde(serialize_with = "each")]
    #[schemars(with = "Vec<Task<'a>>")]
    tasks: &'a [TaskSummary],
}

fn each<S: Serializer>(tasks: &[TaskSummary], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tasks.iter().map(Task::of))
}

#[derive(Serialize, JsonSchema)]
struct Part {
    /// From 1.
    index: u32,
    total: u32,
    /// How many tasks the whole plan has.
    plan_tasks: u64,
}

#[derive(Serialize, JsonSchema)]
struct Totals {
    tasks: u64,
    passed: u64,
    failed: u64,
    errors: u64,
    skipped: u64,
    denials: u64,
    steps: u64,
    tokens: Tokens,
    cost_usd: Usd,
    /// Some model's price is not known, so `cost_usd` is only a part.
    cost_is_partial: bool,
    /// Some model calls were cut off, and are in `tokens` and `cost_usd` at the most that they can have cost.
    has_estimates: bool,
}

#[derive(Serialize, JsonSchema)]
struct Tokens {
    total: u64,
    #[serde(flatten)]
    usage: Usage,
}

/// One task. A list with `total` and `items` holds the first entries and counts all.
#[derive(Serialize, JsonSchema)]
struct Task<'a> {
    name: &'a str,
    file: &'a str,
    line: u32,
    tags: &'a [String],
    model: &'a str,
    mode: &'a str,
    bypass: bool,
    isolation: &'a str,
    sandbox: &'a SandboxRecord,
    on_denied: OnDenied,
    attempt: u32,
    verdict: &'static str,
    outcome: &'static str,
    retryable: bool,
    /// Why a failure does not count for now.
    quarantine: Option<&'a Quarantine>,
    /// What the comparison with the baseline came to.
    baseline: Option<&'a Compared>,
    stop: Option<Stop>,
    message: &'a str,
    /// The end of the last reply.
    reply: &'a str,
    stop_reasons: &'a BTreeMap<String, u32>,
    turns: Turns,
    steps: u32,
    tool_calls: u64,
    calls_by_tool: &'a BTreeMap<String, u32>,
    tool_errors: u64,
    tokens: Tokens,
    cost_usd: Option<Usd>,
    duration_ms: u64,
    retries: u64,
    last_retry: &'a str,
    denials: &'a Kept<Denial>,
    /// The hosts that processes asked the runner's proxy for.
    hosts: &'a Kept<HostRecord>,
    hooks_blocked: u64,
    hooks_failed: u64,
    hooks: &'a Kept<HookRecord>,
    checks: &'a Kept<CheckRecord>,
    changes: &'a Kept<Change>,
    concerns: &'a Kept<Concern>,
    /// Relative to `run_dir`, like `transcript`.
    patch: Option<&'a str>,
    patch_omitted: &'a Kept<Omitted>,
    warnings: &'a Kept<Warning>,
    repeated_calls: &'a [RepeatedCall],
    unused_allow: &'a [RuleRecord],
    leaked_processes: u32,
    last_steps: &'a VecDeque<StepRecord>,
    /// What an unfinished task was doing.
    doing: &'a str,
    /// Relative to `run_dir`, like `transcript`.
    output_files: &'a Kept<String>,
    transcript: Option<&'a str>,
    earlier_attempts: &'a [AttemptRecord],
    /// Passed only sometimes, or only after a retry.
    flaky: bool,
    /// Of a task that is run several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    trials: Option<TrialsReport>,
}

/// What the trials of a task say together.
#[derive(Serialize, JsonSchema)]
struct TrialsReport {
    count: u32,
    pass: u32,
    #[serde(flatten)]
    tally: Tally,
    /// Of those that measured something, as are all figures below.
    pass_rate: Option<f64>,
    /// Wilson's, at 95 %.
    pass_rate_interval: Option<(f64, f64)>,
    /// The probability that k runs all pass, for each k from 1.
    pass_all: Vec<f64>,
}

impl TrialsReport {
    fn of(task: &TaskSummary) -> Option<Self> {
        let Trials { count, pass } = task.trials;
        let tally = task.tally();
        (count > 1).then(|| Self {
            count,
            pass,
            tally,
            pass_rate: tally.pass_rate(),
            pass_rate_interval: tally.interval(),
            pass_all: (1..=count).map_while(|k| tally.pass_all(k)).collect(),
        })
    }
}

#[derive(Serialize, JsonSchema)]
struct Turns {
    planned: u32,
    done: u32,
    skipped: u32,
}

impl<'a> Report<'a> {
    fn of(summary: &'a Summary) -> Self {
        let totals = summary.totals();
        let exit = summary.exit();
        Self {
            version: VERSION,
            program_version: &summary.plan.program_version,
            plan_sha256: &summary.plan.plan_sha256,
            config_commit: summary.plan.config_commit.as_deref(),
            shard: summary.plan.shard.as_ref().map(|shard| Part {
                index: shard.index,
                total: shard.total,
                plan_tasks: summary.plan.tasks.len() as u64,
            }),
            merge: summary.plan.merge.as_ref(),
            started_at: summary.plan.started_at,
            finished_at: summary.finished_at,
            duration_ms: u64::try_from(summary.elapsed().as_millis()).unwrap_or(u64::MAX),
            exit_code: exit.code(),
            conclusion: exit.conclusion(),
            exit_reason: gate::reason(summary),
            run_dir: &summary.dir,
            totals: Totals {
                tasks: totals.tasks,
                passed: totals.passed,
                failed: totals.failed,
                errors: totals.errors,
                skipped: totals.skipped,
                denials: totals.denials,
                steps: totals.steps,
                tokens: Tokens::of(totals.usage),
                cost_usd: totals.cost,
                cost_is_partial: totals.cost_is_partial,
                has_estimates: totals.has_estimates,
            },
            baseline: summary.baseline.as_ref(),
            chains: &summary.chains,
            damages: &summary.damages,
            tasks: &summary.tasks,
        }
    }
}

impl Tokens {
    fn of(usage: Usage) -> Self {
        Self {
            total: usage.total(),
            usage,
        }
    }
}

impl<'a> Task<'a> {
    fn of(task: &'a TaskSummary) -> Self {
        let row = task.outcome.row();
        Self {
            name: &task.name,
            file: &task.file,
            line: task.line,
            tags: &task.tags,
            model: &task.model,
            mode: &task.mode,
            bypass: is_bypass(&task.mode),
            isolation: &task.isolation,
            sandbox: &task.sandbox,
            on_denied: task.on_denied,
            attempt: task.attempt,
            verdict: verdict_word(row.verdict),
            outcome: row.name,
            retryable: row.retryable,
            quarantine: task.quarantine.as_ref(),
            baseline: task.compared.as_ref(),
            stop: task.stop,
            message: &task.message,
            reply: &task.reply,
            stop_reasons: &task.stop_reasons,
            turns: Turns {
                planned: task.turns,
                done: task.turns_done,
                skipped: task.turns_skipped,
            },
            steps: task.steps,
            tool_calls: task.tool_calls,
            calls_by_tool: &task.calls_by_tool,
            tool_errors: task.tool_errors,
            tokens: Tokens::of(task.usage),
            cost_usd: task.cost,
            duration_ms: task.duration_ms,
            retries: task.retries,
            last_retry: &task.last_retry,
            denials: &task.denials,
            hosts: &task.hosts,
            hooks_blocked: task.hooks_blocked,
            hooks_failed: task.hooks_failed,
            hooks: &task.hooks,
            checks: &task.checks,
            changes: &task.changes,
            concerns: &task.concerns,
            patch: task.patch.as_deref(),
            patch_omitted: &task.patch_omitted,
            warnings: &task.warnings,
            repeated_calls: &task.repeated,
            unused_allow: &task.unused_allow,
            leaked_processes: task.leaked_processes,
            last_steps: &task.last_steps,
            doing: &task.doing,
            output_files: &task.output_files,
            transcript: task.transcript.as_deref(),
            earlier_attempts: &task.earlier,
            flaky: task.is_flaky(),
            trials: TrialsReport::of(task),
        }
    }
}
