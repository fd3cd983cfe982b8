//! Where a value does not fit a schema, in words: for models whose input is refused, and for people who read a check.

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

/// Most complaints about one value.
const COMPLAINTS: usize = 5;
/// Most characters of a value shown in a complaint.
const VALUE_LIMIT: usize = 80;

/// For each mismatch the JSON pointer, what was expected and what was found; the first few, and how many more there are.
#[must_use]
pub fn mismatches(validator: &Validator, value: &Value) -> Vec<String> {
    let mut errors = validator.iter_errors(value);
    let mut found: Vec<String> = errors
        .by_ref()
        .take(COMPLAINTS)
        .map(|error| {
            format!(
                "at {}: {}",
                place(error.instance_path().as_str(), error.kind()),
                complaint(error.kind(), error.instance())
            )
        })
        .collect();
    let more = errors.count();
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found
}

/// The JSON pointer; for a property that is missing, where it would be.
fn place(pointer: &str, kind: &ValidationErrorKind) -> String {
    let missing = match kind {
        ValidationErrorKind::Required { property } => property.as_str(),
        _ => None,
    };
    match missing {
        Some(name) => {
            let name = name.replace('~', "~0").replace('/', "~1");
            format!("`{}`", shown(&format!("{pointer}/{name}")))
        }
        None if pointer.is_empty() => "the root".to_owned(),
        None => format!("`{}`", shown(pointer)),
    }
}

/// What was expected and what was found.
fn complaint(kind: &ValidationErrorKind, found: &Value) -> String {
    match kind {
        ValidationErrorKind::Required { .. } => {
            "expected a value, which is required, found none".to_owned()
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected
                .iter()
                .take(COMPLAINTS)
                .map(|name| format!("`{}`", shown(name)))
                .collect();
            format!(
                "expected only properties of the schema, found {}",
                names.join(", ")
            )
        }
        ValidationErrorKind::Type { kind } => {
            let expected = match kind {
                TypeKind::Single(kind) => kind.to_string(),
                TypeKind::Multiple(kinds) => {
                    let mut kinds: Vec<String> =
                        kinds.iter().map(|kind| kind.to_string()).collect();
                    // What somebody has to write comes before what they may leave out.
                    kinds.sort_by_key(|kind| kind == "null");
                    kinds.join(" or ")
                }
            };
            format!("expected {expected}, found {}", described(found))
        }
        ValidationErrorKind::Enum { options } => format!(
            "expected one of {}, found {}",
            shown(&options.to_string()),
            described(found)
        ),
        other => format!(
            "expected a value that satisfies `{}`, found {}",
            shown(other.keyword()),
            described(found)
        ),
    }
}

fn described(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("the {kind} `{}`", shown(&value.to_string()))
}

/// A foreign text, short enough for a message.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(VALUE_LIMIT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
