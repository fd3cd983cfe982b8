//! The state of a tree, to tell later what changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::ignored::Ignored;
use super::walk::{Entry, Kind, walk};
use super::{at, open_file};
use crate::event::{Change, ChangeKind};

/// What stands at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    File {
        hash: [u8; 32],
        executable: bool,
    },
    Link {
        target: PathBuf,
    },
    Special,
    /// We may not read it; a change of this is a change too.
    Closed,
}

/// States by path relative to the root, directories left out (as git does).
#[derive(Debug, Default)]
pub(super) struct Snapshot(BTreeMap<PathBuf, State>);

impl Snapshot {
    /// Reads every file below `root` that is not ignored.
    pub(super) fn take(root: &Path, ignored: &Ignored, excluded: &[PathBuf]) -> io::Result<Self> {
        let mut states = BTreeMap::new();
        walk(root, |entry| {
            if entry.is_git() || excluded.contains(&entry.path) || ignored.is_ignored(entry) {
                return Ok(false);
            }
            if let Some(state) = state(entry)? {
                let path = entry.path.strip_prefix(root).unwrap_or(&entry.path);
                states.insert(path.to_path_buf(), state);
            }
            Ok(true)
        })?;
        Ok(Self(states))
    }

    /// What is different in `later`, by path.
    pub(super) fn changes_to(&self, later: &Self) -> Vec<Change> {
        let gone = self
            .0
            .keys()
            .filter(|path| !later.0.contains_key(*path))
            .map(|path| (path, ChangeKind::Deleted));
        let there = later
            .0
            .iter()
            .filter_map(|(path, now)| match self.0.get(path) {
                None => Some((path, ChangeKind::Added)),
                Some(before) if before != now => Some((path, ChangeKind::Modified)),
                Some(_) => None,
            });
        let mut changes: Vec<Change> = gone
            .chain(there)
            .map(|(path, kind)| Change {
                path: path.to_string_lossy().into_owned(),
                kind,
            })
            .collect();
        changes.sort_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        changes
    }
}

/// `None` for a directory, and for what vanished since the walk met it.
fn state(entry: &Entry) -> io::Result<Option<State>> {
    let state = match entry.kind {
        Kind::Directory => return Ok(None),
        Kind::Special => Ok(State::Special),
        Kind::Link => fs::read_link(&entry.path).map(|target| State::Link { target }),
        Kind::File => hash(&entry.path),
    };
    match state {
        Ok(state) => Ok(Some(state)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Some(State::Closed)),
        Err(error) => Err(at(&entry.path, &error)),
    }
}

fn hash(path: &Path) -> io::Result<State> {
    let mut file = open_file(path)?;
    let executable = file.metadata()?.permissions().mode() & 0o111 != 0;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher)?;
    Ok(State::File {
        hash: hasher.finalize().into(),
        executable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_sorted_by_the_bytes_of_the_path() {
        let file = |byte| State::File {
            hash: [byte; 32],
            executable: false,
        };
        let before = Snapshot(BTreeMap::from([
            ("b/c".into(), file(1)),
            ("z".into(), file(1)),
        ]));
        let after = Snapshot(BTreeMap::from([
            ("b-a".into(), file(1)),
            ("b/c".into(), file(2)),
        ]));
        let paths: Vec<_> = before
            .changes_to(&after)
            .into_iter()
            .map(|change| change.path)
            .collect();
        assert_eq!(paths, ["b-a", "b/c", "z"]);
    }
}
