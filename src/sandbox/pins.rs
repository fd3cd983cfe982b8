//! What the supervisor outside saw at the paths that are mounted, compared inside with what is there: a mount that took
//! another way, or that is not there, ends the call before it begins.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Plan;

/// What has to be where inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins(Vec<Pin>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Pin {
    path: PathBuf,
    /// Device and inode outside.
    identity: (u64, u64),
    must: Must,
}

/// What is demanded of a path inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Must {
    Same,
    SameReadOnly,
    ReadOnly,
    Another,
}

impl Pins {
    /// What is at the plan's paths now.
    pub(super) fn of(plan: &Plan) -> Self {
        let written = |path: &Path| plan.writable.iter().any(|place| path.starts_with(place));
        let hidden = plan.hidden_and_visible();
        let protected = plan
            .protected
            .iter()
            .map(|known| (&known.path, Must::SameReadOnly))
            .filter(|(path, _)| !hidden.iter().any(|hidden| path.starts_with(hidden)));
        let writable = plan.writable.iter().map(|path| (path, Must::Same));
        let readable = plan
            .readable
            .iter()
            .filter(|path| !written(path))
            .map(|path| (path, Must::ReadOnly));
        let all = protected
            .chain(hidden.iter().map(|path| (path, Must::Another)))
            .chain(writable)
            .chain(readable);
        let pin = |(path, must): (&PathBuf, Must)| {
            let found = path.symlink_metadata().ok()?;
            (!found.is_symlink()).then(|| Pin {
                path: path.clone(),
                identity: identity(&found),
                must,
            })
        };
        Self(all.filter_map(pin).collect())
    }

    /// Looks, inside.
    ///
    /// # Errors
    /// A path is not what it must be; nothing must be started then.
    pub fn verify(&self) -> io::Result<()> {
        for pin in &self.0 {
            let wrong = pin.wrong().unwrap_or_else(|error| Some(error.to_string()));
            if let Some(wrong) = wrong {
                let path = pin.path.display();
                return Err(io::Error::other(format!(
                    "`{path}` is not mounted as it must be: {wrong}"
                )));
            }
        }
        Ok(())
    }
}

impl Pin {
    fn wrong(&self) -> io::Result<Option<String>> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(_) if self.must == Must::Another => return Ok(None),
            Err(error) => return Err(error),
        };
        let same = identity(&found) == self.identity;
        Ok(match self.must {
            Must::Another => same.then(|| "it is seen, and must not be".to_owned()),
            Must::Same | Must::SameReadOnly if !same => Some("something else is there".to_owned()),
            Must::Same => None,
            Must::SameReadOnly | Must::ReadOnly => (!is_read_only(&self.path)?)
                .then(|| "it can be written, and must not be".to_owned()),
        })
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

fn is_read_only(path: &Path) -> io::Result<bool> {
    use rustix::fs::{StatVfsMountFlags, statvfs};
    Ok(statvfs(path)?.f_flag.contains(StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::super::Missing;
    use super::*;

    #[test]
    fn what_is_not_mounted_as_planned_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["ws", "ws/.git", "ws/secret", "lib"] {
            fs::create_dir(at(name)).unwrap();
        }
        let mut plan = Plan {
            writable: vec![at("ws")],
            ..Plan::default()
        };
        assert!(Pins::of(&plan).verify().is_ok());
        let refused = |plan: &Plan| Pins::of(plan).verify().unwrap_err().to_string();
        // Nothing is mounted here, so whatever is to be read-only or hidden is not.
        plan.readable = vec![at("lib")];
        assert!(refused(&plan).contains("can be written"));
        plan.readable.clear();
        plan.hidden = vec![at("ws/secret")];
        assert!(refused(&plan).contains("it is seen"));
        plan.hidden.clear();
        plan.protect(at("ws/.git"), Missing::Placeholder);
        assert!(refused(&plan).contains("can be written"));
        let pins = Pins::of(&plan);
        fs::rename(at("ws/.git"), at("moved")).unwrap();
        assert!(pins.verify().is_err());
        fs::create_dir(at("ws/.git")).unwrap();
        assert!(
            pins.verify()
                .unwrap_err()
                .to_string()
                .contains("something else")
        );
    }
}
