//! The tree as it was when the attempt began: what stood at each path, and the contents of what is not large.
//!
//! Contents lie one after the other in a file without a name, so a runner that is killed leaves nothing, and no task
//! can get at them. They serve three readers: the comparison at the end, the patch, and checks that need a file as it
//! was before the agent came.
//!
//! Contents are compared only where that is needed and never without a bound: a file whose stamp (size, times, inode) is
//! the same was not written, one of another size was, and a large file is told by its stamp alone. An agent can make a
//! file of any size; it must not be able to make us read it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::ignored::Ignored;
use super::walk::{Entry, Kind, is_sealed, walk};
use super::{at, open_file};
use crate::event::ChangeKind;

/// Files above this size are told by their stamp alone, and their contents are not kept.
pub(super) const LARGEST_KEPT: u64 = 8 * 1024 * 1024;
/// When this much is kept, the rest is told by stamps.
const KEPT_IN_ALL: u64 = 512 * 1024 * 1024;
/// How much is compared at once.
const PIECE: usize = 64 * 1024;

/// What stood at a path when the attempt began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Original {
    /// A regular file.
    File {
        /// Whether anybody may execute it.
        executable: bool,
        /// In bytes.
        size: u64,
    },
    /// A symbolic link, and what it said.
    Link(PathBuf),
    /// A FIFO, a socket, a device, another repository, or something that may not be read.
    Other,
}

/// What stands at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    File(FileState),
    Link {
        target: PathBuf,
    },
    Special,
    /// Another repository begins here.
    Repository,
    /// A file or a directory that we may not read, or whose path is longer than the system takes; a change of this is a
    /// change too.
    Closed,
}

/// A regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileState {
    stamp: Stamp,
    pub(super) executable: bool,
    /// Where its contents begin in the store; `None` for a large one.
    kept: Option<u64>,
}

/// What the file system says of a file. The change time cannot be set by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
}

/// States by path relative to the root, directories left out (as git does), and the contents of files.
#[derive(Debug)]
pub struct Base {
    states: BTreeMap<PathBuf, State>,
    store: File,
}

impl Base {
    /// Looks at every file below `root` that is not ignored. Contents are kept in an unnamed file in `scratch`.
    pub(super) fn take(
        root: &Path,
        ignored: &Ignored,
        excluded: &[PathBuf],
        scratch: &Path,
    ) -> io::Result<Self> {
        let store = tempfile::tempfile_in(scratch).map_err(|error| at(scratch, &error))?;
        let mut writer = BufWriter::with_capacity(1 << 20, store);
        let mut states = BTreeMap::new();
        let mut end = 0;
        visit(root, ignored, excluded, |path, entry| {
            let Some((mut state, file)) = look(entry)? else {
                return Ok(());
            };
            if let (State::File(known), Some(file)) = (&mut state, file)
                && known.stamp.size <= LARGEST_KEPT.min(KEPT_IN_ALL - end)
            {
                // A file that somebody is writing to may not be as long as it said; then its contents are unknown.
                let mut file = file.take(known.stamp.size);
                let copied =
                    io::copy(&mut file, &mut writer).map_err(|error| at(&entry.path, &error))?;
                known.kept = (copied == known.stamp.size).then_some(end);
                end += copied;
            }
            states.insert(path, state);
            Ok(())
        })?;
        let store = writer
            .into_inner()
            .map_err(|error| at(scratch, error.error()))?;
        Ok(Self { states, store })
    }

    /// The paths that were there, relative to the workspace, sorted. Directories, `.git`, the run directory and what git
    /// ignores are not among them.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.states.keys().map(PathBuf::as_path)
    }

    /// What stood at a path relative to the workspace; `None` where nothing did.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<Original> {
        Some(match self.states.get(path)? {
            State::File(file) => Original::File {
                executable: file.executable,
                size: file.stamp.size,
            },
            State::Link { target } => Original::Link(target.clone()),
            State::Special | State::Repository | State::Closed => Original::Other,
        })
    }

    /// The contents of a file as they were.
    ///
    /// # Errors
    /// There was no regular file ([`io::ErrorKind::NotFound`]), or it was too large to be kept
    /// ([`io::ErrorKind::FileTooLarge`]). The error names the path.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(State::File(file)) = self.states.get(path) else {
            let message = "no regular file was there when the attempt began";
            return Err(at(path, &io::Error::new(io::ErrorKind::NotFound, message)));
        };
        let Some(begin) = file.kept else {
            let message = "too large for its contents at the start to be kept";
            return Err(at(
                path,
                &io::Error::new(io::ErrorKind::FileTooLarge, message),
            ));
        };
        let size = usize::try_from(file.stamp.size).map_err(io::Error::other)?;
        let mut bytes = vec![0; size];
        self.store
            .read_exact_at(&mut bytes, begin)
            .map_err(|error| at(path, &error))?;
        Ok(bytes)
    }

    /// What is different now, sorted by the bytes of the path. Where the root is a directory no more, everything is gone.
    pub(super) fn changes(
        &self,
        root: &Path,
        ignored: &Ignored,
        excluded: &[PathBuf],
    ) -> io::Result<Vec<(PathBuf, ChangeKind)>> {
        let mut unseen: BTreeMap<&PathBuf, &State> = self.states.iter().collect();
        let mut changes = Vec::new();
        let compare = |path: PathBuf, entry: &Entry| {
            let Some((now, file)) = look(entry)? else {
                return Ok(());
            };
            match unseen.remove(&path) {
                None => changes.push((path, ChangeKind::Added)),
                Some(before) if self.differs(before, &now, file, &entry.path)? => {
                    changes.push((path, ChangeKind::Modified));
                }
                Some(_) => {}
            }
            Ok(())
        };
        if fs::symlink_metadata(root).is_ok_and(|found| found.is_dir()) {
            visit(root, ignored, excluded, compare)?;
        }
        changes.extend(
            unseen
                .into_keys()
                .map(|path| (path.clone(), ChangeKind::Deleted)),
        );
        changes.sort_by(|(one, _), (other, _)| {
            one.as_os_str()
                .as_encoded_bytes()
                .cmp(other.as_os_str().as_encoded_bytes())
        });
        Ok(changes)
    }

    /// Whether what stands at a path is another thing than before.
    fn differs(
        &self,
        before: &State,
        now: &State,
        file: Option<File>,
        path: &Path,
    ) -> io::Result<bool> {
        let (State::File(before), State::File(now)) = (before, now) else {
            return Ok(before != now);
        };
        if before.executable != now.executable || before.stamp.size != now.stamp.size {
            return Ok(true);
        }
        if before.stamp == now.stamp {
            return Ok(false);
        }
        match (before.kept, file) {
            (Some(begin), Some(file)) => self
                .same_contents(begin, before.stamp.size, file)
                .map(|same| !same)
                .map_err(|error| at(path, &error)),
            _ => Ok(true),
        }
    }

    fn same_contents(&self, begin: u64, size: u64, mut file: File) -> io::Result<bool> {
        let (mut ours, mut theirs) = (vec![0; PIECE], vec![0; PIECE]);
        let mut done = 0;
        while done < size {
            let length = usize::try_from(size - done).map_or(PIECE, |left| left.min(PIECE));
            let (ours, theirs) = (
                ours.get_mut(..length).unwrap_or_default(),
                theirs.get_mut(..length).unwrap_or_default(),
            );
            match file.read_exact(theirs) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                read => read?,
            }
            self.store.read_exact_at(ours, begin + done)?;
            if ours != theirs {
                return Ok(false);
            }
            done += length as u64;
        }
        Ok(true)
    }
}

/// Calls `each` for everything that counts, with its path relative to the root.
fn visit(
    root: &Path,
    ignored: &Ignored,
    excluded: &[PathBuf],
    mut each: impl FnMut(PathBuf, &Entry) -> io::Result<()>,
) -> io::Result<()> {
    walk(root, |entry| {
        let path = entry
            .path
            .strip_prefix(root)
            .unwrap_or(&entry.path)
            .to_path_buf();
        if entry.is_git() {
            // Inside the tree it is told that it is there: a repository of its own would hide anything.
            if path.components().count() > 1 {
                each(path, entry)?;
            }
            return Ok(false);
        }
        if excluded.contains(&entry.path) || ignored.is_ignored(entry) {
            return Ok(false);
        }
        each(path, entry)?;
        Ok(true)
    })
}

/// What stands there now, with the open file. `None` for a directory, and for what vanished since the walk met it.
pub(super) fn look(entry: &Entry) -> io::Result<Option<(State, Option<File>)>> {
    if entry.is_git() {
        return Ok(Some((State::Repository, None)));
    }
    let found = match entry.kind {
        Kind::Directory => return Ok(None),
        Kind::Special => Ok((State::Special, None)),
        Kind::Sealed => Ok((State::Closed, None)),
        Kind::Link => fs::read_link(&entry.path).map(|target| (State::Link { target }, None)),
        Kind::File => open_file(&entry.path).and_then(|file| {
            let state = State::File(file_state(&file.metadata()?));
            Ok((state, Some(file)))
        }),
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if is_sealed(&error) => Ok(Some((State::Closed, None))),
        Err(error) => Err(at(&entry.path, &error)),
    }
}

fn file_state(found: &Metadata) -> FileState {
    let stamp = Stamp {
        size: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        inode: found.ino(),
    };
    FileState {
        stamp,
        executable: found.mode() & 0o111 != 0,
        kept: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::make_deep;
    use super::*;

    fn base(root: &Path) -> Base {
        let scratch = tempfile::tempdir().unwrap();
        Base::take(
            root,
            &Ignored::read(root, &[]).unwrap(),
            &[],
            scratch.path(),
        )
        .unwrap()
    }

    fn changes(before: &Base, root: &Path) -> Vec<String> {
        let changes = before
            .changes(root, &Ignored::read(root, &[]).unwrap(), &[])
            .unwrap();
        changes
            .into_iter()
            .map(|(path, _)| path.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn contents_are_read_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        for (path, text) in [("a", "one"), ("d/b", "two"), ("e", "")] {
            fs::write(dir.path().join(path), text).unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("l")).unwrap();
        let base = base(dir.path());
        fs::write(dir.path().join("d/b"), "another").unwrap();
        fs::remove_file(dir.path().join("a")).unwrap();
        let paths: Vec<_> = base.paths().collect();
        assert_eq!(paths, ["a", "d/b", "e", "l"].map(Path::new));
        for (path, text) in [("a", "one"), ("d/b", "two"), ("e", "")] {
            assert_eq!(base.read(Path::new(path)).unwrap(), text.as_bytes());
        }
        assert_eq!(base.get(Path::new("l")), Some(Original::Link("a".into())));
        for path in ["l", "d", "nowhere"] {
            let error = base.read(Path::new(path)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn a_change_of_the_same_length_is_found_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let long = vec![b'x'; 3 * PIECE];
        fs::write(dir.path().join("a"), &long).unwrap();
        let before = base(dir.path());
        let mut other = long;
        *other.last_mut().unwrap() = b'y';
        fs::write(dir.path().join("a"), other).unwrap();
        assert_eq!(changes(&before, dir.path()), ["a"]);
    }

    #[test]
    fn changes_are_sorted_by_the_bytes_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        for path in ["b/c", "z"] {
            fs::write(dir.path().join(path), "1").unwrap();
        }
        let before = base(dir.path());
        fs::write(dir.path().join("b-a"), "1").unwrap();
        fs::write(dir.path().join("b/c"), "2").unwrap();
        fs::remove_file(dir.path().join("z")).unwrap();
        assert_eq!(changes(&before, dir.path()), ["b-a", "b/c", "z"]);
    }

    #[test]
    fn a_file_that_was_written_again_with_the_same_content_did_not_change() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "same").unwrap();
        let before = base(dir.path());
        fs::remove_file(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a"), "same").unwrap();
        assert!(changes(&before, dir.path()).is_empty());
    }

    #[test]
    fn a_directory_that_cannot_be_looked_into_is_a_change_and_a_root_that_is_gone_took_everything_with_it()
     {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "1").unwrap();
        let before = base(&root);
        make_deep(&root, &"d".repeat(250), 40);
        let told = changes(&before, &root);
        assert!(told.len() == 1 && told[0].starts_with("ddd"), "{told:?}");
        super::super::remove_tree(&root).unwrap();
        let gone = before.changes(&root, &Ignored::default(), &[]).unwrap();
        assert_eq!(gone, [(PathBuf::from("a"), ChangeKind::Deleted)]);
        // A link in its place leads to somebody else's files.
        std::os::unix::fs::symlink("/etc", &root).unwrap();
        let gone = before.changes(&root, &Ignored::default(), &[]).unwrap();
        assert_eq!(gone, [(PathBuf::from("a"), ChangeKind::Deleted)]);
    }

    #[test]
    fn a_file_of_any_size_is_told_without_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let sparse = |name: &str, size| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_len(size).unwrap();
        };
        sparse("old", 1 << 42);
        let before = base(dir.path());
        assert!(changes(&before, dir.path()).is_empty());
        sparse("new", 1 << 42);
        fs::write(dir.path().join("old"), "shorter").unwrap();
        assert_eq!(changes(&before, dir.path()), ["new", "old"]);
    }
}
