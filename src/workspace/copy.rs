//! The copy of a tree, and its end.

use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::ignored::Ignored;
use super::walk::{Entry, Kind, walk};
use super::{at, open_file};

/// Copies what git sees of a tree, and the repository itself. Links are copied as links; FIFOs, sockets and devices
/// are left out. `target` must not exist.
pub(super) fn copy_tree(
    source: &Path,
    target: &Path,
    ignored: &Ignored,
    excluded: &[PathBuf],
) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
    }
    // Nobody else may look in: the task may put anything there.
    DirBuilder::new()
        .mode(0o700)
        .create(target)
        .map_err(|error| at(target, &error))?;
    // Modes of directories come last: one that may not be written has to be filled first.
    let mut modes = Vec::new();
    walk(source, |entry| {
        let Ok(relative) = entry.path.strip_prefix(source) else {
            return Ok(false);
        };
        let inside_git = relative.components().any(|part| part.as_os_str() == ".git");
        let left_out = excluded.contains(&entry.path)
            || (entry.is_git() && entry.kind != Kind::Directory)
            || (!inside_git && ignored.is_ignored(entry));
        if left_out {
            return Ok(false);
        }
        let copy = target.join(relative);
        match copy_entry(entry, &copy) {
            Ok(Some(mode)) => modes.push((copy, mode)),
            Ok(None) => {}
            // A temporary file of somebody's may vanish before we get to it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(at(&entry.path, &error)),
        }
        Ok(true)
    })?;
    for (directory, mode) in modes.into_iter().rev() {
        fs::set_permissions(&directory, mode).map_err(|error| at(&directory, &error))?;
    }
    Ok(())
}

/// Copies one entry; gives the mode that a directory is to have in the end.
fn copy_entry(entry: &Entry, copy: &Path) -> io::Result<Option<Permissions>> {
    match entry.kind {
        Kind::Directory => {
            let mode = fs::symlink_metadata(&entry.path)?.permissions();
            DirBuilder::new().mode(0o700).create(copy)?;
            return Ok(Some(mode));
        }
        Kind::Link => symlink(fs::read_link(&entry.path)?, copy)?,
        Kind::File => copy_file(&entry.path, copy)?,
        Kind::Special => {}
    }
    Ok(None)
}

/// Content, mode and time of change: build tools compare the last.
fn copy_file(source: &Path, copy: &Path) -> io::Result<()> {
    let mut from = open_file(source)?;
    let metadata = from.metadata()?;
    let mut to = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(copy)?;
    io::copy(&mut from, &mut to)?;
    // Neither set-user-id nor set-group-id in a copy.
    to.set_permissions(Permissions::from_mode(
        metadata.permissions().mode() & 0o777,
    ))?;
    if let Ok(modified) = metadata.modified() {
        to.set_times(FileTimes::new().set_modified(modified))?;
    }
    Ok(())
}

/// Gives the owner of a tree back what its modes have taken: to enter directories, and to read files.
pub(super) fn reopen(root: &Path) {
    const DIRECTORY: u32 = 0o700;
    const FILE: u32 = 0o400;
    let open = |path: &Path, least: u32| {
        if let Ok(found) = path.symlink_metadata()
            && !found.is_symlink()
            && found.permissions().mode() & least != least
        {
            let mode = (found.permissions().mode() & 0o7777) | least;
            let _ = fs::set_permissions(path, Permissions::from_mode(mode));
        }
    };
    open(root, DIRECTORY);
    let _ = walk(root, |entry| {
        match entry.kind {
            Kind::Directory => open(&entry.path, DIRECTORY),
            Kind::File => open(&entry.path, FILE),
            _ => {}
        }
        Ok(true)
    });
}

/// Removes a tree, directories without write permission too.
///
/// # Errors
/// Something could not be removed; the error names the root.
pub fn remove_tree(root: &Path) -> io::Result<()> {
    if fs::remove_dir_all(root).is_ok() {
        return Ok(());
    }
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o700));
    let _ = open(root);
    let _ = walk(root, |entry| {
        if entry.kind == Kind::Directory {
            let _ = open(&entry.path);
        }
        Ok(true)
    });
    fs::remove_dir_all(root).map_err(|error| at(root, &error))
}
