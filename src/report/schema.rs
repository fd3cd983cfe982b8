//! The JSON Schemas of what a run leaves: a line of a transcript, and `summary.json`. They come from the types, so the
//! comments of the fields are their descriptions.
//!
//! A transcript's schema takes every line of its format version: a field that came later may be missing, fields that nobody
//! knows yet may stand there. The schema of `summary.json` is what this version writes.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::event::Event;

use super::json::Report;

/// The schema of one line of a transcript.
#[must_use]
pub fn transcript() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let schema = settings.into_generator().into_root_schema_for::<Event>();
    titled(schema, "agent-batch transcript line")
}

/// The schema of `summary.json`.
#[must_use]
pub fn summary() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = settings
        .into_generator()
        .into_root_schema_for::<Report<'static>>();
    titled(schema, "agent-batch summary")
}

fn titled(mut schema: schemars::Schema, title: &str) -> Value {
    schema.insert("title".to_owned(), title.into());
    let mut value = schema.to_value();
    on_one_line(&mut value);
    value
}

/// Takes the comments' line breaks out of the descriptions.
fn on_one_line(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(on_one_line);
        }
        Value::Array(list) => list.iter_mut().for_each(on_one_line),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
