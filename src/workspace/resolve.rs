//! What a path means to the kernel, found out without opening anything.
//!
//! The walk goes component by component as the kernel does: links are followed where they stand, `..` leaves the
//! directory that was really reached, and after 40 links it is a loop. The gate decides on the result.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::policy::{Facts, FileKind, PathFacts};

/// Links that the kernel follows in one path.
const LINK_LIMIT: u32 = 40;
/// Most bytes of a path.
const PATH_LIMIT: usize = 4096;

/// Resolves one path as the kernel would, without opening it. `path` is absolute or relative to `root`.
///
/// `None` when it means nothing to the kernel or nothing could be found out: an empty path, a NUL, a file used as a
/// directory, a `..` out of a directory that does not exist, a directory that we may not search. The gate denies
/// what it has no facts for.
#[must_use]
pub fn resolve(root: &Path, path: &str) -> Option<PathFacts> {
    resolve_in(Path::new("/"), root, path)
}

/// As [`resolve`], in a file system whose `/` is the directory `base`: neither an absolute link nor `..` leads out of
/// it, and the paths in the result begin at it. For trees that are built to be asked about.
#[must_use]
pub fn resolve_in(base: &Path, root: &Path, path: &str) -> Option<PathFacts> {
    if path.is_empty() || path.len() > PATH_LIMIT || path.contains('\0') {
        return None;
    }
    let lexical = lexical(root, path);
    let mut walk = Walk {
        base,
        physical: PathBuf::from("/"),
        reached: FileKind::Directory,
        links_of_file: 1,
        followed: 0,
        link_in_input: false,
        dotdot_after_link: false,
        dangling: false,
    };
    if !path.starts_with('/') {
        // The root is physical by contract; were it not, its links would still be followed, but they are not the
        // path's.
        walk.run(root.as_os_str(), Origin::Root)?;
    }
    walk.run(OsStr::new(path), Origin::Input)?;
    Some(PathFacts {
        lexical,
        physical: walk.physical,
        kind: walk.reached,
        links: match walk.reached {
            FileKind::File => walk.links_of_file,
            FileKind::Missing => 0,
            FileKind::Directory | FileKind::Special => 1,
        },
        dotdot_after_link: walk.dotdot_after_link,
        dangling: walk.dangling,
    })
}

/// Resolves all queries; what cannot be resolved is left out.
#[must_use]
pub fn resolve_all(root: &Path, queries: &[String]) -> Facts {
    queries
        .iter()
        .filter_map(|query| Some((query.clone(), resolve(root, query)?)))
        .collect()
}

/// `.` and `..` removed by text alone.
fn lexical(root: &Path, path: &str) -> PathBuf {
    let mut lexical = PathBuf::from("/");
    for component in root.join(path).components() {
        match component {
            Component::Normal(name) => lexical.push(name),
            Component::ParentDir => {
                lexical.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    lexical
}

/// Where a component was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Root,
    Input,
    Link,
}

/// A walk in progress.
struct Walk<'a> {
    /// The directory that stands for `/`.
    base: &'a Path,
    physical: PathBuf,
    reached: FileKind,
    links_of_file: u64,
    followed: u32,
    /// The input led over a link.
    link_in_input: bool,
    dotdot_after_link: bool,
    dangling: bool,
}

impl Walk<'_> {
    fn run(&mut self, path: &OsStr, origin: Origin) -> Option<()> {
        let mut open: VecDeque<(OsString, Origin)> = VecDeque::new();
        self.prepend(&mut open, path, origin);
        while let Some((name, origin)) = open.pop_front() {
            match self.reached {
                FileKind::Directory => {}
                // A name below something that is not there can be created later, but nothing can be left through
                // `..` before that; and what comes of it then is another question than ours.
                FileKind::Missing if name == ".." => return None,
                FileKind::Missing => {
                    if !is_here(&name) {
                        self.physical.push(&name);
                    }
                    continue;
                }
                FileKind::File | FileKind::Special => return None,
            }
            if is_here(&name) {
                continue;
            }
            if name == ".." {
                self.dotdot_after_link |= origin == Origin::Input && self.link_in_input;
                self.physical.pop();
                continue;
            }
            self.step(&mut open, &name, origin)?;
        }
        Some(())
    }

    /// Goes to one name in the directory that was reached.
    fn step(
        &mut self,
        open: &mut VecDeque<(OsString, Origin)>,
        name: &OsStr,
        origin: Origin,
    ) -> Option<()> {
        let there = self.physical.join(name);
        let metadata = match fs::symlink_metadata(self.on_disk(&there)) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.dangling |= origin == Origin::Link;
                self.reached = FileKind::Missing;
                self.physical = there;
                return Some(());
            }
            Err(_) => return None,
        };
        let kind = metadata.file_type();
        if kind.is_symlink() {
            self.link_in_input |= origin != Origin::Root;
            self.followed += 1;
            if self.followed > LINK_LIMIT {
                self.dangling = true;
                self.reached = FileKind::Missing;
                self.physical = there;
                return Some(());
            }
            let target = fs::read_link(self.on_disk(&there)).ok()?;
            let origin = if origin == Origin::Root {
                Origin::Root
            } else {
                Origin::Link
            };
            self.prepend(open, target.as_os_str(), origin);
            return Some(());
        }
        self.reached = if kind.is_dir() {
            FileKind::Directory
        } else if kind.is_file() {
            self.links_of_file = metadata.nlink();
            FileKind::File
        } else {
            FileKind::Special
        };
        self.physical = there;
        Some(())
    }

    /// Where a path of the walk is found.
    fn on_disk(&self, path: &Path) -> PathBuf {
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Puts the components of a path in front of the open ones. A slash at the end demands a directory, like `.`.
    fn prepend(&mut self, open: &mut VecDeque<(OsString, Origin)>, path: &OsStr, origin: Origin) {
        let bytes = path.as_bytes();
        if bytes.first() == Some(&b'/') {
            self.physical = PathBuf::from("/");
            self.reached = FileKind::Directory;
        }
        let names: Vec<&[u8]> = bytes.split(|byte| *byte == b'/').collect();
        let last = names.len().saturating_sub(1);
        for (index, name) in names.into_iter().enumerate().rev() {
            if !name.is_empty() {
                open.push_front((OsStr::from_bytes(name).to_owned(), origin));
            } else if index == last && last > 0 {
                open.push_front((OsString::from("."), origin));
            }
        }
    }
}

fn is_here(name: &OsStr) -> bool {
    name == "."
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    struct Tree {
        directory: tempfile::TempDir,
        root: PathBuf,
    }

    impl Tree {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap().join("ws");
            fs::create_dir_all(root.join("src/deep")).unwrap();
            fs::create_dir_all(root.join("../outside/inner")).unwrap();
            fs::write(root.join("src/lib.rs"), "x").unwrap();
            symlink("src/deep", root.join("in")).unwrap();
            symlink("../outside/inner", root.join("out")).unwrap();
            symlink("/nowhere/at/all", root.join("dangling")).unwrap();
            symlink("loop-b", root.join("loop-a")).unwrap();
            symlink("loop-a", root.join("loop-b")).unwrap();
            symlink("src/lib.rs", root.join("file-link")).unwrap();
            Self { directory, root }
        }

        fn resolve(&self, path: &str) -> Option<PathFacts> {
            resolve(&self.root, path)
        }

        fn facts(&self, path: &str) -> PathFacts {
            self.resolve(path).unwrap()
        }
    }

    #[test]
    fn plain_paths_are_what_they_say() {
        let tree = Tree::new();
        let facts = tree.facts("./src//deep/../lib.rs");
        assert_eq!(facts.lexical, tree.root.join("src/lib.rs"));
        assert_eq!(facts.physical, tree.root.join("src/lib.rs"));
        assert_eq!(facts.kind, FileKind::File);
        assert_eq!(facts.links, 1);
        assert!(!facts.dotdot_after_link && !facts.dangling);
        let absolute = tree.facts(tree.root.join("src").to_str().unwrap());
        assert_eq!(absolute.kind, FileKind::Directory);
        assert_eq!(tree.facts(".").physical, tree.root);
    }

    #[test]
    fn links_are_followed_and_dotdot_leaves_the_real_directory() {
        let tree = Tree::new();
        assert_eq!(tree.facts("in").physical, tree.root.join("src/deep"));
        assert_eq!(tree.facts("in").lexical, tree.root.join("in"));
        let outside = tree
            .directory
            .path()
            .canonicalize()
            .unwrap()
            .join("outside");
        assert_eq!(
            tree.facts("out/new.txt").physical,
            outside.join("inner/new.txt")
        );
        let up = tree.facts("out/../x");
        assert_eq!(up.physical, outside.join("x"));
        assert_eq!(up.lexical, tree.root.join("x"));
        assert!(up.dotdot_after_link);
        assert!(!tree.facts("src/../out").dotdot_after_link);
    }

    #[test]
    fn what_is_not_there_has_a_physical_parent() {
        let tree = Tree::new();
        let facts = tree.facts("in/new/deep.rs");
        assert_eq!(facts.physical, tree.root.join("src/deep/new/deep.rs"));
        assert_eq!(facts.kind, FileKind::Missing);
        assert!(!facts.dangling);
        assert_eq!(tree.resolve("new/../x"), None);
    }

    #[test]
    fn links_to_nowhere_are_told() {
        let tree = Tree::new();
        let facts = tree.facts("dangling");
        assert_eq!(facts.physical, Path::new("/nowhere/at/all"));
        assert!(facts.dangling);
        assert_eq!(facts.kind, FileKind::Missing);
        assert!(tree.facts("loop-a").dangling);
        assert!(tree.facts("loop-a/x").dangling);
    }

    #[test]
    fn a_file_is_no_directory() {
        let tree = Tree::new();
        for path in [
            "src/lib.rs/",
            "src/lib.rs/.",
            "src/lib.rs/..",
            "src/lib.rs/x",
            "file-link/",
        ] {
            assert_eq!(tree.resolve(path), None, "{path}");
        }
        assert!(tree.resolve("src/").is_some());
        assert!(tree.resolve("in/").is_some());
    }

    #[test]
    fn hard_links_are_counted_and_special_files_are_told() {
        let tree = Tree::new();
        fs::hard_link(tree.root.join("src/lib.rs"), tree.root.join("other")).unwrap();
        assert_eq!(tree.facts("other").links, 2);
        assert_eq!(tree.facts("/dev/null").kind, FileKind::Special);
    }

    #[test]
    fn nonsense_has_no_facts() {
        let tree = Tree::new();
        assert_eq!(tree.resolve(""), None);
        assert_eq!(tree.resolve("a\0b"), None);
        assert_eq!(tree.resolve(&"a/".repeat(3000)), None);
        assert_eq!(
            resolve_all(&tree.root, &["src".into(), String::new()]).len(),
            1
        );
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let tree = Tree::new();
        symlink("src", tree.root.join("l0")).unwrap();
        for index in 1..50 {
            symlink(
                format!("l{}", index - 1),
                tree.root.join(format!("l{index}")),
            )
            .unwrap();
        }
        assert_eq!(tree.facts("l39").physical, tree.root.join("src"));
        assert!(tree.facts("l40").dangling);
        assert!(fs::metadata(tree.root.join("l39")).is_ok());
        assert!(fs::metadata(tree.root.join("l40")).is_err());
    }

    proptest! {
        /// The kernel is the judge: whatever it can open is where we say, and what it cannot open is not there.
        #[test]
        fn the_walk_agrees_with_the_kernel(
            parts in proptest::collection::vec(
                prop::sample::select(vec![
                    "src", "deep", "in", "out", "..", ".", "", "lib.rs", "file-link", "dangling",
                    "loop-a", "inner", "new",
                ]),
                1..7,
            ),
        ) {
            let tree = Tree::new();
            let path = parts.join("/");
            prop_assume!(!path.is_empty() && !path.starts_with('/'));
            let facts = tree.resolve(&path);
            // By text, since `Path::join` would drop a slash at the end.
            let whole = format!("{}/{path}", tree.root.display());
            match fs::canonicalize(&whole) {
                Ok(physical) => {
                    let facts = facts.unwrap();
                    prop_assert_eq!(facts.physical, physical);
                    prop_assert_ne!(facts.kind, FileKind::Missing);
                }
                Err(_) => prop_assert!(facts.is_none_or(|facts| facts.kind == FileKind::Missing)),
            }
        }
    }
}
