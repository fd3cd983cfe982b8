//! The JSON Schemas of task files and of `agent-batch.yaml`, for editors. They come from the types, so they know what
//! the loader knows of a file's form; what only the loader can know (whether a file exists, say) is not in them.

use serde_json::Value;

use super::spec::{ProjectSpec, TaskSpec};

/// The schema of a task file.
#[must_use]
pub fn schema() -> Value {
    titled(schemars::schema_for!(TaskSpec), "agent-batch task")
}

/// The schema of `agent-batch.yaml`.
#[must_use]
pub fn project_schema() -> Value {
    titled(schemars::schema_for!(ProjectSpec), "agent-batch project")
}

fn titled(mut schema: schemars::Schema, title: &str) -> Value {
    schema.insert("title".to_owned(), title.into());
    let mut value = schema.to_value();
    tidy(&mut value);
    value
}

/// Makes the schema as strict as the loader, to which an optional key may be left out and not be `null`; and takes the
/// comments' line breaks out of the descriptions.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
                choices.retain(|choice| *choice != serde_json::json!({ "type": "null" }));
            }
            if map.get("default") == Some(&Value::Null) {
                map.shift_remove("default");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
