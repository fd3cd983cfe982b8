//! Trials as a task file writes them: a number, or a map with the number and how many of them have to pass.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use crate::outcome::Trials;

/// How often the task is run, and how many of these runs have to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialsSpec {
    /// How often it is run.
    pub count: u64,
    /// How many of them have to pass; all of them if it is not said.
    pub pass: Option<u64>,
}

/// The map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Map {
    count: u64,
    #[serde(default)]
    pass: Option<u64>,
}

impl<'de> Deserialize<'de> for TrialsSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TrialsSpec;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number, or a map with `count` and `pass`")
            }

            fn visit_u64<E: de::Error>(self, count: u64) -> Result<TrialsSpec, E> {
                Ok(TrialsSpec { count, pass: None })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TrialsSpec, A::Error> {
                let Map { count, pass } = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(TrialsSpec { count, pass })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for TrialsSpec {
    fn schema_name() -> Cow<'static, str> {
        "Trials".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number = |meaning: &str| json_schema!({ "type": "integer", "minimum": 1, "maximum": Trials::MOST, "description": meaning });
        json_schema!({
            "description": "How often the task is run, as in `5`; or a map with `count` and `pass`.",
            "anyOf": [
                number("How often the task is run; every time it has to pass."),
                {
                    "type": "object",
                    "properties": {
                        "count": number("How often the task is run."),
                        "pass": number("How many of these runs have to pass. Default: all."),
                    },
                    "required": ["count"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
