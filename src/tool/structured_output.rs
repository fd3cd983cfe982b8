//! `StructuredOutput`: takes the answer in the form that the task demands. It is there where the task has an
//! `output_schema`, and its input is that schema; what the model gives in is validated like any tool's input, and lands
//! beside the transcript.

use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::Value;

use super::{Tool, ToolContext, ToolOutput};
use crate::policy::{Action, Permit};
use crate::report::files;

/// The tool's name.
pub const NAME: &str = "StructuredOutput";

/// See the module.
#[derive(Debug)]
pub struct StructuredOutput {
    schema: Value,
    file: PathBuf,
}

impl StructuredOutput {
    /// A tool that takes what fits `schema` and writes it to `file`.
    #[must_use]
    pub fn new(schema: Value, file: PathBuf) -> Self {
        Self { schema, file }
    }
}

#[async_trait]
impl Tool for StructuredOutput {
    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> &'static str {
        "Gives the final answer of the task in the form that is demanded. Call it once, when the work is done, and then end \
         with a short reply. A later call replaces an earlier one. Without this call the task has no answer and fails."
    }

    fn input_schema(&self) -> Value {
        self.schema.clone()
    }

    fn action(&self, _: &Value) -> Action {
        Action::Other
    }

    /// It changes nothing that belongs to the task.
    fn is_read_only(&self, _: &Value) -> bool {
        true
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        let answer = match context.redactor.redact_serialized(permit.input().clone()) {
            Ok(answer) => answer,
            Err(error) => {
                return ToolOutput::error(format!(
                    "the answer could not be freed of secrets: {error}"
                ));
            }
        };
        let written = serde_json::to_string_pretty(&answer)
            .map_err(|error| error.to_string())
            .and_then(|text| {
                files::write(&self.file, (text + "\n").as_bytes())
                    .map_err(|error| error.to_string())
            });
        match written {
            Ok(()) => ToolOutput::text("The answer was taken. End with a short reply now."),
            Err(error) => ToolOutput::error(format!("the answer could not be written: {error}")),
        }
    }
}
