//! A walk over a tree that follows no links and meets a directory before its contents, in order of name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::at;

/// Deeper trees are an error: a hostile one must not cost unbounded memory.
const DEPTH_LIMIT: usize = 256;

/// What the walk met.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Absolute.
    pub(super) path: PathBuf,
    /// Of the entry itself; a link is a link.
    pub(super) kind: Kind,
    depth: usize,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    /// FIFO, socket or device.
    Special,
}

impl Entry {
    /// Whether this is a repository's own directory, or the file that points to one.
    pub(super) fn is_git(&self) -> bool {
        self.path.file_name().is_some_and(|name| name == ".git")
    }
}

/// Calls `visit` for everything below `root`; its answer says whether to go into a directory. What vanishes meanwhile
/// is passed over.
pub(super) fn walk(
    root: &Path,
    mut visit: impl FnMut(&Entry) -> io::Result<bool>,
) -> io::Result<()> {
    let mut open = children(root, 1)?;
    while let Some(entry) = open.pop() {
        if visit(&entry)? && entry.kind == Kind::Directory {
            if entry.depth >= DEPTH_LIMIT {
                return Err(io::Error::other(format!(
                    "`{}` is nested more than {DEPTH_LIMIT} directories deep",
                    entry.path.display()
                )));
            }
            open.extend(children(&entry.path, entry.depth + 1)?);
        }
    }
    Ok(())
}

/// Last name first, for a stack.
fn children(directory: &Path, depth: usize) -> io::Result<Vec<Entry>> {
    let listing = match fs::read_dir(directory) {
        Ok(listing) => listing,
        // Gone meanwhile, or closed: an agent must not be able to stop the walk by a mode.
        Err(error)
            if depth > 1
                && matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(at(directory, &error)),
    };
    let mut entries = Vec::new();
    for entry in listing {
        let entry = entry.map_err(|error| at(directory, &error))?;
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
            depth,
        });
    }
    entries.sort_by(|one, other| other.path.cmp(&one.path));
    Ok(entries)
}
