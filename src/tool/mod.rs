//! Tools: what a model can do. (Interface; see the module's owner.)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::policy::{Action, Permit};
use crate::proc::Launcher;
use crate::redact::Redactor;

/// Something that a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The exact name, `^[a-zA-Z0-9_-]{1,64}$`.
    fn name(&self) -> &str;
    /// What the model decides by.
    fn description(&self) -> &str;
    /// JSON Schema of the input: an object. Checked before anything else looks at the input.
    fn input_schema(&self) -> Value;
    /// What the call would do, for the gate.
    fn action(&self, input: &Value) -> Action;
    /// Whether this very call changes nothing.
    fn is_read_only(&self, _input: &Value) -> bool {
        false
    }
    /// Whether this very call may run beside others.
    fn is_concurrency_safe(&self, _input: &Value) -> bool {
        false
    }
    /// Runs the call that the permit was given for.
    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput;
}

/// What a tool may use.
#[derive(Clone)]
pub struct ToolContext {
    /// Starts processes.
    pub launcher: Launcher,
    /// The whole environment of child processes.
    pub environment: BTreeMap<String, String>,
    /// Directory for output that is too large for the conversation.
    pub output_dir: PathBuf,
    /// The call's id, safe as a file name.
    pub output_stem: String,
    /// Most bytes of a result.
    pub output_limit: usize,
    /// The call's time limit, which the runtime enforces too.
    pub time_limit: Duration,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// Removes secrets.
    pub redactor: Arc<Redactor>,
    /// What the task has read so far (Edit and Write want to know).
    pub seen: Arc<Seen>,
}

/// Files that the task has read, with the hash of what it saw.
#[derive(Debug, Default)]
pub struct Seen {}

/// What a tool gives back.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// For the model.
    pub text: String,
    /// Whether the tool could not do it.
    pub is_error: bool,
    /// The whole output where `text` is only a preview, and its size in bytes.
    pub spilled: Option<(PathBuf, u64)>,
    /// Structured form for hooks (`tool_response`).
    pub response: Option<Value>,
    /// Processes that outlived the call and were killed.
    pub leaked: u32,
    /// The tool gave up at its time limit.
    pub timed_out: bool,
}

/// The tools of a task, in a stable order.
#[derive(Default, Clone)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
}

impl Registry {
    /// Adds a tool. Refuses bad and duplicate names, an empty description, a schema that is no object schema.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), String> {
        self.tools.push(tool);
        Ok(())
    }
    /// Exact look-up.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.name() == name)
    }
    /// The definitions that the model gets.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        Vec::new()
    }
    /// Names in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.tools
            .iter()
            .map(|tool| tool.name().to_owned())
            .collect()
    }
    /// Checks an input against the tool's schema; the error names the JSON pointer and what was expected.
    pub fn validate(&self, _name: &str, _input: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// The built-in tool of this name.
#[must_use]
pub fn builtin(_name: &str) -> Option<Arc<dyn Tool>> {
    None
}
/// Names of all built-in tools.
pub const BUILTIN: [&str; 6] = ["Read", "Glob", "Grep", "Edit", "Write", "Bash"];
