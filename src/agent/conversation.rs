//! The memory of a task: one append-only `messages[]` over all turns, and the counters that go with it.
//!
//! Every method that appends emits the event first, so that the transcript is never behind the conversation, and leaves
//! `messages` well-formed: an assistant message with tool calls is followed by all of their results.

use std::io;
use std::sync::Arc;

use crate::agent::answer::Answer;
use crate::agent::halt::Halt;
use crate::agent::interrupt::Interrupt;
use crate::agent::listener::StepListener;
use crate::agent::next::{Route, route};
use crate::agent::repeats::Repeats;
use crate::budget::{Ask, Budget, Exceeded, Hold, Limits, Purse, Reservation};
use crate::clock::Stopwatch;
use crate::event::{AssistantReplied, Emitter, Kind, ToolFinished, ToolResultKind};
use crate::message::{Block, Message, Role, ToolCall};
use crate::model::{Bill, Reply, json_bytes};
use crate::outcome::Stop;
use crate::tool::Seen;
use crate::usage::ModelFacts;

/// What a provider adds to a request that uses tools, in tokens, and more than that.
const UNSEEN_TOKENS: u64 = 1_024;
/// A provider that counts fewer tokens than a text of such long ones would have is not believed.
const MOST_BYTES_A_TOKEN: u64 = 8;

/// A task's conversation while it runs.
pub struct Conversation {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// What is spent.
    pub budget: Budget,
    /// The current turn, from 1.
    pub turn: u32,
    /// The text of the last turn that ended.
    pub reply: String,
    /// Processes that outlived their call and were killed.
    pub leaked_processes: u32,
    /// Calls that a hook or the gate denied.
    pub denials: u32,
    /// Why the first of them was.
    pub first_denial: Option<String>,
    /// What the task has read so far.
    pub(super) seen: Arc<Seen>,
    repeats: Repeats,
    last_tool: String,
    step: u32,
    step_began: Option<Stopwatch>,
    /// The bytes of `messages` as JSON.
    bytes: u64,
    /// Input tokens of the last request, and how many of those bytes it covered.
    measured: Option<(u64, u64)>,
    /// The model knows that the batch's purse nears its end.
    pub(super) knows_wind_down: bool,
}

impl Conversation {
    /// An empty conversation of so many user turns.
    #[must_use]
    pub fn new(limits: Limits, facts: Option<ModelFacts>, turns: u32) -> Self {
        Self {
            messages: Vec::new(),
            budget: Budget::new(limits, facts, turns),
            turn: 0,
            reply: String::new(),
            leaked_processes: 0,
            denials: 0,
            first_denial: None,
            seen: Arc::new(Seen::default()),
            repeats: Repeats::default(),
            last_tool: String::new(),
            step: 0,
            step_began: None,
            bytes: 0,
            measured: None,
            knows_wind_down: false,
        }
    }

    /// The current step, from 1 over the whole task.
    #[must_use]
    pub fn step(&self) -> u32 {
        self.step
    }

    pub(super) fn begin_turn(&mut self, prompt: &str, emitter: &Emitter) -> io::Result<()> {
        self.turn = self.turn.saturating_add(1);
        self.say("prompt", prompt, emitter)
    }

    /// A Stop hook wants the turn to go on.
    pub(super) fn continue_turn(&mut self, reason: &str, emitter: &Emitter) -> io::Result<()> {
        self.say("stop_hook", reason, emitter)
    }

    fn say(&mut self, origin: &str, text: &str, emitter: &Emitter) -> io::Result<()> {
        emitter.emit(Kind::PromptAppended {
            turn: self.turn,
            origin: origin.into(),
            text: text.into(),
        })?;
        self.push(Message::user(text));
        Ok(())
    }

    fn push(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_add(json_bytes(&message));
        self.messages.push(message);
    }

    /// Appends a text to the last user message, which is not sent yet, so that every request still begins like the one
    /// before it.
    pub(super) fn note(&mut self, origin: &str, text: &str, emitter: &Emitter) -> io::Result<()> {
        let Some(last) = self.messages.last().filter(|last| last.role == Role::User) else {
            return Ok(());
        };
        let mut blocks = match &last.content {
            crate::message::Content::Text(prompt) => vec![Block::text(prompt.as_str())],
            crate::message::Content::Blocks(blocks) => blocks.clone(),
        };
        emitter.emit(Kind::NoteAppended {
            turn: self.turn,
            origin: origin.into(),
            text: text.into(),
        })?;
        self.bytes = self.bytes.saturating_sub(json_bytes(last));
        self.messages.pop();
        blocks.push(Block::text(text));
        self.push(Message::results(blocks));
        Ok(())
    }

    /// Reserves the budget for the next call.
    pub(super) fn reserve(&self, step_in_turn: u32, system: &str) -> Result<Reservation, Exceeded> {
        self.budget
            .reserve(step_in_turn, self.estimate_input(system))
    }

    /// Reserves the budget for the call in which the model hands over what it has.
    pub(super) fn reserve_wrap_up(&self, system: &str) -> Result<Reservation, Exceeded> {
        self.budget.reserve_wrap_up(self.estimate_input(system))
    }

    /// What the next call can cost at worst. No token is shorter than a byte, and what the provider has counted of the
    /// conversation's beginning it counts the same again.
    pub(super) fn worst_case(
        &self,
        system: &str,
        tools: &[serde_json::Value],
        reservation: &Reservation,
        facts: Option<ModelFacts>,
    ) -> Ask {
        let fixed = json_bytes(&system).saturating_add(json_bytes(&tools));
        let unmeasured = UNSEEN_TOKENS
            .saturating_add(fixed)
            .saturating_add(self.bytes);
        let measured = self.measured.and_then(|(tokens, covered)| {
            let is_plausible =
                tokens.saturating_mul(MOST_BYTES_A_TOKEN) >= covered.saturating_add(fixed);
            let added = self.bytes.saturating_sub(covered);
            is_plausible.then(|| {
                tokens
                    .saturating_add(UNSEEN_TOKENS / 4)
                    .saturating_add(added)
            })
        });
        Ask {
            input: measured.unwrap_or(unmeasured).min(unmeasured),
            input_unmeasured: unmeasured,
            output: reservation.max_tokens,
            price: facts.map(|facts| facts.price),
        }
    }

    /// The bill of the next call.
    pub(super) fn bill(
        &self,
        system: &str,
        reservation: Reservation,
        ask: Ask,
        held: Option<(Arc<Purse>, Hold)>,
    ) -> Bill {
        Bill::new(
            self.budget.clone(),
            reservation,
            self.estimate_input(system),
            ask,
            held,
        )
    }

    /// Estimates the next request's input in tokens: what the last one measured, and a third of the bytes that came since
    /// (English text has about four bytes a token, code and other scripts fewer).
    fn estimate_input(&self, system: &str) -> u64 {
        let (tokens, covered) = self.measured.unwrap_or((json_bytes(&system) / 3, 0));
        tokens.saturating_add(self.bytes.saturating_sub(covered) / 3)
    }

    pub(super) fn begin_step(
        &mut self,
        bill: Bill,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> io::Result<StepListener> {
        self.step = self.step.saturating_add(1);
        self.step_began = Some(emitter.clock().start());
        emitter.emit(Kind::StepStarted {
            step: self.step,
            turn: self.turn,
            max_tokens: bill.reservation().max_tokens,
        })?;
        Ok(StepListener::new(
            self.step, self.turn, bill, emitter, interrupt,
        ))
    }

    /// Appends the model's answer before anything looks at it; returns where it leads and the calls that it asks for.
    pub(super) fn append_reply(
        &mut self,
        reply: Reply,
        is_wrap_up: bool,
        emitter: &Emitter,
    ) -> Result<(Route, Vec<ToolCall>), Halt> {
        let covered = self.bytes;
        let cost = self.budget.settle(&reply.usage);
        let message = Message::assistant(reply.content);
        let calls = message.tool_calls();
        let route = route(reply.stop_reason.as_deref(), calls.len());
        let ids_are_unique = calls
            .iter()
            .enumerate()
            .all(|(n, call)| calls.iter().take(n).all(|other| other.id != call.id));
        emitter.emit(Kind::AssistantReplied(Box::new(AssistantReplied {
            step: self.step,
            turn: self.turn,
            message: message.clone(),
            stop_reason: reply.stop_reason.clone(),
            route: if is_wrap_up { "wrap_up" } else { route.name() }.into(),
            usage: reply.usage,
            cost,
            total_usage: self.budget.spent(),
            total_cost: self.budget.cost(),
            request_id: reply.request_id,
            duration_ms: self
                .step_began
                .as_ref()
                .map_or(0, Stopwatch::elapsed_millis),
        })))?;
        if !ids_are_unique {
            // Two calls with one id cannot be answered one by one, so this reply never becomes part of the memory.
            let message = "the model gave two tool calls the same id".to_owned();
            return Err(Halt {
                stop: Stop::UnexpectedStop,
                message,
            });
        }
        self.measured = Some((reply.usage.input(), covered)).filter(|(tokens, _)| *tokens > 0);
        self.push(message);
        Ok((refusal_details(route, reply.stop_details.as_ref()), calls))
    }

    /// Ends the turn: its text is the reply, and what it cost must be within the budget.
    pub(super) fn end_turn(&mut self, emitter: &Emitter) -> Result<(), Halt> {
        self.reply = self.messages.last().map(Message::text).unwrap_or_default();
        if self.reply.trim().is_empty() {
            let message = format!("turn {} ended without any text", self.turn);
            emitter.emit(Kind::Warned {
                code: "empty_reply".into(),
                message,
            })?;
        }
        self.budget
            .overspent()
            .map_or(Ok(()), |exceeded| Err(exceeded.into()))
    }

    /// Appends all results of one reply as one user message, in block order.
    pub(super) fn append_results(
        &mut self,
        calls: &[ToolCall],
        answers: Vec<Answer>,
        emitter: &Emitter,
    ) -> io::Result<()> {
        let mut blocks = Vec::with_capacity(answers.len());
        for (call, answer) in calls.iter().zip(answers) {
            self.repeats.note(call, answer.result, &answer.content);
            if answer.result == ToolResultKind::Denied {
                self.denials = self.denials.saturating_add(1);
                self.first_denial
                    .get_or_insert_with(|| answer.reason.clone());
            }
            self.last_tool.clone_from(&call.name);
            self.leaked_processes = self.leaked_processes.saturating_add(answer.leaked);
            blocks.push(Block::tool_result(
                &call.id,
                &answer.content,
                answer.result != ToolResultKind::Ok,
            ));
        }
        let tool_use_ids = calls.iter().map(|call| call.id.clone()).collect();
        emitter.emit(Kind::ResultsAppended {
            step: self.step,
            tool_use_ids,
        })?;
        self.push(Message::results(blocks));
        Ok(())
    }

    /// Whether what repeats has to end the task.
    pub(super) fn repeats_verdict(&self) -> Option<(Stop, String)> {
        self.repeats.verdict(&self.last_tool)
    }

    /// Answers calls that are not run, so that the conversation stays well-formed.
    pub(super) fn answer_unrun(
        &mut self,
        calls: &[ToolCall],
        why: &str,
        emitter: &Emitter,
    ) -> io::Result<()> {
        if calls.is_empty() {
            return Ok(());
        }
        let answers = calls
            .iter()
            .map(|_| Answer::refused(ToolResultKind::NotRun, format!("Not run: {why}.")))
            .collect::<Vec<_>>();
        for (call, answer) in calls.iter().zip(&answers) {
            emitter.emit(Kind::ToolFinished(Box::new(
                answer.finished(self.step, call),
            )))?;
        }
        self.append_results(calls, answers, emitter)
    }
}

impl Answer {
    /// The record of this answer.
    pub(super) fn finished(&self, step: u32, call: &ToolCall) -> ToolFinished {
        ToolFinished {
            step,
            tool_use_id: call.id.clone(),
            name: call.name.clone(),
            result: self.result,
            content: self.content.clone(),
            output_file: self.output_file.clone(),
            output_bytes: self.output_bytes,
            duration_ms: self.duration_ms,
        }
    }
}

/// Names the category that a provider gives with a refusal.
fn refusal_details(route: Route, details: Option<&serde_json::Value>) -> Route {
    let text = |key: &str| {
        details
            .and_then(|details| details.get(key))
            .and_then(serde_json::Value::as_str)
    };
    match route {
        Route::Stop(Stop::Refusal, message) => {
            let category = text("category")
                .map(|category| format!(" ({category})"))
                .unwrap_or_default();
            let explanation = text("explanation")
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            Route::Stop(Stop::Refusal, format!("{message}{category}{explanation}"))
        }
        other => other,
    }
}
