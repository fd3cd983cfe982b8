//! The directory that a task works on. (Interface; see the module's owner.)

use std::path::{Path, PathBuf};

use crate::event::Change;
use crate::policy::{Facts, PathFacts};

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
}

/// A task's directory, ready to work in.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Prepares the workspace. With [`Isolation::Copy`] the copy is made under `scratch`.
    pub fn prepare(source: &Path, _isolation: Isolation, _scratch: &Path) -> std::io::Result<Self> {
        Ok(Self {
            root: source.to_path_buf(),
        })
    }
    /// The physical root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// What is different from the state at `prepare`, sorted by path.
    pub fn changes(&self) -> std::io::Result<Vec<Change>> {
        Ok(Vec::new())
    }
    /// Removes the copy.
    pub fn remove(self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Resolves one path as the kernel would, without opening it. `path` is absolute or relative to `root`.
#[must_use]
pub fn resolve(_root: &Path, path: &str) -> Option<PathFacts> {
    let _ = path;
    None
}

/// Resolves all queries.
#[must_use]
pub fn resolve_all(root: &Path, queries: &[String]) -> Facts {
    queries
        .iter()
        .filter_map(|query| Some((query.clone(), resolve(root, query)?)))
        .collect()
}
