//! What every process of a call gives up, whatever the machine has: rights, and sizes without end.
//!
//! A process has its own ceilings, which the kernel holds (`rlimits`). What the processes of a call take together has no
//! ceiling in the kernel without control groups of our own; the supervisor looks at it (see `proc`). Their number is
//! held by both: where the limit of a user binds, and that is for everybody but root, a process more cannot be started.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// Most bytes of a file, and open files of a process. Memory has no such ceiling: a limit on address space ends programs
/// that only reserve it.
const FILE_SIZE: u64 = 16 << 30;
const OPEN_FILES: u64 = 65_536;
/// Most processes and threads of the user where they are counted with those of the whole machine.
const MACHINE_PROCESSES: u64 = 16_384;

/// What the processes of a call may take together, and have to leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Most processes and threads at a time.
    pub processes: u32,
    /// Bytes that stay free on the file systems of the workspace and of the private directories.
    pub free_disk: u64,
    /// Bytes of the machine's memory that stay available.
    pub free_memory: u64,
    /// No control group is made: for tests that the supervisor's looks hold by themselves.
    #[serde(default)]
    pub only_watched: bool,
}

impl Ceilings {
    /// Most processes and threads that the kernel starts. The looks of the supervisor, who ends a call that has more
    /// than it may, count the sandbox too.
    #[must_use]
    pub fn started(&self) -> u32 {
        self.processes - self.processes / 8
    }
}

/// Builds run some for each processor.
fn processes() -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(1024 + 64 * processors).map_or(8192, |count| count.min(8192))
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            processes: processes(),
            free_disk: 512 << 20,
            free_memory: 128 << 20,
            only_watched: false,
        }
    }
}

/// Lowers the limits, drops all capabilities, and makes sure that no program gives any back.
///
/// # Errors
/// The kernel refused one of them.
pub(super) fn apply(ceilings: &Ceilings, has_own_users: bool) -> io::Result<()> {
    let processes = if has_own_users {
        u64::from(ceilings.started())
    } else {
        MACHINE_PROCESSES
    };
    for (resource, ceiling) in [
        (Resource::Core, 0),
        (Resource::Fsize, FILE_SIZE),
        (Resource::Nofile, OPEN_FILES),
        (Resource::Nproc, processes),
    ] {
        let lower = |limit: Option<u64>| Some(limit.map_or(ceiling, |limit| limit.min(ceiling)));
        let now = getrlimit(resource);
        setrlimit(
            resource,
            Rlimit {
                current: lower(now.current),
                maximum: lower(now.maximum),
            },
        )?;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
        set_no_new_privs(true)?;
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            },
        )?;
    }
    Ok(())
}
