//! `junit.xml`, for the test reports of CI systems.
//!
//! One suite for each task file, one case for each task: no child for a pass, `failure` where the agent's work is not
//! acceptable, `error` where the harness or the provider did not work, `skipped` where the task was not started; `type`
//! is the outcome's name. The body of a failure begins with `file:line`, which annotating readers look for.
//!
//! An attempt that did not pass is a `flakyFailure` of a case that passed in the end; of any other, those before the last one are
//! a `rerunFailure`: the two that Jenkins reads, whatever kind of mistake it was. One that was cut off from outside says nothing
//! of the task, so it is neither; the case's `system-out` tells it. A task with trials is one case as well: its
//! verdict is that of all of them, and a case for each would count failures that the gate allows.
//!
//! The crate junit-report writes the document. It writes text raw into CDATA sections and attributes almost raw, so
//! **every** string passes [`xml`] first; and it leaves out what some readers trust (totals, skipped counts, properties,
//! lines, earlier attempts), so `complete` goes once over what it wrote of each suite. What belongs to a single case stands in the leading
//! lines of its `system-out`, in the form that nextest, GitLab and Jenkins know (`[[PROPERTY|k=v]]`, `[[ATTACHMENT|path]]`):
//! `properties` inside of a case are refused by some readers.

mod complete;
mod content;
mod names;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::time::Duration;

use junit_report::{TestCase, TestCaseBuilder, TestSuite, TestSuiteBuilder};

use super::gate;
use super::summary::{AttemptRecord, Summary, TaskSummary};
use crate::outcome::{Exit, Outcome, Verdict};
use crate::text::{self, xml};
use crate::usage::{Usage, Usd};
use complete::Document;
use content::{MESSAGE, body, room, section, system_out};
pub(super) use names::relative;
use names::{ATTRIBUTE, class_name, unique};

/// Which readers the document is for. They agree but for the attributes that the strict ones refuse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// With `file` and `line` on each case and `skipped` on the root, which GitLab and annotating actions read.
    #[default]
    Common,
    /// Without them: valid by `junit-10.xsd`, by which the xUnit plugin of Jenkins validates before it reads.
    Strict,
}

/// The report as XML.
///
/// # Errors
/// None in practice: writing into memory does not fail, and a start beyond the year 9999 is not formatted.
pub fn render(summary: &Summary, dialect: Dialect) -> io::Result<String> {
    let mut out = Vec::new();
    write(&mut out, summary, dialect)?;
    String::from_utf8(out).map_err(io::Error::other)
}

/// Writes what [`render`] gives, one suite after the other, so that the document of many task files is never in memory as a
/// whole.
///
/// # Errors
/// Those of `out`.
pub fn write(out: impl Write, summary: &Summary, dialect: Dialect) -> io::Result<()> {
    let further: Vec<Suite> = [incomplete(summary), damaged(summary), gated(summary)]
        .into_iter()
        .flatten()
        .collect();
    let mut document = Document::begin(out, &Totals::of(summary, &further), dialect)?;
    for suite in suites(summary).chain(further) {
        document.add(suite)?;
    }
    document.end()
}

/// What the root says of all suites together.
struct Totals {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    time: junit_report::Duration,
}

impl Totals {
    /// With the `further` suites, which speak of the run.
    fn of(summary: &Summary, further: &[Suite]) -> Self {
        let with = |verdict| {
            let tasks = summary.tasks.iter();
            tasks.filter(|task| task.verdict() == verdict).count()
        };
        let of_the_run = |count: fn(&TestSuite) -> usize| {
            let counts = further.iter().map(|suite| count(&suite.written));
            counts.sum::<usize>()
        };
        Self {
            tests: summary.tasks.len() + further.len(),
            failures: with(Verdict::Failed) + of_the_run(TestSuite::failures),
            errors: with(Verdict::Errored) + of_the_run(TestSuite::errors),
            skipped: with(Verdict::Skipped),
            time: summary.tasks.iter().map(time).sum(),
        }
    }
}

fn time(task: &TaskSummary) -> junit_report::Duration {
    let span = Duration::from_millis(task.duration_ms);
    junit_report::Duration::try_from(span).unwrap_or(junit_report::Duration::MAX)
}

/// A suite with what junit-report cannot say of it.
struct Suite {
    written: TestSuite,
    properties: Vec<(&'static str, String)>,
    cases: Vec<Extra>,
}

/// What junit-report cannot say of a case.
struct Extra {
    line: u32,
    reruns: Vec<Rerun>,
}

/// An attempt before the last one.
struct Rerun {
    element: &'static str,
    kind: &'static str,
    message: String,
    trace: String,
}

/// One suite for each file, in the order in which files come up in the plan. Each is made when it is asked for.
fn suites(summary: &Summary) -> impl Iterator<Item = Suite> {
    let mut order: Vec<&str> = Vec::new();
    let mut by_file: HashMap<&str, Vec<&TaskSummary>> = HashMap::new();
    for task in &summary.tasks {
        let tasks = by_file.entry(&task.file).or_default();
        if tasks.is_empty() {
            order.push(&task.file);
        }
        tasks.push(task);
    }
    if order.is_empty() {
        // An empty document looks like a crash to some readers; a suite without cases does not.
        order.push("");
    }
    let mut taken = HashSet::new();
    let room = room(summary.tasks.len());
    order.into_iter().map(move |file| {
        let tasks = by_file.remove(file).unwrap_or_default();
        let name = if file.is_empty() { "agent-batch" } else { file };
        let started = tasks.iter().filter_map(|task| task.started_at).min();
        let mut builder = TestSuiteBuilder::new(&xml::attribute(name, ATTRIBUTE));
        builder.set_timestamp(
            started
                .unwrap_or(summary.plan.started_at)
                .to_offset(time::UtcOffset::UTC),
        );
        for task in &tasks {
            builder.add_testcase(case(task, &summary.dir, room, &mut taken));
        }
        // The builder gives copies only.
        let mut suite = builder.testsuite;
        suite.package = class_name(file);
        Suite {
            written: suite,
            properties: properties(summary, &tasks),
            cases: tasks
                .iter()
                .map(|task| Extra {
                    line: task.line,
                    reruns: reruns(task, &summary.dir),
                })
                .collect(),
        }
    })
}

/// What a merge found missing, twice there or different.
fn incomplete(summary: &Summary) -> Option<Suite> {
    let faults = summary.faults();
    (!faults.is_empty()).then(|| of_the_run(summary, "merge", "merge_incomplete", faults))
}

/// Damage to the record where nothing else is wrong: all cases pass, and the run does not.
fn damaged(summary: &Summary) -> Option<Suite> {
    let told = summary.is_failed_by_damage() && summary.faults().is_empty();
    told.then(|| of_the_run(summary, "record", "damaged", &summary.damages))
}

/// What a gate fails the run for where no task failed that counts: all cases pass or are excused, and the run does not.
fn gated(summary: &Summary) -> Option<Suite> {
    let by_tasks = |task: &TaskSummary| task.fails_run() && task.verdict() == Verdict::Failed;
    if summary.exit() != Exit::Failed || summary.tasks.iter().any(by_tasks) {
        return None;
    }
    let mut sentences = vec![gate::reason(summary)?];
    for task in summary.tasks.iter().filter(|task| task.fails_run()) {
        let shifts = task.compared.iter().flat_map(|compared| &compared.shifts);
        let shifts: Vec<String> = shifts.map(ToString::to_string).collect();
        sentences.push(format!("{}: {}", task.name, shifts.join(", ")));
    }
    Some(of_the_run(summary, "gate", "gate", &sentences))
}

/// A suite with one case that is a mistake of the run and of no task: an error, or what a gate found.
fn of_the_run(summary: &Summary, name: &str, kind: &str, sentences: &[String]) -> Suite {
    let all = text::one_line(&sentences.join("; "), MESSAGE);
    let message = xml::attribute(&all, MESSAGE);
    let made = match kind {
        "gate" => TestCaseBuilder::failure,
        _ => TestCaseBuilder::error,
    };
    let mut case = made(name, junit_report::Duration::ZERO, kind, &message);
    case.set_classname("agent-batch");
    case.set_trace(&xml::cdata(&section(&sentences.join("\n"), content::BODY)));
    let mut builder = TestSuiteBuilder::new(&format!("agent-batch {name}"));
    builder.set_timestamp(summary.plan.started_at.to_offset(time::UtcOffset::UTC));
    builder.add_testcase(case.build());
    let mut written = builder.build();
    "agent-batch".clone_into(&mut written.package);
    Suite {
        written,
        properties: properties(summary, &[]),
        cases: vec![Extra {
            line: 1,
            reruns: Vec::new(),
        }],
    }
}

/// What holds for all cases of a suite, for readers that show it or group by it.
fn properties(summary: &Summary, tasks: &[&TaskSummary]) -> Vec<(&'static str, String)> {
    let distinct = |value: fn(&TaskSummary) -> &str| {
        let values: BTreeSet<&str> = tasks.iter().map(|task| value(task)).collect();
        values.into_iter().take(5).collect::<Vec<_>>().join(", ")
    };
    let mut usage = Usage::default();
    let mut cost = Some(Usd::ZERO);
    for task in tasks {
        usage += task.usage;
        usage += task.earlier_usage;
        let known =
            (task.usage.total() == 0 || task.cost.is_some()) && !task.earlier_cost_is_partial;
        let spent = task
            .earlier_cost
            .saturating_add(task.cost.unwrap_or_default());
        cost = cost.filter(|_| known).map(|sum| sum.saturating_add(spent));
    }
    let mut list = vec![
        ("agent_batch_version", summary.plan.program_version.clone()),
        ("plan_sha256", summary.plan.plan_sha256.clone()),
        ("run_dir", summary.dir.clone()),
        ("model", distinct(|task| &task.model)),
        ("mode", distinct(|task| &task.mode)),
        ("tokens", usage.total().to_string()),
        ("cost_usd", content::dollars(cost)),
    ];
    let shard = summary.plan.shard.as_ref();
    list.extend(shard.map(|shard| ("shard", shard.to_string())));
    let commit = summary.plan.config_commit.clone();
    list.extend(commit.map(|commit| ("config_commit", commit)));
    list.extend(gate::reason(summary).map(|reason| ("exit_reason", reason)));
    list.into_iter()
        .map(|(name, value)| (name, xml::attribute(&value, ATTRIBUTE)))
        .collect()
}

fn reruns(task: &TaskSummary, dir: &str) -> Vec<Rerun> {
    let element = match task.verdict() {
        Verdict::Passed => "flakyFailure",
        Verdict::Failed | Verdict::Errored | Verdict::Skipped => "rerunFailure",
    };
    let rerun = |earlier: &AttemptRecord| Rerun {
        element,
        kind: earlier.outcome.name(),
        message: message(&earlier.message, earlier.outcome),
        trace: content::earlier(earlier, dir),
    };
    // Of a case that failed, the case itself tells the last one.
    let last = task
        .last_attempt()
        .filter(|_| task.verdict() == Verdict::Passed);
    let attempts = task.earlier.iter().chain(&last);
    attempts
        .filter(|attempt| {
            let outcome = attempt.outcome;
            outcome.verdict() != Verdict::Passed && !outcome.is_cut_off()
        })
        .map(rerun)
        .collect()
}

/// One line that a person understands, and never an empty one.
fn message(said: &str, outcome: Outcome) -> String {
    let message = xml::attribute(&text::one_line(said, MESSAGE), MESSAGE);
    if message.is_empty() {
        outcome.row().meaning.to_owned()
    } else {
        message
    }
}

fn case(
    task: &TaskSummary,
    dir: &str,
    room: usize,
    taken: &mut HashSet<(String, String)>,
) -> TestCase {
    let row = task.outcome.row();
    let class = class_name(&task.file);
    let name = unique(&class, xml::attribute(&task.name, ATTRIBUTE), taken);
    let span = time(task);
    let said = match task.excuse() {
        Some(excuse) => Cow::from(format!(
            "[does not fail the run: a task that {excuse}] {}",
            task.message
        )),
        None => Cow::from(&task.message),
    };
    let message = message(&said, task.outcome);
    let mut builder = match row.verdict {
        Verdict::Passed => TestCaseBuilder::success(&name, span),
        Verdict::Failed => TestCaseBuilder::failure(&name, span, row.name, &message),
        Verdict::Errored => TestCaseBuilder::error(&name, span, row.name, &message),
        Verdict::Skipped => TestCaseBuilder::skipped_with_cause(&name, row.name, &message),
    };
    builder.set_classname(&class);
    let file = relative(&task.file);
    if !file.is_empty() {
        builder.set_filepath(&xml::attribute(&file, ATTRIBUTE * 4));
    }
    builder.set_trace(&xml::cdata(&section(&body(task, dir), room)));
    if task.attempt > 0 {
        builder.set_system_out(&xml::cdata(&section(&system_out(task, dir), room)));
    }
    builder.build()
}
