//! The first and the last event of an attempt: what it starts with, and what it came to.

use std::path::Path;

use serde_json::{Value, json};

use super::{Attempt, Work};
use crate::budget::Limits;
use crate::event::{RuleRecord, SandboxRecord, TaskFinished, TaskStarted};
use crate::outcome::{OnDenied, Outcome, Stop};
use crate::text;
use crate::tool::Registry;

impl Attempt<'_> {
    pub(super) fn started(
        &self,
        registry: &Registry,
        system: &str,
        hooks_sha256: String,
        sandbox: SandboxRecord,
    ) -> TaskStarted {
        let task = self.task;
        TaskStarted {
            file: task.file.clone(),
            line: task.line,
            description: task.description.clone(),
            tags: task.tags.clone(),
            model: self.job.model.name().to_owned(),
            mode: task.mode.name().to_owned(),
            allow: task.allow.iter().map(RuleRecord::from).collect(),
            deny: task.deny.iter().map(RuleRecord::from).collect(),
            on_denied: task.on_denied,
            limits: limits(&task.limits),
            workspace: relative_to(&self.batch.base, &task.workspace),
            isolation: task.isolation.name().to_owned(),
            sandbox,
            system: system.to_owned(),
            tools: registry.definitions(),
            hooks_sha256,
            turns: u32::try_from(task.turns.len()).unwrap_or(u32::MAX),
            trial: self.trial,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            config_commit: self.batch.config_commit.clone(),
        }
    }

    pub(super) fn last_event(&self, work: Work, duration_ms: u64) -> TaskFinished {
        let Work {
            ended,
            denials,
            checks,
            failures,
        } = work;
        let outcome = Outcome::of(ended.stop, denials, self.task.on_denied, checks);
        let denied = |reason: Option<String>| match (reason, denials) {
            (Some(reason), 1) => reason,
            (Some(reason), more) => format!(
                "{reason}; and {} more",
                text::plural((more - 1).into(), "denial")
            ),
            (None, _) => String::new(),
        };
        let mut message = match outcome {
            Outcome::Denied if ended.stop == Stop::Completed => denied(ended.first_denial),
            Outcome::CheckFailed => failures.join("; "),
            Outcome::CheckError => format!("a check could not be run: {}", failures.join("; ")),
            _ => ended.message,
        };
        if outcome == Outcome::Denied && !failures.is_empty() {
            message.push_str(&format!("; check failed: {}", failures.join("; ")));
        }
        if denials > 0 && outcome == Outcome::Completed && self.task.on_denied == OnDenied::Warn {
            message.push_str(&format!(" and {}", text::plural(denials.into(), "denial")));
        }
        TaskFinished {
            stop: ended.stop,
            outcome,
            message,
            reply: ended.reply,
            turns_skipped: ended.turns_skipped,
            leaked_processes: ended.leaked_processes,
            duration_ms,
        }
    }
}

/// The limits in the task file's terms.
fn limits(limits: &Limits) -> Value {
    json!({
        "max_steps": limits.max_steps,
        "max_total_steps": limits.max_total_steps,
        "max_tokens": limits.max_tokens,
        "max_output_tokens": limits.max_output_tokens,
        "max_cost_usd": limits.max_cost,
        "timeout": humantime::format_duration(limits.timeout).to_string(),
        "tool_timeout": humantime::format_duration(limits.tool_timeout).to_string(),
        "wrap_up": limits.wrap_up,
    })
}

/// A path as a person would name it from where the run was started.
fn relative_to(base: &Path, path: &Path) -> String {
    match path.strip_prefix(base) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
