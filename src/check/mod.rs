//! Checks: what a task's work is measured by, after the agent is gone.
//!
//! A check is one file here and one line in the table at the end of this file: the key in the task file and the type
//! that says what may stand under it. `task` reads a [`CheckSpec`], [`CheckSpec::build`] makes the [`Check`] of it, and
//! `batch` runs the checks of a task in order. What a check finds out and what it makes of that are two functions: the
//! `judge` of each file is pure.

mod changed;
mod command;
pub mod reference;
mod reply;
mod time_span;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::event::{Change, CheckResult, Spent};
use crate::proc::Launcher;
use crate::redact::Redactor;

pub use changed::ChangedSpec;
pub use command::CommandSpec;
pub use reply::ReplySpec;
pub use time_span::TimeSpan;

/// What a check may look at.
pub struct CheckContext {
    /// The workspace as the agent left it.
    pub workspace: PathBuf,
    /// The last turn's text.
    pub reply: String,
    /// What the agent changed.
    pub changes: Vec<Change>,
    /// Starts processes.
    pub launcher: Launcher,
    /// The whole environment of child processes.
    pub environment: BTreeMap<String, String>,
    /// Removes secrets.
    pub redactor: Arc<Redactor>,
    /// Ends the check.
    pub cancel: CancellationToken,
}

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
    /// The ids of denied calls that the check expected.
    pub expected_denials: Vec<String>,
}

impl Finding {
    fn passed() -> Self {
        Self::of(CheckResult::Passed, "")
    }

    fn failed(text: impl AsRef<str>) -> Self {
        Self::of(CheckResult::Failed, text.as_ref())
    }

    fn errored(text: impl AsRef<str>) -> Self {
        Self::of(CheckResult::Errored, text.as_ref())
    }

    /// The first line is the message, what follows are the details.
    fn of(result: CheckResult, text: &str) -> Self {
        let (message, details) = text.split_once('\n').unwrap_or((text, ""));
        Self {
            result,
            message: message.to_owned(),
            details: details.to_owned(),
            spent: None,
            expected_denials: Vec::new(),
        }
    }

    /// Without secrets in any text.
    fn redacted(mut self, redactor: &Redactor) -> Self {
        self.message = redactor.redact(&self.message);
        self.details = redactor.redact(&self.details);
        self
    }
}

/// One check of a task.
#[async_trait]
pub trait Check: Send + Sync + std::fmt::Debug {
    /// The key in the task file.
    fn kind(&self) -> &'static str;
    /// What it demands, in a few words.
    fn title(&self) -> String;
    /// Runs it. The finding's message has passed the redactor.
    async fn run(&self, context: &CheckContext) -> Finding;
}

/// Something wrong under a check's key that its type cannot say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: the field, and the place in its list. `None`: the check as a whole.
    pub field: Option<(&'static str, Option<usize>)>,
    /// What is wrong: a lower-case sentence.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Problem {
    fn whole(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            field: None,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    fn field(name: &'static str, message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            field: Some((name, None)),
            message: message.into(),
            hint,
        }
    }
}

/// What stands under a check's key: knows how to become the check, or all that is wrong with it.
trait Build {
    fn build(self, variables: &BTreeMap<String, String>) -> Result<Arc<dyn Check>, Vec<Problem>>;
}

/// Says why a pattern is no regular expression, on one line.
#[must_use]
pub fn regex_reason(error: &regex::Error) -> String {
    let reason = error.to_string();
    let last = reason.lines().last().unwrap_or_default().trim();
    last.trim_start_matches("error: ").to_owned()
}

fn bad_regex(field: &'static str, error: &regex::Error) -> Problem {
    let reason = regex_reason(error);
    Problem::field(
        field,
        format!("`{field}` is not a regular expression: {reason}"),
        None,
    )
}

/// Cuts a text for a message: at most `limit` characters, with a mark where something is missing.
fn clipped(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Makes `CheckSpec`, its `build` and the list of kinds from one line a check.
macro_rules! table {
    ($($(#[$doc:meta])* $key:literal => $variant:ident($spec:ty),)+) => {
        /// One check of a task file: a map with one key, which names the kind.
        #[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
        pub enum CheckSpec {
            $($(#[$doc])* #[serde(rename = $key)] $variant($spec),)+
        }

        /// The keys of all kinds of checks.
        pub const KINDS: &[&str] = &[$($key),+];

        impl CheckSpec {
            /// The key in the task file.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $key,)+ }
            }

            /// Makes the check. `variables` is the environment that `${NAME}` refers to.
            ///
            /// # Errors
            /// Everything that is wrong with it.
            pub fn build(
                self,
                variables: &BTreeMap<String, String>,
            ) -> Result<Arc<dyn Check>, Vec<Problem>> {
                match self { $(Self::$variant(spec) => spec.build(variables),)+ }
            }
        }
    };
}

table! {
    /// Runs a shell command in the workspace; passes when it exits with 0.
    "command" => Command(CommandSpec),
    /// Looks at which files the agent changed.
    "changed" => Changed(ChangedSpec),
    /// Looks at the text of the model's last reply.
    "reply" => Reply(ReplySpec),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_builds_a_check_that_knows_its_own_key() {
        let specs = [
            serde_json::json!({"command": {"run": "true"}}),
            serde_json::json!({"changed": {"only": ["src/**"]}}),
            serde_json::json!({"reply": {"contains": "done"}}),
        ];
        assert_eq!(specs.len(), KINDS.len(), "a kind has no example here");
        for (spec, kind) in specs.into_iter().zip(KINDS) {
            let spec: CheckSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(spec.kind(), *kind);
            assert_eq!(spec.build(&BTreeMap::new()).unwrap().kind(), *kind);
        }
    }
}
