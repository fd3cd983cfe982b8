//! Which tasks may run side by side. Pure.

use std::path::Path;

use crate::task::Task;
use crate::workspace::Isolation;

/// The lane of each task. Tasks whose workspaces overlap and are not isolated are in the same one.
pub(super) fn lanes(tasks: &[&Task]) -> Vec<usize> {
    let spaces: Vec<Option<&Path>> = tasks
        .iter()
        .map(|task| (task.isolation == Isolation::None).then_some(task.workspace.as_path()))
        .collect();
    groups(&spaces)
}

/// For each place the first index of its group. Two places that contain one another are in one group, and so is whatever
/// overlaps with either; `None` overlaps with nothing.
fn groups(spaces: &[Option<&Path>]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..spaces.len()).collect();
    for (later, one) in spaces.iter().enumerate() {
        for (earlier, other) in spaces.iter().enumerate().take(later) {
            let (Some(one), Some(other)) = (one, other) else {
                continue;
            };
            if one.starts_with(other) || other.starts_with(one) {
                let (from, to) = (
                    group[later].max(group[earlier]),
                    group[later].min(group[earlier]),
                );
                group
                    .iter_mut()
                    .filter(|member| **member == from)
                    .for_each(|member| *member = to);
            }
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_that_overlap_share_a_lane() {
        let spaces = ["/w/a", "/w/b", "/w/ab", "/w/a/x"].map(|path| Some(Path::new(path)));
        assert_eq!(groups(&spaces), [0, 1, 2, 0]);
        let joined = ["/w/a", "/w/b", "/w"].map(|path| Some(Path::new(path)));
        assert_eq!(groups(&joined), [0, 0, 0]);
        assert_eq!(groups(&[None, None, Some(Path::new("/w"))]), [0, 1, 2]);
    }
}
