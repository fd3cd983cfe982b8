//! A model whose replies stand in a file beside the task.
//!
//! It is a provider like any other and costs nothing: examples and tests run on it, offline and the same each time. `script`
//! reads the file, `entry` is one reply in it, `fault` what may go wrong with it; this module plays them. Nothing is kept between calls: the step is the number of assistant messages in the
//! request, so a resumed or repeated conversation gets the reply that belongs to it. What the real API would refuse, a conversation
//! that is not well formed, is refused here too: each scripted run is a test of the loop's protocol.

mod entry;
mod fault;
mod script;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

pub use self::script::{Script, ScriptError};

use self::entry::{Entry, Said, Stop};
use super::failure::quote;
use super::retry::{Jitter, Schedule};
use super::{Listener, Model, ModelError, ModelErrorKind, Reply, Request, Waiting, estimate};
use crate::message::{Block, Content, Message, Role, ToolCall, check_well_formed};
use crate::usage::ModelFacts;

/// What a thinking block of a script is signed with, where the script says nothing.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// Where a text of a repeated reply gets the step's number.
const STEP_MARK: &str = "{{ step }}";

/// A model that plays a [`Script`].
#[derive(Debug, Clone)]
pub struct Scripted {
    name: String,
    script: Script,
}

impl Scripted {
    /// A model called `name` (`scripted/<file>`).
    pub fn new(name: impl Into<String>, script: Script) -> Self {
        Self {
            name: name.into(),
            script,
        }
    }

    fn schedule(&self) -> Schedule {
        // Without jitter: a scripted run tells the same waits each time.
        let schedule = Schedule {
            jitter: Jitter::None,
            ..Schedule::default()
        };
        Schedule {
            fixed_wait: self.script.retry_delay,
            ..schedule
        }
    }

    /// An error that names the script and the step, from 1.
    fn error(&self, step: usize, what: &str) -> ModelError {
        ModelError {
            kind: ModelErrorKind::Script,
            message: format!("script `{}`, step {step}: {what}", self.script.file),
        }
    }

    fn check_expectations(
        &self,
        step: usize,
        entry: &Entry,
        messages: &[Message],
    ) -> Result<(), ModelError> {
        let last = messages.last().map(readable).unwrap_or_default();
        match entry
            .expect
            .iter()
            .find(|part| !last.contains(part.as_str()))
        {
            Some(part) => Err(self.error(
                step,
                &format!(
                    "expected the last message to contain `{}`, found `{}`",
                    quote(part),
                    quote(&last)
                ),
            )),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Model for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Option<ModelFacts> {
        Some(self.script.facts)
    }

    async fn reply(
        &self,
        request: Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ModelError> {
        let answered = request
            .messages
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .count();
        let step = answered + 1;
        let Some(entry) = self.script.entry(answered) else {
            let held = self.script.steps();
            let replies = if held == 1 { "reply" } else { "replies" };
            return Err(self.error(
                step,
                &format!("the script has no more replies (it holds {held} {replies})"),
            ));
        };
        check_well_formed(request.messages).map_err(|broken| {
            self.error(
                step,
                &format!("the conversation is not well formed: {broken}"),
            )
        })?;
        self.check_expectations(step, entry, request.messages)?;
        if let Some(fault) = &entry.fault {
            let mut tries = self.schedule().tries();
            let mut left = fault.times;
            while left != Some(0) {
                let failure = fault.failure(self.name());
                let is_for_load = failure.is_for_load;
                let wait = tries.after(failure, 0.0).map_err(|error| ModelError {
                    kind: error.kind,
                    message: self.error(step, &error.message).message,
                })?;
                listener.retried(wait.attempt, wait.delay, &wait.reason);
                let _waiting = is_for_load.then(|| Waiting::of(listener));
                pause(wait.delay).await;
                left = left.map(|left| left - 1);
            }
        }
        pause(entry.delay).await;
        let content = content(entry, step);
        let reply = Reply {
            stop_reason: stop_reason(entry, &content),
            stop_sequence: entry.stop_sequence.clone(),
            stop_details: entry.stop_details.clone(),
            usage: entry.usage.over(estimate::usage(&request, &content)),
            request_id: None,
            content,
        };
        for piece in pieces(entry, step, &reply.content) {
            listener.text(&piece);
        }
        Ok(reply)
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The blocks of a reply: thinking, then text, then calls; or the raw blocks.
fn content(entry: &Entry, step: usize) -> Vec<Block> {
    let (thinking, text, calls) = match &entry.said {
        Said::Blocks(blocks) => return blocks.iter().cloned().map(Block::verbatim).collect(),
        Said::Parts {
            thinking,
            text,
            calls,
        } => (thinking, text, calls),
    };
    let mut content = Vec::new();
    if let Some(thinking) = thinking {
        content.push(Block::verbatim(
            json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE}),
        ));
    }
    if let Some(text) = text {
        content.push(Block::text(at_step(entry, step, text)));
    }
    for (place, call) in calls.iter().enumerate() {
        content.push(Block::tool_use(&ToolCall {
            id: match &call.id {
                Some(id) => id.clone(),
                None => format!("toolu_{step}_{}", place + 1),
            },
            name: call.name.clone(),
            input: input_at_step(entry, step, &call.input),
        }));
    }
    content
}

/// The text with the step's number in it, so that a reply which is repeated need not be the same each time.
fn at_step(entry: &Entry, step: usize, text: &str) -> String {
    if entry.repeats() {
        text.replace(STEP_MARK, &step.to_string())
    } else {
        text.to_owned()
    }
}

fn input_at_step(entry: &Entry, step: usize, value: &Value) -> Value {
    let inner = |value: &Value| input_at_step(entry, step, value);
    match value {
        Value::String(text) => at_step(entry, step, text).into(),
        Value::Array(items) => items.iter().map(inner).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), inner(field)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn stop_reason(entry: &Entry, content: &[Block]) -> Option<String> {
    match &entry.stop_reason {
        Stop::Said(reason) => reason.clone(),
        Stop::Unsaid => {
            let calls = content.iter().any(|block| block.kind() == "tool_use");
            Some(if calls { "tool_use" } else { "end_turn" }.to_owned())
        }
    }
}

/// What a listener hears: the script's pieces, or each text in one.
fn pieces(entry: &Entry, step: usize, content: &[Block]) -> Vec<String> {
    if entry.chunks.is_empty() {
        let texts = content.iter().filter_map(Block::as_text);
        return texts.map(str::to_owned).collect();
    }
    let chunks = entry.chunks.iter();
    chunks.map(|chunk| at_step(entry, step, chunk)).collect()
}

/// What a person would read in a message: texts and results, a line each.
fn readable(message: &Message) -> String {
    let blocks = match &message.content {
        Content::Text(text) => return text.clone(),
        Content::Blocks(blocks) => blocks,
    };
    let mut parts: Vec<&str> = Vec::new();
    for block in blocks {
        parts.extend(block.as_text());
        match block.value().get("content") {
            Some(Value::String(text)) => parts.push(text),
            Some(Value::Array(inner)) => {
                parts.extend(
                    inner
                        .iter()
                        .filter_map(|part| part.get("text").and_then(Value::as_str)),
                );
            }
            _ => {}
        }
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests;
