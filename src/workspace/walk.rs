//! A walk over a tree that follows no links and meets a directory before its contents, in order of name.
//!
//! An agent can leave any tree. None stops the walk: how deep one is costs only what its names cost, and a directory that
//! cannot be looked into is told as such, so that nobody takes it for an empty one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::at;

/// What the walk met.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Absolute.
    pub(super) path: PathBuf,
    /// Of the entry itself; a link is a link.
    pub(super) kind: Kind,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    /// FIFO, socket or device.
    Special,
    /// A directory, told as one before, that cannot be looked into: it may not be entered, or its path is longer than the
    /// system takes.
    Sealed,
}

impl Entry {
    /// Whether this is a repository's own directory, or the file that points to one.
    pub(super) fn is_git(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == ".git")
    }
}

/// Whether a path cannot be used as it stands, however often it is tried: it may not be entered or read, or it is longer
/// than the system takes.
pub(super) fn is_sealed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidFilename
    )
}

/// Calls `visit` for everything below `root`; its answer says whether to go into a directory. What vanishes meanwhile
/// is passed over.
pub(super) fn walk(
    root: &Path,
    mut visit: impl FnMut(&Entry) -> io::Result<bool>,
) -> io::Result<()> {
    let mut open = children(root).map_err(|error| at(root, &error))?;
    while let Some(entry) = open.pop() {
        if !visit(&entry)? || entry.kind != Kind::Directory {
            continue;
        }
        match children(&entry.path) {
            Ok(children) => open.extend(children),
            Err(error) if is_gone(&error) => {}
            Err(error) if is_sealed(&error) => {
                let kind = Kind::Sealed;
                visit(&Entry { kind, ..entry })?;
            }
            Err(error) => return Err(at(&entry.path, &error)),
        }
    }
    Ok(())
}

/// Whether there is no such directory any more.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Last name first, for a stack.
fn children(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let kind = if kind.is_symlink() {
            Kind::Link
        } else if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File
        } else {
            Kind::Special
        };
        entries.push(Entry {
            path: entry.path(),
            kind,
        });
    }
    entries.sort_by(|one, other| other.path.cmp(&one.path));
    Ok(entries)
}

/// Makes a tree of so many directories of this name below `root`, deeper than a path can be long if need be, with a file
/// at its end.
#[cfg(test)]
pub(super) fn make_deep(root: &Path, name: &str, levels: usize) {
    // From the inside out, as paths of that length cannot be named.
    let (inner, outer) = (root.join("#inner"), root.join("#outer"));
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("end"), "e").unwrap();
    for _ in 1..levels {
        fs::create_dir(&outer).unwrap();
        fs::rename(&inner, outer.join(name)).unwrap();
        fs::rename(&outer, &inner).unwrap();
    }
    fs::rename(&inner, root.join(name)).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(root: &Path) -> (usize, Vec<Kind>) {
        let (mut deepest, mut kinds) = (0, Vec::new());
        walk(root, |entry| {
            let inside = entry.path.strip_prefix(root).unwrap();
            deepest = deepest.max(inside.components().count());
            kinds.push(entry.kind);
            Ok(true)
        })
        .unwrap();
        (deepest, kinds)
    }

    #[test]
    fn a_deep_tree_is_walked_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        make_deep(dir.path(), "d", 1000);
        let (deepest, kinds) = met(dir.path());
        assert_eq!(deepest, 1001);
        assert_eq!(kinds.last(), Some(&Kind::File));
    }

    #[test]
    fn a_directory_below_the_longest_path_is_told_as_sealed_and_what_stands_beside_it_is_met() {
        let dir = tempfile::tempdir().unwrap();
        make_deep(dir.path(), &"d".repeat(250), 40);
        fs::write(dir.path().join("z"), "").unwrap();
        let (deepest, kinds) = met(dir.path());
        assert!((15..=17).contains(&deepest), "{deepest}");
        let end = [Kind::Directory, Kind::Sealed, Kind::File];
        assert!(kinds.ends_with(&end), "{kinds:?}");
        super::super::remove_tree(&dir.path().join("d".repeat(250))).unwrap();
    }
}
