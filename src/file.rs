//! The one way in which a file is read that somebody named: regular, and bounded.
//!
//! A name on the command line, in a task file or in an artifact may lead to a device that never ends or to a pipe that
//! nobody writes to. Neither may hold a run up or eat its memory, so every module that reads a whole file by its name
//! does it here. Files of a workspace are the affair of `workspace`, which also bounds where they lie.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading. Links are followed; opening never waits.
///
/// # Errors
/// The file cannot be opened, or is a directory, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Asked before, because opening alone can do something to a device; and after, because the name may change meanwhile.
    regular(std::fs::metadata(path)?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`]; the file cannot be read, or holds more. Not more than one byte above `most` is ever in memory, whatever
/// the file says that its size is.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded(open(path)?, most)
}

/// As [`read`], for UTF-8.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    utf8(read(path, most)?)
}

/// Reads a stream of at most `most` bytes of UTF-8 to its end: standard input.
///
/// # Errors
/// It cannot be read, holds more, or is not UTF-8.
pub fn read_stream(stream: impl Read, most: u64) -> io::Result<String> {
    utf8(bounded(stream, most)?)
}

fn bounded(stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let message = format!("larger than {most} bytes, which is the most that is read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        let message = format!("not UTF-8: byte {place} begins no character");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

fn regular(kind: FileType) -> io::Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let (error, found) = if kind.is_dir() {
        (io::ErrorKind::IsADirectory, "a directory")
    } else {
        (io::ErrorKind::InvalidInput, "a pipe, a socket or a device")
    };
    let message = format!("expected a regular file, found {found}");
    Err(io::Error::new(error, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_opening_never_waits() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        }
        #[cfg(not(target_os = "linux"))]
        drop(std::os::unix::net::UnixListener::bind(&pipe).unwrap());
        for path in [&pipe, dir.path(), Path::new("/dev/zero")] {
            let error = read(path, 10).unwrap_err().to_string();
            assert!(error.contains("expected a regular file"), "{error}");
        }
    }

    #[test]
    fn nothing_above_the_limit_is_read_whatever_its_size_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("huge");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(
            read(&path, 10)
                .unwrap_err()
                .to_string()
                .contains("10 bytes")
        );
        assert!(read_stream(io::repeat(b'a'), 10).is_err());
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        std::fs::write(&path, b"a\xff").unwrap();
        assert!(
            read_text(&path, 10)
                .unwrap_err()
                .to_string()
                .contains("byte 1")
        );
    }
}
