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
    schema.to_value()
}
