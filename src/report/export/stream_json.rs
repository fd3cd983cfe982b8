//! Claude Code's stream-json: an `init` line, messages in the shape of the Messages API, notices, and a `result` line last.
//!
//! Each line has the fields of the stream (`session_id`, `uuid`) and those of a transcript on disk (`sessionId`, `parentUuid`),
//! so that viewers of either open it. `success` with `is_error: false` is a task that passed its gate and nothing else; a
//! transcript that ends in the middle has no `result` line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Exporter, KEPT, id, model_name, one_line, session, timestamp};
use crate::event::{
    AssistantReplied, CheckFinished, CheckResult, Event, HookFinished, HookResult, Kind,
    TaskFinished, TaskStarted, ToolDecided, ToolResultKind,
};
use crate::message::{Block, Content};
use crate::outcome::{Outcome, Verdict};
use crate::usage::{Usage, Usd};

/// The writer.
pub(super) struct StreamJson<W> {
    out: W,
    /// What stands on every line.
    session: String,
    parent: Option<String>,
    lines: u64,
    workspace: String,
    version: String,
    model: String,
    mode: String,
    /// Answers to the calls of the last reply, which go out as one message.
    results: BTreeMap<String, Value>,
    order: Vec<String>,
    denials: Vec<Value>,
    steps: u32,
    usage: Usage,
    cost: Option<Usd>,
    api_ms: u64,
    stop_reason: Option<String>,
}

impl<W: Write> StreamJson<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            session: String::new(),
            parent: None,
            lines: 0,
            workspace: String::new(),
            version: String::new(),
            model: String::new(),
            mode: String::new(),
            results: BTreeMap::new(),
            order: Vec::new(),
            denials: Vec::new(),
            steps: 0,
            usage: Usage::default(),
            cost: None,
            api_ms: 0,
            stop_reason: None,
        }
    }

    /// Writes a line: its own fields, then those that every line has.
    fn line(&mut self, event: &Event, fields: Value) -> io::Result<()> {
        let Value::Object(mut line) = fields else {
            return Ok(());
        };
        self.lines += 1;
        let uuid = id(&[&self.session, "line", &self.lines.to_string()]);
        let common = json!({
            "session_id": self.session,
            "uuid": uuid,
            "parent_tool_use_id": null,
            "timestamp": timestamp(event.at),
            "sessionId": self.session,
            "parentUuid": self.parent,
            "isSidechain": false,
            "userType": "external",
            "cwd": self.workspace,
            "version": self.version,
        });
        if let Value::Object(common) = common {
            for (key, value) in common {
                line.entry(key).or_insert(value);
            }
        }
        writeln!(self.out, "{}", one_line(&Value::Object(line)))?;
        self.parent = Some(uuid);
        Ok(())
    }

    /// A notice that is no message.
    fn notice(
        &mut self,
        event: &Event,
        subtype: &str,
        level: &str,
        content: &str,
        more: Value,
    ) -> io::Result<()> {
        let mut fields = Map::new();
        fields.insert("type".into(), "system".into());
        fields.insert("subtype".into(), subtype.into());
        fields.insert("level".into(), level.into());
        fields.insert("content".into(), content.into());
        if let Value::Object(more) = more {
            fields.extend(more);
        }
        self.line(event, Value::Object(fields))
    }

    fn started(&mut self, event: &Event, started: &TaskStarted) -> io::Result<()> {
        self.workspace.clone_from(&started.workspace);
        self.version = format!("agent-batch/{}", started.program_version);
        model_name(&started.model).clone_into(&mut self.model);
        self.mode.clone_from(&started.mode);
        let tools: Vec<&Value> = started
            .tools
            .iter()
            .filter_map(|tool| tool.get("name"))
            .collect();
        let fields = json!({
            "type": "system",
            "subtype": "init",
            "model": self.model,
            "permissionMode": self.mode,
            "tools": tools,
            "mcp_servers": [],
            "slash_commands": [],
            "agents": [],
            "skills": [],
            "plugins": [],
            "output_style": "default",
            "apiKeySource": "none",
            "claude_code_version": self.version,
            "task": event.task,
            "attempt": event.attempt,
        });
        self.line(event, fields)
    }

    fn prompt(&mut self, event: &Event, origin: &str, text: &str) -> io::Result<()> {
        self.answers(event)?;
        let fields = json!({
            "type": "user",
            "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
            "isSynthetic": origin != "prompt",
        });
        self.line(event, fields)
    }

    fn replied(&mut self, event: &Event, replied: &AssistantReplied) -> io::Result<()> {
        self.answers(event)?;
        self.steps = self.steps.max(replied.step);
        self.usage = replied.total_usage;
        self.cost = replied.total_cost;
        self.api_ms = self.api_ms.saturating_add(replied.duration_ms);
        self.stop_reason.clone_from(&replied.stop_reason);
        let content: Vec<Value> = match &replied.message.content {
            Content::Text(text) => vec![json!({ "type": "text", "text": text })],
            Content::Blocks(blocks) => blocks.iter().map(|block| block.value().clone()).collect(),
        };
        self.order = replied
            .message
            .tool_calls()
            .into_iter()
            .map(|call| call.id)
            .collect();
        let message = replied
            .request_id
            .clone()
            .unwrap_or_else(|| id(&[&self.session, "message", &replied.step.to_string()]));
        let fields = json!({
            "type": "assistant",
            "message": {
                "id": message,
                "type": "message",
                "role": "assistant",
                "model": self.model,
                "content": content,
                "stop_reason": replied.stop_reason,
                "stop_sequence": null,
                "usage": replied.usage,
            },
            "requestId": replied.request_id,
        });
        self.line(event, fields)
    }

    /// The answers so far as one message, in the order of the calls.
    fn answers(&mut self, event: &Event) -> io::Result<()> {
        let mut results = std::mem::take(&mut self.results);
        let order = std::mem::take(&mut self.order);
        let mut content: Vec<Value> = order
            .iter()
            .filter_map(|call| results.remove(call))
            .collect();
        content.extend(results.into_values());
        if content.is_empty() {
            return Ok(());
        }
        let fields = json!({ "type": "user", "message": { "role": "user", "content": content } });
        self.line(event, fields)
    }

    fn decided(&mut self, event: &Event, decided: &ToolDecided) -> io::Result<()> {
        if decided.allowed {
            return Ok(());
        }
        if self.denials.len() < KEPT {
            self.denials.push(json!({
                "tool_name": decided.name,
                "tool_use_id": decided.tool_use_id,
                "tool_input": decided.input,
            }));
        }
        let suggestion = decided.suggestion.as_deref();
        let suggestion = suggestion.map_or(String::new(), |rule| format!(" To allow it: {rule}"));
        let message = format!("{} denied: {}.{suggestion}", decided.name, decided.reason);
        let more = json!({
            "tool_name": decided.name,
            "tool_use_id": decided.tool_use_id,
            "decision_reason_type": decided.class,
            "decision_reason": decided.reason,
            "message": message,
        });
        self.notice(event, "permission_denied", "warning", &message, more)
    }

    fn hook(&mut self, event: &Event, hook: &HookFinished) -> io::Result<()> {
        let (level, outcome) = match hook.result {
            HookResult::Passed => ("info", "success"),
            HookResult::Blocked => ("warning", "blocked"),
            HookResult::Failed => ("error", "error"),
        };
        let content = format!(
            "{} hook {}: {outcome}. {}",
            hook.event, hook.hook, hook.message
        );
        let more = json!({
            "hook_name": hook.hook,
            "hook_event": hook.event,
            "output": hook.message,
            "outcome": outcome,
        });
        self.notice(event, "hook_response", level, &content, more)
    }

    fn check(&mut self, event: &Event, check: &CheckFinished) -> io::Result<()> {
        let (level, did) = match check.result {
            CheckResult::Passed => ("info", "passed"),
            CheckResult::Failed => ("error", "failed"),
            CheckResult::Errored => ("error", "could not be run"),
        };
        let content = format!(
            "check {} {did}: {}. {}",
            check.check, check.title, check.message
        );
        self.notice(event, "informational", level, &content, json!({}))
    }

    fn finished(&mut self, event: &Event, finished: &TaskFinished) -> io::Result<()> {
        self.answers(event)?;
        let passed = finished.outcome.verdict() == Verdict::Passed;
        let subtype = match finished.outcome {
            Outcome::Completed => "success",
            Outcome::StepLimit => "error_max_turns",
            Outcome::TokenBudget | Outcome::CostBudget => "error_max_budget_usd",
            _ => "error_during_execution",
        };
        let mut fields = Map::new();
        let mut set = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        set("type", "result".into());
        set("subtype", subtype.into());
        set("is_error", (!passed).into());
        set("duration_ms", finished.duration_ms.into());
        set("duration_api_ms", self.api_ms.into());
        set("num_turns", self.steps.into());
        if passed {
            set("result", finished.reply.as_str().into());
        } else {
            set(
                "errors",
                json!([format!("{}: {}", finished.outcome.name(), finished.message)]),
            );
        }
        set("stop_reason", json!(self.stop_reason));
        // Left out where a price is not known: 0 would be a lie.
        if let Some(cost) = self.cost {
            set("total_cost_usd", json!(cost));
        }
        set("usage", json!(self.usage));
        let mut by_model = Map::new();
        let mut model = json!({
            "inputTokens": self.usage.input_tokens,
            "outputTokens": self.usage.output_tokens,
            "cacheReadInputTokens": self.usage.cache_read_input_tokens,
            "cacheCreationInputTokens": self.usage.cache_creation_input_tokens,
            "webSearchRequests": 0,
        });
        if let Some(cost) = self.cost {
            model["costUSD"] = json!(cost);
        }
        by_model.insert(self.model.clone(), model);
        set("modelUsage", Value::Object(by_model));
        set(
            "permission_denials",
            Value::Array(std::mem::take(&mut self.denials)),
        );
        set("outcome", finished.outcome.name().into());
        self.line(event, Value::Object(fields))
    }
}

impl<W: Write> Exporter for StreamJson<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.session.is_empty() {
            self.session = session(event);
        }
        match &event.kind {
            Kind::TaskStarted(started) => self.started(event, started),
            Kind::Warned { code, message } => {
                let content = format!("{code}: {message}");
                self.notice(event, "informational", "warning", &content, json!({}))
            }
            Kind::PromptAppended { origin, text, .. } | Kind::NoteAppended { origin, text, .. } => {
                self.prompt(event, origin, text)
            }
            Kind::ModelRetried {
                attempt,
                delay_ms,
                reason,
                ..
            } => {
                let more = json!({
                    "attempt": attempt,
                    "retry_delay_ms": delay_ms,
                    "error_status": null,
                    "error": "unknown",
                });
                self.notice(event, "api_retry", "warning", reason, more)
            }
            Kind::CallCut(cut) => {
                self.usage = cut.total_usage;
                self.cost = cut.total_cost;
                self.notice(
                    event,
                    "call_cut",
                    "warning",
                    &cut.reason,
                    json!({ "usage": cut.usage }),
                )
            }
            Kind::AssistantReplied(replied) => self.replied(event, replied),
            Kind::HookFinished(hook) => self.hook(event, hook),
            Kind::ToolDecided(decided) => self.decided(event, decided),
            Kind::ToolFinished(tool) => {
                let is_error = tool.result != ToolResultKind::Ok;
                let block = Block::tool_result(&tool.tool_use_id, &tool.content, is_error);
                self.results
                    .insert(tool.tool_use_id.clone(), block.value().clone());
                Ok(())
            }
            Kind::ResultsAppended { tool_use_ids, .. } => {
                self.order.clone_from(tool_use_ids);
                self.answers(event)
            }
            Kind::CheckFinished(check) => self.check(event, check),
            Kind::TaskFinished(finished) => self.finished(event, finished),
            Kind::StepStarted { .. }
            | Kind::TextStreamed { .. }
            | Kind::ConnectionFinished(_)
            | Kind::WorkspaceCompared { .. }
            | Kind::TasksNotRun { .. }
            | Kind::RunInterrupted { .. }
            | Kind::CallsEased { .. }
            | Kind::Unknown => Ok(()),
        }
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
