//! What a task has read: nobody changes a file that they have not seen as it is now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// Hash of a file's whole content.
pub(super) type Hash = [u8; 32];

/// Files that the task has read or written, with the hash of what it saw.
#[derive(Debug, Default)]
pub struct Seen {
    files: Mutex<BTreeMap<PathBuf, Hash>>,
}

/// How what the task knows relates to what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// It has seen this very content.
    Current,
    /// It has seen another.
    Stale,
    /// It has not seen the file.
    None,
}

impl Seen {
    /// Remembers the content of a file, by its physical path.
    pub(super) fn remember(&self, physical: &Path, hash: Hash) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(physical.to_path_buf(), hash);
    }

    /// Whether the task knows a file with this content.
    pub(super) fn knowledge(&self, physical: &Path, hash: &Hash) -> Knowledge {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get(physical) {
            Some(seen) if seen == hash => Knowledge::Current,
            Some(_) => Knowledge::Stale,
            None => Knowledge::None,
        }
    }
}

pub(super) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}
