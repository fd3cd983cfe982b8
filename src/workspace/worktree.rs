//! A work tree of a commit, apart from the repository that it comes from.
//!
//! It is no `git worktree add`: that would write into the source's `.git` and stay in its list when the runner is killed.
//! The work tree has a small repository of its own, with its own `HEAD`, index and copies of the refs, and borrows the
//! source's objects (`objects/info/alternates`). So the source is only read, whatever happens to us; removing the
//! directory removes all of it; and the source's configuration, hooks and filters are never in force in it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::git::{Call, Git, create_repository, utf8};
use super::repository::{Repository, is_repository};
use super::{PARTIAL, at};
use crate::text;

/// Most bytes of a file of the source's repository that is copied.
const COPIED: u64 = 64 * 1024 * 1024;
/// How many object directories may borrow from one another.
const ALTERNATES: usize = 20;

/// A work tree that was just made.
#[derive(Debug)]
pub struct Checkout {
    /// Its top.
    pub(super) top: PathBuf,
    /// Where the source directory stands in it.
    pub(super) root: PathBuf,
    /// The commit that it holds.
    pub(super) commit: String,
    /// The object directories that it borrows from.
    pub(super) objects: Vec<PathBuf>,
    /// What a reader should know.
    pub(super) notes: Vec<String>,
}

/// The commit that a directory's repository has for `reference`, and the repository.
pub(super) async fn find(
    git: &Git,
    source: &Path,
    reference: &str,
) -> io::Result<(Repository, String)> {
    let shown = source.display();
    let Some(repository) = Repository::around(source) else {
        let message = if source.ancestors().any(is_repository) {
            format!("`{shown}` lies in a repository without a work tree; name a clone of it")
        } else {
            format!(
                "`isolation: worktree` needs a git repository, and `{shown}` lies in none; use `isolation: copy`"
            )
        };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    let commit = commit_of(git, &repository, reference).await;
    let commit = commit.map_err(|error| {
        let message = format!("the commit `{reference}` of the repository of `{shown}` could not be looked up: {error}");
        io::Error::new(error.kind(), message)
    })?;
    match commit {
        Some(commit) => Ok((repository, commit)),
        None if reference == "HEAD" => Err(io::Error::other(format!(
            "the repository of `{shown}` has no commit that `isolation: worktree` could begin with; commit something, or use `isolation: copy`"
        ))),
        None => Err(io::Error::other(format!(
            "the repository of `{shown}` has no commit `{reference}`; fetch it first (a shallow clone has few), or correct `workspace.ref`"
        ))),
    }
}

/// The object name of the commit that a repository has for a revision; `None` if it has none of that name.
///
/// # Errors
/// Git cannot read the repository.
pub(super) async fn commit_of(
    git: &Git,
    repository: &Repository,
    revision: &str,
) -> io::Result<Option<String>> {
    // Nothing that begins with a dash is a revision; git would take it for an option.
    if revision.is_empty() || revision.starts_with('-') {
        return Ok(None);
    }
    let name = format!("{revision}^{{commit}}");
    let arguments = ["rev-parse", "--verify", "--quiet", &name];
    let answer = git.ask(Call::new(&repository.own, &arguments)).await?;
    let commit = answer.map(|answer| answer.trim().to_owned());
    Ok(commit.filter(|commit| is_object_name(commit)))
}

/// Finds out, without making anything, whether a work tree of `reference` could be made.
pub(super) async fn verify(git: &Git, source: &Path, reference: &str) -> io::Result<()> {
    let (repository, commit) = find(git, source, reference).await?;
    // A sparse one needs only a part of its commit, and which part is found out when it is made.
    if !repository.is_partial() || settings(git, &repository).await.1 {
        return Ok(());
    }
    let arguments = ["rev-list", "--quiet", "--objects", "--max-count=1", &commit];
    let whole = git.call(Call::new(&repository.own, &arguments)).await;
    whole.map(drop).map_err(|error| {
        let message = format!(
            "the worktree of `{}` could not be made: {}: {error}",
            source.display(),
            lacking(&commit)
        );
        io::Error::new(error.kind(), message)
    })
}

fn lacking(commit: &str) -> String {
    format!(
        "the repository is a partial clone that lacks files of commit {}, and nothing is fetched: use a clone without `--filter`, \
         or check that commit out once before",
        short(commit)
    )
}

pub(super) fn is_object_name(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Makes a work tree of `reference` in `target`, which must not exist.
pub(super) async fn check_out(
    git: &Git,
    source: &Path,
    reference: &str,
    target: &Path,
) -> io::Result<Checkout> {
    let (repository, commit) = find(git, source, reference).await?;
    let own = target.join(".git");
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(target)
        .map_err(|error| at(target, &error))?;
    let objects = object_directories(&repository.common);
    let (config, is_sparse) = settings(git, &repository).await;
    create_repository(&own, repository.format, false, &config)?;
    let mut notes = Vec::new();
    borrow_from(&own, &repository)?;
    copy_state(&own, &repository, is_sparse)?;
    if let Err(error) = copy_refs(git, &own, &repository, reference, &commit).await {
        notes.push(format!("the worktree has no branches and tags: {error}"));
        write(&own.join("HEAD"), &format!("{commit}\n"))?;
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = format!("checkout.workers={workers}");
    let arguments = ["-c", &workers, "read-tree", "--reset", "-u", &commit];
    let mut call = Call::new(&own, &arguments);
    call.work_tree = Some(target);
    git.call(call).await.map_err(|error| {
        let message = format!(
            "the worktree of `{}` could not be made: {error}{}",
            source.display(),
            if repository.is_partial() {
                format!("; {}", lacking(&commit))
            } else {
                String::new()
            }
        );
        io::Error::new(error.kind(), message)
    })?;
    notes.extend(lacks(target));
    if repository.is_partial() {
        notes.push(PARTIAL.to_owned());
    }
    if reference == "HEAD" {
        notes.extend(uncommitted(git, &own, &repository, target, &commit).await);
    }
    let root = target.join(repository.prefix(source));
    let is_there = root.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_there {
        return Err(io::Error::other(format!(
            "commit {} has no directory `{}`",
            short(&commit),
            repository.prefix(source).display()
        )));
    }
    Ok(Checkout {
        top: target.canonicalize().map_err(|error| at(target, &error))?,
        root: root.canonicalize().map_err(|error| at(&root, &error))?,
        commit,
        objects,
        notes,
    })
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// What the work tree takes over of the source's configuration: how lines end, and whether only a part is checked out. All
/// else could name programs.
async fn settings(git: &Git, repository: &Repository) -> (String, bool) {
    let pattern = "^core\\.(autocrlf|eol|sparsecheckout|sparsecheckoutcone)$";
    let arguments = ["config", "--get-regexp", pattern];
    let answer = git.call(Call::new(&repository.own, &arguments)).await;
    let (mut config, mut is_sparse) = (String::from("[core]\n"), false);
    for line in answer.unwrap_or_default().lines() {
        if let Some((name, value)) = line.split_once(' ')
            && let Some(name) = name.strip_prefix("core.")
            && matches!(value, "true" | "false" | "input" | "lf" | "crlf" | "native")
        {
            is_sparse |= name == "sparsecheckout" && value == "true";
            config.push_str(&format!("\t{name} = {value}\n"));
        }
    }
    (config, is_sparse)
}

pub(super) fn borrow_from(own: &Path, repository: &Repository) -> io::Result<()> {
    let objects = repository.common.join("objects");
    let line = utf8(&objects)?;
    if line.contains('\n') {
        let message = "a path with a line break cannot be borrowed from";
        let error = io::Error::new(io::ErrorKind::InvalidInput, message);
        return Err(at(&objects, &error));
    }
    write(&own.join("objects/info/alternates"), &format!("{line}\n"))
}

/// The object directories that a repository reads: its own, and those that it borrows from in turn.
fn object_directories(common: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![common.join("objects")];
    while let Some(directory) = open.pop() {
        let Ok(directory) = directory.canonicalize() else {
            continue;
        };
        if found.len() >= ALTERNATES || !found.insert(directory.clone()) {
            continue;
        }
        let list = read_small(&directory.join("info/alternates")).unwrap_or_default();
        let list = String::from_utf8_lossy(&list).into_owned();
        let lines = list
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        open.extend(lines.map(|line| directory.join(line)));
    }
    found.into_iter().collect()
}

/// What is not committed and belongs to a clone all the same: where history was cut, what is ignored, which part is
/// checked out.
fn copy_state(own: &Path, repository: &Repository, is_sparse: bool) -> io::Result<()> {
    let mut files = vec![
        (repository.common.join("shallow"), "shallow"),
        (repository.common.join("info/exclude"), "info/exclude"),
    ];
    if is_sparse {
        files.push((
            repository.own.join("info/sparse-checkout"),
            "info/sparse-checkout",
        ));
    }
    for (from, to) in files {
        if let Some(bytes) = read_small(&from) {
            let to = own.join(to);
            fs::write(&to, bytes).map_err(|error| at(&to, &error))?;
        }
    }
    Ok(())
}

/// Copies branches, tags and remote branches, and the branch that the source is on.
async fn copy_refs(
    git: &Git,
    own: &Path,
    repository: &Repository,
    reference: &str,
    commit: &str,
) -> io::Result<()> {
    let arguments = [
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
    ];
    let refs = git.call(Call::new(&repository.own, &arguments)).await?;
    write(&own.join("packed-refs"), &refs)?;
    let head = read_small(&repository.own.join("HEAD")).unwrap_or_default();
    let head = String::from_utf8_lossy(&head).into_owned();
    let branch = head
        .trim()
        .strip_prefix("ref: ")
        .filter(|_| reference == "HEAD")
        .filter(|branch| {
            refs.lines()
                .any(|line| line == format!("{commit} {branch}"))
        });
    let head = branch.map_or_else(
        || format!("{commit}\n"),
        |branch| format!("ref: {branch}\n"),
    );
    write(&own.join("HEAD"), &head)
}

/// What a commit names and a work tree of ours does not hold.
fn lacks(top: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if top.join(".gitmodules").symlink_metadata().is_ok() {
        notes.push(
            "submodules are empty in a worktree; use `isolation: copy` where they are needed"
                .to_owned(),
        );
    }
    let attributes = read_small(&top.join(".gitattributes")).unwrap_or_default();
    if String::from_utf8_lossy(&attributes).contains("filter=") {
        notes.push(
            "filters of `.gitattributes` do not run in a worktree: what Git LFS keeps is a pointer there; use `isolation: copy` \
             where it is needed"
                .to_owned(),
        );
    }
    notes
}

/// What the source's work tree has that its commit does not. Asked with our repository's configuration and a copy of the
/// source's index, so that nothing of the source is run or written.
async fn uncommitted(
    git: &Git,
    own: &Path,
    repository: &Repository,
    target: &Path,
    commit: &str,
) -> Option<String> {
    let index = target.with_extension("source-index");
    fs::write(&index, read_small(&repository.own.join("index"))?).ok()?;
    let arguments = [
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ];
    let mut call = Call::new(own, &arguments);
    call.work_tree = Some(&repository.top);
    call.index = Some(&index);
    let answer = git.call(call).await;
    let _ = fs::remove_file(&index);
    let count = answer.ok()?.matches('\0').count();
    (count > 0).then(|| {
        format!(
            "the worktree holds commit {}, without {} of `{}` that {} not committed; commit first, or use `isolation: copy`",
            short(commit),
            text::plural(count as u64, "path"),
            repository.top.display(),
            if count == 1 { "is" } else { "are" }
        )
    })
}

/// A regular file that is not too large.
fn read_small(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.len() <= COPIED)
        .then(|| fs::read(path).ok())
        .flatten()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| at(path, &error))
}
