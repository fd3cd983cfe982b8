//! Whether a process that nothing holds could do everything on this machine.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Why a process without a sandbox could do everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Superuser {
    /// We are root, and so is what we start.
    Root,
    /// There is a `sudo` that may ask for no password.
    Sudo,
}

impl Superuser {
    /// What we are, and what there is on a search path.
    #[must_use]
    pub fn of(search: &str) -> Option<Self> {
        if rustix::process::geteuid().is_root() {
            return Some(Self::Root);
        }
        let is_setuid = |path: PathBuf| {
            path.metadata().is_ok_and(|found| {
                found.is_file() && found.uid() == 0 && found.mode() & 0o4000 != 0
            })
        };
        std::env::split_paths(search)
            .any(|directory| is_setuid(directory.join("sudo")))
            .then_some(Self::Sudo)
    }

    /// What it means, after "processes".
    #[must_use]
    pub fn means(self) -> &'static str {
        match self {
            Self::Root => "run as root",
            Self::Sudo => "can become root where `sudo` asks for no password",
        }
    }
}
