//! The transcript: one event a line, written before anything acts on it, and read back however it ended.
//!
//! A reader takes any file: a last line that was cut off when the process was killed, lines that are no events, bytes
//! that are no text. What it cannot use it reports as [`Damage`] with the line's number, and goes on.
//! The lines are chained by hashes, so one that was changed afterwards is damage too, and so is an end that says another thing than
//! the events before it.

mod chain;
mod evidence;

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::event::{Event, Kind, Sink, VERSION};
use crate::file;

use chain::{Chain, Check};
use evidence::Evidence;

/// The longest line that is read, in bytes. A longer one is damage.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Appends events to a new file.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    /// A write failed, so the file may end in the middle of a line.
    torn: bool,
    chain: Chain,
}

impl Writer {
    /// Creates the file; its directory must exist.
    ///
    /// # Errors
    /// The file exists already (a transcript is never overwritten) or cannot be created; the error names the path.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| named("create", path, &error))?;
        Ok(Self::from_file(path.to_owned(), file))
    }

    /// Appends to a file that is open already; `path` is what errors are reported with.
    #[must_use]
    pub fn from_file(path: PathBuf, file: File) -> Self {
        Self {
            path,
            file,
            torn: false,
            chain: Chain::default(),
        }
    }

    fn append(&mut self, event: &Event) -> io::Result<()> {
        let mut line = Vec::with_capacity(512);
        if self.torn {
            // Ends the torn line, so that only that one is lost.
            line.push(b'\n');
        }
        let start = line.len();
        serde_json::to_writer(&mut line, event)?;
        self.chain.close(&mut line, start);
        line.push(b'\n');
        self.torn = true;
        self.file.write_all(&line)?;
        self.file.flush()?;
        self.torn = false;
        if matches!(event.kind, Kind::TaskFinished(_)) {
            // A full disk may show only now.
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Sink for Writer {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        if event.kind.is_transient() {
            return Ok(());
        }
        self.append(event)
            .map_err(|error| named("write", &self.path, &error))
    }
}

fn named(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!(
            "could not {action} the transcript `{}`: {error}",
            path.display()
        ),
    )
}

/// What is said of a line that a kill has cut.
const CUT_OFF: &str = "the last line was cut off";

/// A line that is no event of this version, or not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it, without quoting it.
    pub reason: String,
}

impl Damage {
    /// Whether it is no more than the line that was being written when the runner was killed.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.reason == CUT_OFF
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

/// How a transcript that was read to its end turned out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// How many events it has.
    pub events: u64,
    /// How many lines are none.
    pub damages: u64,
    /// Whether it has the event that ends every whole transcript.
    pub finished: bool,
    /// How many events a reader took of those that there are; what that means is its own.
    pub taken: u64,
    /// The first line that is none or was changed, and what is wrong with it.
    pub first: Option<(u64, String)>,
}

impl Ending {
    /// Takes the next item of a [`Reader`] into account.
    pub fn note(&mut self, item: &Result<Event, Damage>) {
        match item {
            Ok(event) => {
                self.events += 1;
                self.finished |= matches!(event.kind, Kind::TaskFinished(_));
            }
            Err(damage) => {
                self.damages += 1;
                let first = || (damage.line, damage.reason.clone());
                self.first.get_or_insert_with(first);
            }
        }
    }

    /// What is wrong with it, if anything is, in one sentence.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let Some((line, reason)) = &self.first else {
            let unfinished = "unfinished: the transcript ends in the middle";
            return (!self.finished).then(|| unfinished.to_owned());
        };
        if reason == CUT_OFF {
            return Some("unfinished: the transcript ends in the middle of a line".to_owned());
        }
        let damages = crate::text::plural(self.damages, "damaged line");
        let end = if self.finished {
            ""
        } else {
            "; without them the transcript has no end"
        };
        Some(format!(
            "this is not what the run wrote: {damages} left out, line {line} first: {reason}{end}"
        ))
    }
}

/// Reads events one by one; never more than a line is in memory.
#[derive(Debug)]
pub struct Reader<R> {
    path: PathBuf,
    input: R,
    line: u64,
    buffer: Vec<u8>,
    check: Check,
    evidence: Evidence,
    /// The source failed; it is not asked again.
    failed: bool,
}

/// Opens a transcript.
///
/// # Errors
/// The file cannot be opened; the error names the path.
pub fn read(path: &Path) -> io::Result<Reader<BufReader<File>>> {
    let file = file::open(path).map_err(|error| named("open", path, &error))?;
    Ok(Reader::new(path, BufReader::new(file)))
}

/// The hash that ends the chain of a transcript: that of its last line. `None` where that line was cut off or has none, and for
/// what is no regular file.
#[must_use]
pub fn last_chain(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut file = file::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(chain::LENGTH)))
        .ok()?;
    let mut end = Vec::new();
    file.take(chain::LENGTH).read_to_end(&mut end).ok()?;
    chain::last(&end)
}

impl<R: BufRead> Reader<R> {
    /// Reads from any source; `path` is what damages are reported with.
    pub fn new(path: &Path, input: R) -> Self {
        Self {
            path: path.to_owned(),
            input,
            line: 0,
            buffer: Vec::new(),
            check: Check::default(),
            evidence: Evidence::default(),
            failed: false,
        }
    }

    /// The same reader under one type, whatever its source is.
    #[must_use]
    pub fn boxed(self) -> Reader<Box<dyn BufRead>>
    where
        R: 'static,
    {
        Reader {
            path: self.path,
            input: Box::new(self.input),
            line: self.line,
            buffer: self.buffer,
            check: self.check,
            evidence: self.evidence,
            failed: self.failed,
        }
    }

    /// Reads a line into the buffer. True: it is whole (it ends with a line feed, which is taken off). A line that is too
    /// long is skipped and leaves the buffer as long as the limit.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.input
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut self.buffer)?;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            return Ok(true);
        }
        if self.buffer.len() as u64 == LONGEST_LINE {
            self.input.skip_until(b'\n')?;
        }
        Ok(false)
    }

    fn parse(&mut self, whole: bool) -> Result<Event, String> {
        if self.buffer.len() as u64 >= LONGEST_LINE {
            self.check.lost();
            return Err(format!("the line is longer than {LONGEST_LINE} bytes"));
        }
        let event = serde_json::from_slice::<Event>(&self.buffer);
        if event.is_err() {
            self.check.lost();
        }
        let event = event.map_err(|error| {
            if whole {
                format!("not an event, at column {}", error.column())
            } else {
                CUT_OFF.to_owned()
            }
        })?;
        if event.v > VERSION {
            return Err(format!(
                "written in format version {}, expected at most {VERSION}",
                event.v
            ));
        }
        self.check.line(&self.buffer)?;
        self.evidence.take(&event.kind)?;
        Ok(event)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let filled = self.fill();
            self.line += 1;
            let (path, line) = (self.path.clone(), self.line);
            let damage = |reason| Damage { path, line, reason };
            let whole = match filled {
                Ok(whole) => whole,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(damage(format!("could not be read: {error}"))));
                }
            };
            if self.buffer.is_empty() && !whole {
                return None;
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(self.parse(whole).map_err(damage));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64) -> Event {
        serde_json::from_value(serde_json::json!({
            "v": 1, "at": "2026-01-02T03:04:05Z", "task": "a", "attempt": 1, "seq": seq,
            "type": "results_appended", "step": 1, "tool_use_ids": []
        }))
        .unwrap()
    }

    #[test]
    fn after_a_torn_line_only_that_one_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut writer = Writer::create(&path).unwrap();
        writer.accept(&event(0)).unwrap();
        // What a write that failed in the middle leaves behind.
        writer.file.write_all(b"{\"v\":1,\"at\"").unwrap();
        writer.torn = true;
        writer.accept(&event(2)).unwrap();
        let items: Vec<_> = read(&path).unwrap().collect();
        assert_eq!(items.len(), 3);
        assert_eq!(items[0].as_ref().unwrap().seq, 0);
        assert_eq!(items[1].as_ref().unwrap_err().line, 2);
        assert_eq!(items[2].as_ref().unwrap().seq, 2);
    }

    #[test]
    fn a_source_that_fails_is_asked_once() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("gone"))
            }
        }
        let reader = Reader::new(Path::new("t.jsonl"), BufReader::new(Broken));
        let items: Vec<_> = reader.collect();
        assert_eq!(items.len(), 1);
        assert!(items[0].as_ref().unwrap_err().reason.contains("gone"));
    }
}
