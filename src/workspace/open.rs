//! Opening exactly the file that was decided on.
//!
//! The path comes physical from [`super::resolve`], so there is no link in it. If one is met now, somebody swapped a
//! directory between decision and use, and the answer is an error. A file is replaced as a whole: a new one is
//! written in the directory that was opened, and takes the old one's name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, fchmod, fchown, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::at;

/// Flags for a directory on the way: found, not read, never through a link.
#[cfg(target_os = "linux")]
const STEP: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const STEP: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Whether directories on the way are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parents {
    MustExist,
    Create,
}

/// Opens a regular file for reading by its physical path.
///
/// # Errors
/// It is not there, no regular file, or there is a link on the way now. The error names the path.
pub fn open_file(physical: &Path) -> io::Result<File> {
    let open = || {
        let (directory, name) = open_parent(physical, Parents::MustExist)?;
        // A FIFO without a writer must not hold us up.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = File::from(openat(directory, name, flags, Mode::empty()).map_err(explain)?);
        if !file.metadata()?.is_file() {
            return Err(not_regular());
        }
        Ok(file)
    };
    open().map_err(|error| at(physical, &error))
}

/// Reads a whole regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_file`], and for a larger file ([`io::ErrorKind::FileTooLarge`]).
pub fn read_file(physical: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(physical)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| at(physical, &error))?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("`{}` is larger than {limit} bytes", physical.display()),
        ));
    }
    Ok(bytes)
}

/// Creates or replaces a regular file, whole or not at all, and makes missing directories above it. The mode and
/// owner of a file that was there are kept; its other names (hard links) keep the old content.
///
/// # Errors
/// Something else than a regular file has the name, there is a link on the way now, or writing failed. The error
/// names the path.
pub fn replace_file(physical: &Path, contents: &[u8]) -> io::Result<()> {
    replace(physical, contents).map_err(|error| at(physical, &error))
}

fn replace(physical: &Path, contents: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (directory, name) = open_parent(physical, Parents::Create)?;
    let old = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::RegularFile => Some(old),
        Ok(_) => return Err(not_regular()),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = OsString::from(format!(".agent-batch-{}-{number}.tmp", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // 0666 less the umask, as every program creates files.
    let mut file = File::from(openat(
        &directory,
        &temporary,
        flags,
        Mode::from_raw_mode(0o666),
    )?);
    let written = (|| {
        file.write_all(contents)?;
        if let Some(old) = old {
            let mode: RawMode = old.st_mode & 0o7777;
            // Only root can give files away; everybody else owns the file already or cannot keep the owner.
            let _ = fchown(
                &file,
                Some(rustix::fs::Uid::from_raw(old.st_uid)),
                Some(rustix::fs::Gid::from_raw(old.st_gid)),
            );
            fchmod(&file, Mode::from_raw_mode(mode))?;
        }
        renameat(&directory, &temporary, &directory, &name)?;
        Ok(())
    })();
    if written.is_err() {
        let _ = unlinkat(&directory, &temporary, AtFlags::empty());
    }
    written
}

/// The directory that a file stands in, and the file's name.
fn open_parent(physical: &Path, parents: Parents) -> io::Result<(OwnedFd, OsString)> {
    let (Some(parent), Some(name)) = (physical.parent(), physical.file_name()) else {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "is a directory",
        ));
    };
    let root = rustix::fs::open("/", STEP, Mode::empty())?;
    #[cfg(target_os = "linux")]
    if let Some(directory) = open_at_once(&root, parent)? {
        return Ok((directory, name.to_owned()));
    }
    let mut directory = root;
    for component in parent.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(step) => directory = enter(&directory, step, parents)?,
            Component::ParentDir | Component::CurDir | Component::Prefix(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the path is not physical",
                ));
            }
        }
    }
    Ok((directory, name.to_owned()))
}

/// The way down in one call, where the kernel has it and everything exists.
#[cfg(target_os = "linux")]
fn open_at_once(root: &OwnedFd, parent: &Path) -> io::Result<Option<OwnedFd>> {
    use rustix::fs::{ResolveFlags, openat2};
    let plain = parent
        .components()
        .all(|component| matches!(component, Component::RootDir | Component::Normal(_)));
    let below = match parent.strip_prefix("/") {
        Ok(below) if plain && below.components().next().is_some() => below,
        _ => return Ok(None),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, below, STEP, Mode::empty(), resolve) {
        Ok(directory) => Ok(Some(directory)),
        // Not there yet, an old kernel, or a filter that forbids the call: step by step.
        Err(Errno::NOENT | Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INVAL) => Ok(None),
        Err(error) => Err(explain(error)),
    }
}

fn enter(directory: &OwnedFd, step: &OsStr, parents: Parents) -> io::Result<OwnedFd> {
    match openat(directory, step, STEP, Mode::empty()) {
        Err(Errno::NOENT) if parents == Parents::Create => {
            match mkdirat(directory, step, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            openat(directory, step, STEP, Mode::empty()).map_err(explain)
        }
        other => other.map_err(explain),
    }
}

/// A link where none was decided on has its own sentence. (With `O_DIRECTORY | O_NOFOLLOW` the kernel calls a link
/// "not a directory".)
fn explain(error: Errno) -> io::Error {
    if error == Errno::LOOP {
        io::Error::other(
            "a symbolic link stands on the way that was not there when the call was permitted",
        )
    } else {
        error.into()
    }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        (directory, root)
    }

    #[test]
    fn a_file_is_created_with_its_directories() {
        let (_keep, root) = directory();
        let path = root.join("a/b/c.txt");
        replace_file(&path, b"one").unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(read_file(&path, 3).unwrap(), b"two");
        assert_eq!(
            fs::read_dir(root.join("a/b")).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn the_mode_of_a_replaced_file_is_kept() {
        let (_keep, root) = directory();
        let path = root.join("run.sh");
        fs::write(&path, "one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
    }

    #[test]
    fn another_name_of_the_file_keeps_its_content() {
        let (_keep, root) = directory();
        fs::write(root.join("outside"), "mine").unwrap();
        fs::hard_link(root.join("outside"), root.join("inside")).unwrap();
        replace_file(&root.join("inside"), b"theirs").unwrap();
        assert_eq!(fs::read(root.join("outside")).unwrap(), b"mine");
    }

    #[test]
    fn a_link_in_place_of_a_directory_or_a_file_is_refused() {
        let (_keep, root) = directory();
        fs::create_dir(root.join("real")).unwrap();
        fs::write(root.join("real/file"), "mine").unwrap();
        symlink("real", root.join("swapped")).unwrap();
        symlink("real/file", root.join("file")).unwrap();
        for path in ["swapped/file", "swapped/new/deep", "file"] {
            let path = root.join(path);
            assert!(
                replace_file(&path, b"theirs").is_err(),
                "{}",
                path.display()
            );
            let error = open_file(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(fs::read(root.join("real/file")).unwrap(), b"mine");
        assert!(!root.join("real/new").exists());
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (_keep, root) = directory();
        let fifo = root.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in [
            fifo.as_path(),
            root.as_path(),
            Path::new("/dev/null"),
            Path::new("/"),
        ] {
            assert!(open_file(path).is_err(), "{}", path.display());
            assert!(replace_file(path, b"").is_err(), "{}", path.display());
        }
        assert!(open_file(&root.join("x/../fifo")).is_err());
    }

    #[test]
    fn a_file_over_the_limit_is_an_error_that_says_so() {
        let (_keep, root) = directory();
        let path = root.join("big");
        fs::write(&path, "0123456789").unwrap();
        let error = read_file(&path, 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_file(&path, 10).unwrap().len(), 10);
    }

    #[test]
    fn a_full_disk_names_the_path() {
        let full = Path::new("/dev/full/file");
        let error = replace_file(full, b"x").unwrap_err().to_string();
        assert!(error.contains("`/dev/full/file`"), "{error}");
    }

    /// The race of the specification: a directory that turns into a link and back while we write.
    #[test]
    fn swapping_a_directory_for_a_link_never_reaches_outside() {
        let (_keep, root) = directory();
        let workspace = root.join("ws");
        fs::create_dir_all(workspace.join("dir")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(root.join("outside/file"), "mine").unwrap();
        symlink(root.join("outside"), workspace.join("link")).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (dir, link) = (workspace.join("dir"), workspace.join("link"));
                while !stop.load(Ordering::Relaxed) {
                    let (here, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                    rustix::fs::renameat_with(here, &dir, here, &link, exchange).unwrap();
                }
            });
            let mut written = 0;
            for round in 0..10_000 {
                written += u32::from(replace_file(&workspace.join("dir/file"), b"theirs").is_ok());
                if round % 100 == 0 {
                    assert_eq!(fs::read(root.join("outside/file")).unwrap(), b"mine");
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert!(written > 0, "the race was run");
        });
        assert_eq!(fs::read(root.join("outside/file")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(root.join("outside")).unwrap().count(), 1);
    }
}
