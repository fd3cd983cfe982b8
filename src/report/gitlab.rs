//! What GitLab shows beside a merge request: a code quality report, an entry for each task that did not pass, on the line of the
//! task file where it begins. GitLab shows what is new against the target branch, by the fingerprint; `junit.xml` goes to
//! it as it is.
//!
//! Descriptions are shown as text; they are clipped, on one line, and their controls are visible.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::account::{bypass_warning, marks};
use super::is_bypass;
use super::junit::relative;
use super::summary::{Summary, TaskSummary};
use crate::outcome::Verdict;
use crate::text;

/// The longest description, in bytes.
const DESCRIPTION: usize = 500;
/// The longest part of a name, in bytes.
const NAME: usize = 120;
/// The most entries; the worst come first.
const ENTRIES: usize = 1000;

/// One entry, with GitLab's names.
#[derive(Debug, Serialize)]
struct Entry {
    description: String,
    check_name: String,
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Debug, Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Debug, Serialize)]
struct Lines {
    begin: u32,
}

/// The report: `critical` for tasks that failed their gate, `major` for errors, `minor` for tasks whose failure does not
/// count (see [`TaskSummary::excuse`]), that were not run or ran without a gate. How a task stands to the baseline is in its description.
/// A run without any gives an empty list, which clears what GitLab showed before.
///
/// # Errors
/// None in practice: strings and numbers always serialise.
pub fn code_quality(summary: &Summary) -> serde_json::Result<String> {
    let of = |verdict| {
        let tasks = summary.tasks.iter();
        tasks.filter(move |task: &&TaskSummary| task.verdict() == verdict)
    };
    let failed = of(Verdict::Failed).map(|task| {
        let severity = if task.excuse().is_some() {
            "minor"
        } else {
            "critical"
        };
        entry(task, severity, task.outcome.name(), &task.message)
    });
    let errored =
        of(Verdict::Errored).map(|task| entry(task, "major", task.outcome.name(), &task.message));
    let skipped =
        of(Verdict::Skipped).map(|task| entry(task, "minor", task.outcome.name(), &task.message));
    let bypassed = summary
        .tasks
        .iter()
        .filter(|task| is_bypass(&task.mode))
        .map(|task| entry(task, "minor", "bypass", &bypass_warning(&task.mode)));
    let entries: Vec<Entry> = failed
        .chain(errored)
        .chain(bypassed)
        .chain(skipped)
        .take(ENTRIES)
        .collect();
    serde_json::to_string_pretty(&entries).map(|text| text + "\n")
}

fn entry(task: &TaskSummary, severity: &'static str, word: &str, said: &str) -> Entry {
    let name = text::head(&task.name, NAME);
    let path = relative(&task.file);
    // They speak of the outcome, not of how the task was run.
    let marks = if word == task.outcome.name() {
        marks(task)
    } else {
        Vec::new()
    };
    let marks = if marks.is_empty() {
        String::new()
    } else {
        format!(" ({})", marks.join(", "))
    };
    // Without the message, whose numbers change from run to run.
    let identity = [task.file.as_str(), &task.name, word].join("\0");
    Entry {
        description: shown(&format!("{name}: {word}{marks}: {said}"), DESCRIPTION),
        check_name: format!("agent-batch/{word}"),
        fingerprint: text::hex(&Sha256::digest(identity.as_bytes())),
        severity,
        location: Location {
            path: if path.is_empty() {
                super::run_dir::PLAN.to_owned()
            } else {
                shown(&path, DESCRIPTION)
            },
            lines: Lines { begin: task.line },
        },
    }
}

/// One line in which everything shows.
fn shown(text: &str, most: usize) -> String {
    let line = text::visible_line(&text::strip_ansi(&text::head(text, most)));
    text::head(&line, most).into_owned()
}
