//! The action itself, after all checks: run the tool, redact and bound what it gives, let hooks observe.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::agent::answer::{self, Answer};
use crate::agent::dispatch::{Prepared, Turn, tool_fields};
use crate::agent::halt::Halt;
use crate::event::{Kind, ToolResultKind};
use crate::hook::HookEvent;
use crate::message::ToolCall;
use crate::outcome::Stop;
use crate::policy::Permit;
use crate::text;
use crate::tool::{Tool, ToolContext, ToolOutput};

/// How long a call may take to end after it was cancelled, before it is given up.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// A tool's own time limit strikes first; this is how much later the runtime's does.
const LIMIT_GRACE: Duration = Duration::from_secs(15);
/// Most bytes of what one hook may add to a result.
const MAX_NOTE_BYTES: usize = 10_000;

impl Turn<'_> {
    /// Runs a call that may run, and answers it.
    pub(super) async fn carry_out(
        &self,
        call: &ToolCall,
        prepared: Prepared,
    ) -> Result<Answer, Halt> {
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
        let duration_ms = began.elapsed_millis();
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
            reason: String::new(),
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
        spilled: Option<(PathBuf, u64)>,
        stem: &str,
    ) -> Result<(String, Option<String>, u64), Halt> {
        let output_dir = &self.agent.surroundings.output_dir;
        let text = self.emitter.redactor().redact(text);
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let relative = |file: &Path| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("{}/{name}", self.agent.surroundings.output_name)
        };
        if let Some((file, whole)) = spilled {
            // The tool has said itself where the whole output is.
            return Ok((
                text::ends(&text, self.limit).into_owned(),
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
        Ok(self
            .agent
            .fire(event, &call.name, fields, self.emitter)
            .await?
            .context)
    }
}

async fn ended(cancel: &CancellationToken, limit: Duration) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(limit) => {}
    }
}

/// What a task of the runtime said when it crashed.
#[must_use]
pub fn panic_message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".into()),
        Err(error) => error.to_string(),
    }
}
