//! A copy of what the agent left, in which chosen files are as they were before it came: where its work is tried with
//! tests that it cannot have edited.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::walk::{Kind, walk};
use super::{Base, Original, Workspace, at, copy, remove_tree};

/// A staged copy. Removed when dropped.
#[derive(Debug)]
pub struct Staged {
    root: PathBuf,
    restored: usize,
}

impl Staged {
    /// The physical root of the copy.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// How many files are as they were before the agent came.
    #[must_use]
    pub fn restored(&self) -> usize {
        self.restored
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What is left here is removed with the attempt's scratch directory.
        let _ = remove_tree(&self.root);
    }
}

impl Workspace {
    /// Copies the workspace to `target`, which must not exist, and puts every file whose relative path is `taken` back to
    /// what it was at `prepare`: changed ones are restored, deleted ones are there again, new ones are gone. What git
    /// ignored at the start is not copied.
    ///
    /// # Errors
    /// Something could not be read or written, or a file was too large to be kept; the error names the path.
    pub fn stage(&self, target: &Path, taken: &dyn Fn(&Path) -> bool) -> io::Result<Staged> {
        copy::copy_tree(&self.root, target, &self.ignored, &self.excluded)?;
        let root = target.canonicalize().map_err(|error| at(target, &error))?;
        let mut staged = Staged { root, restored: 0 };
        remove(&staged.root, taken)?;
        for path in self.base.paths().filter(|path| taken(path)) {
            put_back(&self.base, path, &staged.root)?;
            staged.restored += 1;
        }
        Ok(staged)
    }
}

/// Removes what the agent left under the chosen names.
fn remove(root: &Path, taken: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    walk(root, |entry| {
        let Ok(relative) = entry.path.strip_prefix(root) else {
            return Ok(false);
        };
        if entry.is_git() && relative.components().count() == 1 {
            return Ok(false);
        }
        if !matches!(entry.kind, Kind::Directory | Kind::Sealed) && taken(relative) {
            fs::remove_file(&entry.path).map_err(|error| at(&entry.path, &error))?;
        }
        Ok(true)
    })
}

/// Writes one file of the base. Whatever the agent put in its way goes: a link for a directory would lead out of the copy.
fn put_back(base: &Base, path: &Path, root: &Path) -> io::Result<()> {
    let mut place = root.to_path_buf();
    for part in path.parent().into_iter().flat_map(Path::components) {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => fs::remove_file(&place).map_err(|error| at(&place, &error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&place, &error)),
        }
        fs::create_dir(&place).map_err(|error| at(&place, &error))?;
    }
    let place = root.join(path);
    match fs::symlink_metadata(&place) {
        Ok(found) if found.is_dir() => remove_tree(&place)?,
        Ok(_) => fs::remove_file(&place).map_err(|error| at(&place, &error))?,
        Err(_) => {}
    }
    let written = match base.get(path) {
        Some(Original::File { executable, .. }) => write(&place, &base.read(path)?, executable),
        Some(Original::Link(target)) => symlink(target, &place),
        Some(Original::Other) | None => Err(io::Error::other(
            "it was neither a file nor a link when the attempt began",
        )),
    };
    written.map_err(|error| at(path, &error))
}

fn write(place: &Path, contents: &[u8], executable: bool) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(place)?;
    file.write_all(contents)?;
    file.set_permissions(Permissions::from_mode(if executable {
        0o755
    } else {
        0o644
    }))
}

#[cfg(test)]
mod tests {
    use super::super::Isolation;
    use super::*;

    #[test]
    fn chosen_files_are_as_they_were_and_the_rest_is_the_agents() {
        let project = tempfile::tempdir().unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = project.path();
        fs::create_dir_all(root.join("tests/deep")).unwrap();
        fs::write(root.join("tests/a.sh"), "original").unwrap();
        fs::set_permissions(root.join("tests/a.sh"), Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("tests/deep/b"), "b").unwrap();
        fs::write(root.join("code"), "old").unwrap();
        symlink("a.sh", root.join("tests/link")).unwrap();
        let workspace = Workspace::prepare(root, Isolation::None, scratch.path()).unwrap();

        fs::write(root.join("code"), "new").unwrap();
        fs::write(root.join("tests/a.sh"), "edited").unwrap();
        fs::write(root.join("tests/planted.conf"), "p").unwrap();
        fs::remove_file(root.join("tests/link")).unwrap();
        fs::remove_dir_all(root.join("tests/deep")).unwrap();
        symlink(outside.path(), root.join("tests/deep")).unwrap();

        let taken = |path: &Path| path.starts_with("tests");
        let staged = workspace
            .stage(&scratch.path().join("copy"), &taken)
            .unwrap();
        let at = |path: &str| staged.root().join(path);
        assert_eq!(staged.restored(), 3);
        assert_eq!(fs::read_to_string(at("code")).unwrap(), "new");
        assert_eq!(fs::read_to_string(at("tests/a.sh")).unwrap(), "original");
        assert_ne!(
            fs::metadata(at("tests/a.sh")).unwrap().permissions().mode() & 0o100,
            0
        );
        assert_eq!(fs::read_to_string(at("tests/deep/b")).unwrap(), "b");
        assert_eq!(fs::read_link(at("tests/link")).unwrap(), Path::new("a.sh"));
        assert!(!at("tests/planted.conf").exists());
        assert_eq!(
            outside.path().read_dir().unwrap().count(),
            0,
            "written through a link"
        );
        // The agent's own tree is as it left it.
        assert_eq!(
            fs::read_to_string(root.join("tests/a.sh")).unwrap(),
            "edited"
        );
        let gone = staged.root().to_path_buf();
        drop(staged);
        assert!(!gone.exists());
    }
}
