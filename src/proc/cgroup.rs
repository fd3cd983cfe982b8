//! A control group of the kernel for one call, where the runner may make one: the ceiling on processes that nothing
//! inside can pass.
//!
//! The limit of a user (`RLIMIT_NPROC`) does not bind root, and a user namespace that root makes is root's as well. A
//! runner that is root can mostly make control groups instead. Where neither is so, the supervisor's looks remain (see
//! [`super::ceilings`]). Both versions of control groups are known; of version 2, the group of the runner itself cannot
//! have children with limits while processes are in it, so the root of the hierarchy is tried after it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::id;
use std::thread;

use super::supervise::PAUSE;

/// Where the hierarchies are mounted, by the convention of systemd and of container runtimes.
const VERSION_1: &str = "/sys/fs/cgroup/pids";
const VERSION_2: &str = "/sys/fs/cgroup";
/// Begins the name of a group; the id of its supervisor follows, and what tells it from one in another namespace.
const PREFIX: &str = "agent-batch-";
/// How often the kernel is asked to remove a group whose last process is just going.
const TRIES: usize = 50;

/// A group without processes, or with those of a call. Removed when it is dropped.
pub(super) struct Group {
    path: PathBuf,
    /// Where this process is.
    own: PathBuf,
}

impl Group {
    /// A group for at most so many processes and threads; none where that is not permitted.
    pub(super) fn new(most: u32, nonce: &str) -> Option<Self> {
        let table = fs::read_to_string("/proc/self/cgroup").ok()?;
        let (root, own) = place(&table)?;
        let own = root.join(own);
        let mut parents = vec![own.clone(), root];
        parents.dedup();
        parents
            .iter()
            .find_map(|parent| Self::below(parent, &own, most, nonce))
    }

    fn below(parent: &Path, own: &Path, most: u32, nonce: &str) -> Option<Self> {
        remove_stale(parent);
        let path = parent.join(format!("{PREFIX}{}-{}", id(), nonce.get(..8)?));
        fs::create_dir(&path).ok()?;
        let group = Self {
            path,
            own: own.to_path_buf(),
        };
        fs::write(group.path.join("pids.max"), most.to_string()).ok()?;
        Some(group)
    }

    /// Starts something in the group. This process is in it meanwhile. Where it is not let in, what is started is not
    /// either, and the looks remain.
    pub(super) fn with<T>(&self, start: impl FnOnce() -> T) -> T {
        let entered = enter(&self.path);
        let started = start();
        if entered.is_ok() {
            // Who stays in counts against the ceiling, and nothing else.
            let _ = enter(&self.own);
        }
        started
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if !matches!(fs::remove_dir(&self.path), Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
            {
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

fn enter(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), id().to_string())
}

/// The hierarchy that counts processes, and our place in it.
fn place(table: &str) -> Option<(PathBuf, PathBuf)> {
    let line = |wanted: &str| {
        table.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers
                .split(',')
                .any(|controller| controller == wanted)
                .then(|| PathBuf::from(path.trim_start_matches('/')))
        })
    };
    line("pids")
        .map(|own| (VERSION_1.into(), own))
        .or_else(|| line("").map(|own| (VERSION_2.into(), own)))
}

/// Removes the groups of supervisors that were killed. One with processes in it stays: the kernel refuses.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|name| name.split_once('-')?.0.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_that_counts_processes_is_found_in_both_versions() {
        let found = |table| place(table).map(|(root, own)| root.join(own));
        let first = "9:name=systemd:/\n8:cpu,pids:/a/b\n0::/\n";
        assert_eq!(found(first).unwrap(), Path::new("/sys/fs/cgroup/pids/a/b"));
        let second = "0::/user.slice/x\n";
        assert_eq!(
            found(second).unwrap(),
            Path::new("/sys/fs/cgroup/user.slice/x")
        );
        assert_eq!(found("9:name=systemd:/\n"), None);
        assert_eq!(found("odd"), None);
    }
}
