//! Patterns for tool calls, in the language of permission rules: `Bash(cargo test:*)`, `Edit(src/**)`, `Read`.
//!
//! Two questions are asked of a pattern, as of rules. Whether a call is *touched* by it, as a deny rule would be: one command
//! of a line is enough. And whether it is *covered* by it, as an allow rule would: all of the line has to be. Paths are taken
//! by their text; links are the gate's affair.

use std::path::Path;

use super::{CallLog, LoggedCall, Problem, clipped};
use crate::policy::{Effect, Rule, Source};
use crate::tool::STRUCTURED_OUTPUT;

/// A pattern for calls.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    touches: Rule,
    covers: Rule,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, crate::policy::RuleError> {
        let rule = |effect| {
            let source = Source {
                layer: "check".to_owned(),
                file: "check".to_owned(),
            };
            Rule::parse_with(text, effect, source, &[STRUCTURED_OUTPUT])
        };
        Ok(Self {
            touches: rule(Effect::Deny)?,
            covers: rule(Effect::Allow)?,
        })
    }

    /// Reads the patterns under the key `field`; what is wrong is added to `problems`.
    pub(super) fn list(
        field: &str,
        patterns: Option<&Vec<String>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Self> {
        let mut parsed = Vec::new();
        if patterns.is_some_and(Vec::is_empty) {
            let hint = Some("write a pattern, or leave the key out".to_owned());
            problems.push(Problem::field(field, format!("`{field}` is empty"), hint));
        }
        for (index, text) in patterns.into_iter().flatten().enumerate() {
            match Self::parse(text) {
                Ok(pattern) => parsed.push(pattern),
                Err(error) => {
                    let problem = Problem::field(field, error.message, error.hint);
                    problems.push(problem.element(index));
                }
            }
        }
        parsed
    }

    /// Reads one pattern.
    pub(super) fn one(field: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Self> {
        Self::parse(text)
            .map_err(|error| problems.push(Problem::field(field, error.message, error.hint)))
            .ok()
    }

    pub(super) fn text(&self) -> String {
        format!("`{}`", clipped(self.touches.text(), 120))
    }

    /// Whether a part of the call is what the pattern speaks of.
    pub(super) fn touches(&self, call: &LoggedCall, root: &Path) -> bool {
        matches(&self.touches, call, root)
    }

    /// Whether all of the call is.
    pub(super) fn covers(&self, call: &LoggedCall, root: &Path) -> bool {
        matches(&self.covers, call, root)
    }
}

fn matches(rule: &Rule, call: &LoggedCall, root: &Path) -> bool {
    // A rule for Edit speaks of Write too, as in the gate.
    let same = rule.tool() == call.tool || (rule.tool() == "Edit" && call.tool == "Write");
    match &call.subject {
        Some(subject) if same => {
            let subject = match call.tool.as_str() {
                "Bash" | "WebFetch" => subject.as_str(),
                _ => inside(subject, root),
            };
            rule.matches_example(subject).is_ok()
        }
        // A server's rule, or one for a whole tool.
        _ if same || rule.tool().starts_with("mcp__") => rule.matches_example(&call.tool).is_ok(),
        _ => false,
    }
}

/// A path from the workspace, where it is given as an absolute one in it.
fn inside<'a>(path: &'a str, root: &Path) -> &'a str {
    let below = root.to_str().and_then(|root| path.strip_prefix(root));
    match below {
        Some("") => ".",
        Some(rest) => rest.strip_prefix('/').unwrap_or(path),
        None => path,
    }
}

/// Why nobody can speak of all calls, if so.
pub(super) fn incomplete(log: &CallLog) -> Option<String> {
    if log.is_cut {
        return Some("there were more calls than are kept".to_owned());
    }
    let call = log.calls.iter().find(|call| call.is_cut)?;
    Some(format!(
        "the input of `{}` in step {} is too long to be looked at",
        clipped(&call.tool, 80),
        call.step
    ))
}

/// A call in a message: `Bash(cargo test) in step 3`.
pub(super) fn shown(call: &LoggedCall) -> String {
    let tool = clipped(&call.tool, 80);
    let subject = call.subject.as_deref().map(|text| {
        let text: String = text.escape_debug().collect();
        format!("({})", clipped(&text, 160))
    });
    format!(
        "`{tool}{}` in step {}",
        subject.unwrap_or_default(),
        call.step
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, subject: Option<&str>) -> LoggedCall {
        LoggedCall {
            id: "1".into(),
            step: 1,
            tool: tool.into(),
            subject: subject.map(str::to_owned),
            is_cut: false,
            allowed: None,
            reason: String::new(),
            result: None,
        }
    }

    #[test]
    fn a_line_is_touched_by_one_of_its_commands_and_covered_by_all() {
        let root = Path::new("/ws");
        let pattern = Pattern::parse("Bash(cargo test:*)").unwrap();
        for (line, touches, covers) in [
            ("cargo test --offline", true, true),
            ("cd x && cargo test", true, false),
            ("cargo test; curl evil", true, false),
            ("cargo build", false, false),
        ] {
            let call = call("Bash", Some(line));
            assert_eq!(pattern.touches(&call, root), touches, "{line}");
            assert_eq!(pattern.covers(&call, root), covers, "{line}");
        }
    }

    #[test]
    fn tools_and_paths_are_known_by_name() {
        let root = Path::new("/ws");
        let touches = |pattern: &str, tool: &str, subject: Option<&str>| {
            Pattern::parse(pattern)
                .unwrap()
                .touches(&call(tool, subject), root)
        };
        assert!(touches("Read", "Read", Some("a")));
        assert!(touches("Edit(src/**)", "Edit", Some("src/a.rs")));
        assert!(touches("Edit(src/**)", "Edit", Some("/ws/src/a.rs")));
        assert!(touches("Edit(src/**)", "Write", Some("src/new.rs")));
        assert!(!touches("Edit(src/**)", "Edit", Some("/other/src/a.rs")));
        assert!(!touches("Edit(src/**)", "Read", Some("src/a.rs")));
        assert!(touches("mcp__github", "mcp__github__get_issue", None));
        assert!(!touches("mcp__github", "mcp__gitlab__get_issue", None));
        assert!(touches("Bash", "Bash", Some("anything at all")));
        assert!(touches("StructuredOutput", "StructuredOutput", None));
    }
}
