//! The table of a task's tools, and the check of their inputs.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::Tool;
use super::mismatch::{mismatches, shown};

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
        let found = mismatches(&entry.validator, input);
        if found.is_empty() {
            return Ok(());
        }
        let text = found.join("\n- ");
        Err(format!(
            "the input does not fit the schema of `{name}`:\n- {text}"
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
