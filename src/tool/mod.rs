//! Tools: what a model can do.
//!
//! A tool is a name, a description, a schema and a function that takes a [`Permit`]. It reads its input from the
//! permit and nowhere else, so that what runs is what was decided on, and it opens files by the physical paths in it.
//! One file holds one tool; a new one is a file and a line in [`builtin`], or comes from outside through
//! [`Registry::register`].

mod bash;
mod edit;
#[cfg(test)]
mod fixture;
mod glob;
mod grep;
mod input;
mod mismatch;
mod patch;
mod read;
mod registry;
mod seen;
mod structured_output;
mod target;
mod write;

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

pub use self::mismatch::mismatches;
pub use self::registry::Registry;
pub use self::seen::Seen;
pub use self::structured_output::{NAME as STRUCTURED_OUTPUT, StructuredOutput};

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

impl ToolOutput {
    /// A result.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A result that says why the tool could not do it.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
            ..Self::default()
        }
    }
}

/// Names of all built-in tools.
pub const BUILTIN: [&str; 6] = ["Read", "Glob", "Grep", "Edit", "Write", "Bash"];

/// The built-in tool of this exact name.
#[must_use]
pub fn builtin(name: &str) -> Option<Arc<dyn Tool>> {
    Some(match name {
        "Read" => Arc::new(read::Read),
        "Glob" => Arc::new(glob::Glob),
        "Grep" => Arc::new(grep::Grep),
        "Edit" => Arc::new(edit::Edit),
        "Write" => Arc::new(write::Write),
        "Bash" => Arc::new(bash::Bash),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_listed_tool_exists_under_its_own_name() {
        let mut registry = Registry::default();
        for name in BUILTIN {
            let tool = builtin(name).unwrap();
            assert_eq!(tool.name(), name);
            registry.register(tool).unwrap();
        }
        assert_eq!(registry.names(), BUILTIN);
        assert!(builtin("read").is_none());
    }

    #[test]
    fn what_a_model_is_told_of_them_stays() {
        let mut registry = Registry::default();
        for tool in BUILTIN.into_iter().filter_map(builtin) {
            registry.register(tool).unwrap();
        }
        insta::assert_json_snapshot!(registry.definitions());
    }

    #[test]
    fn only_reading_tools_may_run_side_by_side() {
        let input = json!({});
        let flags = |name| {
            let tool = builtin(name).unwrap();
            (tool.is_read_only(&input), tool.is_concurrency_safe(&input))
        };
        for name in ["Read", "Glob", "Grep"] {
            assert_eq!(flags(name), (true, true), "{name}");
        }
        for name in ["Edit", "Write", "Bash"] {
            assert_eq!(flags(name), (false, false), "{name}");
        }
    }

    #[test]
    fn no_tool_panics_on_input_that_passed_no_schema() {
        for name in BUILTIN {
            let tool = builtin(name).unwrap();
            for input in [
                json!(null),
                json!([]),
                json!({"file_path": 1, "command": null}),
            ] {
                let _ = tool.action(&input);
            }
        }
    }
}
