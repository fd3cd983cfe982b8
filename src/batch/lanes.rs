//! Which tasks may run side by side. Pure.

use std::path::{Path, PathBuf};

use crate::task::Task;
use crate::workspace::Isolation;

/// A task's hold on the directories that it works in: its workspace, unless that is its own, and those beside it.
///
/// Those beside count because what one task's processes do there would be in the way of another one's sandbox: between the
/// look at a path and its mount a directory could become a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold<'a> {
    workspace: Option<&'a Path>,
    beside: &'a [PathBuf],
    writes: bool,
}

impl<'a> Hold<'a> {
    fn places(self) -> impl Iterator<Item = &'a Path> {
        let beside = self.beside.iter().map(PathBuf::as_path);
        self.workspace.into_iter().chain(beside)
    }
}

#[cfg(test)]
impl<'a> Hold<'a> {
    pub(super) fn writer(place: &'a Path) -> Self {
        Self {
            workspace: Some(place),
            beside: &[],
            writes: true,
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

/// What a task holds while it runs; an isolated one without additional directories holds nothing.
///
/// A task only reads if its tools only read and nothing else of it runs in the directory: no check that is a command, no
/// hook.
pub(super) fn hold(task: &Task) -> Option<Hold<'_>> {
    let reads = |tool: &String| matches!(tool.as_str(), "Read" | "Glob" | "Grep");
    let only_reads = task.tools.iter().all(reads)
        && task.hooks.is_empty()
        && !task.checks.iter().any(|check| check.starts_processes());
    let shared = task.isolation == Isolation::None;
    (shared || !task.additional.is_empty()).then_some(Hold {
        workspace: shared.then_some(&task.workspace),
        beside: &task.additional,
        writes: !only_reads,
    })
}

/// Whether one task has to wait for the other: their directories overlap, and at least one of them writes.
pub(super) fn conflict(one: Option<Hold<'_>>, other: Option<Hold<'_>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
    let overlap = |place: &Path| {
        let mut others = other.places();
        others.any(|other| place.starts_with(other) || other.starts_with(place))
    };
    (one.writes || other.writes) && one.places().any(overlap)
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
    fn a_directory_beside_the_workspace_is_held_too() {
        let (cache, other) = ([PathBuf::from("/cache")], [PathBuf::from("/other")]);
        let beside = |beside, writes| {
            Some(Hold {
                workspace: None,
                beside,
                writes,
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
