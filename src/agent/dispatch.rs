//! From a tool call to its answer. Three checks stand before the action: hook, permission gate, tool.
//!
//! ```text
//! look up -> validate -> PreToolUse hooks -> validate again if rewritten -> facts -> gate -> run -> redact, bound -> PostToolUse
//! ```
//!
//! The first part ([`prepare`]) is done for the calls of a batch one after the other, in block order, so that hooks and
//! decisions are recorded in that order; only the running overlaps. Whatever happens, each call gets exactly one answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::agent::answer::{self, Answer};
use crate::agent::conversation::{Conversation, as_millis};
use crate::agent::{Agent, Halt, Interrupt, fields};
use crate::event::{Emitter, Kind, RuleRecord, ToolDecided, ToolResultKind};
use crate::hook::{self, HookAnswer, HookEvent};
use crate::message::ToolCall;
use crate::outcome::Stop;
use crate::policy::{self, Call, Denial, Permit, Rule};
use crate::tool::{Seen, Tool, ToolContext, ToolOutput};
use crate::{text, workspace};

/// Most calls that run at the same time.
const MAX_PARALLEL_CALLS: usize = 10;
/// How long a call may take to end after it was cancelled, before it is given up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// A tool's own time limit strikes first; this is how much later the runtime's does.
const LIMIT_GRACE: Duration = Duration::from_secs(15);

/// Most bytes of what one hook may add to a result.
const MAX_NOTE_BYTES: usize = 10_000;

/// A call after the checks.
enum Prepared {
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
struct Turn<'a> {
    agent: &'a Agent,
    step: u32,
    limit: usize,
    seen: &'a Arc<Seen>,
    emitter: &'a Emitter,
    interrupt: &'a Interrupt,
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
                let mut rules = permit.rules().iter().map(record);
                let (rule, further_rules) = (rules.next(), rules.collect());
                self.decided(
                    call,
                    &input,
                    Decision {
                        allowed: true,
                        class: "allowed",
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
                let content = denied(&denial.reason);
                self.decided(call, &input, Decision::from(*denial))?;
                self.answered(call, Answer::refused(ToolResultKind::Denied, content))
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
                let answer = Answer::refused(ToolResultKind::Denied, denied(&reason));
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
                    Ok(Err(Answer::refused(
                        ToolResultKind::Denied,
                        denied(&reason),
                    )))
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

    /// Runs a call that may run, and answers it.
    async fn carry_out(&self, call: &ToolCall, prepared: Prepared) -> Result<Answer, Halt> {
        let (tool, permit, mut notes) = match prepared {
            Prepared::Answered(answer) => return Ok(answer),
            Prepared::Ready {
                tool,
                permit,
                notes,
            } => (tool, permit, notes),
        };
        let input = permit.input().clone();
        let stem = text::file_name::file_name(&format!("{:04}-{}", self.step, call.id));
        let began = self.emitter.clock().start();
        let (result, output) = self.run(tool, *permit, &stem).await;
        let duration_ms = as_millis(began.elapsed());
        let (mut content, output_file, output_bytes) =
            self.fit(&output.text, output.spilled, &stem)?;
        let halt = match self
            .post_tool_use(call, &input, result, &content, output.response, duration_ms)
            .await
        {
            Ok(more) => {
                notes.extend(more);
                None
            }
            Err(halt) if halt.stop == Stop::HookStopped => Some(halt),
            Err(halt) => return Err(halt),
        };
        for note in notes {
            content.push_str("\n\n");
            content.push_str(&text::ends(
                &self.emitter.redactor().redact(&note),
                MAX_NOTE_BYTES,
            ));
        }
        let answer = Answer {
            result,
            content,
            output_file,
            output_bytes,
            duration_ms,
            leaked: output.leaked,
            halt,
        };
        self.emitter.emit(Kind::ToolFinished(Box::new(
            answer.finished(self.step, call),
        )))?;
        Ok(answer)
    }

    /// Runs the tool in a task of its own, so that neither a panic nor a blocked thread takes the loop with it.
    async fn run(
        &self,
        tool: Arc<dyn Tool>,
        permit: Permit,
        stem: &str,
    ) -> (ToolResultKind, ToolOutput) {
        let limit = self.agent.limits.tool_timeout;
        let cancel = self.interrupt.token().child_token();
        let context = self.context(stem, limit, &cancel);
        let name = tool.name().to_owned();
        let mut running = tokio::spawn(async move { tool.call(permit, &context).await });
        let finished = tokio::select! {
            finished = &mut running => Some(finished),
            () = ended(&cancel, limit + LIMIT_GRACE) => {
                cancel.cancel();
                tokio::time::timeout(CANCEL_GRACE, &mut running).await.ok()
            }
        };
        match finished {
            Some(Ok(output)) if output.timed_out => (ToolResultKind::TimedOut, output),
            Some(Ok(output)) if output.is_error => (ToolResultKind::Error, output),
            Some(Ok(output)) => (ToolResultKind::Ok, output),
            Some(Err(error)) => {
                let text = format!("`{name}` crashed: {}", panic_message(error));
                (
                    ToolResultKind::Panicked,
                    ToolOutput {
                        text,
                        is_error: true,
                        ..ToolOutput::default()
                    },
                )
            }
            None => {
                running.abort();
                let text = format!(
                    "`{name}` did not end within {} and was given up",
                    humantime::format_duration(limit)
                );
                (
                    ToolResultKind::TimedOut,
                    ToolOutput {
                        text,
                        is_error: true,
                        ..ToolOutput::default()
                    },
                )
            }
        }
    }

    fn context(&self, stem: &str, time_limit: Duration, cancel: &CancellationToken) -> ToolContext {
        let surroundings = &self.agent.surroundings;
        ToolContext {
            launcher: surroundings.launcher.clone(),
            environment: surroundings.environment.clone(),
            output_dir: surroundings.output_dir.clone(),
            output_stem: stem.to_owned(),
            output_limit: self.limit,
            time_limit,
            cancel: cancel.clone(),
            redactor: self.emitter.shared_redactor(),
            seen: Arc::clone(self.seen),
        }
    }

    /// Redacts and bounds an output: the text for the model, the file with the whole of it, and its size.
    fn fit(
        &self,
        text: &str,
        spilled: Option<(std::path::PathBuf, u64)>,
        stem: &str,
    ) -> Result<(String, Option<String>, u64), Halt> {
        let output_dir = &self.agent.surroundings.output_dir;
        let text = self.emitter.redactor().redact(text);
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let relative = |file: &std::path::Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("output/{name}")
        };
        if let Some((file, whole)) = spilled {
            let note = answer::where_it_is(usize::try_from(whole).unwrap_or(usize::MAX), &file);
            return Ok((
                format!("{}\n{note}", text::ends(&text, self.limit)),
                Some(relative(&file)),
                whole,
            ));
        }
        let file = output_dir.join(format!("{stem}.txt"));
        let (content, cut) = answer::bound(text, self.limit, &file)?;
        Ok((content, cut.then(|| relative(&file)), bytes))
    }

    /// PostToolUse after a success, PostToolUseFailure after a failure: they observe and may add a note for the model.
    async fn post_tool_use(
        &self,
        call: &ToolCall,
        input: &Value,
        result: ToolResultKind,
        content: &str,
        response: Option<Value>,
        duration_ms: u64,
    ) -> Result<Vec<String>, Halt> {
        let mut fields = tool_fields(call, input);
        fields.insert("duration_ms".into(), duration_ms.into());
        let event = if result == ToolResultKind::Ok {
            fields.insert(
                "tool_response".into(),
                response.unwrap_or_else(|| json!({"content": content})),
            );
            HookEvent::PostToolUse
        } else {
            fields.insert("error".into(), content.into());
            HookEvent::PostToolUseFailure
        };
        let answer = self
            .agent
            .fire(event, &call.name, fields, self.emitter)
            .await?;
        let feedback = answer
            .blocked
            .map(|block| format!("(Hook `{}`: {})", block.hook, block.reason));
        Ok(feedback.into_iter().chain(answer.context).collect())
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
            rule: denial.rule.as_ref().map(record),
            further_rules: Vec::new(),
            suggestion: denial.suggestion,
        }
    }
}

fn record(rule: &Rule) -> RuleRecord {
    RuleRecord {
        rule: rule.text().to_owned(),
        source: format!("{} {}", rule.source().layer, rule.source().file),
    }
}

fn tool_fields(call: &ToolCall, input: &Value) -> Map<String, Value> {
    fields(json!({"tool_name": call.name, "tool_input": input, "tool_use_id": call.id}))
}

async fn ended(cancel: &CancellationToken, limit: Duration) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(limit) => {}
    }
}

fn denied(reason: &str) -> String {
    format!(
        "Denied: {reason}. Nobody can approve it during this run; do it another way or finish without it."
    )
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

fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into()),
        Err(error) => error.to_string(),
    }
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
