//! The project's quarantine list: which tasks may fail for now, why, and until when.
//!
//! An entry that has ended is no error: at midnight it would stop every pipeline at once. The task counts again, and a
//! warning says at which line it was excused.

use globset::{Glob, GlobMatcher};
use time::Date;
use time::macros::format_description;

use super::super::diagnostic::quoted;
use super::super::spec::QuarantineSpec;
use super::super::tree::Half;
use super::{Context, Findings, Project};
use crate::report::Quarantine;
use crate::text;

/// How many tasks are named in one sentence.
const NAMED: usize = 10;

/// What is wrong with the list itself, whatever the tasks are.
pub(super) fn check_list(project: &Project<'_>, findings: &mut Findings) {
    for (index, entry) in project.spec.quarantine.iter().enumerate() {
        let origin = project.quarantine.origin(&[]).index(index);
        if let Err(message) = glob(entry) {
            findings.error(&origin.key("task"), message, None);
        }
        if entry.reason.trim().is_empty() {
            findings.error(
                &origin.key("reason"),
                "the reason is empty",
                Some("say why the task may fail, and who looks at it"),
            );
        }
        if date(entry).is_none() {
            let message = format!("expected a date, found {}", quoted(&entry.until));
            findings.error(
                &origin.key("until"),
                message,
                Some("a date is as in `2026-12-31`, in quotes"),
            );
        }
    }
}

/// The entry that excuses the task today, if one does. What is wrong with an entry was said of the list.
pub(super) fn resolve(cx: &Context<'_>, name: &str) -> Option<Quarantine> {
    let mut entries = cx.project?.spec.quarantine.iter();
    let entry =
        entries.find(|entry| matches(entry, name) && !has_ended(entry, cx.options.today))?;
    Some(Quarantine {
        reason: entry.reason.trim().to_owned(),
        until: entry.until.clone(),
    })
}

/// What is doubtful about the list once the tasks are known: entries that have ended, and, if these are all tasks, entries that
/// excuse none of them.
pub(super) fn review(
    project: &Project<'_>,
    names: &[&str],
    are_all: &dyn Fn() -> bool,
    today: Option<Date>,
    findings: &mut Findings,
) {
    for (index, entry) in project.spec.quarantine.iter().enumerate() {
        let origin = project.quarantine.origin(&[]).index(index);
        let excused: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| matches(entry, name))
            .collect();
        let ended = has_ended(entry, today);
        let (key, message, hint) = if excused.is_empty() {
            if !are_all() {
                continue;
            }
            let ended = if ended {
                format!(", and ended on {}", entry.until)
            } else {
                String::new()
            };
            let all = text::plural(names.len() as u64, "task");
            let message = format!(
                "the quarantine of {} matches no task ({all} read){ended}",
                quoted(&entry.task)
            );
            let hint = "a pattern matches whole names (`name*` their beginning); remove an entry whose task is gone";
            ("task", message, hint)
        } else if ended {
            let message = format!(
                "the quarantine of {} ended on {}: a failure counts again",
                text::some(&excused, NAMED),
                entry.until
            );
            ("until", message, "remove the entry, or move the date")
        } else {
            continue;
        };
        findings.warning(
            &origin.key(key),
            Half::Value,
            message,
            Some(hint.to_owned()),
        );
    }
}

fn matches(entry: &QuarantineSpec, name: &str) -> bool {
    glob(entry).is_ok_and(|glob| glob.is_match(name))
}

fn has_ended(entry: &QuarantineSpec, today: Option<Date>) -> bool {
    date(entry).is_none_or(|until| today.is_some_and(|today| today > until))
}

fn glob(entry: &QuarantineSpec) -> Result<GlobMatcher, String> {
    Glob::new(&entry.task)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{} is not a glob: {}", quoted(&entry.task), error.kind()))
}

fn date(entry: &QuarantineSpec) -> Option<Date> {
    Date::parse(&entry.until, format_description!("[year]-[month]-[day]")).ok()
}
