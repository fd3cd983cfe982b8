//! The section of a task: what a reviewer has to know within a minute, then what the agent did.

use std::io::{self, Read as _, Write};
use std::path::Path;

use maud::{Markup, html};

use super::overview::{badge, prose, span, tags};
use super::timeline::{self, Opening, Place};
use super::{Entry, Page, diff, step};
use crate::event::{ChangeKind, CheckResult, RuleRecord, TaskStarted};
use crate::file;
use crate::outcome::Verdict;
use crate::report::account::{self, bypass_warning, cost};
use crate::report::summary::{
    AttemptRecord, CheckRecord, Compared, Denial, HookRecord, HostRecord, Kept, TaskSummary,
};
use crate::report::{is_bypass, run_dir, sandbox, verdict_word};
use crate::text::{self, html::address, html::block, html::line};

/// How many entries of a list are shown.
const SHOWN: usize = 25;
/// The longest prompt or reply, in bytes.
const TEXT: usize = 12 * 1024;
/// The longest details of a check, in bytes.
const DETAILS: usize = 3 * 1024;
/// The longest patch, in bytes.
const PATCH: usize = 96 * 1024;
/// How many earlier attempts are told.
const ATTEMPTS: usize = 20;

/// Writes the section of a task; its timelines take about `room` bytes.
///
/// # Errors
/// Those of the page.
pub(super) fn section(
    page: &mut Page<impl Write>,
    entry: &Entry<'_>,
    directory: &Path,
    room: u64,
) -> io::Result<()> {
    let task = entry.task;
    let place = Place {
        id: &entry.id,
        task: &task.name,
        attempt: task.attempt,
    };
    let opening = if task.attempt > 0 {
        timeline::opening(directory, &place)
    } else {
        Opening::default()
    };
    page.raw(&format!(
        "<section class=\"task {}\" id=\"{}\">",
        verdict_word(task.verdict()),
        entry.id
    ))?;
    page.add(&head(task, &opening))?;
    page.raw("<dl class=\"facts\">")?;
    page.add(&facts(task, &entry.id, &opening))?;
    page.add(&changes(task, directory))?;
    page.add(&closing(task, opening.started.as_deref()))?;
    page.raw("</dl>")?;
    if task.attempt > 0 {
        // Earlier attempts are told shortly: the last one is what counts.
        let earlier = task.earlier.len().min(ATTEMPTS) as u64;
        let share = room / (4 + earlier);
        for attempt in task.earlier.iter().take(ATTEMPTS) {
            earlier_attempt(page, entry, attempt, directory, share)?;
        }
        // With a denial in it, the page points into it.
        let is_open = task.verdict() != Verdict::Passed;
        page.raw(if is_open {
            "<details class=\"steps\" open>"
        } else {
            "<details class=\"steps\">"
        })?;
        let number = (!task.earlier.is_empty()).then_some(task.attempt);
        page.add(&html! {
            summary {
                "What the agent did"
                @if let Some(number) = number { " in attempt " (number) }
                span.told { (text::plural(task.steps.into(), "step")) ", " (text::plural(task.tool_calls, "call")) }
            }
        })?;
        timeline::write(page, directory, &place, share * 4)?;
        page.raw("</details>")?;
    }
    page.raw("</section>")
}

fn head(task: &TaskSummary, opening: &Opening) -> Markup {
    let mut about = Vec::new();
    if task.file.is_empty() {
        about.push("not in the plan".to_owned());
    } else {
        about.push(format!("{}:{}", line(&task.file, 300), task.line));
    }
    about.extend([
        line(&task.model, 120),
        format!("mode {}", line(&task.mode, 60)),
    ]);
    about.extend(
        task.tags
            .iter()
            .take(SHOWN)
            .map(|tag| format!("#{}", line(tag, 60))),
    );
    let description = opening
        .started
        .as_ref()
        .map(|started| line(&started.description, 400));
    html! {
        h2 { (badge(task)) " " span.name { (line(&task.name, 200)) } (tags(task)) }
        @if let Some(description) = description.filter(|text| !text.is_empty()) { p.about { (description) } }
        p.about { @for (index, fact) in about.iter().enumerate() { @if index > 0 { " · " } (fact) } " · " a href="#Tasks" { "All tasks" } }
        @if task.verdict() != Verdict::Passed && !account::is_told_by_denial(task) { p.lead { (prose(&line(&task.message, 1000))) } }
    }
}

/// A fact: its name and its content.
fn fact(name: &str, content: &Markup) -> Markup {
    html! { dt { (name) } dd { (content) } }
}

fn facts(task: &TaskSummary, id: &str, opening: &Opening) -> Markup {
    let prompt = opening
        .prompt
        .as_deref()
        .map(|prompt| block(prompt.trim(), TEXT));
    html! {
        @if is_bypass(&task.mode) { (fact("Warning", &html! { p.lead { (bypass_warning(&task.mode)) } })) }
        @if let Some(warning) = sandbox::warning(&task.sandbox) { (fact("Warning", &html! { p.lead { (line(&warning, 800)) } })) }
        @if let Some(quarantine) = &task.quarantine {
            (fact("Quarantine", &html! { p { "Until " (line(&quarantine.until, 40)) ": " (line(&quarantine.reason, 600)) } }))
        }
        @if let Some(trials) = task.trials_line() { (fact("Trials", &html! { p { (trials) } })) }
        @if let Some(compared) = &task.compared { (fact("Baseline", &self::compared(compared))) }
        @if let Some(prompt) = prompt { (fact("Asked", &step::folded(&prompt, "The whole prompt"))) }
        @if !task.denials.is_empty() { (fact("Denied", &denials(&task.denials, id))) }
        @if !task.hosts.is_empty() { (fact("Network", &hosts(&task.hosts))) }
        @if !task.hooks.is_empty() { (fact("Hooks", &hooks(&task.hooks))) }
        @if !task.checks.is_empty() { (fact("Checks", &checks(&task.checks))) }
    }
}

/// How the task was before.
fn compared(compared: &Compared) -> Markup {
    html! {
        p {
            (compared.class.name())
            @if let Some(before) = &compared.before {
                span.told { "before: " (before.outcome.name().replace('_', " ")) ", " (text::plural(before.steps.into(), "step")) ", " (cost(before.cost)) }
            }
        }
        @for shift in &compared.shifts { p { (shift) } }
    }
}

/// A list with a note on what is not in it.
fn list<T>(kept: &Kept<T>, item: impl Fn(&T) -> Markup) -> Markup {
    let left = kept
        .total
        .saturating_sub(kept.items.len().min(SHOWN) as u64);
    html! {
        ul.items {
            @for entry in kept.items.iter().take(SHOWN) { li { (item(entry)) } }
            @if left > 0 { li.note { (left) " more in the transcript" } }
        }
    }
}

fn denials(denials: &Kept<Denial>, id: &str) -> Markup {
    list(denials, |denial| {
        html! {
            p {
                span.tool { (line(&denial.tool, 120)) } " " code { (line(&denial.input, 300)) } " "
                a href={ "#" (id) "/" (denial.step) } { "step " (denial.step) }
                @if denial.expected { " " span.state.passed { "expected" } }
            }
            p { (prose(&line(account::short_reason(denial), 1000))) }
            @if let Some(rule) = &denial.rule { p { "Decided by " code { (line(rule, 400)) } } }
            @if let Some(suggestion) = &denial.suggestion {
                p { "Smallest rule that allows it: " code { (line(suggestion, 400)) } }
            }
        }
    })
}

fn hosts(hosts: &Kept<HostRecord>) -> Markup {
    list(hosts, |host| {
        let counts = [
            (host.allowed, "passed", "made"),
            (host.refused, "failed", "refused"),
            (host.failed, "error", "failed"),
        ];
        html! {
            p {
                code { (line(&host.host, 300)) }
                @for (count, tone, word) in counts {
                    @if count > 0 { " " span.state.(tone) { (count) " " (word) } }
                }
                span.told { (text::bytes(host.sent_bytes)) " sent, " (text::bytes(host.received_bytes)) " received" }
            }
        }
    })
}

fn hooks(hooks: &Kept<HookRecord>) -> Markup {
    list(hooks, |hook| {
        html! {
            p {
                (line(&hook.event, 80)) " hook " code { (line(&hook.hook, 200)) }
                @if hook.failed { " did not work: " } @else { " blocked: " }
                (prose(&line(&hook.message, 600)))
            }
        }
    })
}

fn checks(checks: &Kept<CheckRecord>) -> Markup {
    list(checks, |check| {
        let (tone, word) = match check.result {
            CheckResult::Passed => ("passed", "passed"),
            CheckResult::Failed => ("failed", "failed"),
            CheckResult::Errored => ("error", "not run"),
        };
        let details = block(check.details.trim(), DETAILS);
        html! {
            p {
                span.state.(tone) { (word) } " " (prose(&line(&check.title, 300)))
                @if check.duration_ms >= 100 { span.told { (span(check.duration_ms)) } }
            }
            @if !check.message.is_empty() { p { (prose(&line(&check.message, 600))) } }
            @if check.result != CheckResult::Passed && !details.is_empty() { pre.output { (details) } }
        }
    })
}

fn changes(task: &TaskSummary, directory: &Path) -> Markup {
    let file = run_dir::patch(&task.name, task.attempt);
    let patch = patch(&directory.join(&file));
    if task.changes.is_empty() && patch.is_none() {
        return if task.attempt > 0 && task.stop.is_some() {
            fact("Changed", &html! { p.about { "Nothing" } })
        } else {
            html! {}
        };
    }
    let changed = list(&task.changes, |change| {
        let (sign, word) = match change.kind {
            ChangeKind::Added => ("+", "added"),
            ChangeKind::Modified => ("±", "modified"),
            ChangeKind::Deleted => ("−", "deleted"),
        };
        html! { p { span.sign.(word) aria-hidden="true" { (sign) } " " code { (line(&change.path, 300)) } " " span.told { (word) } } }
    });
    fact(
        "Changed",
        &html! {
            (changed)
            @if let Some(patch) = patch {
                details { summary { "Diff" } (diff::lines(&patch)) p.note { (step::link(address(&file), "The whole patch")) } }
            }
        },
    )
}

/// The beginning of a patch beside the transcript.
fn patch(path: &Path) -> Option<String> {
    run_dir::regular(path).ok()?;
    let mut bytes = Vec::new();
    // One byte more than fits, so that the cut is seen.
    let file = file::open(path).ok()?;
    file.take(PATCH as u64 + 1).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    (!text.is_empty()).then(|| block(&text::head(&text, PATCH), PATCH * 2))
}

/// What it said at the end, what it took, and what it was allowed to do.
fn closing(task: &TaskSummary, started: Option<&TaskStarted>) -> Markup {
    let reply = block(task.reply.trim(), TEXT);
    html! {
        @if !reply.is_empty() { (fact("Said last", &step::folded(&reply, "All that is kept of it"))) }
        @if task.attempt > 0 { (fact("Took", &took(task))) }
        @if !task.warnings.is_empty() {
            (fact("Warnings", &list(&task.warnings, |warning| html! { p { code { (line(&warning.code, 60)) } " " (line(&warning.message, 600)) } })))
        }
        @if !task.repeated.is_empty() {
            (fact("Repeated", &html! {
                ul.items { @for call in task.repeated.iter().take(SHOWN) {
                    li { (call.times) " times " span.tool { (line(&call.tool, 120)) } " " code { (line(&call.input, 300)) } }
                } }
            }))
        }
        @if let Some(started) = started { (fact("Setup", &setup(task, started))) }
    }
}

fn took(task: &TaskSummary) -> Markup {
    let usage = task.usage;
    let cached = usage.cache_read_input_tokens;
    let mut parts = vec![
        text::plural(task.steps.into(), "step"),
        format!("{} tokens in", text::tokens(usage.input())),
        format!("{} out", text::tokens(usage.output_tokens)),
    ];
    if cached > 0 {
        parts.push(format!("{} of them cached", text::tokens(cached)));
        parts.swap(2, 3);
    }
    parts.push(cost(task.cost));
    parts.push(span(task.duration_ms));
    if task.retries > 0 {
        parts.push(format!(
            "{} of model calls",
            text::plural(task.retries, "retry")
        ));
    }
    if task.turns > 1 {
        parts.push(format!("{} of {} turns", task.turns_done, task.turns));
    }
    if task.leaked_processes > 0 {
        let processes = text::plural(task.leaked_processes.into(), "process");
        parts.push(format!("{processes} killed after the call"));
    }
    if !task.earlier.is_empty() {
        parts.push(format!("in attempt {} alone", task.attempt));
    }
    let transcript = task.transcript.as_deref().and_then(address);
    html! {
        p.took { @for part in &parts { span { (part) } } (step::link(transcript, "Transcript")) }
    }
}

fn setup(task: &TaskSummary, started: &TaskStarted) -> Markup {
    let rules = |rules: &[RuleRecord]| {
        html! {
            @if rules.is_empty() { p { "none" } } @else {
                ul.items { @for rule in rules.iter().take(SHOWN) {
                    li { code { (line(&rule.rule, 200)) } " " span.told { (line(&rule.source, 200)) } }
                } }
            }
            @if rules.len() > SHOWN { p.note { (rules.len() - SHOWN) " more in the transcript" } }
        }
    };
    let limits: Vec<String> = started
        .limits
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .take(SHOWN)
        .map(|(name, value)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {}", line(name, 60).replace('_', " "), line(&value, 60))
        })
        .collect();
    html! {
        details {
            summary { "What it was given and allowed" }
            dl.setup {
                (fact("Allow", &rules(&started.allow)))
                (fact("Deny", &rules(&started.deny)))
                @if let Some(commit) = &started.config_commit {
                    (fact("Configuration", &html! { p { "of commit " code { (line(commit, 80)) } ", not of the work tree" } }))
                }
                (fact("Limits", &html! { p { (limits.join(", ")) } }))
                (fact("Workspace", &html! { p { code { (line(&started.workspace, 300)) } " (" (line(&task.isolation, 60)) ")" } }))
                (fact("Sandbox", &html! { p { (line(&sandbox::in_short(&task.sandbox), 600)) } }))
                (fact("System", &html! { p.text { (block(started.system.trim(), TEXT)) } }))
            }
        }
    }
}

fn earlier_attempt(
    page: &mut Page<impl Write>,
    entry: &Entry<'_>,
    attempt: &AttemptRecord,
    directory: &Path,
    room: u64,
) -> io::Result<()> {
    let number = attempt.attempt;
    page.raw("<details class=\"steps\">")?;
    page.add(&html! {
        summary {
            "Attempt " (number) ": " (attempt.outcome.name().replace('_', " "))
            span.told { (cost(attempt.cost)) }
        }
        p.lead { (prose(&line(&attempt.message, 600))) }
        p { (step::link(address(&attempt.transcript), "Transcript")) }
    })?;
    let id = format!("{}/attempt-{number}", entry.id);
    let place = Place {
        id: &id,
        task: &entry.task.name,
        attempt: number,
    };
    timeline::write(page, directory, &place, room)?;
    page.raw("</details>")
}
