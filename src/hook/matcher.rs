//! Which tools a hook is for.

use regex::{Regex, RegexBuilder};

/// Most memory of a compiled pattern, in bytes: task files come with pull requests.
const PATTERN_SIZE_LIMIT: usize = 256 * 1024;

/// The parsed matcher of a hook, with Claude Code's meaning: empty or `*` is everything; letters, digits, `_`, `-` and
/// blanks are exact names, split at `|` or `,`; anything else is a regular expression that may match anywhere in the name.
///
/// So `mcp__memory` is one exact name, which no tool has; its tools are `mcp__memory__.*`.
#[derive(Debug, Clone)]
pub struct Matcher(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Everything,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher.
    ///
    /// # Errors
    /// The pattern is no regular expression, is too large, or the list of names is empty: such a hook could never run.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "*" {
            return Ok(Self(Kind::Everything));
        }
        if text.chars().all(is_of_names) {
            let names: Vec<String> = text
                .split(['|', ','])
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            if names.is_empty() {
                return Err(format!(
                    "matcher `{text}` names no tool; leave it out to match all"
                ));
            }
            return Ok(Self(Kind::Names(names)));
        }
        match RegexBuilder::new(text)
            .size_limit(PATTERN_SIZE_LIMIT)
            .build()
        {
            Ok(pattern) => Ok(Self(Kind::Pattern(pattern))),
            Err(regex::Error::CompiledTooBig(limit)) => Err(format!(
                "matcher `{text}` needs more than {limit} bytes as a regular expression; use fewer repetitions"
            )),
            Err(error) => Err(format!(
                "matcher `{text}` is neither a list of names nor a regular expression: {}",
                last_line(&error.to_string())
            )),
        }
    }

    /// Whether the hook is for this tool (or for this `source` or `reason` of a session event). Case counts.
    #[must_use]
    pub fn matches(&self, subject: &str) -> bool {
        match &self.0 {
            Kind::Everything => true,
            Kind::Names(names) => names.iter().any(|name| name == subject),
            Kind::Pattern(pattern) => pattern.is_match(subject),
        }
    }
}

fn is_of_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | ',' | '|')
}

/// The regex crate draws the pattern with a caret below it and says what is wrong in the last line.
fn last_line(text: &str) -> &str {
    text.lines()
        .last()
        .unwrap_or(text)
        .trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(matcher: &str, yes: &[&str], no: &[&str]) {
        let parsed = Matcher::parse(matcher).unwrap();
        for name in yes {
            assert!(parsed.matches(name), "{matcher} has to match {name}");
        }
        for name in no {
            assert!(!parsed.matches(name), "{matcher} must not match {name}");
        }
    }

    #[test]
    fn nothing_and_a_star_match_everything() {
        check("", &["Bash", "mcp__x__y", ""], &[]);
        check("*", &["Bash", "mcp__x__y", ""], &[]);
    }

    #[test]
    fn names_are_exact() {
        check("Bash", &["Bash"], &["bash", "BashOutput", "MyBash", ""]);
        check("mcp__memory", &["mcp__memory"], &["mcp__memory__read"]);
    }

    #[test]
    fn lists_are_split_at_bars_and_commas() {
        check("Edit|Write", &["Edit", "Write"], &["Read", "Edit|Write"]);
        check(" Edit , Write|", &["Edit", "Write"], &["Read", ""]);
    }

    #[test]
    fn everything_else_is_a_regex_without_anchors() {
        check(
            "mcp__memory__.*",
            &["mcp__memory__read"],
            &["mcp__other__read"],
        );
        check("B.sh", &["Bash", "MyBashTool"], &["bash"]);
        check("^(Edit|Write)$", &["Edit", "Write"], &["MultiEdit"]);
    }

    #[test]
    fn a_matcher_that_cannot_work_is_an_error() {
        let bad = Matcher::parse("Bash(").unwrap_err();
        assert!(
            bad.contains("`Bash(`") && bad.contains("unclosed group"),
            "{bad}"
        );
        assert!(Matcher::parse(" | ").unwrap_err().contains("names no tool"));
        let big = Matcher::parse("(a{500}){500}").unwrap_err();
        assert!(big.contains("bytes"), "{big}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", subject in ".{0,40}") {
            if let Ok(matcher) = Matcher::parse(&text) {
                let _ = matcher.matches(&subject);
            }
        }

        #[test]
        fn a_name_matches_itself_and_nothing_longer(name in "[A-Za-z_][A-Za-z0-9_-]{0,20}") {
            let matcher = Matcher::parse(&name).unwrap();
            proptest::prop_assert!(matcher.matches(&name));
            let longer = format!("{name}x");
            proptest::prop_assert!(!matcher.matches(&longer));
        }
    }
}
