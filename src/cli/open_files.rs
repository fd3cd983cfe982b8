//! How many files a run may have open, and how many tasks at the same time that bears.
//!
//! A system gives a process little of what it may have (`ulimit -Sn`: often 1,024, or 256), for the sake of programs that
//! use `select`. A run with many tasks takes what it may have (`ulimit -Hn`), as long as that is less than what a sandboxed
//! call gets at the most.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More is of no use, and programs that close all files they could have open would take long.
const ENOUGH: u64 = 65_536;
/// What a running task takes at the most: pipes of a call, of its supervisor and of its hooks, connections, transcript, and
/// the files of a copy or of git.
const EACH_TASK: u64 = 16;
/// What a run takes beside its tasks.
const THE_RUN: u64 = 64;

/// Takes as many open files as the process may have.
///
/// Returns how many of `jobs` tasks at the same time can be borne: at least one.
pub(super) fn take(jobs: u16) -> u16 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: wanted(limit),
        maximum: limit.maximum,
    };
    let has = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    jobs.min(borne(has))
}

/// `None` is no limit, here as in what the system says.
fn wanted(limit: Rlimit) -> Option<u64> {
    let most = limit.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    limit.current.map(|current| current.max(most))
}

fn borne(open_files: Option<u64>) -> u16 {
    let tasks = open_files.unwrap_or(u64::MAX).saturating_sub(THE_RUN) / EACH_TASK;
    u16::try_from(tasks).unwrap_or(u16::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn what_may_be_had_is_taken_and_nothing_is_given_back() {
        let many = Some(1_048_576);
        assert_eq!(wanted(limit(Some(1024), Some(4096))), Some(4096));
        assert_eq!(wanted(limit(Some(1024), None)), Some(ENOUGH));
        assert_eq!(wanted(limit(Some(256), many)), Some(ENOUGH));
        assert_eq!(wanted(limit(many, many)), many);
        assert_eq!(wanted(limit(None, None)), None);
    }

    #[test]
    fn few_open_files_bear_few_tasks_but_always_one() {
        assert_eq!(borne(Some(1024)), 60);
        assert_eq!(borne(Some(40)), 1);
        assert_eq!(borne(Some(ENOUGH)), 4092);
        assert_eq!(borne(None), u16::MAX);
    }
}
