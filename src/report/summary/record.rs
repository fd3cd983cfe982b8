//! What is kept of events: clipped pieces in bounded lists.
//!
//! All texts in here are still hostile; they are only short. Each report escapes them for its place.

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::{CheckResult, SandboxRecord, Spent};
use crate::outcome::Outcome;
use crate::text;
use crate::usage::Usd;

/// The longest sentence that is kept, in bytes.
pub const SENTENCE: usize = 1000;
/// The longest piece of an input that is kept, in bytes.
pub const INPUT: usize = 300;
/// The longest name that is kept, in bytes.
pub const NAME: usize = 200;
/// The longest tail of an output or a reply that is kept, in bytes.
pub const TAIL: usize = 4096;

/// A list that keeps its first entries and counts all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Kept<T> {
    /// The first entries, at most [`Kept::ROOM`].
    pub items: Vec<T>,
    /// How many there were.
    pub total: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            total: 0,
        }
    }
}

impl<T> Kept<T> {
    /// How many entries are kept.
    pub const ROOM: usize = 100;

    /// Counts an entry, and keeps it if there is room.
    pub fn push(&mut self, item: T) {
        self.total += 1;
        if self.items.len() < Self::ROOM {
            self.items.push(item);
        }
    }

    /// How many entries were counted and not kept.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.items.len() as u64)
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// A call that was not allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Denial {
    /// The step that asked.
    pub step: u32,
    /// The call's id.
    pub tool_use_id: String,
    /// The tool.
    pub tool: String,
    /// The input, clipped.
    pub input: String,
    /// Who decided: `rule`, `mode`, `hook`, ...
    pub class: String,
    /// Why, in one sentence.
    pub reason: String,
    /// The rule that decided and where it stands.
    pub rule: Option<String>,
    /// The smallest rule that would have allowed the call.
    pub suggestion: Option<String>,
    /// Whether an interactive tool would have asked a person.
    pub would_ask: bool,
    /// Whether a check expected it, so that it does not count against the task.
    pub expected: bool,
}

/// What went to and from a host through the runner's proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostRecord {
    /// The host, or what was asked for instead of one.
    pub host: String,
    /// Connections that were made.
    pub allowed: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Connections that could not be made.
    pub failed: u64,
    /// Bytes to the host.
    pub sent_bytes: u64,
    /// Bytes from the host.
    pub received_bytes: u64,
}

/// A hook that blocked or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HookRecord {
    /// The hook event.
    pub event: String,
    /// The hook's name.
    pub hook: String,
    /// Whether it did not work, rather than block on purpose.
    pub failed: bool,
    /// What it said.
    pub message: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckRecord {
    /// Its place in the task file, from 0.
    pub index: u32,
    /// `command`, `reply`, ...
    pub check: String,
    /// What it demands.
    pub title: String,
    /// What it found.
    pub result: CheckResult,
    /// Why, in one line; empty for what passed without a remark.
    pub message: String,
    /// The end of what stands behind it: lines of output, paths, the answers inside a group.
    pub details: String,
    /// What the check itself used of a model; it is part of the task's sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// In milliseconds.
    pub duration_ms: u64,
}

/// Something that a reader should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// A stable word.
    pub code: String,
    /// For a person.
    pub message: String,
}

/// One of the last steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepRecord {
    /// Its number, from 1.
    pub step: u32,
    /// What the model said, clipped.
    pub text: String,
    /// The calls that it asked for: tool and input, clipped.
    pub calls: Vec<String>,
}

/// A call that came more than once with the same input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepeatedCall {
    /// The tool.
    pub tool: String,
    /// The input, clipped.
    pub input: String,
    /// How often.
    pub times: u32,
}

/// One attempt of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AttemptRecord {
    /// Its number, from 1.
    pub attempt: u32,
    /// The trial that it belongs to, from 1; 0 where that is not known.
    pub trial: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The line for a person.
    pub message: String,
    /// Model calls.
    pub steps: u32,
    /// Tokens.
    pub tokens: u64,
    /// In milliseconds.
    pub duration_ms: u64,
    /// What it cost, if that is known.
    #[serde(rename = "cost_usd")]
    pub cost: Option<Usd>,
    /// Its transcript, relative to the run directory.
    pub transcript: String,
}

/// A name, clipped.
pub(super) fn name(value: &str) -> String {
    text::head(value, NAME).into_owned()
}

/// A sentence, clipped.
pub(super) fn sentence(value: &str) -> String {
    text::head(value, SENTENCE).into_owned()
}

/// What is said of the sandbox, clipped.
pub(super) fn sandbox(value: &SandboxRecord) -> SandboxRecord {
    let list = |items: &[String]| items.iter().take(20).map(|item| name(item)).collect();
    SandboxRecord {
        mode: name(&value.mode),
        network: name(&value.network),
        hosts: list(&value.hosts),
        used: value.used,
        layers: list(&value.layers),
        held: list(&value.held),
        missing: list(&value.missing),
    }
}

/// An input as compact JSON, clipped; of an input with one string, only that string.
pub(super) fn input(value: &serde_json::Value) -> String {
    let only = value
        .as_object()
        .filter(|fields| fields.len() == 1)
        .and_then(|fields| fields.values().next()?.as_str());
    match only.or_else(|| value.get("command")?.as_str()) {
        Some(text) => text::head(text, INPUT).into_owned(),
        None => text::head(&value.to_string(), INPUT).into_owned(),
    }
}

/// The end of a text, clipped.
pub(super) fn tail(value: &str) -> String {
    if value.len() <= TAIL {
        return value.to_owned();
    }
    let end = text::suffix(value, TAIL - 48);
    format!("[{} bytes cut]\n{end}", value.len() - end.len())
}
