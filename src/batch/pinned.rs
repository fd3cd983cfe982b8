//! The files that say what a run may do, pinned by their hash before the first model call.
//!
//! Task files and the project's file are read once, so a change has no effect on the run; but somebody who changes them
//! meanwhile has got somewhere where nobody should, or prepares the next run. Such a run is not to be trusted.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::file;

/// The largest file that is pinned: a task file cannot be larger.
const MOST: u64 = crate::task::LARGEST_FILE;

/// Files with the hashes that they had.
#[derive(Debug, Default)]
pub struct Pinned(Vec<(PathBuf, Option<[u8; 32]>)>);

impl Pinned {
    /// Pins files as they are now. One that does not exist has to stay away.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let pin = |path: PathBuf| {
            let hash = hash(&path).ok();
            (path, hash)
        };
        Self(files.into_iter().map(pin).collect())
    }

    /// The files that are not what they were.
    #[must_use]
    pub fn changed(&self) -> Vec<&Path> {
        self.0
            .iter()
            .filter(|(path, before)| hash(path).ok() != *before)
            .map(|(path, _)| path.as_path())
            .collect()
    }
}

fn hash(path: &Path) -> io::Result<[u8; 32]> {
    Ok(Sha256::digest(file::read(path, MOST)?).into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_changes_comes_or_goes_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["same", "edited", "gone"] {
            fs::write(path(name), name).unwrap();
        }
        let names = ["same", "edited", "gone", "new", "absent"];
        let pinned = Pinned::new(names.map(path));
        assert!(pinned.changed().is_empty());
        fs::write(path("edited"), "other").unwrap();
        fs::remove_file(path("gone")).unwrap();
        fs::write(path("new"), "").unwrap();
        let changed: Vec<PathBuf> = pinned
            .changed()
            .into_iter()
            .map(Path::to_path_buf)
            .collect();
        assert_eq!(changed, ["edited", "gone", "new"].map(path));
    }
}
