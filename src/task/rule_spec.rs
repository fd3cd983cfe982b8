//! A rule as a task file writes it: a text, or a map with the text and examples of what it means.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

/// A rule, perhaps with examples that are checked when the file is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// The rule, as in `Bash(cargo test:*)`.
    pub rule: String,
    /// Calls that the rule has to match: command lines, paths, URLs or tool names, whatever its tool is given.
    pub matching: Vec<String>,
    /// Calls that it must not match.
    pub not_matching: Vec<String>,
}

impl From<&str> for RuleSpec {
    fn from(rule: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            ..Self::default()
        }
    }
}

/// The map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithExamples {
    rule: String,
    #[serde(default, rename = "match")]
    matching: Vec<String>,
    #[serde(default, rename = "not_match")]
    not_matching: Vec<String>,
}

impl<'de> Deserialize<'de> for RuleSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RuleSpec;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a rule, or a map with `rule`, `match` and `not_match`")
            }

            fn visit_str<E: de::Error>(self, rule: &str) -> Result<RuleSpec, E> {
                Ok(rule.into())
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RuleSpec, A::Error> {
                let full = WithExamples::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RuleSpec {
                    rule: full.rule,
                    matching: full.matching,
                    not_matching: full.not_matching,
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for RuleSpec {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let examples = |meaning: &str| json_schema!({ "type": "array", "items": { "type": "string" }, "description": meaning });
        json_schema!({
            "description": "A rule, as in `Edit(src/**)`; or a map with the rule and examples of what it means.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "rule": { "type": "string", "description": "The rule." },
                        "match": examples("Calls that the rule has to match; one that it does not match is an error."),
                        "not_match": examples("Calls that the rule must not match; one that it matches is an error."),
                    },
                    "required": ["rule"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
