//! Protected paths that are symbolic links. Nothing can be mounted on a link, so what it leads to is mounted read-only,
//! and the link itself is looked at when a call is over: one that was replaced is put back, and that is told.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Most links that lead to each other, as in the kernel.
const MOST: usize = 40;

/// A link as it was at the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    pub(super) path: PathBuf,
    /// What is written in it.
    target: PathBuf,
    /// What it leads to in the end, if that is anything.
    leads: Option<PathBuf>,
}

impl Link {
    /// The link, and those that it leads to.
    pub(super) fn chain(path: &Path) -> Vec<Self> {
        let (mut links, mut next) = (Vec::new(), path.to_path_buf());
        while links.len() < MOST
            && let Ok(target) = fs::read_link(&next)
        {
            let onward = next.parent().unwrap_or(Path::new("/")).join(&target);
            links.push(Self {
                leads: next.canonicalize().ok(),
                path: next,
                target,
            });
            // Without links in its directories; the last part may be one again.
            let Some((directory, name)) = onward.parent().zip(onward.file_name()) else {
                break;
            };
            let Ok(directory) = directory.canonicalize() else {
                break;
            };
            next = directory.join(name);
        }
        links
    }

    /// Puts the link back where it was replaced, and says so.
    pub(super) fn restore(&self) -> Option<String> {
        let path = self.path.display();
        if fs::read_link(&self.path).is_ok_and(|target| target == self.target) {
            let same = self.path.canonicalize().ok() == self.leads;
            return (!same).then(|| {
                format!("`{path}` is a protected link, and what it leads to was exchanged")
            });
        }
        let back = self.put_back();
        let then = match back {
            Ok(()) => "it has been put back".to_owned(),
            Err(error) => format!("it could not be put back: {error}"),
        };
        Some(format!(
            "`{path}` is a protected link, and was replaced; {then}"
        ))
    }

    fn put_back(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) if found.is_dir() => {
                let aside = (1..100).map(|number| {
                    let mut name = self.path.clone().into_os_string();
                    name.push(format!(".replaced-{number}"));
                    PathBuf::from(name)
                });
                let free = aside
                    .into_iter()
                    .find(|path| !path.is_symlink() && !path.exists());
                let free = free.ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
                fs::rename(&self.path, free)?;
            }
            Ok(_) => fs::remove_file(&self.path)?,
        }
        symlink(&self.target, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_replaced_is_put_back_whatever_came_instead() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        fs::write(at("AGENTS.md"), "a").unwrap();
        symlink("AGENTS.md", at("middle")).unwrap();
        symlink("middle", at("CLAUDE.md")).unwrap();
        let links = Link::chain(&at("CLAUDE.md"));
        assert_eq!(
            links.iter().map(|link| &link.path).collect::<Vec<_>>(),
            [&at("CLAUDE.md"), &at("middle")]
        );
        let told = || links.iter().filter_map(Link::restore).collect::<Vec<_>>();
        assert!(told().is_empty());
        for replace in [
            (|path| fs::write(path, "hostile").unwrap()) as fn(&Path),
            |path| fs::create_dir_all(path.join("hooks")).unwrap(),
            |path| symlink("/etc/passwd", path).unwrap(),
            |_| {},
        ] {
            for name in ["CLAUDE.md", "middle"] {
                fs::remove_file(at(name)).unwrap();
                replace(&at(name));
                assert!(!told().is_empty());
                assert_eq!(fs::read_to_string(at("CLAUDE.md")).unwrap(), "a");
                assert!(told().is_empty());
            }
        }
    }

    #[test]
    fn a_link_to_nothing_that_leads_somewhere_later_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join(".git");
        symlink("elsewhere", &link).unwrap();
        let links = Link::chain(&link);
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        assert!(links[0].restore().unwrap().contains("exchanged"));
    }
}
