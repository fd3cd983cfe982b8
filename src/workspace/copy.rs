//! The copy of a tree.
//!
//! Every file of a copy is a file of its own: shared blocks where the file system can do that (reflinks), never a hard
//! link, so that nothing done to the copy reaches the source. Holes stay holes. Modes and times are kept: build tools
//! compare them.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};

use super::ignored::Ignored;
use super::walk::{Entry, Kind, is_sealed, walk};
use super::{at, open_file};
use crate::text;

/// Most entries and most bytes (as stored, holes not counted) of a copy.
const ENTRIES: u64 = 2_000_000;
const BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// How much is copied at once where there are holes.
const PIECE: usize = 64 * 1024;
/// How many skipped entries are named, and most bytes of a name.
const NAMED: usize = 5;
const SHOWN: usize = 200;

/// Copies a tree without what `ignored` says, and the repository itself. Links are copied as links; FIFOs, sockets, devices
/// and what cannot be read are left out. `target` must not exist. Gives what a reader should know.
pub(super) fn copy_tree(
    source: &Path,
    target: &Path,
    ignored: &Ignored,
    excluded: &[PathBuf],
) -> io::Result<Vec<String>> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| at(parent, &error))?;
    }
    // Nobody else may look in: the task may put anything there.
    DirBuilder::new()
        .mode(0o700)
        .create(target)
        .map_err(|error| at(target, &error))?;
    let mut copier = Copier::default();
    walk(source, |entry| {
        let Ok(relative) = entry.path.strip_prefix(source) else {
            return Ok(false);
        };
        let inside_git = relative.components().any(|part| part.as_os_str() == ".git");
        let left_out = excluded.contains(&entry.path)
            || (entry.is_git() && entry.kind != Kind::Directory)
            || (!inside_git && ignored.is_ignored(entry));
        if left_out {
            return Ok(false);
        }
        if entry.kind == Kind::Sealed {
            copier.sealed.note(relative);
            return Ok(false);
        }
        match copier.copy(entry, relative, target) {
            Ok(()) if copier.count > ENTRIES || copier.bytes > BYTES => {
                Err(io::Error::other(format!(
                    "`{}` is too large to be copied: more than {ENTRIES} entries or {}; use `isolation: worktree`, or name \
                     a smaller directory",
                    source.display(),
                    text::bytes(BYTES)
                )))
            }
            Ok(()) => Ok(true),
            // A temporary file of somebody's may vanish before we get to it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) if is_sealed(&error) => {
                copier.sealed.note(relative);
                Ok(false)
            }
            Err(error) => Err(at(&entry.path, &error)),
        }
    })?;
    // Modes and times of directories come last: one that may not be written has to be filled first.
    for (directory, metadata) in copier.directories.into_iter().rev() {
        let finish = || {
            let opened = File::open(&directory)?;
            opened.set_permissions(Permissions::from_mode(metadata.mode() & 0o777))?;
            keep_times(&opened, &metadata)
        };
        finish().map_err(|error| at(&directory, &error))?;
    }
    let notes = [
        (copier.special, "they are FIFOs, sockets or devices"),
        (
            copier.sealed,
            "they may not be read, or their paths are too long",
        ),
    ];
    Ok(notes
        .into_iter()
        .filter_map(|(skipped, why)| skipped.told(why))
        .collect())
}

/// Entries that are not in a copy: the first ones, and how many.
#[derive(Default)]
struct Skipped {
    named: Vec<String>,
    count: u64,
}

impl Skipped {
    fn note(&mut self, relative: &Path) {
        self.count += 1;
        if self.named.len() < NAMED {
            let shown = relative.display().to_string();
            self.named.push(text::head(&shown, SHOWN).into_owned());
        }
    }

    fn told(self, why: &str) -> Option<String> {
        let more = self.count.saturating_sub(self.named.len() as u64);
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = self.named.join(", ");
        (self.count > 0).then(|| format!("not copied, because {why}: {named}{more}"))
    }
}

#[derive(Default)]
struct Copier {
    count: u64,
    bytes: u64,
    /// With what they are to have in the end.
    directories: Vec<(PathBuf, fs::Metadata)>,
    special: Skipped,
    sealed: Skipped,
    no_reflinks: bool,
}

impl Copier {
    fn copy(&mut self, entry: &Entry, relative: &Path, target: &Path) -> io::Result<()> {
        let copy = &target.join(relative);
        self.count += 1;
        match entry.kind {
            Kind::Directory => {
                let metadata = fs::symlink_metadata(&entry.path)?;
                DirBuilder::new().mode(0o700).create(copy)?;
                self.directories.push((copy.clone(), metadata));
            }
            Kind::Link => symlink(fs::read_link(&entry.path)?, copy)?,
            Kind::File => self.copy_file(&entry.path, copy)?,
            Kind::Special => self.special.note(relative),
            // The walk's affair.
            Kind::Sealed => {}
        }
        Ok(())
    }

    fn copy_file(&mut self, source: &Path, copy: &Path) -> io::Result<()> {
        let mut from = open_file(source)?;
        let metadata = from.metadata()?;
        let mut to = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(copy)?;
        let stored = metadata.blocks() * 512;
        self.bytes = self.bytes.saturating_add(stored);
        if self.bytes > BYTES {
            // Told by the walk, which knows of what.
            return Ok(());
        }
        if self.reflink(&from, &to, metadata.len()) {
        } else if stored < metadata.len() {
            copy_sparse(&mut from, &mut to, metadata.len())?;
        } else {
            // Somebody may be writing to it: what it was when it was opened, and not one that grows for ever.
            // Some file systems do not tell lengths; all of these are 0.
            let most = match metadata.len() {
                0 => BYTES,
                length => length,
            };
            io::copy(&mut from.take(most), &mut to)?;
        }
        // Neither set-user-id nor set-group-id in a copy.
        to.set_permissions(Permissions::from_mode(metadata.mode() & 0o777))?;
        keep_times(&to, &metadata)
    }

    /// Shares the blocks, if the file system can. One that cannot is not asked again.
    #[cfg(target_os = "linux")]
    fn reflink(&mut self, from: &File, to: &File, length: u64) -> bool {
        if self.no_reflinks || length == 0 {
            return false;
        }
        let shared = rustix::fs::ioctl_ficlone(to, from).is_ok();
        self.no_reflinks = !shared;
        shared
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "other systems have their own call")]
    fn reflink(&mut self, _from: &File, _to: &File, _length: u64) -> bool {
        false
    }
}

fn keep_times(file: &File, metadata: &fs::Metadata) -> io::Result<()> {
    let modified = metadata.modified()?;
    file.set_times(FileTimes::new().set_modified(modified))
}

/// Copies what is stored and leaves the holes. A block of zeros becomes a hole: to a reader they are the same.
fn copy_sparse(from: &mut File, to: &mut File, length: u64) -> io::Result<()> {
    to.set_len(length)?;
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < length {
        at = match next_data(from, at)? {
            Some(begin) => begin,
            None => return Ok(()),
        };
        from.seek(SeekFrom::Start(at))?;
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(at))?;
            to.write_all(piece)?;
        }
        at += count as u64;
    }
    Ok(())
}

/// Where the next stored block begins; `None` when only a hole follows.
#[cfg(target_os = "linux")]
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    use rustix::io::Errno;
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(begin) => Ok(Some(begin)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
fn next_data(_file: &File, at: u64) -> io::Result<Option<u64>> {
    Ok(Some(at))
}

/// Gives the owner of a tree back what the modes of those that are `meant` have taken: to enter directories, and to read
/// files.
pub(super) fn reopen(root: &Path, meant: impl Fn(&Metadata) -> bool) {
    const DIRECTORY: u32 = 0o700;
    const FILE: u32 = 0o400;
    let open = |path: &Path, least: u32| {
        if let Ok(found) = path.symlink_metadata()
            && !found.is_symlink()
            && found.permissions().mode() & least != least
            && meant(&found)
        {
            let mode = (found.permissions().mode() & 0o7777) | least;
            let _ = fs::set_permissions(path, Permissions::from_mode(mode));
        }
    };
    open(root, DIRECTORY);
    let _ = walk(root, |entry| {
        match entry.kind {
            Kind::Directory => open(&entry.path, DIRECTORY),
            Kind::File => open(&entry.path, FILE),
            _ => {}
        }
        Ok(true)
    });
}

#[cfg(test)]
mod tests {
    use super::super::remove_tree;
    use super::super::walk::make_deep;
    use super::*;

    fn copy(source: &Path, target: &Path) -> Vec<String> {
        copy_tree(source, target, &Ignored::default(), &[]).unwrap()
    }

    #[test]
    fn a_hole_stays_a_hole_and_the_content_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("s"), dir.path().join("t"));
        fs::create_dir(&source).unwrap();
        let mut file = File::create(source.join("sparse")).unwrap();
        file.set_len(64 << 20).unwrap();
        file.seek(SeekFrom::Start(32 << 20)).unwrap();
        file.write_all(b"in the middle").unwrap();
        copy(&source, &target);
        let found = fs::metadata(target.join("sparse")).unwrap();
        assert_eq!(found.len(), 64 << 20);
        assert!(found.blocks() * 512 < 2 << 20, "{}", found.blocks());
        assert!(
            fs::read(target.join("sparse")).unwrap() == fs::read(source.join("sparse")).unwrap()
        );
    }

    #[test]
    fn names_of_one_file_become_files_of_their_own_and_times_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("s"), dir.path().join("t"));
        fs::create_dir_all(source.join("d")).unwrap();
        fs::write(source.join("d/a"), "1").unwrap();
        fs::hard_link(source.join("d/a"), source.join("b")).unwrap();
        copy(&source, &target);
        for path in ["d/a", "b"] {
            assert_eq!(fs::metadata(target.join(path)).unwrap().nlink(), 1);
        }
        for path in ["d/a", "d"] {
            let time = |root: &Path| fs::metadata(root.join(path)).unwrap().modified().unwrap();
            assert_eq!(time(&source), time(&target), "{path}");
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_copied_as_far_as_it_can_be_named() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("s");
        fs::create_dir(&source).unwrap();
        make_deep(&source, "d", 600);
        assert!(copy(&source, &dir.path().join("t")).is_empty());
        let end = format!("{}end", "d/".repeat(600));
        assert!(dir.path().join("t").join(end).is_file());
        make_deep(&source, &"e".repeat(250), 40);
        let notes = copy(&source, &dir.path().join("u"));
        assert!(notes[0].contains("too long: eee"), "{notes:?}");
        assert!(notes[0].len() < 500, "{notes:?}");
        remove_tree(&source).unwrap();
    }

    #[test]
    fn what_is_no_file_is_skipped_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let (source, target) = (dir.path().join("s"), dir.path().join("t"));
        fs::create_dir(&source).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
        let notes = copy(&source, &target);
        assert!(notes[0].ends_with("devices: socket"), "{notes:?}");
        assert!(!target.join("socket").exists());
    }
}
