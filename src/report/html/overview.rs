//! The top of the page: what came out, what to know before reading on, and the table of tasks.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use maud::{Markup, html};
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Entry, Page};
use crate::outcome::{Exit, OnDenied, Verdict};
use crate::report::account::{bypass_warning, cost};
use crate::report::summary::{Baseline, Class, Summary, TaskSummary, Totals};
use crate::report::{gate, headline, is_bypass, sandbox, verdict_word};
use crate::text::{self, html::line};

/// How many rows the table has.
const ROWS: usize = 2000;
/// How many warnings of one kind are shown.
const NOTICES: usize = 20;

/// Verdict, sums and warnings.
pub(super) fn top(summary: &Summary) -> Markup {
    let totals = summary.totals();
    let tone = match summary.exit() {
        Exit::Passed => Verdict::Passed,
        Exit::Failed => Verdict::Failed,
        Exit::Usage | Exit::Infrastructure | Exit::Signal(_) => Verdict::Errored,
    };
    html! {
        header.top.(verdict_word(tone)) {
            p.kicker {
                "agent-batch"
                @if let Some(at) = when(summary.plan.started_at) { " · " (at) }
            }
            h1 { (headline::of(summary)) }
            (sums(summary, &totals))
            @if let Some(reason) = gate::reason(summary) { p.about { (sentence(&reason)) } }
            @if let Some(baseline) = &summary.baseline { (self::baseline(summary, baseline)) }
        }
        (notices(summary))
    }
}

/// `2 January 2026, 03:04 UTC`.
fn when(at: OffsetDateTime) -> Option<String> {
    at.format(format_description!(
        "[day padding:none] [month repr:long] [year], [hour]:[minute] UTC"
    ))
    .ok()
}

fn sums(summary: &Summary, totals: &Totals) -> Markup {
    let counts = [
        (totals.passed, "passed"),
        (totals.failed, "failed"),
        (totals.errors, "error"),
        (totals.skipped, "skipped"),
    ];
    html! {
        ul.sums {
            @for (count, word) in counts {
                @if count > 0 { li { span.dot.(word) aria-hidden="true" {} strong { (count) } " " (word) } }
            }
            @if totals.denials > 0 {
                li { strong { (totals.denials) } @if totals.denials == 1 { " denial" } @else { " denials" } }
            }
            li { strong { (totals.steps) } @if totals.steps == 1 { " step" } @else { " steps" } }
            li { strong { (text::tokens(totals.usage.total())) } " tokens" }
            li { @if totals.cost_is_partial { "at least " } @else if totals.has_estimates { "at most " } strong { (totals.cost) } }
            li { strong { (text::duration(summary.elapsed())) } }
        }
    }
}

/// What the run was compared with, and how its tasks fell into classes.
fn baseline(summary: &Summary, baseline: &Baseline) -> Markup {
    let mut classes: BTreeMap<Class, u64> = BTreeMap::new();
    for compared in summary
        .tasks
        .iter()
        .filter_map(|task| task.compared.as_ref())
    {
        *classes.entry(compared.class).or_default() += 1;
    }
    html! {
        p.about {
            "Compared with " code { (line(&baseline.source, 200)) }
            @for (index, (class, count)) in classes.iter().enumerate() {
                @if index == 0 { ": " } @else { ", " }
                (count) " " (class.name())
            }
            @if !baseline.removed.is_empty() { ", " (baseline.removed.total) " removed" }
            @if !baseline.not_selected.is_empty() { ", " (baseline.not_selected.total) " not selected" }
        }
    }
}

/// What else is known of a task beside its verdict: whether that is new, and whether it counts.
pub(super) fn tags(task: &TaskSummary) -> Markup {
    let class = task.compared.as_ref().map(|compared| compared.class);
    html! {
        @match class {
            Some(class @ (Class::Broken | Class::New)) => { " " span.state.error { (class.name()) } },
            Some(class @ Class::Fixed) => { " " span.state.passed { (class.name()) } },
            Some(class @ Class::StillFailing) => { " " span.state.skipped { (class.name()) } },
            Some(Class::Passing | Class::NotEvaluated) | None => {},
        }
        @if task.is_flaky() { " " span.state.error { "flaky" } }
        @if task.quarantine.is_some() { " " span.state.skipped { "quarantined" } }
    }
}

/// What a reader has to know before believing anything below.
fn notices(summary: &Summary) -> Markup {
    let bypassed = summary
        .tasks
        .iter()
        .filter(|task| is_bypass(&task.mode))
        .map(|task| format!("{}: {}", task.name, bypass_warning(&task.mode)));
    let damaged = summary
        .damages
        .iter()
        .map(|damage| format!("Damaged: {damage}"));
    let mut lines: Vec<String> = bypassed.take(NOTICES).collect();
    lines.extend(sandbox::warnings(summary));
    lines.extend(damaged.take(NOTICES));
    html! {
        @if !lines.is_empty() {
            section.notices aria-label="Warnings" {
                ul { @for notice in &lines { li { (prose(&line(notice, 800))) } } }
            }
        }
    }
}

/// The largest values, to which the bars of a column are drawn.
struct Scale {
    tokens: u64,
    cost: u64,
    millis: u64,
}

impl Scale {
    fn of(tasks: &[Entry<'_>]) -> Self {
        let most = |value: fn(&TaskSummary) -> u64| {
            tasks
                .iter()
                .map(|entry| value(entry.task))
                .max()
                .unwrap_or_default()
        };
        Self {
            tokens: most(|task| task.all_usage().total()),
            cost: most(|task| task.all_cost().unwrap_or_default().nanos()),
            millis: most(TaskSummary::all_duration_ms),
        }
    }
}

/// The table, each row as it is made, and the beginning of what follows it.
pub(super) fn table(page: &mut Page<impl Write>, tasks: &[Entry<'_>]) -> io::Result<()> {
    let scale = Scale::of(tasks);
    // Roles stand beside the elements, because the style lays rows out as blocks on narrow screens.
    page.raw("<main id=\"Tasks\" tabindex=\"-1\"><table role=\"table\">")?;
    page.add(&html! {
        caption { "Tasks" }
        thead role="rowgroup" {
            tr role="row" {
                th role="columnheader" scope="col" data-sort="rank" aria-sort="ascending" { "Outcome" }
                th role="columnheader" scope="col" data-sort="text" { "Task" }
                th.number role="columnheader" scope="col" data-sort="number" { "Steps" }
                th.number role="columnheader" scope="col" data-sort="number" { "Tokens" }
                th.number role="columnheader" scope="col" data-sort="number" { "Cost" }
                th.number role="columnheader" scope="col" data-sort="number" { "Time" }
            }
        }
    })?;
    page.raw("<tbody role=\"rowgroup\">")?;
    for (index, entry) in tasks.iter().take(ROWS).enumerate() {
        page.add(&row(index, entry, &scale))?;
    }
    page.raw("</tbody></table>")?;
    if tasks.len() > ROWS {
        let left = text::plural((tasks.len() - ROWS) as u64, "task");
        page.add(&html! { p.note { "For want of room " (left) " not in the table; all are in summary.json." } })?;
    }
    Ok(())
}

fn row(index: usize, entry: &Entry<'_>, scale: &Scale) -> Markup {
    let task = entry.task;
    let started = task.attempt > 0;
    let nanos = task.all_cost().unwrap_or_default().nanos();
    html! {
        tr role="row" {
            td role="cell" data-value=(index) { (badge(task)) }
            td.task role="cell" {
                a href={ "#" (entry.id) } { (line(&task.name, 120)) }
                (tags(task))
                @if let Some(why) = why(task) { p.why { (prose(&why)) } }
                @if !task.changes.is_empty() { p.why { (text::plural(task.changes.total, "file")) " changed" } }
            }
            (number("steps", task.all_steps(), started.then(|| html! { (task.all_steps()) }), None))
            (number("tokens", task.all_usage().total(), started.then(|| html! { (text::tokens(task.all_usage().total())) }), Some(scale.tokens)))
            (number("cost", nanos, started.then(|| html! { (cost(task.all_cost())) }), Some(scale.cost)))
            (number("time", task.all_duration_ms(), started.then(|| html! { (span(task.all_duration_ms())) }), Some(scale.millis)))
        }
    }
}

/// Why somebody should look at a task, in one line.
fn why(task: &TaskSummary) -> Option<String> {
    if task.verdict() != Verdict::Passed {
        return Some(line(&task.message, 240));
    }
    if let Some(trials) = task.trials_line() {
        return Some(trials);
    }
    (!task.denials.is_empty()).then(|| {
        let denials = text::plural(task.denials.total, "denial");
        match task.on_denied {
            OnDenied::Warn => format!("{denials}, which the task file wants to be looked at"),
            OnDenied::Fail | OnDenied::Ignore => format!("{denials}, which the task file allows"),
        }
    })
}

/// A line of a log as a sentence of a page.
fn sentence(line: &str) -> String {
    let mut letters = line.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// A sentence, with what stands in backticks as code.
pub(super) fn prose(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// A cell with a number: what it sorts by, what it shows, and a bar if the column has a scale.
fn number(column: &str, value: u64, shown: Option<Markup>, largest: Option<u64>) -> Markup {
    html! {
        td.number role="cell" data-value=(value) {
            @if let Some(shown) = shown {
                (shown)
                @if column == "steps" || column == "tokens" {
                    span.unit { " " @if value == 1 { (column.trim_end_matches('s')) } @else { (column) } }
                }
                @if let Some(largest) = largest { (bar(value, largest)) }
            } @else { span.none { "–" } }
        }
    }
}

/// A bar as long as the value is a part of the largest one.
fn bar(value: u64, largest: u64) -> Markup {
    let width = u128::from(value) * 100 / u128::from(largest.max(1));
    html! {
        svg.bar viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.rail width="100" height="3" {}
            @if value > 0 { rect.part width=(width.clamp(1, 100)) height="3" {} }
        }
    }
}

/// The verdict as a word with a colour, and the outcome where it says more.
pub(super) fn badge(task: &TaskSummary) -> Markup {
    let word = verdict_word(task.verdict());
    let outcome = task.outcome.name().replace('_', " ");
    html! {
        span.badge.(word) { (word) }
        @if task.verdict() != Verdict::Passed { span.outcome { (outcome) } }
    }
}

/// A span of milliseconds.
pub(super) fn span(millis: u64) -> String {
    text::duration(Duration::from_millis(millis))
}
