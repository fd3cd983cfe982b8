//! One reply of a script, exactly as a file may write it ([`EntrySpec`]) and as it is played ([`Entry`]).

use std::fmt;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::fault::Fault;
use crate::usage::Usage;

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
    pub(super) repeat: Repeat,
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
pub(super) enum Repeat {
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

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

fn stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stop, D::Error> {
    Option::deserialize(deserializer).map(Stop::Said)
}

/// `200ms`, `1m 30s`; nothing stands for the key being absent.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
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
