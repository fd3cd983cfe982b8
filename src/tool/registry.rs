//! The table of a task's tools, and the check of their inputs.

use std::fmt::Write as _;
use std::sync::Arc;

use jsonschema::Validator;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Value, json};

use super::Tool;

/// Most complaints about one input.
const COMPLAINTS: usize = 5;
/// Most characters of a value shown in a complaint.
const VALUE_LIMIT: usize = 80;

/// The tools of a task, in a stable order.
#[derive(Default, Clone)]
pub struct Registry {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Arc<Value>,
    /// Compiled once: every call is checked.
    validator: Arc<Validator>,
}

impl Registry {
    /// Adds a tool.
    ///
    /// # Errors
    /// The name does not match `^[a-zA-Z0-9_-]{1,64}$` or is taken, the description is empty, or the schema is not
    /// valid, not that of an object, or has `anyOf`, `oneOf` or `allOf` at its root (model APIs refuse these).
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), String> {
        let name = tool.name();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(allowed) {
            return Err(format!(
                "the tool name `{}` is not 1 to 64 letters, digits, `_` or `-`",
                shown(name)
            ));
        }
        if self.get(name).is_some() {
            return Err(format!("there is already a tool with the name `{name}`"));
        }
        if tool.description().trim().is_empty() {
            return Err(format!("the tool `{name}` has no description"));
        }
        let schema = tool.input_schema();
        if schema.get("type") != Some(&json!("object")) {
            return Err(format!(
                "the input schema of the tool `{name}` is not of `\"type\": \"object\"`"
            ));
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            if schema.get(keyword).is_some() {
                return Err(format!(
                    "the input schema of the tool `{name}` has `{keyword}` at its root, which model APIs refuse"
                ));
            }
        }
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            format!("the input schema of the tool `{name}` is not valid: {error}")
        })?;
        self.entries.push(Entry {
            tool,
            schema: Arc::new(schema),
            validator: Arc::new(validator),
        });
        Ok(())
    }

    /// Exact look-up.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.entry(name).map(|entry| &entry.tool)
    }

    /// The definitions that the model gets, in order of registration: `name`, `description`, `input_schema`.
    #[must_use]
    pub fn definitions(&self) -> Vec<Value> {
        self.entries
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.tool.name(),
                    "description": entry.tool.description(),
                    "input_schema": entry.schema.as_ref(),
                })
            })
            .collect()
    }

    /// Names in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.entries
            .iter()
            .map(|entry| entry.tool.name().to_owned())
            .collect()
    }

    /// Checks an input against the tool's schema.
    ///
    /// # Errors
    /// A text for the model: for each mismatch the JSON pointer, what was expected and what was found. An unknown
    /// tool is an error that lists the names there are.
    pub fn validate(&self, name: &str, input: &Value) -> Result<(), String> {
        let Some(entry) = self.entry(name) else {
            return Err(format!(
                "there is no tool `{}`; there are: {}",
                shown(name),
                self.names().join(", ")
            ));
        };
        let mut errors = entry.validator.iter_errors(input);
        let mut text = String::new();
        for error in errors.by_ref().take(COMPLAINTS) {
            let _ = write!(
                text,
                "\n- at {}: {}",
                place(error.instance_path().as_str(), error.kind()),
                complaint(error.kind(), error.instance())
            );
        }
        if text.is_empty() {
            return Ok(());
        }
        let more = errors.count();
        if more > 0 {
            let _ = write!(text, "\n- and {more} more");
        }
        Err(format!(
            "the input does not fit the schema of `{name}`:{text}"
        ))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.tool.name() == name)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
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
fn shown(text: &str) -> String {
    match text.char_indices().nth(VALUE_LIMIT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::policy::{Action, Permit};
    use crate::tool::{ToolContext, ToolOutput};

    struct Fake {
        name: &'static str,
        description: &'static str,
        schema: Value,
    }

    #[async_trait]
    impl Tool for Fake {
        fn name(&self) -> &str {
            self.name
        }
        fn description(&self) -> &str {
            self.description
        }
        fn input_schema(&self) -> Value {
            self.schema.clone()
        }
        fn action(&self, _input: &Value) -> Action {
            Action::Other
        }
        async fn call(&self, _permit: Permit, _context: &ToolContext) -> ToolOutput {
            ToolOutput::default()
        }
    }

    fn fake(name: &'static str, description: &'static str, schema: Value) -> Arc<dyn Tool> {
        Arc::new(Fake {
            name,
            description,
            schema,
        })
    }

    fn object() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": ["integer", "null"]},
                "mode": {"enum": ["a", "b"]},
                "nested": {"type": "object", "properties": {"deep/er": {"type": "boolean"}}},
            },
            "required": ["path"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn what_no_model_could_call_is_refused() {
        let long: &'static str = Box::leak("x".repeat(65).into_boxed_str());
        let refused = [
            fake("", "d", object()),
            fake("has space", "d", object()),
            fake("Ünicode", "d", object()),
            fake(long, "d", object()),
            fake("Ok", "  ", object()),
            fake("Ok", "d", json!({})),
            fake("Ok", "d", json!(true)),
            fake("Ok", "d", json!({"type": "string"})),
            fake("Ok", "d", json!({"type": "object", "oneOf": []})),
            fake("Ok", "d", json!({"type": "object", "anyOf": [{}]})),
            fake("Ok", "d", json!({"type": "object", "allOf": [{}]})),
            fake("Ok", "d", json!({"type": "object", "properties": 3})),
        ];
        for tool in refused {
            let mut registry = Registry::default();
            let (name, schema) = (tool.name().to_owned(), tool.input_schema());
            assert!(registry.register(tool).is_err(), "{name} {schema}");
            assert!(registry.names().is_empty());
        }
    }

    #[test]
    fn a_name_is_given_once() {
        let mut registry = Registry::default();
        registry.register(fake("One", "d", object())).unwrap();
        let error = registry.register(fake("One", "d", object())).unwrap_err();
        assert!(error.contains("`One`"), "{error}");
        assert!(registry.get("one").is_none());
        assert!(registry.get("One").is_some());
        assert!(!registry.get("One").unwrap().is_read_only(&json!({})));
        assert!(!registry.get("One").unwrap().is_concurrency_safe(&json!({})));
    }

    #[test]
    fn definitions_are_stable_and_in_order() {
        let mut registry = Registry::default();
        registry
            .register(fake("Zed", "last first", object()))
            .unwrap();
        registry.register(fake("Abc", "d", object())).unwrap();
        let once = serde_json::to_string(&registry.definitions()).unwrap();
        assert_eq!(
            once,
            serde_json::to_string(&registry.definitions()).unwrap()
        );
        assert!(once.starts_with(
            r#"[{"name":"Zed","description":"last first","input_schema":{"type":"object""#
        ));
    }

    #[test]
    fn a_complaint_names_the_pointer_the_expected_and_the_found() {
        let mut registry = Registry::default();
        registry.register(fake("One", "d", object())).unwrap();
        let complaint = |input: Value| registry.validate("One", &input).unwrap_err();
        let cases = [
            (
                json!({}),
                "at `/path`: expected a value, which is required, found none",
            ),
            (
                json!({"path": 7}),
                "at `/path`: expected string, found the number `7`",
            ),
            (
                json!({"path": "x", "limit": "y"}),
                "at `/limit`: expected integer or null, found the string `\"y\"`",
            ),
            (
                json!({"path": "x", "extra": 1}),
                "at the root: expected only properties of the schema, found `extra`",
            ),
            (
                json!({"path": "x", "mode": "c"}),
                "at `/mode`: expected one of [\"a\",\"b\"], found the string `\"c\"`",
            ),
            (
                json!({"path": "x", "nested": {"deep/er": 1}}),
                "at `/nested/deep~1er`: expected boolean, found the number `1`",
            ),
            (
                json!([1]),
                "at the root: expected object, found the array `[1]`",
            ),
        ];
        for (input, expected) in cases {
            let text = complaint(input);
            assert!(text.contains(expected), "{text}\nlacks\n{expected}");
        }
        assert_eq!(
            registry.validate("One", &json!({"path": "x", "limit": null})),
            Ok(())
        );
        let long = complaint(json!({"path": ["ä".repeat(10_000)]}));
        assert!(long.len() < 400, "{}", long.len());
    }

    #[test]
    fn an_unknown_tool_is_told_what_there_is() {
        let mut registry = Registry::default();
        registry.register(fake("One", "d", object())).unwrap();
        let error = registry.validate("one", &json!({})).unwrap_err();
        assert_eq!(error, "there is no tool `one`; there are: One");
    }
}
