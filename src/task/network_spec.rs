//! The network as a task file writes it: a word, or a map with the hosts that are reached.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Unexpected;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

/// What of the network is reached from the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkSpec {
    /// Nothing.
    Deny,
    /// Everything that the machine reaches.
    Allow,
    /// These hosts, as they are written.
    Hosts(Vec<String>),
}

const WORDS: &[&str] = &["deny", "allow"];

/// The map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Map {
    hosts: Vec<String>,
}

impl<'de> Deserialize<'de> for NetworkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = NetworkSpec;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`deny`, `allow`, or a map with `hosts`")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<NetworkSpec, E> {
                match word {
                    "deny" => Ok(NetworkSpec::Deny),
                    "allow" => Ok(NetworkSpec::Allow),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<NetworkSpec, A::Error> {
                let Map { hosts } = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(NetworkSpec::Hosts(hosts))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for NetworkSpec {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What of the network is reached: `deny`, `allow`, or a map with `hosts`.",
            "anyOf": [
                { "type": "string", "enum": WORDS },
                {
                    "type": "object",
                    "properties": {
                        "hosts": {
                            "type": "array",
                            "items": { "type": "string", "maxLength": 253 },
                            "description": "The hosts that are reached, by TLS on port 443 and through the runner's proxy: exact names, no wildcards, no addresses. An empty list: nothing is reached.",
                        },
                    },
                    "required": ["hosts"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}
