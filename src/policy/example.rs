//! Examples beside a rule: what it has to match, and what it must not.
//!
//! A rule says less than it seems to, or more; examples that are checked when the task is loaded say which. An example
//! is what the rule's tool is given: a command line, a path, a URL, or the name of an MCP tool. The gate itself answers,
//! with this rule alone, in a workspace where every path is what its text says.

use std::sync::Arc;

use serde_json::Value;

use super::rule::Specifier;
use super::{
    Action, Call, Effect, Facts, FileKind, Mode, PathFacts, Policy, Roots, Rule, decide, paths,
    queries,
};

const WORKSPACE: &str = "/workspace";

impl Rule {
    /// Whether the rule decides on the call that an example stands for: an allow rule allows it, a deny rule denies it.
    /// The error says why not.
    ///
    /// # Errors
    /// The gate's reason, one sentence.
    pub fn matches_example(&self, example: &str) -> Result<(), String> {
        self.trial(example).map_err(|(_, why)| why)
    }

    /// As [`Rule::matches_example`]; the error is the class of the denial, and the gate's reason.
    pub(super) fn trial(&self, example: &str) -> Result<(), (&'static str, String)> {
        let policy = Arc::new(self.policy_alone());
        let (tool, action) = self.call(example);
        let facts: Facts = queries(&action, &policy)
            .into_iter()
            .map(|query| {
                let mut facts = PathFacts::by_text(paths::lexical(WORKSPACE, &query).into());
                facts.kind = FileKind::File;
                (query, facts)
            })
            .collect();
        let call = Call {
            tool: &tool,
            input: &Value::Null,
            action,
            read_only: false,
        };
        match (decide(&call, &facts, &policy), self.effect()) {
            (Ok(_), Effect::Allow) => Ok(()),
            (Err(denial), Effect::Deny | Effect::Ask) if denial.rule.as_ref() == Some(self) => {
                Ok(())
            }
            (Err(denial), _) => {
                // The mode is one of this trial, not of the task.
                let why = denial
                    .reason
                    .split_once("`: ")
                    .map(|(_, why)| why.to_owned());
                Err((denial.class, why.unwrap_or(denial.reason)))
            }
            (Ok(_), _) => Err(("no_rule", "the rule says nothing about it".to_owned())),
        }
    }

    /// A gate with this rule and nothing that hides what it does.
    fn policy_alone(&self) -> Policy {
        let roots = Roots {
            workspace: WORKSPACE.into(),
            ..Roots::default()
        };
        match self.effect() {
            Effect::Allow => Policy {
                mode: Mode::Strict,
                allow: vec![self.clone()],
                deny: Vec::new(),
                roots,
            },
            Effect::Deny | Effect::Ask => Policy {
                mode: Mode::BypassPermissions,
                allow: Vec::new(),
                deny: vec![self.clone()],
                roots,
            },
        }
    }

    fn call(&self, example: &str) -> (String, Action) {
        let text = example.to_owned();
        let action = match self.tool() {
            "Bash" => Action::Bash { command: text },
            "Read" => Action::Read { path: text },
            "Edit" | "Write" => Action::Write { path: text },
            "Glob" => Action::Glob {
                root: None,
                pattern: text,
            },
            "Grep" => Action::Grep { root: Some(text) },
            "WebFetch" => Action::Fetch { url: text },
            _ => Action::Other,
        };
        let named =
            matches!(action, Action::Other) || matches!(self.specifier(), Specifier::Server(_));
        let tool = if named { example } else { self.tool() };
        (tool.to_owned(), action)
    }

    /// Parses a rule that is only looked at, not used.
    #[cfg(test)]
    pub(super) fn parse_alone(text: &str, effect: Effect) -> Result<Self, super::RuleError> {
        let source = super::Source {
            layer: String::new(),
            file: String::new(),
        };
        Self::parse(text, effect, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: &str, effect: Effect, example: &str) -> bool {
        let rule = Rule::parse_alone(rule, effect).unwrap();
        rule.matches_example(example).is_ok()
    }

    #[test]
    fn an_allow_rule_matches_what_it_alone_allows() {
        for (rule, example) in [
            ("Bash(cargo test:*)", "cargo test --offline"),
            ("Bash(cargo test:*)", "timeout 60 cargo test"),
            ("Bash(npm test)", "CI=1 npm test"),
            ("Read(src/**)", "src/a.rs"),
            ("Read(.env)", ".env"),
            ("Edit(docs/*.md)", "docs/a.md"),
            ("WebFetch(domain:*.example.org)", "https://a.example.org/x"),
            ("mcp__github", "mcp__github__get_issue"),
            ("Grep(src/**)", "src"),
        ] {
            assert!(matches(rule, Effect::Allow, example), "{rule} {example}");
        }
        for (rule, example) in [
            ("Bash(cargo test:*)", "cargo testbed"),
            ("Bash(cargo test:*)", "cargo test; id"),
            ("Bash(cargo test:*)", "cargo test --config x"),
            ("Read(**)", ".env"),
            ("Read(**)", "../x"),
            ("Edit(**)", ".git/config"),
            ("WebFetch(domain:example.org)", "http://example.org/"),
            ("mcp__github__get_issue", "mcp__github__get_issues"),
        ] {
            assert!(!matches(rule, Effect::Allow, example), "{rule} {example}");
        }
    }

    #[test]
    fn a_deny_rule_matches_what_it_denies_itself() {
        assert!(matches("Bash(rm:*)", Effect::Deny, "sudo rm -rf x"));
        assert!(matches("Read(.env)", Effect::Deny, "sub/.env"));
        assert!(!matches("Bash(rm:*)", Effect::Deny, "git rm x"));
        // Denied, but not by this rule.
        assert!(!matches("Edit(src/**)", Effect::Deny, ".git/config"));
    }
}
