//! `junit.xml`, for the test reports of CI systems.
//!
//! One suite for each task file, one case for each task: no child for a pass, `failure` where the agent's work is not
//! acceptable, `error` where the harness or the provider did not work, `skipped` where the task was not started; `type`
//! is the outcome's name. The body of a failure begins with `file:line`, which annotating readers look for.
//!
//! The crate junit-report writes the document. It writes text raw into CDATA sections and attributes almost raw, so
//! **every** string passes [`xml`] first; and it leaves out what some readers trust, so `totals` goes
//! over its output once. It has no properties: they are the leading lines of `system-out`, in the form
//! that nextest, GitLab and Jenkins know (`[[PROPERTY|k=v]]`, `[[ATTACHMENT|path]]`). A text that imitates such a line
//! is broken.

mod totals;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Component, Path};
use std::time::Duration;

use junit_report::{ReportBuilder, TestCase, TestCaseBuilder, TestSuite, TestSuiteBuilder};

use super::summary::{Summary, TaskSummary};
use super::{account, sandbox};
use crate::outcome::Verdict;
use crate::text::{self, workflow, xml};

/// The longest attribute, in bytes. Readers show about this much.
const ATTRIBUTE: usize = 250;
/// The longest `message`, in bytes.
const MESSAGE: usize = 1000;
/// The longest body of a failure and the longest `system-out`, in bytes: less than what readers cut off at.
const BODY: usize = 32 * 1024;
/// What all bodies together may have, in bytes: GitLab refuses a file of 30 MB. Of many tasks, each gets less.
const BODIES: usize = 16 * 1024 * 1024;
/// What a body has however many tasks there are, in bytes.
const LEAST: usize = 512;

/// The report as XML.
///
/// # Errors
/// None in practice: writing into memory does not fail, and a start beyond the year 9999 is not formatted.
pub fn render(summary: &Summary) -> io::Result<String> {
    let suites = suites(summary);
    let mut raw = Vec::new();
    ReportBuilder::new()
        .add_testsuites(suites.iter().map(|suite| suite.suite.clone()))
        .build()
        .write_xml(&mut raw)
        .map_err(io::Error::other)?;
    totals::add(&raw, &suites)
}

/// A suite with what junit-report cannot say of it.
struct Suite {
    suite: TestSuite,
    /// The line of each case.
    lines: Vec<u32>,
}

/// One suite for each file, in the order in which files come up in the plan.
fn suites(summary: &Summary) -> Vec<Suite> {
    let mut order: Vec<&str> = Vec::new();
    let mut by_file: HashMap<&str, Vec<&TaskSummary>> = HashMap::new();
    for task in &summary.tasks {
        let tasks = by_file.entry(&task.file).or_default();
        if tasks.is_empty() {
            order.push(&task.file);
        }
        tasks.push(task);
    }
    if order.is_empty() {
        // An empty document looks like a crash to some readers; a suite without cases does not.
        order.push("");
    }
    let mut taken = HashSet::new();
    let room = room(summary.tasks.len());
    order
        .into_iter()
        .map(|file| {
            let tasks = by_file.remove(file).unwrap_or_default();
            let name = if file.is_empty() { "agent-batch" } else { file };
            let started = tasks.iter().filter_map(|task| task.started_at).min();
            let mut builder = TestSuiteBuilder::new(&xml::attribute(name, ATTRIBUTE));
            builder.set_timestamp(
                started
                    .unwrap_or(summary.plan.started_at)
                    .to_offset(time::UtcOffset::UTC),
            );
            for task in &tasks {
                builder.add_testcase(case(task, &summary.dir, room, &mut taken));
            }
            let mut suite = builder.build();
            suite.package = class_name(file);
            Suite {
                suite,
                lines: tasks.iter().map(|task| task.line).collect(),
            }
        })
        .collect()
}

/// The longest body and the longest `system-out` of a case, when there are that many, in bytes.
fn room(cases: usize) -> usize {
    (BODIES / (2 * cases.max(1))).clamp(LEAST, BODY)
}

fn case(
    task: &TaskSummary,
    dir: &str,
    room: usize,
    taken: &mut HashSet<(String, String)>,
) -> TestCase {
    let row = task.outcome.row();
    let class = class_name(&task.file);
    let name = unique(&class, xml::attribute(&task.name, ATTRIBUTE), taken);
    let span = Duration::from_millis(task.duration_ms);
    let span = junit_report::Duration::try_from(span).unwrap_or(junit_report::Duration::MAX);
    let message = xml::attribute(&text::one_line(&task.message, MESSAGE), MESSAGE);
    let message = if message.is_empty() {
        row.meaning.to_owned()
    } else {
        message
    };
    let mut builder = match row.verdict {
        Verdict::Passed => TestCaseBuilder::success(&name, span),
        Verdict::Failed => TestCaseBuilder::failure(&name, span, row.name, &message),
        Verdict::Errored => TestCaseBuilder::error(&name, span, row.name, &message),
        Verdict::Skipped => TestCaseBuilder::skipped_with_cause(&name, row.name, &message),
    };
    builder.set_classname(&class);
    let file = relative(&task.file);
    if !file.is_empty() {
        builder.set_filepath(&xml::attribute(&file, ATTRIBUTE * 4));
    }
    builder.set_trace(&section(&body(task, dir), room));
    if task.attempt > 0 {
        builder.set_system_out(&section(&system_out(task, dir), room));
    }
    builder.build()
}

/// The account of a task that did not pass.
fn body(task: &TaskSummary, dir: &str) -> String {
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
    unmarked(&lines.join("\n"))
}

/// Properties, attachments, earlier attempts, then the end of the reply.
fn system_out(task: &TaskSummary, dir: &str) -> String {
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
        (
            "cost_usd",
            task.cost.map_or("unknown".to_owned(), |cost| {
                format!("{:.6}", cost.dollars())
            }),
        ),
        ("stop_reasons", reasons.join(", ")),
    ];
    let mut out = String::new();
    for (key, value) in properties {
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
    for earlier in &task.earlier {
        let message = text::one_line(&earlier.message, MESSAGE);
        let line = format!(
            "attempt {}: {}: {message}\n",
            earlier.attempt,
            earlier.outcome.name()
        );
        out.push_str(&unmarked(&line));
    }
    if !task.reply.trim().is_empty() {
        out.push('\n');
        out.push_str(&unmarked(&task.reply));
    }
    out
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

/// The inside of a CDATA section, at most `room` bytes as it is written.
fn section(text: &str, room: usize) -> String {
    // Some readers print `system-out` into the log of the job, so it must not command there either.
    let shown = workflow::inert(&text::visible(&text::plain(text)));
    // A split end mark takes five times its room, so a text that is made of them is clipped again.
    let mut share = room;
    loop {
        let inside = xml::cdata(&xml::content(&shown, share));
        if inside.len() <= room {
            return inside;
        }
        share /= 2;
    }
}

/// `tasks/fix.yaml` as `tasks.fix`: readers group by it.
fn class_name(file: &str) -> String {
    let path = relative(file);
    let stem = path
        .strip_suffix(".yaml")
        .or_else(|| path.strip_suffix(".yml"))
        .unwrap_or(&path);
    let class = xml::attribute(&stem.replace('/', "."), ATTRIBUTE);
    if class.is_empty() {
        "agent-batch".to_owned()
    } else {
        class
    }
}

/// A path without root, `.` and `..`, with `/`.
pub(super) fn relative(path: &str) -> String {
    let path = path.replace('\\', "/");
    let names: Vec<&str> = Path::new(&path)
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect();
    names.join("/")
}

/// A name that no other case of the class has: readers drop the second of two.
fn unique(class: &str, name: String, taken: &mut HashSet<(String, String)>) -> String {
    let name = if name.is_empty() {
        "unnamed".to_owned()
    } else {
        name
    };
    let mut candidate = name.clone();
    let mut number = 1_u64;
    while !taken.insert((class.to_owned(), candidate.clone())) {
        number += 1;
        candidate = format!("{name} ({number})");
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_and_classes_are_dotted() {
        assert_eq!(relative("./tasks/../a\\b.yaml"), "tasks/a/b.yaml");
        assert_eq!(relative("/etc/passwd"), "etc/passwd");
        assert_eq!(class_name("tasks/fix.v1.yaml"), "tasks.fix.v1");
        assert_eq!(class_name(""), "agent-batch");
    }

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
            assert!(
                (500..=5000).contains(&inside.len()),
                "{text:?}: {}",
                inside.len()
            );
        }
    }

    #[test]
    fn two_cases_never_have_one_name() {
        let mut taken = HashSet::new();
        let names = ["a", "a", "a (2)", ""].map(|name| unique("c", name.into(), &mut taken));
        assert_eq!(names, ["a", "a (2)", "a (2) (2)", "unnamed"]);
    }
}
