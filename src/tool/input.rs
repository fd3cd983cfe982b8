//! Inputs as types: the schema that a model gets and the value that a tool uses come from one struct.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The schema of an input type, without what models have no use for.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("title");
        root.remove("description");
    }
    strip_formats(&mut schema);
    schema
}

/// `uint64` and the like are this language's, not JSON Schema's; the minimum stands beside them.
fn strip_formats(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(Value::is_string) {
                fields.remove("format");
            }
            fields.values_mut().for_each(strip_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The input as its type. The schema was checked before; what it lets through that the type does not, such as `1.0`
/// for an integer, is an error for the model.
pub(super) fn parse<T: DeserializeOwned>(input: &Value) -> Result<T, String> {
    T::deserialize(input).map_err(|error| format!("the input is not valid: {error}"))
}

/// A string field of an input that may be anything.
pub(super) fn string(input: &Value, field: &str) -> Option<String> {
    Some(input.get(field)?.as_str()?.to_owned())
}
