//! What stands inside of a case: the account in the body, and `system-out`.
//!
//! A line of the form `[[PROPERTY|k=v]]` or `[[ATTACHMENT|path]]` means something to readers, so only ours have that form; a
//! text that imitates one is broken.

use std::borrow::Cow;

use super::super::summary::{AttemptRecord, TaskSummary};
use super::super::{account, sandbox};
use super::names::relative;
use crate::text::{self, workflow, xml};
use crate::usage::Usd;

/// The longest `message`, in bytes.
pub(super) const MESSAGE: usize = 1000;
/// The longest body of a failure and the longest `system-out`, in bytes: less than what readers cut off at.
pub(super) const BODY: usize = 32 * 1024;
/// What all bodies together may have, in bytes: GitLab refuses a file of 30 MB. Of many tasks, each gets less.
const BODIES: usize = 16 * 1024 * 1024;
/// What a body has however many tasks there are, in bytes.
const LEAST: usize = 512;
/// How many attempts that were cut off are told.
const CUT_OFF: usize = 5;

/// The longest body and the longest `system-out` of a case, when there are that many, in bytes.
pub(super) fn room(cases: usize) -> usize {
    (BODIES / (2 * cases.max(1))).clamp(LEAST, BODY)
}

/// The account of a task that did not pass.
pub(super) fn body(task: &TaskSummary, dir: &str) -> String {
    let mut lines = vec![format!("{}:{}", relative(&task.file), task.line)];
    lines.extend(account::details(task, dir));
    if !task.last_steps.is_empty() {
        lines.push("last steps:".to_owned());
    }
    for step in &task.last_steps {
        let said = text::one_line(&step.text, 300);
        lines.push(format!("  step {}: {said}", step.step));
        lines.extend(
            step.calls
                .iter()
                .map(|call| format!("    {}", text::one_line(call, 300))),
        );
    }
    if !task.changes.is_empty() {
        let total = text::plural(task.changes.total, "file");
        lines.push(format!("changed: {total}"));
    }
    for change in task.changes.items.iter().take(20) {
        lines.push(format!(
            "  {} {}",
            change.kind.name(),
            text::visible_line(&change.path)
        ));
    }
    unmarked(&lines.join("\n"))
}

/// Properties, attachments, rules without use, then the end of the reply.
pub(super) fn system_out(task: &TaskSummary, dir: &str) -> String {
    let reasons: Vec<String> = task
        .stop_reasons
        .iter()
        .map(|(reason, times)| format!("{reason} x{times}"))
        .collect();
    let properties = [
        ("model", task.model.clone()),
        ("mode", task.mode.clone()),
        ("sandbox", sandbox::in_short(&task.sandbox)),
        ("outcome", task.outcome.name().to_owned()),
        ("attempt", task.attempt.to_string()),
        ("steps", task.steps.to_string()),
        ("turns", format!("{}/{}", task.turns_done, task.turns)),
        ("tool_calls", task.tool_calls.to_string()),
        ("denials", task.denials.total.to_string()),
        ("tokens", task.usage.total().to_string()),
        ("cost_usd", dollars(task.cost)),
        ("stop_reasons", reasons.join(", ")),
    ];
    let mut out = String::new();
    let cut_off: Vec<_> = task
        .earlier
        .iter()
        .filter(|attempt| attempt.outcome.is_cut_off())
        .collect();
    let trials = [
        (
            "cut_off_attempts",
            (!cut_off.is_empty()).then(|| cut_off.len().to_string()),
        ),
        ("flaky", task.is_flaky().then(|| "true".to_owned())),
        ("trials", task.trials_line()),
    ];
    let known = trials
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    for (key, value) in properties.into_iter().chain(known) {
        marker(&mut out, "PROPERTY", &format!("{key}={value}"));
    }
    if let Some(warning) = sandbox::warning(&task.sandbox) {
        out.push_str(&unmarked(&warning));
        out.push('\n');
    }
    let files = task.transcript.iter().chain(&task.output_files.items);
    for file in files.take(20) {
        marker(
            &mut out,
            "ATTACHMENT",
            &account::in_dir(dir, &relative(file)),
        );
    }
    for attempt in cut_off.into_iter().take(CUT_OFF) {
        out.push_str(&unmarked(&told(attempt, dir)));
        out.push('\n');
    }
    if let Some(unused) = account::unused_rules(task) {
        let line = format!("allow rules without use: {unused}\n");
        out.push_str(&unmarked(&line));
    }
    if !task.reply.trim().is_empty() {
        out.push('\n');
        out.push_str(&unmarked(&task.reply));
    }
    out
}

/// An attempt before the last one: how it ended and where its transcript lies.
pub(super) fn earlier(earlier: &AttemptRecord, dir: &str) -> String {
    section(&unmarked(&told(earlier, dir)), 3 * MESSAGE)
}

fn told(earlier: &AttemptRecord, dir: &str) -> String {
    let message = text::one_line(&earlier.message, MESSAGE);
    format!(
        "attempt {}: {}: {message}\ntranscript: {}",
        earlier.attempt,
        earlier.outcome.name(),
        account::in_dir(dir, &relative(&earlier.transcript))
    )
}

/// An amount as a plain number, or `unknown`.
pub(super) fn dollars(cost: Option<Usd>) -> String {
    cost.map_or("unknown".to_owned(), |cost| {
        format!("{:.6}", cost.dollars())
    })
}

/// A line that readers take for a property or an attachment; its value cannot end it early.
fn marker(out: &mut String, kind: &str, value: &str) {
    let value = text::visible_line(&text::head(value, MESSAGE));
    let value = unmarked(&value).replace("]]", "] ]");
    out.extend(["[[", kind, "|", &value, "]]\n"]);
}

/// A foreign text in which nothing looks like a [`marker`].
fn unmarked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find("[[") {
        let (before, from) = rest.split_at(place);
        let word: String = from
            .chars()
            .skip_while(|c| *c == '[')
            .take(10)
            .collect::<String>()
            .to_ascii_lowercase();
        out.push_str(before);
        out.push_str(if word.starts_with("property") || word == "attachment" {
            "[ "
        } else {
            "["
        });
        rest = &from[1..];
    }
    out.push_str(rest);
    out
}

/// A foreign text for an element's content, at most `room` bytes when it is escaped.
pub(super) fn section(text: &str, room: usize) -> String {
    // Some readers print `system-out` into the log of the job, so it must not command there either.
    let shown = workflow::inert(&text::visible(&text::plain(text)));
    // An escaped character takes up to five times its room, so a text that is made of them is clipped again.
    let mut share = room;
    loop {
        let inside = xml::content(&shown, share);
        if escape(&inside).len() <= room {
            return inside;
        }
        share /= 2;
    }
}

/// The escapes that content needs; `>` among them, so that no text holds the end of a CDATA section.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    quick_xml::escape::partial_escape(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_attach_a_file_or_set_a_property() {
        assert_eq!(
            unmarked("[[ATTACHMENT|/etc/passwd]]"),
            "[ [ATTACHMENT|/etc/passwd]]"
        );
        assert_eq!(unmarked("[[[Property|a=b]]"), "[ [ [Property|a=b]]");
        assert_eq!(unmarked("if [[ -f x ]] [["), "if [[ -f x ]] [[");
    }

    #[test]
    fn a_value_cannot_end_its_marker() {
        let mut out = String::new();
        marker(&mut out, "PROPERTY", "model=a]]\n[[ATTACHMENT|x");
        assert_eq!(out, "[[PROPERTY|model=a] ]\\n[ [ATTACHMENT|x]]\n");
    }

    #[test]
    fn a_report_of_many_tasks_stays_under_the_limits_of_its_readers() {
        assert_eq!([0, 1, 256].map(room), [BODY; 3]);
        for cases in [300, 1000, 10_000] {
            assert!(2 * cases * room(cases) <= BODIES, "{cases}");
        }
        assert_eq!(room(1_000_000), LEAST);
        for text in ["]]>", "x\n", "::a\n", "\u{202e}"] {
            let inside = section(&text.repeat(10_000), 5000);
            let inside = escape(&inside);
            assert!(
                (500..=5000).contains(&inside.len()),
                "{text:?}: {}",
                inside.len()
            );
        }
    }
}
