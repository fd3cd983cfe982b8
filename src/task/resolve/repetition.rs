//! How often a task is run: trials measure it, retries make up for infrastructure; and the group that it is counted in.

use super::super::diagnostic::quoted;
use super::{Context, Findings};
use crate::outcome::Trials;

/// The most retries.
const MOST_RETRIES: u64 = 10;
/// The longest name of a group.
const LONGEST_GROUP: usize = 100;

/// See the fields of the same names of a task.
pub(super) struct Repetition {
    pub(super) trials: Trials,
    pub(super) retries: u32,
    pub(super) group: Option<String>,
}

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Repetition {
    Repetition {
        trials: trials(cx, findings),
        retries: retries(cx, findings),
        group: group(cx, findings),
    }
}

fn trials(cx: &Context<'_>, findings: &mut Findings) -> Trials {
    let Some(spec) = cx.spec.trials else {
        return Trials::default();
    };
    let origin = cx.layer.origin(&["trials"]);
    let most = u64::from(Trials::MOST);
    if !(1..=most).contains(&spec.count) {
        let message = format!(
            "there are 1 to {most} trials of a task, found {}",
            spec.count
        );
        let at = if cx.layer.mentions(&["trials", "count"]) {
            origin.key("count")
        } else {
            origin
        };
        findings.error(&at, message, None);
        return Trials::default();
    }
    let pass = spec.pass.unwrap_or(spec.count);
    if !(1..=spec.count).contains(&pass) {
        let message = format!(
            "of {} trials, 1 to {} can have to pass, found {pass}",
            spec.count, spec.count
        );
        findings.error(&origin.key("pass"), message, None);
        return Trials::default();
    }
    let small = |value: u64| u32::try_from(value).unwrap_or(1);
    Trials {
        count: small(spec.count),
        pass: small(pass),
    }
}

fn retries(cx: &Context<'_>, findings: &mut Findings) -> u32 {
    let Some(asked) = cx.pick(cx.spec.retries, |defaults| defaults.retries, &["retries"]) else {
        return 0;
    };
    if asked.value > MOST_RETRIES {
        let message = format!(
            "a task is retried at most {MOST_RETRIES} times, found {}",
            asked.value
        );
        findings.error(&asked.origin, message, None);
    }
    u32::try_from(asked.value.min(MOST_RETRIES)).unwrap_or(0)
}

fn group(cx: &Context<'_>, findings: &mut Findings) -> Option<String> {
    let asked = cx.pick(
        cx.spec.group.as_ref(),
        |defaults| defaults.group.as_ref(),
        &["group"],
    )?;
    let fits = !asked.value.is_empty()
        && asked.value.len() <= LONGEST_GROUP
        && asked
            .value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if !fits {
        let message = format!("the group {} does not fit", quoted(asked.value));
        findings.error(
            &asked.origin,
            message,
            Some("groups are letters `a-z`, digits, `.`, `_` and `-`"),
        );
    }
    Some(asked.value.clone())
}
