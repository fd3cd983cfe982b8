//! The private place where attempts keep what must not lie in the checkout: copies of workspaces, HOME, TMPDIR.
//!
//! Its name depends on the run directory alone, so that paths in tool output are the same in two runs. A fixed name in a
//! shared directory is safe only if nobody else can have made it: it is a real directory of ours with mode 0700, or the
//! run does not start.
//!
//! Every run holds a lock on its own directory, from before the directory has its name until it is gone. So a directory
//! of that kind that can be locked was left by a run that was killed, whatever its run directory was, and the next run
//! removes it; one that is locked is somebody's, and stays.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use rustix::fs::{Mode, OFlags};

use crate::workspace::remove_tree;

/// What the names of all such directories begin with; sixteen hexadecimal digits follow.
const PREFIX: &str = "agent-batch-";
/// In a directory that is to stay after its run; no task has such a name.
const KEPT: &str = "#kept";
/// Most entries of the temporary directory that are looked at.
const LOOKED_AT: usize = 100_000;

/// A private directory, empty at the start and removed at the end.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    keep: bool,
    /// The directory itself, locked as long as the run lives.
    _lock: File,
}

impl Scratch {
    /// Makes the directory for a run directory, below `temp`, and removes what killed runs left there.
    ///
    /// # Errors
    /// It cannot be made, something that is not ours has its name, or another run is using it.
    pub fn create(temp: &Path, out: &Path, keep: bool) -> io::Result<Self> {
        let mut hasher = DefaultHasher::new();
        out.hash(&mut hasher);
        let root = temp.join(format!("{PREFIX}{:016x}", hasher.finish()));
        remove_earlier(&root)?;
        sweep(temp);
        let (lock, made) = make_locked(temp)?;
        let prepared = if keep {
            fs::write(made.join(KEPT), "")
        } else {
            Ok(())
        };
        // The name is given to a directory that is locked already.
        prepared
            .and_then(|()| fs::rename(&made, &root))
            .map_err(|error| at(&root, &error))?;
        let root = root.canonicalize().map_err(|error| at(&root, &error))?;
        Ok(Self {
            root,
            keep,
            _lock: lock,
        })
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

/// Removes what an earlier run with the same run directory left, kept or not. What cannot be removed is moved out of the
/// way: it must not keep a run from starting.
fn remove_earlier(root: &Path) -> io::Result<()> {
    let lock = match lock(root) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(root, &error)),
    };
    if let Err(error) = remove_tree(root) {
        let name = format!("left-by-agent-batch-{}", std::process::id());
        let aside = root.with_file_name(name);
        tracing::warn!(%error, path = %aside.display(), "what an earlier run left could not be removed");
        fs::rename(root, &aside).map_err(|error| at(root, &error))?;
    }
    drop(lock);
    Ok(())
}

/// Removes what other runs left that are no more. What is not surely such a thing stays.
fn sweep(temp: &Path) {
    for entry in fs::read_dir(temp)
        .into_iter()
        .flatten()
        .flatten()
        .take(LOOKED_AT)
    {
        let path = entry.path();
        if !is_scratch_name(&entry.file_name()) {
            continue;
        }
        let Ok(lock) = lock(&path) else { continue };
        // Locked, so nobody gives or takes this name any more; but it may have been given before we had the lock.
        let is_same = fs::symlink_metadata(&path).is_ok_and(|now| {
            lock.metadata()
                .is_ok_and(|held| (held.dev(), held.ino()) == (now.dev(), now.ino()))
        });
        if !is_same || path.join(KEPT).symlink_metadata().is_ok() {
            continue;
        }
        if let Err(error) = remove_tree(&path) {
            tracing::warn!(%error, path = %path.display(), "what a killed run left could not be removed");
        }
    }
}

fn is_scratch_name(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| {
        digits.len() == 16
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// The lock on a directory of ours.
fn lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let refused = || {
        io::Error::new(
            io::ErrorKind::AlreadyExists,
            "exists and is not a private directory of this user; remove it",
        )
    };
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => File::from(directory),
        Err(rustix::io::Errno::NOENT) => return Err(io::ErrorKind::NotFound.into()),
        Err(_) => return Err(refused()),
    };
    if !is_ours(&directory.metadata()?) {
        return Err(refused());
    }
    directory.try_lock().map_err(|_| {
        io::Error::new(
            io::ErrorKind::WouldBlock,
            "another run is using it; name another run directory with `--out`",
        )
    })?;
    Ok(directory)
}

fn is_ours(found: &fs::Metadata) -> bool {
    found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & 0o777 == 0o700
}

/// A new private directory with a name of its own, locked.
fn make_locked(temp: &Path) -> io::Result<(File, PathBuf)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!(".{PREFIX}new-{}-{number}", std::process::id());
    let made = temp.join(name);
    // What has this name was left by a killed run, at the only moment when a directory has no lock and no name.
    if made.symlink_metadata().is_ok() {
        lock(&made).map_err(|error| at(&made, &error))?;
        remove_tree(&made)?;
    }
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&made)
        .map_err(|error| {
            let what = format!(
                "the temporary directory `{}`: {error}; set TMPDIR to a directory that may be written",
                temp.display()
            );
            io::Error::new(error.kind(), what)
        })?;
    let lock = lock(&made).map_err(|error| at(&made, &error))?;
    Ok((lock, made))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(temp: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(temp)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_an_earlier_run_left_is_removed_and_what_is_not_ours_is_refused() {
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

    #[test]
    fn a_run_removes_what_killed_runs_left_and_nothing_that_is_alive_kept_or_not_ours() {
        let temp = tempfile::tempdir().unwrap();
        let path = |name: &str| temp.path().join(name);
        let private = |name: &str| {
            fs::DirBuilder::new()
                .mode(0o700)
                .create(path(name))
                .unwrap();
        };
        // Left by a killed run: nobody holds its lock.
        private("agent-batch-00000000000000aa");
        fs::create_dir_all(path("agent-batch-00000000000000aa/task/1")).unwrap();
        fs::set_permissions(
            path("agent-batch-00000000000000aa/task"),
            fs::Permissions::from_mode(0o000),
        )
        .unwrap();
        // Not ours, in one way or another.
        private("agent-batch-mine");
        private("agent-batch-00000000000000ab");
        fs::set_permissions(
            path("agent-batch-00000000000000ab"),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("file"), "").unwrap();
        symlink(elsewhere.path(), path("agent-batch-00000000000000ac")).unwrap();
        fs::write(path("agent-batch-00000000000000ad"), "").unwrap();

        let alive = Scratch::create(temp.path(), Path::new("/one"), false).unwrap();
        fs::write(alive.root().join("work"), "").unwrap();
        let kept = Scratch::create(temp.path(), Path::new("/two"), true).unwrap();
        let kept_root = kept.root().to_path_buf();
        drop(kept);
        let third = Scratch::create(temp.path(), Path::new("/three"), false).unwrap();
        assert!(alive.root().join("work").exists());
        assert!(kept_root.exists());
        assert!(elsewhere.path().join("file").exists());
        assert!(
            Scratch::create(temp.path(), Path::new("/one"), false)
                .unwrap_err()
                .to_string()
                .contains("another run is using it")
        );
        drop((alive, third));
        fs::remove_dir_all(kept_root).unwrap();
        assert_eq!(
            names(temp.path()),
            [
                "agent-batch-00000000000000ab",
                "agent-batch-00000000000000ac",
                "agent-batch-00000000000000ad",
                "agent-batch-mine",
            ]
        );
    }
}
