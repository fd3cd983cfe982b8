//! The state of a tree, to tell later what changed.
//!
//! Contents are compared by hash, but only where that is needed and never without a bound: a file whose stamp (size, times,
//! inode) is the same was not written, one of another size was, and a large file is told by its stamp alone. An agent can
//! make a file of any size; it must not be able to make us read it.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::ignored::Ignored;
use super::walk::{Entry, Kind, walk};
use super::{at, open_file};
use crate::event::{Change, ChangeKind};

/// Files above this size are told by their stamp alone.
const LARGEST_HASHED: u64 = 8 * 1024 * 1024;
/// When this much has been hashed, the rest is told by stamps.
const HASHED_IN_ALL: u64 = 1024 * 1024 * 1024;

/// What stands at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    File(File),
    Link {
        target: PathBuf,
    },
    Special,
    /// Another repository begins here.
    Repository,
    /// We may not read it; a change of this is a change too.
    Closed,
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    stamp: Stamp,
    executable: bool,
    /// `None` for a large one.
    hash: Option<[u8; 32]>,
}

/// What the file system says of a file. The change time cannot be set by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
}

/// States by path relative to the root, directories left out (as git does).
#[derive(Debug, Default)]
pub(super) struct Snapshot(BTreeMap<PathBuf, State>);

impl Snapshot {
    /// Looks at every file below `root` that is not ignored.
    pub(super) fn take(root: &Path, ignored: &Ignored, excluded: &[PathBuf]) -> io::Result<Self> {
        let mut states = BTreeMap::new();
        let mut left = HASHED_IN_ALL;
        visit(root, ignored, excluded, |path, entry| {
            if let Some(mut state) = state(entry)? {
                if let State::File(file) = &mut state
                    && file.stamp.size <= LARGEST_HASHED.min(left)
                {
                    left -= file.stamp.size;
                    file.hash = hash(&entry.path)?;
                }
                states.insert(path, state);
            }
            Ok(())
        })?;
        Ok(Self(states))
    }

    /// What is different now, by path.
    pub(super) fn changes(
        &self,
        root: &Path,
        ignored: &Ignored,
        excluded: &[PathBuf],
    ) -> io::Result<Vec<Change>> {
        let mut unseen: BTreeMap<&PathBuf, &State> = self.0.iter().collect();
        let mut changes = Vec::new();
        let mut note = |path: &Path, kind| {
            changes.push(Change {
                path: path.to_string_lossy().into_owned(),
                kind,
            });
        };
        visit(root, ignored, excluded, |path, entry| {
            let Some(now) = state(entry)? else {
                return Ok(());
            };
            match unseen.remove(&path) {
                None => note(&path, ChangeKind::Added),
                Some(before) if differs(before, &now, &entry.path)? => {
                    note(&path, ChangeKind::Modified);
                }
                Some(_) => {}
            }
            Ok(())
        })?;
        for path in unseen.into_keys() {
            note(path, ChangeKind::Deleted);
        }
        changes.sort_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        Ok(changes)
    }
}

/// Calls `each` for everything that counts, with its path relative to the root.
fn visit(
    root: &Path,
    ignored: &Ignored,
    excluded: &[PathBuf],
    mut each: impl FnMut(PathBuf, &Entry) -> io::Result<()>,
) -> io::Result<()> {
    walk(root, |entry| {
        let path = entry
            .path
            .strip_prefix(root)
            .unwrap_or(&entry.path)
            .to_path_buf();
        if entry.is_git() {
            // Inside the tree it is told that it is there: a repository of its own would hide anything.
            if path.components().count() > 1 {
                each(path, entry)?;
            }
            return Ok(false);
        }
        if excluded.contains(&entry.path) || ignored.is_ignored(entry) {
            return Ok(false);
        }
        each(path, entry)?;
        Ok(true)
    })
}

/// Whether what stands at a path is another thing than before.
fn differs(before: &State, now: &State, path: &Path) -> io::Result<bool> {
    let (State::File(before), State::File(now)) = (before, now) else {
        return Ok(before != now);
    };
    if before.executable != now.executable || before.stamp.size != now.stamp.size {
        return Ok(true);
    }
    if before.stamp == now.stamp {
        return Ok(false);
    }
    Ok(match before.hash {
        Some(known) => hash(path)? != Some(known),
        None => true,
    })
}

/// `None` for a directory, and for what vanished since the walk met it.
fn state(entry: &Entry) -> io::Result<Option<State>> {
    if entry.is_git() {
        return Ok(Some(State::Repository));
    }
    let state = match entry.kind {
        Kind::Directory => return Ok(None),
        Kind::Special => Ok(State::Special),
        Kind::Link => fs::read_link(&entry.path).map(|target| State::Link { target }),
        Kind::File => open_file(&entry.path)
            .and_then(|file| file.metadata())
            .map(|found| State::File(file(&found))),
    };
    match state {
        Ok(state) => Ok(Some(state)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Some(State::Closed)),
        Err(error) => Err(at(&entry.path, &error)),
    }
}

fn file(found: &Metadata) -> File {
    let stamp = Stamp {
        size: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        inode: found.ino(),
    };
    File {
        stamp,
        executable: found.mode() & 0o111 != 0,
        hash: None,
    }
}

/// The hash of a file that is not large; `None` for one that has become large or has gone meanwhile.
fn hash(path: &Path) -> io::Result<Option<[u8; 32]>> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path, &error)),
    };
    let mut hasher = Sha256::new();
    let read = io::copy(&mut file.take(LARGEST_HASHED + 1), &mut hasher)
        .map_err(|error| at(path, &error))?;
    Ok((read <= LARGEST_HASHED).then(|| hasher.finalize().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(root: &Path) -> Snapshot {
        Snapshot::take(root, &Ignored::read(root, &[]).unwrap(), &[]).unwrap()
    }

    fn changes(before: &Snapshot, root: &Path) -> Vec<String> {
        let changes = before
            .changes(root, &Ignored::read(root, &[]).unwrap(), &[])
            .unwrap();
        changes.into_iter().map(|change| change.path).collect()
    }

    #[test]
    fn changes_are_sorted_by_the_bytes_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for path in ["b/c", "z"] {
            fs::write(dir.path().join(path), "1").unwrap();
        }
        let before = snapshot(dir.path());
        fs::write(dir.path().join("b-a"), "1").unwrap();
        fs::write(dir.path().join("b/c"), "2").unwrap();
        fs::remove_file(dir.path().join("z")).unwrap();
        assert_eq!(changes(&before, dir.path()), ["b-a", "b/c", "z"]);
    }

    #[test]
    fn a_file_that_was_written_again_with_the_same_content_did_not_change() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "same").unwrap();
        let before = snapshot(dir.path());
        fs::remove_file(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a"), "same").unwrap();
        assert!(changes(&before, dir.path()).is_empty());
    }

    #[test]
    fn a_file_of_any_size_is_told_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let sparse = |name: &str, size| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_len(size).unwrap();
        };
        sparse("old", 1 << 42);
        let before = snapshot(dir.path());
        assert!(changes(&before, dir.path()).is_empty());
        sparse("new", 1 << 42);
        fs::write(dir.path().join("old"), "shorter").unwrap();
        assert_eq!(changes(&before, dir.path()), ["new", "old"]);
    }
}
