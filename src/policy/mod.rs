//! The permission gate: a pure function from a call, facts about the world and the task's policy to a decision.
//!
//! No I/O happens here. [`queries`] says which paths the decision depends on, the caller resolves them
//! (`workspace`), and [`decide`] answers. Only `decide` makes a [`Permit`], and no tool runs without one.
//!
//! `mode` and `rule` are what people write; `pattern`, `url` and `bash` are the three languages of rules; `paths`,
//! `fold` and `protect` know about names; `files` and `bash::judge` hold the rows of the truth table for files and
//! command lines; `decide` is the table itself. A denial always says what was refused, by which rule or for want of
//! which, and in which mode (`explain`). `example` lets a rule be tried alone, `broad`
//! and `doubt` tell which rules say more, or less, than they seem to.

mod bash;
mod broad;
mod decide;
mod doubt;
mod example;
mod explain;
mod files;
mod fold;
mod mode;
mod paths;
mod pattern;
mod protect;
mod rule;
pub mod url;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

pub use bash::guarded::guarded_options;
pub use bash::simple_commands;
#[cfg(test)]
pub(crate) use decide::permit_for_test;
pub use decide::{Permit, decide, queries};
pub use doubt::{Doubt, Surroundings};
pub use mode::{Mode, UnknownMode};
pub use protect::steers;
pub use rule::{Effect, Rule, RuleError, Source};

/// The directories that a task's calls are about. All absolute and physical (no links in them).
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// The workspace: working directory of every call.
    pub workspace: PathBuf,
    /// Additional directories.
    pub additional: Vec<PathBuf>,
    /// Spilled tool output of this attempt: readable in every mode, never writable.
    pub output: Option<PathBuf>,
    /// Never writable beside `.git` (physical paths; a directory covers its tree).
    pub never_write: Vec<PathBuf>,
    /// The same, for all tasks of a run: task files, `agent-batch.yaml`, the run directory. Shared, as a run of a thousand
    /// tasks has a thousand of them.
    pub never_write_in_run: Arc<[PathBuf]>,
    /// Neither readable nor writable: the CI runner's command files.
    pub closed: Vec<PathBuf>,
}

impl Roots {
    /// All that is never written.
    fn never_written(&self) -> impl Iterator<Item = &PathBuf> {
        self.never_write.iter().chain(&*self.never_write_in_run)
    }

    /// Whether a physical path lies in the workspace or an additional directory.
    fn holds(&self, path: &Path) -> bool {
        std::iter::once(&self.workspace)
            .chain(&self.additional)
            .any(|root| !root.as_os_str().is_empty() && path.starts_with(root))
    }
}

/// Everything that is pinned for a task's gate.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The mode.
    pub mode: Mode,
    /// Allow rules, all sources.
    pub allow: Vec<Rule>,
    /// Deny rules, all sources; asks of imported settings stand here too.
    pub deny: Vec<Rule>,
    /// The directories.
    pub roots: Roots,
}

/// What a call would do, as far as the gate has to know. A tool derives it from its validated input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Reads one file.
    Read {
        /// As given by the model.
        path: String,
    },
    /// Changes one file in place (reads it too).
    Edit {
        /// As given by the model.
        path: String,
    },
    /// Creates or replaces one file.
    Write {
        /// As given by the model.
        path: String,
    },
    /// Lists files: `root` is the directory searched, `pattern` the glob.
    Glob {
        /// Search root, if given.
        root: Option<String>,
        /// The glob.
        pattern: String,
    },
    /// Searches file contents below `root`.
    Grep {
        /// Search root, if given.
        root: Option<String>,
    },
    /// Runs a bash command line.
    Bash {
        /// The exact bytes that bash would get.
        command: String,
    },
    /// Fetches a URL.
    Fetch {
        /// The URL.
        url: String,
    },
    /// Needs a person: always denied.
    Human,
    /// Anything else: matched by tool name only.
    Other,
}

/// A call in front of the gate.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The validated input.
    pub input: &'a Value,
    /// What it would do.
    pub action: Action,
    /// Whether the tool says that this input only reads.
    pub read_only: bool,
}

/// What the resolver found out about one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathFacts {
    /// Absolute, `.` and `..` removed by text, links not followed.
    pub lexical: PathBuf,
    /// Absolute, all links followed as the kernel would; for a path that does not exist yet, the physical parent + the rest.
    pub physical: PathBuf,
    /// What stands there.
    pub kind: FileKind,
    /// Number of names (hard links) of a regular file.
    pub links: u64,
    /// A `..` came after a symbolic link.
    pub dotdot_after_link: bool,
    /// The last component is a symbolic link that points nowhere, or the links loop.
    pub dangling: bool,
}

impl PathFacts {
    /// What the text of an absolute path says, for a path that nobody has looked up.
    fn by_text(path: PathBuf) -> Self {
        Self {
            lexical: path.clone(),
            physical: path,
            kind: FileKind::Missing,
            links: 1,
            dotdot_after_link: false,
            dangling: false,
        }
    }
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Nothing is there.
    Missing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// FIFO, socket or device.
    Special,
}

/// Facts for the paths of [`queries`], keyed by the path as queried: absolute, or relative to the workspace.
pub type Facts = BTreeMap<String, PathFacts>;

/// Why a call is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Stable word: `rule`, `human`, `critical`, `protected`, `outside`, `mode`, `option`, `no_rule`, and for input that
    /// no rule opens `path`, `shell`, `url`.
    pub class: &'static str,
    /// One sentence: what was denied and why; names the rule, the construct or the missing rule. Never lists other rules or secret paths.
    pub reason: String,
    /// The deny rule that decided.
    pub rule: Option<Rule>,
    /// Whether an interactive tool would have asked a person.
    pub would_ask: bool,
    /// The smallest rule that would allow just this call, if one can.
    pub suggestion: Option<String>,
}
