//! The only place that starts processes. (Interface; see the module's owner.)

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::redact::Redactor;

/// Starts processes under supervision. Each call gets a supervisor (`agent-batch supervise`, hidden), which is the
/// subreaper of everything that the call starts and kills all of it at the end, whatever happened to us.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that has the `supervise` subcommand: our own binary.
    supervisor: PathBuf,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Program and arguments; no shell is added.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The whole environment of the child.
    pub env: BTreeMap<String, String>,
    /// Given on standard input, then end of file.
    pub stdin: Vec<u8>,
    /// Everything is killed after this time.
    pub time_limit: Duration,
    /// Most bytes of output kept in memory (head and tail); the rest only in `spill`.
    pub keep: usize,
    /// Where the whole output goes when it is larger than `keep` (redacted), if anywhere.
    pub spill: Option<PathBuf>,
    /// Whether stderr is captured apart (hooks) or interleaved with stdout (Bash).
    pub stderr: Stderr,
}

/// Where standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// Into the same stream as stdout, in order.
    Merged,
    /// Into a stream of its own.
    Separate,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Killed at its time limit.
    TimedOut,
    /// Killed because the task was cancelled.
    Cancelled,
}

/// What a process left.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Standard output (with stderr when merged).
    pub stdout: Captured,
    /// Standard error when separate.
    pub stderr: Captured,
    /// Processes that were still there when it ended, and were killed.
    pub leaked: u32,
}

/// Redacted output, bounded in memory.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// The whole text, or its head and tail with a line between that says how much is missing.
    pub text: String,
    /// Size of the whole in bytes.
    pub bytes: u64,
    /// The whole, when it was larger than what is kept in memory.
    pub spilled: Option<PathBuf>,
}

impl Launcher {
    /// A launcher whose supervisor is this program.
    #[must_use]
    pub fn new(supervisor: PathBuf) -> Self {
        Self { supervisor }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The process could not be started.
    pub async fn run(
        &self,
        _spec: Spec,
        _redactor: Arc<Redactor>,
        _cancel: &CancellationToken,
    ) -> std::io::Result<Finished> {
        let _ = &self.supervisor;
        Err(std::io::Error::other("interface"))
    }
}
