//! The pages for a step summary and a comment: bounded, and Markdown in which nobody but us says anything.

use agent_batch::event::{Event, Kind};
use agent_batch::outcome::{Outcome, Stop};
use agent_batch::report::{RunPlan, Summary, github, gitlab, page};
use pulldown_cmark::{CodeBlockKind, Event as Piece, Options, Parser, Tag, TagEnd};
use serde_json::Value;

use crate::report::{
    HOSTILE, START, Script, call, check, decided, finished, fold, hostile, planned, prompt,
    readable, replied, started, step,
};
use agent_batch::event::CheckResult;

/// What a reader of Markdown finds on a page.
#[derive(Debug, Default)]
struct Found {
    headings: usize,
    rows: usize,
    fences: usize,
    html: Vec<String>,
    /// What is no code.
    text: String,
}

/// Reads a page as GitHub does, with tables, footnotes, task lists and strikethrough; nothing on it may be a link or an image.
fn read(page: &str) -> Found {
    let mut found = Found::default();
    let mut in_code = false;
    for piece in Parser::new_ext(page, Options::all()) {
        match piece {
            Piece::Start(Tag::Heading { .. }) => found.headings += 1,
            Piece::Start(Tag::TableRow) => found.rows += 1,
            Piece::Start(Tag::CodeBlock(kind)) => {
                assert!(matches!(kind, CodeBlockKind::Fenced(word) if &*word == "text"));
                found.fences += 1;
                in_code = true;
            }
            Piece::End(TagEnd::CodeBlock) => in_code = false,
            Piece::Html(html) | Piece::InlineHtml(html) => found.html.push(html.to_string()),
            Piece::Text(text) if !in_code => found.text.push_str(&text),
            Piece::Start(
                Tag::Paragraph
                | Tag::Table(_)
                | Tag::TableHead
                | Tag::TableCell
                | Tag::List(None)
                | Tag::Item
                | Tag::HtmlBlock,
            )
            | Piece::End(_)
            | Piece::Text(_)
            | Piece::Code(_)
            | Piece::SoftBreak => {}
            other => panic!("nothing of ours: {other:?}"),
        }
    }
    found
}

fn assert_ours(found: &Found) {
    for foreign in [
        "@",
        "fixes",
        "http",
        "evil",
        "alert",
        "::",
        "set-output",
        "[[",
    ] {
        let text = &found.text;
        assert!(!text.contains(foreign), "`{foreign}` is no code: {text}");
    }
}

/// Tasks that each say `text` wherever they can say anything, and fail.
fn talkative(tasks: usize, text: &str) -> (RunPlan, Vec<Event>) {
    let names: Vec<String> = (0..tasks).map(|n| format!("task-{n}")).collect();
    let plan = names.iter().map(|name| planned(name, "tasks/a.yaml", 1));
    let plan = RunPlan::new("0.1.0", START, 2, plan.collect());
    let odd = call("t1", "Bash", serde_json::json!({ "command": HOSTILE }));
    let events = names.iter().flat_map(|name| {
        let Kind::TaskFinished(mut end) = finished(Stop::Completed, Outcome::Denied, text) else {
            unreachable!()
        };
        text.clone_into(&mut end.reply);
        Script::new(name, 1)
            .then(started("tasks/a.yaml", "default"))
            .then(prompt(text))
            .then(step(1))
            .then(replied(1, text, std::slice::from_ref(&odd)))
            .then(decided(1, &odd, false, text))
            .then(check(CheckResult::Failed, text))
            .then(Kind::TaskFinished(end))
            .events
    });
    (plan, events.collect())
}

#[test]
fn three_hundred_tasks_of_a_megabyte_of_text_each_are_a_page_that_github_takes() {
    let megabyte = format!("{HOSTILE}\n").repeat(1024 * 1024 / HOSTILE.len());
    let mut summary = Summary::new(talkative(300, "").0, "agent-batch-results");
    // One after the other: together they would be gigabytes.
    let (_, mut events) = talkative(1, &megabyte);
    for n in 0..300 {
        for event in &mut events {
            event.task = format!("task-{n}");
            summary.fold(event);
        }
    }
    let page = page::step_summary(&summary);
    assert!(page.len() <= 900 * 1024, "{}", page.len());
    let found = read(&page);
    assert_eq!((found.rows, found.headings, found.fences), (300, 301, 300));
    assert_eq!(found.html, Vec::<String>::new());
    assert_ours(&found);

    let comment = page::comment(&summary);
    assert!(comment.chars().count() <= 65_536, "{}", comment.len());
    let found = read(&comment);
    assert_eq!(found.html, [format!("{}\n", page::COMMENT_MARK)]);
    assert!(found.rows > 100 && found.text.contains("Left out for want of room"));
    assert_ours(&found);

    let annotations = github::annotations(&summary);
    assert_eq!(annotations.len(), 10);
    assert!(
        annotations[9].contains("291 more errors"),
        "{}",
        annotations[9]
    );
    // GitLab compares by the fingerprint, so each is there once.
    let entries: Value = serde_json::from_str(&gitlab::code_quality(&summary).unwrap()).unwrap();
    let mut prints: Vec<&str> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["fingerprint"].as_str().unwrap())
        .collect();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 300);
}

#[test]
fn a_page_of_hostile_tasks_is_ours_alone() {
    let (plan, events) = hostile();
    let summary = fold(plan, &events);
    for page in [page::step_summary(&summary), page::comment(&summary)] {
        let found = read(&page);
        assert!(found.html.len() <= 1, "{:?}", found.html);
        assert_ours(&found);
    }
}

#[test]
fn a_comment_tells_only_what_somebody_has_to_look_at() {
    let (plan, events) = readable();
    insta::assert_snapshot!(page::comment(&fold(plan, &events)));
}

#[test]
fn gitlab_shows_each_task_on_its_line_worst_first() {
    let (plan, events) = readable();
    insta::assert_snapshot!(gitlab::code_quality(&fold(plan, &events)).unwrap());
    let (plan, events) = hostile();
    let report = gitlab::code_quality(&fold(plan, &events)).unwrap();
    let entries: Value = serde_json::from_str(&report).unwrap();
    for entry in entries.as_array().unwrap() {
        let path = entry["location"]["path"].as_str().unwrap();
        assert!(
            !path.starts_with('/') && !path.contains(".."),
            "paths lead into the repository: {path}"
        );
        let description = entry["description"].as_str().unwrap();
        assert!(description.len() <= 500);
        assert!(!description.contains(|c: char| c.is_control() || c == '\u{202e}'));
    }
}
