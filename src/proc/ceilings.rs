//! Looks at what the processes of a call take together, and says when it is too much.
//!
//! The kernel bounds each process; the sum it bounds only with control groups, which a runner without rights cannot make
//! (see [`super::cgroup`]). So the supervisor looks many times in a second. What is looked at costs nothing as long as
//! nothing is wrong: the process table is read only when the machine has more processes than a call may have, and more
//! than it had when the call began.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::tree;
use crate::sandbox::Ceilings;
use crate::text;

/// Pause between two looks.
pub(super) const EVERY: Duration = Duration::from_millis(20);
/// What a call may take of a disk that is nearly full when it begins.
const LEFT_OVER: u64 = 64 << 20;
/// The kernel ends the processes of a call first when memory is used up, and the runner last.
const FIRST_TO_GO: &str = "1000";

/// The looks at one call.
pub(super) struct Looks {
    ceilings: Ceilings,
    /// Directories that are written, and the bytes that were free there.
    disks: Vec<(PathBuf, u64)>,
    /// Processes and threads of the whole machine when the call began.
    before: u32,
}

impl Looks {
    pub(super) fn new(ceilings: Ceilings, written: impl IntoIterator<Item = PathBuf>) -> Self {
        let disks = written.into_iter();
        Self {
            ceilings,
            before: everywhere().unwrap_or_default(),
            disks: disks
                .filter_map(|path| Some((free(&path)?, path)))
                .map(|(free, path)| (path, free))
                .collect(),
        }
    }

    /// What is too much, in words.
    pub(super) fn exceeded(&self) -> Option<String> {
        self.processes()
            .or_else(|| self.disk())
            .or_else(|| self.memory())
    }

    fn processes(&self) -> Option<String> {
        let most = self.ceilings.processes;
        let all = everywhere()?;
        let worth = all > most && all > self.before.saturating_add(most / 4);
        let count = worth.then(tree::count_below_us)?;
        (count > most)
            .then(|| format!("it had {count} processes and threads, and {most} are the most"))
    }

    fn disk(&self) -> Option<String> {
        self.disks.iter().find_map(|(path, before)| {
            let now = free(path)?;
            let full = now < self.ceilings.free_disk && before.saturating_sub(now) > LEFT_OVER;
            full.then(|| {
                format!(
                    "the disk of `{}` is nearly full: {} are left",
                    path.display(),
                    text::bytes(now)
                )
            })
        })
    }

    fn memory(&self) -> Option<String> {
        let table = fs::read_to_string("/proc/meminfo").ok()?;
        let line = table
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let available: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        let available = available * 1024;
        (available < self.ceilings.free_memory).then(|| {
            format!(
                "the memory of the machine is nearly used up: {} are left",
                text::bytes(available)
            )
        })
    }
}

/// Number of processes and threads of the machine.
fn everywhere() -> Option<u32> {
    let all = fs::read_to_string("/proc/loadavg").ok()?;
    all.split_once('/')?.1.split(' ').next()?.parse().ok()
}

fn free(path: &PathBuf) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Who the kernel ends first when memory is used up: opened before nobody may look into this process any more.
pub(super) struct Preference {
    file: Option<File>,
    own: String,
}

impl Preference {
    pub(super) fn open() -> Self {
        let path = "/proc/self/oom_score_adj";
        Self {
            own: fs::read_to_string(path).unwrap_or_default(),
            file: OpenOptions::new().write(true).open(path).ok(),
        }
    }

    /// Lets what is started meanwhile be preferred, and this process, which has to end the others, not.
    pub(super) fn first<T>(&self, start: impl FnOnce() -> T) -> T {
        self.set(FIRST_TO_GO);
        let started = start();
        self.set(&self.own);
        started
    }

    fn set(&self, value: &str) {
        if let Some(mut file) = self.file.as_ref() {
            let _ = file.write_all(value.as_bytes());
        }
    }
}

/// Lets the calling thread and those that it starts run before whatever a call has running, where that is permitted: it
/// is to the very user whose number of processes the kernel does not bound.
pub(super) fn run_first() {
    let _ = rustix::process::nice(-20);
}

/// The same for the whole session, where the kernel shares processor time between sessions first.
pub(super) fn run_session_first() {
    let _ = fs::write("/proc/self/autogroup", "-20");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_that_nothing_reaches_is_silent_and_one_below_what_there_is_speaks() {
        let none = Ceilings {
            processes: u32::MAX,
            free_disk: 0,
            free_memory: 0,
            only_watched: false,
        };
        let looks = |ceilings: Ceilings| Looks::new(ceilings, [PathBuf::from("/tmp")]);
        assert_eq!(looks(none.clone()).exceeded(), None);
        let memory = Ceilings {
            free_memory: u64::MAX,
            ..none.clone()
        };
        assert!(looks(memory).exceeded().unwrap().contains("memory"));
        let mut disk = looks(Ceilings {
            free_disk: u64::MAX,
            ..none
        });
        disk.disks[0].1 = u64::MAX;
        assert!(disk.exceeded().unwrap().contains("nearly full"));
    }
}
