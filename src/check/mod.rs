//! Checks: what a task's work is measured by, after the agent is gone. (Interface; see the module's owner.)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::event::{Change, CheckResult};
use crate::proc::Launcher;
use crate::redact::Redactor;

/// What a check may look at.
pub struct CheckContext {
    /// The workspace as the agent left it.
    pub workspace: PathBuf,
    /// The last turn's text.
    pub reply: String,
    /// What the agent changed.
    pub changes: Vec<Change>,
    /// Starts processes.
    pub launcher: Launcher,
    /// The whole environment of child processes.
    pub environment: BTreeMap<String, String>,
    /// Removes secrets.
    pub redactor: Arc<Redactor>,
    /// Ends the check.
    pub cancel: CancellationToken,
}

/// A check's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it found.
    pub result: CheckResult,
    /// Why, for a person.
    pub message: String,
}

/// One check of a task.
#[async_trait]
pub trait Check: Send + Sync + std::fmt::Debug {
    /// The key in the task file.
    fn kind(&self) -> &'static str;
    /// What it demands, in a few words.
    fn title(&self) -> String;
    /// Runs it.
    async fn run(&self, context: &CheckContext) -> Finding;
}
