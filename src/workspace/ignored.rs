//! What git ignores, as the ignore files said it when the workspace was prepared.
//!
//! The files are read once. Later rules, of the agent's making, do not count, so the only change that stays unseen is
//! one in a place that was ignored before the agent came.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::at;
use super::walk::{Entry, Kind, is_sealed, walk};

/// Most bytes of an ignore file that are read.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Ignore rules by the directory that they stand in.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    rules: BTreeMap<PathBuf, Gitignore>,
    /// Of the repository, weakest of all (`.git/info/exclude`).
    exclude: Option<Gitignore>,
}

impl Ignored {
    /// Reads the ignore files of a tree and those above it up to the repository's root.
    pub(super) fn read(root: &Path, excluded: &[PathBuf]) -> io::Result<Self> {
        let mut ignored = Self::default();
        for directory in root.ancestors() {
            let git = directory.join(".git");
            if git.exists() {
                ignored.exclude = parse(directory, &git.join("info/exclude"))?;
                for above in root.ancestors().skip(1) {
                    if !above.starts_with(directory) {
                        break;
                    }
                    ignored.add(above)?;
                }
                break;
            }
        }
        ignored.add(root)?;
        // Rules apply as they are found: a directory is met before what is in it.
        walk(root, |entry| {
            if entry.is_git() || excluded.contains(&entry.path) || ignored.is_ignored(entry) {
                return Ok(false);
            }
            if entry.kind == Kind::Directory {
                ignored.add(&entry.path)?;
            }
            Ok(true)
        })?;
        Ok(ignored)
    }

    fn add(&mut self, directory: &Path) -> io::Result<()> {
        if let Some(rules) = parse(directory, &directory.join(".gitignore"))? {
            self.rules.insert(directory.to_path_buf(), rules);
        }
        Ok(())
    }

    /// Whether git ignores this entry, whose parents it does not.
    pub(super) fn is_ignored(&self, entry: &Entry) -> bool {
        let directory = matches!(entry.kind, Kind::Directory | Kind::Sealed);
        self.ignores(&entry.path, directory)
    }

    /// Whether git ignores a path below `root`, or a directory that it lies in.
    pub(super) fn covers(&self, root: &Path, path: &Path) -> bool {
        let inside = path
            .ancestors()
            .take_while(|part| *part != root && part.starts_with(root));
        let mut parts: Vec<&Path> = inside.collect();
        let Some(last) = parts.first().copied() else {
            return false;
        };
        parts.reverse();
        parts
            .iter()
            .any(|part| self.ignores(part, *part != last || last.is_dir()))
    }

    /// The nearest file that says something decides.
    fn ignores(&self, path: &Path, directory: bool) -> bool {
        let nearest_first = path
            .ancestors()
            .skip(1)
            .filter_map(|above| self.rules.get(above))
            .chain(&self.exclude);
        for rules in nearest_first {
            match rules.matched(path, directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// The rules of one file, if it is a regular file with any. Lines that make no sense are skipped, and so is a file that may
/// not be read, as git does.
fn parse(directory: &Path, file: &Path) -> io::Result<Option<Gitignore>> {
    let regular = fs::symlink_metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= FILE_LIMIT);
    if !regular {
        return Ok(None);
    }
    let text = match crate::file::read(file, FILE_LIMIT) {
        Ok(text) => text,
        Err(error) if is_sealed(&error) || error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(at(file, &error)),
    };
    let mut builder = GitignoreBuilder::new(directory);
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    Ok(builder.build().ok().filter(|rules| !rules.is_empty()))
}
