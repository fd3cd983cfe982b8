//! The end of a tree that a task may have made as it liked.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::at;

/// Removes a directory with everything in it, through no link. Directories without permissions, and trees deeper than
/// paths can be long, are no obstacle. What cannot be removed does not keep the rest from going. What is mounted in the tree
/// stays as it is: it is somebody else's, and the tree's directories above it stay too.
///
/// # Errors
/// Something could not be removed; the error names the first such path as it was met.
pub fn remove_tree(root: &Path) -> io::Result<()> {
    match fs::symlink_metadata(root) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return fs::remove_file(root).map_err(|error| at(root, &error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(root, &error)),
    }
    // Every directory is moved up before it is looked into: no path becomes long, nothing is held open on the way, and the
    // depth costs no stack, as it would in the standard library. And no mount is entered: it cannot be moved.
    let mut first = None;
    let mut moved = 0_u64;
    let mut open = vec![root.to_path_buf()];
    let mut directories = Vec::new();
    while let Some(directory) = open.pop() {
        // This is a directory of ours that no process of the task is left to swap: its kind was just seen.
        let _ = fs::set_permissions(&directory, Permissions::from_mode(0o700));
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                first.get_or_insert(at(&directory, &error));
                continue;
            }
        };
        // A directory that is moved within the one that is being read could be met twice.
        let mut inner = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                inner.push(path);
            } else if let Err(error) = fs::remove_file(&path) {
                first.get_or_insert(at(&path, &error));
            }
        }
        for path in inner {
            match lift(root, &path, &mut moved) {
                Ok(lifted) => open.push(lifted),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        directories.push(directory);
    }
    for directory in directories.into_iter().rev() {
        if let Err(error) = fs::remove_dir(&directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            first.get_or_insert(at(&directory, &error));
        }
    }
    first.map_or(Ok(()), Err)
}

/// Moves a directory to the top under a free name. Where that fails it is taken where it stands, unless that is because
/// something is mounted there.
fn lift(root: &Path, path: &Path, moved: &mut u64) -> io::Result<PathBuf> {
    let free = loop {
        *moved += 1;
        let name = root.join(format!(".removed-{moved}"));
        if name.symlink_metadata().is_err() {
            break name;
        }
    };
    let mut renamed = fs::rename(path, &free);
    if let Err(error) = &renamed
        && error.kind() == io::ErrorKind::PermissionDenied
    {
        // A directory that is moved has to be writable itself.
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        renamed = fs::rename(path, &free);
    }
    match renamed {
        Ok(()) => Ok(free),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let message = "something is mounted here; unmount it, and remove the directory";
            Err(at(path, &io::Error::new(error.kind(), message)))
        }
        Err(_) => Ok(path.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::walk::make_deep;
    use super::*;

    #[test]
    fn closed_directories_and_links_are_removed_and_what_links_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "k").unwrap();
        fs::write(root.join("a/b/c/file"), "f").unwrap();
        symlink(&outside, root.join("a/b/link")).unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(root.join(closed), Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&root).unwrap();
        assert!(!root.exists());
        assert!(outside.join("kept").exists());
    }

    #[test]
    fn a_tree_deeper_than_a_path_can_be_long_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        fs::create_dir(&root).unwrap();
        make_deep(&root, &"d".repeat(200), 1500);
        remove_tree(&root).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn what_is_not_there_is_removed() {
        remove_tree(Path::new("/nowhere/at/all")).unwrap();
    }
}
