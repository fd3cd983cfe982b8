//! Allow rules that allow nothing, or less than they seem to. For whoever reviews a task file: the gate does not care.

use super::Mode;
use super::bash::guarded::needs_exact_rule;
use super::bash::wrappers::basename;
use super::pattern::Pattern;
use super::rule::{Effect, Rule, Specifier};

impl Rule {
    /// Why an allow rule allows less than its author may think, if it does; completes "the rule ..".
    #[must_use]
    pub fn narrowness(&self, mode: Mode, deny: &[Self]) -> Option<String> {
        if self.effect() != Effect::Allow {
            return None;
        }
        if let Some(rule) = deny.iter().find(|rule| rule.swallows(self)) {
            return Some(format!(
                "allows nothing: the deny rule `{rule}` of {} matches all of it",
                rule.source().file
            ));
        }
        let writes = matches!(self.tool(), "Edit" | "Write");
        if writes && mode == Mode::Plan {
            return Some("allows nothing: no rule opens a write in mode `plan`".to_owned());
        }
        match self.specifier() {
            Specifier::Path(pattern) => {
                let never = writes && !pattern.absolute && {
                    let literal = pattern.literal_start();
                    literal.iter().any(|name| name.eq_ignore_ascii_case(".git"))
                };
                if never {
                    return Some("allows nothing: git's own files are never written".to_owned());
                }
                only_at_the_top(pattern)
                    .then(|| "matches only directly in the workspace; `**/` in front makes it match at any depth".to_owned())
            }
            Specifier::Words {
                words,
                prefix: true,
            } => words
                .first()
                .filter(|head| needs_exact_rule(basename(head), words.get(1).map(String::as_str)))
                .map(|_| {
                    format!(
                        "covers no arguments: `{}` writes files or runs programs by its options, and needs exact rules",
                        words.join(" ")
                    )
                }),
            _ => None,
        }
    }

    /// Whether a deny rule matches everything that an allow rule does.
    fn swallows(&self, allow: &Self) -> bool {
        let same_tool = self.tool() == allow.tool();
        match (self.specifier(), allow.specifier()) {
            (Specifier::Whole, _) => same_tool || self.names_tool(allow.tool()),
            (Specifier::Server(_), Specifier::Whole) => self.names_tool(allow.tool()),
            (
                Specifier::Words {
                    words,
                    prefix: true,
                },
                Specifier::Words { words: own, .. },
            ) => same_tool && own.starts_with(words),
            (own, other) => same_tool && own == other,
        }
    }
}

/// A pattern as in `*.rs`, which people know from elsewhere as one for any depth.
fn only_at_the_top(pattern: &Pattern) -> bool {
    !pattern.absolute && pattern.is_one_wild_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str, effect: Effect) -> Rule {
        Rule::parse_alone(text, effect).unwrap()
    }

    fn doubted(allow: &str, mode: Mode, deny: &[&str]) -> bool {
        let deny: Vec<Rule> = deny.iter().map(|text| rule(text, Effect::Deny)).collect();
        rule(allow, Effect::Allow).narrowness(mode, &deny).is_some()
    }

    #[test]
    fn rules_that_allow_nothing_are_told() {
        assert!(doubted("Bash(git push:*)", Mode::Default, &["Bash(git:*)"]));
        assert!(doubted(
            "Bash(git push)",
            Mode::Default,
            &["Bash(git push:*)"]
        ));
        assert!(doubted("Read(src/**)", Mode::Default, &["Read"]));
        assert!(doubted("mcp__a__b", Mode::Default, &["mcp__a"]));
        assert!(doubted("Edit(src/**)", Mode::Plan, &[]));
        assert!(doubted("Edit(.git/hooks/**)", Mode::Default, &[]));
        assert!(doubted("Bash(wget:*)", Mode::Default, &[]));
        assert!(doubted("Edit(*.rs)", Mode::Default, &[]));
    }

    #[test]
    fn rules_that_say_what_they_mean_are_not() {
        for (allow, deny) in [
            ("Bash(git push:*)", "Bash(git push --force:*)"),
            ("Bash(git:*)", "Bash(git push:*)"),
            ("Edit(src/**)", "Edit(src/gen/**)"),
            ("Edit(**/*.rs)", "Read"),
            ("Edit(README.md)", "Bash"),
            ("Edit(.gitignore)", "Bash"),
            ("Bash(wget -qO- https://example.org)", "WebFetch"),
            ("mcp__a", "mcp__a__b"),
        ] {
            assert!(!doubted(allow, Mode::Default, &[deny]), "{allow}");
        }
    }
}
