//! Why a run has another exit code than the verdicts of its tasks alone would give it: a gate or a quarantine.
//!
//! Every report says it, because each would otherwise contradict the exit code: failed tasks beside 0, or a 1 for which no task
//! failed.

use super::summary::{Class, Summary, TaskSummary};
use crate::outcome::{Exit, Verdict};
use crate::text;

/// The sentence, in words of ours and the numbers of the run; `None` where verdicts and exit code agree, and where something
/// else than the tasks decided.
#[must_use]
pub fn reason(summary: &Summary) -> Option<String> {
    let exit = summary.exit();
    let gate = summary.baseline.as_ref().map(|baseline| &baseline.gate);
    let gate = gate.filter(|gate| !gate.is_empty());
    let is_excused = |task: &&TaskSummary| task.excuse().is_some();
    if gate.is_none()
        && (exit != Exit::Passed || !summary.tasks.iter().any(|task| is_excused(&task)))
    {
        return None;
    }
    let excused = told(summary.tasks.iter().filter(is_excused), |task| {
        task.excuse().map(|excuse| ("failed", excuse))
    });
    let mut causes = Vec::new();
    if let Some(gate) = gate {
        let words: Vec<String> = gate.iter().map(ToString::to_string).collect();
        causes.push(format!("--gate {}", words.join(",")));
    }
    let is_quarantined = |task: &TaskSummary| task.quarantine.is_some();
    if summary
        .tasks
        .iter()
        .any(|task| is_excused(&task) && is_quarantined(task))
    {
        causes.push("quarantine".to_owned());
    }
    let causes = causes.join(" and ");
    match exit {
        Exit::Passed if !excused.is_empty() => {
            Some(format!("exit 0 by {causes}: {}", excused.join(", ")))
        }
        Exit::Failed => {
            let fails = summary.tasks.iter().filter(|task| task.fails_run());
            let fails = told(fails, |task| Some(gated(task)));
            let rest = if excused.is_empty() {
                String::new()
            } else {
                format!("; not counted: {}", excused.join(", "))
            };
            Some(format!("exit 1 by {causes}: {}{rest}", fails.join(", ")))
        }
        _ => None,
    }
}

/// What a task did that fails the run by a gate.
fn gated(task: &TaskSummary) -> (&'static str, &'static str) {
    if task.verdict() == Verdict::Failed {
        let class = task.compared.as_ref().map(|compared| compared.class);
        return match class {
            Some(Class::New) => ("failed", "the baseline has no verdict of"),
            _ => ("failed", "passed in the baseline"),
        };
    }
    ("passed", "cost or took notably more than in the baseline")
}

/// `2 tasks failed that also failed in the baseline`, for each thing that is said of a task, in the order of [`Class`]es.
fn told<'a>(
    tasks: impl Iterator<Item = &'a TaskSummary>,
    said: fn(&TaskSummary) -> Option<(&'static str, &'static str)>,
) -> Vec<String> {
    let mut counts: Vec<(Option<Class>, (&str, &str), u64)> = Vec::new();
    for task in tasks {
        let Some(words) = said(task) else { continue };
        let class = task.compared.as_ref().map(|compared| compared.class);
        match counts.iter_mut().find(|(_, known, _)| *known == words) {
            Some((_, _, count)) => *count += 1,
            None => counts.push((class, words, 1)),
        }
    }
    counts.sort_by_key(|(class, ..)| *class);
    let sentences = counts.iter().map(|(_, (did, what), count)| {
        format!("{} {did} that {what}", text::plural(*count, "task"))
    });
    sentences.collect()
}
