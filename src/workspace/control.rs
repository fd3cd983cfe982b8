//! The files of a repository that decide what git does and where it stands: hooks, configuration, index, refs.
//!
//! They are no part of what a task changes, and a sandbox keeps them from being written. Where there is none, a task may
//! have left a hook for whoever uses the repository next, so they are compared with the start all the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::open_file;
use super::repository::Repository;
use super::walk::{Kind, walk};
use crate::event::{Concern, ConcernKind};

/// What can name a program that git runs.
const CODE: [&str; 5] = [
    "config",
    "config.worktree",
    "hooks",
    "info/attributes",
    "objects/info/alternates",
];
/// What says where the repository stands.
const STATE: [&str; 7] = [
    "HEAD",
    "index",
    "info/exclude",
    "info/sparse-checkout",
    "packed-refs",
    "refs",
    "shallow",
];
/// Most files that are looked at, and the largest that is read.
const FILES: usize = 20_000;
const LARGEST: u64 = 64 * 1024 * 1024;

/// The state of a repository's own files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// The directories: of the work tree, and what all work trees share.
    places: Vec<PathBuf>,
    /// By path: what is told of it.
    marks: BTreeMap<PathBuf, Mark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    File { hash: [u8; 32], mode: u32 },
    Large { size: u64, modified: (i64, i64) },
    Link(PathBuf),
    Other,
}

impl Control {
    /// Looks at the repository that a directory lies in, if it lies in one.
    pub(super) fn around(root: &Path) -> Self {
        let Some(repository) = Repository::around(root) else {
            return Self::default();
        };
        let mut places = vec![repository.own, repository.common];
        places.dedup();
        let marks = look(&places);
        Self { places, marks }
    }

    /// What is different now.
    pub(super) fn concerns(&self) -> Vec<Concern> {
        let now = look(&self.places);
        let mut paths: Vec<&PathBuf> = self.marks.keys().chain(now.keys()).collect();
        paths.sort();
        paths.dedup();
        paths
            .into_iter()
            .filter(|path| self.marks.get(*path) != now.get(*path))
            .map(|path| self.concern(path))
            .collect()
    }

    fn concern(&self, path: &Path) -> Concern {
        let inside = self
            .places
            .iter()
            .find_map(|place| path.strip_prefix(place).ok())
            .unwrap_or(path);
        let code = CODE.iter().any(|part| inside.starts_with(part));
        Concern {
            path: Path::new(".git").join(inside).display().to_string(),
            kind: if code {
                ConcernKind::Steering
            } else {
                ConcernKind::Repository
            },
            detail: "differs from the start".to_owned(),
        }
    }
}

fn look(places: &[PathBuf]) -> BTreeMap<PathBuf, Mark> {
    let mut marks = BTreeMap::new();
    for place in places {
        for part in CODE.iter().chain(&STATE) {
            let path = place.join(part);
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if !found.is_dir() {
                if let Some(mark) = mark(&path) {
                    marks.insert(path, mark);
                }
                continue;
            }
            // What cannot be read looks the same before and after.
            let _ = walk(&path, |entry| {
                if marks.len() >= FILES {
                    return Err(io::Error::other("enough"));
                }
                if entry.kind != Kind::Directory
                    && let Some(mark) = mark(&entry.path)
                {
                    marks.insert(entry.path.clone(), mark);
                }
                Ok(true)
            });
        }
    }
    marks
}

fn mark(path: &Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt as _;

    let found = fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        return fs::read_link(path).ok().map(Mark::Link);
    }
    if !found.is_file() {
        return Some(Mark::Other);
    }
    if found.len() > LARGEST {
        return Some(Mark::Large {
            size: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        });
    }
    let mut hasher = Sha256::new();
    let file = open_file(&path.canonicalize().ok()?).ok()?;
    io::copy(&mut io::Read::take(file, LARGEST), &mut hasher).ok()?;
    Some(Mark::File {
        hash: hasher.finalize().into(),
        mode: found.mode(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn hooks_configuration_and_branches_that_change_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let git = root.join(".git");
        for part in ["hooks", "objects", "refs/heads"] {
            fs::create_dir_all(git.join(part)).unwrap();
        }
        for part in ["HEAD", "config", "hooks/mode", "refs/heads/main", "index"] {
            fs::write(git.join(part), "1").unwrap();
        }
        let control = Control::around(&root);
        assert_eq!(control.concerns(), []);
        fs::write(git.join("config"), "2").unwrap();
        fs::write(git.join("hooks/pre-commit"), "#!/bin/sh").unwrap();
        fs::set_permissions(git.join("hooks/mode"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(git.join("refs/heads/main")).unwrap();
        fs::write(git.join("objects/new"), "an object").unwrap();
        let told: Vec<(String, ConcernKind)> = control
            .concerns()
            .into_iter()
            .map(|concern| (concern.path, concern.kind))
            .collect();
        let expected = [
            (".git/config", ConcernKind::Steering),
            (".git/hooks/mode", ConcernKind::Steering),
            (".git/hooks/pre-commit", ConcernKind::Steering),
            (".git/refs/heads/main", ConcernKind::Repository),
        ];
        assert_eq!(told, expected.map(|(path, kind)| (path.to_owned(), kind)));
    }
}
