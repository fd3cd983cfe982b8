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

/// The entry that excuses the task today, if one does.
pub(super) fn resolve(cx: &Context<'_>, name: &str, findings: &mut Findings) -> Option<Quarantine> {
    let project = cx.project?;
    let mut found = None;
    for (index, entry) in project.spec.quarantine.iter().enumerate() {
        // What is wrong with an entry was said of the list.
        let (Ok(glob), Some(until)) = (glob(entry), date(entry)) else {
            continue;
        };
        if !glob.is_match(name) {
            continue;
        }
        if cx.options.today.is_some_and(|today| today > until) {
            let origin = project.quarantine.origin(&[]).index(index).key("until");
            let message = format!(
                "the quarantine of {} ended on {}: a failure counts again",
                quoted(name),
                entry.until
            );
            let hint = "remove the entry, or move the date".to_owned();
            findings.warning(&origin, Half::Value, message, Some(hint));
            continue;
        }
        found.get_or_insert_with(|| Quarantine {
            reason: entry.reason.trim().to_owned(),
            until: entry.until.clone(),
        });
    }
    found
}

fn glob(entry: &QuarantineSpec) -> Result<GlobMatcher, String> {
    Glob::new(&entry.task)
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{} is not a glob: {}", quoted(&entry.task), error.kind()))
}

fn date(entry: &QuarantineSpec) -> Option<Date> {
    Date::parse(&entry.until, format_description!("[year]-[month]-[day]")).ok()
}
