//! What a check demands of a text: that it contains something, or does not, or that a pattern matches. Shared by every
//! check that looks at text.

use regex::Regex;

use super::{Problem, clipped, regex_reason};

/// How much of a demanded text a message shows, in characters.
const SHOWN: usize = 200;

/// Demands on a text. All must hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    pub(super) equals: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) not_contains: Option<String>,
    pub(super) matches: Option<Regex>,
}

impl Words {
    /// Reads the demands; what is wrong is added to `problems` under the fields' names.
    pub(super) fn new(
        contains: Option<String>,
        not_contains: Option<String>,
        matches: Option<String>,
        problems: &mut Vec<Problem>,
    ) -> Self {
        for (name, text) in [("contains", &contains), ("not_contains", &not_contains)] {
            if text.as_ref().is_some_and(String::is_empty) {
                let message = format!("`{name}` is empty, and every text contains that");
                problems.push(Problem::field(name, message, None));
            }
        }
        let matches = matches.and_then(|pattern| match Regex::new(&pattern) {
            Ok(regex) => Some(regex),
            Err(error) => {
                let reason = regex_reason(&error);
                let message = format!("`matches` is not a regular expression: {reason}");
                problems.push(Problem::field("matches", message, None));
                None
            }
        });
        Self {
            equals: None,
            contains,
            not_contains,
            matches,
        }
    }

    /// Whether nothing is demanded.
    pub(super) fn is_empty(&self) -> bool {
        self.equals.is_none()
            && self.contains.is_none()
            && self.not_contains.is_none()
            && self.matches.is_none()
    }

    /// The demands in a few words, to be read after the name of the text.
    pub(super) fn titles(&self) -> Vec<String> {
        let mut demands = Vec::new();
        if let Some(text) = &self.equals {
            demands.push(format!("is `{}`", clipped(text, 60)));
        }
        if let Some(text) = &self.contains {
            demands.push(format!("contains `{}`", clipped(text, 60)));
        }
        if let Some(pattern) = &self.matches {
            demands.push(format!("matches `{}`", clipped(pattern.as_str(), 60)));
        }
        if let Some(text) = &self.not_contains {
            demands.push(format!("does not contain `{}`", clipped(text, 60)));
        }
        demands
    }

    /// What does not hold of `text`, one sentence each; `what` names the text.
    pub(super) fn broken(&self, what: &str, text: &str) -> Vec<String> {
        let mut broken = Vec::new();
        if let Some(wanted) = &self.equals
            && text.trim() != wanted.trim()
        {
            broken.push(format!("{what} is not `{}`", clipped(wanted, SHOWN)));
        }
        if let Some(wanted) = &self.contains
            && !text.contains(wanted.as_str())
        {
            let wanted = clipped(wanted, SHOWN);
            broken.push(format!("{what} does not contain `{wanted}`"));
        }
        if let Some(pattern) = &self.matches
            && !pattern.is_match(text)
        {
            let pattern = clipped(pattern.as_str(), SHOWN);
            broken.push(format!("nothing in {what} matches `{pattern}`"));
        }
        if let Some(unwanted) = &self.not_contains
            && text.contains(unwanted.as_str())
        {
            broken.push(format!("{what} contains `{}`", clipped(unwanted, SHOWN)));
        }
        broken
    }
}
