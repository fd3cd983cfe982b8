//! What a check demands of a structured value: that it fits a JSON Schema, and what stands at places in it. Shared by
//! every check that looks at JSON or YAML.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::{Problem, clipped};
use crate::file;
use crate::tool::mismatches;

/// The largest schema file, in bytes.
const LARGEST_SCHEMA: u64 = 1024 * 1024;
/// How much of a value a message shows, in characters.
const SHOWN: usize = 120;

/// A JSON Schema in the task file, or the path of a file with one, relative to the task file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct SchemaSpec(pub Value);

impl JsonSchema for SchemaSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SchemaSpec".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["object", "boolean", "string"],
            "description": "A JSON Schema, or the path of a file with one (JSON), relative to this file.",
        })
    }
}

impl SchemaSpec {
    /// The schema itself: what stands here, or what the file holds that is named here.
    ///
    /// # Errors
    /// The file cannot be read, or is no JSON. A sentence.
    pub fn read(&self, directory: &Path) -> Result<Value, String> {
        let Value::String(name) = &self.0 else {
            return Ok(self.0.clone());
        };
        let shown = clipped(name, SHOWN);
        let text = file::read_text(&directory.join(name), LARGEST_SCHEMA)
            .map_err(|error| format!("the schema `{shown}` cannot be read: {error}"))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("the schema `{shown}` is not JSON: {error}"))
    }
}

/// Compiles a schema. Its patterns run in time linear in what they are matched against, because that is an agent's.
///
/// # Errors
/// It is no valid schema, or refers to one elsewhere: nothing is fetched. A sentence.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| {
            format!(
                "not a valid JSON Schema: {}",
                clipped(&error.to_string(), 300)
            )
        })
}

/// Demands on a value. All must hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    schema: Option<Arc<Validator>>,
    paths: BTreeMap<String, Value>,
}

impl Shape {
    /// Reads the demands: `schema`, and values by JSON Pointer (RFC 6901) under the key `field`.
    pub(super) fn new(
        schema: Option<SchemaSpec>,
        (field, paths): (&str, Option<BTreeMap<String, Value>>),
        directory: &Path,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let schema = schema.and_then(|spec| {
            let compiled = spec.read(directory).and_then(|schema| compile(&schema));
            compiled
                .map_err(|why| problems.push(Problem::field("schema", why, None)))
                .ok()
                .map(Arc::new)
        });
        let paths = paths.unwrap_or_default();
        for pointer in paths.keys() {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                let shown = clipped(pointer, SHOWN);
                let message = format!("`{shown}` is not a JSON Pointer");
                let hint = format!(
                    "a place begins with `/`, as in `/{}`",
                    shown.replace('.', "/")
                );
                problems.push(
                    Problem::field(pointer, message, Some(hint))
                        .below(super::Step::Key(field.to_owned())),
                );
            }
        }
        Self { schema, paths }
    }

    /// Whether nothing is demanded.
    pub(super) fn is_empty(&self) -> bool {
        self.schema.is_none() && self.paths.is_empty()
    }

    /// The demands in a few words.
    pub(super) fn titles(&self) -> Vec<String> {
        let mut titles = Vec::new();
        if self.schema.is_some() {
            titles.push("fits its schema".to_owned());
        }
        for (pointer, value) in self.paths.iter().take(5) {
            titles.push(format!(
                "has {} at `{}`",
                shown(value),
                clipped(pointer, 60)
            ));
        }
        if self.paths.len() > 5 {
            titles.push("…".to_owned());
        }
        titles
    }

    /// What does not hold of `value`, one sentence each; `what` names the value.
    pub(super) fn broken(&self, what: &str, value: &Value) -> Vec<String> {
        let mut broken = Vec::new();
        if let Some(schema) = &self.schema {
            let found = mismatches(schema, value);
            broken.extend(
                found
                    .into_iter()
                    .map(|one| format!("{what} does not fit its schema {one}")),
            );
        }
        for (pointer, wanted) in &self.paths {
            match value.pointer(pointer) {
                Some(found) if same(found, wanted) => {}
                Some(found) => broken.push(format!(
                    "{what} has {} at `{}`, expected {}",
                    shown(found),
                    clipped(pointer, SHOWN),
                    shown(wanted)
                )),
                None => broken.push(format!(
                    "{what} has nothing at `{}`",
                    clipped(pointer, SHOWN)
                )),
            }
        }
        broken
    }
}

/// Equal as JSON Schema compares: `1` and `1.0` are one number, the order of keys is no matter.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.as_f64() == other.as_f64() && (one.is_f64() || other.is_f64()))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

fn shown(value: &Value) -> String {
    format!("`{}`", clipped(&value.to_string(), SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(schema: Option<Value>, paths: Value) -> (Shape, Vec<Problem>) {
        let mut problems = Vec::new();
        let paths = serde_json::from_value(paths).unwrap();
        let shape = Shape::new(
            schema.map(SchemaSpec),
            ("json", Some(paths)),
            Path::new("/"),
            &mut problems,
        );
        (shape, problems)
    }

    #[test]
    fn values_are_compared_by_place_and_the_message_has_both() {
        let (shape, problems) = shape(
            None,
            json!({"/a/0": 1, "/b": {"x": 1, "y": [2]}, "/c": "z"}),
        );
        assert_eq!(problems, []);
        assert!(
            shape
                .broken(
                    "it",
                    &json!({"a": [1.0], "b": {"y": [2], "x": 1}, "c": "z"})
                )
                .is_empty()
        );
        assert_eq!(
            shape.broken("it", &json!({"a": [2], "b": null})),
            [
                "it has `2` at `/a/0`, expected `1`",
                "it has `null` at `/b`, expected `{\"x\":1,\"y\":[2]}`",
                "it has nothing at `/c`",
            ]
        );
    }

    #[test]
    fn a_schema_that_is_none_or_lies_elsewhere_is_refused() {
        for bad in [
            json!({"type": "nonsense"}),
            json!({"pattern": "("}),
            json!({"$ref": "https://example.org/schema.json"}),
            json!("no-such-file.json"),
            json!(7),
        ] {
            let (_, problems) = shape(Some(bad.clone()), json!({}));
            assert_eq!(problems.len(), 1, "{bad}");
            assert_eq!(problems[0].place(), "schema");
        }
    }

    #[test]
    fn a_path_that_is_no_pointer_is_refused_with_advice() {
        let (_, problems) = shape(None, json!({"a.b": 1}));
        assert_eq!(problems[0].place(), "json.a.b");
        assert!(problems[0].hint.as_ref().unwrap().contains("`/a/b`"));
    }

    #[test]
    fn a_pattern_is_matched_in_linear_time() {
        let (shape, problems) = shape(Some(json!({"pattern": "^(a+)+$"})), json!({}));
        assert_eq!(problems, []);
        let hostile = "a".repeat(100_000) + "b";
        assert_eq!(shape.broken("it", &json!(hostile)).len(), 1);
    }
}
