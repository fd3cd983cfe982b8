//! The private place where attempts keep what must not lie in the checkout: copies of workspaces, HOME, TMPDIR.
//!
//! Its name depends on the run directory alone, so that paths in tool output are the same in two runs, and what a killed
//! run left is found and removed by the next one. A fixed name in a shared directory is safe only if nobody else can have
//! made it: it is a real directory of ours with mode 0700, or the run does not start.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::workspace::remove_tree;

/// A private directory, empty at the start and removed at the end.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes the directory for a run directory, below `temp`.
    ///
    /// # Errors
    /// It cannot be made, or something that is not ours has its name.
    pub fn create(temp: &Path, out: &Path, keep: bool) -> io::Result<Self> {
        let mut hasher = DefaultHasher::new();
        out.hash(&mut hasher);
        let root = temp.join(format!("agent-batch-{:016x}", hasher.finish()));
        if let Ok(found) = fs::symlink_metadata(&root) {
            if !is_ours(&found) {
                let message = format!(
                    "{}: exists and is not a private directory of this user; remove it",
                    root.display()
                );
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            remove_tree(&root)?;
        }
        make_private(&root).map_err(|error| at(&root, &error))?;
        let root = root.canonicalize().map_err(|error| at(&root, &error))?;
        Ok(Self { root, keep })
    }

    /// The directory, absolute and physical.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = remove_tree(&self.root)
        {
            tracing::warn!(%error, path = %self.root.display(), "the scratch directory could not be removed");
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(unix)]
fn is_ours(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o777 == 0o700
}

#[cfg(not(unix))]
fn is_ours(found: &fs::Metadata) -> bool {
    found.is_dir()
}

#[cfg(unix)]
fn make_private(root: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(root)
}

#[cfg(not(unix))]
fn make_private(root: &Path) -> io::Result<()> {
    fs::create_dir(root)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_is_not_ours_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let out = Path::new("/some/run");
        let kept = Scratch::create(temp.path(), out, true).unwrap();
        let root = kept.root().to_path_buf();
        fs::write(root.join("left"), "over").unwrap();
        drop(kept);
        let again = Scratch::create(temp.path(), out, false).unwrap();
        assert_eq!(again.root(), root);
        assert!(!root.join("left").exists());
        drop(again);
        assert!(!root.exists());
        symlink("/", &root).unwrap();
        assert!(
            Scratch::create(temp.path(), out, false)
                .unwrap_err()
                .to_string()
                .contains("not a private directory")
        );
        fs::remove_file(&root).unwrap();
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Scratch::create(temp.path(), out, false).is_err());
    }
}
