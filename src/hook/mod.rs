//! Hooks: what a team may hang on fixed points of a task's life. (Interface; see the module's owner.)

use serde_json::{Map, Value};

use crate::event::HookFinished;

/// The points that this runner fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// Before the gate; may block or rewrite.
    PreToolUse,
    /// After a tool succeeded.
    PostToolUse,
    /// After a tool ran and failed.
    PostToolUseFailure,
    /// The model wants to end a turn; may make it go on.
    Stop,
    /// Before the first model call.
    SessionStart,
    /// After the last.
    SessionEnd,
}

/// What all hooks of one event say together.
#[derive(Debug, Clone, Default)]
pub struct HookAnswer {
    /// The first block: its reason.
    pub blocked: Option<Block>,
    /// `continue: false`: the run ends, with this reason.
    pub stopped: Option<String>,
    /// The input after all rewrites, if any hook rewrote it.
    pub updated_input: Option<Value>,
    /// Text for the model.
    pub context: Vec<String>,
    /// Warnings for the reader (a hook's `allow` that was ignored, `systemMessage`).
    pub warnings: Vec<String>,
    /// One record for each hook that ran, in order.
    pub records: Vec<HookFinished>,
}

/// A block by a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The hook.
    pub hook: String,
    /// For the model.
    pub reason: String,
    /// Whether the hook failed (timeout, crash, bad output) instead of deciding.
    pub failure: bool,
}

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

/// The hooks of a task, pinned at its start.
#[derive(Default)]
pub struct Hooks {}

impl Hooks {
    /// Runs the hooks of `event` whose matcher fits `subject` (the tool's name for tool events), in order; the first block stops.
    /// `fields` are the event's own fields.
    pub async fn run(
        &self,
        _event: HookEvent,
        _subject: &str,
        _fields: Map<String, Value>,
        _cx: &HookContext,
    ) -> HookAnswer {
        HookAnswer::default()
    }
    /// SHA-256 over the set and its programs.
    #[must_use]
    pub fn digest(&self) -> String {
        String::new()
    }
    /// Hooks whose program changed since the start.
    #[must_use]
    pub fn tampered(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One command hook of a task file, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    /// When.
    pub event: HookEvent,
    /// Which tools (empty or `*`: all).
    pub matcher: String,
    /// Program and arguments; the program absolute.
    pub command: Vec<String>,
    /// Time limit.
    pub timeout: std::time::Duration,
}
