//! What a search found, bounded in entries and bytes, and how it is said.

use std::fmt::Write as _;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use serde_json::json;

use super::Mode;
use crate::tool::ToolOutput;

/// Most bytes of one line in a result.
const LINE_LIMIT: usize = 500;

/// What was found so far, bounded by entries and bytes.
#[derive(Debug, Default)]
pub(super) struct Hits {
    mode: Mode,
    numbers: bool,
    room: usize,
    entries_left: u64,
    /// Why no more is taken.
    cut: Option<Cut>,
    text: String,
    filenames: Vec<String>,
    lines: u64,
    matches: u64,
    /// Files that could not be searched.
    skipped: u64,
    path: String,
    in_file: u64,
    /// The file turned out to be binary.
    binary: bool,
    /// Where the file's lines begin in `text`.
    mark: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Entries,
    Bytes,
}

impl Hits {
    pub(super) fn new(mode: Mode, numbers: bool, room: usize, entries: u64) -> Self {
        Self {
            mode,
            numbers,
            room,
            entries_left: entries,
            ..Self::default()
        }
    }

    /// Whether nothing more is taken.
    pub(super) fn is_full(&self) -> bool {
        self.cut.is_some()
    }

    /// A file could not be searched.
    pub(super) fn skip_file(&mut self) {
        self.skipped += 1;
    }

    pub(super) fn begin_file(&mut self, path: String) {
        self.path = path;
        self.in_file = 0;
        self.binary = false;
        self.mark = self.text.len();
    }

    pub(super) fn end_file(&mut self) {
        if self.binary {
            // Matches before the NUL are no lines of text.
            self.text.truncate(self.mark);
            return;
        }
        if self.in_file == 0 {
            return;
        }
        let path = std::mem::take(&mut self.path);
        let entry = match self.mode {
            Mode::Content => None,
            Mode::FilesWithMatches => Some(path.clone()),
            Mode::Count => Some(format!("{path}:{}", self.in_file)),
        };
        let taken = entry.is_none_or(|entry| self.add(&entry));
        if taken {
            self.matches += self.in_file;
            self.filenames.push(path);
        }
    }

    /// Adds a line of the result, if there is room.
    fn add(&mut self, line: &str) -> bool {
        if self.entries_left == 0 {
            self.cut = Some(Cut::Entries);
        } else if line.len() + 1 > self.room {
            self.cut = Some(Cut::Bytes);
        } else {
            self.entries_left -= 1;
            self.room -= line.len() + 1;
            self.lines += 1;
            self.text.push_str(line);
            self.text.push('\n');
            return true;
        }
        false
    }

    /// Adds a line of a file; `mark` tells a match (`:`) from context (`-`).
    fn add_line(&mut self, mark: char, number: Option<u64>, bytes: &[u8]) -> bool {
        let line = String::from_utf8_lossy(without_line_end(bytes));
        let shown = clipped(&line);
        let text = match number.filter(|_| self.numbers) {
            Some(number) => format!("{}{mark}{number}{mark}{shown}", self.path),
            None => format!("{}{mark}{shown}", self.path),
        };
        self.add(&text)
    }

    pub(super) fn finish(self) -> ToolOutput {
        let mut text = self.text;
        if text.is_empty() {
            text.push_str("[no matches]");
        }
        match self.cut {
            None => {}
            Some(Cut::Entries) => text.push_str("[more was found; the result ends at `head_limit`]"),
            Some(Cut::Bytes) => text.push_str(
                "[more was found; the result ends at its size limit: narrow the search by `path`, `glob` or `type`]",
            ),
        }
        if self.skipped > 0 {
            let files = if self.skipped == 1 { "file" } else { "files" };
            let _ = write!(text, "\n[{} {files} could not be searched]", self.skipped);
        }
        let mut response = json!({
            "mode": self.mode.name(),
            "numFiles": self.filenames.len(),
            "filenames": self.filenames,
        });
        match self.mode {
            Mode::Content => {
                response["content"] = json!(text);
                response["numLines"] = json!(self.lines);
            }
            Mode::Count => {
                response["content"] = json!(text);
                response["numMatches"] = json!(self.matches);
            }
            Mode::FilesWithMatches => {}
        }
        ToolOutput {
            text,
            response: Some(response),
            ..ToolOutput::default()
        }
    }
}

impl Sink for &mut Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.mode {
            Mode::FilesWithMatches => {
                self.in_file = 1;
                // One match is enough to name the file.
                Ok(false)
            }
            Mode::Count => {
                self.in_file += found.lines().count() as u64;
                Ok(true)
            }
            Mode::Content => {
                let first = found.line_number();
                for (line, index) in found.lines().zip(0..) {
                    if !self.add_line(':', first.map(|first| first + index), line) {
                        return Ok(false);
                    }
                    self.in_file += 1;
                }
                Ok(true)
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.add_line('-', context.line_number(), context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.add("--"))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn clipped(line: &str) -> String {
    if line.len() <= LINE_LIMIT {
        return line.to_owned();
    }
    let mut end = LINE_LIMIT;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}[... {} bytes more]",
        line.get(..end).unwrap_or_default(),
        line.len() - end
    )
}
