//! The directory that a task works on: prepared before, compared after, and the one door to its files.
//!
//! [`resolve`] finds out what a path means, for the gate to decide on. [`open_file`], [`read_file`] and
//! [`replace_file`] then open exactly the physical path that was decided on and follow no link on the way, so that
//! swapping a directory between decision and use gains nothing.

mod base;
mod control;
mod copy;
mod git;
mod ignored;
mod open;
mod patch;
mod remove;
mod repository;
mod resolve;
mod snapshot;
mod stage;
mod walk;
mod worktree;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::control::Control;
use self::git::Format;
use self::ignored::Ignored;
use self::patch::{Examined, Examiner};
use self::repository::Repository;
use crate::event::{Change, ChangeKind, Concern, PatchRecord};
use crate::redact::Redactor;

pub use self::base::{Base, Original};
pub use self::git::Git;
pub use self::open::{open_file, read_file, replace_file};
pub use self::remove::remove_tree;
pub use self::resolve::{resolve, resolve_all, resolve_in};
pub use self::snapshot::Snapshot;
pub use self::stage::Staged;
pub use self::worktree::Checkout;

/// The usual name of the run directory; never part of what a task changed.
const RUN_DIRECTORY: &str = "agent-batch-results";

/// What an agent may meet in a workspace from a partial clone.
const PARTIAL: &str = "the repository is a partial clone: git has no older contents here, and nothing is fetched for it";

/// How an attempt's workspace is kept apart from others.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// The directory itself; tasks that share it run one after the other.
    #[default]
    None,
    /// A copy, thrown away afterwards.
    Copy,
    /// A work tree of a commit, thrown away afterwards. The repository that it comes from is only read.
    Worktree,
}

impl Isolation {
    /// The name in task files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Copy => "copy",
            Self::Worktree => "worktree",
        }
    }
}

/// A task's directory, ready to work in.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    /// Physical paths that do not belong to it: run directory, scratch.
    excluded: Vec<PathBuf>,
    /// The ignore files as they were at the start: an agent cannot hide a change by writing one.
    ignored: Ignored,
    base: Arc<Base>,
    /// Where it stands in its repository; empty at the top, and without one.
    prefix: PathBuf,
    format: Format,
    scratch: PathBuf,
    /// A time before anything could change in it, by the file system's clock.
    began: (i64, i64),
    /// What is removed at the end, if anything.
    temporary: Option<PathBuf>,
    checkout: Option<Checkout>,
    notes: Vec<String>,
    control: Control,
}

/// What a workspace is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The directory that the task names.
    pub source: &'a Path,
    /// How it is kept apart.
    pub isolation: Isolation,
    /// With [`Isolation::Worktree`]: the commit, as git understands it; `HEAD` where the task names none.
    pub reference: &'a str,
    /// With [`Isolation::Copy`]: whether what git ignores is copied too.
    pub include_ignored: bool,
    /// The attempt's own directory: copies and worktrees are made in it.
    pub scratch: &'a Path,
    /// Directories in the source that do not belong to it, such as a run directory with a name of its own. They are
    /// neither copied nor compared.
    pub excluded: &'a [PathBuf],
}

impl Setup<'_> {
    /// Makes the worktree, if there is to be one.
    ///
    /// # Errors
    /// The source lies in no repository with a work tree, the commit does not exist, or git failed. The error says what to do.
    pub async fn check_out(&self, git: &Git) -> io::Result<Option<Checkout>> {
        if self.isolation != Isolation::Worktree {
            return Ok(None);
        }
        let source = physical_directory(self.source)?;
        let target = self.scratch.join("workspace");
        let checkout = worktree::check_out(git, &source, self.reference, &target);
        checkout.await.map(Some)
    }

    /// Finds out, without making anything, whether a worktree could be made.
    ///
    /// # Errors
    /// As [`Setup::check_out`].
    pub async fn verify(&self, git: &Git) -> io::Result<()> {
        if self.isolation != Isolation::Worktree {
            return Ok(());
        }
        let source = physical_directory(self.source)?;
        worktree::verify(git, &source, self.reference).await
    }
}

/// What became of a workspace.
#[derive(Debug)]
pub struct Comparison {
    changes: Vec<Change>,
    concerns: Vec<Concern>,
    examined: Examined,
    prefix: PathBuf,
    format: Format,
    place: PathBuf,
}

impl Comparison {
    /// What is different, sorted by path.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What of that a person should look at.
    #[must_use]
    pub fn concerns(&self) -> &[Concern] {
        &self.concerns
    }

    /// Writes the changes to `file` as a patch for the root of the repository that the workspace stands in. What cannot
    /// go into it is told, in the record and at the top of the file. Where there is nothing to write, there is no file.
    ///
    /// # Errors
    /// Git failed, or the file could not be written.
    pub async fn write_patch(self, git: &Git, file: &Path) -> io::Result<PatchRecord> {
        self.examined
            .write(git, &self.place, self.format, &self.prefix, file)
            .await
    }
}

impl Workspace {
    /// Prepares the workspace: [`Workspace::new`] with nothing special.
    ///
    /// # Errors
    /// As [`Workspace::new`].
    pub fn prepare(source: &Path, isolation: Isolation, scratch: &Path) -> io::Result<Self> {
        let setup = Setup {
            source,
            isolation,
            reference: "HEAD",
            include_ignored: false,
            scratch,
            excluded: &[],
        };
        Self::new(&setup, None)
    }

    /// Prepares the workspace; a worktree was made before, by [`Setup::check_out`]. A copy is made here. `.git` is copied
    /// if it is a directory: where it is a file (a worktree, a submodule), a copy would write to the original
    /// repository, so it is left out.
    ///
    /// # Errors
    /// The source is no directory, or something could not be read or copied; the error names the path.
    pub fn new(setup: &Setup<'_>, checkout: Option<Checkout>) -> io::Result<Self> {
        let source = physical_directory(setup.source)?;
        let scratch = setup.scratch;
        fs::create_dir_all(scratch).map_err(|error| at(scratch, &error))?;
        let repository = Repository::around(&source);
        let (prefix, format) = repository.map_or_else(Default::default, |repository| {
            let prefix = repository.prefix(&source).to_path_buf();
            (prefix, repository.format)
        });
        let excluded: Vec<PathBuf> = setup
            .excluded
            .iter()
            .map(PathBuf::as_path)
            .chain([scratch, &source.join(RUN_DIRECTORY)])
            .map(physical)
            .filter(|path| *path != source)
            .collect();
        let mut notes = Vec::new();
        let (root, temporary) = match setup.isolation {
            Isolation::None => (source, None),
            Isolation::Copy => {
                let ignored = if setup.include_ignored {
                    Ignored::default()
                } else {
                    Ignored::read(&source, &excluded)?
                };
                let target = scratch.join("workspace");
                notes = copy::copy_tree(&source, &target, &ignored, &excluded)?;
                if Repository::around(&source).is_some_and(|found| found.is_partial()) {
                    notes.push(PARTIAL.to_owned());
                }
                let root = target.canonicalize().map_err(|error| at(&target, &error))?;
                (root.clone(), Some(root))
            }
            Isolation::Worktree => match &checkout {
                Some(checkout) => {
                    notes.clone_from(&checkout.notes);
                    (checkout.root.clone(), Some(checkout.top.clone()))
                }
                None => return Err(io::Error::other("the worktree was not made")),
            },
        };
        let excluded = match setup.isolation {
            Isolation::None => excluded,
            Isolation::Copy | Isolation::Worktree => vec![root.join(RUN_DIRECTORY)],
        };
        let ignored = Ignored::read(&root, &excluded)?;
        fs::create_dir_all(scratch).map_err(|error| at(scratch, &error))?;
        let made = scratch.metadata().map_err(|error| at(scratch, &error))?;
        let control = Control::around(&root);
        let base = Base::take(&root, &ignored, &excluded, scratch)?;
        Ok(Self {
            root,
            excluded,
            ignored,
            base: Arc::new(base),
            prefix,
            format,
            scratch: scratch.to_path_buf(),
            began: (made.ctime(), made.ctime_nsec()),
            temporary,
            checkout,
            notes,
            control,
        })
    }

    /// What a reader should know of it: what is not in it, what was skipped.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The commit that it holds, if it is a worktree.
    #[must_use]
    pub fn commit(&self) -> Option<&str> {
        self.checkout
            .as_ref()
            .map(|checkout| checkout.commit.as_str())
    }

    /// Directories outside of it that git has to read in it: the objects that a worktree borrows.
    #[must_use]
    pub fn borrowed(&self) -> &[PathBuf] {
        self.checkout
            .as_ref()
            .map_or(&[], |checkout| &checkout.objects)
    }

    /// The physical root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is different from the state at `prepare`, sorted by path: contents, kinds, link targets and the
    /// executable bit. `.git`, the run directory and what git ignored at the start do not count.
    ///
    /// # Errors
    /// Something could not be read; the error names the path.
    pub fn changes(&self) -> io::Result<Vec<Change>> {
        Ok(told(&self.changed()?))
    }

    fn changed(&self) -> io::Result<Vec<(PathBuf, ChangeKind)>> {
        self.base.changes(&self.root, &self.ignored, &self.excluded)
    }

    /// [`Workspace::changes`] with what is to be known before a patch is made of them: what a person should look at, and what
    /// must not go into it. `protected` says which paths, relative to the root, no task may write.
    ///
    /// # Errors
    /// Something could not be read; the error names the path.
    pub fn compare(
        &self,
        protected: &dyn Fn(&Path) -> bool,
        redactor: &Redactor,
    ) -> io::Result<Comparison> {
        let changed = self.changed()?;
        let look = Examiner {
            root: &self.root,
            base: &self.base,
            protected,
            redactor,
        };
        let mut concerns = self.control.concerns();
        let examined = look.examine(&changed)?;
        concerns.extend_from_slice(examined.concerns());
        Ok(Comparison {
            changes: told(&changed),
            concerns,
            examined,
            prefix: self.prefix.clone(),
            format: self.format,
            place: self.scratch.join("patch"),
        })
    }

    /// The tree as it was at `prepare`, whatever happened to the workspace since. It can be kept longer than the
    /// workspace.
    #[must_use]
    pub fn base(&self) -> Arc<Base> {
        Arc::clone(&self.base)
    }

    /// Whether git ignored this path, or a directory that it lies in, at the start.
    #[must_use]
    pub fn is_ignored(&self, path: &Path) -> bool {
        self.ignored.covers(&self.root, path)
    }

    /// Lets its owner in again: an agent that closed its workspace, or something in it, must not stop what comes after it.
    /// In a directory that is no copy, what was closed before and has not changed since stays as it is.
    /// A copy or a worktree that was removed or replaced is there again, empty: that is a change like any other one.
    pub fn reopen(&self) {
        if self.temporary.is_some() {
            make_again(&self.root);
        }
        copy::reopen(&self.root, |found| {
            self.temporary.is_some() || (found.ctime(), found.ctime_nsec()) >= self.began
        });
    }

    /// Removes the copy or the worktree; a workspace that is the directory itself stays.
    ///
    /// # Errors
    /// Something could not be removed; the error names it.
    pub fn remove(self) -> io::Result<()> {
        self.temporary.map_or(Ok(()), |path| remove_tree(&path))
    }
}

fn physical_directory(path: &Path) -> io::Result<PathBuf> {
    let directory = path.canonicalize().map_err(|error| at(path, &error))?;
    if directory.is_dir() {
        return Ok(directory);
    }
    Err(io::Error::new(
        io::ErrorKind::NotADirectory,
        format!("the workspace `{}` is not a directory", path.display()),
    ))
}

/// Makes a directory again whose place is empty, or taken by something else. Where even its parent is another one now,
/// nothing is made: that would be somewhere else.
fn make_again(root: &Path) {
    let is_directory = fs::symlink_metadata(root).is_ok_and(|found| found.is_dir());
    let parent = root.parent().filter(|_| !is_directory);
    if parent.is_some_and(|parent| parent.canonicalize().is_ok_and(|found| found == parent)) {
        let _ = remove_tree(root);
        let _ = fs::create_dir(root);
    }
}

fn told(changed: &[(PathBuf, ChangeKind)]) -> Vec<Change> {
    let told = changed.iter().map(|(path, kind)| Change {
        path: path.to_string_lossy().into_owned(),
        kind: *kind,
    });
    told.collect()
}

/// Without links, also where it does not exist yet: it may come to be.
fn physical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let facts = absolute
        .to_str()
        .and_then(|path| resolve(Path::new("/"), path));
    facts.map_or(absolute, |facts| facts.physical)
}

/// The error with the path in it.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::event::ChangeKind;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn changes(workspace: &Workspace) -> Vec<(String, ChangeKind)> {
        let changes = workspace.changes().unwrap();
        changes
            .into_iter()
            .map(|change| (change.path, change.kind))
            .collect()
    }

    fn project() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        write(&root.join(".gitignore"), "/target/\n*.log\n!keep.log\n");
        write(&root.join(".git/HEAD"), "ref: refs/heads/main\n");
        write(&root.join(".git/info/exclude"), "private.txt\n");
        write(&root.join(".hidden"), "h");
        write(&root.join("private.txt"), "p");
        write(&root.join("src/lib.rs"), "one");
        write(&root.join("src/noise.log"), "n");
        write(&root.join("src/keep.log"), "k");
        write(&root.join("target/debug/out"), "o");
        write(&root.join("run.sh"), "#!/bin/sh\n");
        fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("/etc/hostname", root.join("link")).unwrap();
        symlink("src", root.join("folder-link")).unwrap();
        directory
    }

    #[test]
    fn changes_are_told_by_content_kind_and_mode() {
        let project = project();
        let root = project.path();
        let workspace = Workspace::prepare(root, Isolation::None, &root.join("scratch")).unwrap();
        assert_eq!(changes(&workspace), []);

        write(&root.join("src/lib.rs"), "two");
        write(&root.join("src/new/deep.rs"), "n");
        fs::remove_file(root.join(".hidden")).unwrap();
        fs::set_permissions(root.join("run.sh"), fs::Permissions::from_mode(0o640)).unwrap();
        fs::remove_file(root.join("link")).unwrap();
        symlink("/etc/passwd", root.join("link")).unwrap();
        // None of these count.
        write(&root.join("target/debug/more"), "m");
        write(&root.join("other.log"), "l");
        write(&root.join(".git/index"), "i");
        write(&root.join("agent-batch-results/run.json"), "{}");
        write(&root.join("scratch/x"), "x");
        assert_eq!(
            changes(&workspace),
            [
                (".hidden".to_owned(), ChangeKind::Deleted),
                ("link".to_owned(), ChangeKind::Modified),
                ("run.sh".to_owned(), ChangeKind::Modified),
                ("src/lib.rs".to_owned(), ChangeKind::Modified),
                ("src/new/deep.rs".to_owned(), ChangeKind::Added),
            ]
        );
    }

    #[test]
    fn no_ignore_file_and_no_repository_of_the_agent_hides_anything() {
        let project = project();
        let root = project.path();
        let workspace = Workspace::prepare(root, Isolation::None, &root.join("scratch")).unwrap();
        write(&root.join(".gitignore"), "*\n");
        write(&root.join("src/.gitignore"), "*\n");
        write(&root.join("src/evil.rs"), "e");
        write(&root.join("src/.git/evil.rs"), "e");
        assert_eq!(
            changes(&workspace),
            [
                (".gitignore".to_owned(), ChangeKind::Modified),
                ("src/.git".to_owned(), ChangeKind::Added),
                ("src/.gitignore".to_owned(), ChangeKind::Added),
                ("src/evil.rs".to_owned(), ChangeKind::Added),
            ]
        );
    }

    #[test]
    fn a_copy_holds_what_git_sees_and_the_repository() {
        let project = project();
        let scratch = project.path().join("agent-batch-results/task/scratch");
        fs::create_dir_all(&scratch).unwrap();
        let workspace = Workspace::prepare(project.path(), Isolation::Copy, &scratch).unwrap();
        let root = workspace.root().to_path_buf();
        for there in [
            ".git/HEAD",
            ".hidden",
            "src/lib.rs",
            "src/keep.log",
            ".gitignore",
        ] {
            assert!(root.join(there).is_file(), "{there}");
        }
        for absent in [
            "target",
            "src/noise.log",
            "private.txt",
            "agent-batch-results",
        ] {
            assert!(!root.join(absent).exists(), "{absent}");
        }
        assert_eq!(
            fs::read_link(root.join("link")).unwrap(),
            Path::new("/etc/hostname")
        );
        assert_eq!(
            fs::read_link(root.join("folder-link")).unwrap(),
            Path::new("src")
        );
        let mode = fs::metadata(root.join("run.sh"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o750);

        write(&root.join("src/lib.rs"), "two");
        assert_eq!(
            changes(&workspace),
            [("src/lib.rs".to_owned(), ChangeKind::Modified)]
        );
        assert_eq!(
            fs::read_to_string(project.path().join("src/lib.rs")).unwrap(),
            "one"
        );
        workspace.remove().unwrap();
        assert!(!root.exists());
        assert!(project.path().join("src/lib.rs").exists());
    }

    #[test]
    fn a_copy_with_closed_directories_can_be_removed() {
        let project = project();
        let scratch = tempfile::tempdir().unwrap();
        let workspace =
            Workspace::prepare(project.path(), Isolation::Copy, scratch.path()).unwrap();
        let root = workspace.root().to_path_buf();
        fs::set_permissions(root.join("src"), fs::Permissions::from_mode(0o500)).unwrap();
        workspace.remove().unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn the_rules_of_the_repository_above_hold_in_a_folder_of_it() {
        let project = project();
        let root = project.path().join("src");
        let workspace =
            Workspace::prepare(&root, Isolation::None, &project.path().join("scratch")).unwrap();
        write(&root.join("later.log"), "l");
        write(&root.join("later.rs"), "r");
        assert_eq!(
            changes(&workspace),
            [("later.rs".to_owned(), ChangeKind::Added)]
        );
    }

    #[test]
    fn the_git_file_of_a_worktree_is_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        write(&source.join(".git"), "gitdir: /somewhere/else\n");
        write(&source.join("a"), "a");
        let scratch = directory.path().join("scratch");
        let workspace = Workspace::prepare(&source, Isolation::Copy, &scratch).unwrap();
        assert!(!workspace.root().join(".git").exists());
        assert!(workspace.root().join("a").exists());
    }

    #[test]
    fn a_source_that_is_no_directory_is_named() {
        let error = Workspace::prepare(Path::new("/nowhere/x"), Isolation::None, Path::new("/tmp"))
            .unwrap_err();
        assert!(error.to_string().contains("`/nowhere/x`"), "{error}");
    }
}
