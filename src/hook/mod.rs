//! Hooks: what a team hangs on fixed points of a task's life, without touching the loop.
//!
//! A hook is a program ([`HookSpec`]) or a callback of the library's caller ([`HookCallback`]); both answer in the same
//! JSON. Hooks of one event run in order, each sees the input as the ones before it rewrote it, and the first that holds
//! a call up ends the row. **A hook can tighten and never widen**: not to be held up here is no permission, the gate still
//! decides, on the rewritten input. A hook that does not work counts as a block wherever hooks can block.
//!
//! `lifecycle` names the points, `matcher` chooses tools, `wire` is the format (pure), `pin` holds the files of a
//! hook to what they were at the start, `command` runs programs, `answer` adds up what the hooks of one event say.

mod lifecycle;
mod matcher;
mod pin;
mod wire;
mod command;
mod answer;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub use answer::{Block, HookAnswer};
pub use lifecycle::{HookEvent, NamedEvent};
pub use matcher::Matcher;

use crate::clock::Clock;
use crate::proc::Launcher;
use crate::redact::Redactor;
use command::{Command, Surroundings};
use pin::Fingerprint;
use wire::Opinion;

/// The time limit of a hook that sets none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time limit that a hook may set: one hour.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What is the same in every hook's input of a task.
#[derive(Debug, Clone, Default)]
pub struct HookContext {
    /// `task#attempt`.
    pub session_id: String,
    /// The transcript.
    pub transcript_path: String,
    /// The workspace.
    pub cwd: String,
    /// The mode.
    pub permission_mode: String,
}

/// An in-process hook of the library's callers.
#[async_trait::async_trait]
pub trait HookCallback: Send + Sync {
    /// Name in records.
    fn name(&self) -> &str;
    /// Answers with the same JSON that a command hook would print; `None` is no opinion.
    async fn call(&self, event: HookEvent, input: &Value) -> Option<Value>;
}

/// One command hook of a task file, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    /// When.
    pub event: HookEvent,
    /// Which tools (empty or `*`: all), see [`Matcher`].
    pub matcher: String,
    /// Program and arguments; the program absolute, or a bare name that is looked up once, on the `PATH` of
    /// [`HookRuntime::environment`]. No shell is added.
    pub command: Vec<String>,
    /// Time limit, at most [`MAX_TIMEOUT`].
    pub timeout: Duration,
}

/// One in-process hook and when it is called.
#[derive(Clone)]
pub struct CallbackSpec {
    /// When.
    pub event: HookEvent,
    /// Which tools, see [`Matcher`].
    pub matcher: String,
    /// What is called.
    pub callback: Arc<dyn HookCallback>,
    /// Time limit, at most [`MAX_TIMEOUT`].
    pub timeout: Duration,
}

/// What command hooks run in.
#[derive(Debug, Clone)]
pub struct HookRuntime {
    /// Starts programs.
    pub launcher: Launcher,
    /// The whole environment of hooks; `CLAUDE_PROJECT_DIR` is added. Nothing that the model wrote belongs in here.
    pub environment: BTreeMap<String, String>,
    /// The working directory: the task's workspace.
    pub workspace: PathBuf,
    /// Cleans what hooks print.
    pub redactor: Arc<Redactor>,
    /// Ends running hooks together with the task.
    pub cancel: CancellationToken,
}

/// A hook set that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hook {number} of `{event}`: {problem}")]
pub struct HookError {
    /// The event.
    pub event: &'static str,
    /// The hook's place among all command hooks, or among all callbacks, from 1.
    pub number: usize,
    /// What is wrong and what was expected.
    pub problem: String,
}

/// The hooks of a task, pinned at its start: what changes on disk later changes nothing here, but is noticed.
#[derive(Default)]
pub struct Hooks {
    hooks: Vec<Hook>,
}

struct Hook {
    event: HookEvent,
    matcher_text: String,
    matcher: Matcher,
    name: String,
    runner: Runner,
}

enum Runner {
    Command(Command),
    Callback(Arc<dyn HookCallback>, Duration),
}

impl Hooks {
    /// Checks and pins a hook set. Command hooks run first, in their order, then callbacks in theirs: the caller of the
    /// library sees what would really be run.
    ///
    /// # Errors
    /// A matcher that cannot match, a program that is not there or not executable, a time limit of zero or above
    /// [`MAX_TIMEOUT`].
    pub fn build(
        specs: &[HookSpec],
        callbacks: &[CallbackSpec],
        runtime: HookRuntime,
    ) -> Result<Self, HookError> {
        let surroundings = Surroundings {
            starter: Box::new(runtime.launcher),
            environment: runtime.environment,
            workspace: runtime.workspace,
            redactor: runtime.redactor,
            cancel: runtime.cancel,
        };
        Self::build_in(specs, callbacks, surroundings)
    }

    fn build_in(
        specs: &[HookSpec],
        callbacks: &[CallbackSpec],
        surroundings: Surroundings,
    ) -> Result<Self, HookError> {
        let surroundings = Arc::new(surroundings);
        let mut hooks = Vec::with_capacity(specs.len() + callbacks.len());
        for (index, spec) in specs.iter().enumerate() {
            let error = |problem| HookError::new(spec.event, index, problem);
            check_timeout(spec.timeout).map_err(error)?;
            let matcher = Matcher::parse(&spec.matcher).map_err(error)?;
            let command = Command::new(&spec.command, spec.timeout, Arc::clone(&surroundings))
                .map_err(error)?;
            hooks.push(Hook {
                event: spec.event,
                matcher_text: spec.matcher.clone(),
                matcher,
                name: command.name(),
                runner: Runner::Command(command),
            });
        }
        for (index, spec) in callbacks.iter().enumerate() {
            let error = |problem| HookError::new(spec.event, index, problem);
            check_timeout(spec.timeout).map_err(error)?;
            hooks.push(Hook {
                event: spec.event,
                matcher_text: spec.matcher.clone(),
                matcher: Matcher::parse(&spec.matcher).map_err(error)?,
                name: spec.callback.name().to_owned(),
                runner: Runner::Callback(Arc::clone(&spec.callback), spec.timeout),
            });
        }
        Ok(Self { hooks })
    }

    /// Runs the hooks of `event` whose matcher fits `subject` (the tool's name for tool events, the `source` or `reason`
    /// of session events), in order. `fields` are the event's own fields of the input.
    ///
    /// Where hooks can block, the first block ends the row; `continue: false` ends it everywhere.
    pub async fn run(
        &self,
        event: HookEvent,
        subject: &str,
        fields: Map<String, Value>,
        cx: &HookContext,
    ) -> HookAnswer {
        let mut answer = HookAnswer::default();
        let mut input = wire::input(event, fields, cx);
        for hook in self.hooks.iter().filter(|hook| hook.is_for(event, subject)) {
            let watch = Clock::system().start();
            let opinion = hook.ask(event, &input).await;
            let duration_ms = watch.elapsed_millis();
            if answer
                .absorb(event, &hook.name, &mut input, opinion, duration_ms)
                .is_break()
            {
                break;
            }
        }
        answer
    }

    /// SHA-256 over the set, its programs and scripts, as they were at the start; lower-case hexadecimal.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut fingerprint = Fingerprint::default();
        for hook in &self.hooks {
            fingerprint.add(hook.event.name().as_bytes());
            fingerprint.add(hook.matcher_text.as_bytes());
            match &hook.runner {
                Runner::Command(command) => {
                    let fields: Vec<Vec<u8>> = command.fingerprint().collect();
                    fingerprint.add(b"command");
                    fingerprint.add(&fields.len().to_be_bytes());
                    for field in fields {
                        fingerprint.add(&field);
                    }
                }
                Runner::Callback(_, timeout) => {
                    fingerprint.add(b"callback");
                    fingerprint.add(hook.name.as_bytes());
                    fingerprint.add(&timeout.as_millis().to_be_bytes());
                }
            }
        }
        fingerprint.finish()
    }

    /// Hooks whose program or script changed since the start, by name, in order.
    #[must_use]
    pub fn tampered(&self) -> Vec<String> {
        self.hooks
            .iter()
            .filter(
                |hook| matches!(&hook.runner, Runner::Command(command) if command.is_tampered()),
            )
            .map(|hook| hook.name.clone())
            .collect()
    }
}

impl Hook {
    fn is_for(&self, event: HookEvent, subject: &str) -> bool {
        self.event == event && (!event.has_matcher() || self.matcher.matches(subject))
    }

    async fn ask(&self, event: HookEvent, input: &Map<String, Value>) -> Opinion {
        match &self.runner {
            Runner::Command(command) => command.ask(event, input).await,
            Runner::Callback(callback, timeout) => {
                let input = Value::Object(input.clone());
                let call = AssertUnwindSafe(callback.call(event, &input)).catch_unwind();
                match tokio::time::timeout(*timeout, call).await {
                    Ok(Ok(None)) => Opinion::default(),
                    Ok(Ok(Some(value))) => wire::interpret_value(event, value),
                    Ok(Err(_)) => Opinion::failed("it panicked"),
                    Err(_) => Opinion::failed("it did not end within its time limit"),
                }
            }
        }
    }
}

impl HookError {
    fn new(event: HookEvent, index: usize, problem: String) -> Self {
        Self {
            event: event.name(),
            number: index + 1,
            problem,
        }
    }
}

fn check_timeout(timeout: Duration) -> Result<(), String> {
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(format!(
            "time limit `{}`: expected more than 0s and at most `{}`",
            humantime::format_duration(timeout),
            humantime::format_duration(MAX_TIMEOUT)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
