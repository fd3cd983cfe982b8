//! The file format of a script.
//!
//! YAML is a list of replies, or a map with `replies` and options; a name that ends in `.jsonl` means one reply a line. An
//! unknown key, a contradiction or a wrong type is an error with line and column: a script is a test, and a test that is
//! read differently than it was written proves nothing.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::fault::Fault;
use crate::usage::{ModelFacts, Price, Usage, Usd};

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

/// One reply.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) said: Said,
    pub(super) stop_reason: Stop,
    pub(super) stop_sequence: Option<String>,
    pub(super) stop_details: Option<Value>,
    pub(super) usage: UsageSpec,
    pub(super) delay: Duration,
    pub(super) chunks: Vec<String>,
    pub(super) fault: Option<Fault>,
    pub(super) expect: Vec<String>,
    repeat: Repeat,
}

/// What a reply says.
#[derive(Debug, Clone)]
pub(super) enum Said {
    /// Blocks, verbatim.
    Blocks(Vec<Value>),
    /// The usual parts, in this order.
    Parts {
        thinking: Option<String>,
        text: Option<String>,
        calls: Vec<CallSpec>,
    },
}

/// The stop reason.
#[derive(Debug, Clone, Default)]
pub(super) enum Stop {
    /// It follows from the reply.
    #[default]
    Unsaid,
    /// As the script says, `null` included.
    Said(Option<String>),
}

/// How many steps an entry answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Times(usize),
    Forever,
}

/// A tool call of a script.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallSpec {
    pub(super) name: String,
    #[serde(default = "no_input")]
    pub(super) input: Value,
    pub(super) id: Option<String>,
}

/// Counts that replace the estimate.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_field_names,
    reason = "these are the names of the Messages API"
)]
pub(super) struct UsageSpec {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// An entry exactly as a file may write it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EntrySpec {
    text: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallSpec>,
    thinking: Option<String>,
    blocks: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "stop")]
    stop_reason: Stop,
    stop_sequence: Option<String>,
    stop_details: Option<Value>,
    #[serde(default)]
    usage: UsageSpec,
    #[serde(default, deserialize_with = "duration")]
    delay: Option<Duration>,
    #[serde(default)]
    chunks: Vec<String>,
    fault: Option<Fault>,
    #[serde(default, deserialize_with = "one_or_many")]
    expect: Vec<String>,
    #[serde(default)]
    repeat: Repeat,
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
        let mut text = String::new();
        File::open(path)
            .and_then(|opened| opened.take(SIZE_LIMIT + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(format!("the script cannot be read: {error}")))?;
        if text.len() as u64 > SIZE_LIMIT {
            return Err(unreadable(format!(
                "the script is larger than {SIZE_LIMIT} bytes"
            )));
        }
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

impl Entry {
    /// Whether it answers more than one step, so that its texts may hold the step's number.
    pub(super) fn repeats(&self) -> bool {
        self.repeat != Repeat::Times(1)
    }

    fn of(spec: EntrySpec) -> Result<Self, String> {
        let has_parts = spec.text.is_some()
            || spec.thinking.is_some()
            || !spec.tool_calls.is_empty()
            || !spec.chunks.is_empty();
        let says_nothing = !has_parts && spec.blocks.is_none();
        if says_nothing && spec.fault.is_none() && matches!(spec.stop_reason, Stop::Unsaid) {
            return Err("a reply says nothing; expected `text`, `tool_calls`, `thinking`, `blocks`, `fault` or `stop_reason`".to_owned());
        }
        let joined = spec.chunks.concat();
        let said = match (spec.blocks, spec.text) {
            (Some(_), _) if has_parts => {
                return Err("`blocks` is the whole reply; `text`, `thinking`, `tool_calls` and `chunks` cannot stand beside it".to_owned());
            }
            (Some(blocks), _) => Said::Blocks(blocks),
            (None, Some(text)) if !spec.chunks.is_empty() && joined != text => {
                return Err(format!(
                    "`chunks` joined give `{joined}`, and `text` is `{text}`; leave `text` out"
                ));
            }
            (None, text) => Said::Parts {
                thinking: spec.thinking,
                text: text.or((!spec.chunks.is_empty()).then_some(joined)),
                calls: spec.tool_calls,
            },
        };
        let fault = spec.fault.map(|mut fault| {
            // A fault alone strikes for ever; with a reply beside it, once.
            if !says_nothing {
                fault.times.get_or_insert(1);
            }
            fault
        });
        Ok(Self {
            said,
            stop_reason: spec.stop_reason,
            stop_sequence: spec.stop_sequence,
            stop_details: spec.stop_details,
            usage: spec.usage,
            delay: spec.delay.unwrap_or_default(),
            chunks: spec.chunks,
            fault,
            expect: spec.expect,
            repeat: spec.repeat,
        })
    }
}

impl UsageSpec {
    /// The counts that the script names, and the estimate for the rest.
    pub(super) fn over(self, estimate: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.unwrap_or(estimate.input_tokens),
            cache_creation_input_tokens: self.cache_creation_input_tokens.unwrap_or(0),
            cache_read_input_tokens: self.cache_read_input_tokens.unwrap_or(0),
            output_tokens: self.output_tokens.unwrap_or(estimate.output_tokens),
        }
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

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

fn stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stop, D::Error> {
    Option::deserialize(deserializer).map(Stop::Said)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|error| {
        D::Error::custom(format!(
            "expected a time such as `200ms` or `0s`, found `{text}` ({error})"
        ))
    })
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct OneOrMany;

    impl<'de> Visitor<'de> for OneOrMany {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a list of texts")
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }

    deserializer.deserialize_any(OneOrMany)
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimesOrForever;

        impl Visitor<'_> for TimesOrForever {
            type Value = Repeat;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of steps from 1 or `forever`")
            }

            fn visit_u64<E: Error>(self, times: u64) -> Result<Repeat, E> {
                match usize::try_from(times) {
                    Ok(times) if times > 0 => Ok(Repeat::Times(times)),
                    _ => Err(E::invalid_value(
                        serde::de::Unexpected::Unsigned(times),
                        &self,
                    )),
                }
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<Repeat, E> {
                if word == "forever" {
                    return Ok(Repeat::Forever);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(word), &self))
            }
        }

        deserializer.deserialize_any(TimesOrForever)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reply;

        impl<'de> Visitor<'de> for Reply {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reply, which is a map with keys such as `text` and `tool_calls`")
            }

            // Contradictions are found in here, since the parser adds the place to what a visitor returns.
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                let spec = EntrySpec::deserialize(MapAccessDeserializer::new(map))?;
                Entry::of(spec).map_err(A::Error::custom)
            }
        }

        deserializer.deserialize_map(Reply)
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
