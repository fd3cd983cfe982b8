//! `Edit`: one exact text in a file replaced by another.
//!
//! Everything but the replaced text stays as it is, byte for byte: line ends, a missing newline at the end, a byte
//! order mark.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::patch::patch;
use super::seen::hash;
use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::policy::{Action, Permit};
use crate::workspace::{read_file, replace_file};

/// Larger files are not edited, in bytes. The result may not be larger either.
pub(super) const FILE_LIMIT: u64 = 16 * 1024 * 1024;
/// Larger originals are left out of the structured response, in bytes.
pub(super) const ORIGINAL_LIMIT: usize = 64 * 1024;

/// See the module.
pub(super) struct Edit;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Path of the file: absolute, or relative to the workspace.
    file_path: String,
    /// The exact text to replace, without the line numbers that Read shows.
    old_string: String,
    /// The text to put in its place; must differ.
    new_string: String,
    /// Replace every occurrence. Default: false, and then there must be exactly one.
    replace_all: Option<bool>,
}

#[async_trait]
impl Tool for Edit {
    fn name(&self) -> &'static str {
        "Edit"
    }

    fn description(&self) -> &'static str {
        "Replaces an exact text in a file that was read before. `old_string` must occur exactly once, unless \
         `replace_all` is set: take enough lines around it. In a file whose lines end with CRLF, plain line ends in \
         both texts are taken as CRLF."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Edit {
            path: input::string(input, "file_path").unwrap_or_default(),
        }
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        target::blocking(permit, context, |permit, context, _stop| {
            edit(permit, context)
        })
        .await
    }
}

fn edit(permit: &Permit, context: &ToolContext) -> Result<ToolOutput, String> {
    let input: Input = input::parse(permit.input())?;
    let path = input.file_path.as_str();
    let facts = target::existing_file(permit, path)?;
    let bytes = read_file(&facts.physical, FILE_LIMIT).map_err(|error| error.to_string())?;
    target::demand_current(context, facts, path, &hash(&bytes))?;
    let old = String::from_utf8(bytes)
        .map_err(|_| format!("`{path}` is not valid UTF-8, so it cannot be edited as text"))?;
    let all = input.replace_all.unwrap_or(false);
    let (new, count) = replaced(&old, &input.old_string, &input.new_string, all)
        .map_err(|refusal| refusal.text(path))?;

    replace_file(&facts.physical, new.as_bytes()).map_err(|error| error.to_string())?;
    context.seen.remember(&facts.physical, hash(new.as_bytes()));
    let difference = patch(&old, &new);
    let places = if count == 1 { "place" } else { "places" };
    Ok(ToolOutput {
        text: format!("edited `{path}` in {count} {places}:\n{}", difference.text),
        response: Some(json!({
            "filePath": facts.lexical,
            "oldString": input.old_string,
            "newString": input.new_string,
            "originalFile": (old.len() <= ORIGINAL_LIMIT).then_some(old),
            "structuredPatch": difference.hunks,
            "userModified": false,
            "replaceAll": all,
        })),
        ..ToolOutput::default()
    })
}

/// Why nothing was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Empty,
    Same,
    NotFound,
    Ambiguous(usize),
    TooLarge,
}

impl Refusal {
    fn text(self, path: &str) -> String {
        match self {
            Self::Empty => {
                "`old_string` is empty; use Write to create a file or to replace all of it"
                    .to_owned()
            }
            Self::Same => {
                "`old_string` and `new_string` are the same; there is nothing to change".to_owned()
            }
            Self::NotFound => format!(
                "`old_string` was not found in `{path}`; it must be exactly as in the file, blanks and line ends included"
            ),
            Self::Ambiguous(count) => format!(
                "`old_string` was found {count} times in `{path}`; take more of the text around it, or set \
                 `replace_all`"
            ),
            Self::TooLarge => format!("`{path}` would become larger than {FILE_LIMIT} bytes"),
        }
    }
}

/// The new content and the number of places.
fn replaced(file: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), Refusal> {
    if old.is_empty() {
        return Err(Refusal::Empty);
    }
    if old == new {
        return Err(Refusal::Same);
    }
    let (old, new) = if has_only_crlf(file) {
        (with_crlf(old), with_crlf(new))
    } else {
        (old.to_owned(), new.to_owned())
    };
    let count = file.matches(&old).count();
    match count {
        0 => return Err(Refusal::NotFound),
        // Overlapping occurrences count as well: which one was meant is not known.
        _ if !all && overlapping(file, &old) > 1 => {
            return Err(Refusal::Ambiguous(overlapping(file, &old)));
        }
        _ => {}
    }
    let size =
        (file.len() - count * old.len()) as u64 + (count as u64).saturating_mul(new.len() as u64);
    if size > FILE_LIMIT {
        return Err(Refusal::TooLarge);
    }
    Ok((file.replace(&old, &new), count))
}

/// Occurrences that may overlap, counted up to some number that says "many".
fn overlapping(file: &str, old: &str) -> usize {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut count = 0;
    let mut rest = file;
    while let Some(at) = rest.find(old) {
        count += 1;
        if count > 1000 {
            break;
        }
        rest = rest.get(at + step..).unwrap_or_default();
    }
    count
}

fn has_only_crlf(file: &str) -> bool {
    file.contains("\r\n") && file.matches('\n').count() == file.matches("\r\n").count()
}

fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::fixture::Fixture;

    async fn edit(fixture: &Fixture, old: &str, new: &str) -> ToolOutput {
        fixture
            .call(
                "Edit",
                json!({"file_path": "a.txt", "old_string": old, "new_string": new}),
            )
            .await
    }

    async fn read(fixture: &Fixture) {
        fixture.call("Read", json!({"file_path": "a.txt"})).await;
    }

    #[tokio::test]
    async fn one_place_is_replaced_and_shown() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "one\ntwo\nthree");
        read(&fixture).await;
        let output = edit(&fixture, "two", "2").await;
        assert_eq!(fixture.read("a.txt"), "one\n2\nthree");
        assert!(!output.is_error);
        assert!(
            output.text.starts_with("edited `a.txt` in 1 place:\n@@ "),
            "{}",
            output.text
        );
        assert!(output.text.contains("\n-two\n+2\n"), "{}", output.text);
        assert_eq!(output.response.unwrap()["originalFile"], "one\ntwo\nthree");
        // What was just written is known.
        assert!(!edit(&fixture, "2", "zwei").await.is_error);
    }

    #[tokio::test]
    async fn a_file_must_be_known_as_it_is_now() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "one");
        let output = edit(&fixture, "one", "two").await;
        assert!(
            output.is_error && output.text.contains("not been read"),
            "{}",
            output.text
        );
        read(&fixture).await;
        fixture.write("a.txt", "one more");
        let output = edit(&fixture, "one", "two").await;
        assert!(
            output.is_error && output.text.contains("changed on disk"),
            "{}",
            output.text
        );
        assert_eq!(fixture.read("a.txt"), "one more");
        read(&fixture).await;
        assert!(!edit(&fixture, "one", "two").await.is_error);
    }

    #[tokio::test]
    async fn what_was_meant_must_be_clear() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "x\nx\n");
        read(&fixture).await;
        for (old, new, word) in [
            ("x", "y", "found 2 times"),
            ("z", "y", "not found"),
            ("x", "x", "the same"),
            ("", "y", "empty"),
        ] {
            let output = edit(&fixture, old, new).await;
            assert!(
                output.is_error && output.text.contains(word),
                "{}",
                output.text
            );
        }
        assert_eq!(fixture.read("a.txt"), "x\nx\n");
        let input = json!({
            "file_path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": true,
        });
        let output = fixture.call("Edit", input).await;
        assert!(output.text.contains("in 2 places"), "{}", output.text);
        assert_eq!(fixture.read("a.txt"), "y\ny\n");
    }

    #[tokio::test]
    async fn crlf_and_a_missing_newline_are_kept() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "\u{feff}one\r\ntwo\r\nthree");
        read(&fixture).await;
        assert!(!edit(&fixture, "one\ntwo", "1\n2\n2a").await.is_error);
        assert_eq!(fixture.read("a.txt"), "\u{feff}1\r\n2\r\n2a\r\nthree");
    }

    #[tokio::test]
    async fn mixed_line_ends_are_taken_as_they_are() {
        let fixture = Fixture::new();
        fixture.write("a.txt", "one\r\ntwo\nthree");
        read(&fixture).await;
        assert!(edit(&fixture, "one\ntwo", "x").await.is_error);
        assert!(!edit(&fixture, "two\nthree", "2\n3").await.is_error);
        assert_eq!(fixture.read("a.txt"), "one\r\n2\n3");
    }

    #[test]
    fn occurrences_that_overlap_are_ambiguous() {
        assert_eq!(
            replaced("aXaXa", "aXa", "b", false),
            Err(Refusal::Ambiguous(2))
        );
        assert_eq!(
            replaced("äXäXä", "äXä", "b", true),
            Ok(("bXä".to_owned(), 1))
        );
    }

    #[test]
    fn a_file_cannot_be_blown_up() {
        let file = "a".repeat(100_000);
        assert_eq!(
            replaced(&file, "a", &"b".repeat(1_000_000), true),
            Err(Refusal::TooLarge)
        );
    }
}
