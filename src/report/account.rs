//! The account: what a run came to, as lines of plain text.
//!
//! [`write()`] is the last thing in the log of a CI job: a table in the order of the plan, then each task that did
//! not pass with what a person needs to act on it, then the sums. [`details`] is also the body of a JUnit failure.

use std::io::{self, Write};
use std::time::Duration;

use super::summary::{CheckRecord, Class, Denial, HostRecord, Summary, TaskSummary, Warning};
use super::{gate, is_bypass, sandbox, verdict_word};
use crate::event::CheckResult;
use crate::outcome::{Outcome, Stop, Verdict};
use crate::text::{self, workflow};
use crate::usage::Usd;

/// How many denials, hooks or checks of a task are told in full.
const TOLD: usize = 10;
/// The longest line, in bytes.
const LINE: usize = 1200;
/// The widest name in the table, in characters; longer ones are clipped.
const WIDEST: usize = 48;

/// Writes one line that shows everything in it and commands nothing.
///
/// # Errors
/// Those of `out`.
pub fn write_line(out: &mut impl Write, line: &str) -> io::Result<()> {
    let line = text::head(line, LINE);
    let mut bytes = workflow::inert_line(&text::strip_ansi(&line)).into_bytes();
    bytes.push(b'\n');
    out.write_all(&bytes)
}

/// Writes the account of a run.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let rows: Vec<[String; 7]> = summary.tasks.iter().map(row).collect();
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        write_line(out, cells.join("  ").trim_end())?;
    }
    for task in summary.notable() {
        write_line(out, "")?;
        write_line(
            out,
            &format!("{}: {}", verdict_word(task.verdict()), name(task)),
        )?;
        let lines = if task.excuse().is_some() {
            excused(task)
        } else {
            details(task, &summary.dir)
        };
        for line in lines {
            write_line(out, &format!("  {line}"))?;
        }
    }
    write_line(out, "")?;
    for line in closing(summary) {
        write_line(out, &line)?;
    }
    out.flush()
}

fn row(task: &TaskSummary) -> [String; 7] {
    let shown = text::visible_line(&task.name);
    let mut name: String = shown.chars().take(WIDEST).collect();
    if name.len() < shown.len() {
        name.push('…');
    }
    if task.attempt == 0 {
        let none = String::new;
        let outcome = task.outcome.name().to_owned();
        return [
            verdict_word(task.verdict()).to_owned(),
            name,
            outcome,
            none(),
            none(),
            none(),
            none(),
        ];
    }
    [
        verdict_word(task.verdict()).to_owned(),
        name,
        task.outcome.name().to_owned(),
        text::plural(task.all_steps(), "step"),
        format!("{} tokens", text::tokens(task.all_usage().total())),
        cost(task.all_cost()),
        text::duration(Duration::from_millis(task.all_duration_ms())),
    ]
}

/// A cost, or a dash where a price is not known.
#[must_use]
pub fn cost(cost: Option<Usd>) -> String {
    cost.map_or_else(|| "-".to_owned(), |cost| cost.to_string())
}

/// The task's name with the place where it stands.
fn name(task: &TaskSummary) -> String {
    if task.file.is_empty() {
        return format!("{} (not in the plan)", text::visible_line(&task.name));
    }
    format!(
        "{} ({}:{})",
        text::visible_line(&task.name),
        task.file,
        task.line
    )
}

/// Of a failure that does not count a log says what it was and why; the reports have the rest.
fn excused(task: &TaskSummary) -> Vec<String> {
    let mut lines = vec![outcome_line(task)];
    lines.extend(comparison_lines(task));
    lines
}

fn outcome_line(task: &TaskSummary) -> String {
    // What a denial says is told once, with the denial.
    let message = if is_told_by_denial(task) {
        let calls = text::plural(task.denials.total, "call");
        format!("{calls} not allowed")
    } else {
        text::one_line(&task.message, LINE)
    };
    format!("{}: {message}", task.outcome.name())
}

/// What a person needs to act on a task, as lines in which everything shows. They hold foreign
/// text; whoever prints them escapes them for the place.
#[must_use]
pub fn details(task: &TaskSummary, dir: &str) -> Vec<String> {
    let mut lines = vec![outcome_line(task)];
    if is_bypass(&task.mode) {
        lines.push(bypass_warning(&task.mode));
    }
    lines.extend(comparison_lines(task));
    let unconfined = sandbox::warning(&task.sandbox);
    let is_told = |warning: &Warning| unconfined.is_some() && warning.code == "sandbox";
    lines.extend(unconfined.clone());
    for denial in task.denials.items.iter().take(TOLD) {
        lines.extend(denial_lines(denial));
    }
    more(&mut lines, task.denials.total, "denial");
    for host in task.hosts.items.iter().take(TOLD) {
        lines.push(host_line(host));
    }
    more(&mut lines, task.hosts.total, "host");
    for hook in task.hooks.items.iter().take(TOLD) {
        let did = if hook.failed { "failed" } else { "blocked" };
        let said = text::one_line(&hook.message, LINE);
        lines.push(format!("{} hook `{}` {did}: {said}", hook.event, hook.hook));
    }
    more(&mut lines, task.hooks.total, "hook result");
    for check in task.broken_checks().take(TOLD) {
        lines.extend(check_lines(check));
    }
    let warnings = task.warnings.items.iter();
    for warning in warnings.filter(|warning| !is_told(warning)).take(TOLD) {
        lines.push(format!(
            "warning {}: {}",
            warning.code,
            text::one_line(&warning.message, LINE)
        ));
    }
    for call in task.repeated.iter().take(TOLD) {
        lines.push(format!(
            "called {} times: {} {}",
            call.times, call.tool, call.input
        ));
    }
    if task.turns_skipped > 0 {
        lines.push(format!(
            "{} not run",
            text::plural(task.turns_skipped.into(), "turn")
        ));
    }
    if task.leaked_processes > 0 {
        let processes = text::plural(task.leaked_processes.into(), "process");
        lines.push(format!("killed after their call had ended: {processes}"));
    }
    if task.is_flaky() {
        lines.push("flaky: it did not come to the same result each time".to_owned());
    }
    for earlier in &task.earlier {
        let message = text::one_line(&earlier.message, LINE);
        lines.push(format!(
            "attempt {}: {}: {message}",
            earlier.attempt,
            earlier.outcome.name()
        ));
    }
    lines.extend(unused_rules(task).map(|rules| format!("allow rules without use: {rules}")));
    if let Some(transcript) = &task.transcript {
        lines.push(format!("transcript: {}", in_dir(dir, transcript)));
    }
    // A name that holds a line feed must not begin a line that looks like one of ours.
    lines
        .iter()
        .map(|line| text::visible_line(&text::strip_ansi(line)))
        .collect()
}

/// What a quarantine and a baseline say of a task.
fn comparison_lines(task: &TaskSummary) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(quarantine) = &task.quarantine {
        lines.push(format!(
            "in quarantine until {}, so that a failure does not count: {}",
            text::one_line(&quarantine.until, 40),
            text::one_line(&quarantine.reason, LINE)
        ));
    }
    let Some(compared) = &task.compared else {
        return lines;
    };
    let flaky = match &compared.before {
        Some(before) if before.flaky => ", and flaky there",
        _ => "",
    };
    let before = match &compared.before {
        Some(before) => format!("it was {}{flaky}", before.outcome.name()),
        None => "it was not there".to_owned(),
    };
    lines.push(format!(
        "against the baseline: {} ({before})",
        compared.class.name()
    ));
    if compared.gated == Some(true) && task.fails_run() {
        lines.push("it fails the run by the gate".to_owned());
    } else if let Some(excuse) = task.excuse() {
        lines.push(format!("it does not fail the run, as a task that {excuse}"));
    }
    lines
}

/// What a task is beside its verdict, in words of ours: how it stands to the baseline, whether a failure counts.
#[must_use]
pub fn marks(task: &TaskSummary) -> Vec<&'static str> {
    let class = task.compared.as_ref().map(|compared| compared.class);
    let class = class.filter(|class| !matches!(class, Class::Passing | Class::NotEvaluated));
    let flaky = task.is_flaky().then_some("flaky");
    let quarantined = task.quarantine.is_some().then_some("quarantined");
    let class = class.map(Class::name);
    [class, flaky, quarantined].into_iter().flatten().collect()
}

/// What the comparison with the baseline came to, and why failures do not count or others do.
#[must_use]
pub fn comparison(summary: &Summary) -> Vec<String> {
    let mut lines = baseline_lines(summary);
    if let Some(reason) = gate::reason(summary) {
        lines.push(reason);
        return lines;
    }
    let excused = summary.tasks.iter().filter(|task| task.is_excused());
    let excused = excused.count() as u64;
    if excused > 0 {
        let failures = text::plural(excused, "failure");
        let do_not = if excused == 1 { "does not" } else { "do not" };
        lines.push(format!("{failures} in quarantine, which {do_not} count"));
    }
    lines
}

/// What the comparison with the baseline came to, over all tasks.
fn baseline_lines(summary: &Summary) -> Vec<String> {
    let Some(baseline) = &summary.baseline else {
        return Vec::new();
    };
    let classes = [
        Class::Broken,
        Class::Fixed,
        Class::StillFailing,
        Class::New,
        Class::NotEvaluated,
        Class::Passing,
    ];
    let mut counts: Vec<String> = classes
        .iter()
        .map(|class| {
            let tasks = summary.tasks.iter();
            let of_class = tasks.filter(|task| {
                task.compared
                    .as_ref()
                    .is_some_and(|compared| compared.class == *class)
            });
            format!("{} {}", of_class.count(), class.name())
        })
        .collect();
    counts.push(format!("{} removed", baseline.removed.total));
    if !baseline.not_selected.is_empty() {
        counts.push(format!("{} not selected", baseline.not_selected.total));
    }
    let source = text::one_line(&baseline.source, 200);
    let age = baseline
        .started_at
        .map_or_else(String::new, |at| format!(" of {}", at.date()));
    let mut lines = vec![format!("baseline {source}{age}: {}", counts.join(", "))];
    for task in &summary.tasks {
        for shift in task.compared.iter().flat_map(|compared| &compared.shifts) {
            lines.push(format!("{}: {shift}", text::visible_line(&task.name)));
        }
    }
    lines.truncate(TOLD * 5);
    if !baseline.gate.is_empty() && gate::reason(summary).is_none() {
        let gates: Vec<String> = baseline.gate.iter().map(ToString::to_string).collect();
        lines.push(format!("only this fails the run: {}", gates.join(", ")));
    }
    lines
}

fn more(lines: &mut Vec<String>, total: u64, word: &str) {
    let left = total.saturating_sub(TOLD as u64);
    if left > 0 {
        lines.push(format!(
            "and {} more in the transcript",
            text::plural(left, word)
        ));
    }
}

/// Whether what is said of a task is what one of its denials says, so that it need not be told twice.
#[must_use]
pub fn is_told_by_denial(task: &TaskSummary) -> bool {
    let mut denials = task.denials.items.iter();
    denials.any(|denial| !denial.reason.is_empty() && task.message.contains(&denial.reason))
}

/// Why a call was denied, without the rule that would do, which has a line of its own.
#[must_use]
pub fn short_reason(denial: &Denial) -> &str {
    let rule = denial.suggestion.as_ref();
    rule.and_then(|rule| denial.reason.strip_suffix(&format!("; `{rule}` would")))
        .unwrap_or(&denial.reason)
}

/// The denial, why, and the rule that would have allowed it.
fn denial_lines(denial: &Denial) -> Vec<String> {
    let reason = short_reason(denial);
    let mut lines = vec![format!(
        "denied in step {}: {} `{}`: {}",
        denial.step,
        denial.tool,
        text::one_line(&denial.input, 300),
        text::one_line(reason, LINE)
    )];
    if let Some(rule) = &denial.rule {
        lines.push(format!("  decided by {rule}"));
    }
    if let Some(suggestion) = &denial.suggestion {
        lines.push(format!(
            "  to allow it: {}",
            text::one_line(suggestion, LINE)
        ));
    }
    lines
}

/// What went to and from a host, for the account and for whoever wonders where bytes went.
fn host_line(host: &HostRecord) -> String {
    let counts = [
        (host.allowed, "made"),
        (host.refused, "refused"),
        (host.failed, "failed"),
    ];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    format!(
        "network {}: connections {}; {} sent, {} received",
        text::one_line(&host.host, 300),
        counts.join(", "),
        text::bytes(host.sent_bytes),
        text::bytes(host.received_bytes)
    )
}

fn check_lines(check: &CheckRecord) -> Vec<String> {
    let did = match check.result {
        CheckResult::Passed => "passed",
        CheckResult::Failed => "failed",
        CheckResult::Errored => "could not be run",
    };
    let mut lines = vec![format!(
        "check {} {did}: {}",
        check.check,
        text::one_line(&check.title, LINE)
    )];
    let said = text::plain(&format!("{}\n{}", check.message, check.details));
    // The end of an output is where the reason stands.
    let said: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let tail = said.len().saturating_sub(20);
    lines.extend(
        said[tail..]
            .iter()
            .map(|line| format!("  | {}", line.replace('\t', "    "))),
    );
    lines
}

/// A file of the run directory, as seen from where the run was started.
#[must_use]
pub fn in_dir(dir: &str, file: &str) -> String {
    if dir.is_empty() || dir == "." {
        return file.to_owned();
    }
    format!("{}/{file}", dir.trim_end_matches('/'))
}

/// The warning that stands wherever a task ran without a gate.
#[must_use]
pub fn bypass_warning(mode: &str) -> String {
    format!("WARNING: mode {mode}: actions ran that no rule allowed")
}

/// What is said of the whole run: damages of its record, what to know of tasks that passed, sums.
fn closing(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    for damage in summary.damages.iter().take(TOLD) {
        let word = if summary.faults().contains(damage) {
            "incomplete"
        } else {
            "damaged"
        };
        lines.push(format!("{word}: {damage}"));
    }
    more(&mut lines, summary.damages.len() as u64, "damage");
    for task in &summary.tasks {
        if task.verdict() != Verdict::Passed {
            continue;
        }
        let name = text::visible_line(&task.name);
        if is_bypass(&task.mode) {
            lines.push(format!("{name}: {}", bypass_warning(&task.mode)));
        }
        lines.extend(
            unused_rules(task).map(|unused| format!("{name}: allow rules without use: {unused}")),
        );
    }
    lines.extend(sandbox::warnings(summary));
    lines.extend(asides(summary));
    lines.extend(comparison(summary));
    if let Some(shard) = &summary.plan.shard {
        let (own, all) = (summary.tasks.len(), summary.plan.tasks.len());
        lines.push(format!(
            "shard {shard}: {own} of the plan's {}",
            text::plural(all as u64, "task")
        ));
    }
    if let Some(merge) = &summary.plan.merge {
        let count = merge.directories.len() as u64;
        let directories = if count == 1 {
            "directory"
        } else {
            "directories"
        };
        lines.push(format!("merged from {count} run {directories}"));
    }
    lines.push(totals_line(summary));
    lines
}

/// What to know of tasks that have no details of their own: which passed only sometimes, or with denials, changes that deserve
/// a look or a workspace that was not whole, and why others were not run.
#[must_use]
pub fn asides(summary: &Summary) -> Vec<String> {
    let passed = |task: &&TaskSummary| task.verdict() == Verdict::Passed;
    let of_attempts = summary.tasks.iter().filter(passed).filter_map(|task| {
        let flaky = if task.is_flaky() { "flaky: " } else { "" };
        let told = !flaky.is_empty() || task.trials_line().is_some();
        told.then(|| format!("{}: {flaky}{}", task.name, task.message))
    });
    let mut lines: Vec<String> = of_attempts.take(TOLD).collect();
    let told_in_full: Vec<&str> = summary
        .notable()
        .into_iter()
        .map(|task| task.name.as_str())
        .collect();
    let others = summary.tasks.iter().filter(passed);
    let others = others.filter(|task| !told_in_full.contains(&task.name.as_str()));
    lines.extend(others.filter_map(quietly).take(TOLD));
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for task in summary
        .tasks
        .iter()
        .filter(|task| task.verdict() == Verdict::Skipped)
    {
        let known = reasons
            .iter_mut()
            .find(|(reason, _)| *reason == task.message);
        if let Some((_, count)) = known {
            *count += 1;
        } else if reasons.len() < TOLD {
            reasons.push((&task.message, 1));
        }
    }
    // Without a reason there is nothing to add to their rows.
    reasons.retain(|(reason, _)| *reason != Outcome::NotRun.row().meaning);
    lines.extend(
        reasons
            .iter()
            .map(|(reason, count)| format!("{} not run: {reason}", text::plural(*count, "task"))),
    );
    lines
        .iter()
        .map(|line| text::one_line(line, LINE))
        .collect()
}

/// What a task that passed leaves for somebody to know: denials that its file does not mind, changes that deserve a look,
/// and a workspace that was not whole.
fn quietly(task: &TaskSummary) -> Option<String> {
    let first = task.denials.items.first().map(|denial| {
        let denials = text::plural(task.denials.total, "denial");
        let input = text::one_line(&denial.input, 200);
        format!(
            "{denials}, `{} {input}` in step {} first",
            denial.tool, denial.step
        )
    });
    let concern = task.concerns.items.first().map(|concern| {
        let files = text::plural(task.concerns.total, "file");
        let why = concern.kind.meaning();
        let path = text::one_line(&concern.path, 200);
        format!("{files} to look at before the patch is used, `{path}` ({why}) first")
    });
    let mut left_out = task.warnings.items.iter();
    let left_out = left_out
        .find(|warning| warning.code == "workspace")
        .map(|warning| format!("a warning: {}", text::one_line(&warning.message, 400)));
    let told: Vec<String> = first.into_iter().chain(concern).chain(left_out).collect();
    (!told.is_empty()).then(|| format!("{}: passed with {}", task.name, told.join(", and ")))
}

/// The allow rules that no call needed, if there are any: what could be taken out of the task file.
#[must_use]
pub fn unused_rules(task: &TaskSummary) -> Option<String> {
    // What did not run to its end says nothing of the rules that it would have needed.
    if task.unused_allow.is_empty() || task.stop != Some(Stop::Completed) {
        return None;
    }
    let rules: Vec<&str> = task
        .unused_allow
        .iter()
        .map(|rule| rule.rule.as_str())
        .collect();
    let rules = rules.join(", ");
    let rules = text::visible_line(&text::head(&rules, 300));
    Some(rules)
}

/// The sums on one line.
#[must_use]
pub fn totals_line(summary: &Summary) -> String {
    let totals = summary.totals();
    let interrupted = if summary.signal.is_some() {
        "interrupted; "
    } else {
        ""
    };
    format!(
        "{interrupted}{}: {} passed, {} failed, {}, {} skipped; {}, {} tokens, {}{} spent in {}",
        text::plural(totals.tasks, "task"),
        totals.passed,
        totals.failed,
        text::plural(totals.errors, "error"),
        totals.skipped,
        text::plural(totals.denials, "denial"),
        text::tokens(totals.usage.total()),
        if totals.cost_is_partial {
            "at least "
        } else if totals.has_estimates {
            "at most "
        } else {
            ""
        },
        totals.cost,
        text::duration(summary.elapsed()),
    )
}
