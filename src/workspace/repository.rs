//! The repository that a workspace lies in: found by looking, without asking git.

use std::fs;
use std::path::{Path, PathBuf};

use super::git::Format;
use crate::sandbox::work_tree;

/// Most bytes of a repository's configuration that are looked at.
const CONFIG_LIMIT: u64 = 1024 * 1024;

/// Most files of packs that are looked at.
const PACKS: usize = 100_000;

/// A repository with a work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    /// The top of the work tree.
    pub(super) top: PathBuf,
    /// The work tree's own directory in the repository: `HEAD`, `index`.
    pub(super) own: PathBuf,
    /// What all work trees share: `objects`, `refs`, `config`.
    pub(super) common: PathBuf,
    pub(super) format: Format,
}

impl Repository {
    /// The repository around a directory, the nearest one; `None` if there is none.
    pub(super) fn around(directory: &Path) -> Option<Self> {
        directory.ancestors().find_map(Self::at)
    }

    fn at(top: &Path) -> Option<Self> {
        let git = top.join(".git");
        let (own, common) = if git.is_dir() {
            let git = git.canonicalize().ok()?;
            is_repository(&git).then(|| (git.clone(), git.clone()))?
        } else {
            work_tree(&git).ok()?
        };
        Some(Self {
            top: top.to_path_buf(),
            format: format(&common),
            own,
            common,
        })
    }

    /// Whether it was cloned without all objects (`--filter`) and expects to fetch what it lacks.
    pub(super) fn is_partial(&self) -> bool {
        let packs = fs::read_dir(self.common.join("objects/pack"));
        let mut packs = packs.into_iter().flatten().flatten().take(PACKS);
        packs.any(|entry| Path::new(&entry.file_name()).extension() == Some("promisor".as_ref()))
    }

    /// Where a directory stands in the work tree.
    pub(super) fn prefix<'p>(&self, directory: &'p Path) -> &'p Path {
        directory.strip_prefix(&self.top).unwrap_or(Path::new(""))
    }
}

/// Whether a directory holds a repository without a work tree.
pub(super) fn is_repository(directory: &Path) -> bool {
    directory.join("HEAD").symlink_metadata().is_ok()
        && directory.join("objects").is_dir()
        && directory.join("refs").is_dir()
}

fn format(common: &Path) -> Format {
    let config = common.join("config");
    let small =
        fs::metadata(&config).is_ok_and(|found| found.is_file() && found.len() <= CONFIG_LIMIT);
    if !small {
        return Format::Sha1;
    }
    let text = fs::read(&config).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).to_ascii_lowercase();
    let mut named = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("objectformat"));
    match named
        .next_back()
        .map(|value| value.trim_matches([' ', '\t', '=', '"']))
    {
        Some("sha256") => Format::Sha256,
        _ => Format::Sha1,
    }
}
