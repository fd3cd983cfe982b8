//! What a hook is given and what its answer means. Pure: [`command`](super::command) runs the program between the two.
//!
//! The formats are Claude Code's. Where that tool lets a call through because a hook did not work, this one holds it up:
//! everything that is not understood is a failure, and a failure blocks wherever a hook can block. There is no field
//! through which an answer could widen what a task may do: [`Opinion`] has no word for it.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::HookContext;
use super::lifecycle::HookEvent;
use crate::proc::{Ending, Finished};

/// Most bytes of a hook's stdout (it may hold the whole content of a rewritten file) and of its stderr.
pub(super) const OUTPUT_LIMIT: usize = 1024 * 1024;

/// Most characters of a text that goes on to the model or to a reader.
const TEXT_LIMIT: usize = 10_000;

/// What one hook says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Opinion {
    /// Whether it holds anything up.
    pub(super) verdict: Verdict,
    /// `continue: false`, with its reason.
    pub(super) stop: Option<String>,
    /// The whole input that replaces the one that it was asked about.
    pub(super) updated_input: Option<Map<String, Value>>,
    /// Text for the model.
    pub(super) context: Option<String>,
    /// What a reader should know.
    pub(super) notes: Vec<String>,
    /// Processes that it left behind, and that were killed.
    pub(super) leaked: u32,
}

/// Whether a hook holds anything up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has nothing against it. This permits nothing: what comes after still decides.
    #[default]
    Pass,
    /// It is against it, for this reason.
    Block(String),
    /// It did not work, for this reason.
    Fail(String),
}

impl Opinion {
    /// The opinion of a hook that did not work. Nothing else that it may have said counts.
    pub(super) fn failed(cause: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Fail(bounded(&cause.into())),
            ..Self::default()
        }
    }

    fn blocked(reason: &str) -> Self {
        let reason = reason.trim();
        let reason = if reason.is_empty() {
            "blocked by a hook that gave no reason".to_owned()
        } else {
            bounded(reason)
        };
        Self {
            verdict: Verdict::Block(reason),
            ..Self::default()
        }
    }
}

/// The JSON object that a hook reads. What is common to all events cannot be replaced by an event's own fields.
pub(super) fn input(
    event: HookEvent,
    fields: Map<String, Value>,
    context: &HookContext,
) -> Map<String, Value> {
    let mut input = Map::new();
    for (key, text) in [
        ("session_id", context.session_id.as_str()),
        ("transcript_path", context.transcript_path.as_str()),
        ("cwd", context.cwd.as_str()),
        ("permission_mode", context.permission_mode.as_str()),
        ("hook_event_name", event.name()),
    ] {
        input.insert(key.to_owned(), Value::String(text.to_owned()));
    }
    for (key, value) in fields {
        input.entry(key).or_insert(value);
    }
    input
}

/// What the end of a command hook means.
pub(super) fn interpret(event: HookEvent, finished: &Finished) -> Opinion {
    let stdout = &finished.stdout;
    match finished.ending {
        Ending::Exited(0) if stdout.bytes > OUTPUT_LIMIT as u64 => Opinion::failed(format!(
            "it printed {} bytes, and at most {OUTPUT_LIMIT} are read",
            stdout.bytes
        )),
        Ending::Exited(0) => read_stdout(event, stdout.text.trim()),
        Ending::Exited(2) => {
            let stderr = finished.stderr.text.trim();
            if stderr.is_empty() {
                Opinion::blocked(&reason_in(event, stdout.text.trim()))
            } else {
                Opinion::blocked(stderr)
            }
        }
        Ending::Exited(code) => Opinion::failed(with_stderr(
            format!("it exited with code {code}; 0 lets pass and 2 blocks"),
            finished,
        )),
        Ending::Signaled(signal) => Opinion::failed(with_stderr(
            format!("it was ended by signal {signal}"),
            finished,
        )),
        Ending::TimedOut => Opinion::failed("it did not end within its time limit"),
        Ending::Cancelled => Opinion::failed(
            "it was ended with the task, whose time was up (`timeout`), or with the run",
        ),
    }
}

/// What the JSON value of an in-process hook means: the same as if a command had printed it.
pub(super) fn interpret_value(event: HookEvent, value: Value) -> Opinion {
    match serde_json::from_value(value) {
        Ok(output) => judge(event, output),
        Err(error) => Opinion::failed(format!("its answer is not valid: {error}")),
    }
}

fn read_stdout(event: HookEvent, stdout: &str) -> Opinion {
    if stdout.starts_with('{') {
        return match serde_json::from_str(stdout) {
            Ok(output) => judge(event, output),
            Err(error) => Opinion::failed(format!("its JSON is not valid: {error}")),
        };
    }
    // A decision behind a line of chatter would be lost without a word; it was meant to hold something up.
    if event.can_block()
        && ["\"permissionDecision\"", "\"decision\"", "\"continue\""]
            .iter()
            .any(|key| stdout.contains(key))
    {
        return Opinion::failed("it printed other text beside its JSON answer");
    }
    Opinion {
        context: (event == HookEvent::SessionStart && !stdout.is_empty()).then(|| bounded(stdout)),
        ..Opinion::default()
    }
}

/// The reason in the JSON of a hook that exited with 2 and wrote nothing to stderr.
fn reason_in(event: HookEvent, stdout: &str) -> String {
    match read_stdout(event, stdout).verdict {
        Verdict::Block(reason) => reason,
        Verdict::Pass | Verdict::Fail(_) => String::new(),
    }
}

fn with_stderr(cause: String, finished: &Finished) -> String {
    match finished.stderr.text.trim() {
        "" => cause,
        stderr => format!("{cause}: {stderr}"),
    }
}

/// The object that a hook prints. Wrong types, `null` where something has to stand and repeated keys are errors.
#[derive(Debug, Deserialize)]
struct Output {
    #[serde(rename = "continue", default, deserialize_with = "present")]
    goes_on: Option<bool>,
    #[serde(rename = "stopReason", default)]
    stop_reason: Option<String>,
    #[serde(rename = "systemMessage", default)]
    system_message: Option<String>,
    #[serde(default, deserialize_with = "present")]
    decision: Option<Decision>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(rename = "hookSpecificOutput", default, deserialize_with = "present")]
    specific: Option<Specific>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Specific {
    #[serde(rename = "hookEventName", default)]
    event: Option<String>,
    #[serde(rename = "permissionDecision", default, deserialize_with = "present")]
    permission: Option<Permission>,
    #[serde(rename = "permissionDecisionReason", default)]
    permission_reason: Option<String>,
    #[serde(rename = "updatedInput", default, deserialize_with = "present")]
    updated_input: Option<Map<String, Value>>,
    #[serde(rename = "additionalContext", default)]
    additional_context: Option<String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decision {
    Block,
    Approve,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Allow,
    Deny,
    Ask,
    Defer,
}

/// A key that is there has to have a value: `null` from a script that lost its decision is not "no decision".
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Keys that Claude Code knows and that change nothing here.
const WITHOUT_EFFECT: [&str; 2] = ["suppressOutput", "terminalSequence"];

fn judge(event: HookEvent, output: Output) -> Opinion {
    let mut opinion = Opinion::default();
    let mut context = Vec::new();
    let specific = output.specific;
    if let Some(named) = specific
        .as_ref()
        .and_then(|specific| specific.event.as_deref())
        && named != event.name()
    {
        return Opinion::failed(format!(
            "its answer is for `{}` and not for `{}`",
            bounded(named),
            event.name()
        ));
    }

    match output.decision {
        Some(Decision::Block) => {
            opinion = Opinion::blocked(output.reason.as_deref().unwrap_or_default());
        }
        Some(Decision::Approve) => opinion.notes.push(ALLOW_IGNORED.to_owned()),
        None => {}
    }

    let mut unused: Vec<String> = ignored(&output.rest, "");
    if let Some(specific) = specific {
        let reason = specific.permission_reason.as_deref().unwrap_or_default();
        match specific.permission {
            Some(decision) if event != HookEvent::PreToolUse => opinion.notes.push(format!(
                "`permissionDecision: {decision:?}` has no meaning for `{}` and was ignored",
                event.name()
            )),
            Some(Permission::Deny) => opinion.verdict = Opinion::blocked(reason).verdict,
            Some(Permission::Ask | Permission::Defer) if opinion.verdict == Verdict::Pass => {
                let asked = format!("a hook would ask a person, and nobody is here: {reason}");
                let asked = asked.trim_end().trim_end_matches(':');
                opinion.verdict = Opinion::blocked(asked).verdict;
            }
            Some(Permission::Allow) => opinion.notes.push(ALLOW_IGNORED.to_owned()),
            Some(Permission::Ask | Permission::Defer) | None => {}
        }
        if let Some(updated) = specific.updated_input {
            if event == HookEvent::PreToolUse {
                opinion.updated_input = Some(updated);
            } else {
                unused.push("hookSpecificOutput.updatedInput".to_owned());
            }
        }
        context.extend(specific.additional_context);
        unused.extend(ignored(&specific.rest, "hookSpecificOutput."));
    }

    if output.goes_on == Some(false) {
        let reason = output.stop_reason.unwrap_or_default();
        opinion.stop = Some(match reason.trim() {
            "" => "a hook ended the task and gave no reason".to_owned(),
            reason => bounded(reason),
        });
    }
    if let Some(message) = output
        .system_message
        .filter(|message| !message.trim().is_empty())
    {
        opinion.notes.push(bounded(message.trim()));
    }
    if !unused.is_empty() {
        opinion.notes.push(bounded(&format!(
            "ignored in its answer: {}",
            unused.join(", ")
        )));
    }
    let context = context.join("\n");
    if !context.trim().is_empty() {
        opinion.context = Some(bounded(&context));
    }
    opinion
}

const ALLOW_IGNORED: &str =
    "hook allow ignored: a hook can only tighten, and the rules and the mode still decide";

/// Keys of an answer that have no effect: unknown ones, and attempts to change the mode, the rules or a tool's output.
fn ignored(rest: &Map<String, Value>, prefix: &str) -> Vec<String> {
    rest.keys()
        .filter(|key| !WITHOUT_EFFECT.contains(&key.as_str()))
        .map(|key| format!("`{prefix}{key}`"))
        .collect()
}

/// The text, cut at [`TEXT_LIMIT`] characters.
pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(TEXT_LIMIT) {
        Some((end, _)) => format!(
            "{} [cut at {TEXT_LIMIT} characters]",
            text.get(..end).unwrap_or_default()
        ),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
