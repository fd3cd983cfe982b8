//! Where the repository of a work tree is: what git reads, and what must not be written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The longest `.git` file or `commondir` that is believed.
const POINTER: u64 = 4096;

/// For the `.git` file of a work tree: its own directory and the one that it shares. A file that leads to something
/// that is no repository is not followed: the checkout may have written it.
///
/// # Errors
/// It is no such file, or does not lead to a repository.
pub fn work_tree(git: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let no = || io::Error::from(io::ErrorKind::InvalidData);
    let read = |path: &Path| -> io::Result<String> {
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(no());
        }
        crate::file::read_text(path, POINTER)
    };
    let text = read(git)?;
    let target = text.trim().strip_prefix("gitdir: ").ok_or_else(no)?;
    let directory = git.parent().ok_or_else(no)?.join(target).canonicalize()?;
    let common = match read(&directory.join("commondir")) {
        Ok(text) => directory.join(text.trim()).canonicalize()?,
        Err(_) => directory.clone(),
    };
    let is_repository = directory.join("HEAD").is_file()
        && common.join("objects").is_dir()
        && common.join("refs").is_dir()
        && directory.starts_with(&common);
    is_repository.then_some((directory, common)).ok_or_else(no)
}
