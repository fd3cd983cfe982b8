//! Which processes belong to a call, and their end.
//!
//! On Linux a call's processes are the descendants of its supervisor by the process table; the subreaper attribute
//! keeps them there. Elsewhere only the command's process group is known.
//!
//! An agent can kill its own supervisor. What it started then falls to the runner, which is a subreaper too, and
//! [`Supervisors::sweep`] ends it: every child of ours that is in another session and is no living supervisor, with
//! all its descendants, and everything that carries the call's marker.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit, setsid};

/// How often the process table is read anew for processes that came to be meanwhile, before those known are killed.
#[cfg(target_os = "linux")]
const MOST_STOPS: usize = 50;

/// Processes that were killed, each counted once however often it was hit.
#[derive(Debug, Default)]
pub(super) struct Killed(BTreeSet<(i32, u64)>);

impl Killed {
    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

/// Makes this process the leader of a session and the parent that orphans below it fall to. No core dumps: they
/// would put memory into the workspace.
pub(super) fn lead() {
    // Fails when we lead a group already, which a supervisor never does.
    let _ = setsid();
    become_subreaper();
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
}

fn become_subreaper() {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// Stops everything below this process. What is stopped forks no more and misses no child, so that looking it up
/// comes to an end also with processes that fork faster than one can look.
#[cfg(target_os = "linux")]
pub(super) fn stop_below_us() {
    let us = BTreeSet::from([rustix::process::getpid().as_raw_pid()]);
    let mut stopped = BTreeSet::new();
    for _ in 0..MOST_STOPS {
        let table = linux::table();
        let new: Vec<_> = linux::below(&table, &us)
            .filter(|process| !process.is_zombie() && stopped.insert(process.identity()))
            .collect();
        if new.is_empty() {
            return;
        }
        // A process that forks and ends faster than the table is read is hit with its group, which is hit at once.
        linux::signal_groups(&new, Signal::STOP);
        linux::signal(new.into_iter(), Signal::STOP);
    }
}

/// Groups are hit at once here.
#[cfg(not(target_os = "linux"))]
pub(super) fn stop_below_us() {}

/// Kills once everything below this process.
#[cfg(target_os = "linux")]
pub(super) fn kill_below_us(_child: Pid) -> Killed {
    stop_below_us();
    let table = linux::table();
    let us = rustix::process::getpid().as_raw_pid();
    let targets: Vec<_> = linux::below(&table, &BTreeSet::from([us])).collect();
    linux::signal_groups(&targets, Signal::KILL);
    linux::signal(targets.into_iter(), Signal::KILL)
}

/// Kills once the command's process group.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_below_us(child: Pid) -> Killed {
    let _ = rustix::process::kill_process_group(child, Signal::KILL);
    Killed::default()
}

/// The living processes below this one.
#[cfg(target_os = "linux")]
pub(super) fn living_below_us() -> Vec<i32> {
    let table = linux::table();
    let us = rustix::process::getpid().as_raw_pid();
    let below = linux::below(&table, &BTreeSet::from([us])).filter(|process| !process.is_zombie());
    below.map(|process| process.pid).collect()
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn living_below_us() -> Vec<i32> {
    Vec::new()
}

/// Number of living processes and threads below this one.
#[cfg(target_os = "linux")]
pub(super) fn count_below_us() -> u32 {
    let table = linux::table();
    let us = rustix::process::getpid().as_raw_pid();
    let below = linux::below(&table, &BTreeSet::from([us])).filter(|process| !process.is_zombie());
    below.map(|process| process.threads).sum()
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn count_below_us() -> u32 {
    0
}

/// Number of living processes below this one that are not in the command's own tree: they left it.
#[cfg(target_os = "linux")]
pub(super) fn strays(child: Pid) -> u32 {
    let table = linux::table();
    let us = rustix::process::getpid().as_raw_pid();
    let child = child.as_raw_pid();
    let own: BTreeSet<i32> = linux::below(&table, &BTreeSet::from([child]))
        .map(|process| process.pid)
        .collect();
    let strays = linux::below(&table, &BTreeSet::from([us]))
        .filter(|process| process.pid != child && !own.contains(&process.pid))
        .filter(|process| !process.is_zombie());
    u32::try_from(strays.count()).unwrap_or(u32::MAX)
}

/// Unknown here.
#[cfg(not(target_os = "linux"))]
pub(super) fn strays(_child: Pid) -> u32 {
    0
}

/// The living supervisors of this process.
pub(super) struct Supervisors;

static LIVING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn living() -> MutexGuard<'static, BTreeSet<u32>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a supervisor out of the living ones when its call is over.
pub(super) struct Registered(Option<u32>);

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            living().remove(&id);
        }
    }
}

impl Supervisors {
    /// Starts a supervisor. A sweep never sees one that is started but not yet known.
    pub(super) fn spawn<T>(
        start: impl FnOnce() -> io::Result<(T, Option<u32>)>,
    ) -> io::Result<(T, Registered)> {
        let mut living = living();
        become_subreaper();
        let (child, id) = start()?;
        living.extend(id);
        Ok((child, Registered(id)))
    }

    /// Ends the processes whose supervisor is gone, and those with this marker in their environment. Gives their
    /// number. Blocks for some milliseconds, five seconds at most.
    #[cfg(target_os = "linux")]
    pub(super) fn sweep(marker: &str) -> u32 {
        use std::time::Duration;

        let started = crate::clock::Clock::system().start();
        let mut killed = Killed::default();
        let mut clean = 0;
        // The table is no snapshot: a process that forks while it is read may be missed once.
        while clean < 2 && started.elapsed() < Duration::from_secs(5) {
            let known = living();
            let table = linux::table();
            let orphans: BTreeSet<i32> = linux::orphans(&table, &known, marker);
            let targets = linux::below(&table, &orphans).chain(
                table
                    .iter()
                    .filter(|process| orphans.contains(&process.pid)),
            );
            let hit = linux::signal(targets, Signal::KILL);
            for pid in orphans.iter().copied().filter_map(Pid::from_raw) {
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
            }
            drop(known);
            clean = if hit.0.is_empty() { clean + 1 } else { 0 };
            killed.extend(hit);
            std::thread::sleep(Duration::from_millis(2));
        }
        killed.count()
    }

    /// Nothing is known about orphans here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn sweep(_marker: &str) -> u32 {
        0
    }
}

/// The process table of Linux.
#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, pidfd_send_signal};

    use super::{Killed, Signal};

    /// One line of the table.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Process {
        pub(super) pid: i32,
        parent: i32,
        group: i32,
        session: i32,
        state: char,
        pub(super) threads: u32,
        /// In clock ticks since boot: tells a process from a later one with the same id.
        start: u64,
    }

    impl Process {
        /// Tells it from every other process since boot.
        pub(super) fn identity(&self) -> (i32, u64) {
            (self.pid, self.start)
        }

        pub(super) fn is_zombie(&self) -> bool {
            matches!(self.state, 'Z' | 'X')
        }

        /// Reads `/proc/PID/stat`. The name in parentheses may hold anything, parentheses too.
        pub(super) fn parse(stat: &str) -> Option<Self> {
            let (pid, rest) = stat.split_once(" (")?;
            let (_, rest) = rest.rsplit_once(") ")?;
            let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
            Some(Self {
                pid: pid.parse().ok()?,
                state: fields.first()?.chars().next()?,
                parent: fields.get(1)?.parse().ok()?,
                group: fields.get(2)?.parse().ok()?,
                session: fields.get(3)?.parse().ok()?,
                threads: fields.get(17)?.parse().ok()?,
                start: fields.get(19)?.parse().ok()?,
            })
        }

        fn read(pid: i32) -> Option<Self> {
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            Self::parse(&String::from_utf8_lossy(&stat))
        }
    }

    /// All processes that we may see.
    pub(super) fn table() -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(Process::read)
            .collect()
    }

    /// Everything below the roots, without them.
    pub(super) fn below<'a>(
        table: &'a [Process],
        roots: &BTreeSet<i32>,
    ) -> impl Iterator<Item = &'a Process> + use<'a> {
        let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
        for process in table {
            children.entry(process.parent).or_default().push(process);
        }
        let mut found = BTreeMap::new();
        let mut open: Vec<i32> = roots.iter().copied().collect();
        while let Some(parent) = open.pop() {
            for child in children.remove(&parent).unwrap_or_default() {
                open.push(child.pid);
                found.insert(child.pid, child);
            }
        }
        for root in roots {
            found.remove(root);
        }
        found.into_values()
    }

    /// Our children in other sessions that are no living supervisor, and whatever carries the marker.
    pub(super) fn orphans(
        table: &[Process],
        supervisors: &BTreeSet<u32>,
        marker: &str,
    ) -> BTreeSet<i32> {
        let us = getpid().as_raw_pid();
        // The table's own word: in a process namespace whose session began outside, it is 0 here and there.
        let Some(session) = Process::read(us).map(|process| process.session) else {
            return BTreeSet::new();
        };
        let supervises = |pid: i32| u32::try_from(pid).is_ok_and(|pid| supervisors.contains(&pid));
        table
            .iter()
            .filter(|process| {
                let ours =
                    process.parent == us && process.session != session && !supervises(process.pid);
                ours || (process.pid != us && carries(process.pid, marker))
            })
            .map(|process| process.pid)
            .collect()
    }

    fn carries(pid: i32, marker: &str) -> bool {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == marker.as_bytes())
        })
    }

    /// Signals the process groups of these, our own excepted.
    pub(super) fn signal_groups(targets: &[&Process], signal: Signal) {
        let own = Process::read(getpid().as_raw_pid()).map(|process| process.group);
        // A group that began outside of our process namespace shows as 0, that of a process on its way out as -1.
        let groups: BTreeSet<i32> = targets
            .iter()
            .map(|process| process.group)
            .filter(|group| *group > 1 && Some(*group) != own)
            .collect();
        for group in groups.into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Signals these, each only if it is still the process that the table showed. Gives those that were hit.
    pub(super) fn signal<'a>(targets: impl Iterator<Item = &'a Process>, signal: Signal) -> Killed {
        let mut killed = Killed::default();
        for process in targets.filter(|process| !process.is_zombie()) {
            let Some(pid) = Pid::from_raw(process.pid) else {
                continue;
            };
            // With the descriptor in hand the id cannot pass to another process between look and kill.
            let sent = match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(descriptor) => {
                    Process::read(process.pid).is_some_and(|now| now.start == process.start)
                        && pidfd_send_signal(descriptor, signal).is_ok()
                }
                Err(rustix::io::Errno::SRCH) => false,
                Err(_) => rustix::process::kill_process(pid, signal).is_ok(),
            };
            if sent {
                killed.0.insert(process.identity());
            }
        }
        killed
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn process(pid: i32, parent: i32) -> Process {
            Process {
                pid,
                parent,
                group: 1,
                session: 1,
                state: 'S',
                threads: 1,
                start: 1,
            }
        }

        #[test]
        fn a_process_may_be_called_anything() {
            let stat = "12 (a) R 1 (b)) S 3 4 5 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
            assert_eq!(
                Process::parse(stat),
                Some(Process {
                    pid: 12,
                    parent: 3,
                    group: 4,
                    session: 5,
                    state: 'S',
                    threads: 1,
                    start: 777
                })
            );
            assert_eq!(Process::parse("12 (a"), None);
            assert_eq!(Process::parse(""), None);
        }

        #[test]
        fn descendants_are_found_at_every_depth_and_circles_end() {
            let table = [
                process(2, 1),
                process(3, 2),
                process(4, 3),
                process(5, 9),
                process(9, 5),
            ];
            let below = |root| {
                below(&table, &BTreeSet::from([root]))
                    .map(|process| process.pid)
                    .collect::<Vec<_>>()
            };
            assert_eq!(below(1), [2, 3, 4]);
            assert_eq!(below(3), [4]);
            assert_eq!(below(5), [9]);
            assert!(below(77).is_empty());
        }

        #[test]
        fn the_table_shows_ourselves() {
            let us = getpid().as_raw_pid();
            assert!(table().iter().any(|process| process.pid == us));
        }
    }
}
