//! The files of a commit, as somebody agreed to them: for configuration that must not come from the checkout under test.
//!
//! They are written out by git itself (`read-tree`) with the pins of every call of ours, so no filter, hook or attribute of
//! the repository has a say. What cannot be trusted to stay in the commit is left out: a link that leads out of the files
//! would lead back into the checkout.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::git::{Call, Git, create_repository};
use super::repository::Repository;
use super::worktree::{borrow_from, commit_of};
use super::{at, remove_tree};

/// The files of a commit.
#[derive(Debug)]
pub struct Snapshot {
    /// Where they are: stands for the top of the repository.
    pub root: PathBuf,
    /// The top of the repository's work tree.
    pub top: PathBuf,
    /// The commit's object name.
    pub commit: String,
}

impl Snapshot {
    /// Writes the files that `revision` has in the repository around `directory` into `target`, which must not exist.
    ///
    /// # Errors
    /// There is no repository with a work tree, no such commit, or the files cannot be written.
    pub async fn write(
        git: &Git,
        directory: &Path,
        revision: &str,
        target: &Path,
    ) -> io::Result<Self> {
        let told = |kind, message: String| Err(io::Error::new(kind, message));
        let Some(repository) = Repository::around(directory) else {
            let message = format!("`{}` lies in no git repository", directory.display());
            return told(io::ErrorKind::NotFound, message);
        };
        let Some(commit) = commit_of(git, &repository, revision).await? else {
            let message = format!(
                "the repository of `{}` has no commit `{}`; fetch it first (`fetch-depth: 0`: a shallow clone has few)",
                directory.display(),
                revision.escape_debug()
            );
            return told(io::ErrorKind::NotFound, message);
        };
        let own = target.join(".git");
        DirBuilder::new()
            .mode(0o700)
            .create(target)
            .map_err(|error| at(target, &error))?;
        create_repository(&own, repository.format, false, "")?;
        borrow_from(&own, &repository)?;
        let arguments = ["read-tree", "--reset", "-u", &commit];
        let mut call = Call::new(&own, &arguments);
        call.work_tree = Some(target);
        git.call(call).await?;
        remove_tree(&own)?;
        let root = target.canonicalize().map_err(|error| at(target, &error))?;
        cut_links(&root)?;
        Ok(Self {
            root,
            top: repository.top,
            commit,
        })
    }
}

/// Removes every link that leads out of the files, or nowhere yet.
fn cut_links(root: &Path) -> io::Result<()> {
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| at(&directory, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| at(&directory, &error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| at(&path, &error))?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_symlink() && !leads_inside(&path, root) {
                fs::remove_file(&path).map_err(|error| at(&path, &error))?;
            }
        }
    }
    Ok(())
}

fn leads_inside(link: &Path, root: &Path) -> bool {
    link.canonicalize()
        .is_ok_and(|found| found.starts_with(root))
}
