//! The agent loop: ask the model, append its answer, route on the stop reason, run tools, append their results, ask again.
//!
//! `next` routes, `dispatch` stacks hook and gate before every action and `perform` does it, `conversation` is the memory,
//! `repeats` and the budget brake, `interrupt` ends it from the outside, `lifecycle` fires the other hooks. An [`Agent`] is immutable; what changes during a run are the
//! local variables of [`Agent::run`].

mod answer;
mod conversation;
mod dispatch;
mod halt;
mod interrupt;
mod lifecycle;
mod listener;
mod next;
mod perform;
mod prompt;
mod repeats;
mod wrap_up;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub use conversation::Conversation;
pub use halt::Halt;
pub use interrupt::{Interrupt, Shutdown};
pub use next::{Route, route};
pub use perform::panic_message;
pub use prompt::system_prompt;

use crate::budget::{Ask, Hold, Limits, Purse, Reservation};
use crate::event::{Emitter, Spent, ToolResultKind};
use crate::hook::{HookContext, Hooks};
use crate::message::{Message, ToolCall};
use crate::model::{Model, Reply, Request};
use crate::outcome::Stop;
use crate::policy::Policy;
use crate::proc::Launcher;
use crate::text;
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
    /// What the whole batch may spend, where that is limited.
    pub purse: Option<Arc<Purse>>,
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
    /// The same directory as reports name it, relative to the run directory.
    pub output_name: String,
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
    /// Why the first of them was.
    pub first_denial: Option<String>,
    /// Model calls that were made.
    pub steps: u32,
    /// What they used.
    pub spent: Spent,
    /// The conversation: well-formed after every kind of ending.
    pub messages: Vec<Message>,
}

impl Agent {
    /// Runs all user turns over one conversation.
    pub async fn run(&self, turns: &[String], emitter: &Emitter, interrupt: &Interrupt) -> Ended {
        let planned = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        let mut talk = Conversation::new(self.limits.clone(), self.model.facts(), planned);
        let result = self.run_turns(&mut talk, turns, emitter, interrupt).await;
        let closed = self.close(&talk, result.as_ref().err(), emitter).await;
        let (stop, message) = match closed.and(result) {
            Ok(()) => (
                Stop::Completed,
                format!(
                    "finished in {}",
                    text::plural(talk.budget.steps().into(), "step")
                ),
            ),
            Err(halt) => (halt.stop, halt.message),
        };
        let turns_skipped = planned.saturating_sub(talk.turn);
        let (steps, usage, cost) = (talk.budget.steps(), talk.budget.spent(), talk.budget.cost());
        let Conversation {
            reply,
            leaked_processes,
            denials,
            first_denial,
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
            first_denial,
            steps,
            spent: Spent { usage, cost },
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
            let mut reservation = match talk.reserve(step_in_turn, &self.system) {
                Ok(reservation) => reservation,
                Err(exceeded) if step_in_turn > 1 => {
                    return Err(self.wrap_up(talk, exceeded, emitter, interrupt).await);
                }
                Err(exceeded) => return Err(exceeded.into()),
            };
            let reply = self.ask(talk, &mut reservation, emitter, interrupt).await?;
            let (route, calls) = talk.append_reply(reply, false, emitter)?;
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

    /// Makes the step's one model call, with no more output than the batch's purse can pay.
    async fn ask(
        &self,
        talk: &mut Conversation,
        reservation: &mut Reservation,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<Reply, Halt> {
        if interrupt.is_raised() {
            return Err(Halt::interrupted(interrupt, "nothing was running"));
        }
        let tools = self.registry.definitions();
        if let Some(purse) = &self.purse {
            Self::tell_wind_down(purse, talk, emitter)?;
        }
        let ask = talk.worst_case(&self.system, &tools, reservation, self.model.facts());
        let held = match &self.purse {
            Some(purse) => {
                let hold = hold(purse, &ask, talk.step(), interrupt).await?;
                reservation.lower(hold.output);
                Some((Arc::clone(purse), hold))
            }
            None => None,
        };
        let bill = talk.bill(&self.system, *reservation, ask, held);
        let listener = talk.begin_step(bill, emitter, interrupt)?;
        let request = Request {
            system: &self.system,
            messages: &talk.messages,
            tools: &tools,
            max_tokens: reservation.max_tokens,
        };
        let reply = tokio::select! {
            reply = self.model.reply(request, &listener) => Some(reply),
            () = interrupt.token().cancelled() => None,
        };
        match &reply {
            Some(Ok(reply)) => listener.bill.settle(&reply.usage),
            Some(Err(_)) => listener.bill.give_up(),
            None => listener.drop_call(&interrupt.reason().1),
        }
        *reservation = listener.bill.reservation();
        talk.budget = listener.bill.budget();
        let Some(reply) = reply else {
            return Err(Halt::interrupted(
                interrupt,
                &format!("waiting for the model in step {}", talk.step()),
            ));
        };
        if let Some(exceeded) = listener.bill.refused() {
            return Err(exceeded.into());
        }
        reply.map_err(Halt::from)
    }

    /// Tells the model once that the batch's purse nears its end.
    fn tell_wind_down(
        purse: &Purse,
        talk: &mut Conversation,
        emitter: &Emitter,
    ) -> Result<(), Halt> {
        if talk.knows_wind_down || talk.step() == 0 || !purse.is_winding_down() {
            return Ok(());
        }
        talk.knows_wind_down = true;
        let text = format!(
            "Note from the runner: {}. The run ends when that is used up: finish what matters most and give your answer \
             within the next few steps.",
            purse.state()
        );
        Ok(talk.note("wind_down", &text, emitter)?)
    }

    /// Answers all calls of a reply and appends the results as one message.
    async fn act(
        &self,
        talk: &mut Conversation,
        calls: &[ToolCall],
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Result<(), Halt> {
        let answers = dispatch::answer_all(self, talk, calls, emitter, interrupt).await?;
        let halt = answers.iter().find_map(|answer| answer.halt.clone());
        let answered = calls.iter().zip(&answers);
        let run: Vec<&str> = answered
            .filter(|(_, answer)| answer.result != ToolResultKind::NotRun)
            .map(|(call, _)| call.name.as_str())
            .collect();
        talk.append_results(calls, answers, emitter)?;
        if let Some(halt) = halt {
            return Err(halt);
        }
        if interrupt.is_raised() {
            let first = calls.first().map(|call| &*call.name).unwrap_or_default();
            let doing = if run.is_empty() {
                format!("about to run {first}")
            } else {
                format!("running {}", text::one_line(&run.join(", "), 200))
            };
            let doing = format!("{doing} in step {}", talk.step());
            return Err(Halt::interrupted(interrupt, &doing));
        }
        talk.repeats_verdict()
            .map_or(Ok(()), |(stop, message)| Err(Halt { stop, message }))
    }
}

/// Reserves a call from the batch's purse. Waiting for what other tasks may give back is not the task's time.
async fn hold(
    purse: &Arc<Purse>,
    ask: &Ask,
    steps: u32,
    interrupt: &Interrupt,
) -> Result<Hold, Halt> {
    interrupt.pause();
    let granted = tokio::select! {
        granted = purse.hold(ask) => Some(granted),
        () = interrupt.token().cancelled() => None,
        () = interrupt.ending() => None,
    };
    interrupt.resume();
    match granted {
        Some(Ok(hold)) => Ok(hold),
        // Without a single call nothing was measured.
        Some(Err(exceeded)) if steps == 0 => Err(Halt {
            stop: Stop::NotStarted,
            message: exceeded.message,
        }),
        Some(Err(exceeded)) => Err(exceeded.into()),
        None => Err(Halt::interrupted(
            interrupt,
            "waiting for the batch's budget",
        )),
    }
}
