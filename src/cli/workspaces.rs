//! Whether the worktrees that tasks ask for can be made: found out before the first model call, for all tasks at once.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::settings::Settings;
use crate::task::Task;
use crate::workspace::Isolation;

/// Looks for the repository and the commit of every task that works in a worktree.
///
/// # Errors
/// One line for each task file and what is wrong with its workspace.
pub(super) fn verify<'t>(
    tasks: impl Iterator<Item = &'t Task>,
    settings: &Settings,
) -> Result<(), String> {
    let tasks: Vec<&Task> = tasks
        .filter(|task| task.isolation == Isolation::Worktree)
        .collect();
    if tasks.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime could not be started: {error}"))?;
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for task in tasks {
        if !seen.insert((&task.workspace, &task.reference)) {
            continue;
        }
        let verified = settings
            .git(&task.workspace)
            .and_then(|git| runtime.block_on(task.setup(Path::new(""), &[]).verify(&git)));
        if let Err(error) = verified {
            wrong.push(format!("{}: {error}", task.file));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}
