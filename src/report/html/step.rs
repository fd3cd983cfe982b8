//! The markup of a step: what the model said, and its calls, folded.

use maud::{Markup, html};

use super::diff;
use super::overview::{prose, span};
use super::record::{Answer, Call, Decision, Hook, Said, Step};
use super::timeline::Place;
use crate::event::{HookResult, ToolResultKind};
use crate::report::run_dir;
use crate::text::{self, html::address};

/// A text longer than this is folded, in bytes.
const LONG: usize = 1500;

/// A step as an item of the timeline.
pub(super) fn step(step: &Step, id: Option<&str>, place: &Place<'_>) -> Markup {
    let told = step.reply.as_ref().map(|reply| {
        let mut told = vec![format!("{} tokens", text::tokens(reply.usage.total()))];
        if let Some(cost) = reply.cost.filter(|cost| cost.nanos() > 0) {
            told.push(cost.to_string());
        }
        told.push(span(reply.duration_ms));
        told.join(" · ")
    });
    html! {
        li.step.marked[step.is_marked()] id=[id] {
            (heading(step.number, id, told.as_deref().unwrap_or("no answer")))
            @for retry in &step.retries { p.retry { (retry) } }
            @for said in &step.said { (self::said(said)) }
            @if let Some(reason) = step.reply.as_ref().and_then(|reply| reply.odd_stop.as_deref()) {
                p.retry { "stopped with " code { (reason) } }
            }
            @for call in &step.calls { (self::call(call, place)) }
            @if step.calls_left_out > 0 {
                p.note { (text::plural(step.calls_left_out, "more call")) " in the transcript." }
            }
            @for shown in &step.hooks { (hook(shown)) }
        }
    }
}

/// The line above a step; the number is a link to the step itself.
fn heading(number: u32, id: Option<&str>, told: &str) -> Markup {
    html! {
        p.head {
            @if let Some(id) = id { a.no href={ "#" (id) } { "Step " (number) } } @else { span.no { "Step " (number) } }
            span.told { (told) }
        }
    }
}

/// What stays of a step that was left out.
pub(super) fn stub(step: &Step, id: Option<&str>) -> Markup {
    let denied = step.calls.iter().filter(|call| call.is_denied());
    html! {
        li.step.marked id=[id] {
            (heading(step.number, id, "left out, see the transcript"))
            @for call in denied.take(5) {
                p.retry { "denied: " (call.tool) " " code { (text::head(&call.headline, 120)) } }
            }
        }
    }
}

/// A user turn.
pub(super) fn prompt(turn: u32, origin: &str, text: &str) -> Markup {
    let origin = match origin {
        "prompt" => "asked",
        "nudge" => "reminded by the runner",
        "stop_hook" => "sent back by a Stop hook",
        "session_start" => "told by a SessionStart hook",
        other => other,
    };
    html! {
        li.turn {
            p.head { span.no { "Turn " (turn) } span.told { (origin) } }
            (folded(text, "The whole text"))
        }
    }
}

/// A text as it is; a long one behind its first lines.
pub(super) fn folded(text: &str, label: &str) -> Markup {
    html! {
        @if text.len() <= LONG {
            p.text { (text) }
        } @else {
            p.text { (text::head(text, LONG / 2)) }
            details { summary { (label) } p.text { (text) } }
        }
    }
}

fn said(said: &Said) -> Markup {
    match said {
        Said::Text(text) => folded(text, "All that it said"),
        Said::Thinking(text) => html! {
            details.thinking { summary { "Thinking" } p.text { (text) } }
        },
        Said::Other(kind) => html! { p.note { "A block of type " code { (kind) } } },
    }
}

fn call(call: &Call, place: &Place<'_>) -> Markup {
    let (tone, word) = state(call);
    let time = call.answer.as_ref().map(|answer| answer.duration_ms);
    html! {
        details.call open[call.is_denied()] {
            summary {
                span.tool { (call.tool) } " "
                code.headline { (call.headline) } " "
                span.state.(tone) { (word) }
                @if let Some(time) = time.filter(|time| *time >= 100) { span.told { (span(time)) } }
            }
            @for shown in &call.hooks { (hook(shown)) }
            @if let Some(decision) = &call.decision { (self::decision(decision)) }
            (input(call))
            @if let Some(answer) = call.answer.as_ref().filter(|answer| !repeats(call, answer)) { (self::answer(answer, place)) }
        }
    }
}

/// Whether an answer says no more than the decision above it.
fn repeats(call: &Call, answer: &Answer) -> bool {
    answer.result == ToolResultKind::Denied
        && call
            .decision
            .as_ref()
            .is_some_and(|decision| answer.content.contains(&decision.reason))
}

/// How a call came out: a class and a word.
fn state(call: &Call) -> (&'static str, &'static str) {
    let Some(answer) = &call.answer else {
        return match &call.decision {
            Some(decision) if !decision.allowed => ("failed", "denied"),
            _ => ("error", "no answer"),
        };
    };
    match answer.result {
        ToolResultKind::Ok => ("passed", "ok"),
        ToolResultKind::Error => ("error", "failed"),
        ToolResultKind::Denied => ("failed", "denied"),
        ToolResultKind::UnknownTool => ("error", "no such tool"),
        ToolResultKind::InvalidInput => ("error", "invalid input"),
        ToolResultKind::TimedOut => ("error", "timed out"),
        ToolResultKind::Panicked => ("error", "crashed"),
        ToolResultKind::NotRun => ("skipped", "not run"),
    }
}

fn decision(decision: &Decision) -> Markup {
    html! {
        p.decision.denied[!decision.allowed] {
            strong { @if decision.allowed { "Allowed: " } @else { "Denied: " } }
            (prose(&decision.reason))
        }
        @if !decision.allowed {
            @for rule in &decision.rules { p.decision { "Decided by " code { (rule) } } }
            @if let Some(suggestion) = &decision.suggestion {
                p.decision { "Smallest rule that allows it: " code { (suggestion) } }
            }
        }
    }
}

/// The fields of the input, without the one that the line above shows already and what a diff below shows better.
fn input(call: &Call) -> Markup {
    let has_diff = call
        .answer
        .as_ref()
        .is_some_and(|answer| diff::is_diff(&answer.content));
    let is_told = |name: &str, value: &str| {
        value == call.headline || (has_diff && matches!(name, "old_string" | "new_string"))
    };
    let fields: Vec<_> = call
        .input
        .iter()
        .filter(|(name, value)| !is_told(name, value))
        .collect();
    html! {
        @if !fields.is_empty() { dl.input {
            @for (name, value) in &fields {
                dt { (name) }
                dd {
                    @match name.as_str() {
                        "old_string" => pre { del { (value) } },
                        "new_string" => pre { ins { (value) } },
                        _ => pre { (value) },
                    }
                }
            }
        } }
    }
}

fn answer(answer: &Answer, place: &Place<'_>) -> Markup {
    // Only what the attempt itself has put aside; the event's word alone is not enough to point somewhere.
    let own = format!("{}/", run_dir::output(place.task, place.attempt));
    let whole = answer
        .file
        .as_deref()
        .filter(|file| file.starts_with(&own))
        .and_then(address);
    html! {
        @if answer.content.is_empty() {
            p.note { "No output." }
        } @else if diff::is_diff(&answer.content) {
            (diff::lines(&answer.content))
        } @else {
            pre.output { (answer.content) }
        }
        @if whole.is_some() {
            p.note { (link(whole, "The whole output")) " (" (text::bytes(answer.bytes)) ")" }
        }
    }
}

/// What a hook said.
pub(super) fn hook(hook: &Hook) -> Markup {
    let (tone, word) = match hook.result {
        HookResult::Passed => ("skipped", "passed"),
        HookResult::Blocked => ("failed", "blocked"),
        HookResult::Failed => ("error", "failed"),
    };
    html! {
        div.hook.(tone) {
            p {
                strong { (hook.event) " hook" } " " code { (hook.name) } " "
                span.state.(tone) { (word) }
            }
            @if !hook.message.is_empty() { p.text { (hook.message) } }
            @if let Some((before, after)) = &hook.rewrite {
                p { "It changed the input:" }
                pre.diff { del { (before) } "\n" ins { (after) } }
            }
        }
    }
}

/// A link to a file beside the page; only its words where there is no address.
pub(super) fn link(address: Option<String>, words: &str) -> Markup {
    html! {
        @if let Some(address) = address { a href=(address) { (words) } } @else { (words) }
    }
}
