//! What a run came to, in one line, at the top of the pages for people.

use super::summary::Summary;
use crate::outcome::{Exit, signal_name};

/// What the run came to, in one line of our own words.
pub(super) fn of(summary: &Summary) -> String {
    let totals = summary.totals();
    // "1 of 1 tasks", as it is one of them all.
    let all = format!("{} tasks", totals.tasks);
    match summary.exit() {
        Exit::Signal(signal) => format!(
            "Interrupted by {}: {} of {all} passed",
            signal_name(signal),
            totals.passed
        ),
        Exit::Usage => "Nothing was run".to_owned(),
        Exit::Passed if totals.failed > 0 => format!(
            "Passed: {} of {all}, and no failure that counts",
            totals.passed
        ),
        Exit::Passed if totals.tasks == 1 => "Passed: the task".to_owned(),
        Exit::Passed => format!("Passed: all {all}"),
        Exit::Failed => match gated(summary) {
            Some(gated) => format!("Failed: {gated} of {all}, compared with the baseline"),
            None => format!("Failed: {} of {all}", totals.failed),
        },
        Exit::Infrastructure if totals.errors + totals.skipped == 0 => {
            "Error: the record of this run is damaged".to_owned()
        }
        Exit::Infrastructure => format!(
            "Error: {} of {all} could not be carried out",
            totals.errors + totals.skipped
        ),
    }
}

/// How many tasks fail the run by the baseline's gate, if there is one.
fn gated(summary: &Summary) -> Option<usize> {
    let gate = &summary.baseline.as_ref()?.gate;
    let fails = summary.tasks.iter().filter(|task| task.fails_run());
    (!gate.is_empty()).then(|| fails.count())
}
