//! From a tool call to its answer. Three checks stand before the action: hook, permission gate, tool.
//!
//! ```text
//! look up -> validate -> PreToolUse hooks -> validate again if rewritten -> facts -> gate -> run -> redact, bound -> PostToolUse
//! ```
//!
//! The first part ([`prepare`]) is done for the calls of a batch one after the other, in block order, so that hooks and
//! decisions are recorded in that order; only the running overlaps. Whatever happens, each call gets exactly one answer.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};

use crate::agent::answer::{self, Answer};
use crate::agent::conversation::Conversation;
use crate::agent::lifecycle::fields;
use crate::agent::{Agent, Halt, Interrupt};
use crate::event::{Emitter, Kind, RuleRecord, ToolDecided, ToolResultKind};
use crate::hook::{self, HookAnswer, HookEvent};
use crate::message::ToolCall;
use crate::outcome::Stop;
use crate::policy::{self, Call, Denial, Permit};
use crate::tool::{Seen, Tool};
use crate::{text, workspace};

/// Most calls that run at the same time.
const MAX_PARALLEL_CALLS: usize = 10;

/// A call after the checks.
pub(super) enum Prepared {
    /// It may run.
    Ready {
        tool: Arc<dyn Tool>,
        permit: Box<Permit>,
        notes: Vec<String>,
    },
    /// It is answered already.
    Answered(Answer),
}

/// Answers every call of a reply, in block order.
///
/// # Errors
/// The transcript could not be written.
pub(super) async fn answer_all(
    agent: &Agent,
    talk: &Conversation,
    calls: &[ToolCall],
    emitter: &Emitter,
    interrupt: &Interrupt,
) -> Result<Vec<Answer>, Halt> {
    let turn = Turn {
        agent,
        step: talk.step(),
        limit: answer::share(agent.surroundings.output_limit, calls.len()),
        seen: &talk.seen,
        emitter,
        interrupt,
    };
    let mut answers: Vec<Answer> = Vec::with_capacity(calls.len());
    for batch in batches(calls, |call| turn.is_concurrency_safe(call)) {
        let halted = answers.iter().any(|answer| answer.halt.is_some());
        let mut prepared = Vec::with_capacity(batch.len());
        for call in batch {
            prepared.push((call, turn.prepare(call, halted, batch.len() > 1).await?));
        }
        let running: Vec<_> = prepared
            .into_iter()
            .map(|(call, prepared)| turn.carry_out(call, prepared))
            .collect();
        let finished: Vec<_> = stream::iter(running)
            .buffered(MAX_PARALLEL_CALLS)
            .collect()
            .await;
        for answer in finished {
            answers.push(answer?);
        }
    }
    Ok(answers)
}

/// Cuts the calls into batches that run one after the other: a run of concurrency-safe calls together, any other call alone.
fn batches<T>(calls: &[T], is_safe: impl Fn(&T) -> bool) -> Vec<&[T]> {
    calls
        .chunk_by(|one, other| is_safe(one) && is_safe(other))
        .collect()
}

/// One reply's calls while they are answered.
pub(super) struct Turn<'a> {
    pub(super) agent: &'a Agent,
    pub(super) step: u32,
    pub(super) limit: usize,
    pub(super) seen: &'a Arc<Seen>,
    pub(super) emitter: &'a Emitter,
    pub(super) interrupt: &'a Interrupt,
}

impl Turn<'_> {
    fn is_concurrency_safe(&self, call: &ToolCall) -> bool {
        let registry = &self.agent.registry;
        registry.validate(&call.name, &call.input).is_ok()
            && registry
                .get(&call.name)
                .is_some_and(|tool| tool.is_concurrency_safe(&call.input))
    }

    /// All that stands before the action.
    async fn prepare(
        &self,
        call: &ToolCall,
        halted: bool,
        parallel: bool,
    ) -> Result<Prepared, Halt> {
        if halted || self.interrupt.is_raised() {
            return self.answered(
                call,
                Answer::refused(
                    ToolResultKind::NotRun,
                    "Not run: the task is ending.".into(),
                ),
            );
        }
        let registry = &self.agent.registry;
        let Some(tool) = registry.get(&call.name) else {
            return self.answered(
                call,
                Answer::refused(
                    ToolResultKind::UnknownTool,
                    unknown_tool(call, &registry.names()),
                ),
            );
        };
        if let Err(error) = registry.validate(&call.name, &call.input) {
            return self.answered(
                call,
                Answer::refused(
                    ToolResultKind::InvalidInput,
                    invalid_input(&call.name, &error),
                ),
            );
        }
        let hooks = match self.pre_tool_use(call).await? {
            Ok(answer) => answer,
            Err(answer) => return self.answered(call, answer),
        };
        let rewritten = hooks.updated_input.is_some();
        let input = hooks.updated_input.unwrap_or_else(|| call.input.clone());
        if rewritten {
            let unsafe_beside_others = parallel && !tool.is_concurrency_safe(&input);
            let invalid = registry.validate(&call.name, &input).err();
            let invalid = invalid.or_else(|| {
                unsafe_beside_others.then(|| "must not run beside other calls".to_owned())
            });
            if let Some(error) = invalid {
                let content =
                    format!("A hook rewrote the input, and the new one was refused: {error}.");
                return self.answered(call, Answer::refused(ToolResultKind::InvalidInput, content));
            }
        }
        match self.gate(tool.as_ref(), &input) {
            Ok(permit) => {
                let reason = permit.reason().to_owned();
                let mut rules = permit.rules().iter().map(RuleRecord::from);
                let (rule, further_rules) = (rules.next(), rules.collect());
                self.decided(
                    call,
                    &input,
                    Decision {
                        allowed: true,
                        class: if rule.is_some() { "rule" } else { "mode" },
                        reason,
                        rule,
                        further_rules,
                        ..Decision::default()
                    },
                )?;
                Ok(Prepared::Ready {
                    tool: Arc::clone(tool),
                    permit: Box::new(permit),
                    notes: hooks.context,
                })
            }
            Err(denial) => {
                let answer = Answer::denied(&denial.reason);
                self.decided(call, &input, Decision::from(*denial))?;
                self.answered(call, answer)
            }
        }
    }

    /// Runs the PreToolUse hooks: their answer, or the call's if they block it.
    async fn pre_tool_use(&self, call: &ToolCall) -> Result<Result<HookAnswer, Answer>, Halt> {
        let fields = tool_fields(call, &call.input);
        match self
            .agent
            .fire(HookEvent::PreToolUse, &call.name, fields, self.emitter)
            .await
        {
            Err(halt) if halt.stop == Stop::HookStopped => {
                let reason = format!("a hook ended the run: {}", halt.message);
                self.decided(
                    call,
                    &call.input,
                    Decision {
                        class: "hook",
                        reason: reason.clone(),
                        ..Decision::default()
                    },
                )?;
                let answer = Answer::denied(&reason);
                Ok(Err(Answer {
                    halt: Some(halt),
                    ..answer
                }))
            }
            Err(halt) => Err(halt),
            Ok(answer) => match &answer.blocked {
                None => Ok(Ok(answer)),
                Some(hook::Block {
                    hook,
                    reason,
                    failure,
                }) => {
                    let class = if *failure { "hook_failure" } else { "hook" };
                    let reason =
                        format!("`{}` was denied by the hook `{hook}`: {reason}", call.name);
                    let input = answer.updated_input.as_ref().unwrap_or(&call.input);
                    self.decided(
                        call,
                        input,
                        Decision {
                            class,
                            reason: reason.clone(),
                            ..Decision::default()
                        },
                    )?;
                    Ok(Err(Answer::denied(&reason)))
                }
            },
        }
    }

    /// Gathers the facts and asks the gate.
    fn gate(&self, tool: &dyn Tool, input: &Value) -> Result<Permit, Box<Denial>> {
        let policy = &self.agent.policy;
        let action = tool.action(input);
        let facts =
            workspace::resolve_all(&policy.roots.workspace, &policy::queries(&action, policy));
        policy::decide(
            &Call {
                tool: tool.name(),
                input,
                action,
                read_only: tool.is_read_only(input),
            },
            &facts,
            policy,
        )
    }

    fn answered(&self, call: &ToolCall, mut answer: Answer) -> Result<Prepared, Halt> {
        answer.content =
            text::ends(&self.emitter.redactor().redact(&answer.content), self.limit).into_owned();
        self.emitter.emit(Kind::ToolFinished(Box::new(
            answer.finished(self.step, call),
        )))?;
        Ok(Prepared::Answered(answer))
    }

    fn decided(&self, call: &ToolCall, input: &Value, decision: Decision) -> Result<(), Halt> {
        self.emitter.emit(Kind::ToolDecided(Box::new(ToolDecided {
            step: self.step,
            tool_use_id: call.id.clone(),
            name: call.name.clone(),
            input: input.clone(),
            allowed: decision.allowed,
            would_ask: decision.would_ask,
            mode: self.agent.policy.mode.name().to_owned(),
            class: decision.class.to_owned(),
            reason: decision.reason,
            rule: decision.rule,
            further_rules: decision.further_rules,
            suggestion: decision.suggestion,
        })))?;
        Ok(())
    }
}

/// What is recorded of a decision, whoever took it.
#[derive(Default)]
struct Decision {
    allowed: bool,
    would_ask: bool,
    class: &'static str,
    reason: String,
    rule: Option<RuleRecord>,
    further_rules: Vec<RuleRecord>,
    suggestion: Option<String>,
}

impl From<Denial> for Decision {
    fn from(denial: Denial) -> Self {
        Self {
            allowed: false,
            would_ask: denial.would_ask,
            class: denial.class,
            reason: denial.reason,
            rule: denial.rule.as_ref().map(RuleRecord::from),
            further_rules: Vec::new(),
            suggestion: denial.suggestion,
        }
    }
}

pub(super) fn tool_fields(call: &ToolCall, input: &Value) -> Map<String, Value> {
    fields(json!({"tool_name": call.name, "tool_input": input, "tool_use_id": call.id}))
}

fn unknown_tool(call: &ToolCall, names: &[String]) -> String {
    let name: String = call.name.chars().take(64).collect();
    match names {
        [] => format!("There is no tool `{name}`, nor any other."),
        names => format!(
            "There is no tool `{name}`. The tools are: {}.",
            names.join(", ")
        ),
    }
}

fn invalid_input(tool: &str, error: &str) -> String {
    format!("The input does not fit the schema of `{tool}`: {error}. Nothing was run.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_calls_are_batched_and_any_other_call_runs_alone() {
        let calls = ["R", "R", "W", "R", "W", "W"];
        let cut: Vec<String> = batches(&calls, |call| *call == "R")
            .iter()
            .map(|batch| batch.concat())
            .collect();
        assert_eq!(cut, ["RR", "W", "R", "W", "W"]);
    }
}
