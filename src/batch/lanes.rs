//! Which tasks may run side by side. Pure.

use std::path::{Path, PathBuf};

use crate::task::Task;
use crate::workspace::Isolation;

/// A task's hold on the directories that it works in: its workspace, unless that is its own, and those beside it. One that
/// works on a copy holds the source as a reader while it copies ([`Hold::once_copied`]): a copy of a directory in which
/// somebody writes would hold half of what they did. A worktree is made of a commit, which nobody changes.
///
/// Those beside count because what one task's processes do there would be in the way of another one's sandbox: between the
/// look at a path and its mount a directory could become a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    workspace: Option<PathBuf>,
    beside: Vec<PathBuf>,
    /// Whether the task may write in these.
    writes: bool,
    /// What a copy is still to be made of.
    copied: Option<PathBuf>,
}

impl Hold {
    /// What is held when the copy is made, if anything.
    pub(super) fn once_copied(self) -> Option<Self> {
        let is_empty = self.workspace.is_none() && self.beside.is_empty();
        let copied = None;
        (!is_empty).then_some(Self { copied, ..self })
    }

    /// The directories, and whether the task may write there.
    fn places(&self) -> impl Iterator<Item = (&Path, bool)> {
        let own = self.workspace.iter().chain(&self.beside);
        let own = own.map(|place| (place.as_path(), self.writes));
        own.chain(self.copied.as_deref().map(|source| (source, false)))
    }
}

#[cfg(test)]
impl Hold {
    pub(super) fn writer(place: &str) -> Self {
        Self {
            workspace: Some(place.into()),
            beside: Vec::new(),
            writes: true,
            copied: None,
        }
    }

    pub(super) fn copier(source: &str) -> Self {
        Self {
            workspace: None,
            beside: Vec::new(),
            writes: true,
            copied: Some(source.into()),
        }
    }
}

/// How many of these wait for an earlier one. Most tasks of a run share few directories, so only those are compared.
pub(super) fn waiting(holds: impl Iterator<Item = Option<Hold>>) -> usize {
    let mut seen: Vec<Hold> = Vec::new();
    let mut count = 0;
    for hold in holds.flatten() {
        if seen.iter().any(|other| conflict(&hold, other)) {
            count += 1;
        }
        if !seen.contains(&hold) {
            seen.push(hold);
        }
    }
    count
}

/// What a task holds from its start; a worktree without additional directories holds nothing.
///
/// A task only reads if its tools only read and nothing else of it runs in the directory: no check that is a command, no
/// hook.
pub(super) fn hold(task: &Task) -> Option<Hold> {
    let reads = |tool: &String| matches!(tool.as_str(), "Read" | "Glob" | "Grep");
    let only_reads = task.tools.iter().all(reads)
        && task.hooks.is_empty()
        && !task.checks.iter().any(|check| check.starts_processes());
    let shared = task.isolation == Isolation::None;
    let copied = task.isolation == Isolation::Copy;
    (shared || copied || !task.additional.is_empty()).then(|| Hold {
        workspace: shared.then(|| task.workspace.clone()),
        beside: task.additional.clone(),
        writes: !only_reads,
        copied: copied.then(|| task.workspace.clone()),
    })
}

/// Whether one task has to wait for the other: directories of theirs overlap, and at least one of them writes there.
pub(super) fn conflict(one: &Hold, other: &Hold) -> bool {
    let meets = |(place, writes): (&Path, bool)| {
        let mut others = other.places();
        others.any(|(other, other_writes)| {
            (writes || other_writes) && (place.starts_with(other) || other.starts_with(place))
        })
    };
    one.places().any(meets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_for_one_another_where_their_directories_overlap_and_one_writes() {
        let hold = |place, writes| Hold {
            writes,
            ..Hold::writer(place)
        };
        assert!(conflict(&hold("/w", true), &hold("/w", true)));
        assert!(conflict(&hold("/w", true), &hold("/w/sub", false)));
        assert!(conflict(&hold("/w/sub", false), &hold("/w", true)));
        assert!(!conflict(&hold("/w", false), &hold("/w", false)));
        assert!(!conflict(&hold("/w", true), &hold("/wide", true)));
    }

    #[test]
    fn a_copy_is_not_made_of_a_directory_in_which_somebody_writes() {
        let (copier, writer) = (Hold::copier("/w/sub"), Hold::writer("/w"));
        assert!(conflict(&copier, &writer));
        assert!(conflict(&writer, &copier));
        let reader = Hold {
            writes: false,
            ..writer.clone()
        };
        assert!(!conflict(&copier, &reader));
        assert!(!conflict(&copier, &copier));
        assert_eq!(copier.once_copied(), None);
        assert_eq!(writer.clone().once_copied(), Some(writer));
    }

    #[test]
    fn a_directory_beside_the_workspace_is_held_too() {
        let beside = |place: &str, writes| Hold {
            workspace: None,
            beside: vec![place.into()],
            writes,
            copied: None,
        };
        assert!(conflict(&beside("/cache", true), &beside("/cache", true)));
        assert!(!conflict(&beside("/cache", true), &beside("/other", true)));
        assert!(!conflict(
            &beside("/cache", false),
            &beside("/cache", false)
        ));
        let inside = Hold::writer("/cache/w");
        assert!(conflict(&beside("/cache", true), &inside));
        assert!(conflict(&inside, &beside("/cache", false)));
    }
}
