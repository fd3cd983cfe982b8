//! Tool input as a model writes it: JSON that decides what a tool will do, and so is never guessed at.
//!
//! Twice the same key, nesting without end or no JSON at all: the text is kept as a JSON string, which no tool's schema
//! accepts. The call is then refused by the validation that every call passes, and the model reads why.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Deepest nesting of a tool's input.
const MAX_DEPTH: usize = 32;

/// The input object of a call; an empty text means no input, `{}`.
pub(super) fn parse(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str::<Strict>(raw) {
        Ok(Strict(value)) if depth(&value) <= MAX_DEPTH => value,
        _ => Value::String(raw.to_owned()),
    }
}

/// An input that was parsed already, held to the same rules as far as they can still be seen.
pub(super) fn check(input: Value) -> Value {
    if depth(&input) <= MAX_DEPTH {
        input
    } else {
        Value::String(input.to_string())
    }
}

/// Nesting, a plain value being 1. Bounded by the parser's own limit of recursion.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    1 + inner.unwrap_or(0)
}

/// A JSON value in which no object says the same key twice.
pub(super) struct Strict(pub(super) Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_string<E>(self, value: String) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut items = Vec::new();
                while let Some(Strict(item)) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Value::Array(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut fields = Map::new();
                while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
                    if fields.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key `{key}` stands twice")));
                    }
                    fields.insert(key, value);
                }
                Ok(Value::Object(fields))
            }
        }

        deserializer.deserialize_any(AnyValue).map(Strict)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_at_all_means_no_input() {
        assert_eq!((parse(""), parse(" \n")), (json!({}), json!({})));
    }

    #[test]
    fn plain_input_keeps_its_order_and_its_numbers() {
        let raw = r#"{"z":1,"a":[true,null,-2,1.5],"b":{"c":"台北"}}"#;
        assert_eq!(parse(raw).to_string(), raw);
    }

    #[test]
    fn what_cannot_be_trusted_stays_text() {
        let deep = format!("{}1{}", "[".repeat(40), "]".repeat(40));
        let deepest = format!("{}1{}", "[".repeat(4000), "]".repeat(4000));
        for raw in [
            "{\"a\":1,,",
            "{\"a\":1,\"a\":2}",
            "{\"x\":{\"a\":1,\"a\":1}}",
            "{\"a\":NaN}",
            "{} {}",
            &deep,
            &deepest,
        ] {
            assert_eq!(parse(raw), Value::String(raw.to_owned()));
        }
    }

    #[test]
    fn parsed_input_is_held_to_the_same_depth() {
        assert_eq!(check(json!({"a": [1]})), json!({"a": [1]}));
        let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
        assert!(check(deep).is_string());
    }

    proptest! {
        #[test]
        fn any_text_gives_a_value(raw in ".{0,60}") {
            let value = parse(&raw);
            prop_assert!(value == Value::String(raw.clone()) || serde_json::from_str::<Value>(&raw).is_ok() || raw.trim().is_empty());
        }
    }
}
