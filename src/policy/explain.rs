//! Words for decisions: how commands and paths are shown, which rule would allow a call, and the sentence of a denial.

use super::pattern::Pattern;
use super::{Mode, PathFacts, Roots, Rule, paths};

/// Longest quotation in a reason, in characters.
const MAX_QUOTE: usize = 160;

/// Why a call is refused, before it is a sentence.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub(super) class: &'static str,
    pub(super) why: String,
    pub(super) rule: Option<Rule>,
    pub(super) would_ask: bool,
    /// The rule that might allow the call.
    pub(super) candidate: Option<String>,
}

impl Refused {
    pub(super) fn new(class: &'static str, why: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            class,
            why: why.into(),
            rule: None,
            would_ask: false,
            candidate: None,
        })
    }

    /// No rule covers `what`; an interactive tool would have asked, depending on the mode.
    pub(super) fn uncovered(mode: Mode, what: &str, candidate: Option<String>) -> Box<Self> {
        Box::new(Self {
            class: "no_rule",
            why: format!("no allow rule covers {what}"),
            rule: None,
            would_ask: mode.would_ask(),
            candidate,
        })
    }

    pub(super) fn with_candidate(mut self: Box<Self>, candidate: Option<String>) -> Box<Self> {
        self.candidate = candidate;
        self
    }
}

/// A text in backticks, on one line, nothing invisible in it, cut to a readable length.
pub(super) fn quote(text: &str) -> String {
    let mut shown = String::from("`");
    for (count, c) in text.chars().enumerate() {
        if count == MAX_QUOTE {
            shown.push('…');
            break;
        }
        if c == '`' {
            shown.push('\'');
        } else if c.is_control() || super::fold::is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown.push('`');
    shown
}

/// A command's words as they could be typed.
pub(super) fn command<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.map(shell_word).collect();
    quoted.join(" ")
}

fn shell_word(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_@%+:,./-".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let option = word.starts_with('-') && word.bytes().all(|b| plain(b) || b == b'=');
    if option {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The rule that names exactly this file (or the tree of a searched directory).
pub(super) fn path_rule(
    tool: &str,
    facts: &PathFacts,
    tree: bool,
    roots: &Roots,
) -> Option<String> {
    let (prefix, components) = match paths::below(&roots.workspace, &facts.physical) {
        Some(components) => ("", components),
        None => ("//", paths::components(&facts.physical)?),
    };
    let path = Pattern::escape(&components.join("/"));
    Some(match (tree, path.is_empty()) {
        (true, true) => format!("{tool}({prefix}**)"),
        (true, false) => format!("{tool}({prefix}{path}/**)"),
        (false, _) => format!("{tool}({prefix}{path})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_is_one_short_visible_line() {
        assert_eq!(quote("a\nb`\u{202e}"), "`a\\u{a}b'\\u{202e}`");
        assert!(quote(&"x".repeat(10_000)).chars().count() < 200);
    }

    #[test]
    fn words_are_quoted_only_where_it_is_needed() {
        let words = ["rm", "-rf", "a b", "it's", "", "--x=y", "A=1"];
        assert_eq!(
            command(words.into_iter()),
            r"rm -rf 'a b' 'it'\''s' '' --x=y 'A=1'"
        );
    }
}
