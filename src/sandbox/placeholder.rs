//! Something where a protected path has nothing: a mount needs a place, and what could be made later would be no longer
//! protected.
//!
//! Placeholders are empty directories, made by the supervisor of a call before the sandbox and removed when nothing of the
//! call is left. The supervisor outlives the runner, so it removes them also when the runner is killed. Calls of several
//! runners may need the same ones: each holds a shared lock on the workspace, and only one that is alone removes them.
//! One that was left all the same (a power cut) is known by its mode and its time, and goes at the next start.

use std::fs::{self, DirBuilder, File, FileTimes, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use super::plan::own_names;
use super::{Missing, Plan};
use crate::clock::Clock;

/// What tells a placeholder from anybody's empty directory: its mode, and a time of change (seconds since the epoch)
/// before there was git.
const MODE: u32 = 0o555;
const TIME: u64 = 499_137_600;
/// How long another call may take to remove its placeholders.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// What is protected by more than mounts, as long as a call runs.
#[derive(Debug)]
pub struct Held {
    /// The directories that are written, each with its lock where the file system has any.
    places: Vec<(PathBuf, Option<File>)>,
    /// Where placeholders may stand.
    paths: Vec<PathBuf>,
}

impl Held {
    /// Makes what is missing.
    ///
    /// # Errors
    /// A protected path is missing, nothing can be put in its place, and a process inside could make it; nothing must be
    /// started then.
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        let mut paths = Vec::new();
        let mut places: Vec<PathBuf> = Vec::new();
        for protected in &plan.protected {
            let covered = plan.protected.iter().any(|above| {
                above.path != protected.path && protected.path.starts_with(&above.path)
            });
            if protected.missing == Missing::Leave || covered {
                continue;
            }
            paths.push(protected.path.clone());
            places.extend(plan.writable_place(&protected.path).map(Path::to_path_buf));
        }
        places.sort();
        places.dedup();
        let mut held = Self {
            places: Vec::new(),
            paths: Vec::new(),
        };
        for place in places {
            let lock = shared(&place)?;
            held.places.push((place, lock));
        }
        for path in paths {
            let made = make(&path);
            held.paths.push(path);
            // What was made so far goes with `held`.
            made?;
        }
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (place, lock) in &self.places {
            // The last one of several sees no other lock, whichever of them comes last.
            if lock.as_ref().is_none_or(|lock| lock.try_lock().is_ok()) {
                let own = self.paths.iter().filter(|path| path.starts_with(place));
                own.for_each(|path| remove(path));
            }
        }
    }
}

/// Removes what a killed call has left at the root of a workspace, unless another one is running there.
pub fn remove_stale(workspace: &Path) {
    let Ok(lock) = File::open(workspace) else {
        return;
    };
    if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        for name in own_names() {
            remove(&workspace.join(name));
        }
    }
}

/// A shared lock; `None` where the file system has no locks.
fn shared(place: &Path) -> io::Result<Option<File>> {
    let lock = File::open(place).map_err(|error| at(place, &error))?;
    let started = Clock::system().start();
    loop {
        match lock.try_lock_shared() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock) if started.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let busy = io::Error::other("another run holds a lock on it");
                return Err(at(place, &busy));
            }
        }
    }
}

/// Makes a placeholder, unless something is there, or nothing can be made by anybody.
fn make(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(path, &error)),
    }
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => mark(path).map_err(|error| at(path, &error)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => Ok(()),
        // In somebody else's directory, what we may not make cannot be made inside either.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !has_own_parent(path) => {
            Ok(())
        }
        Err(error) => Err(at(path, &error)),
    }
}

fn mark(path: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let directory = File::options().read(true).custom_flags(flags).open(path)?;
    directory.set_permissions(Permissions::from_mode(MODE))?;
    directory.set_times(FileTimes::new().set_modified(time()))
}

fn time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(TIME)
}

fn has_own_parent(path: &Path) -> bool {
    let parent = path.parent().and_then(|parent| parent.metadata().ok());
    parent.is_none_or(|parent| parent.uid() == rustix::process::geteuid().as_raw())
}

/// Removes a placeholder. Anything else, and one that got content, is somebody's, and stays.
fn remove(path: &Path) {
    let ours = fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir()
            // An agent that closed its workspace had it opened again.
            && [MODE, MODE | 0o700].contains(&(found.mode() & 0o7777))
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.modified().is_ok_and(|modified| modified == time())
    });
    if ours {
        let _ = fs::remove_dir(path);
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    let message = format!("`{}` cannot be protected: {error}", path.display());
    io::Error::new(error.kind(), message)
}

#[cfg(test)]
mod tests {
    use super::super::Protected;
    use super::*;

    fn plan(root: &Path, names: &[(&str, Missing)]) -> Plan {
        let protected = names.iter().map(|(name, missing)| Protected {
            path: root.join(name),
            missing: *missing,
        });
        Plan {
            writable: vec![root.to_path_buf()],
            protected: protected.collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn placeholders_live_as_long_as_the_last_process_and_never_replace_anything() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("kept"), "content").unwrap();
        fs::create_dir(at("empty")).unwrap();
        let names = [
            ("dir", Missing::Placeholder),
            ("dir/in", Missing::Placeholder),
            ("kept", Missing::Placeholder),
            ("empty", Missing::Placeholder),
            ("none", Missing::Leave),
        ];
        let first = Held::new(&plan(dir.path(), &names)).unwrap();
        let second = Held::new(&plan(dir.path(), &names[..1])).unwrap();
        assert!(at("dir").is_dir() && !at("none").exists());
        drop(first);
        assert!(at("dir").exists(), "another one needs it");
        drop(second);
        assert!(!at("dir").exists());
        assert_eq!(fs::read_to_string(at("kept")).unwrap(), "content");
        assert!(at("empty").exists(), "an empty directory of somebody's");
    }

    #[test]
    fn what_got_content_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dir");
        let held = Held::new(&plan(dir.path(), &[("dir", Missing::Placeholder)])).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        drop(held);
        assert!(path.exists());
    }

    #[test]
    fn what_a_killed_call_left_is_removed_when_nobody_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join(".git");
        let names = [(".git", Missing::Placeholder)];
        let held = Held::new(&plan(dir.path(), &names)).unwrap();
        remove_stale(dir.path());
        assert!(git.exists(), "a call is running");
        for (_, lock) in &held.places {
            lock.as_ref().unwrap().unlock().unwrap();
        }
        std::mem::forget(held);
        remove_stale(dir.path());
        assert!(!git.exists());
        fs::create_dir(&git).unwrap();
        remove_stale(dir.path());
        assert!(git.exists(), "somebody's");
    }

    #[test]
    fn what_cannot_be_made_but_could_be_made_inside_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        for name in ["gone/x", "file/x"] {
            let error = Held::new(&plan(dir.path(), &[(name, Missing::Placeholder)])).unwrap_err();
            assert!(error.to_string().contains("cannot be protected"), "{error}");
        }
    }
}
