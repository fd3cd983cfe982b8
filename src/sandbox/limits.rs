//! What every process of a call gives up, whatever the machine has: rights, and sizes without end.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ceilings of one process: the most bytes of a file, open files, and processes of the user. Memory has none here: a
/// limit on address space ends programs that only reserve it.
const CEILINGS: [(Resource, u64); 4] = [
    (Resource::Core, 0),
    (Resource::Fsize, 16 << 30),
    (Resource::Nofile, 65_536),
    (Resource::Nproc, 16_384),
];

/// Lowers the limits, drops all capabilities, and makes sure that no program gives any back.
///
/// # Errors
/// The kernel refused one of them.
pub(super) fn apply() -> io::Result<()> {
    for (resource, ceiling) in CEILINGS {
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
