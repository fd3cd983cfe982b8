//! `output`: the structured answer that `output_schema` demands was given, and says what the task demands.
//!
//! The tool that takes the answer has validated it; it is validated again here, because what counts is what lies there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::shape::Shape;
use super::{
    Build, Check, CheckContext, Finding, Problem, QUICK, SchemaSpec, TimeSpan, World, time_limit,
};
use crate::file;

/// The largest answer that is read, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;

/// Looks at the structured answer that `output_schema` demands. It must have been given and fit that schema, and all that
/// is given here must hold. A task with `output_schema` has this check without being told.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// The answer has these values: by JSON Pointer, as in `/severity: high`.
    pub json: Option<BTreeMap<String, Value>>,
    /// The answer fits this JSON Schema too, which can be narrower than `output_schema`.
    pub schema: Option<SchemaSpec>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

#[derive(Debug)]
struct Output {
    /// What the task itself demands.
    promised: Shape,
    further: Shape,
    time_limit: Duration,
}

impl Build for OutputSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        let Some(schema) = world.output_schema else {
            return Err(vec![Problem {
                is_lack: false,
                ..Problem::whole(
                    "the task has no `output_schema`, so there is no structured answer",
                    "add `output_schema` to the task, or look at the text with `reply`",
                )
            }]);
        };
        let time_limit = time_limit(self.timeout, QUICK, &mut problems);
        let further = Shape::new(
            self.schema,
            ("json", self.json),
            world.directory,
            &mut problems,
        );
        if !problems.is_empty() {
            return Err(problems);
        }
        // What is wrong with it was said where it stands.
        let promised = Some(SchemaSpec(schema.clone()));
        let promised = Shape::new(promised, ("", None), world.directory, &mut Vec::new());
        Ok(Arc::new(Output {
            promised,
            further,
            time_limit,
        }))
    }
}

#[async_trait]
impl Check for Output {
    fn kind(&self) -> &'static str {
        "output"
    }

    fn title(&self) -> String {
        let mut demands = vec!["was given".to_owned()];
        demands.extend(self.further.titles());
        format!("the structured answer {}", demands.join(" and "))
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        match &context.output {
            Some(path) => self.look(path),
            None => Finding::errored("the task demands no structured answer"),
        }
    }
}

impl Output {
    fn look(&self, path: &Path) -> Finding {
        match file::read_text(path, LARGEST) {
            Ok(text) => self.judge(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding::failed(
                "the model did not call `StructuredOutput`, so there is no structured answer",
            ),
            Err(error) => {
                Finding::errored(format!("the structured answer cannot be read: {error}"))
            }
        }
    }

    fn judge(&self, text: &str) -> Finding {
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                return Finding::errored(format!("the structured answer is not JSON: {error}"));
            }
        };
        let mut broken = self.promised.broken("the structured answer", &value);
        broken.extend(self.further.broken("the structured answer", &value));
        Finding::judged(&broken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::world;
    use super::*;
    use crate::event::CheckResult;
    use serde_json::json;

    #[test]
    fn an_answer_that_was_not_given_fails_and_one_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let promised = Some(SchemaSpec(json!({"required": ["a"]})));
        let check = Output {
            promised: Shape::new(promised, ("", None), dir.path(), &mut Vec::new()),
            further: Shape::default(),
            time_limit: QUICK,
        };
        let path = dir.path().join("output.json");
        assert_eq!(check.look(&path).result, CheckResult::Failed);
        for (text, result) in [
            ("{\"a\": 1}", CheckResult::Passed),
            ("{}", CheckResult::Failed),
            ("{", CheckResult::Errored),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(check.look(&path).result, result, "{text}");
        }
    }

    #[test]
    fn without_a_schema_of_the_task_there_is_no_answer_to_look_at() {
        let world = World {
            output_schema: None,
            ..world()
        };
        assert!(OutputSpec::default().build(world).is_err());
    }
}
