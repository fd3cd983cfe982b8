//! What a check answers, and what is wrong with one before it can run.

use crate::event::{CallPlace, CheckResult, Spent};
use crate::redact::Redactor;
use crate::text;

/// The longest message, in bytes.
const MESSAGE: usize = 1000;
/// The longest details, in bytes.
const DETAILS: usize = 8 * 1024;

/// A check's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it found.
    pub result: CheckResult,
    /// Why, in one line that a person understands; bounded, empty for what passed without a remark.
    pub message: String,
    /// What stands behind it, in several lines; bounded.
    pub details: String,
    /// What the check used of a model.
    pub spent: Option<Spent>,
    /// The denied calls that the check expected.
    pub expected_denials: Vec<CallPlace>,
    /// Whether a failure says that the opposite holds. A command that was killed at its time limit did not succeed, but
    /// nobody knows that it would have failed: `not` makes an error of that and no pass.
    pub(super) decisive: bool,
}

impl Finding {
    pub(super) fn passed() -> Self {
        Self::of(CheckResult::Passed, "")
    }

    pub(super) fn failed(text: impl AsRef<str>) -> Self {
        Self::of(CheckResult::Failed, text.as_ref())
    }

    pub(super) fn errored(text: impl AsRef<str>) -> Self {
        Self::of(CheckResult::Errored, text.as_ref())
    }

    /// A failure that does not prove the opposite.
    pub(super) fn undecided(text: impl AsRef<str>) -> Self {
        Self {
            decisive: false,
            ..Self::failed(text)
        }
    }

    /// Passed where nothing was found broken; else a failure that names the first thing and how many more there are.
    pub(super) fn judged(broken: &[String]) -> Self {
        let Some(first) = broken.first() else {
            return Self::passed();
        };
        let message = first.lines().next().unwrap_or_default().to_owned();
        let more = match broken.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let is_told = broken.len() == 1 && first.lines().count() < 2;
        Self {
            message: message.trim_end_matches(':').to_owned() + &more,
            details: if is_told {
                String::new()
            } else {
                broken.join("\n")
            },
            ..Self::of(CheckResult::Failed, "")
        }
    }

    /// The first line is the message, what follows are the details.
    pub(super) fn of(result: CheckResult, text: &str) -> Self {
        let (message, details) = text.split_once('\n').unwrap_or((text, ""));
        Self {
            result,
            message: message.to_owned(),
            details: details.to_owned(),
            spent: None,
            expected_denials: Vec::new(),
            decisive: true,
        }
    }

    /// The same with more to read behind its message.
    pub(super) fn with_details(mut self, details: &str) -> Self {
        if !details.is_empty() {
            if !self.details.is_empty() {
                self.details.push('\n');
            }
            self.details.push_str(details);
        }
        self
    }

    /// Fit to be recorded: without secrets, bounded.
    pub(super) fn told(mut self, redactor: &Redactor) -> Self {
        let message = redactor.redact(&self.message);
        self.message = text::one_line(&message, MESSAGE);
        let details = redactor.redact(&self.details);
        self.details = text::ends(details.trim_end(), DETAILS).into_owned();
        self
    }
}

/// One step from a check's key to a place below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// Something wrong under a check's key that its type cannot say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, from the check's key on. Empty: the check as a whole.
    pub path: Vec<Step>,
    /// Whether it is about something that is missing there; that was said already if a part of it was refused.
    pub is_lack: bool,
    /// What is wrong: a lower-case sentence.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Problem {
    /// The check as a whole lacks something.
    pub(super) fn whole(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            path: Vec::new(),
            is_lack: true,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// A value is wrong.
    pub(super) fn field(name: &str, message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            path: vec![Step::Key(name.to_owned())],
            is_lack: false,
            message: message.into(),
            hint,
        }
    }

    /// The same one level deeper.
    pub(super) fn below(mut self, step: Step) -> Self {
        self.path.insert(0, step);
        self
    }

    /// The same at an element of the list that it is about.
    pub(super) fn element(mut self, index: usize) -> Self {
        self.path.push(Step::Index(index));
        self
    }

    /// The path in words, for tests and logs.
    #[must_use]
    pub fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.path {
            match step {
                Step::Key(name) if place.is_empty() => place.push_str(name),
                Step::Key(name) => place.push_str(&format!(".{name}")),
                Step::Index(index) => place.push_str(&format!("[{index}]")),
            }
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thing_that_is_broken_is_the_message_and_all_are_details() {
        assert_eq!(Finding::judged(&[]), Finding::passed());
        let one = Finding::judged(&["a is not b".into()]);
        assert_eq!(
            (one.message.as_str(), one.details.as_str()),
            ("a is not b", "")
        );
        let two = Finding::judged(&["files:\n  x".into(), "c".into()]);
        assert_eq!(two.message, "files (and 1 more)");
        assert_eq!(two.details, "files:\n  x\nc");
    }

    #[test]
    fn what_is_told_is_bounded_and_the_message_is_one_line() {
        let finding = Finding::failed(format!("{}\n{}", "é".repeat(5000), "x\n".repeat(50_000)));
        let told = finding.told(&Redactor::default());
        assert!(told.message.len() <= MESSAGE && told.details.len() <= DETAILS);
        assert_eq!(told.message.lines().count(), 1);
    }
}
