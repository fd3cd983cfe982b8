//! Which tasks may run side by side. Pure.

use std::path::Path;

use crate::task::Task;
use crate::workspace::Isolation;

/// A task's hold on the directory that it works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold<'a> {
    place: &'a Path,
    writes: bool,
}

#[cfg(test)]
impl<'a> Hold<'a> {
    pub(super) fn writer(place: &'a Path) -> Self {
        Self {
            place,
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

/// What a task holds while it runs; an isolated one holds nothing.
///
/// A task only reads if its tools only read and nothing else of it runs in the directory: no check that is a command, no
/// hook.
pub(super) fn hold(task: &Task) -> Option<Hold<'_>> {
    let reads = |tool: &String| matches!(tool.as_str(), "Read" | "Glob" | "Grep");
    let only_reads = task.tools.iter().all(reads)
        && task.hooks.is_empty()
        && !task.checks.iter().any(|check| check.starts_processes());
    (task.isolation == Isolation::None).then_some(Hold {
        place: &task.workspace,
        writes: !only_reads,
    })
}

/// Whether one task has to wait for the other: their directories overlap, and at least one of them writes.
pub(super) fn conflict(one: Option<Hold<'_>>, other: Option<Hold<'_>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return false;
    };
    (one.writes || other.writes)
        && (one.place.starts_with(other.place) || other.place.starts_with(one.place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_wait_for_one_another_where_their_directories_overlap_and_one_writes() {
        let hold = |place, writes| {
            Some(Hold {
                place: Path::new(place),
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
}
