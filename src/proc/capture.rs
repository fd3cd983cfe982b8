//! Output of a process: redacted, bounded in memory, whole on disk.
//!
//! The first and the last half of `keep` bytes stay in memory. When there is more, everything goes into the spill
//! file as it arrives, so that an output of any size costs the same memory.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Captured;
use crate::redact::{RedactStream, Redactor};

/// Most bytes of a spill file. An endless output must not fill the disk of the CI machine.
const SPILL_LIMIT: u64 = 512 * 1024 * 1024;

/// Collects one stream.
pub(super) struct Capture {
    /// Until the end of the stream.
    redact: Option<RedactStream>,
    keep: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
    spill: Spill,
}

/// The state of the file.
enum Spill {
    /// There is to be none.
    Off,
    /// Not needed so far.
    Waiting(PathBuf),
    /// Being written.
    Open {
        path: PathBuf,
        file: File,
        written: u64,
    },
    /// Could not be written.
    Failed(String),
}

impl Capture {
    pub(super) fn new(keep: usize, spill: Option<PathBuf>, redactor: &Arc<Redactor>) -> Self {
        Self {
            redact: Some(redactor.stream()),
            keep,
            head: Vec::new(),
            tail: VecDeque::new(),
            bytes: 0,
            spill: spill.map_or(Spill::Off, Spill::Waiting),
        }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        if let Some(redact) = &mut self.redact {
            let clean = redact.push(chunk);
            self.store(&clean);
        }
    }

    /// The end of the stream.
    pub(super) fn finish(mut self) -> Captured {
        if let Some(redact) = self.redact.take() {
            let rest = redact.finish();
            self.store(&rest);
        }
        let kept = self.head.len() + self.tail.len();
        let missing = self.bytes - kept as u64;
        let mut bytes = self.head;
        let tail = self.tail.make_contiguous();
        let (text, note) = if missing == 0 {
            bytes.extend_from_slice(tail);
            (String::from_utf8_lossy(&bytes).into_owned(), None)
        } else {
            bytes.truncate(whole_characters(&bytes));
            let tail = tail.get(broken_start(tail)..).unwrap_or_default();
            let missing = self.bytes - (bytes.len() + tail.len()) as u64;
            let text = format!(
                "{}\n[... {missing} bytes left out ...]\n{}",
                String::from_utf8_lossy(&bytes),
                String::from_utf8_lossy(tail)
            );
            let note = match &self.spill {
                Spill::Failed(reason) => {
                    Some(format!("\n[the whole output was not kept: {reason}]"))
                }
                Spill::Open { written, .. } if *written < self.bytes => Some(format!(
                    "\n[only the first {written} bytes of the output are in the file]"
                )),
                Spill::Off | Spill::Waiting(_) | Spill::Open { .. } => None,
            };
            (text, note)
        };
        Captured {
            text: text + note.as_deref().unwrap_or_default(),
            bytes: self.bytes,
            spilled: match self.spill {
                Spill::Open { path, .. } => Some(path),
                Spill::Off | Spill::Waiting(_) | Spill::Failed(_) => None,
            },
        }
    }

    fn store(&mut self, clean: &[u8]) {
        self.bytes += clean.len() as u64;
        if self.bytes > self.keep as u64 {
            self.spill(clean);
        }
        let head_limit = self.keep / 2;
        let room = head_limit.saturating_sub(self.head.len());
        let (for_head, for_tail) = clean.split_at(room.min(clean.len()));
        self.head.extend_from_slice(for_head);
        let tail_limit = self.keep - head_limit;
        let fresh = for_tail
            .get(for_tail.len().saturating_sub(tail_limit)..)
            .unwrap_or_default();
        let surplus = (self.tail.len() + fresh.len()).saturating_sub(tail_limit);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(fresh);
    }

    /// Writes to the spill file, first what was held back so far.
    fn spill(&mut self, clean: &[u8]) {
        if let Spill::Waiting(path) = &self.spill {
            self.spill = match create(path) {
                Ok(file) => Spill::Open {
                    path: path.clone(),
                    file,
                    written: 0,
                },
                Err(error) => Spill::Failed(format!("`{}`: {error}", path.display())),
            };
            // Until now everything fitted into `keep`, so head and tail together are the whole.
            let (first, second) = self.tail.as_slices();
            let held = [self.head.as_slice(), first, second].concat();
            self.append(&held);
        }
        self.append(clean);
    }

    fn append(&mut self, bytes: &[u8]) {
        let Spill::Open {
            path,
            file,
            written,
        } = &mut self.spill
        else {
            return;
        };
        let room = usize::try_from(SPILL_LIMIT - *written).unwrap_or(usize::MAX);
        let fits = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        match file.write_all(fits) {
            Ok(()) => *written += fits.len() as u64,
            Err(error) => {
                let reason = format!("`{}`: {error}", path.display());
                self.spill = Spill::Failed(reason);
            }
        }
    }
}

/// Never an existing file: the output directory may lie where the agent can plant a link.
fn create(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Length without an incomplete UTF-8 character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    for (index, byte) in bytes.iter().enumerate().skip(start).rev() {
        let length = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            _ => continue,
        };
        return if index + length > bytes.len() {
            index
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

/// Number of bytes at the start that belong to a character before it.
fn broken_start(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| (0b1000_0000..0b1100_0000).contains(*byte))
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capture(keep: usize, spill: Option<PathBuf>, chunks: &[&[u8]]) -> Captured {
        let mut capture = Capture::new(keep, spill, &Arc::new(Redactor::default()));
        for chunk in chunks {
            capture.push(chunk);
        }
        capture.finish()
    }

    #[test]
    fn what_fits_is_kept_whole_and_makes_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let captured = capture(10, Some(path.clone()), &[b"01234", b"56789"]);
        assert_eq!(captured.text, "0123456789");
        assert_eq!(captured.bytes, 10);
        assert_eq!(captured.spilled, None);
        assert!(!path.exists());
    }

    #[test]
    fn what_does_not_fit_is_whole_on_disk_and_shown_by_head_and_tail() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/out");
        let captured = capture(6, Some(path.clone()), &[b"0123", b"456789"]);
        assert_eq!(captured.text, "012\n[... 4 bytes left out ...]\n789");
        assert_eq!(captured.spilled.as_deref(), Some(path.as_path()));
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    }

    #[test]
    fn a_planted_file_is_not_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let outside = directory.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        let path = directory.path().join("out");
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        let captured = capture(2, Some(path), &[b"0123456789"]);
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        assert_eq!(captured.spilled, None);
        assert!(captured.text.contains("was not kept"), "{}", captured.text);
    }

    #[test]
    fn characters_are_not_cut() {
        let captured = capture(7, None, &["ääääääää".as_bytes()]);
        assert_eq!(captured.text, "ä\n[... 10 bytes left out ...]\nää");
    }

    proptest! {
        #[test]
        fn no_half_characters_whatever_the_cut(
            text in "[aä→🦀]{0,60}",
            keep in 0_usize..80,
            chunk in 1_usize..9,
        ) {
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(chunk).collect();
            let captured = capture(keep, None, &chunks);
            prop_assert!(!captured.text.contains(char::REPLACEMENT_CHARACTER));
            prop_assert_eq!(captured.bytes, text.len() as u64);
            if text.len() <= keep {
                prop_assert_eq!(captured.text, text);
            }
        }

        #[test]
        fn the_file_is_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 1..300),
            keep in 0_usize..100,
            chunk in 1_usize..50,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let chunks: Vec<&[u8]> = bytes.chunks(chunk).collect();
            let captured = capture(keep, Some(directory.path().join("out")), &chunks);
            prop_assert_eq!(captured.spilled.is_some(), bytes.len() > keep);
            if let Some(path) = captured.spilled {
                prop_assert_eq!(fs::read(path).unwrap(), bytes);
            }
        }
    }
}
