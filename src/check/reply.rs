//! `reply`: the model's last reply says what the task demands.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Build, Check, CheckContext, Finding, Problem, bad_regex, clipped};

/// How much of a reply a message shows, in characters.
const SHOWN_REPLY: usize = 300;

/// Looks at the text of the model's last reply. All that is given must hold; at least one must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct ReplySpec {
    /// The reply contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// This regular expression matches somewhere in the reply.
    pub matches: Option<String>,
    /// The reply does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
}

#[derive(Debug)]
struct Reply {
    contains: Option<String>,
    matches: Option<Regex>,
    not_contains: Option<String>,
}

impl Build for ReplySpec {
    fn build(self, _: &BTreeMap<String, String>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.contains.is_none() && self.matches.is_none() && self.not_contains.is_none() {
            problems.push(Problem::whole(
                "`reply` demands nothing",
                "give at least one of `contains`, `matches`, `not_contains`",
            ));
        }
        for (name, text) in [
            ("contains", &self.contains),
            ("not_contains", &self.not_contains),
        ] {
            if text.as_ref().is_some_and(String::is_empty) {
                let message = format!("`{name}` is empty, and every reply contains that");
                problems.push(Problem::field(name, message, None));
            }
        }
        let matches = self.matches.and_then(|pattern| {
            Regex::new(&pattern)
                .map_err(|error| problems.push(bad_regex("matches", &error)))
                .ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Reply {
            contains: self.contains,
            matches,
            not_contains: self.not_contains,
        }))
    }
}

#[async_trait]
impl Check for Reply {
    fn kind(&self) -> &'static str {
        "reply"
    }

    fn title(&self) -> String {
        let mut demands = Vec::new();
        if let Some(text) = &self.contains {
            demands.push(format!("contains `{}`", clipped(text, 60)));
        }
        if let Some(pattern) = &self.matches {
            demands.push(format!("matches `{}`", clipped(pattern.as_str(), 60)));
        }
        if let Some(text) = &self.not_contains {
            demands.push(format!("does not contain `{}`", clipped(text, 60)));
        }
        format!("reply {}", demands.join(" and "))
    }

    async fn run(&self, context: &CheckContext) -> Finding {
        let finding = self.judge(&context.reply);
        finding.redacted(&context.redactor)
    }
}

impl Reply {
    fn judge(&self, reply: &str) -> Finding {
        let mut broken = Vec::new();
        if let Some(text) = &self.contains
            && !reply.contains(text.as_str())
        {
            broken.push(format!(
                "the reply does not contain `{}`",
                clipped(text, 200)
            ));
        }
        if let Some(pattern) = &self.matches
            && !pattern.is_match(reply)
        {
            broken.push(format!("nothing in the reply matches `{pattern}`"));
        }
        if let Some(text) = &self.not_contains
            && reply.contains(text.as_str())
        {
            broken.push(format!("the reply contains `{}`", clipped(text, 200)));
        }
        if broken.is_empty() {
            return Finding::passed();
        }
        if reply.trim().is_empty() {
            broken.push("the reply is empty".to_owned());
        } else {
            broken.push(format!("the reply: {}", clipped(reply.trim(), SHOWN_REPLY)));
        }
        Finding::failed(broken.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CheckResult;

    fn reply(json: serde_json::Value) -> Reply {
        let spec: ReplySpec = serde_json::from_value(json).unwrap();
        Reply {
            contains: spec.contains,
            matches: spec.matches.map(|pattern| Regex::new(&pattern).unwrap()),
            not_contains: spec.not_contains,
        }
    }

    #[test]
    fn all_demands_must_hold_and_each_broken_one_is_named() {
        let check = reply(serde_json::json!({
            "contains": "done", "matches": "^ok", "not_contains": "TODO"
        }));
        assert_eq!(check.judge("ok, done"), Finding::passed());
        let finding = check.judge("TODO");
        assert_eq!(finding.result, CheckResult::Failed);
        assert_eq!(finding.details.lines().count(), 3, "{}", finding.details);
    }

    #[test]
    fn a_long_reply_is_cut_in_the_message() {
        let finding = reply(serde_json::json!({"contains": "x"})).judge(&"é".repeat(100_000));
        assert!(finding.details.chars().count() < 500);
    }

    #[test]
    fn a_check_that_demands_nothing_is_refused() {
        let build = |json| {
            let spec: ReplySpec = serde_json::from_value(json).unwrap();
            spec.build(&BTreeMap::new())
        };
        assert!(build(serde_json::json!({})).is_err());
        assert!(build(serde_json::json!({"contains": ""})).is_err());
        assert!(build(serde_json::json!({"matches": "["})).is_err());
    }
}
