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
pub struct Pinned {
    files: Vec<(PathBuf, Option<[u8; 32]>)>,
    program: Option<(PathBuf, Option<Identity>)>,
}

/// Device, inode, size and time of the last change of a program. A program that runs cannot be written, only replaced.
type Identity = [u64; 4];

impl Pinned {
    /// Pins files as they are now. One that does not exist has to stay away.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let pin = |path: PathBuf| {
            let hash = hash(&path).ok();
            (path, hash)
        };
        Self {
            files: files.into_iter().map(pin).collect(),
            program: None,
        }
    }

    /// Pins our own program too: it starts every process of the run once more, as their supervisor.
    #[must_use]
    pub fn with_program(mut self, program: &Path) -> Self {
        self.program = Some((program.to_path_buf(), identity(program)));
        self
    }

    /// The files that are not what they were.
    #[must_use]
    pub fn changed(&self) -> Vec<&Path> {
        let files = self.files.iter();
        let files = files.filter(|(path, before)| hash(path).ok() != *before);
        let program = self.program.iter();
        let program = program.filter(|(path, before)| identity(path) != *before);
        files
            .map(|(path, _)| path.as_path())
            .chain(program.map(|(path, _)| path.as_path()))
            .collect()
    }
}

fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).ok()?;
    let changed = found.mtime().cast_unsigned();
    Some([found.dev(), found.ino(), found.size(), changed])
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

    #[test]
    fn a_program_that_is_replaced_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (program, other) = (dir.path().join("program"), dir.path().join("other"));
        fs::write(&program, "one").unwrap();
        let pinned = Pinned::new([]).with_program(&program);
        assert!(pinned.changed().is_empty());
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &program).unwrap();
        assert_eq!(pinned.changed(), [program.as_path()]);
    }
}
