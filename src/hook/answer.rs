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
    /// Processes that hooks left behind, and that were killed.
    pub leaked: u32,
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
        self.leaked = self.leaked.saturating_add(opinion.leaked);
        self.context.extend(opinion.context);
        self.warnings.extend(
            opinion
                .notes
                .iter()
                .map(|note| format!("hook `{hook}`: {note}")),
        );

        let record = HookFinished {
            event: event.name().to_owned(),
            hook: hook.to_owned(),
            tool_use_id: input
                .get("tool_use_id")
                .and_then(Value::as_str)
                .map(str::to_owned),
            result: match (&opinion.verdict, &opinion.stop) {
                (Verdict::Pass, None) => HookResult::Passed,
                (Verdict::Pass, Some(_)) | (Verdict::Block(_), _) => HookResult::Blocked,
                (Verdict::Fail(_), _) => HookResult::Failed,
            },
            message: match (&opinion.verdict, &opinion.stop) {
                (Verdict::Block(text) | Verdict::Fail(text), _) | (Verdict::Pass, Some(text)) => {
                    text.clone()
                }
                (Verdict::Pass, None) => String::new(),
            },
            rewrite,
            duration_ms,
        };
        self.records.push(record);

        if let Some(block) = Block::of(event, hook, opinion.verdict, opinion.stop.as_deref()) {
            match event {
                // To end the task beats to go on with the turn.
                HookEvent::Stop if opinion.stop.is_some() => {}
                HookEvent::PreToolUse | HookEvent::Stop => self.blocked = Some(block),
                HookEvent::PostToolUse | HookEvent::PostToolUseFailure if !block.failure => {
                    self.context.push(block.reason);
                }
                HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::SessionStart
                | HookEvent::SessionEnd => self.warnings.push(block.reason),
            }
        }
        if opinion.stop.is_some() {
            self.stopped = opinion.stop;
        }
        if self.blocked.is_some() || self.stopped.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Block {
    /// What a hook has against going on, if anything. To end the task is against a call, too, that was about to run.
    fn of(event: HookEvent, hook: &str, verdict: Verdict, stop: Option<&str>) -> Option<Self> {
        let (reason, failure) = match verdict {
            Verdict::Pass if event == HookEvent::PreToolUse => {
                (format!("the task was ended by a hook: {}", stop?), false)
            }
            Verdict::Pass => return None,
            Verdict::Block(reason) => match event {
                HookEvent::SessionStart | HookEvent::SessionEnd => {
                    let name = event.name();
                    let text = format!("hook `{hook}` cannot block at `{name}`; it said: {reason}");
                    (text, false)
                }
                HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::Stop => (reason, false),
            },
            Verdict::Fail(cause) => (format!("hook `{hook}` failed: {cause}"), true),
        };
        Some(Self {
            hook: hook.to_owned(),
            reason,
            failure,
        })
    }
}
