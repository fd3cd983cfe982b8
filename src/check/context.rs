//! What checks may look at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::CallLog;
use crate::budget::Purse;
use crate::event::{Change, Spent};
use crate::model::Model;
use crate::proc::Launcher;
use crate::redact::Redactor;
use crate::workspace::Workspace;

/// What a check may look at. The agent is gone: nothing in it changes any more.
pub struct CheckContext<'a> {
    /// The workspace as the agent left it, which also knows what it was before.
    pub workspace: &'a Workspace,
    /// What the agent changed.
    pub changes: Vec<Change>,
    /// The task's user turns.
    pub turns: Vec<String>,
    /// The last turn's text.
    pub reply: String,
    /// Where the structured answer lies, if the task demands one.
    pub output: Option<PathBuf>,
    /// The tool calls that the model asked for.
    pub calls: CallLog,
    /// What the agent took.
    pub taken: Taken,
    /// The models of judges, by the names in the task file.
    pub judges: BTreeMap<String, Arc<dyn Model>>,
    /// The batch's purse, from which judges are paid like every other call; `None` where nothing is limited.
    pub purse: Option<Arc<Purse>>,
    /// A directory of the attempt's own, for copies.
    pub scratch: PathBuf,
    /// Starts processes, held to the workspace.
    pub launcher: Launcher,
    /// A launcher that holds its processes to another directory in place of the workspace.
    pub held_to: &'a (dyn Fn(&Path) -> Launcher + Send + Sync),
    /// The whole environment of child processes.
    pub environment: BTreeMap<String, String>,
    /// Removes secrets.
    pub redactor: Arc<Redactor>,
    /// Ends the check.
    pub cancel: CancellationToken,
}

/// What the agent took, without what checks use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Model calls.
    pub steps: u32,
    /// Tokens and money.
    pub spent: Spent,
    /// From the start of the attempt to the agent's end.
    pub time: Duration,
}

/// What the unit tests of checks stand on.
#[cfg(test)]
pub(super) mod fixture {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, LazyLock};

    use serde_json::{Value, json};
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use super::super::World;
    use super::{CallLog, CheckContext, Taken};
    use crate::proc::Launcher;
    use crate::workspace::{Isolation, Workspace};

    /// A task without variables that demands a structured answer.
    pub(in super::super) fn world() -> World<'static> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
        World {
            variables: &NONE,
            directory: Path::new("/nonexistent"),
            output_schema: Some(&SCHEMA),
            depth: 0,
        }
    }

    /// A workspace with one file `a`.
    pub(in super::super) struct Place {
        pub(in super::super) dir: TempDir,
        scratch: TempDir,
        workspace: Workspace,
    }

    impl Place {
        pub(in super::super) fn new() -> Self {
            let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            std::fs::write(dir.path().join("a"), "one\ntwo\n").unwrap();
            let workspace =
                Workspace::prepare(dir.path(), Isolation::None, scratch.path()).unwrap();
            Self {
                dir,
                scratch,
                workspace,
            }
        }

        /// Nothing was said or done, and no process can be started.
        pub(in super::super) fn context(&self) -> CheckContext<'_> {
            CheckContext {
                workspace: &self.workspace,
                changes: self.workspace.changes().unwrap(),
                turns: vec!["Do it.".to_owned()],
                reply: String::new(),
                output: None,
                calls: CallLog::default(),
                taken: Taken::default(),
                judges: BTreeMap::new(),
                purse: None,
                scratch: self.scratch.path().to_path_buf(),
                launcher: Launcher::new(PathBuf::from("/nonexistent/supervisor")),
                held_to: &|_| Launcher::new(PathBuf::from("/nonexistent/supervisor")),
                environment: BTreeMap::new(),
                redactor: Arc::default(),
                cancel: CancellationToken::new(),
            }
        }
    }
}
