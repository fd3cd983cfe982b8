//! `calls`: policy as a test. Which tool calls the model asked for, in which order, how often, and what the gate said.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::pattern::{Pattern, incomplete, shown};
use super::{
    Build, Check, CheckContext, Finding, LoggedCall, Problem, QUICK, Step, TimeSpan, World,
    time_limit,
};
use crate::text;

/// How many calls a sentence names.
const NAMED: usize = 3;

/// Looks at the tool calls that the model asked for. Patterns are written as permission rules: `Bash(cargo test:*)`,
/// `Edit(src/**)`, `Read`. A command line of several commands is meant by a pattern for one of them, but for `only`,
/// which has to cover all of them. All that is given must hold; at least one must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct CallsSpec {
    /// Each of these was called and succeeded at least once.
    pub required: Option<Vec<String>>,
    /// None of these was asked for, not even in vain.
    pub forbidden: Option<Vec<String>>,
    /// Every call is covered by one of these.
    pub only: Option<Vec<String>>,
    /// Each of these was asked for, and never denied.
    pub allowed: Option<Vec<String>>,
    /// Each of these was asked for, and denied every time.
    pub denied: Option<Vec<String>>,
    /// Calls that succeeded in this order, others between them or not.
    pub order: Option<Vec<String>>,
    /// How often something was asked for.
    pub count: Option<Vec<CountSpec>>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

/// How often calls were asked for. At least one bound must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountSpec {
    /// Which calls. Default: all.
    pub call: Option<String>,
    /// At least so often.
    pub at_least: Option<u32>,
    /// At most so often.
    pub at_most: Option<u32>,
}

#[derive(Debug)]
struct Count {
    pattern: Option<Pattern>,
    at_least: u32,
    at_most: u32,
}

#[derive(Debug)]
struct Calls {
    required: Vec<Pattern>,
    forbidden: Vec<Pattern>,
    only: Vec<Pattern>,
    allowed: Vec<Pattern>,
    denied: Vec<Pattern>,
    order: Vec<Pattern>,
    count: Vec<Count>,
    time_limit: Duration,
}

impl CallsSpec {
    fn read(self, problems: &mut Vec<Problem>) -> Calls {
        let time_limit = time_limit(self.timeout, QUICK, problems);
        let mut list = |field, patterns: &Option<Vec<String>>| {
            Pattern::list(field, patterns.as_ref(), problems)
        };
        let (required, forbidden) = (
            list("required", &self.required),
            list("forbidden", &self.forbidden),
        );
        let (only, allowed) = (list("only", &self.only), list("allowed", &self.allowed));
        let (denied, order) = (list("denied", &self.denied), list("order", &self.order));
        let given = [
            &self.required,
            &self.forbidden,
            &self.only,
            &self.allowed,
            &self.denied,
            &self.order,
        ];
        if given.iter().all(|list| list.is_none()) && self.count.is_none() {
            problems.push(Problem::whole(
                "`calls` demands nothing",
                "give at least one of `required`, `forbidden`, `only`, `allowed`, `denied`, `order`, `count`",
            ));
        }
        let count = self.count.unwrap_or_default();
        let count = count
            .into_iter()
            .enumerate()
            .map(|(index, spec)| {
                let mut found = Vec::new();
                let count = spec.read(&mut found);
                problems.extend(found.into_iter().map(|problem| {
                    problem
                        .below(Step::Index(index))
                        .below(Step::Key("count".to_owned()))
                }));
                count
            })
            .collect();
        Calls {
            required,
            forbidden,
            only,
            allowed,
            denied,
            order,
            count,
            time_limit,
        }
    }
}

impl CountSpec {
    fn read(self, problems: &mut Vec<Problem>) -> Count {
        if self.at_least.is_none() && self.at_most.is_none() {
            problems.push(Problem::whole(
                "no bound is given",
                "give `at_least`, `at_most` or both",
            ));
        }
        let count = Count {
            pattern: self
                .call
                .and_then(|text| Pattern::one("call", &text, problems)),
            at_least: self.at_least.unwrap_or(0),
            at_most: self.at_most.unwrap_or(u32::MAX),
        };
        if count.at_least > count.at_most {
            problems.push(Problem::field(
                "at_least",
                "it is more than `at_most`",
                None,
            ));
        }
        count
    }
}

impl Build for CallsSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        let calls = self.read(&mut problems);
        if problems.is_empty() {
            Ok(Arc::new(calls))
        } else {
            Err(problems)
        }
    }
}

#[async_trait]
impl Check for Calls {
    fn kind(&self) -> &'static str {
        "calls"
    }

    fn title(&self) -> String {
        let lists = [
            ("required", &self.required),
            ("forbidden", &self.forbidden),
            ("only", &self.only),
            ("allowed", &self.allowed),
            ("denied", &self.denied),
            ("in order", &self.order),
        ];
        let mut demands: Vec<String> = lists
            .iter()
            .filter(|(_, patterns)| !patterns.is_empty())
            .map(|(name, patterns)| format!("{name} {}", names(patterns)))
            .collect();
        demands.extend(self.count.iter().map(Count::title));
        format!("calls: {}", demands.join("; "))
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        match incomplete(&context.calls) {
            Some(why) => Finding::errored(why),
            None => self.judge(&context.calls.calls, context.workspace.root()),
        }
    }
}

fn names(patterns: &[Pattern]) -> String {
    let mut names: Vec<String> = patterns.iter().take(5).map(Pattern::text).collect();
    if patterns.len() > 5 {
        names.push("…".to_owned());
    }
    names.join(", ")
}

impl Count {
    fn title(&self) -> String {
        let what = self
            .pattern
            .as_ref()
            .map_or("calls".to_owned(), Pattern::text);
        match (self.at_least, self.at_most) {
            (least, u32::MAX) => format!("{what} at least {least} times"),
            (0, most) => format!("{what} at most {most} times"),
            (least, most) => format!("{what} {least} to {most} times"),
        }
    }
}

impl Calls {
    fn judge(&self, calls: &[LoggedCall], root: &Path) -> Finding {
        let touched = |pattern: &Pattern| -> Vec<&LoggedCall> {
            calls
                .iter()
                .filter(|call| pattern.touches(call, root))
                .collect()
        };
        let mut broken = Vec::new();
        for pattern in &self.required {
            let found = touched(pattern);
            if found.is_empty() {
                broken.push(format!("{} was not called", pattern.text()));
            } else if !found.iter().any(|call| call.succeeded()) {
                broken.push(format!(
                    "{} was called and never succeeded: {}",
                    pattern.text(),
                    named(&found)
                ));
            }
        }
        for pattern in &self.forbidden {
            let found = touched(pattern);
            if !found.is_empty() {
                broken.push(format!(
                    "{} is forbidden, and was called: {}",
                    pattern.text(),
                    named(&found)
                ));
            }
        }
        if !self.only.is_empty() {
            let outside: Vec<&LoggedCall> = calls
                .iter()
                .filter(|call| !self.only.iter().any(|pattern| pattern.covers(call, root)))
                .collect();
            if !outside.is_empty() {
                broken.push(format!(
                    "called what `only` does not cover: {}",
                    named(&outside)
                ));
            }
        }
        for (patterns, wanted) in [(&self.allowed, false), (&self.denied, true)] {
            for pattern in patterns {
                let found = touched(pattern);
                let other: Vec<&LoggedCall> = found
                    .iter()
                    .copied()
                    .filter(|call| call.is_denied() != wanted)
                    .collect();
                if found.is_empty() {
                    broken.push(format!("{} was not called", pattern.text()));
                } else if !other.is_empty() {
                    let was = if wanted { "not denied" } else { "denied" };
                    broken.push(format!("{} was {was}: {}", pattern.text(), named(&other)));
                }
            }
        }
        broken.extend(self.out_of_order(calls, root));
        for count in &self.count {
            let found = match &count.pattern {
                Some(pattern) => touched(pattern).len(),
                None => calls.len(),
            };
            let range = u64::from(count.at_least)..=u64::from(count.at_most);
            if !range.contains(&(found as u64)) {
                let times = text::plural(found as u64, "call");
                broken.push(format!("expected {}, found {times}", count.title()));
            }
        }
        Finding::judged(&broken)
    }

    /// The first pattern of the order that did not come after those before it.
    fn out_of_order(&self, calls: &[LoggedCall], root: &Path) -> Option<String> {
        let mut rest = calls.iter().filter(|call| call.succeeded());
        let missing = self
            .order
            .iter()
            .position(|pattern| !rest.any(|call| pattern.touches(call, root)))?;
        let pattern = self.order.get(missing)?.text();
        Some(
            match missing
                .checked_sub(1)
                .and_then(|before| self.order.get(before))
            {
                Some(before) => format!("{pattern} did not succeed after {}", before.text()),
                None => format!("{pattern} did not succeed"),
            },
        )
    }
}

fn named(calls: &[&LoggedCall]) -> String {
    let mut names: Vec<String> = calls.iter().take(NAMED).map(|call| shown(call)).collect();
    if calls.len() > NAMED {
        names.push(format!("and {} more", calls.len() - NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CheckResult::{Failed, Passed};
    use crate::event::ToolResultKind;
    use serde_json::json;

    fn call(step: u32, line: &str, result: ToolResultKind) -> LoggedCall {
        LoggedCall {
            id: step.to_string(),
            step,
            tool: "Bash".into(),
            subject: Some(line.into()),
            is_cut: false,
            allowed: Some(result != ToolResultKind::Denied),
            reason: String::new(),
            result: Some(result),
        }
    }

    fn judge(spec: serde_json::Value) -> Finding {
        let calls = [
            call(1, "cargo build", ToolResultKind::Ok),
            call(2, "git push", ToolResultKind::Denied),
            call(3, "cargo test", ToolResultKind::Error),
            call(4, "cargo test && cargo fmt", ToolResultKind::Ok),
        ];
        let spec: CallsSpec = serde_json::from_value(spec).unwrap();
        let mut problems = Vec::new();
        let check = spec.read(&mut problems);
        assert_eq!(problems, []);
        check.judge(&calls, Path::new("/ws"))
    }

    #[test]
    fn each_demand_holds_and_breaks() {
        for (spec, result) in [
            (json!({"required": ["Bash(cargo test:*)"]}), Passed),
            (json!({"required": ["Bash(git push:*)"]}), Failed),
            (json!({"required": ["Read"]}), Failed),
            (json!({"forbidden": ["Read"]}), Passed),
            (json!({"forbidden": ["Bash(git push:*)"]}), Failed),
            (json!({"forbidden": ["Bash(cargo fmt:*)"]}), Failed),
            (json!({"only": ["Bash"]}), Passed),
            (json!({"only": ["Bash(cargo:*)"]}), Failed),
            (json!({"allowed": ["Bash(cargo test:*)"]}), Passed),
            (json!({"allowed": ["Bash(git push:*)"]}), Failed),
            (json!({"allowed": ["Read"]}), Failed),
            (json!({"denied": ["Bash(git push:*)"]}), Passed),
            (json!({"denied": ["Bash(cargo test:*)"]}), Failed),
            (json!({"denied": ["Read"]}), Failed),
            (
                json!({"order": ["Bash(cargo build:*)", "Bash(cargo test:*)"]}),
                Passed,
            ),
            (
                json!({"order": ["Bash(cargo test:*)", "Bash(cargo build:*)"]}),
                Failed,
            ),
            (json!({"order": ["Bash(git push:*)"]}), Failed),
            (
                json!({"count": [{"call": "Bash(cargo test:*)", "at_least": 2, "at_most": 2}, {"at_most": 4}]}),
                Passed,
            ),
            (json!({"count": [{"at_most": 3}]}), Failed),
            (json!({"count": [{"call": "Read", "at_least": 1}]}), Failed),
        ] {
            let finding = judge(spec.clone());
            assert_eq!(finding.result, result, "{spec} {finding:?}");
        }
        assert_eq!(
            judge(json!({"forbidden": ["Bash(git push:*)"]})).message,
            "`Bash(git push:*)` is forbidden, and was called: `Bash(git push)` in step 2"
        );
    }

    #[test]
    fn a_pattern_that_is_no_rule_is_refused_at_its_place() {
        let spec: CallsSpec = serde_json::from_value(json!({
            "required": ["Read", "bash(x)"], "only": [], "count": [{"call": "Read"}, {"call": "Nope", "at_most": 1}]
        }))
        .unwrap();
        let problems = spec
            .build(super::super::context::fixture::world())
            .unwrap_err();
        let places: Vec<String> = problems.iter().map(Problem::place).collect();
        assert_eq!(places, ["required[1]", "only", "count[0]", "count[1].call"]);
    }
}
