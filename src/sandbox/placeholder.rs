//! Something where a protected path has nothing: a mount needs a place, and what could be made later would be no longer
//! protected. The placeholders are there only while processes run, and are removed only if they are still what was made.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Missing, Protected};

/// The placeholders of a task, shared by all its processes.
#[derive(Debug, Default)]
pub struct Placeholders(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    users: usize,
    made: Vec<Made>,
}

#[derive(Debug)]
struct Made {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Keeps the placeholders as long as it lives.
#[derive(Debug)]
pub struct Held(Arc<Placeholders>);

impl Placeholders {
    /// Makes what is missing, unless another process has.
    #[must_use]
    pub fn hold(self: &Arc<Self>, protected: &[Protected]) -> Held {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.users == 0 {
            state.made = protected.iter().filter_map(Made::new).collect();
        }
        state.users += 1;
        Held(Arc::clone(self))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.users -= 1;
        if state.users == 0 {
            for made in std::mem::take(&mut state.made).iter().rev() {
                made.remove();
            }
        }
    }
}

impl Made {
    /// Makes a placeholder; `None` where something is already, or nothing can be made.
    fn new(protected: &Protected) -> Option<Self> {
        let path = &protected.path;
        match protected.missing {
            Missing::Leave => return None,
            Missing::Placeholder => fs::create_dir(path).ok()?,
        }
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self {
            path: path.clone(),
            device: found.dev(),
            inode: found.ino(),
        })
    }

    fn remove(&self) {
        let Ok(found) = fs::symlink_metadata(&self.path) else {
            return;
        };
        if (found.dev(), found.ino()) != (self.device, self.inode) {
            return;
        }
        // One that got content is somebody's, and stays.
        let _ = fs::remove_dir(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_live_as_long_as_the_last_process_and_never_replace_anything() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("kept"), "content").unwrap();
        let protected = [
            ("dir", Missing::Placeholder),
            ("kept", Missing::Placeholder),
            ("none", Missing::Leave),
        ]
        .map(|(name, missing)| Protected {
            path: at(name),
            missing,
        });
        let shared = Arc::new(Placeholders::default());
        let first = shared.hold(&protected);
        let second = shared.hold(&protected);
        assert!(at("dir").is_dir() && !at("none").exists());
        drop(first);
        assert!(at("dir").exists());
        drop(second);
        assert!(!at("dir").exists());
        assert_eq!(fs::read_to_string(at("kept")).unwrap(), "content");
    }

    #[test]
    fn what_got_content_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dir");
        let shared = Arc::new(Placeholders::default());
        let held = shared.hold(&[Protected {
            path: path.clone(),
            missing: Missing::Placeholder,
        }]);
        fs::write(path.join("file"), "x").unwrap();
        drop(held);
        assert!(path.exists());
    }
}
