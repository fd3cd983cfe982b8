//! `Grep`: lines by a regular expression, with ripgrep's engine and its respect for ignore files.

mod hits;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::hits::Hits;
use super::glob::{may_show, search_root, shown};
use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::policy::{Action, Permit};
use crate::workspace::open_file;

/// Most bytes of a file that are held at once: a longer line, or a larger file in a multi-line search, is skipped.
const HEAP_LIMIT: usize = 64 * 1024 * 1024;
/// Bytes of a result that are kept for notices.
const NOTICE: usize = 300;
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
    /// `files_with_matches` (the default) gives paths, `content` lines, `count` the number of matching lines.
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
    let mut hits = Hits::new(
        mode,
        input.numbers.unwrap_or(true),
        context.output_limit.saturating_sub(NOTICE),
        input.head_limit.unwrap_or(u64::MAX),
    );

    for path in files(&root, &input)? {
        if stop.is_cancelled() {
            return Err("the search was stopped".to_owned());
        }
        if hits.is_full() {
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
            hits.skip_file();
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

#[cfg(test)]
mod tests {
    use serde_json::json;

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
