//! `denials`: denials that are expected. A task that tries what its permissions forbid is a test of these permissions.
//!
//! A denial that one of the patterns expects does not count against the task, whatever `permissions.on_denied` says; any
//! other denial keeps the meaning that it has there. A pattern that no denial met fails the check: what should have been
//! stopped was not tried, or was let through.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::pattern::{Pattern, incomplete, shown};
use super::{
    Build, CallLog, Check, CheckContext, Finding, LoggedCall, Problem, QUICK, TimeSpan, World,
    time_limit,
};
use crate::event::CheckResult;
use crate::text;

/// Denials that are expected. At least one of `expected` and `at_most` must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct DenialsSpec {
    /// Patterns as in permission rules. Each has to meet a denied call, and the denials that it meets do not fail the task.
    pub expected: Option<Vec<String>>,
    /// At most so many denials, expected ones included.
    pub at_most: Option<u32>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

#[derive(Debug)]
struct Denials {
    expected: Vec<Pattern>,
    at_most: Option<u32>,
    time_limit: Duration,
}

impl Build for DenialsSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.expected.is_none() && self.at_most.is_none() {
            let hint = "give `expected`, `at_most` or both";
            problems.push(Problem::whole("`denials` demands nothing", hint));
        }
        if world.depth > 0 {
            let message = "`denials` cannot stand in a group: a denial is expected or it is not";
            let hint =
                "write it beside the group, or use `calls: { denied: … }`, which excuses nothing";
            problems.push(Problem {
                is_lack: false,
                ..Problem::whole(message, hint)
            });
        }
        let time_limit = time_limit(self.timeout, QUICK, &mut problems);
        let expected = Pattern::list("expected", self.expected.as_ref(), &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Denials {
            expected,
            at_most: self.at_most,
            time_limit,
        }))
    }
}

#[async_trait]
impl Check for Denials {
    fn kind(&self) -> &'static str {
        "denials"
    }

    fn title(&self) -> String {
        let mut demands: Vec<String> = self
            .expected
            .iter()
            .take(5)
            .map(|pattern| format!("{} is denied", pattern.text()))
            .collect();
        if self.expected.len() > 5 {
            demands.push("…".to_owned());
        }
        if let Some(most) = self.at_most {
            demands.push(format!("at most {}", text::plural(most.into(), "denial")));
        }
        demands.join(" and ")
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        match incomplete(&context.calls) {
            Some(why) => Finding::errored(why),
            None => self.judge(&context.calls, context.workspace.root()),
        }
    }
}

impl Denials {
    fn judge(&self, log: &CallLog, root: &Path) -> Finding {
        let mut broken = Vec::new();
        let mut met = Vec::new();
        for pattern in &self.expected {
            let before = met.len();
            let touched = log.denied().filter(|call| pattern.touches(call, root));
            met.extend(touched.map(LoggedCall::place));
            if met.len() > before {
                continue;
            }
            let ran = log.calls.iter().find(|call| pattern.touches(call, root));
            broken.push(match ran {
                Some(call) => format!("{} was not denied: {}", pattern.text(), shown(call)),
                None => format!("{} was not tried, so nothing was denied", pattern.text()),
            });
        }
        let count = log.denied().count();
        if let Some(most) = self.at_most
            && count > most as usize
        {
            let found = text::plural(count as u64, "denial");
            broken.push(format!("expected at most {most}, found {found}"));
        }
        let mut finding = Finding::judged(&broken);
        if finding.result == CheckResult::Passed && !met.is_empty() {
            finding.message = format!("{} as expected", text::plural(met.len() as u64, "denial"));
        }
        met.sort();
        met.dedup();
        finding.expected_denials = met;
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ToolResultKind;
    use serde_json::json;

    fn judge(expected: &[&str], at_most: Option<u32>) -> Finding {
        let call = |id: &str, line: &str, result| LoggedCall {
            id: id.into(),
            step: 1,
            tool: "Bash".into(),
            subject: Some(line.into()),
            is_cut: false,
            allowed: Some(result == ToolResultKind::Ok),
            reason: String::new(),
            result: Some(result),
        };
        let log = CallLog {
            calls: vec![
                call("1", "git push", ToolResultKind::Denied),
                call("2", "rm -rf x", ToolResultKind::Denied),
                call("3", "git status", ToolResultKind::Ok),
            ],
            is_cut: false,
        };
        let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        let mut problems = Vec::new();
        let check = Denials {
            expected: Pattern::list("expected", Some(&expected), &mut problems),
            at_most,
            time_limit: QUICK,
        };
        check.judge(&log, Path::new("/ws"))
    }

    #[test]
    fn what_is_expected_has_to_happen_and_is_excused() {
        let finding = judge(&["Bash(git push:*)"], None);
        assert_eq!(finding.result, CheckResult::Passed);
        let both = judge(&["Bash(git:*)", "Bash(git push:*)", "Bash(rm:*)"], None);
        let ids = |finding: &Finding| -> Vec<String> {
            let calls = finding.expected_denials.iter();
            calls.map(|call| call.tool_use_id.clone()).collect()
        };
        assert_eq!(
            (ids(&finding), ids(&both)),
            (vec!["1".to_owned()], vec!["1".to_owned(), "2".to_owned()])
        );
        let let_through = judge(&["Bash(git status:*)"], None);
        assert_eq!(let_through.result, CheckResult::Failed);
        assert!(
            let_through.message.contains("was not denied"),
            "{let_through:?}"
        );
        let not_tried = judge(&["Bash(curl:*)"], None);
        assert!(not_tried.message.contains("was not tried"), "{not_tried:?}");
        assert_eq!(judge(&["Bash(rm:*)"], Some(1)).result, CheckResult::Failed);
    }

    #[test]
    fn in_a_group_it_is_refused() {
        let world = World {
            depth: 1,
            ..super::super::context::fixture::world()
        };
        let spec: DenialsSpec = serde_json::from_value(json!({"expected": ["Read"]})).unwrap();
        assert!(spec.build(world).is_err());
    }
}
