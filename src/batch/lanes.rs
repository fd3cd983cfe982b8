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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold<'a> {
    workspace: Option<&'a Path>,
    beside: &'a [PathBuf],
    /// Whether the task may write in these.
    writes: bool,
    /// What a copy is still to be made of.
    copied: Option<&'a Path>,
}

impl<'a> Hold<'a> {
    /// What is held when the copy is made, if anything.
    pub(super) fn once_copied(self) -> Option<Self> {
        let is_empty = self.workspace.is_none() && self.beside.is_empty();
        let copied = None;
        (!is_empty).then_some(Self { copied, ..self })
    }

    /// The directories, and whether the task may write there.
    fn places(self) -> impl Iterator<Item = (&'a Path, bool)> {
        let beside = self.beside.iter().map(PathBuf::as_path);
        let own = self.workspace.into_iter().chain(beside);
        let copied = self.copied.map(|source| (source, false));
        own.map(move |place| (place, self.writes)).chain(copied)
    }
}

#[cfg(test)]
impl<'a> Hold<'a> {
    pub(super) fn writer(place: &'a Path) -> Self {
        Self {
            workspace: Some(place),
            beside: &[],
            writes: true,
            copied: None,
        }
    }

    pub(super) fn copier(source: &'a Path) -> Self {
        Self {
            workspace: None,
            beside: &[],
            writes: true,
            copied: Some(source),
        }
    }
}

/// How many of these wait for an earlier one. Most tasks of a run share few directories, so only those are compared.
pub(super) fn waiting<'a>(holds: impl Iterator<Item = Option<Hold<'a>>>) -> usize {
    let mut seen: Vec<Hold<'a>> = Vec::new();
    let mut count = 0;
    for hold in holds.flatten() {
        if seen.iter().any(|other| conflict(Some(hold), Some(*other))) {
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
pub(super) fn hold(task: &Task) -> Option<Hold<'_>> {
    let reads = |tool: &String| matches!(tool.as_str(), "Read" | "Glob" | "Grep");
    let only_reads = task.tools.iter().all(reads)
        && task.hooks.is_empty()
        && !task.checks.iter().any(|check| check.starts_processes());
    let shared = task.isolation == Isolation::None;
    let copied = task.isolation == Isolation::Copy;
    (shared || copied || !task.additional.is_empty()).then_some(Hold {
        workspace: shared.then_some(&task.workspace),
        beside: &task.additional,
        writes: !only_reads,
        copied: copied.then_some(&task.workspace),
    })
}

/// Whether one task has to wait for the other: directories of theirs overlap, and at least one of them writes there.
pub(super) fn conflict(one: Option<Hold<'_>>, other: Option<Hold<'_>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
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
        let hold = |place, writes| {
            Some(Hold {
                workspace: Some(Path::new(place)),
                beside: &[],
                writes,
                copied: None,
            })
        };
        assert!(conflict(hold("/w", true), hold("/w", true)));
        assert!(conflict(hold("/w", true), hold("/w/sub", false)));
        assert!(conflict(hold("/w/sub", false), hold("/w", true)));
        assert!(!conflict(hold("/w", false), hold("/w", false)));
        assert!(!conflict(hold("/w", true), hold("/wide", true)));
        assert!(!conflict(hold("/w", true), None));
    }

    #[test]
    fn a_copy_is_not_made_of_a_directory_in_which_somebody_writes() {
        let copier = Hold::copier(Path::new("/w/sub"));
        let writer = Hold::writer(Path::new("/w"));
        assert!(conflict(Some(copier), Some(writer)));
        assert!(conflict(Some(writer), Some(copier)));
        let reader = Hold {
            writes: false,
            ..writer
        };
        assert!(!conflict(Some(copier), Some(reader)));
        assert!(!conflict(Some(copier), Some(copier)));
        assert!(!conflict(copier.once_copied(), Some(writer)));
        assert_eq!(writer.once_copied(), Some(writer));
    }

    #[test]
    fn a_directory_beside_the_workspace_is_held_too() {
        let (cache, other) = ([PathBuf::from("/cache")], [PathBuf::from("/other")]);
        let beside = |beside, writes| {
            Some(Hold {
                workspace: None,
                beside,
                writes,
                copied: None,
            })
        };
        assert!(conflict(beside(&cache, true), beside(&cache, true)));
        assert!(!conflict(beside(&cache, true), beside(&other, true)));
        assert!(!conflict(beside(&cache, false), beside(&cache, false)));
        let inside = Some(Hold::writer(Path::new("/cache/w")));
        assert!(conflict(beside(&cache, true), inside));
        assert!(conflict(inside, beside(&cache, false)));
    }
}
