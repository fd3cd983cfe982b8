//! What the hooks of one event say, added up one by one.

use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::lifecycle::HookEvent;
use super::wire::{Opinion, Verdict};
use crate::event::{HookFinished, HookResult, Rewrite};

/// What all hooks of one event say together.
#[derive(Debug, Clone, Default)]
pub struct HookAnswer {
    /// The first block. Only where hooks can block ([`HookEvent::can_block`]); elsewhere its reason is in `context`.
    pub blocked: Option<Block>,
    /// `continue: false`: the run ends, with this reason. A call that was about to run is `blocked` as well.
    pub stopped: Option<String>,
    /// The input after all rewrites, if any hook rewrote it: an object.
    pub updated_input: Option<Value>,
    /// Text for the model.
    pub context: Vec<String>,
    /// Warnings for the reader (a hook's `allow` that was ignored, `systemMessage`, an observer that failed).
    pub warnings: Vec<String>,
    /// One record for each hook that ran, in order.
    pub records: Vec<HookFinished>,
}

/// A block by a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The hook.
    pub hook: String,
    /// For the model.
    pub reason: String,
    /// Whether the hook failed (timeout, crash, bad output) instead of deciding.
    pub failure: bool,
}

impl HookAnswer {
    /// Adds what one hook said. Everything here only ever tightens: a block stays, and no branch takes one away.
    pub(super) fn absorb(
        &mut self,
        event: HookEvent,
        hook: &str,
        input: &mut Map<String, Value>,
        opinion: Opinion,
        duration_ms: u64,
    ) -> ControlFlow<()> {
        // A rewrite in the same answer counts before its deny is read, so that the record shows what was denied.
        let rewrite = opinion.updated_input.map(|updated| {
            let after = Value::Object(updated);
            let before = input
                .insert("tool_input".to_owned(), after.clone())
                .unwrap_or(Value::Null);
            self.updated_input = Some(after.clone());
            Rewrite { before, after }
        });
        self.context.extend(opinion.context);
        self.warnings.extend(
            opinion
                .notes
                .iter()
                .map(|note| format!("hook `{hook}`: {note}")),
        );

        let (result, mut message) = match opinion.verdict {
            Verdict::Pass => (HookResult::Passed, String::new()),
            Verdict::Block(reason) => (HookResult::Blocked, reason),
            Verdict::Fail(cause) => (HookResult::Failed, cause),
        };
        let held_up = match result {
            HookResult::Passed => None,
            HookResult::Blocked => Some(message.clone()),
            HookResult::Failed => Some(format!("hook `{hook}` failed: {message}")),
        };
        if let Some(reason) = held_up {
            let goes_on = event == HookEvent::Stop && opinion.stop.is_none();
            if goes_on || event == HookEvent::PreToolUse {
                self.blocked = Some(Block {
                    hook: hook.to_owned(),
                    reason,
                    failure: result == HookResult::Failed,
                });
            } else if result == HookResult::Failed {
                self.warnings.push(reason);
            } else if matches!(event, HookEvent::SessionStart | HookEvent::SessionEnd) {
                self.warnings.push(format!(
                    "hook `{hook}` cannot block at `{}`; it said: {reason}",
                    event.name()
                ));
            } else if event != HookEvent::Stop {
                self.context.push(reason);
            }
        }
        if let Some(reason) = opinion.stop {
            if event == HookEvent::PreToolUse && self.blocked.is_none() {
                self.blocked = Some(Block {
                    hook: hook.to_owned(),
                    reason: format!("the task was ended by a hook: {reason}"),
                    failure: false,
                });
            }
            if message.is_empty() {
                message.clone_from(&reason);
            }
            self.stopped = Some(reason);
        }
        self.records.push(HookFinished {
            event: event.name().to_owned(),
            hook: hook.to_owned(),
            tool_use_id: input
                .get("tool_use_id")
                .and_then(Value::as_str)
                .map(str::to_owned),
            result: if self.blocked.is_some() && result == HookResult::Passed {
                HookResult::Blocked
            } else {
                result
            },
            message,
            rewrite,
            duration_ms,
        });
        if self.blocked.is_some() || self.stopped.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
