//! One look over a directory that is written: which repositories and which sockets lie in it.
//!
//! A repository is what git takes for one: an entry `.git`, or a directory with `HEAD`, `objects` and `refs`. Both make
//! git run what their `config` and `hooks` name, for whoever calls it there. The first look says what is to be protected;
//! a second one, when the agent has ended, tells what has come to be where nothing could be protected.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Most entries that are looked at, and how deep.
const MOST: usize = 300_000;
const DEPTH: usize = 128;
/// Most hooks of a repository that are compared.
const MOST_HOOKS: usize = 200;
/// What in a repository makes git run something.
const LEVERS: [&str; 6] = [
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "info/attributes",
    "hooks",
];

/// What lies in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    repositories: BTreeMap<PathBuf, Repository>,
    /// Unix sockets, which lead to whoever listens there.
    pub(super) sockets: Vec<PathBuf>,
    /// The directory holds more than is looked at.
    pub is_cut: bool,
}

/// A repository, and what it was like.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Repository {
    depth: usize,
    /// Of what makes git run something; none for a bare one, whose files are ordinary ones of the workspace.
    levers: Option<u64>,
}

impl Survey {
    /// Looks over a directory. What cannot be read is passed over.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        let mut survey = Self::default();
        let mut open = vec![(root.to_path_buf(), 0)];
        let mut looked = 0;
        while let Some((directory, depth)) = open.pop() {
            let mut bare = 0_u8;
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                looked += 1;
                if looked > MOST {
                    survey.is_cut = true;
                    return survey;
                }
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let name = entry.file_name();
                if name.eq_ignore_ascii_case(".git") {
                    survey.add(&entry, depth);
                    continue;
                }
                match name.to_str() {
                    Some("HEAD") if !kind.is_dir() => bare |= 1,
                    Some("objects") if !kind.is_file() => bare |= 2,
                    Some("refs") if !kind.is_file() => bare |= 4,
                    _ => {}
                }
                if kind.is_socket() {
                    survey.sockets.push(entry.path());
                } else if kind.is_dir() && depth < DEPTH {
                    open.push((entry.path(), depth + 1));
                } else if kind.is_dir() {
                    survey.is_cut = true;
                }
            }
            if bare == 7 {
                let levers = None;
                let repository = Repository { depth, levers };
                survey.repositories.insert(directory, repository);
            }
        }
        survey.sockets.sort();
        survey
    }

    fn add(&mut self, entry: &DirEntry, depth: usize) {
        let path = entry.path();
        let levers = Some(levers(&path));
        self.repositories.insert(path, Repository { depth, levers });
    }

    /// The entries `.git` in the first `depth` directories.
    pub(super) fn near(&self, depth: usize) -> impl Iterator<Item = &PathBuf> {
        self.repositories
            .iter()
            .filter(move |(_, found)| found.levers.is_some() && found.depth <= depth)
            .map(|(path, _)| path)
    }

    /// The repositories that were not there `before`, or that make git run something else now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<PathBuf> {
        let differs = |path: &PathBuf, now: &Repository| match before.repositories.get(path) {
            Some(then) => then.levers != now.levers,
            // What was not looked at may have been there.
            None => !before.is_cut,
        };
        self.repositories
            .iter()
            .filter(|(path, now)| differs(path, now))
            .map(|(path, _)| path.clone())
            .collect()
    }
}

/// A digest of what in a repository makes git run something: sizes, times and inodes, of which a program can set neither
/// the last nor the time of change.
fn levers(git: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &Path| match path.symlink_metadata() {
        Ok(found) if found.is_dir() => true,
        found => {
            stamp(found.ok().as_ref()).hash(&mut hasher);
            false
        }
    };
    if add(git) {
        for lever in LEVERS.map(|name| git.join(name)) {
            if add(&lever) {
                let mut hooks: Vec<PathBuf> = fs::read_dir(&lever)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .take(MOST_HOOKS)
                    .map(|hook| hook.path())
                    .collect();
                hooks.sort();
                for hook in hooks {
                    add(&hook);
                }
            }
        }
    }
    hasher.finish()
}

fn stamp(found: Option<&Metadata>) -> Option<(u64, u64, i64, i64)> {
    found.map(|found| (found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(path: &Path) {
        fs::create_dir_all(path).unwrap();
    }

    #[test]
    fn a_repository_that_comes_to_be_is_told_however_it_is_laid_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for part in ["old/.git/hooks", "a/b/c", "file", "bare", "fixture/refs"] {
            make(&root.join(part));
        }
        fs::write(root.join("old/.git/config"), "").unwrap();
        let before = Survey::of(root);
        assert_eq!(Survey::of(root).since(&before), [] as [PathBuf; 0]);
        make(&root.join("a/b/c/.GIT"));
        fs::write(root.join("file/.git"), "gitdir: ../x\n").unwrap();
        for part in ["objects", "refs"] {
            make(&root.join("bare").join(part));
        }
        fs::write(root.join("bare/HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(root.join("old/.git/index"), "refreshed").unwrap();
        let told = Survey::of(root).since(&before);
        let expected = ["a/b/c/.GIT", "bare", "file/.git"].map(|part| root.join(part));
        assert_eq!(told, expected);
    }

    #[test]
    fn a_repository_that_makes_git_run_something_else_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("deep/.git");
        make(&git.join("hooks"));
        let before = Survey::of(dir.path());
        fs::write(git.join("hooks/pre-commit"), "#!/bin/sh\n").unwrap();
        assert_eq!(Survey::of(dir.path()).since(&before), [git]);
    }

    #[test]
    fn sockets_are_found_and_repositories_are_not_entered() {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join("a/.git/objects"));
        let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("a/s")).unwrap();
        let _inner = std::os::unix::net::UnixListener::bind(dir.path().join("a/.git/s")).unwrap();
        let survey = Survey::of(dir.path());
        assert_eq!(survey.sockets, [dir.path().join("a/s")]);
        assert_eq!(survey.near(1).count(), 1);
        assert_eq!(survey.near(0).count(), 0);
    }
}
