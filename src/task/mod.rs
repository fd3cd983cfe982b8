//! The task file: [`TaskSpec`] is exactly what YAML may say, [`Task`] has everything resolved, and [`load`] is the only
//! way from one to the other. It answers with all tasks or with everything that is wrong in any file.
//!
//! How many errors with exact places come out of a parser that gives one error and no places: the text becomes a strict
//! tree (`strict`, `tree`), the tree is decoded again and again, each time without what was found to be wrong (`decode`), and a
//! path in the tree is turned into a line by parsing once more along it (`locate`). Meaning is checked afterwards
//! (`resolve`), and speaks of places by the same paths.

mod batch_spec;
mod decode;
mod describe;
mod diagnostic;
mod document;
mod expand;
mod load;
mod locate;
mod matrix;
mod matrix_spec;
mod network_spec;
mod resolve;
mod rule_spec;
mod schema;
mod source;
mod spec;
mod strict;
mod suggest;
mod tree;
mod trials_spec;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::budget::Limits;
use crate::check::Check;
use crate::outcome::{OnDenied, Trials};
use crate::policy::{Mode, Rule};
use crate::tool::BUILTIN;
use crate::workspace::{Isolation, Setup};

pub use batch_spec::{BatchLimits, BatchSpec, GroupSpec};
pub use describe::describe;
pub use diagnostic::{Diagnostic, Place, Related, Severity, render_all};
pub use load::{LoadOptions, Loaded, Mirror, Overrides, TaskFile, load};
pub use matrix_spec::MatrixSpec;
pub use rule_spec::RuleSpec;
pub use schema::{project_schema, schema};
pub use source::LARGEST_FILE;
pub use spec::{
    DefaultsSpec, HookCommandSpec, HookEventName, HooksSpec, LimitsSpec, PermissionsSpec,
    PolicySpec, ProjectSpec, QuarantineSpec, TaskSpec, WorkspaceSpec,
};
pub use trials_spec::TrialsSpec;

/// The name of the project's file, at the root of the project.
pub const PROJECT_FILE: &str = "agent-batch.yaml";
/// The option without which no task gets the mode `bypassPermissions`.
pub const BYPASS_FLAG: &str = "--allow-bypass";

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
    /// With a worktree: the commit, as git understands it.
    pub reference: String,
    /// With a copy: whether what git ignores is copied too.
    pub include_ignored: bool,
    /// How its processes are held.
    pub sandbox: crate::sandbox::Mode,
    /// Whether they reach the network.
    pub network: crate::sandbox::Network,
    /// The hosts that they reach, in canonical form, where it is only some.
    pub hosts: Vec<String>,
    /// Checks in order.
    pub checks: Vec<Arc<dyn Check>>,
    /// The schema of the structured answer, if the task demands one.
    pub output_schema: Option<Arc<serde_json::Value>>,
    /// The models of the checks that judge, by the names in the file.
    pub judges: BTreeMap<String, ModelRef>,
    /// Hooks in order.
    pub hooks: Vec<crate::hook::HookSpec>,
    /// How often it is run as a measurement, and how many of these runs have to pass.
    pub trials: Trials,
    /// How many attempts that ended in infrastructure may be made up for, over all trials.
    pub retries: u32,
    /// Why a failure does not count for now, if it does not.
    pub quarantine: Option<crate::report::Quarantine>,
    /// The group whose limit on tasks at the same time it falls under.
    pub group: Option<String>,
    /// The values of its matrix, by axis, in the file's order; empty without one.
    pub matrix: Vec<(String, String)>,
    /// SHA-256, in hex, over what the task is made from: its file, the project's file, scripts and hook programs that they
    /// name by a path, and the operator's words. Values of the environment are not in it, so it is the same on every machine.
    pub definition_sha256: String,
}

impl Task {
    /// Whether anything in the task can start a process. A tool that is not built in counts as one that does.
    #[must_use]
    pub fn starts_processes(&self) -> bool {
        let by_tool = self
            .tools
            .iter()
            .any(|name| name == "Bash" || !BUILTIN.contains(&name.as_str()));
        by_tool
            || !self.hooks.is_empty()
            || self.checks.iter().any(|check| check.starts_processes())
    }

    /// What the workspace of an attempt is made of.
    #[must_use]
    pub fn setup<'a>(&'a self, scratch: &'a Path, excluded: &'a [PathBuf]) -> Setup<'a> {
        Setup {
            source: &self.workspace,
            isolation: self.isolation,
            reference: &self.reference,
            include_ignored: self.include_ignored,
            scratch,
            excluded,
        }
    }
}

/// `provider/model`, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

impl ModelRef {
    /// The script of a scripted model.
    #[must_use]
    pub fn script(&self) -> Option<&Path> {
        match self {
            Self::Scripted { path, .. } => Some(path),
            Self::Anthropic { .. } => None,
        }
    }
}
