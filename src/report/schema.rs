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
    let mut schema = titled(schema, "agent-batch transcript line");
    if let Some(properties) = schema["properties"].as_object_mut() {
        // The writer's, not the event's.
        let described = "The last field: half of SHA-256 over this field of the line before and this line's bytes up to the \
                         field. Missing in all lines of transcripts from before there was one.";
        let chain = serde_json::json!({ "type": "string", "description": described, "pattern": "^[0-9a-f]{32}$" });
        properties.insert("chain".to_owned(), chain);
    }
    schema
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
