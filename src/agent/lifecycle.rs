//! The fixed points of a task's life at which hooks hang, outside of tool calls: `SessionStart`, `Stop`, `SessionEnd`.

use serde_json::{Map, Value, json};

use crate::agent::halt::Halt;
use crate::agent::{Agent, Conversation, MAX_STOP_HOOK_CONTINUATIONS};
use crate::event::{Emitter, Kind};
use crate::hook::{HookAnswer, HookEvent};
use crate::outcome::Stop;
use crate::text;

impl Agent {
    /// SessionStart: its context goes in front of the first prompt.
    pub(super) async fn open(&self, emitter: &Emitter) -> Result<Vec<String>, Halt> {
        let fields = fields(json!({"source": "startup", "model": self.model.name()}));
        let answer = self
            .fire(HookEvent::SessionStart, "startup", fields, emitter)
            .await?;
        Ok(answer.context)
    }

    /// Stop: the reason for which the turn has to go on, if a hook gives one.
    pub(super) async fn stop_hook(
        &self,
        talk: &Conversation,
        continuations: u32,
        emitter: &Emitter,
    ) -> Result<Option<String>, Halt> {
        let fields = fields(json!({
            "stop_hook_active": continuations > 0,
            "last_assistant_message": talk.reply,
        }));
        let answer = self.fire(HookEvent::Stop, "", fields, emitter).await?;
        match answer.blocked {
            Some(block) if block.failure => Err(Halt {
                stop: Stop::HookStopped,
                message: format!(
                    "the Stop hook `{}` did not work: {}",
                    block.hook, block.reason
                ),
            }),
            Some(block) if continuations >= MAX_STOP_HOOK_CONTINUATIONS => Err(Halt {
                stop: Stop::StopHookLoop,
                message: format!(
                    "the Stop hook `{}` blocked {} times in a row: {}",
                    block.hook,
                    continuations + 1,
                    block.reason
                ),
            }),
            Some(block) => Ok(Some(block.reason)),
            None => Ok(None),
        }
    }

    /// SessionEnd, and the last look at the hooks' programs.
    pub(super) async fn close(
        &self,
        talk: &Conversation,
        halt: Option<&Halt>,
        emitter: &Emitter,
    ) -> Result<(), Halt> {
        let reason = halt.map_or("completed", |_| "other");
        let fields = fields(json!({"reason": reason, "last_assistant_message": talk.reply}));
        self.fire(HookEvent::SessionEnd, reason, fields, emitter)
            .await?;
        match self.hooks.tampered().as_slice() {
            [] => Ok(()),
            changed => Err(Halt {
                stop: Stop::HookTampered,
                message: format!("changed during the run: {}", changed.join(", ")),
            }),
        }
    }

    /// Runs the hooks of one event and records them.
    pub(super) async fn fire(
        &self,
        event: HookEvent,
        subject: &str,
        fields: Map<String, Value>,
        emitter: &Emitter,
    ) -> Result<HookAnswer, Halt> {
        let mut answer = self
            .hooks
            .run(event, subject, fields, &self.hook_context)
            .await;
        for record in answer.records.drain(..) {
            emitter.emit(Kind::HookFinished(Box::new(record)))?;
        }
        for message in answer.warnings.drain(..) {
            emitter.emit(Kind::Warned {
                code: "hook".into(),
                message,
            })?;
        }
        if answer.leaked > 0 {
            let left = text::plural(answer.leaked.into(), "process");
            emitter.emit(Kind::Warned {
                code: "leak".into(),
                message: format!("hooks left {left}, now ended"),
            })?;
        }
        match answer.stopped.take() {
            Some(message) if event != HookEvent::SessionEnd => Err(Halt {
                stop: Stop::HookStopped,
                message,
            }),
            _ => Ok(answer),
        }
    }
}

pub(super) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
