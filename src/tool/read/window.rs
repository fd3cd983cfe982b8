//! Some lines of a file that streams by, and counts of all.

use std::io;

use sha2::{Digest as _, Sha256};

use crate::tool::seen::Hash;

/// Most bytes of one line.
pub(super) const LINE_LIMIT: usize = 2000;
/// Bytes in which a NUL makes a file binary.
const PROBE: usize = 8 * 1024;

/// Reads to the end; `None` for a binary file.
pub(super) fn scan(mut file: impl io::Read, window: &mut Window) -> io::Result<Option<Hash>> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut position = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let chunk = buffer.get(..count).unwrap_or_default();
        if chunk.is_empty() {
            window.end_of_file();
            return Ok(Some(hasher.finalize().into()));
        }
        let probe = PROBE.saturating_sub(position).min(count);
        if chunk.iter().take(probe).any(|byte| *byte == 0) {
            return Ok(None);
        }
        position = position.saturating_add(count);
        hasher.update(chunk);
        window.push(chunk);
    }
}

/// The lines that are shown, and counts of all.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Number of the first line.
    first: u64,
    /// Number of the first line after the window.
    end: u64,
    /// Bytes of text that may still be added.
    room: usize,
    /// Lines that are complete.
    pub(super) line: u64,
    /// Lines shown.
    pub(super) shown: u64,
    /// No more room.
    full: bool,
    /// Lines that end with CRLF.
    pub(super) crlf: u64,
    /// Bytes were not UTF-8.
    pub(super) lossy: bool,
    /// The start of the current line.
    current: Vec<u8>,
    /// Its length.
    length: usize,
    /// Its last byte.
    last: u8,
    /// With numbers.
    pub(super) text: String,
    /// Without.
    pub(super) content: String,
}

impl Window {
    /// A window of `lines` lines from `first`, with room for so many bytes.
    pub(super) fn new(first: u64, lines: u64, room: usize) -> Self {
        Self {
            first,
            end: first.saturating_add(lines),
            room,
            ..Self::default()
        }
    }

    fn push(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = chunk.split_at(end);
            self.extend(line);
            self.crlf += u64::from(self.last == b'\r');
            self.end_of_line();
            chunk = rest.get(1..).unwrap_or_default();
        }
        self.extend(chunk);
    }

    fn extend(&mut self, part: &[u8]) {
        self.length += part.len();
        self.last = part.last().copied().unwrap_or(self.last);
        let wanted = (self.first..self.end).contains(&(self.line + 1)) && !self.full;
        if wanted {
            // One byte more than is shown, so that a character at the cut is seen to be incomplete.
            let room = (LINE_LIMIT + 4).saturating_sub(self.current.len());
            self.current
                .extend_from_slice(part.get(..room.min(part.len())).unwrap_or(part));
        }
    }

    fn end_of_file(&mut self) {
        if self.length > 0 {
            self.end_of_line();
        }
    }

    fn end_of_line(&mut self) {
        self.line += 1;
        let wanted = (self.first..self.end).contains(&self.line) && !self.full;
        if wanted {
            self.show();
        }
        self.current.clear();
        self.length = 0;
        self.last = 0;
    }

    fn show(&mut self) {
        let whole = self.length == self.current.len();
        if whole && self.current.last() == Some(&b'\r') {
            self.current.pop();
        }
        let line = String::from_utf8_lossy(&self.current);
        let mut end = line.len();
        let cut = self.length > LINE_LIMIT && end > LINE_LIMIT;
        if cut {
            end = LINE_LIMIT;
            while !line.is_char_boundary(end) {
                end -= 1;
            }
        }
        let shown = line.get(..end).unwrap_or_default();
        let note = if cut {
            format!("[... {} bytes more]", self.length - end)
        } else {
            String::new()
        };
        let numbered = format!("{:>6}\t{shown}{note}\n", self.line);
        if numbered.len() > self.room && self.shown > 0 {
            self.full = true;
            return;
        }
        self.lossy |= shown.contains('\u{fffd}');
        self.room = self.room.saturating_sub(numbered.len());
        self.shown += 1;
        self.text.push_str(&numbered);
        self.content.push_str(shown);
        self.content.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl io::Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(buffer.len());
            io::Read::read(&mut self.0, &mut buffer[..count])
        }
    }

    proptest! {
        #[test]
        fn the_window_shows_the_lines_that_are_there(
            text in "([aä🦀]{0,5}(\r\n|\n|\r)?){0,12}",
            first in 1_usize..8,
            limit in 1_usize..8,
            chunk in 1_usize..9,
        ) {
            let mut window = Window::new(first as u64, limit as u64, 10_000);
            let hash = scan(Slow(text.as_bytes(), chunk), &mut window).unwrap();
            let lines: Vec<&str> = text
                .split_terminator('\n')
                .map(|line| line.strip_suffix('\r').unwrap_or(line))
                .collect();
            let expected: Vec<String> = lines
                .iter()
                .zip(1_u64..)
                .skip(first - 1)
                .take(limit)
                .map(|(line, number)| format!("{number:>6}\t{line}\n"))
                .collect();
            prop_assert_eq!(window.text, expected.concat());
            prop_assert_eq!(window.line, lines.len() as u64);
            prop_assert_eq!(window.crlf, text.matches("\r\n").count() as u64);
            prop_assert_eq!(hash.unwrap(), crate::tool::seen::hash(text.as_bytes()));
        }
    }
}
