//! The fold: events in, steps to be shown out. One step is held at a time, and of it only what is shown.
//!
//! All strings in here are clipped and free of controls. They are still foreign; the template escapes them.

use serde_json::Value;

use crate::event::{
    AssistantReplied, Event, HookFinished, HookResult, Kind, RuleRecord, ToolDecided, ToolFinished,
    ToolResultKind,
};
use crate::message::{Block, Content};
use crate::text::html::{block, line};
use crate::usage::{Usage, Usd};

/// The longest text of a model, hook or prompt, in bytes.
const TEXT: usize = 6 * 1024;
/// The longest value of an input, in bytes.
const VALUE: usize = 4 * 1024;
/// The longest output of a tool, in bytes.
const OUTPUT: usize = 8 * 1024;
/// The longest sentence, in bytes.
const SENTENCE: usize = 1000;
/// The longest name, in bytes.
const NAME: usize = 200;
/// How many calls of a step are shown.
const CALLS: usize = 60;
/// How many fields of an input, hooks of a call or texts of a step are shown.
const FEW: usize = 20;

/// Something in a timeline.
pub(super) enum Entry {
    /// A user turn.
    Prompt {
        turn: u32,
        origin: String,
        text: String,
    },
    /// A model call and what came of it.
    Step(Box<Step>),
    /// A hook that ran outside of a step.
    Hook(Hook),
}

/// A model call and what came of it.
#[derive(Default)]
pub(super) struct Step {
    pub(super) number: u32,
    pub(super) retries: Vec<String>,
    pub(super) said: Vec<Said>,
    pub(super) calls: Vec<Call>,
    pub(super) calls_left_out: u64,
    /// Hooks that are about no call.
    pub(super) hooks: Vec<Hook>,
    pub(super) reply: Option<Reply>,
}

/// The sums of a reply.
pub(super) struct Reply {
    pub(super) usage: Usage,
    pub(super) cost: Option<Usd>,
    pub(super) duration_ms: u64,
    /// The stop reason, where it is not the usual one.
    pub(super) odd_stop: Option<String>,
}

/// A block of a reply that is no call.
pub(super) enum Said {
    Text(String),
    Thinking(String),
    /// A block of another type.
    Other(String),
}

/// A tool call from the question to the answer.
#[derive(Default)]
pub(super) struct Call {
    id: String,
    pub(super) tool: String,
    /// What it is about, on one line.
    pub(super) headline: String,
    pub(super) input: Vec<(String, String)>,
    pub(super) hooks: Vec<Hook>,
    pub(super) decision: Option<Decision>,
    pub(super) answer: Option<Answer>,
}

/// What the gate said.
pub(super) struct Decision {
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) rules: Vec<String>,
    pub(super) suggestion: Option<String>,
}

/// What the tool said.
pub(super) struct Answer {
    pub(super) result: ToolResultKind,
    pub(super) content: String,
    /// Relative to the run directory, as the event has it.
    pub(super) file: Option<String>,
    pub(super) bytes: u64,
    pub(super) duration_ms: u64,
}

/// What a hook said.
pub(super) struct Hook {
    pub(super) event: String,
    pub(super) name: String,
    pub(super) result: HookResult,
    pub(super) message: String,
    pub(super) rewrite: Option<(String, String)>,
}

impl Step {
    /// Whether something was not allowed or blocked here.
    pub(super) fn is_marked(&self) -> bool {
        let spoke = |hook: &Hook| hook.result != HookResult::Passed;
        self.hooks.iter().any(spoke)
            || self
                .calls
                .iter()
                .any(|call| call.is_denied() || call.hooks.iter().any(spoke))
    }
}

impl Call {
    pub(super) fn is_denied(&self) -> bool {
        self.decision
            .as_ref()
            .is_some_and(|decision| !decision.allowed)
            || self
                .answer
                .as_ref()
                .is_some_and(|answer| answer.result == ToolResultKind::Denied)
    }
}

/// Folds the events of one attempt.
#[derive(Default)]
pub(super) struct Fold {
    open: Option<Box<Step>>,
}

impl Fold {
    /// Takes an event in; returns what is complete by it, in order.
    pub(super) fn take(&mut self, event: &Event) -> Vec<Entry> {
        match &event.kind {
            Kind::StepStarted { step, .. } => {
                let done = self.end();
                self.step(*step);
                return done;
            }
            Kind::PromptAppended { turn, origin, text } => {
                let mut done = self.end();
                done.push(Entry::Prompt {
                    turn: *turn,
                    origin: line(origin, NAME),
                    text: block(text.trim(), TEXT),
                });
                return done;
            }
            Kind::ModelRetried {
                step,
                attempt,
                reason,
                ..
            } => {
                let retry = format!("try {attempt} failed: {}", line(reason, SENTENCE));
                push(&mut self.step(*step).retries, retry);
            }
            Kind::CallCut(cut) => {
                let said = format!("cut off: {}", line(&cut.reason, SENTENCE));
                push(&mut self.step(cut.step).retries, said);
            }
            Kind::AssistantReplied(replied) => self.step(replied.step).replied(replied),
            Kind::HookFinished(hook) => return self.hook(hook),
            Kind::ToolDecided(decided) => self.decided(decided),
            Kind::ToolFinished(finished) => self.finished(finished),
            Kind::WorkspaceCompared { .. } | Kind::CheckFinished(_) | Kind::TaskFinished(_) => {
                return self.end();
            }
            _ => {}
        }
        Vec::new()
    }

    /// What is still open.
    pub(super) fn end(&mut self) -> Vec<Entry> {
        self.open.take().map(Entry::Step).into_iter().collect()
    }

    /// The open step. A transcript that lacks its beginning gets one.
    fn step(&mut self, number: u32) -> &mut Step {
        self.open.get_or_insert_with(|| {
            Box::new(Step {
                number,
                ..Step::default()
            })
        })
    }

    fn hook(&mut self, hook: &HookFinished) -> Vec<Entry> {
        let shown = Hook {
            event: line(&hook.event, NAME),
            name: line(&hook.hook, NAME),
            result: hook.result,
            message: block(hook.message.trim(), TEXT),
            rewrite: hook
                .rewrite
                .as_ref()
                .map(|rewrite| (pretty(&rewrite.before), pretty(&rewrite.after))),
        };
        let Some(step) = &mut self.open else {
            return vec![Entry::Hook(shown)];
        };
        let is_of = |call: &&mut Call| Some(&call.id) == hook.tool_use_id.as_ref();
        let hooks = match step.calls.iter_mut().find(is_of) {
            Some(call) => &mut call.hooks,
            None => &mut step.hooks,
        };
        push(hooks, shown);
        Vec::new()
    }

    fn decided(&mut self, decided: &ToolDecided) {
        let step = self.step(decided.step);
        let Some(call) = step.call(&decided.tool_use_id, &decided.name, |call| {
            call.decision.is_none()
        }) else {
            return;
        };
        // A hook may have rewritten what the model asked for.
        call.ask(&decided.input);
        call.decision = Some(Decision {
            allowed: decided.allowed,
            reason: line(&decided.reason, SENTENCE),
            rules: decided
                .rule
                .iter()
                .chain(&decided.further_rules)
                .take(FEW)
                .map(rule)
                .collect(),
            suggestion: decided
                .suggestion
                .as_deref()
                .map(|suggestion| line(suggestion, SENTENCE)),
        });
    }

    fn finished(&mut self, finished: &ToolFinished) {
        let step = self.step(finished.step);
        let Some(call) = step.call(&finished.tool_use_id, &finished.name, |call| {
            call.answer.is_none()
        }) else {
            return;
        };
        call.answer = Some(Answer {
            result: finished.result,
            content: block(finished.content.trim_end(), OUTPUT),
            file: finished.output_file.clone(),
            bytes: finished.output_bytes,
            duration_ms: finished.duration_ms,
        });
    }
}

impl Step {
    fn replied(&mut self, replied: &AssistantReplied) {
        match &replied.message.content {
            Content::Text(text) => push(&mut self.said, Said::Text(block(text.trim(), TEXT))),
            Content::Blocks(blocks) => blocks.iter().for_each(|block| self.block(block)),
        }
        let reason = replied.stop_reason.as_deref().unwrap_or("none");
        self.reply = Some(Reply {
            usage: replied.usage,
            cost: replied.cost,
            duration_ms: replied.duration_ms,
            odd_stop: (!matches!(reason, "end_turn" | "tool_use")).then(|| line(reason, NAME)),
        });
    }

    fn block(&mut self, raw: &Block) {
        if let Some(asked) = raw.as_tool_call() {
            if self.calls.len() == CALLS {
                self.calls_left_out += 1;
                return;
            }
            let mut call = Call {
                id: asked.id,
                tool: line(&asked.name, NAME),
                ..Call::default()
            };
            call.ask(&asked.input);
            self.calls.push(call);
            return;
        }
        let said = match raw.kind() {
            "text" => {
                let text = raw.as_text().unwrap_or_default().trim();
                (!text.is_empty()).then(|| Said::Text(block(text, TEXT)))
            }
            "thinking" => {
                let thought = raw.value().get("thinking").and_then(Value::as_str);
                let thought = thought.unwrap_or_default().trim();
                (!thought.is_empty()).then(|| Said::Thinking(block(thought, TEXT)))
            }
            other => Some(Said::Other(line(other, NAME))),
        };
        if let Some(said) = said {
            push(&mut self.said, said);
        }
    }

    /// The call that an event is about; a new one where nobody asked for it.
    fn call(&mut self, id: &str, name: &str, waits: fn(&Call) -> bool) -> Option<&mut Call> {
        let known = self
            .calls
            .iter()
            .position(|call| call.id == id && waits(call));
        if let Some(place) = known {
            return self.calls.get_mut(place);
        }
        if self.calls.len() == CALLS {
            // One that was left out of the reply is counted already.
            return None;
        }
        self.calls.push(Call {
            id: id.to_owned(),
            tool: line(name, NAME),
            ..Call::default()
        });
        self.calls.last_mut()
    }
}

impl Call {
    /// Sets what is asked for.
    fn ask(&mut self, input: &Value) {
        self.headline = headline(input);
        self.input = match input.as_object() {
            Some(fields) => fields
                .iter()
                .take(FEW)
                .map(|(name, value)| (line(name, NAME), pretty(value)))
                .collect(),
            None => vec![("input".to_owned(), pretty(input))],
        };
    }
}

/// A string as it is, anything else as JSON.
fn pretty(value: &Value) -> String {
    match value.as_str() {
        Some(text) => block(text, VALUE),
        None => block(
            &serde_json::to_string_pretty(value).unwrap_or_default(),
            VALUE,
        ),
    }
}

/// What a call is about: its telling field, or all of it.
fn headline(input: &Value) -> String {
    const TELLING: [&str; 6] = ["command", "file_path", "pattern", "path", "url", "query"];
    let telling = TELLING
        .iter()
        .find_map(|name| input.get(name)?.as_str())
        .filter(|text| !text.is_empty());
    match telling {
        Some(text) => line(text, NAME),
        None if input.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        None => line(&input.to_string(), NAME),
    }
}

fn rule(rule: &RuleRecord) -> String {
    format!("{} ({})", line(&rule.rule, NAME), line(&rule.source, NAME))
}

/// Adds to a list that is bounded.
fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < FEW {
        list.push(item);
    }
}
