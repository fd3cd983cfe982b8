//! Annotations: workflow commands that we mean.
//!
//! GitHub keeps ten of each kind for a step and drops the others without a word, so there are never more here, and the worst
//! come first.

use super::super::account::{self, bypass_warning};
use super::super::junit::relative;
use super::super::summary::{Summary, TaskSummary};
use super::super::{gate, is_bypass, sandbox};
use crate::outcome::{Exit, OnDenied, Verdict};
use crate::text::{self, workflow};

/// How many of a kind GitHub shows for a step.
const SHOWN: usize = 10;
/// The longest message, in bytes.
const MESSAGE: usize = 4000;

/// The lines to print on stdout: errors for tasks that did not pass, failures first; warnings for tasks whose failure does not
/// count, that were not run, that ran without a gate, or that passed with denials.
#[must_use]
pub fn annotations(summary: &Summary) -> Vec<String> {
    let of = |verdict| {
        summary
            .tasks
            .iter()
            .filter(move |task| task.verdict() == verdict)
    };
    let in_full = |kind, task: &TaskSummary| {
        let details = account::details(task, &summary.dir).join("\n");
        line(kind, task, &details)
    };
    let counts = |task: &&TaskSummary| task.excuse().is_none();
    let errors = of(Verdict::Failed)
        .filter(counts)
        .chain(of(Verdict::Errored))
        .map(|task| in_full("error", task));
    let excused = of(Verdict::Failed)
        .filter(|task| !counts(task))
        .map(|task| in_full("warning", task));
    let gated = gate::reason(summary).map(|reason| {
        let kind = if summary.exit() == Exit::Passed {
            "warning"
        } else {
            "error"
        };
        let message = workflow::data(&clean(&reason));
        (kind, format!("::{kind} title=agent-batch::{message}"))
    });
    let gated_as = |kind| {
        let gated = gated.iter().filter(move |(own, _)| *own == kind);
        gated.map(|(_, line)| line.clone())
    };
    let skipped = of(Verdict::Skipped).map(|task| line("warning", task, &task.message));
    let bypassed = summary
        .tasks
        .iter()
        .filter(|task| is_bypass(&task.mode))
        .map(|task| line("warning", task, &bypass_warning(&task.mode)));
    let unconfined = sandbox::warnings(summary)
        .into_iter()
        .take(2)
        .map(|warning| {
            format!(
                "::warning title=agent-batch::{}",
                workflow::data(&clean(&warning))
            )
        });
    let denied = of(Verdict::Passed)
        .filter(|task| !task.denials.is_empty() && task.on_denied == OnDenied::Warn)
        .map(|task| in_full("warning", task));
    let damages = summary.damages.iter().take(1).map(|damage| {
        let message = clean(damage);
        format!("::error title=agent-batch::{}", workflow::data(&message))
    });
    let mut lines = within("error", damages.chain(gated_as("error")).chain(errors));
    lines.extend(within(
        "warning",
        gated_as("warning")
            .chain(bypassed)
            .chain(unconfined)
            .chain(denied)
            .chain(excused)
            .chain(skipped),
    ));
    lines
}

/// At most [`SHOWN`] of a kind; where there are more, the last one says how many.
fn within(kind: &str, all: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut more = 0_u64;
    for line in all {
        if lines.len() < SHOWN {
            lines.push(line);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        // The one that gives up its place counts too.
        lines.truncate(SHOWN - 1);
        let more = text::plural(more + 1, &format!("more {kind}"));
        lines.push(format!(
            "::{kind} title=agent-batch::{more}; the step summary has them all"
        ));
    }
    lines
}

fn line(kind: &str, task: &TaskSummary, message: &str) -> String {
    let file = relative(&task.file);
    let place = if file.is_empty() {
        String::new()
    } else {
        let file = workflow::property(&text::visible_line(&file));
        format!("file={file},line={},", task.line)
    };
    let name = text::visible_line(&text::head(&task.name, 120));
    let title = workflow::property(&format!("{}: {name}", task.outcome.name()));
    format!(
        "::{kind} {place}title={title}::{}",
        workflow::data(&clean(message))
    )
}

/// A message of several lines: each shows everything and could not act alone either.
fn clean(message: &str) -> String {
    let shown = text::visible(&text::plain(message));
    workflow::inert(&text::ends(&shown, MESSAGE))
}
