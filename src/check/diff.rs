//! How much changed: the lines of the agent's files against what was there before.
//!
//! What is larger than is held in memory is counted as it is read: behind the lines that begin both states and before those that
//! end both, every line counts as changed. That is exact where one piece changed, and never too little.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::clock::{Clock, Stopwatch};
use crate::event::Change;
use crate::policy::FileKind;
use crate::workspace::{self, Original, Workspace};

/// The largest file that is compared line by line, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;
/// The longest time for one file; what is left of it then counts as changed.
const LONGEST: Duration = Duration::from_secs(5);
/// How much of a larger file is read at once.
const PIECE: usize = 64 * 1024;

/// Lines that changed, over all files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) added: u64,
    pub(super) removed: u64,
    /// Changes of what has no lines, or whose lines are not known: binary files, links, what was large before the agent came,
    /// what could not be read in time.
    pub(super) uncounted: Vec<Change>,
}

/// What stands at a path now.
enum Now {
    Small(Vec<u8>),
    Large(File),
}

/// How long counting may take in all.
struct Time {
    began: Stopwatch,
    limit: Duration,
}

impl Time {
    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.began.elapsed())
    }
}

/// Counts the lines of all changes.
pub(super) fn lines(
    workspace: &Workspace,
    changes: &[Change],
    limit: Duration,
) -> io::Result<Lines> {
    let mut lines = Lines::default();
    let time = Time {
        began: Clock::system().start(),
        limit,
    };
    for change in changes {
        let before = before(workspace, &change.path)?;
        let counted = match (before, now(workspace, &change.path)?) {
            (Some(before), Some(Now::Small(now))) => compare(before, now, time.left()),
            (Some(before), Some(Now::Large(now))) => {
                stream(&before, now, &|| time.left().is_zero())?
            }
            _ => None,
        };
        match counted {
            Some((added, removed)) => {
                lines.added += added;
                lines.removed += removed;
            }
            None => lines.uncounted.push(change.clone()),
        }
    }
    Ok(lines)
}

/// Lines added and removed; `None` where one of the two is binary.
fn compare(before: Vec<u8>, now: Vec<u8>, left: Duration) -> Option<(u64, u64)> {
    if is_binary(&before) || is_binary(&now) {
        return None;
    }
    let (before, now) = texts(before, now);
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(left.min(LONGEST))
        .diff_lines(before.as_str(), now.as_str());
    let (mut added, mut removed) = (0, 0);
    for change in diff.iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => added += 1,
            ChangeTag::Delete => removed += 1,
            ChangeTag::Equal => {}
        }
    }
    Some((added, removed))
}

/// The same of a file that is too large to be held, with some times the room of `before`. `None` for a binary file, and when time is up.
fn stream(
    before: &[u8],
    mut now: impl io::Read,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<(u64, u64)>> {
    if is_binary(before) {
        return Ok(None);
    }
    let mut piece = vec![0; PIECE];
    // How many bytes begin both, and how many of them are whole lines.
    let (mut same, mut is_same) = (0, true);
    let mut rest = Rest::default();
    loop {
        if is_over() {
            return Ok(None);
        }
        let read = now.read(&mut piece)?;
        if read == 0 {
            break;
        }
        let mut bytes = piece.get(..read).unwrap_or_default();
        if is_binary(bytes) {
            return Ok(None);
        }
        if is_same {
            let expected = before.get(same..).unwrap_or_default();
            let common = common(expected.iter(), bytes.iter());
            same += common;
            is_same = common == bytes.len();
            bytes = bytes.get(common..).unwrap_or_default();
        }
        rest.take(bytes, before.len() + 1);
    }
    if same == before.len() && rest.bytes == 0 {
        return Ok(Some((0, 0)));
    }
    let whole = before.get(..same).unwrap_or_default();
    let begun = whole
        .rsplit(|byte| *byte == b'\n')
        .next()
        .map_or(0, <[u8]>::len);
    // A line that begins both and goes on in another way is another line.
    let gone = count(before.get(same - begun..).unwrap_or_default());
    let is_open = !rest.end.ends_with(b"\n");
    let added = rest.lines + u64::from(is_open && (rest.bytes > 0 || begun > 0));
    let is_whole = rest.end.len() as u64 == rest.bytes;
    let kept = ending(
        before.get(same..).unwrap_or_default(),
        &rest.end,
        [begun == 0, begun == 0 && is_whole],
    );
    Ok(Some((
        added.saturating_sub(kept),
        gone.saturating_sub(kept),
    )))
}

/// How many whole lines end both, where each may begin with one.
fn ending(before: &[u8], now: &[u8], begins: [bool; 2]) -> u64 {
    let fed = |bytes: &[u8], begins: bool| {
        let first: &[u8] = if begins { b"\n" } else { b"" };
        [first, bytes].concat()
    };
    let (before, now) = (fed(before, begins[0]), fed(now, begins[1]));
    let shared = common(before.iter().rev(), now.iter().rev());
    let shared = now.get(now.len() - shared..).unwrap_or_default();
    let first = shared.iter().position(|byte| *byte == b'\n');
    first.map_or(0, |first| {
        count(shared.get(first + 1..).unwrap_or_default())
    })
}

/// What comes behind the bytes that begin both states.
#[derive(Default)]
struct Rest {
    bytes: u64,
    /// Line feeds in it.
    lines: u64,
    end: Vec<u8>,
}

impl Rest {
    /// Counts bytes, and keeps the last `room` of all.
    fn take(&mut self, bytes: &[u8], room: usize) {
        self.bytes += bytes.len() as u64;
        self.lines += feeds(bytes);
        self.end.extend_from_slice(bytes);
        // Seldom, so that each byte is moved a few times at most.
        if self.end.len() > 2 * room.max(PIECE) {
            self.end.drain(..self.end.len() - room.max(PIECE));
        }
    }
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

fn feeds(bytes: &[u8]) -> u64 {
    (bytes.split(|byte| *byte == b'\n').count() - 1) as u64
}

/// How many lines there are; the last one needs no line feed.
fn count(bytes: &[u8]) -> u64 {
    feeds(bytes) + u64::from(!bytes.is_empty() && !bytes.ends_with(b"\n"))
}

/// Whether a file is no text: it holds a NUL byte.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.contains(&0)
}

/// Both as texts in which two lines are equal when their bytes are, whatever the encoding is.
fn texts(before: Vec<u8>, now: Vec<u8>) -> (String, String) {
    match (String::from_utf8(before), String::from_utf8(now)) {
        (Ok(before), Ok(now)) => (before, now),
        (before, now) => {
            let bytes = |text: Result<String, std::string::FromUtf8Error>| {
                text.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes)
            };
            let each = |bytes: Vec<u8>| bytes.into_iter().map(char::from).collect();
            (each(bytes(before)), each(bytes(now)))
        }
    }
}

/// A file before the agent; empty where none was, `None` where its contents are not known.
fn before(workspace: &Workspace, path: &str) -> io::Result<Option<Vec<u8>>> {
    let base = workspace.base();
    let path = Path::new(path);
    match base.get(path) {
        None => Ok(Some(Vec::new())),
        Some(Original::File { .. }) => match base.read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
            Err(error) => Err(error),
        },
        Some(_) => Ok(None),
    }
}

/// The same as the agent left it.
fn now(workspace: &Workspace, path: &str) -> io::Result<Option<Now>> {
    let root = workspace.root();
    let Some(facts) = workspace::resolve(root, path) else {
        return Ok(None);
    };
    if facts.dangling || facts.physical != root.join(path) {
        return Ok(None);
    }
    let found = match facts.kind {
        FileKind::Missing => Ok(Now::Small(Vec::new())),
        FileKind::File => match workspace::read_file(&facts.physical, LARGEST) {
            Ok(bytes) => Ok(Now::Small(bytes)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                workspace::open_file(&facts.physical).map(Now::Large)
            }
            Err(error) => Err(error),
        },
        FileKind::Directory | FileKind::Special => return Ok(None),
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed(before: &str, now: &str) -> Option<(u64, u64)> {
        stream(before.as_bytes(), now.as_bytes(), &|| false).unwrap()
    }

    #[test]
    fn one_piece_that_changed_is_counted_exactly_while_a_file_is_read() {
        for (before, now, expected) in [
            ("", "", (0, 0)),
            ("", "a\nb\n", (2, 0)),
            ("", "a\nb", (2, 0)),
            ("a\nb\n", "", (0, 2)),
            ("a\nb\n", "a\nb\n", (0, 0)),
            ("a\n", "a\nb\nc\n", (2, 0)),
            ("a\nz\n", "a\nx\ny\nz\n", (2, 0)),
            ("a\nx\ny\nz\n", "a\nz\n", (0, 2)),
            ("a\nb\nc\n", "a\nx\nc\n", (1, 1)),
            ("ab\nc\n", "ax\nc\n", (1, 1)),
            ("a\nb", "a\nb\n", (1, 1)),
            ("x\nx\n", "x\nx\nx\n", (1, 0)),
        ] {
            assert_eq!(streamed(before, now), Some(expected), "{before:?} {now:?}");
        }
        assert_eq!(streamed("a\n", "a\n\0"), None);
        assert_eq!(streamed("\0", "a\n"), None);
        // A file without end is given up when the check's time is over.
        let endless = io::repeat(b'\n');
        let reads = std::cell::Cell::new(0);
        let is_over = || reads.replace(reads.get() + 1) > 10;
        assert_eq!(stream(b"", endless, &is_over).unwrap(), None);
    }

    #[test]
    fn the_end_of_a_large_file_is_all_that_is_kept_of_it() {
        let mut rest = Rest::default();
        for _ in 0..100 {
            rest.take(&vec![b'\n'; PIECE], 10);
            assert!(rest.end.len() <= 3 * PIECE);
        }
        assert_eq!(
            (rest.bytes, rest.lines),
            (100 * PIECE as u64, 100 * PIECE as u64)
        );
    }

    #[test]
    fn lines_in_any_encoding_are_lines_and_a_nul_byte_makes_a_file_binary() {
        let count = |before: &[u8], now: &[u8]| compare(before.to_vec(), now.to_vec(), LONGEST);
        assert_eq!(count(b"caf\xe9\n", b"caf\xe8\n"), Some((1, 1)));
        assert_eq!(count(b"caf\xe9\nx\n", b"caf\xe9\n"), Some((0, 1)));
        assert_eq!(count(b"a\0", b"a\n"), None);
    }

    proptest! {
        #[test]
        fn a_stream_never_counts_less_than_a_comparison(
            before in proptest::collection::vec("[ab]{0,2}", 0..8),
            now in proptest::collection::vec("[ab]{0,2}", 0..8),
            ends in any::<[bool; 2]>(),
        ) {
            let text = |lines: &[String], end: bool| {
                lines.join("\n") + if end { "\n" } else { "" }
            };
            let (before, now) = (text(&before, ends[0]), text(&now, ends[1]));
            let (added, removed) = streamed(&before, &now).unwrap();
            let exact = compare(before.clone().into(), now.clone().into(), LONGEST).unwrap();
            prop_assert!(added >= exact.0 && removed >= exact.1, "{before:?} {now:?} {added} {removed} {exact:?}");
            // What is said is true of the files: as many lines more or fewer.
            let lines = |text: &str| i128::from(count(text.as_bytes()));
            prop_assert_eq!(i128::from(added) - i128::from(removed), lines(&now) - lines(&before));
        }
    }
}
