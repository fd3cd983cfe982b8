//! What the agent left: the difference to the start, its patch, and the end of the workspace.

use std::io;
use std::path::Path;

use tokio::task::block_in_place;

use super::{Attempt, warn};
use crate::event::{Change, Emitter, Kind, WorkspaceCompared};
use crate::report::run_dir;
use crate::sandbox;
use crate::workspace::Workspace;

impl Attempt<'_> {
    /// Compares the workspace with its state at the start and leaves the difference as a patch, however the agent ended.
    pub(super) async fn compare(
        &self,
        workspace: &Workspace,
        emitter: &Emitter,
    ) -> io::Result<Vec<Change>> {
        workspace.reopen();
        // What the last call could not remove, because the agent had closed its place.
        sandbox::remove_stale(workspace.root());
        let own = self.never_write(workspace.root());
        let protected = |path: &Path| {
            let path = workspace.root().join(path);
            let mut never = own.iter().chain(&*self.batch.never_write);
            never.any(|never| path.starts_with(never))
        };
        let redactor = &self.batch.redactor;
        let comparison = block_in_place(|| workspace.compare(&protected, redactor))?;
        let changes = comparison.changes().to_vec();
        let mut compared = WorkspaceCompared {
            changes: changes.clone(),
            concerns: comparison.concerns().to_vec(),
            patch: None,
            commit: workspace.commit().unwrap_or_default().to_owned(),
        };
        let mut problem = None;
        if !changes.is_empty() {
            let written = match self.git() {
                Ok(git) => {
                    comparison
                        .write_patch(&git, &self.dir.join(run_dir::PATCH))
                        .await
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(record) => compared.patch = Some(record),
                Err(error) => problem = Some(format!("there is no patch of the changes: {error}")),
            }
        }
        emitter.emit(Kind::WorkspaceCompared(Box::new(compared)))?;
        if let Some(message) = problem {
            warn(emitter, "patch", message)?;
        }
        Ok(changes)
    }

    /// Removes the workspace, unless it is to be kept.
    pub(super) fn remove(&self, workspace: Workspace, emitter: &Emitter) -> io::Result<()> {
        if !self.batch.keep_workspaces
            && let Err(error) = block_in_place(|| workspace.remove())
        {
            let message = format!("the workspace could not be removed: {error}");
            warn(emitter, "workspace", message)?;
        }
        Ok(())
    }
}
