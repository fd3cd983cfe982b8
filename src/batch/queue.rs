//! Which task may start next. Pure.
//!
//! It is always the first one of the plan that nothing stands against: a task that writes in a directory without isolation
//! has that for itself, one that works on a copy waits with copying until nobody writes there, and a group may have so many tasks at the same time. A task that has to wait is parked with what it
//! waits for and looked at again only when that ends, so that a long plan costs no more than a short one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lanes::{self, Hold};
use crate::task::Task;

/// The tasks that are not over, by their places in the plan.
pub(super) struct Queue<'a> {
    tasks: Vec<Entry<'a>>,
    /// Most tasks at the same time, and how many there are, by group.
    groups: HashMap<&'a str, Room>,
    ready: BTreeSet<usize>,
    parked: HashMap<Obstacle<'a>, Vec<usize>>,
    /// What running tasks hold.
    holding: HashMap<usize, Hold>,
}

struct Entry<'a> {
    hold: Option<Hold>,
    group: Option<&'a str>,
}

struct Room {
    most: usize,
    used: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Obstacle<'a> {
    Task(usize),
    Group(&'a str),
}

impl<'a> Queue<'a> {
    /// A queue of these tasks, of which none is ready yet. Groups without a limit are no groups.
    pub(super) fn new<'t>(
        tasks: impl Iterator<Item = &'t Task>,
        groups: &'a BTreeMap<String, u32>,
    ) -> Self {
        let limited = |name: &String| groups.get_key_value(name).map(|(name, _)| name.as_str());
        let room = |most: u32| Room {
            most: usize::try_from(most).unwrap_or(usize::MAX).max(1),
            used: 0,
        };
        Self {
            tasks: tasks
                .map(|task| Entry {
                    hold: lanes::hold(task),
                    group: task.group.as_ref().and_then(limited),
                })
                .collect(),
            groups: groups
                .iter()
                .map(|(name, most)| (name.as_str(), room(*most)))
                .collect(),
            ready: BTreeSet::new(),
            parked: HashMap::new(),
            holding: HashMap::new(),
        }
    }

    /// The task waits for its turn.
    pub(super) fn add(&mut self, task: usize) {
        self.ready.insert(task);
    }

    /// Starts the next task that may.
    pub(super) fn start(&mut self) -> Option<usize> {
        loop {
            let task = self.ready.pop_first()?;
            let entry = self.tasks.get(task)?;
            if let Some(obstacle) = self.obstacle(entry) {
                self.parked.entry(obstacle).or_default().push(task);
                continue;
            }
            if let Some(hold) = &entry.hold {
                self.holding.insert(task, hold.clone());
            }
            if let Some(room) = entry.group.and_then(|group| self.groups.get_mut(group)) {
                room.used += 1;
            }
            return Some(task);
        }
    }

    fn obstacle(&self, entry: &Entry<'a>) -> Option<Obstacle<'a>> {
        if let Some(group) = entry.group
            && let Some(room) = self.groups.get(group)
            && room.used >= room.most
        {
            return Some(Obstacle::Group(group));
        }
        let hold = entry.hold.as_ref()?;
        let mut holding = self.holding.iter();
        let other = holding.find(|(_, other)| lanes::conflict(hold, other));
        other.map(|(task, _)| Obstacle::Task(*task))
    }

    /// The task has its copy of the directory that it works on, and others may write there again.
    pub(super) fn has_copied(&mut self, task: usize) {
        let Some(hold) = self.holding.remove(&task) else {
            return;
        };
        if let Some(rest) = hold.once_copied() {
            self.holding.insert(task, rest);
        }
        let waited = self.parked.remove(&Obstacle::Task(task));
        self.ready.extend(waited.into_iter().flatten());
    }

    /// The task has ended, and what waited for it is looked at again.
    pub(super) fn end(&mut self, task: usize) {
        self.holding.remove(&task);
        let mut free = self
            .parked
            .remove(&Obstacle::Task(task))
            .unwrap_or_default();
        let group = self.tasks.get(task).and_then(|entry| entry.group);
        if let Some(group) = group {
            if let Some(room) = self.groups.get_mut(group) {
                room.used = room.used.saturating_sub(1);
            }
            free.extend(
                self.parked
                    .remove(&Obstacle::Group(group))
                    .unwrap_or_default(),
            );
        }
        self.ready.extend(free);
    }

    /// Whether no task waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.parked.is_empty()
    }

    /// Takes out all tasks that wait.
    pub(super) fn drain(&mut self) -> BTreeSet<usize> {
        let parked = self.parked.drain().flat_map(|(_, tasks)| tasks);
        let mut all = std::mem::take(&mut self.ready);
        all.extend(parked);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(
        entries: &[(&'static str, Option<&'static str>)],
        groups: &[(&'static str, usize)],
    ) -> Queue<'static> {
        let mut queue = Queue {
            tasks: entries
                .iter()
                .map(|(place, group)| Entry {
                    hold: (!place.is_empty()).then(|| Hold::writer(place)),
                    group: *group,
                })
                .collect(),
            groups: groups
                .iter()
                .map(|(name, most)| {
                    (
                        *name,
                        Room {
                            most: *most,
                            used: 0,
                        },
                    )
                })
                .collect(),
            ready: BTreeSet::new(),
            parked: HashMap::new(),
            holding: HashMap::new(),
        };
        (0..entries.len()).for_each(|task| queue.add(task));
        queue
    }

    fn started(queue: &mut Queue<'_>) -> Vec<usize> {
        std::iter::from_fn(|| queue.start()).collect()
    }

    #[test]
    fn who_shares_a_directory_waits_and_the_others_go_by() {
        let mut queue = queue(
            &[("/w", None), ("/w/sub", None), ("", None), ("/w", None)],
            &[],
        );
        assert_eq!(started(&mut queue), [0, 2]);
        queue.end(2);
        assert!(started(&mut queue).is_empty());
        queue.end(0);
        assert_eq!(started(&mut queue), [1]);
        queue.end(1);
        assert_eq!(started(&mut queue), [3]);
    }

    #[test]
    fn a_directory_is_held_while_it_is_copied_and_no_longer() {
        let mut queue = queue(&[("/w", None), ("/w", None), ("/w", None)], &[]);
        for copier in [0, 1] {
            queue.tasks[copier].hold = Some(Hold::copier("/w"));
        }
        assert_eq!(started(&mut queue), [0, 1]);
        queue.has_copied(1);
        assert!(started(&mut queue).is_empty());
        queue.has_copied(0);
        assert_eq!(started(&mut queue), [2]);
        queue.end(0);
        queue.add(0);
        assert!(started(&mut queue).is_empty());
        queue.end(2);
        assert_eq!(started(&mut queue), [0]);
    }

    #[test]
    fn a_group_has_no_more_tasks_at_the_same_time_than_it_may() {
        let api = Some("api");
        let mut queue = queue(
            &[("", api), ("", api), ("", api), ("", None)],
            &[("api", 2)],
        );
        assert_eq!(started(&mut queue), [0, 1, 3]);
        queue.end(1);
        assert_eq!(started(&mut queue), [2]);
        queue.end(0);
        queue.add(0);
        assert_eq!(started(&mut queue), [0]);
    }

    #[test]
    fn what_waits_for_whatever_reason_can_be_taken_out() {
        let mut queue = queue(
            &[("/w", None), ("/w", None), ("", Some("g")), ("", Some("g"))],
            &[("g", 1)],
        );
        assert_eq!(queue.start(), Some(0));
        assert_eq!(queue.start(), Some(2));
        assert_eq!(queue.start(), None);
        assert_eq!(queue.drain(), BTreeSet::from([1, 3]));
    }
}
