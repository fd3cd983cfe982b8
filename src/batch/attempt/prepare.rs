//! What the agent needs: directories and a workspace of its own, an environment, tools, hooks and the gate's policy.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use super::{Attempt, make};
use crate::hook::{HookContext, HookRuntime, Hooks};
use crate::policy::{Policy, Roots};
use crate::proc::{self, Launcher};
use crate::report::run_dir;
use crate::sandbox;
use crate::tool::{Registry, StructuredOutput, builtin};
use crate::workspace::{Isolation, Workspace};

impl Attempt<'_> {
    /// Makes the attempt's own directories and its workspace; of a copy, tells when it is made. Where none is made the attempt
    /// ends, which tells the same.
    pub(super) async fn prepare(
        &self,
        cancel: &CancellationToken,
        has_copied: impl FnOnce(),
    ) -> io::Result<Workspace> {
        for dir in [
            self.output_dir(),
            self.scratch.join("home"),
            self.scratch.join("tmp"),
        ] {
            make(&dir)?;
        }
        sandbox::remove_stale(&self.task.workspace);
        let excluded = [
            self.batch.out.clone(),
            self.batch.scratch.root().to_path_buf(),
        ];
        let setup = self.task.setup(&self.scratch, &excluded);
        let checkout = match self.task.isolation {
            Isolation::Worktree => setup.check_out(&self.git()?.until(cancel)).await?,
            Isolation::None | Isolation::Copy => None,
        };
        let workspace = block_in_place(|| Workspace::new(&setup, checkout))?;
        if self.task.isolation == Isolation::Copy {
            has_copied();
        }
        Ok(workspace)
    }

    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let parent = self.batch.environment.clone().into_iter();
        proc::child_environment(
            parent,
            &self.scratch.join("home"),
            &self.scratch.join("tmp"),
        )
    }

    /// The tools that the task names. A tool that is not named is not there at all.
    pub(super) fn registry(&self) -> Result<Registry, String> {
        let mut registry = Registry::default();
        for name in &self.task.tools {
            let extra = self
                .batch
                .extra_tools
                .iter()
                .find(|tool| tool.name() == name)
                .cloned();
            let tool = extra
                .or_else(|| builtin(name))
                .ok_or_else(|| format!("there is no tool `{name}`"))?;
            registry.register(tool)?;
        }
        if let (Some(schema), Some(file)) = (&self.task.output_schema, self.answer_file()) {
            let tool = StructuredOutput::new(Value::clone(schema), file);
            registry.register(Arc::new(tool))?;
        }
        Ok(registry)
    }

    pub(super) fn hooks(
        &self,
        root: &Path,
        environment: &BTreeMap<String, String>,
        launcher: &Launcher,
        cancel: &CancellationToken,
    ) -> io::Result<Hooks> {
        let runtime = HookRuntime {
            launcher: launcher.clone(),
            environment: environment.clone(),
            workspace: root.to_path_buf(),
            redactor: Arc::clone(&self.batch.redactor),
            cancel: cancel.clone(),
        };
        Hooks::build(&self.task.hooks, &self.batch.callbacks, runtime).map_err(io::Error::other)
    }

    pub(super) fn hook_context(&self, root: &Path) -> HookContext {
        HookContext {
            session_id: format!("{}#{}", self.task.name, self.number),
            transcript_path: self.dir.join(run_dir::TRANSCRIPT).display().to_string(),
            cwd: root.display().to_string(),
            permission_mode: self.task.mode.name().to_owned(),
        }
    }

    pub(super) fn policy(&self, root: &Path) -> Policy {
        Policy {
            mode: self.task.mode,
            allow: self.task.allow.clone(),
            deny: self.task.deny.clone(),
            roots: Roots {
                workspace: root.to_path_buf(),
                additional: self.task.additional.clone(),
                output: self.output_dir().canonicalize().ok(),
                never_write: self.never_write(root),
                never_write_in_run: Arc::clone(&self.batch.never_write),
                closed: self.batch.closed.clone(),
            },
        }
    }

    /// The runner's own files where a copy of the workspace has them, and what is its own in every workspace; where they lie
    /// is the batch's knowledge.
    pub(in crate::batch) fn never_write(&self, root: &Path) -> Vec<PathBuf> {
        let copied = self.batch.never_write.iter().filter_map(|path| {
            let inside = path.strip_prefix(&self.task.workspace).ok()?;
            (root != self.task.workspace).then(|| root.join(inside))
        });
        copied
            .chain([
                root.join("agent-batch.yaml"),
                root.join("agent-batch-results"),
            ])
            .collect()
    }
}
