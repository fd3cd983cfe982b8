//! `command`: a shell command in the workspace has the exit code, and says the words, that the task demands.
//!
//! The command is the task file's, so it is trusted and passes no gate; what it reads is the workspace, which is not.
//! A copy with files from before stands in `base`, what an ending means in `judge`, and which programs are not there in `missing`.
//!
//! `${NAME}` in it is left to bash, and the variable is handed over through the environment: a value can so never
//! become shell code, whoever wrote it (the title of a pull request, for one).

mod base;
mod judge;
mod missing;
mod variables;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::block_in_place;

use super::globs::Globs;
use super::stream::{KEPT_OUTPUT, Stream, StreamSpec};
use super::words::Words;
use super::{Build, Check, CheckContext, Finding, Problem, TimeSpan, World, clipped, time_limit};
use crate::proc::{Launcher, Spec, Stderr};
use missing::is_in;
use variables::with_variables;

/// The time limit of a command that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Variables by which bash would read other code than the task file's.
const SHELL_STARTUP: [&str; 4] = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"];

/// Runs a shell command in the workspace, after the agent is gone.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// The command line for `bash -c`. `${NAME}` is handed over as an environment variable and must be set;
    /// `${NAME:-default}` need not be; `$${` stands for a `${` that is bash's own affair.
    pub run: String,
    /// How long it may take. Default: `10m`.
    pub timeout: Option<TimeSpan>,
    /// The exit code that passes. Default: 0.
    #[schemars(range(min = 0, max = 255))]
    pub expect_exit: Option<u8>,
    /// The output (stdout and stderr together) contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// The output does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
    /// A regular expression that must match somewhere in the output (stdout and stderr together).
    pub matches: Option<String>,
    /// Demands on stdout alone.
    pub stdout: Option<StreamSpec>,
    /// Demands on stderr alone.
    pub stderr: Option<StreamSpec>,
    /// `base`: the command runs in a copy of what the agent left, in which `files` are as they were before the agent came.
    /// An agent that edited its own tests is found out so. What git ignores is not in the copy.
    pub from: Option<Origin>,
    /// With `from: base`: patterns for the files that are put back, as in `tests/**`. Files that the agent added there are
    /// gone in the copy.
    #[schemars(length(min = 1))]
    pub files: Option<Vec<String>>,
}

/// Where files of a check come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The workspace before the agent came.
    Base,
}

#[derive(Debug)]
struct Command {
    /// For bash.
    script: String,
    /// Handed over beside the environment of every child.
    variables: BTreeMap<String, String>,
    timeout: Duration,
    expect_exit: u8,
    output: Words,
    /// Whether the two streams are captured apart.
    apart: bool,
    stdout: Stream,
    stderr: Stream,
    /// The files that are put back; empty where the command runs in the workspace itself.
    base: Globs,
}

impl Build for CommandSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.run.trim().is_empty() {
            problems.push(Problem::field("run", "the command is empty", None));
        }
        let (script, variables) = with_variables(&self.run, world.variables, &mut problems);
        let timeout = time_limit(self.timeout, DEFAULT_TIMEOUT, &mut problems);
        let output = Words::new(
            self.contains,
            self.not_contains,
            self.matches,
            &mut problems,
        );
        let apart = self.stdout.is_some() || self.stderr.is_some();
        let stdout = Stream::new("stdout", self.stdout, world.directory, &mut problems);
        let stderr = Stream::new("stderr", self.stderr, world.directory, &mut problems);
        let base = match (self.from, self.files) {
            (Some(Origin::Base), Some(files)) if !files.is_empty() => {
                Globs::new("files", &files, &mut problems)
            }
            (Some(Origin::Base), _) => {
                let hint = "add `files`, as in `files: [\"tests/**\"]`".to_owned();
                let message = "`from: base` does not say which files";
                problems.push(Problem::field("from", message, Some(hint)));
                Globs::default()
            }
            (None, Some(_)) => {
                let hint = "add `from: base`".to_owned();
                let message = "`files` does not say where they come from";
                problems.push(Problem::field("files", message, Some(hint)));
                Globs::default()
            }
            (None, None) => Globs::default(),
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Command {
            script,
            variables,
            timeout,
            expect_exit: self.expect_exit.unwrap_or(0),
            output,
            apart,
            stdout,
            stderr,
            base,
        }))
    }
}

#[async_trait]
impl Check for Command {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn title(&self) -> String {
        let first = self.script.trim().lines().next().unwrap_or_default();
        let more = if self.script.trim().lines().count() > 1 {
            " …"
        } else {
            ""
        };
        let mut demands = vec![format!("exits with {}", self.expect_exit)];
        let says = self.output.titles();
        demands.extend(says.iter().map(|title| format!("its output {title}")));
        demands.extend(self.stdout.titles("stdout"));
        demands.extend(self.stderr.titles("stderr"));
        let from = if self.base.is_empty() {
            String::new()
        } else {
            format!(" with {} from base", self.base.shown())
        };
        format!(
            "`{}{more}`{from} {}",
            clipped(first, 80),
            demands.join(" and ")
        )
    }

    fn time_limit(&self) -> Duration {
        self.timeout
    }

    fn starts_processes(&self) -> bool {
        true
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        if self.base.is_empty() {
            return self
                .execute(context, &context.launcher, context.workspace.root())
                .await;
        }
        let staged = match block_in_place(|| self.stage(context)) {
            Ok(staged) => staged,
            Err(why) => return Finding::errored(why),
        };
        let launcher = (context.held_to)(staged.root());
        let finding = self.execute(context, &launcher, staged.root()).await;
        block_in_place(|| drop(staged));
        self.with_edits(finding, context)
    }
}

impl Command {
    async fn execute(
        &self,
        context: &CheckContext<'_>,
        launcher: &Launcher,
        root: &Path,
    ) -> Finding {
        let mut env = context.environment.clone();
        for (name, value) in &self.variables {
            // What every child gets was built with care (`PATH`, `HOME`), and stays.
            env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        env.retain(|name, _| {
            !SHELL_STARTUP.contains(&name.as_str()) && !name.starts_with("BASH_FUNC_")
        });
        let path = env.get("PATH").cloned().unwrap_or_default();
        let argv = ["bash", "--noprofile", "--norc", "-c", &self.script];
        let spec = Spec {
            argv: argv.map(str::to_owned).to_vec(),
            cwd: root.to_path_buf(),
            env,
            stdin: Vec::new(),
            time_limit: self.timeout,
            keep: KEPT_OUTPUT,
            spill: None,
            stderr: if self.apart {
                Stderr::Separate
            } else {
                Stderr::Merged
            },
        };
        let redactor = Arc::clone(&context.redactor);
        match launcher.run(spec, redactor, &context.cancel).await {
            Ok(finished) => self.judge(&finished, &|name| is_in(&path, name)),
            Err(error) => Finding::errored(format!("the command could not be started: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
