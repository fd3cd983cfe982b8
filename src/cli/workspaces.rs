//! Whether the worktrees that tasks ask for can be made: found out before the first model call, for all tasks at once.

use std::collections::BTreeSet;
use std::path::Path;

use crate::cli::settings::Settings;
use crate::proc::Launcher;
use crate::task::Task;
use crate::workspace::{Git, Isolation};

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
    let search = settings.environment.get("PATH").map_or("", String::as_str);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for task in tasks {
        if !seen.insert((&task.workspace, &task.reference)) {
            continue;
        }
        let launcher = Launcher::new(settings.program.clone());
        let verified = Git::find(search, &[&task.workspace], launcher)
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
