//! `Grep`: lines by a regular expression, with ripgrep's engine and its respect for ignore files.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::glob::{may_show, search_root, shown};
use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::policy::{Action, Permit};
use crate::workspace::open_file;

/// Most bytes of one line in a result.
const LINE_LIMIT: usize = 500;
/// Most bytes of a file that are held at once: a longer line, or a larger file in a multi-line search, is skipped.
const HEAP_LIMIT: usize = 64 * 1024 * 1024;
/// Most lines of context on one side.
const CONTEXT_LIMIT: usize = 1000;
/// Most bytes of a compiled expression.
const REGEX_LIMIT: usize = 10 * 1024 * 1024;

/// See the module.
pub(super) struct Grep;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The regular expression, in ripgrep's syntax.
    pattern: String,
    /// The file or directory to search: absolute, or relative to the workspace. Default: the workspace.
    path: Option<String>,
    /// Only files that match this glob, such as `*.rs` or `!*_test.go`.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py`, `js`.
    r#type: Option<String>,
    /// `files_with_matches` (the default) gives paths, `content` the lines, `count` the number of matching lines of
    /// each file.
    output_mode: Option<Mode>,
    /// Ignore case.
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    /// Show line numbers with `content`. Default: true.
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    /// Lines of context after each match, with `content`.
    #[serde(rename = "-A")]
    after: Option<u64>,
    /// Lines of context before each match, with `content`.
    #[serde(rename = "-B")]
    before: Option<u64>,
    /// Lines of context on both sides, with `content`.
    #[serde(rename = "-C")]
    around: Option<u64>,
    /// Most lines or paths of the result.
    #[schemars(range(min = 1))]
    head_limit: Option<u64>,
    /// Let the expression match across lines; `.` matches line ends too.
    multiline: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::FilesWithMatches => "files_with_matches",
            Self::Content => "content",
            Self::Count => "count",
        }
    }
}

#[async_trait]
impl Tool for Grep {
    fn name(&self) -> &'static str {
        "Grep"
    }

    fn description(&self) -> &'static str {
        "Searches file contents by a regular expression (ripgrep syntax). Gives paths, matching lines with context, or \
         counts; paths are relative to the workspace and in order. Files that git ignores, binary files and `.git` are \
         not searched; hidden files are. Use this instead of `grep` in Bash."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Grep {
            root: input::string(input, "path"),
        }
    }

    fn is_read_only(&self, _input: &Value) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Value) -> bool {
        true
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        target::blocking(permit, context, grep).await
    }
}

fn grep(
    permit: &Permit,
    context: &ToolContext,
    stop: &CancellationToken,
) -> Result<ToolOutput, String> {
    let input: Input = input::parse(permit.input())?;
    let mode = input.output_mode.unwrap_or_default();
    let root = search_root(permit, input.path.as_deref())?;
    let matcher = matcher(&input)?;
    let mut searcher = searcher(&input, mode);
    let mut hits = Hits {
        mode,
        numbers: input.numbers.unwrap_or(true),
        room: context.output_limit.saturating_sub(300),
        entries_left: input.head_limit.unwrap_or(u64::MAX),
        ..Hits::default()
    };

    for path in files(&root, &input)? {
        if stop.is_cancelled() {
            return Err("the search was stopped".to_owned());
        }
        if hits.cut.is_some() {
            break;
        }
        if !may_show(permit, &path) {
            continue;
        }
        // A file that went away, or turned into a link, between walk and search is none of ours.
        let Ok(file) = open_file(&path) else {
            continue;
        };
        hits.begin_file(shown(permit, &path));
        if searcher.search_file(&matcher, &file, &mut hits).is_err() {
            hits.skipped += 1;
        }
        hits.end_file();
    }
    Ok(hits.finish())
}

fn matcher(input: &Input) -> Result<RegexMatcher, String> {
    let multiline = input.multiline.unwrap_or(false);
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .multi_line(true)
        .dot_matches_new_line(multiline)
        .size_limit(REGEX_LIMIT)
        .dfa_size_limit(REGEX_LIMIT);
    if !multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&input.pattern).map_err(|error| {
        let hint = if !multiline && input.pattern.contains("\\n") {
            "; set `multiline` to match across lines"
        } else {
            ""
        };
        format!("the pattern cannot be used: {error}{hint}")
    })
}

fn searcher(input: &Input, mode: Mode) -> Searcher {
    let side = |own: Option<u64>| {
        let lines = own.or(input.around).filter(|_| mode == Mode::Content);
        usize::try_from(lines.unwrap_or(0))
            .unwrap_or(CONTEXT_LIMIT)
            .min(CONTEXT_LIMIT)
    };
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(input.multiline.unwrap_or(false))
        .before_context(side(input.before))
        .after_context(side(input.after))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP_LIMIT))
        .build()
}

/// The files to search, in order of path. A root that is a file is searched whatever the filters say.
fn files(root: &Path, input: &Input) -> Result<impl Iterator<Item = PathBuf>, String> {
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .follow_links(false)
        .git_global(false)
        .require_git(false)
        .sort_by_file_path(Ord::cmp)
        .filter_entry(|entry| entry.file_name() != ".git");
    if let Some(glob) = &input.glob {
        let mut overrides = OverrideBuilder::new(root);
        overrides
            .add(glob)
            .and_then(|overrides| overrides.build())
            .map(|overrides| builder.overrides(overrides))
            .map_err(|error| format!("`glob` cannot be used: {error}"))?;
    }
    if let Some(name) = &input.r#type {
        TypesBuilder::new()
            .add_defaults()
            .select(name)
            .build()
            .map(|types| builder.types(types))
            .map_err(|_| format!("there is no file type `{name}`; use `glob` instead"))?;
    }
    Ok(builder
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(ignore::DirEntry::into_path))
}

/// What was found so far, bounded by entries and bytes.
#[derive(Debug, Default)]
struct Hits {
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
    fn begin_file(&mut self, path: String) {
        self.path = path;
        self.in_file = 0;
        self.binary = false;
        self.mark = self.text.len();
    }

    fn end_file(&mut self) {
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
        let line = String::from_utf8_lossy(bytes.trim_ascii_end_newline());
        let shown = clipped(&line);
        let text = match number.filter(|_| self.numbers) {
            Some(number) => format!("{}{mark}{number}{mark}{shown}", self.path),
            None => format!("{}{mark}{shown}", self.path),
        };
        self.add(&text)
    }

    fn finish(self) -> ToolOutput {
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

/// A line end less.
trait TrimNewline {
    fn trim_ascii_end_newline(&self) -> &[u8];
}

impl TrimNewline for [u8] {
    fn trim_ascii_end_newline(&self) -> &[u8] {
        let line = self.strip_suffix(b"\n").unwrap_or(self);
        line.strip_suffix(b"\r").unwrap_or(line)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::fixture::Fixture;

    fn fixture() -> Fixture {
        let fixture = Fixture::new();
        fixture.write(".gitignore", "ignored/\n");
        fixture.write("a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\n");
        fixture.write("b/c.py", "def one(): pass\n");
        fixture.write("b/.hidden", "one\n");
        fixture.write("ignored/d.rs", "fn one() {}\n");
        fixture.write(".git/config", "one\n");
        std::fs::write(fixture.path("bin"), b"one\n\0one\n").unwrap();
        fixture
    }

    #[tokio::test]
    async fn files_are_listed_in_order_and_ignored_ones_are_not() {
        let fixture = fixture();
        let output = fixture.call("Grep", json!({"pattern": "one"})).await;
        assert_eq!(output.text, "a.rs\nb/.hidden\nb/c.py\n");
        assert_eq!(output.response.unwrap()["numFiles"], 3);
    }

    #[tokio::test]
    async fn content_has_numbers_and_context() {
        let fixture = fixture();
        let input = json!({"pattern": "fn (one|two)", "output_mode": "content"});
        let output = fixture.call("Grep", input).await;
        assert_eq!(output.text, "a.rs:1:fn one() {}\na.rs:3:fn two() {}\n");
        let input = json!({"pattern": "x =", "output_mode": "content", "-C": 1, "-n": false});
        let output = fixture.call("Grep", input).await;
        assert_eq!(
            output.text,
            "a.rs-fn one() {}\na.rs:let x = 1;\na.rs-fn two() {}\n"
        );
        let input = json!({"pattern": "X =", "output_mode": "content", "-i": true, "-A": 1});
        let output = fixture.call("Grep", input).await;
        assert_eq!(output.text, "a.rs:2:let x = 1;\na.rs-3-fn two() {}\n");
    }

    #[tokio::test]
    async fn counts_and_filters() {
        let fixture = fixture();
        let output = fixture
            .call(
                "Grep",
                json!({"pattern": "fn", "output_mode": "count", "type": "rust"}),
            )
            .await;
        assert_eq!(output.text, "a.rs:2\n");
        assert_eq!(output.response.unwrap()["numMatches"], 2);
        let output = fixture
            .call("Grep", json!({"pattern": "one", "glob": "*.py"}))
            .await;
        assert_eq!(output.text, "b/c.py\n");
        let output = fixture
            .call("Grep", json!({"pattern": "one", "path": "b/c.py"}))
            .await;
        assert_eq!(output.text, "b/c.py\n");
        let output = fixture
            .call("Grep", json!({"pattern": "nothing at all"}))
            .await;
        assert_eq!(
            (output.text.as_str(), output.is_error),
            ("[no matches]", false)
        );
    }

    #[tokio::test]
    async fn lines_are_joined_only_when_asked() {
        let fixture = fixture();
        let input = json!({"pattern": r"\{\}\nlet", "output_mode": "content"});
        let output = fixture.call("Grep", input).await;
        assert!(
            output.is_error && output.text.contains("`multiline`"),
            "{}",
            output.text
        );
        let input = json!({"pattern": r"\{\}\nlet", "output_mode": "content", "multiline": true});
        let output = fixture.call("Grep", input).await;
        assert_eq!(output.text, "a.rs:1:fn one() {}\na.rs:2:let x = 1;\n");
    }

    #[tokio::test]
    async fn results_are_bounded() {
        let fixture = fixture();
        fixture.write("many", &"needle\n".repeat(10_000));
        fixture.write("wide", &format!("needle{}\n", "ä".repeat(10_000)));
        let input = json!({"pattern": "needle", "output_mode": "content", "head_limit": 2});
        let output = fixture.call("Grep", input).await;
        assert_eq!(
            output.text,
            "many:1:needle\nmany:2:needle\n[more was found; the result ends at `head_limit`]"
        );
        let output = fixture
            .call(
                "Grep",
                json!({"pattern": "needle", "output_mode": "content"}),
            )
            .await;
        assert!(output.text.len() < fixture.context().output_limit);
        assert!(output.text.ends_with("`type`]"), "{}", output.text);
        let input = json!({"pattern": "needle", "output_mode": "content", "path": "wide"});
        let output = fixture.call("Grep", input).await;
        assert!(
            output.text.len() < 600 && output.text.contains("bytes more]"),
            "{}",
            output.text
        );
    }

    #[tokio::test]
    async fn what_cannot_be_searched_for_is_an_error() {
        let fixture = fixture();
        for input in [
            json!({"pattern": "("}),
            json!({"pattern": "x", "type": "klingon"}),
            json!({"pattern": "x", "glob": "["}),
            json!({"pattern": "x", "path": "missing"}),
            json!({"pattern": "x{1000}{1000}{1000}"}),
        ] {
            let output = fixture.call("Grep", input.clone()).await;
            assert!(output.is_error, "{input}");
        }
    }
}
