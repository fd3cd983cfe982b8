//! The task file: `TaskSpec` is exactly what YAML may say, [`Task`] has everything resolved. (Interface; see the module's owner.)

use std::path::PathBuf;
use std::sync::Arc;

use crate::budget::Limits;
use crate::check::Check;
use crate::outcome::OnDenied;
use crate::policy::{Mode, Rule};
use crate::workspace::Isolation;

/// One task, with everything resolved and checked. Immutable.
#[derive(Debug, Clone)]
pub struct Task {
    /// Unique in a run; `[a-z0-9._-]`.
    pub name: String,
    /// The task file as the command line named it.
    pub file: String,
    /// The task file, absolute and physical.
    pub path: PathBuf,
    /// The line on which the task begins.
    pub line: u32,
    /// For a person.
    pub description: String,
    /// For filters.
    pub tags: Vec<String>,
    /// Which model.
    pub model: ModelRef,
    /// Appended to the built-in system prompt.
    pub system: String,
    /// User turns, at least one.
    pub turns: Vec<String>,
    /// Tools by name.
    pub tools: Vec<String>,
    /// The pinned mode.
    pub mode: Mode,
    /// Allow rules of all sources.
    pub allow: Vec<Rule>,
    /// Deny rules of all sources.
    pub deny: Vec<Rule>,
    /// What a denial means.
    pub on_denied: OnDenied,
    /// Additional directories, absolute.
    pub additional: Vec<PathBuf>,
    /// Ceilings.
    pub limits: Limits,
    /// The workspace, absolute.
    pub workspace: PathBuf,
    /// How it is kept apart.
    pub isolation: Isolation,
    /// Checks in order.
    pub checks: Vec<Arc<dyn Check>>,
    /// Hooks in order.
    pub hooks: Vec<crate::hook::HookSpec>,
}

/// `provider/model`, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelRef {
    /// `scripted/FILE`: the script, absolute.
    Scripted {
        /// As written in the task file.
        name: String,
        /// Absolute.
        path: PathBuf,
    },
    /// `anthropic/ID`.
    Anthropic {
        /// The model's id.
        id: String,
    },
}
