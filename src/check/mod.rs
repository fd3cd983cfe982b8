//! Checks: what a task's work is measured by, after the agent is gone, from the side that the agent cannot reach.
//!
//! A check is one file here and one line in the table at the end of this file: the key in the task file and the type
//! that says what may stand under it. `task` reads a [`CheckSpec`], [`CheckSpec::build`] makes the [`Check`] of it, and
//! `batch` runs the checks of a task in order with [`run`]. What a check finds out and what it makes of that are two
//! functions: the `judge` of each file is pure.
//!
//! Three answers, and one law: **a check that could not be run is an error and never a pass**, wherever it stands. In a
//! [group](group) an error is therefore the answer of the whole group, also under `not`.
//!
//! | kind | looks at |
//! |---|---|
//! | `command` | exit code and output of a shell command, if wanted with files as they were before the agent came |
//! | `file` | one file of the workspace |
//! | `changed` | which files the agent changed, and how much |
//! | `reply`, `output` | the last reply; the structured answer |
//! | `calls`, `denials` | what the agent tried to do, and what was denied |
//! | `cost`, `steps`, `tokens`, `time` | what it took |
//! | `judge` | another model's opinion |
//! | `all`, `any`, `not` | other checks |

mod budgeted;
mod call_log;
mod calls;
mod changed;
mod command;
mod context;
mod denials;
mod diff;
mod file;
mod finding;
mod globs;
mod group;
mod judge;
mod output;
mod pattern;
pub mod reference;
mod reply;
mod run;
mod shape;
mod stream;
mod time_span;
mod words;
mod yaml;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use budgeted::{CostSpec, StepsSpec, TimeSpec, TokensSpec};
pub use call_log::{CallLog, LoggedCall};
pub use calls::CallsSpec;
pub use changed::ChangedSpec;
pub use command::CommandSpec;
pub use context::{CheckContext, Taken};
pub use denials::DenialsSpec;
pub use file::FileSpec;
pub use finding::{Finding, Problem, Step};
pub use group::{AllSpec, AnySpec, NotSpec};
pub use judge::JudgeSpec;
pub use output::OutputSpec;
pub use reply::ReplySpec;
pub use run::run;
pub use shape::{SchemaSpec, compile};
pub use time_span::TimeSpan;

/// One check of a task.
#[async_trait]
pub trait Check: Send + Sync + std::fmt::Debug {
    /// The key in the task file.
    fn kind(&self) -> &'static str;
    /// What it demands, in a few words.
    fn title(&self) -> String;
    /// How long it may take.
    fn time_limit(&self) -> Duration;
    /// Runs it. [`run`] is what callers use: it holds the time limit and frees the finding of secrets.
    async fn run(&self, context: &CheckContext<'_>) -> Finding;
    /// The checks in it, of a group.
    fn parts(&self) -> &[Arc<dyn Check>] {
        &[]
    }
    /// Whether it starts processes.
    fn starts_processes(&self) -> bool {
        self.parts().iter().any(|part| part.starts_processes())
    }
}

/// What a check may refer to when it is made.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The environment that `${NAME}` in commands refers to.
    pub variables: &'a BTreeMap<String, String>,
    /// The directory of the task file.
    pub directory: &'a Path,
    /// The schema of the structured answer, if the task demands one.
    pub output_schema: Option<&'a serde_json::Value>,
    /// How many groups stand around the check.
    pub depth: usize,
}

/// What stands under a check's key: knows how to become the check, or all that is wrong with it.
trait Build {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>>;

    /// The models that it names, with the place of each below the check's key.
    fn models(&self) -> Vec<(Vec<Step>, &str)> {
        Vec::new()
    }
}

/// The time limit of a check that looks at what lies there already.
const QUICK: Duration = Duration::from_secs(60);
/// The longest time limit, which is also that of a task.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The time limit under the key `timeout`, or the usual one.
fn time_limit(given: Option<TimeSpan>, usual: Duration, problems: &mut Vec<Problem>) -> Duration {
    let limit = given.map_or(usual, |span| span.0);
    if limit.is_zero() || limit > LONGEST {
        let found = TimeSpan(limit);
        let message = format!("`timeout` must be above 0 and at most 24h, found `{found}`");
        problems.push(Problem::field("timeout", message, None));
    }
    limit
}

/// Says why a pattern is no regular expression, on one line.
#[must_use]
pub fn regex_reason(error: &regex::Error) -> String {
    let reason = error.to_string();
    let last = reason.lines().last().unwrap_or_default().trim();
    last.trim_start_matches("error: ").to_owned()
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
        #[expect(clippy::large_enum_variant, reason = "a task file has a handful of them, and each is built at once")]
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

            /// Makes the check.
            ///
            /// # Errors
            /// Everything that is wrong with it.
            pub fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
                match self { $(Self::$variant(spec) => Build::build(spec, world),)+ }
            }

            /// The models that it names, with the place of each below the check's key.
            #[must_use]
            pub fn models(&self) -> Vec<(Vec<Step>, &str)> {
                match self { $(Self::$variant(spec) => Build::models(spec),)+ }
            }
        }
    };
}

table! {
    /// Runs a shell command in the workspace; passes when it exits with 0.
    "command" => Command(CommandSpec),
    /// Looks at one file of the workspace.
    "file" => File(FileSpec),
    /// Looks at which files the agent changed, and how much.
    "changed" => Changed(ChangedSpec),
    /// Looks at the text of the model's last reply.
    "reply" => Reply(ReplySpec),
    /// Looks at the structured answer that `output_schema` demands.
    "output" => Output(OutputSpec),
    /// Looks at the tool calls that the model asked for: which, in which order, how often, and what the gate said.
    "calls" => Calls(CallsSpec),
    /// Names denials that are expected: they do not fail the task, and one that did not happen does.
    "denials" => Denials(DenialsSpec),
    /// Looks at what the agent's model calls cost.
    "cost" => Cost(CostSpec),
    /// Looks at how many model calls the agent made.
    "steps" => Steps(StepsSpec),
    /// Looks at how many tokens the agent used.
    "tokens" => Tokens(TokensSpec),
    /// Looks at how long the agent took.
    "time" => Time(TimeSpec),
    /// Asks another model for a score.
    "judge" => Judge(JudgeSpec),
    /// Passes when each of these checks passes.
    "all" => All(AllSpec),
    /// Passes when one of these checks passes.
    "any" => Any(AnySpec),
    /// Passes when this check fails. One that could not be run stays an error.
    "not" => Not(NotSpec),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_builds_a_check_that_knows_its_own_key() {
        let specs = [
            json!({"command": {"run": "true"}}),
            json!({"file": {"path": "a"}}),
            json!({"changed": {"only": ["src/**"]}}),
            json!({"reply": {"contains": "done"}}),
            json!({"output": {}}),
            json!({"calls": {"required": ["Read"]}}),
            json!({"denials": {"expected": ["Bash(rm:*)"]}}),
            json!({"cost": {"at_most": 0.5}}),
            json!({"steps": {"at_most": 5}}),
            json!({"tokens": {"at_most": 5}}),
            json!({"time": {"at_most": "5m"}}),
            json!({"judge": {"model": "scripted/j.yaml", "rubric": "Is it good?"}}),
            json!({"all": [{"reply": {"contains": "a"}}]}),
            json!({"any": [{"reply": {"contains": "a"}}]}),
            json!({"not": {"reply": {"contains": "a"}}}),
        ];
        assert_eq!(specs.len(), KINDS.len(), "a kind has no example here");
        let world = context::fixture::world();
        for (spec, kind) in specs.into_iter().zip(KINDS) {
            let spec: CheckSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(spec.kind(), *kind);
            let check = spec.build(world).unwrap();
            assert_eq!(check.kind(), *kind);
            assert!(!check.title().is_empty() && !check.time_limit().is_zero());
        }
    }
}
