//! The agent loop: ask the model, append its answer, route on the stop reason, run tools, append their results, ask again.
//!
//! `next` routes, `dispatch` stacks hook, gate and tool before every action, `conversation` is the memory, `repeats` and
//! the budget brake, `interrupt` ends it from the outside. An [`Agent`] is immutable; what changes during a run are the
//! local variables of [`Agent::run`].

mod answer;
mod conversation;
mod dispatch;
mod interrupt;
mod next;
mod prompt;
mod repeats;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value, json};

pub use conversation::Conversation;
pub use interrupt::Interrupt;
pub use next::{Route, route};
pub use prompt::system_prompt;

use crate::budget::{Ceiling, Exceeded, Limits, Reservation};
use crate::event::{Emitter, Kind};
use crate::hook::{HookAnswer, HookContext, HookEvent, Hooks};
use crate::message::Message;
use crate::model::{Model, ModelError, ModelErrorKind, Reply, Request};
use crate::outcome::Stop;
use crate::policy::Policy;
use crate::proc::Launcher;
use crate::tool::Registry;

/// How often in a row a Stop hook may make a turn go on.
pub const MAX_STOP_HOOK_CONTINUATIONS: u32 = 8;

/// Everything that is pinned for a task's run.
pub struct Agent {
    /// The model.
    pub model: Arc<dyn Model>,
    /// The tools that the model is shown.
    pub registry: Registry,
    /// The hooks, pinned at the start.
    pub hooks: Hooks,
    /// What is the same in every hook's input.
    pub hook_context: HookContext,
    /// Mode, rules and roots.
    pub policy: Arc<Policy>,
    /// Ceilings.
    pub limits: Limits,
    /// The system prompt, see [`system_prompt`].
    pub system: String,
    /// What tools may use.
    pub surroundings: Surroundings,
}

/// What tools find around them.
#[derive(Clone)]
pub struct Surroundings {
    /// Starts processes.
    pub launcher: Launcher,
    /// The whole environment of child processes.
    pub environment: BTreeMap<String, String>,
    /// Where output goes that is too large for the conversation.
    pub output_dir: PathBuf,
    /// Most bytes of one tool result.
    pub output_limit: usize,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Why the loop ended.
    pub stop: Stop,
    /// One line for a person.
    pub message: String,
    /// The text of the last turn that completed.
    pub reply: String,
    /// Turns that were planned and not run.
    pub turns_skipped: u32,
    /// Processes that outlived their call and were killed.
    pub leaked_processes: u32,
    /// Calls that a hook or the gate denied.
    pub denials: u32,
    /// The conversation: well-formed after every kind of ending.
    pub messages: Vec<Message>,
}

/// Ends the task before its turns are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    stop: Stop,
    message: String,
}

impl Agent {
    /// Runs all user turns over one conversation.
    pub async fn run(&self, turns: &[String], emitter: &Emitter, interrupt: &Interrupt) -> Ended {
        let planned = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        let mut talk = Conversation::new(self.limits.clone(), self.model.facts(), planned);
        let result = self.run_turns(&mut talk, turns, emitter, interrupt).await;
        let closed = self.close(&talk, result.as_ref().err(), emitter).await;
        let (stop, message) = match result.and(closed) {
            Ok(()) => (
                Stop::Completed,
                format!(
                    "finished in {}",
                    crate::text::plural(talk.budget.steps().into(), "step")
                ),
            ),
            Err(halt) => (halt.stop, halt.message),
        };
        let turns_skipped = planned.saturating_sub(talk.turn);
        let Conversation {
            reply,
            leaked_processes,
            denials,
            messages,
            ..
        } = talk;
        Ended {
            stop,
            message,
            reply,
            turns_skipped,
            leaked_processes,
            denials,
            messages,
        }
    }

    async fn run_turns(
        &self,
        talk: &mut Conversation,
        turns: &[String],
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<(), Halt> {
        let mut context = self.open(emitter).await?;
        for prompt in turns {
            context.push(prompt.clone());
            self.run_turn(talk, &context.join("\n\n"), emitter, interrupt)
                .await?;
            context.clear();
        }
        Ok(())
    }

    /// One user turn: the inner loop. Returns when the model has ended its turn; its text is `talk.reply`.
    ///
    /// # Errors
    /// The task has to end; the conversation is well-formed all the same.
    pub async fn run_turn(
        &self,
        talk: &mut Conversation,
        prompt: &str,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<(), Halt> {
        talk.begin_turn(prompt, emitter)?;
        let mut continuations = 0;
        for step_in_turn in 1.. {
            let reservation = talk.reserve(step_in_turn, &self.system)?;
            let reply = self.ask(talk, &reservation, emitter, interrupt).await?;
            let (route, calls) = talk.append_reply(reply, emitter)?;
            match route {
                Route::Tools => self.act(talk, &calls, emitter, interrupt).await?,
                Route::End => {
                    talk.end_turn(emitter)?;
                    match self.stop_hook(talk, continuations, emitter).await? {
                        None => return Ok(()),
                        Some(reason) => talk.continue_turn(&reason, emitter)?,
                    }
                    continuations += 1;
                }
                Route::Stop(stop, message) => {
                    talk.answer_unrun(
                        &calls,
                        "the reply that asked for it was not complete",
                        emitter,
                    )?;
                    return Err(Halt::after_reply(stop, message, &reservation));
                }
            }
        }
        Ok(())
    }

    /// Makes the step's one model call.
    async fn ask(
        &self,
        talk: &mut Conversation,
        reservation: &Reservation,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<Reply, Halt> {
        if interrupt.is_raised() {
            return Err(Halt::interrupted(interrupt));
        }
        let listener = talk.begin_step(reservation.max_tokens, emitter)?;
        let tools = self.registry.definitions();
        let request = Request {
            system: &self.system,
            messages: &talk.messages,
            tools: &tools,
            max_tokens: reservation.max_tokens,
        };
        tokio::select! {
            reply = self.model.reply(request, &listener) => reply.map_err(Halt::from),
            () = interrupt.token().cancelled() => Err(Halt::interrupted(interrupt)),
        }
    }

    /// Answers all calls of a reply and appends the results as one message.
    async fn act(
        &self,
        talk: &mut Conversation,
        calls: &[crate::message::ToolCall],
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<(), Halt> {
        let answers = dispatch::answer_all(self, talk, calls, emitter, interrupt).await?;
        let halt = answers.iter().find_map(|answer| answer.halt.clone());
        talk.append_results(calls, answers, emitter)?;
        if let Some(halt) = halt {
            return Err(halt);
        }
        if interrupt.is_raised() {
            return Err(Halt::interrupted(interrupt));
        }
        talk.repeats_verdict()
            .map_or(Ok(()), |(stop, message)| Err(Halt { stop, message }))
    }

    /// SessionStart: its context goes in front of the first prompt.
    async fn open(&self, emitter: &Emitter) -> Result<Vec<String>, Halt> {
        let fields = fields(json!({"source": "startup", "model": self.model.name()}));
        let answer = self
            .fire(HookEvent::SessionStart, "startup", fields, emitter)
            .await?;
        Ok(answer.context)
    }

    /// Stop: the reason for which the turn has to go on, if a hook gives one.
    async fn stop_hook(
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
    async fn close(
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
    async fn fire(
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
        match answer.stopped.take() {
            Some(message) if event != HookEvent::SessionEnd => Err(Halt {
                stop: Stop::HookStopped,
                message,
            }),
            _ => Ok(answer),
        }
    }
}

impl Halt {
    fn interrupted(interrupt: &Interrupt) -> Self {
        let (stop, message) = interrupt.reason();
        Self { stop, message }
    }

    /// A reply that was cut off because the budget had made the call smaller is the budget's doing.
    fn after_reply(stop: Stop, message: String, reservation: &Reservation) -> Self {
        match reservation.clamped_by {
            Some(ceiling) if stop == Stop::OutputTruncated => Self {
                stop: stop_of(ceiling),
                message: format!(
                    "{message}, which what is left of the budget had set to {}",
                    reservation.max_tokens
                ),
            },
            _ => Self { stop, message },
        }
    }
}

impl From<Exceeded> for Halt {
    fn from(exceeded: Exceeded) -> Self {
        Self {
            stop: stop_of(exceeded.ceiling),
            message: exceeded.message,
        }
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self {
            stop: Stop::IoError,
            message: error.to_string(),
        }
    }
}

impl From<ModelError> for Halt {
    fn from(error: ModelError) -> Self {
        let stop = match error.kind {
            ModelErrorKind::Auth => Stop::AuthError,
            ModelErrorKind::TooLarge => Stop::ContextOverflow,
            ModelErrorKind::Api => Stop::ApiError,
        };
        Self {
            stop,
            message: error.message,
        }
    }
}

fn stop_of(ceiling: Ceiling) -> Stop {
    match ceiling {
        Ceiling::Steps | Ceiling::TotalSteps => Stop::StepLimit,
        Ceiling::Tokens => Stop::TokenBudget,
        Ceiling::Cost => Stop::CostBudget,
        Ceiling::Window => Stop::ContextOverflow,
    }
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
