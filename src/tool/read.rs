//! `Read`: a text file, or some lines of it, with line numbers.
//!
//! The file streams through: its hash and number of lines are of the whole, but only the window is held in memory.

use std::fmt::Write as _;
use std::io::{self, Read as _};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::seen::Hash;
use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::policy::{Action, Permit};
use crate::workspace::open_file;

/// Larger files are not read at all, in bytes.
const FILE_LIMIT: u64 = 256 * 1024 * 1024;
/// Lines shown when the input does not say.
const DEFAULT_LINES: u64 = 2000;
/// Most bytes of one line.
const LINE_LIMIT: usize = 2000;
/// Bytes in which a NUL makes a file binary.
const PROBE: usize = 8 * 1024;
/// Bytes of a result that are kept for notices.
const NOTICE: usize = 300;

/// See the module.
pub(super) struct Read;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file: absolute, or relative to the workspace.
    file_path: String,
    /// Number of the first line to read, from 1. Default: 1.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Number of lines to read. Default: 2000.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    fn name(&self) -> &'static str {
        "Read"
    }

    fn description(&self) -> &'static str {
        "Reads a text file. Every line of the result is its number, a tab and its content; lines over 2000 bytes are \
         cut. Without `offset` and `limit` the first 2000 lines are shown, or fewer when they are long; a notice then \
         says where to go on. A file has to be read before Edit or Write may change it."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Read {
            path: input::string(input, "file_path").unwrap_or_default(),
        }
    }

    fn is_read_only(&self, _input: &Value) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Value) -> bool {
        true
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        target::blocking(permit, context, |permit, context, _stop| {
            read(permit, context)
        })
        .await
    }
}

fn read(permit: &Permit, context: &ToolContext) -> Result<ToolOutput, String> {
    let input: Input = input::parse(permit.input())?;
    let path = input.file_path.as_str();
    let facts = target::existing_file(permit, path)?;
    let file = open_file(&facts.physical).map_err(|error| error.to_string())?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size > FILE_LIMIT {
        return Err(format!(
            "`{path}` has {size} bytes, more than the {FILE_LIMIT} that can be read; search it with Grep"
        ));
    }

    let first = input.offset.unwrap_or(1).max(1);
    let mut window = Window {
        first,
        end: first.saturating_add(input.limit.unwrap_or(DEFAULT_LINES)),
        room: context
            .output_limit
            .saturating_sub(NOTICE)
            .max(LINE_LIMIT + 100),
        ..Window::default()
    };
    let whole =
        scan(file.take(FILE_LIMIT), &mut window).map_err(|error| format!("`{path}`: {error}"))?;
    let Some(hash) = whole else {
        return Err(format!(
            "`{path}` is a binary file of {size} bytes; only text can be read"
        ));
    };
    context.seen.remember(&facts.physical, hash);

    let total = window.line;
    let last = first + window.shown.saturating_sub(1);
    let mut text = window.text;
    if total == 0 {
        text = format!("[`{path}` exists and is empty]");
    } else if window.shown == 0 {
        text = format!(
            "[`{path}` has {total} {}; offset {first} is past its end]",
            lines(total)
        );
    } else {
        if last < total {
            let _ = write!(
                text,
                "[lines {first} to {last} of {total}; go on with offset {}]",
                last + 1
            );
        }
        if window.crlf == total {
            text.push_str("[every line ends with CRLF]");
        }
        if window.lossy {
            text.push_str("[not valid UTF-8; the bytes that are not are shown as \u{fffd}]");
        }
    }
    Ok(ToolOutput {
        text,
        response: Some(json!({
            "type": "text",
            "file": {
                "filePath": facts.lexical,
                "content": window.content,
                "numLines": window.shown,
                "startLine": first,
                "totalLines": total,
            },
        })),
        ..ToolOutput::default()
    })
}

fn lines(count: u64) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

/// Reads to the end; `None` for a binary file.
fn scan(mut file: impl io::Read, window: &mut Window) -> io::Result<Option<Hash>> {
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
struct Window {
    /// Number of the first line.
    first: u64,
    /// Number of the first line after the window.
    end: u64,
    /// Bytes of text that may still be added.
    room: usize,
    /// Lines that are complete.
    line: u64,
    /// Lines shown.
    shown: u64,
    /// No more room.
    full: bool,
    /// Lines that end with CRLF.
    crlf: u64,
    /// Bytes were not UTF-8.
    lossy: bool,
    /// The start of the current line.
    current: Vec<u8>,
    /// Its length.
    length: usize,
    /// Its last byte.
    last: u8,
    /// With numbers.
    text: String,
    /// Without.
    content: String,
}

impl Window {
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
    use super::*;
    use crate::tool::fixture::Fixture;

    #[tokio::test]
    async fn lines_are_numbered() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "one\ntwo\r\nthree");
        let output = fixture.call("Read", json!({"file_path": "a.txt"})).await;
        assert_eq!(output.text, "     1\tone\n     2\ttwo\n     3\tthree\n");
        assert!(!output.is_error);
        let file = &output.response.unwrap()["file"];
        assert_eq!(file["totalLines"], 3);
        assert_eq!(file["filePath"], fixture.path("a.txt").to_str().unwrap());
    }

    #[tokio::test]
    async fn a_window_says_where_to_go_on() {
        let fixture = Fixture::new();
        fixture.write("a.txt", &"x\n".repeat(10));
        let output = fixture
            .call(
                "Read",
                json!({"file_path": fixture.path("a.txt"), "offset": 3, "limit": 2}),
            )
            .await;
        assert_eq!(
            output.text,
            "     3\tx\n     4\tx\n[lines 3 to 4 of 10; go on with offset 5]"
        );
        let output = fixture
            .call("Read", json!({"file_path": "a.txt", "offset": 11}))
            .await;
        assert_eq!(
            output.text,
            "[`a.txt` has 10 lines; offset 11 is past its end]"
        );
        assert!(!output.is_error);
    }

    #[tokio::test]
    async fn a_huge_file_is_shown_in_pages_that_fit() {
        let fixture = Fixture::new();
        let line = format!("{}\n", "ä".repeat(40));
        fixture.write("big.log", &line.repeat(200_000));
        let output = fixture.call("Read", json!({"file_path": "big.log"})).await;
        assert!(
            output.text.len() <= fixture.context().output_limit,
            "{}",
            output.text.len()
        );
        assert!(
            output.text.contains(" of 200000; go on with offset "),
            "{}",
            output.text
        );
        let output = fixture
            .call("Read", json!({"file_path": "big.log", "offset": 199_999}))
            .await;
        assert!(output.text.starts_with("199999\t"));
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_at_a_character() {
        let fixture = Fixture::new();
        fixture.write("long", &format!("a{}", "ä".repeat(100_000)));
        let output = fixture.call("Read", json!({"file_path": "long"})).await;
        assert!(
            output.text.contains("[... 198002 bytes more]"),
            "{}",
            &output.text[1990..]
        );
        assert!(!output.text.contains('\u{fffd}'));
    }

    #[tokio::test]
    async fn what_is_no_text_is_said_so() {
        let fixture = Fixture::new();
        std::fs::write(fixture.path("bin"), b"\x7fELF\0\0").unwrap();
        fixture.write("empty", "");
        std::fs::write(fixture.path("latin"), b"caf\xe9\n").unwrap();
        let output = fixture.call("Read", json!({"file_path": "bin"})).await;
        assert!(
            output.is_error && output.text.contains("binary"),
            "{}",
            output.text
        );
        let output = fixture.call("Read", json!({"file_path": "empty"})).await;
        assert_eq!(
            (output.text.as_str(), output.is_error),
            ("[`empty` exists and is empty]", false)
        );
        let output = fixture.call("Read", json!({"file_path": "latin"})).await;
        assert!(output.text.contains("not valid UTF-8"), "{}", output.text);
    }

    #[tokio::test]
    async fn only_regular_files_are_read() {
        let fixture = Fixture::new();
        std::fs::create_dir(fixture.path("dir")).unwrap();
        std::os::unix::fs::symlink("nowhere", fixture.path("dangling")).unwrap();
        for (path, word) in [
            ("dir", "directory"),
            ("missing", "does not exist"),
            ("dangling", "points nowhere"),
            ("/dev/zero", "device"),
            ("", "nothing could be found out"),
        ] {
            let output = fixture.call("Read", json!({"file_path": path})).await;
            assert!(
                output.is_error && output.text.contains(word),
                "{path}: {}",
                output.text
            );
        }
    }
}
