//! A run of every outcome, full of hostile text: written, read back, folded and rendered.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as loudly as tests"
)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_batch::clock::Clock;
use agent_batch::event::{
    AssistantReplied, Change, ChangeKind, CheckFinished, CheckResult, Emitter, Event, HookFinished,
    HookResult, Kind, RuleRecord, Sink, TaskFinished, TaskStarted, ToolDecided, ToolFinished,
    ToolResultKind, VERSION, WorkspaceCompared,
};
use agent_batch::message::{Block, Message, ToolCall};
use agent_batch::outcome::{Exit, OnDenied, Outcome, Stop, Verdict};
use agent_batch::redact::{Redactor, Secret};
use agent_batch::report::{
    self, Forms, PlannedTask, RunPlan, Summary, account,
    console::Console,
    files, github, json,
    junit::{self, Dialect},
    page, run_dir, show, transcript,
};
use agent_batch::usage::{Usage, Usd};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::datetime;

pub(crate) const START: OffsetDateTime = datetime!(2026-01-02 03:04:05 UTC);

/// Everything that ends, hides, commands or links somewhere.
pub(crate) const HOSTILE: &str = "]]> \0\u{1b}[31mred\u{1b}]0;t\u{7} \u{fffe}::error::x\n::set-output name=a::b\r##[add-mask]x\n\
    <script>alert(1)</script> [[ATTACHMENT|/etc/passwd]] ```\n@team fixes #1 \u{202e}evil\u{200b} ![i](http://e) |`| & \" ' \
    </title></style></script></pre></details><img src=http://canary.invalid/x onerror=canary=1><svg/onload=canary=1> \
    <a href=javascript:canary=1>x</a> \" autofocus onfocus=\"canary=1\" style=\"background:url(http://canary.invalid/y)\" <!-- <script>canary=1</script> \
    <meta http-equiv=refresh content=0;url=http://canary.invalid/z><base href=http://canary.invalid/>";

pub(crate) fn planned(name: &str, file: &str, line: u32) -> PlannedTask {
    PlannedTask {
        name: name.into(),
        file: file.into(),
        line,
        model: "scripted/replies".into(),
        mode: "default".into(),
        tags: vec!["nightly".into()],
        isolation: "copy".into(),
        on_denied: OnDenied::Fail,
        ..PlannedTask::default()
    }
}

/// Numbers and dates the events of one attempt.
pub(crate) struct Script {
    task: String,
    attempt: u32,
    pub(crate) events: Vec<Event>,
}

impl Script {
    pub(crate) fn new(task: &str, attempt: u32) -> Self {
        Self {
            task: task.into(),
            attempt,
            events: Vec::new(),
        }
    }

    pub(crate) fn then(mut self, kind: Kind) -> Self {
        let seq = self.events.len() as u64;
        self.events.push(Event {
            v: VERSION,
            at: START + Duration::from_millis(100 * (seq + 1)),
            task: self.task.clone(),
            attempt: self.attempt,
            seq,
            kind,
        });
        self
    }
}

fn rule(rule: &str) -> RuleRecord {
    RuleRecord {
        rule: rule.into(),
        source: "task, tasks/a.yaml:9".into(),
    }
}

pub(crate) fn started(file: &str, mode: &str) -> Kind {
    Kind::TaskStarted(Box::new(TaskStarted {
        trial: 0,
        file: file.into(),
        line: 1,
        description: "Makes it quiet".into(),
        tags: vec![],
        model: "scripted/replies".into(),
        mode: mode.into(),
        allow: vec![rule("Edit(src/**)"), rule("Bash(cargo test:*)")],
        deny: vec![rule("Read(**/*.pem)")],
        on_denied: OnDenied::Fail,
        limits: json!({"max_steps": 3}),
        workspace: ".".into(),
        isolation: "copy".into(),
        sandbox: agent_batch::event::SandboxRecord::default(),
        system: "s".into(),
        tools: vec![],
        hooks_sha256: "0".into(),
        turns: 1,
        program_version: "0.1.0".into(),
        config_commit: None,
    }))
}

pub(crate) fn prompt(text: &str) -> Kind {
    Kind::PromptAppended {
        turn: 1,
        origin: "prompt".into(),
        text: text.into(),
    }
}

pub(crate) fn step(step: u32) -> Kind {
    Kind::StepStarted {
        step,
        turn: 1,
        max_tokens: 1000,
    }
}

pub(crate) fn call(id: &str, name: &str, input: serde_json::Value) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: name.into(),
        input,
    }
}

pub(crate) fn replied(step: u32, text: &str, calls: &[ToolCall]) -> Kind {
    let mut blocks = vec![Block::text(text)];
    blocks.extend(calls.iter().map(Block::tool_use));
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 200,
        ..Usage::default()
    };
    let total_usage = Usage {
        input_tokens: 1000 * u64::from(step),
        output_tokens: 200 * u64::from(step),
        ..Usage::default()
    };
    Kind::AssistantReplied(Box::new(AssistantReplied {
        step,
        turn: 1,
        message: Message::assistant(blocks),
        stop_reason: Some(
            if calls.is_empty() {
                "end_turn"
            } else {
                "tool_use"
            }
            .into(),
        ),
        route: if calls.is_empty() { "end" } else { "tool_use" }.into(),
        usage,
        cost: Some(Usd::from_nanos(4_000_000)),
        total_usage,
        total_cost: Some(Usd::from_nanos(4_000_000 * u64::from(step))),
        request_id: None,
        duration_ms: 800,
    }))
}

pub(crate) fn decided(step: u32, call: &ToolCall, allowed: bool, reason: &str) -> Kind {
    Kind::ToolDecided(Box::new(ToolDecided {
        step,
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        input: call.input.clone(),
        allowed,
        would_ask: !allowed,
        mode: "default".into(),
        class: if allowed { "rule" } else { "mode" }.into(),
        reason: reason.into(),
        rule: allowed.then(|| rule("Bash(cargo test:*)")),
        further_rules: Vec::new(),
        suggestion: (!allowed).then(|| "Bash(git push:*)".into()),
    }))
}

pub(crate) fn answered(step: u32, call: &ToolCall, result: ToolResultKind, content: &str) -> Kind {
    Kind::ToolFinished(Box::new(ToolFinished {
        step,
        tool_use_id: call.id.clone(),
        name: call.name.clone(),
        result,
        content: content.into(),
        output_file: None,
        output_bytes: content.len() as u64,
        duration_ms: 50,
    }))
}

pub(crate) fn check(result: CheckResult, message: &str) -> Kind {
    Kind::CheckFinished(Box::new(CheckFinished {
        index: 0,
        check: "command".into(),
        title: "cargo test".into(),
        result,
        message: message.lines().next().unwrap_or_default().into(),
        details: message.lines().skip(1).collect::<Vec<_>>().join("\n"),
        spent: None,
        expected_denials: Vec::new(),
        duration_ms: 900,
    }))
}

pub(crate) fn finished(stop: Stop, outcome: Outcome, message: &str) -> Kind {
    Kind::TaskFinished(Box::new(TaskFinished {
        stop,
        outcome,
        message: message.into(),
        reply: "All done.".into(),
        turns_skipped: 0,
        leaked_processes: 0,
        duration_ms: 1500,
    }))
}

/// The stop behind an outcome; checks and denials come after a completed loop.
fn stop_of(outcome: Outcome) -> Stop {
    serde_json::from_value(json!(outcome.name())).unwrap_or(Stop::Completed)
}

/// A run with one readable task of each kind that people meet.
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
pub(crate) fn readable() -> (RunPlan, Vec<Event>) {
    let test = call("t1", "Bash", json!({"command": "cargo test"}));
    let push = call("t2", "Bash", json!({"command": "git push"}));
    let good = Script::new("good", 1)
        .then(started("tasks/a.yaml", "default"))
        .then(prompt("Make the tests pass."))
        .then(step(1))
        .then(replied(1, "I run the tests.", std::slice::from_ref(&test)))
        .then(decided(1, &test, true, "an allow rule matches"))
        .then(answered(1, &test, ToolResultKind::Ok, "test result: ok"))
        .then(Kind::ResultsAppended {
            step: 1,
            tool_use_ids: vec!["t1".into()],
        })
        .then(step(2))
        .then(replied(2, "All done.", &[]))
        .then(Kind::WorkspaceCompared(Box::new(WorkspaceCompared {
            changes: vec![Change {
                path: "src/a.rs".into(),
                kind: ChangeKind::Modified,
            }],
            ..WorkspaceCompared::default()
        })))
        .then(check(CheckResult::Passed, ""))
        .then(finished(
            Stop::Completed,
            Outcome::Completed,
            "completed in 2 steps",
        ));
    let denied = Script::new("pushes", 1)
        .then(started("tasks/a.yaml", "default"))
        .then(prompt("Fix it."))
        .then(step(1))
        .then(Kind::ModelRetried {
            step: 1,
            attempt: 1,
            delay_ms: 2000,
            reason: "429: rate limited".into(),
        })
        .then(replied(1, "I push.", std::slice::from_ref(&push)))
        .then(Kind::HookFinished(Box::new(HookFinished {
            event: "PreToolUse".into(),
            hook: "./hooks/slow.sh".into(),
            tool_use_id: Some("t2".into()),
            result: HookResult::Failed,
            message: "no answer within 10s".into(),
            rewrite: None,
            duration_ms: 10_000,
        })))
        .then(decided(1, &push, false, "no allow rule matches `git push`"))
        .then(answered(1, &push, ToolResultKind::Denied, "denied"))
        .then(step(2))
        .then(replied(2, "I could not push.", &[]))
        .then(check(
            CheckResult::Failed,
            "running 1 test\ntest a ... FAILED\n",
        ))
        .then(finished(
            Stop::Completed,
            Outcome::Denied,
            "1 action was denied, 1 check failed",
        ));
    let first = Script::new("flaky", 1)
        .then(started("tasks/b.yaml", "bypassPermissions"))
        .then(step(1))
        .then(replied(1, "x", &[]))
        .then(finished(
            Stop::ApiError,
            Outcome::ApiError,
            "529: overloaded",
        ));
    let second = Script::new("flaky", 2)
        .then(started("tasks/b.yaml", "bypassPermissions"))
        .then(step(1))
        .then(replied(1, "Fine.", &[]))
        .then(finished(
            Stop::Completed,
            Outcome::Completed,
            "completed in 1 step",
        ));
    let killed = Script::new("killed", 1)
        .then(started("tasks/c.yaml", "default"))
        .then(step(1))
        .then(replied(1, "I run them.", std::slice::from_ref(&test)))
        .then(decided(1, &test, true, "an allow rule matches"));
    let plan = RunPlan::new(
        "0.1.0",
        START,
        2,
        vec![
            planned("good", "tasks/a.yaml", 1),
            planned("pushes", "tasks/a.yaml", 20),
            planned("flaky", "tasks/b.yaml", 1),
            planned("killed", "tasks/c.yaml", 1),
            planned("never", "tasks/c.yaml", 30),
        ],
    );
    let events = [good, denied, first, second, killed];
    (
        plan,
        events
            .into_iter()
            .flat_map(|script| script.events)
            .collect(),
    )
}

/// A run of every outcome in which every text that can be hostile is.
pub(crate) fn hostile() -> (RunPlan, Vec<Event>) {
    let mut tasks = Vec::new();
    let mut events = Vec::new();
    for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
        let name = match index {
            0 => format!("{HOSTILE}{}", "n".repeat(10_000)),
            1 => HOSTILE.to_owned(),
            _ => format!("{} {HOSTILE}", outcome.name()),
        };
        let file = format!("tasks/{}{HOSTILE}.yaml", index % 3);
        let mut task = planned(&name, &file, 1);
        task.model = HOSTILE.into();
        tasks.push(task);
        if outcome == Outcome::NotRun {
            continue;
        }
        let odd = call(HOSTILE, HOSTILE, json!({HOSTILE: HOSTILE}));
        let result = match outcome {
            Outcome::Completed => CheckResult::Passed,
            Outcome::CheckError => CheckResult::Errored,
            _ => CheckResult::Failed,
        };
        let answer = match outcome {
            Outcome::Denied => ToolResultKind::Denied,
            _ => ToolResultKind::Error,
        };
        let Kind::TaskStarted(mut start) = started(&file, HOSTILE) else {
            unreachable!()
        };
        start.model = HOSTILE.into();
        start.description = HOSTILE.into();
        let mut script = Script::new(&name, 1)
            .then(Kind::TaskStarted(start))
            .then(Kind::Warned {
                code: HOSTILE.into(),
                message: HOSTILE.into(),
            })
            .then(prompt(HOSTILE))
            .then(step(1))
            .then(Kind::ModelRetried {
                step: 1,
                attempt: 1,
                delay_ms: 1,
                reason: HOSTILE.into(),
            })
            .then(replied(1, HOSTILE, &vec![odd.clone(); 4]))
            .then(Kind::HookFinished(Box::new(HookFinished {
                event: HOSTILE.into(),
                hook: HOSTILE.into(),
                tool_use_id: None,
                result: HookResult::Blocked,
                message: HOSTILE.into(),
                rewrite: None,
                duration_ms: 1,
            })))
            .then(decided(1, &odd, index % 2 == 0, HOSTILE))
            .then(answered(1, &odd, answer, HOSTILE))
            .then(Kind::WorkspaceCompared(Box::new(WorkspaceCompared {
                changes: vec![Change {
                    path: HOSTILE.into(),
                    kind: ChangeKind::Added,
                }],
                ..WorkspaceCompared::default()
            })))
            .then(check(result, &format!("{HOSTILE}\n").repeat(200)));
        if outcome != Outcome::Unfinished {
            let Kind::TaskFinished(mut end) = finished(stop_of(outcome), outcome, HOSTILE) else {
                unreachable!()
            };
            end.reply = format!("{HOSTILE}\n").repeat(500);
            script = script.then(Kind::TaskFinished(end));
        }
        events.extend(script.events);
    }
    (RunPlan::new("0.1.0", START, 2, tasks), events)
}

pub(crate) fn fold(plan: RunPlan, events: &[Event]) -> Summary {
    let mut summary = Summary::new(plan, "agent-batch-results");
    for event in events {
        summary.fold(event);
    }
    summary
}

/// Writes a run directory as a run does.
pub(crate) fn record(directory: &Path, plan: &RunPlan, events: &[Event]) {
    files::write(
        &directory.join(run_dir::PLAN),
        plan.to_json().unwrap().as_bytes(),
    )
    .unwrap();
    let mut open: HashMap<String, transcript::Writer> = HashMap::new();
    for event in events {
        let path = run_dir::transcript(&event.task, event.attempt);
        let writer = open.entry(path.clone()).or_insert_with(|| {
            let path = directory.join(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            transcript::Writer::create(&path).unwrap()
        });
        writer.accept(event).unwrap();
    }
}

/// Lines without a chain as a run would write them, by what the documentation says of the chain.
pub(crate) fn chained(lines: &[impl AsRef<str>]) -> String {
    let mut link = Link::default();
    lines.iter().map(|line| link.line(line.as_ref())).collect()
}

/// Chains lines that come one by one.
#[derive(Default)]
pub(crate) struct Link(String);

impl Link {
    pub(crate) fn line(&mut self, line: &str) -> String {
        let open = line.trim_end().strip_suffix('}').unwrap();
        let digest = Sha256::new().chain_update(&self.0).chain_update(open);
        let digest = digest.finalize();
        self.0 = agent_batch::text::hex(&digest[..16]);
        format!("{open},\"chain\":\"{}\"}}\n", self.0)
    }
}

fn account_of(summary: &Summary) -> String {
    let mut out = Vec::new();
    account::write(&mut out, summary).unwrap();
    String::from_utf8(out).unwrap()
}

fn console_of(events: &[Event]) -> String {
    let mut console = Console::new(Vec::new());
    for event in events {
        console.accept(event).unwrap();
    }
    String::from_utf8(console.into_inner()).unwrap()
}

fn shown(events: &[Event], colour: show::Colour) -> String {
    let mut out = Vec::new();
    show::write(
        &mut out,
        events.iter().cloned().map(Ok),
        &show::Filter::default(),
        colour,
    )
    .unwrap();
    String::from_utf8(out).unwrap()
}

/// Whether a CI system would obey a line, or a terminal a character.
fn assert_inert(log: &str) {
    for line in log.split(['\n', '\r']) {
        assert!(!line.trim_start().starts_with("::"), "{line:?}");
        assert!(!line.contains("##["), "{line:?}");
    }
    let acts = |c: char| {
        (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c) || c == '\u{fffe}'
    };
    assert!(!log.contains(acts), "{:?}", log.chars().find(|c| acts(*c)));
}

/// What a strict reader finds in a JUnit document.
#[derive(Debug, Default)]
struct Read {
    suites: Vec<[u64; 4]>,
    totals: [u64; 4],
    cases: Vec<Case>,
}

#[derive(Debug, Default)]
struct Case {
    class: String,
    name: String,
    result: String,
    kind: String,
    text: String,
    /// Earlier attempts.
    reruns: u64,
}

/// Reads strictly: legal characters, matching ends, no entity that XML does not know, no element that is not ours.
fn read_junit(xml: &str) -> Read {
    use quick_xml::XmlVersion;
    use quick_xml::events::{BytesStart, Event as Xml};
    let legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(legal));
    let attribute = |start: &BytesStart<'_>, name: &str| {
        start
            .attributes()
            .map(|attribute| attribute.expect("attributes are well-formed and unique"))
            .find(|attribute| attribute.key.as_ref() == name.as_bytes())
            .map(|attribute| {
                attribute
                    .normalized_value(XmlVersion::Implicit1_0)
                    .unwrap()
                    .into_owned()
            })
    };
    let counts = |start: &BytesStart<'_>| {
        ["tests", "failures", "errors", "skipped"]
            .map(|name| attribute(start, name).unwrap().parse().unwrap())
    };
    let mut reader = quick_xml::Reader::from_str(xml);
    reader.config_mut().check_comments = true;
    let mut read = Read::default();
    let mut depth = 0;
    loop {
        let event = reader.read_event().unwrap();
        let empty = matches!(event, Xml::Empty(_));
        match event {
            Xml::Eof => break,
            Xml::Start(start) | Xml::Empty(start) => {
                depth += usize::from(!empty);
                match start.name().as_ref() {
                    b"testsuites" => read.totals = counts(&start),
                    b"testsuite" => {
                        assert_eq!(attribute(&start, "timestamp").unwrap().len(), 19);
                        read.suites.push(counts(&start));
                    }
                    b"testcase" => {
                        let time = attribute(&start, "time").unwrap();
                        assert_eq!(time.split_once('.').unwrap().1.len(), 3, "{time}");
                        assert!(attribute(&start, "line").unwrap().parse::<u32>().unwrap() > 0);
                        read.cases.push(Case {
                            class: attribute(&start, "classname").unwrap(),
                            name: attribute(&start, "name").unwrap(),
                            ..Case::default()
                        });
                    }
                    b"failure" | b"error" | b"skipped" => {
                        let case = read.cases.last_mut().unwrap();
                        assert!(case.result.is_empty(), "two results in {}", case.name);
                        case.result = String::from_utf8(start.name().as_ref().to_vec()).unwrap();
                        case.kind = attribute(&start, "type").unwrap();
                        assert!(!attribute(&start, "message").unwrap().is_empty());
                    }
                    b"system-out" | b"properties" | b"stackTrace" => {}
                    b"property" => {
                        assert!(!attribute(&start, "name").unwrap().is_empty());
                        attribute(&start, "value").unwrap();
                    }
                    b"flakyFailure" | b"rerunFailure" => {
                        read.cases.last_mut().unwrap().reruns += 1;
                        assert!(!attribute(&start, "message").unwrap().is_empty());
                        assert!(!attribute(&start, "type").unwrap().is_empty());
                    }
                    other => panic!("an element of nobody: {}", String::from_utf8_lossy(other)),
                }
            }
            Xml::Text(text) => {
                let text = text.decode().unwrap();
                match read.cases.last_mut() {
                    Some(case) => case.text.push_str(&text),
                    None => assert_eq!(text.trim(), ""),
                }
            }
            Xml::GeneralRef(entity) => {
                let text = match &*entity {
                    b"lt" => "<",
                    b"gt" => ">",
                    b"amp" => "&",
                    other => panic!("an entity of nobody: {}", String::from_utf8_lossy(other)),
                };
                read.cases.last_mut().unwrap().text.push_str(text);
            }
            Xml::End(_) => depth -= 1,
            Xml::Decl(_) => {}
            other => panic!("an event of nobody: {other:?}"),
        }
    }
    assert_eq!(depth, 0, "an element is not closed");
    read
}

#[test]
fn the_account_tells_what_a_person_needs_to_act() {
    let (plan, events) = readable();
    insta::assert_snapshot!(account_of(&fold(plan, &events)));
}

#[test]
fn the_console_says_each_fact_once() {
    insta::assert_snapshot!(console_of(&readable().1));
}

#[test]
fn the_junit_report_reads_like_the_run() {
    let (plan, events) = readable();
    let summary = fold(plan, &events);
    let xml = junit::render(&summary, Dialect::Common).unwrap();
    let read = read_junit(&xml);
    assert_eq!(read.totals, [5, 1, 1, 1]);
    let reruns: Vec<u64> = read.cases.iter().map(|case| case.reruns).collect();
    assert_eq!(reruns, [0, 0, 1, 0, 0]);
    // One element a line, for the eye.
    let xml = xml.replace("><", ">\n<");
    insta::assert_snapshot!(xml.replace(&summary.plan.plan_sha256, "PLAN"));
}

#[test]
fn the_step_summary_is_a_page_of_markdown() {
    let (plan, events) = readable();
    insta::assert_snapshot!(page::step_summary(&fold(plan, &events)));
}

#[test]
fn annotations_and_outputs_are_what_the_runner_reads() {
    let (plan, events) = readable();
    let summary = fold(plan, &events);
    let outputs = github::outputs(&summary, &"d".repeat(32)).unwrap();
    insta::assert_snapshot!(format!(
        "{}\n\n{outputs}",
        github::annotations(&summary).join("\n")
    ));
    assert!(github::outputs(&summary, "short").is_err());
    let mut odd = summary.clone();
    odd.dir = "d".repeat(32);
    assert!(github::outputs(&odd, &"d".repeat(32)).is_err());
}

#[test]
fn a_transcript_is_shown_for_a_person() {
    let (_, events) = readable();
    let pushes: Vec<Event> = events
        .into_iter()
        .filter(|event| event.task == "pushes")
        .collect();
    insta::assert_snapshot!(shown(&pushes, show::Colour::Off));
    let coloured = shown(&pushes, show::Colour::On);
    assert!(coloured.contains("\u{1b}[31m"), "{coloured}");
}

#[test]
fn the_json_report_has_a_version_and_the_exit_code() {
    let (plan, events) = readable();
    let text = json::render(&fold(plan, &events)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["version"], 1);
    assert_eq!(report["exit_code"], 1);
    assert_eq!(report["conclusion"], "failure");
    assert_eq!(report["totals"]["tokens"]["total"], 8400);
    let outcomes: Vec<&str> = report["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        ["completed", "denied", "completed", "unfinished", "not_run"]
    );
    assert_eq!(
        report["tasks"][1]["denials"]["items"][0]["suggestion"],
        "Bash(git push:*)"
    );
}

#[test]
fn the_fold_knows_what_happened() {
    let (plan, events) = readable();
    let summary = fold(plan, &events);
    let good = summary.task("good").unwrap();
    assert_eq!((good.steps, good.tool_calls, good.turns_done), (2, 1, 1));
    assert_eq!(good.unused_allow, [rule("Edit(src/**)")]);
    assert_eq!(good.transcript.as_deref(), Some("good/1/transcript.jsonl"));
    let pushes = summary.task("pushes").unwrap();
    assert_eq!(
        (pushes.denials.total, pushes.retries, pushes.hooks_failed),
        (1, 1, 1)
    );
    let flaky = summary.task("flaky").unwrap();
    assert_eq!((flaky.attempt, flaky.earlier.len()), (2, 1));
    assert_eq!(flaky.verdict(), Verdict::Passed);
    let killed = summary.task("killed").unwrap();
    assert_eq!(killed.outcome, Outcome::Unfinished);
    assert_eq!(killed.doing, "running `Bash` in step 1: cargo test");
    let never = summary.task("never").unwrap();
    assert_eq!(
        (never.outcome, never.transcript.as_deref()),
        (Outcome::NotRun, None)
    );
    let totals = summary.totals();
    assert_eq!(
        (totals.steps, totals.cost),
        (7, Usd::from_nanos(28_000_000))
    );
    assert_eq!(summary.exit(), Exit::Failed);
}

#[test]
fn a_turn_that_a_hook_opens_again_is_not_done() {
    let stop_hook = Kind::PromptAppended {
        turn: 1,
        origin: "stop_hook".into(),
        text: "not yet".into(),
    };
    let (plan, _) = readable();
    let script = Script::new("good", 1)
        .then(started("tasks/a.yaml", "default"))
        .then(prompt("go"))
        .then(replied(1, "Done.", &[]));
    assert_eq!(fold(plan.clone(), &script.events).tasks[0].turns_done, 1);
    let script = script.then(stop_hook);
    assert_eq!(fold(plan, &script.events).tasks[0].turns_done, 0);
}

#[test]
fn a_line_that_is_missing_shows_as_damage() {
    let (plan, events) = readable();
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), &plan, &events);
    let path = directory.path().join(run_dir::transcript("good", 1));
    let text = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(n, _)| *n != 4)
        .map(|(_, line)| line)
        .collect();
    fs::write(&path, kept.join("\n")).unwrap();
    let loaded = run_dir::load(directory.path()).unwrap();
    assert_eq!(loaded.summary.task("good").unwrap().gaps, 1);
    let [gap, chain] = loaded.summary.damages.as_slice() else {
        panic!("{:?}", loaded.summary.damages);
    };
    assert_eq!(gap, "task `good`: its transcript lacks events at 1 place");
    assert!(
        chain.contains("transcript.jsonl:5: it does not continue the chain"),
        "{chain}"
    );
}

#[test]
fn nothing_proves_nothing_and_a_damaged_record_does_not_pass() {
    let none = Summary::new(RunPlan::new("0", START, 1, vec![]), "out");
    assert_eq!(none.exit(), Exit::Usage);
    assert_eq!(
        read_junit(&junit::render(&none, Dialect::Common).unwrap()).totals,
        [0; 4]
    );
    let (mut plan, events) = readable();
    plan.tasks.retain(|task| task.name == "good");
    let good: Vec<Event> = events
        .into_iter()
        .filter(|event| event.task == "good")
        .collect();
    let mut summary = fold(plan, &good);
    assert_eq!(summary.exit(), Exit::Passed);
    summary.damages.push("`]]><x>`: a line is lost".into());
    assert_eq!(summary.exit(), Exit::Infrastructure);
    // Who reads nothing but this file is told as well.
    let xml = junit::render(&summary, Dialect::Common).unwrap();
    assert!(
        xml.contains("type=\"damaged\"") && xml.contains("a line is lost"),
        "{xml}"
    );
    assert_eq!(read_junit(&xml).totals, [2, 0, 1, 0]);
    summary.signal = Some(15);
    assert_eq!(summary.exit().code(), 143);
}

#[test]
fn hostile_text_comes_to_nothing_in_any_report() {
    let (plan, events) = hostile();
    let summary = fold(plan, &events);
    assert_inert(&account_of(&summary));
    assert_inert(&console_of(&events));
    assert_inert(&shown(&events, show::Colour::Off));

    let xml = junit::render(&summary, Dialect::Common).unwrap();
    let read = read_junit(&xml);
    assert_eq!(read.cases.len(), Outcome::ALL.len());
    let names: HashSet<(&str, &str)> = read
        .cases
        .iter()
        .map(|case| (case.class.as_str(), case.name.as_str()))
        .collect();
    assert_eq!(names.len(), read.cases.len(), "names are unique");
    assert!(read.cases.iter().all(|case| case.name.len() <= 250));
    for case in &read.cases {
        let attached = case.text.matches("[[ATTACHMENT|").count();
        assert!(attached <= 1, "{attached} attachments in {}", case.text);
    }
    for (index, name) in ["tests", "failures", "errors", "skipped"]
        .iter()
        .enumerate()
    {
        let sum: u64 = read.suites.iter().map(|suite| suite[index]).sum();
        assert_eq!(read.totals[index], sum, "{name}");
    }
    let of = |verdict| {
        Outcome::ALL
            .iter()
            .filter(|outcome| outcome.verdict() == verdict)
            .count() as u64
    };
    let expected = [
        23,
        of(Verdict::Failed),
        of(Verdict::Errored),
        of(Verdict::Skipped),
    ];
    assert_eq!(read.totals, expected);

    let page = page::step_summary(&summary);
    assert_markdown_is_code(&page);
    let annotations = github::annotations(&summary);
    assert!(
        annotations
            .iter()
            .all(|line| !line.contains(['\n', '\r', '\0', '\u{1b}', '\u{202e}']))
    );
    for kind in ["::error ", "::warning ", "::notice "] {
        assert!(
            annotations
                .iter()
                .filter(|line| line.starts_with(kind))
                .count()
                <= 10
        );
    }
    let outputs = github::outputs(&summary, &"f0".repeat(16)).unwrap();
    assert_eq!(outputs.lines().count(), 8 * 3);
    serde_json::from_str::<serde_json::Value>(&json::render(&summary).unwrap()).unwrap();
}

/// Outside of fences and code spans, no foreign text is left.
fn assert_markdown_is_code(page: &str) {
    let mut fence: Option<&str> = None;
    for line in page.lines() {
        match fence {
            Some(mark) => {
                if line == mark {
                    fence = None;
                }
            }
            None if line.starts_with("```") => fence = Some(line.trim_end_matches("text")),
            None => {
                let outside = without_spans(line);
                for foreign in ["<script", "@team", "http", "![", "fixes #"] {
                    assert!(
                        !outside.contains(foreign),
                        "{foreign} stands outside of code: {line}"
                    );
                }
            }
        }
    }
    assert_eq!(fence, None, "a fence is open at the end");
    assert!(!page.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
}

/// A line without its code spans, as `CommonMark` finds them.
fn without_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        out.push_str(&rest[..start]);
        let from = &rest[start..];
        let mark = from.len() - from.trim_start_matches('`').len();
        let mut at = mark;
        let end = loop {
            let Some(next) = from[at..].find('`') else {
                break None;
            };
            let begin = at + next;
            let run = from[begin..].len() - from[begin..].trim_start_matches('`').len();
            if run == mark {
                break Some(begin + run);
            }
            at = begin + run;
        };
        if let Some(end) = end {
            rest = &from[end..];
        } else {
            out.push_str(&from[..mark]);
            rest = &from[mark..];
        }
    }
    out + rest
}

#[test]
fn a_step_summary_is_never_refused_for_its_size() {
    let tasks: Vec<PlannedTask> = (0..6000)
        .map(|n| planned(&format!("task-{n}-{}", "é|`".repeat(60)), "tasks/a.yaml", 1))
        .collect();
    let page = page::step_summary(&Summary::new(RunPlan::new("0", START, 1, tasks), "out"));
    assert!(page.len() <= 900 * 1024, "{}", page.len());
    assert!(page.len() > 800 * 1024, "{}", page.len());
    assert!(
        page.contains("Left out for want of room"),
        "{}",
        &page[page.len() - 200..]
    );
}

#[test]
fn the_fold_does_not_grow_with_content() {
    let (plan, _) = readable();
    let mut summary = Summary::new(plan, "out");
    let big = "x".repeat(20_000);
    for n in 0..600 {
        let odd = call(
            &format!("t{n}"),
            &format!("{big}{n}"),
            json!({"command": big}),
        );
        for kind in [
            replied(n, &big, std::slice::from_ref(&odd)),
            decided(n, &odd, false, &big),
            check(CheckResult::Failed, &big),
        ] {
            let seq = 0;
            summary.fold(&Event {
                v: 1,
                at: START,
                task: "good".into(),
                attempt: 1,
                seq,
                kind,
            });
        }
    }
    let size = format!("{summary:?}").len();
    assert!(size < 2_000_000, "{size}");
    assert_eq!(summary.task("good").unwrap().denials.total, 600);
}

#[test]
fn a_run_directory_read_back_gives_the_same_summary_and_reports() {
    for (plan, events) in [readable(), hostile()] {
        let directory = tempfile::tempdir().unwrap();
        record(directory.path(), &plan, &events);
        let loaded = run_dir::load(directory.path()).unwrap();
        assert_eq!(loaded.damages, []);
        let mut replayed = loaded.summary;
        replayed.dir = "agent-batch-results".into();
        assert_eq!(replayed, fold(plan, &events));
        report::write_all(directory.path(), &replayed, Forms::default()).unwrap();
        for name in [files::JUNIT, files::JSON, files::MARKDOWN, files::COMMENT] {
            assert!(fs::metadata(directory.path().join(name)).unwrap().len() > 0);
        }
    }
}

#[test]
fn a_transcript_is_never_overwritten_and_its_path_is_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(run_dir::TRANSCRIPT);
    transcript::Writer::create(&path).unwrap();
    let error = transcript::Writer::create(&path).unwrap_err();
    assert!(error.to_string().contains(run_dir::TRANSCRIPT), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_that_names_the_transcript() {
    // A transcript that is a link to the device that is always full.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("transcript.jsonl");
    let mut full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    assert!(full.write_all(b"x").is_err());
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    // `create_new` refuses even a link, so that nobody redirects a transcript.
    assert!(transcript::Writer::create(&path).is_err());
    let mut writer = transcript::Writer::from_file(path, full);
    let (_, events) = readable();
    let error = writer.accept(&events[0]).unwrap_err();
    assert!(error.to_string().contains("transcript.jsonl"), "{error}");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn garbage_lines_are_reported_with_their_number_and_skipped() {
    let (_, events) = readable();
    let mut link = Link::default();
    let [first, second] = [0, 1].map(|n| serde_json::to_string(&events[n]).unwrap());
    let first = link.line(&first);
    let later = second.replacen("\"v\":1", "\"v\":99", 1);
    let unknown = link.line(&second.replacen("\"prompt_appended\"", "\"from_the_future\"", 1));
    let mut text = format!("{first}\nnot json\n{later}\n{unknown}").into_bytes();
    text.extend(b"\xff\xfe{}\n{\"v\":1");
    let items: Vec<_> = transcript::Reader::new(Path::new("t.jsonl"), text.as_slice()).collect();
    let lines: Vec<u64> = items
        .iter()
        .filter_map(|item| item.as_ref().err())
        .map(|damage| damage.line)
        .collect();
    assert_eq!(lines, [3, 4, 6, 7]);
    let read: Vec<&Event> = items.iter().filter_map(|item| item.as_ref().ok()).collect();
    assert_eq!(read.len(), 2);
    assert_eq!(read[1].kind, Kind::Unknown);
    let last = items.last().unwrap().as_ref().unwrap_err();
    assert_eq!(last.to_string(), "t.jsonl:7: the last line was cut off");
}

#[test]
fn events_of_another_task_do_not_count_where_they_do_not_belong() {
    let (plan, events) = readable();
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), &plan, &events);
    let good = directory.path().join(run_dir::transcript("good", 1));
    let forged = directory.path().join(run_dir::transcript("never", 1));
    fs::create_dir_all(forged.parent().unwrap()).unwrap();
    fs::copy(good, forged).unwrap();
    let loaded = run_dir::load(directory.path()).unwrap();
    assert_eq!(
        loaded.summary.task("never").unwrap().outcome,
        Outcome::Unfinished
    );
    assert_eq!(loaded.damages.len(), 12);
    assert_eq!(loaded.summary.damages.len(), 12);
}

#[test]
fn a_second_verdict_behind_the_end_does_not_count() {
    let (plan, events) = readable();
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), &plan, &events);
    let path = directory.path().join(run_dir::transcript("pushes", 1));
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut forged = lines.last().unwrap().clone();
    assert_eq!(forged["type"], "task_finished");
    forged["seq"] = json!(forged["seq"].as_u64().unwrap() + 1);
    lines.push(forged);
    let lines: Vec<String> = lines
        .iter_mut()
        .map(|line| {
            line.as_object_mut().unwrap().remove("chain");
            line.to_string()
        })
        .collect();
    fs::write(&path, chained(&lines)).unwrap();
    let loaded = run_dir::load(directory.path()).unwrap();
    let pushes = loaded.summary.task("pushes").unwrap();
    assert_eq!(pushes.verdict(), Verdict::Failed);
    assert_eq!(loaded.damages.len(), 1);
    let told = loaded.damages[0].to_string();
    assert!(told.ends_with("an event after the end"), "{told}");
}

#[test]
#[cfg(unix)]
fn a_link_in_a_run_directory_is_not_followed() {
    let (plan, events) = readable();
    let directory = tempfile::tempdir().unwrap();
    record(directory.path(), &plan, &events);
    let path = directory.path().join(run_dir::transcript("good", 1));
    let elsewhere = directory.path().join("elsewhere.jsonl");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let loaded = run_dir::load(directory.path()).unwrap();
    assert_eq!(
        loaded.summary.task("good").unwrap().outcome,
        Outcome::Unfinished
    );
    assert_eq!(loaded.damages.len(), 1);
}

#[test]
fn a_run_directory_without_a_plan_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let error = run_dir::load(directory.path()).unwrap_err().to_string();
    assert!(error.contains("run.json"), "{error}");
}

#[test]
fn a_secret_reaches_no_report() {
    const CANARY: &str = "canary-value-1234";
    struct Shared(Arc<std::sync::Mutex<Vec<Event>>>);
    impl Sink for Shared {
        fn accept(&mut self, event: &Event) -> std::io::Result<()> {
            self.0.lock().unwrap().push(event.clone());
            Ok(())
        }
    }
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let redactor = Arc::new(Redactor::new(&[
        Secret::new(CANARY.into()),
        Secret::new("tool_finished".into()),
    ]));
    let emitter = Emitter::new(
        "good",
        1,
        Clock::fixed(START),
        redactor,
        Box::new(Shared(seen.clone())),
        vec![],
    );
    let odd = call(CANARY, CANARY, json!({CANARY: [CANARY]}));
    let kinds = [
        started(CANARY, "default"),
        prompt(CANARY),
        step(1),
        replied(1, CANARY, std::slice::from_ref(&odd)),
        decided(1, &odd, false, CANARY),
        answered(
            1,
            &odd,
            ToolResultKind::Ok,
            &format!("key={CANARY} tool_finished"),
        ),
        check(CheckResult::Failed, CANARY),
        finished(Stop::Completed, Outcome::Denied, CANARY),
    ];
    for kind in kinds {
        emitter.emit(kind).unwrap();
    }
    let events = seen.lock().unwrap().clone();
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains("canary") && text.contains("***"), "{text}");
    assert!(matches!(&events[5].kind, Kind::ToolFinished(tool) if tool.content == "key=*** ***"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_transcript_cut_at_any_byte_of_its_last_line_still_gives_a_report(part in 0.0_f64..1.0) {
        let (plan, events) = readable();
        let directory = tempfile::tempdir().unwrap();
        record(directory.path(), &plan, &events);
        let path = directory.path().join(run_dir::transcript("good", 1));
        let text = fs::read(&path).unwrap();
        let last = text[..text.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a short line")]
        let cut = last + (part * (text.len() - last) as f64) as usize;
        fs::write(&path, &text[..cut]).unwrap();
        let loaded = run_dir::load(directory.path()).unwrap();
        let task = loaded.summary.task("good").unwrap();
        // Only the line feed may be missing from a line that counts.
        let expected = if cut >= text.len() - 1 { Outcome::Completed } else { Outcome::Unfinished };
        prop_assert_eq!(task.outcome, expected);
        prop_assert_eq!(task.steps, 2);
        let read = read_junit(&junit::render(&loaded.summary, Dialect::Common).unwrap());
        prop_assert_eq!(read.cases.len(), 5);
    }

    #[test]
    fn a_report_is_well_formed_whatever_anybody_says(said in "(\\PC|[\\x00-\\x1f]|\u{fffe}|\\]\\]>|\\[\\[|`|::|##\\[|\u{202e}){0,40}") {
        let (mut plan, mut events) = readable();
        plan.tasks[0].name.clone_from(&said);
        for event in &mut events {
            if event.task == "good" {
                event.task.clone_from(&said);
            }
            if let Kind::TaskFinished(finished) = &mut event.kind {
                finished.message.clone_from(&said);
                finished.reply.clone_from(&said);
            }
        }
        let summary = fold(plan, &events);
        read_junit(&junit::render(&summary, Dialect::Common).unwrap());
        assert_inert(&account_of(&summary));
        assert_inert(&console_of(&events));
        assert_markdown_is_code(&page::step_summary(&summary));
    }
}
