//! The file format of a script.
//!
//! YAML is a list of replies, or a map with `replies` and options; a name that ends in `.jsonl` means one reply a line:
//!
//! ```yaml
//! price: { input: 3, output: 15 }     # dollars per million tokens; default: free
//! context_window: 200000              # tokens
//! retry_delay: 0s                     # replaces every wait of a retry
//! replies:
//!   - text: I read the file first.
//!     tool_calls: [{ name: Read, input: { file_path: src/lib.rs } }]
//!   - expect: pub fn                  # the results must hold this, or the call fails
//!     fault: { status: 429, retry_after: 2, times: 2 }
//!     chunks: [All, " done."]         # the text, as it streams
//!     usage: { input_tokens: 1200 }   # what is not said is estimated
//!   - tool_calls: [{ name: Bash, input: { command: "true {{ step }}" } }]
//!     repeat: forever                 # or a number; `{{ step }}` is filled in
//! ```
//!
//! Further keys of a reply: `thinking`, `blocks` (raw, the whole content), `stop_reason` (any text or null), `stop_sequence`,
//! `stop_details`, `delay`, and `id` in a call. A fault alone strikes for ever, with a reply beside it once.
//!
//! An unknown key, a contradiction or a wrong type is an error with line and column: a script is a test, and a test that is
//! read differently than it was written proves nothing.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::entry::{Entry, Repeat, duration};
use crate::usage::{ModelFacts, Price, Usd};

/// Most bytes of a script.
const SIZE_LIMIT: u64 = 4 * 1024 * 1024;

/// The window of a scripted model that names none, in tokens.
const CONTEXT_WINDOW: u64 = 1_000_000;

/// Most output tokens of a scripted model.
const MAX_OUTPUT_TOKENS: u64 = 128_000;

/// The replies of a scripted model.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file's name, for messages.
    pub(super) file: String,
    pub(super) facts: ModelFacts,
    /// Replaces every wait of a retry.
    pub(super) retry_delay: Option<Duration>,
    entries: Vec<Entry>,
}

/// A script that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The script.
    pub file: String,
    /// Line and column, from 1, where the error has a place.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub message: String,
}

impl std::error::Error for ScriptError {}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// A file exactly as it may be written, a bare list being its `replies`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSpec {
    replies: Vec<Entry>,
    price: Option<PriceSpec>,
    context_window: Option<u64>,
    #[serde(default, deserialize_with = "duration")]
    retry_delay: Option<Duration>,
}

/// Dollars per million tokens.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceSpec {
    input: Usd,
    output: Usd,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is no script.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let file = path.display().to_string();
        let unreadable = |message: String| ScriptError {
            file: file.clone(),
            place: None,
            message,
        };
        let text = crate::file::read_text(path, SIZE_LIMIT)
            .map_err(|error| unreadable(format!("the script cannot be read: {error}")))?;
        Self::parse(&file, &text)
    }

    /// Reads a script from text. `file` is named in messages; its ending tells JSONL from YAML.
    ///
    /// # Errors
    /// The text is no script.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let is_jsonl = Path::new(file)
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
        let spec = if is_jsonl {
            lines(file, text)
        } else {
            yaml(file, text)
        }?;
        let wrong = |message: &str| ScriptError {
            file: file.to_owned(),
            place: None,
            message: message.to_owned(),
        };
        if spec.replies.is_empty() {
            return Err(wrong("expected at least one reply, found none"));
        }
        let endless = spec
            .replies
            .iter()
            .position(|entry| entry.repeat == Repeat::Forever);
        if endless.is_some_and(|place| place + 1 < spec.replies.len()) {
            return Err(wrong(
                "a reply stands after one with `repeat: forever` and would never be given",
            ));
        }
        Ok(Self {
            file: file.to_owned(),
            facts: facts(spec.price.as_ref(), spec.context_window),
            retry_delay: spec.retry_delay,
            entries: spec.replies,
        })
    }

    /// The entry for a step, from 0.
    pub(super) fn entry(&self, step: usize) -> Option<&Entry> {
        let mut left = step;
        for entry in &self.entries {
            match entry.repeat {
                Repeat::Times(times) if left >= times => left -= times,
                Repeat::Times(_) | Repeat::Forever => return Some(entry),
            }
        }
        None
    }

    /// How many steps the script answers, repeats counted.
    pub(super) fn steps(&self) -> usize {
        self.entries
            .iter()
            .fold(0, |sum, entry| match entry.repeat {
                Repeat::Times(times) => sum.saturating_add(times),
                Repeat::Forever => usize::MAX,
            })
    }
}

fn yaml(file: &str, text: &str) -> Result<FileSpec, ScriptError> {
    serde_yaml::from_str(text)
        .map(|ListOrMap(spec)| spec)
        .map_err(|error| {
            let place = error.location().map(|at| (at.line(), at.column()));
            let (line, column) = place.unwrap_or_default();
            ScriptError {
                file: file.to_owned(),
                place,
                message: without_place(&error.to_string(), line, column),
            }
        })
}

fn lines(file: &str, text: &str) -> Result<FileSpec, ScriptError> {
    let mut replies = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        replies.push(serde_json::from_str(line).map_err(|error| ScriptError {
            file: file.to_owned(),
            place: Some((index + 1, error.column().max(1))),
            message: without_place(&error.to_string(), error.line(), error.column()),
        })?);
    }
    Ok(FileSpec {
        replies,
        price: None,
        context_window: None,
        retry_delay: None,
    })
}

/// A parser's message without the place that it ends in; ours stands in front.
fn without_place(message: &str, line: usize, column: usize) -> String {
    let place = format!(" at line {line} column {column}");
    message.strip_suffix(&place).unwrap_or(message).to_owned()
}

/// A script without a price costs nothing, which is a known price.
fn facts(price: Option<&PriceSpec>, context_window: Option<u64>) -> ModelFacts {
    // Nano-dollars a token are thousandths of dollars per million tokens; a cache write is 1.25 and a read 0.1 of an
    // input token, as with a real model.
    let a_token = |per_million: Usd| per_million.nanos() / 1_000_000;
    let input = price.map_or(0, |price| a_token(price.input));
    ModelFacts {
        price: Price {
            input,
            cache_write: input.saturating_add(input / 4),
            cache_read: input / 10,
            output: price.map_or(0, |price| a_token(price.output)),
        },
        context_window: context_window.unwrap_or(CONTEXT_WINDOW),
        max_output_tokens: MAX_OUTPUT_TOKENS,
    }
}

/// Either form of a YAML script. A visitor and not an untagged enum, since that would lose the place of an error.
struct ListOrMap(FileSpec);

impl<'de> Deserialize<'de> for ListOrMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = FileSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of replies, or a map with `replies`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<FileSpec, A::Error> {
                Ok(FileSpec {
                    replies: Vec::deserialize(SeqAccessDeserializer::new(seq))?,
                    price: None,
                    context_window: None,
                    retry_delay: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FileSpec, A::Error> {
                FileSpec::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Either).map(ListOrMap)
    }
}
