//! Looks at what the processes of a call take together, and says when it is too much.
//!
//! The kernel bounds each process; the sum it bounds only with control groups, which a runner without rights cannot make.
//! So the supervisor looks a few times in a second. What is looked at costs nothing as long as nothing is wrong: the
//! process table is read only when the machine has more processes than a call may have.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::tree;
use crate::sandbox::Ceilings;
use crate::text;

/// Pause between two looks.
pub(super) const EVERY: Duration = Duration::from_millis(100);
/// What a call may take of a disk that is nearly full when it begins.
const LEFT_OVER: u64 = 64 << 20;
/// The kernel ends the processes of a call first when memory is used up, and the runner last.
const FIRST_TO_GO: &str = "1000";

/// The looks at one call.
pub(super) struct Looks {
    ceilings: Ceilings,
    /// Directories that are written, and the bytes that were free there.
    disks: Vec<(PathBuf, u64)>,
}

impl Looks {
    pub(super) fn new(ceilings: Ceilings, written: impl IntoIterator<Item = PathBuf>) -> Self {
        let disks = written.into_iter();
        Self {
            ceilings,
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
        // Threads of the whole machine, the calls' included.
        let all = fs::read_to_string("/proc/loadavg").ok()?;
        let all: u32 = all.split_once('/')?.1.split(' ').next()?.parse().ok()?;
        let count = (all > most).then(tree::count_below_us)?;
        (count > most).then(|| format!("it had {count} processes, and {most} are the most"))
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

fn free(path: &PathBuf) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Lets the kernel prefer this process and all that it starts when it has to end something.
pub(super) fn go_first() {
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_TO_GO);
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
