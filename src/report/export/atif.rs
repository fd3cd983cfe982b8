//! ATIF, the Agent Trajectory Interchange Format of Harbor and the benchmarks around it, version 1.7: one JSON document whose
//! steps are what the system, the user and the agent said, each step of the agent with its calls and what came of them.
//!
//! What the format has no place for stands in its `extra` objects: the gate's decisions with their calls, hooks and retries
//! with their step, checks, warnings and the outcome at the end.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Exporter, KEPT, id, model_name, one_line, session, timestamp};
use crate::event::{AssistantReplied, Event, Kind, TaskStarted, ToolDecided, ToolFinished};
use crate::report::verdict_word;
use crate::usage::{Usage, Usd};

/// The version that is written. The fields that are used are in it and in all later ones.
const VERSION: &str = "ATIF-v1.7";

/// The writer.
pub(super) struct Atif<W> {
    out: W,
    is_open: bool,
    steps: u64,
    /// The agent's last step, to which results still belong.
    pending: Option<Pending>,
    /// Hook answers and retries of the step that comes next.
    ahead: Notes,
    usage: Usage,
    cost: Option<Usd>,
    warnings: Vec<Value>,
    checks: Vec<Value>,
    /// How the task ended.
    ending: Option<Value>,
}

/// A step of the agent.
struct Pending {
    step: Map<String, Value>,
    calls: Vec<Value>,
    results: Vec<Value>,
    notes: Notes,
}

/// What happened around a step.
#[derive(Default)]
struct Notes {
    hooks: Vec<Value>,
    retries: Vec<Value>,
}

impl<W: Write> Atif<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            is_open: false,
            steps: 0,
            pending: None,
            ahead: Notes::default(),
            usage: Usage::default(),
            cost: None,
            warnings: Vec::new(),
            checks: Vec::new(),
            ending: None,
        }
    }

    /// Begins the document. The head is missing where the transcript's first line is.
    fn open(&mut self, event: &Event, started: Option<&TaskStarted>) -> io::Result<()> {
        if self.is_open {
            return Ok(());
        }
        self.is_open = true;
        let tools = started.map(|started| started.tools.iter().map(definition).collect::<Vec<_>>());
        let mut agent = json!({
            "name": "agent-batch",
            "version": started.map_or("unknown", |started| &started.program_version),
        });
        if let Some(started) = started {
            agent["model_name"] = model_name(&started.model).into();
            agent["tool_definitions"] = json!(tools);
            agent["extra"] = json!({
                "model": started.model,
                "mode": started.mode,
                "allow": started.allow,
                "deny": started.deny,
                "limits": started.limits,
                "sandbox": started.sandbox,
            });
        }
        let session = session(event);
        write!(
            self.out,
            "{{\"schema_version\":{},\"session_id\":{},\"trajectory_id\":{},\"agent\":{},\"steps\":[",
            json!(VERSION),
            json!(session),
            json!(id(&[&session, "trajectory"])),
            one_line(&agent),
        )?;
        let system = started.map_or("", |started| &started.system);
        self.say(
            event,
            "system",
            system,
            json!({ "task": event.task, "attempt": event.attempt }),
        )
    }

    /// A step of the system or the user.
    fn say(&mut self, event: &Event, source: &str, message: &str, extra: Value) -> io::Result<()> {
        self.settle()?;
        let mut step = Map::new();
        step.insert("timestamp".into(), timestamp(event.at).into());
        step.insert("source".into(), source.into());
        step.insert("message".into(), message.into());
        step.insert("extra".into(), extra);
        self.step(step)
    }

    fn step(&mut self, step: Map<String, Value>) -> io::Result<()> {
        if self.steps > 0 {
            write!(self.out, ",")?;
        }
        self.steps += 1;
        let mut numbered = Map::new();
        numbered.insert("step_id".into(), self.steps.into());
        numbered.extend(step);
        write!(self.out, "{}", one_line(&Value::Object(numbered)))
    }

    /// Writes the agent's step, to which nothing more belongs.
    fn settle(&mut self) -> io::Result<()> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(());
        };
        if !pending.calls.is_empty() {
            pending
                .step
                .insert("tool_calls".into(), Value::Array(pending.calls));
        }
        if !pending.results.is_empty() {
            pending
                .step
                .insert("observation".into(), json!({ "results": pending.results }));
        }
        if let Some(extra) = pending.step.get_mut("extra") {
            if !pending.notes.hooks.is_empty() {
                extra["hooks"] = Value::Array(pending.notes.hooks);
            }
            if !pending.notes.retries.is_empty() {
                extra["retries"] = Value::Array(pending.notes.retries);
            }
        }
        self.step(pending.step)
    }

    fn replied(&mut self, event: &Event, replied: &AssistantReplied) -> io::Result<()> {
        self.settle()?;
        self.usage = replied.total_usage;
        self.cost = replied.total_cost;
        let thinking: String = replied
            .message
            .blocks()
            .iter()
            .filter_map(|block| block.value().get("thinking")?.as_str())
            .collect();
        let calls = replied.message.tool_calls().into_iter().map(|call| {
            // The format wants an object.
            let arguments = match call.input {
                Value::Object(arguments) => arguments,
                other => Map::from_iter([("input".to_owned(), other)]),
            };
            json!({ "tool_call_id": call.id, "function_name": call.name, "arguments": arguments })
        });
        let mut metrics = json!({
            "prompt_tokens": replied.usage.input(),
            "completion_tokens": replied.usage.output_tokens,
            "cached_tokens": replied.usage.cache_read_input_tokens,
            "extra": { "cache_creation_input_tokens": replied.usage.cache_creation_input_tokens },
        });
        if let Some(cost) = replied.cost {
            metrics["cost_usd"] = json!(cost);
        }
        let mut step = Map::new();
        step.insert("timestamp".into(), timestamp(event.at).into());
        step.insert("source".into(), "agent".into());
        step.insert("message".into(), replied.message.text().into());
        if !thinking.is_empty() {
            step.insert("reasoning_content".into(), thinking.into());
        }
        step.insert("metrics".into(), metrics);
        step.insert("llm_call_count".into(), 1.into());
        step.insert(
            "extra".into(),
            json!({
                "step": replied.step,
                "turn": replied.turn,
                "stop_reason": replied.stop_reason,
                "duration_ms": replied.duration_ms,
            }),
        );
        self.pending = Some(Pending {
            step,
            calls: calls.collect(),
            results: Vec::new(),
            notes: std::mem::take(&mut self.ahead),
        });
        Ok(())
    }

    fn decided(&mut self, decided: &ToolDecided) {
        let calls = self
            .pending
            .iter_mut()
            .flat_map(|pending| &mut pending.calls);
        for call in calls.filter(|call| call["tool_call_id"] == decided.tool_use_id.as_str()) {
            call["extra"] = json!({
                "allowed": decided.allowed,
                "class": decided.class,
                "reason": decided.reason,
                "rule": decided.rule,
                "suggestion": decided.suggestion,
            });
        }
    }

    fn answered(&mut self, tool: &ToolFinished) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        let mut result = json!({
            "content": tool.content,
            "extra": {
                "result": tool.result,
                "duration_ms": tool.duration_ms,
                "output_bytes": tool.output_bytes,
                "output_file": tool.output_file,
            },
        });
        let mut calls = pending.calls.iter();
        if calls.any(|call| call["tool_call_id"] == tool.tool_use_id.as_str()) {
            result["source_call_id"] = tool.tool_use_id.as_str().into();
        }
        pending.results.push(result);
    }

    fn note(&mut self, list: fn(&mut Notes) -> &mut Vec<Value>, note: Value) {
        let notes = self
            .pending
            .as_mut()
            .map_or(&mut self.ahead, |pending| &mut pending.notes);
        keep(list(notes), note);
    }
}

fn keep(list: &mut Vec<Value>, item: Value) {
    if list.len() < KEPT {
        list.push(item);
    }
}

/// A tool in the schema of `OpenAI`'s function calling.
fn definition(tool: &Value) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        },
    })
}

impl<W: Write> Exporter for Atif<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            Kind::TaskStarted(started) => self.open(event, Some(started))?,
            _ => self.open(event, None)?,
        }
        match &event.kind {
            Kind::PromptAppended { turn, origin, text }
            | Kind::NoteAppended { turn, origin, text } => {
                self.say(
                    event,
                    "user",
                    text,
                    json!({ "turn": turn, "origin": origin }),
                )?;
            }
            Kind::ModelRetried {
                attempt,
                delay_ms,
                reason,
                ..
            } => {
                // It belongs to the reply that is still to come.
                let retry = json!({ "try": attempt, "delay_ms": delay_ms, "reason": reason });
                keep(&mut self.ahead.retries, retry);
            }
            Kind::CallCut(cut) => {
                self.usage = cut.total_usage;
                self.cost = cut.total_cost;
                keep(&mut self.ahead.retries, json!({ "cut_off": cut }));
            }
            Kind::AssistantReplied(replied) => self.replied(event, replied)?,
            Kind::HookFinished(hook) => self.note(|notes| &mut notes.hooks, json!(hook)),
            Kind::ToolDecided(decided) => self.decided(decided),
            Kind::ToolFinished(tool) => self.answered(tool),
            Kind::Warned { code, message } => {
                keep(
                    &mut self.warnings,
                    json!({ "code": code, "message": message }),
                );
            }
            Kind::CheckFinished(check) => keep(&mut self.checks, json!(check)),
            Kind::TaskFinished(finished) => {
                self.ending = Some(json!({
                    "outcome": finished.outcome,
                    "verdict": verdict_word(finished.outcome.verdict()),
                    "stop": finished.stop,
                    "message": finished.message,
                    "duration_ms": finished.duration_ms,
                }));
            }
            Kind::TaskStarted(_)
            | Kind::StepStarted { .. }
            | Kind::TextStreamed { .. }
            | Kind::ResultsAppended { .. }
            | Kind::ConnectionFinished(_)
            | Kind::WorkspaceCompared { .. }
            | Kind::TasksNotRun { .. }
            | Kind::RunInterrupted { .. }
            | Kind::CallsEased { .. }
            | Kind::Unknown => {}
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        if !self.is_open {
            return Ok(());
        }
        self.settle()?;
        let mut metrics = json!({
            "total_prompt_tokens": self.usage.input(),
            "total_completion_tokens": self.usage.output_tokens,
            "total_cached_tokens": self.usage.cache_read_input_tokens,
            "total_steps": self.steps,
        });
        if let Some(cost) = self.cost {
            metrics["total_cost_usd"] = json!(cost);
        }
        let notes = if self.ending.is_some() {
            ""
        } else {
            ",\"notes\":\"unfinished: the transcript ends in the middle\""
        };
        let extra =
            json!({ "ending": self.ending, "checks": self.checks, "warnings": self.warnings });
        writeln!(
            self.out,
            "],\"final_metrics\":{}{notes},\"extra\":{}}}",
            one_line(&metrics),
            one_line(&extra)
        )
    }
}
