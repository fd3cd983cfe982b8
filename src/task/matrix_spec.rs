//! A matrix as a task file writes it: axes in the file's order, each with its values as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// The axes and their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MatrixSpec(pub Vec<(String, Vec<String>)>);

/// A text, a number or a boolean, as text.
struct Value(String);

impl<'de> Deserialize<'de> for MatrixSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = MatrixSpec;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of lists, as in `{ crate: [parser, lexer] }`")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<MatrixSpec, A::Error> {
                let mut axes = Vec::new();
                while let Some((name, values)) = map.next_entry::<String, Vec<Value>>()? {
                    axes.push((name, values.into_iter().map(|value| value.0).collect()));
                }
                Ok(MatrixSpec(axes))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Value;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, a number or a boolean")
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
                Ok(Value(value.to_owned()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
                Ok(Value(value.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for MatrixSpec {
    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": { "pattern": "^[A-Za-z][A-Za-z0-9_-]*$", "maxLength": 50 },
            "additionalProperties": {
                "type": "array",
                "minItems": 1,
                "items": { "type": ["string", "number", "boolean"] },
                "description": "The values of an axis.",
            },
        })
    }
}
