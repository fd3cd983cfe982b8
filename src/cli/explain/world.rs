//! The files that a case speaks of, made below a scratch directory that stands for `/`.
//!
//! Nothing is ever made or looked up outside of it: every path goes through the resolver first, which keeps links and
//! `..` inside, and only the physical place that it finds is touched.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::policy::{Facts, FileKind, PathFacts};
use crate::workspace;

/// The workspace of every case.
pub(super) const WORKSPACE: &str = "/srv/ci/repo";

/// What is there in every case; relative paths are in the workspace.
const ALWAYS: [&str; 11] = [
    "src/a.rs",
    "docs/x.md",
    "README.md",
    ".env",
    ".git/config",
    ".git/HEAD",
    ".github/workflows/ci.yml",
    "task.yaml",
    "agent-batch.yaml",
    "/srv/ci/outside/secret.txt",
    "/srv/ci/repo-evil/x",
];

/// The largest file that a step makes, in gibibytes. It takes no space.
const MAX_SPARSE: u64 = 1024;

/// A directory that stands for `/`.
pub(super) struct World {
    root: tempfile::TempDir,
}

impl World {
    /// Makes the files that are always there, and those of `setup`: steps, joined by `; `.
    ///
    /// # Errors
    /// A step that is none, or that cannot be done.
    pub(super) fn build(setup: &str, temp: &Path) -> Result<Self, String> {
        let root = tempfile::Builder::new()
            .prefix("agent-batch-cases-")
            .tempdir_in(temp)
            .map_err(|error| format!("no scratch directory in `{}`: {error}", temp.display()))?;
        let world = Self { root };
        for path in ALWAYS {
            world
                .file(path)
                .map_err(|error| format!("`{path}` could not be made: {error}"))?;
        }
        for step in setup.split("; ").filter(|step| !step.is_empty()) {
            world
                .step(step)
                .map_err(|error| format!("the setup step `{step}` {error}"))?;
        }
        Ok(world)
    }

    /// What the paths of a call mean here.
    pub(super) fn facts(&self, queries: Vec<String>) -> Facts {
        let known = |query: String| {
            let facts = self.resolve(&query)?;
            Some((query, facts))
        };
        queries.into_iter().filter_map(known).collect()
    }

    fn resolve(&self, path: &str) -> Option<PathFacts> {
        workspace::resolve_in(self.root.path(), Path::new(WORKSPACE), path)
    }

    fn on_disk(&self, physical: &Path) -> PathBuf {
        let below = physical.strip_prefix("/").unwrap_or(physical);
        self.root.path().join(below)
    }

    fn step(&self, step: &str) -> Result<(), String> {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let pair = || {
            rest.split_once(" -> ")
                .ok_or("is no `P -> T`: a path, an arrow, what it leads to")
        };
        let done = match verb {
            "file" => self.file(rest),
            "dir" => self.dir(rest),
            "symlink" => {
                let (path, target) = pair()?;
                self.place(path).and_then(|place| symlink(target, place))
            }
            "hardlink" => {
                let (path, target) = pair()?;
                let target = self.there(target)?;
                self.place(path)
                    .and_then(|place| fs::hard_link(target, place))
            }
            "fifo" => self.place(rest).and_then(|place| {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                mknodat(CWD, place, FileType::Fifo, Mode::RWXU, 0).map_err(io::Error::from)
            }),
            "socket" => self.place(rest).and_then(UnixListener::bind).map(drop),
            "sparse" => {
                let size = |text: &str| text.strip_suffix('G')?.parse::<u64>().ok();
                let (path, size) = rest
                    .rsplit_once(' ')
                    .and_then(|(path, text)| Some((path, size(text)?)))
                    .filter(|(_, size)| *size <= MAX_SPARSE)
                    .ok_or("is no `sparse P SIZE` with a size in GiB, as in `10G`")?;
                self.place(path)
                    .and_then(fs::File::create)
                    .and_then(|file| file.set_len(size << 30))
            }
            _ => {
                return Err(
                    "begins with no known word; expected `file`, `dir`, `symlink`, `hardlink`, `fifo`, `socket` or `sparse`"
                        .to_owned(),
                );
            }
        };
        done.map_err(|error| format!("failed: {error}"))
    }

    fn file(&self, path: &str) -> io::Result<()> {
        fs::write(self.place(path)?, "x")
    }

    fn dir(&self, path: &str) -> io::Result<()> {
        let facts = self.resolve(path).ok_or_else(nowhere)?;
        fs::create_dir_all(self.on_disk(&facts.physical))
    }

    /// The place of something that exists.
    fn there(&self, path: &str) -> Result<PathBuf, String> {
        match self.resolve(path) {
            Some(facts) if facts.kind != FileKind::Missing => Ok(self.on_disk(&facts.physical)),
            _ => Err(format!(
                "needs `{path}`, and an earlier step has to make it"
            )),
        }
    }

    /// The place of something new. Its directory is made.
    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let facts = self.resolve(path).ok_or_else(nowhere)?;
        let place = self.on_disk(&facts.physical);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }
}

fn nowhere() -> io::Error {
    io::Error::other("the path leads nowhere")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(setup: &str) -> Result<(tempfile::TempDir, World), String> {
        let temp = tempfile::tempdir().unwrap();
        let world = World::build(setup, temp.path())?;
        Ok((temp, world))
    }

    #[test]
    fn nothing_leads_out_of_the_scratch_directory() {
        let outside = tempfile::tempdir().unwrap();
        let target = outside.path().to_str().unwrap();
        let setup = format!("symlink out -> {target}; file out/new; dir ../../../../../../up");
        let (_temp, world) = world(&setup).unwrap();
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
        let inside = world.root.path().join(target.trim_start_matches('/'));
        assert!(inside.join("new").is_file());
        assert!(world.root.path().join("up").is_dir());
        let facts = world.resolve("../../../../../../etc/passwd").unwrap();
        assert_eq!(facts.physical, Path::new("/etc/passwd"));
        assert_eq!(facts.kind, FileKind::Missing);
    }

    #[test]
    fn every_kind_of_step_makes_what_it_says() {
        let (_temp, world) = world(
            "file a; dir d/e; symlink l -> d; hardlink h -> a; fifo f; socket s; sparse big 10G",
        )
        .unwrap();
        let kind = |path: &str| world.resolve(path).unwrap().kind;
        assert_eq!(kind("l/e"), FileKind::Directory);
        assert_eq!(world.resolve("h").unwrap().links, 2);
        assert_eq!(kind("f"), FileKind::Special);
        assert_eq!(kind("s"), FileKind::Special);
        assert_eq!(kind("big"), FileKind::File);
    }

    #[test]
    fn what_is_no_step_is_an_error() {
        for setup in [
            "link a -> b",
            "symlink a",
            "sparse a 10",
            "sparse a 9999999G",
            "hardlink a -> none",
            "file README.md/x",
        ] {
            assert!(world(setup).is_err(), "{setup}");
        }
    }
}
