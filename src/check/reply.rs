//! `reply`: the model's last reply says what the task demands.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::shape::Shape;
use super::words::Words;
use super::{
    Build, Check, CheckContext, Finding, Problem, QUICK, SchemaSpec, TimeSpan, World, clipped,
    time_limit,
};

/// How much of a reply a message shows, in characters.
const SHOWN_REPLY: usize = 300;

/// Looks at the text of the model's last reply. All that is given must hold; at least one must be given.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct ReplySpec {
    /// The reply is this text, blanks around it left out.
    pub equals: Option<String>,
    /// The reply contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// This regular expression matches somewhere in the reply.
    pub matches: Option<String>,
    /// The reply does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
    /// The reply is JSON that fits this schema: the whole of it, or its only fenced code block.
    pub schema: Option<SchemaSpec>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

#[derive(Debug)]
struct Reply {
    words: Words,
    shape: Shape,
    time_limit: Duration,
}

impl Build for ReplySpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        let time_limit = time_limit(self.timeout, QUICK, &mut problems);
        let mut words = Words::new(
            self.contains,
            self.not_contains,
            self.matches,
            &mut problems,
        );
        words.equals = self.equals;
        let shape = Shape::new(self.schema, ("", None), world.directory, &mut problems);
        if words.is_empty() && shape.is_empty() && problems.is_empty() {
            problems.push(Problem::whole(
                "`reply` demands nothing",
                "give at least one of `equals`, `contains`, `matches`, `not_contains`, `schema`",
            ));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Reply {
            words,
            shape,
            time_limit,
        }))
    }
}

#[async_trait]
impl Check for Reply {
    fn kind(&self) -> &'static str {
        "reply"
    }

    fn title(&self) -> String {
        let mut demands = self.words.titles();
        demands.extend(self.shape.titles());
        format!("reply {}", demands.join(" and "))
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        self.judge(&context.reply)
    }
}

impl Reply {
    fn judge(&self, reply: &str) -> Finding {
        let mut broken = self.words.broken("the reply", reply);
        if !self.shape.is_empty() {
            match json(reply) {
                Ok(value) => broken.extend(self.shape.broken("the reply", &value)),
                Err(why) => broken.push(format!("the reply is not JSON: {why}")),
            }
        }
        if broken.is_empty() {
            return Finding::passed();
        }
        let shown = match reply.trim() {
            "" => "the reply is empty".to_owned(),
            reply => format!("the reply: {}", clipped(reply, SHOWN_REPLY)),
        };
        Finding::judged(&broken).with_details(&shown)
    }
}

/// The JSON in a reply: all of it, or what stands between its only two fences.
fn json(reply: &str) -> Result<Value, String> {
    let whole = serde_json::from_str(reply);
    let fenced = || {
        let mut parts = reply.split("```");
        let (_, inside, _) = (parts.next()?, parts.next()?, parts.next()?);
        let (language, body) = inside.split_once('\n')?;
        let is_json = language.trim().is_empty() || language.trim().eq_ignore_ascii_case("json");
        (parts.next().is_none() && is_json).then_some(body)
    };
    match (whole, fenced()) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(body)) => serde_json::from_str(body).map_err(|error| error.to_string()),
        (Err(error), None) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::world;
    use super::*;
    use crate::event::CheckResult;
    use serde_json::json;

    fn reply(json: Value) -> Reply {
        let spec: ReplySpec = serde_json::from_value(json).unwrap();
        let mut problems = Vec::new();
        let mut words = Words::new(
            spec.contains,
            spec.not_contains,
            spec.matches,
            &mut problems,
        );
        words.equals = spec.equals;
        Reply {
            words,
            shape: Shape::new(spec.schema, ("", None), world().directory, &mut problems),
            time_limit: QUICK,
        }
    }

    #[test]
    fn all_demands_must_hold_and_each_broken_one_is_named() {
        let check = reply(json!({"contains": "done", "matches": "^ok", "not_contains": "TODO"}));
        assert_eq!(check.judge("ok, done"), Finding::passed());
        let finding = check.judge("TODO");
        assert_eq!(finding.result, CheckResult::Failed);
        assert_eq!(
            finding.message,
            "the reply does not contain `done` (and 2 more)"
        );
        assert_eq!(finding.details.lines().count(), 4, "{}", finding.details);
    }

    #[test]
    fn a_schema_takes_json_alone_or_in_the_only_fence() {
        let check = reply(json!({"schema": {"required": ["a"]}}));
        for good in [
            "{\"a\": 1}",
            "So:\n```json\n{\"a\": 1}\n```\n",
            "```\n{\"a\": 1}\n```",
        ] {
            assert_eq!(check.judge(good), Finding::passed(), "{good}");
        }
        for bad in [
            "",
            "a",
            "{}",
            "```json\n{\"a\": 1}\n```\n```\n{}\n```",
            "```sh\n{\"a\": 1}\n```",
        ] {
            assert_eq!(check.judge(bad).result, CheckResult::Failed, "{bad}");
        }
    }

    #[test]
    fn a_long_reply_is_cut_in_the_message() {
        let finding = reply(json!({"contains": "x"})).judge(&"é".repeat(100_000));
        assert!(finding.details.chars().count() < 500);
    }

    #[test]
    fn a_check_that_demands_nothing_is_refused() {
        let build = |json| {
            let spec: ReplySpec = serde_json::from_value(json).unwrap();
            spec.build(world())
        };
        assert!(build(json!({})).is_err());
        assert!(build(json!({"contains": ""})).is_err());
        assert!(build(json!({"matches": "["})).is_err());
        assert!(build(json!({"equals": "yes"})).is_ok());
    }
}
