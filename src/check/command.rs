//! `command`: a shell command in the workspace has the exit code, and says the words, that the task demands.
//!
//! The command is the task file's, so it is trusted and passes no gate; what it reads is the workspace, which is not.
//! `${NAME}` in it is left to bash, and the variable is handed over through the environment: a value can so never
//! become shell code, whoever wrote it (the title of a pull request, for one).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::block_in_place;

use super::globs::Globs;
use super::reference::{Piece, pieces};
use super::stream::{KEPT_OUTPUT, Output, Stream, StreamSpec};
use super::words::Words;
use super::{Build, Check, CheckContext, Finding, Problem, TimeSpan, World, clipped, time_limit};
use crate::event::CheckResult;
use crate::proc::{Ending, Finished, Launcher, Spec, Stderr};
use crate::workspace::Staged;

/// The time limit of a command that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How large the files may be together that the agent changed, so that they are copied for `from: base`, in bytes.
const LARGEST_COPY: u64 = 2 * 1024 * 1024 * 1024;
/// How much of the output's end a message shows.
const TAIL_LINES: usize = 20;
/// How long a message's tail is at most, in characters.
const TAIL_CHARS: usize = 2000;
/// How many files a message names.
const SHOWN_FILES: usize = 5;
/// Variables by which bash would read other code than the task file's.
const SHELL_STARTUP: [&str; 4] = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"];

/// Runs a shell command in the workspace, after the agent is gone.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// The command line for `bash -c`. `${NAME}` is handed over as an environment variable and must be set;
    /// `${NAME:-default}` need not be; `$${` stands for a `${` that is bash's own affair.
    pub run: String,
    /// How long it may take. Default: `10m`.
    pub timeout: Option<TimeSpan>,
    /// The exit code that passes. Default: 0.
    #[schemars(range(min = 0, max = 255))]
    pub expect_exit: Option<u8>,
    /// The output (stdout and stderr together) contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// The output does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
    /// A regular expression that must match somewhere in the output (stdout and stderr together).
    pub matches: Option<String>,
    /// Demands on stdout alone.
    pub stdout: Option<StreamSpec>,
    /// Demands on stderr alone.
    pub stderr: Option<StreamSpec>,
    /// `base`: the command runs in a copy of what the agent left, in which `files` are as they were before the agent came.
    /// An agent that edited its own tests is found out so. What git ignores is not in the copy.
    pub from: Option<Origin>,
    /// With `from: base`: patterns for the files that are put back, as in `tests/**`. Files that the agent added there are
    /// gone in the copy.
    #[schemars(length(min = 1))]
    pub files: Option<Vec<String>>,
}

/// Where files of a check come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The workspace before the agent came.
    Base,
}

#[derive(Debug)]
struct Command {
    /// For bash.
    script: String,
    /// Handed over beside the environment of every child.
    variables: BTreeMap<String, String>,
    timeout: Duration,
    expect_exit: u8,
    output: Words,
    /// Whether the two streams are captured apart.
    apart: bool,
    stdout: Stream,
    stderr: Stream,
    /// The files that are put back; empty where the command runs in the workspace itself.
    base: Globs,
}

impl Build for CommandSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.run.trim().is_empty() {
            problems.push(Problem::field("run", "the command is empty", None));
        }
        let (script, variables) = with_variables(&self.run, world.variables, &mut problems);
        let timeout = time_limit(self.timeout, DEFAULT_TIMEOUT, &mut problems);
        let output = Words::new(
            self.contains,
            self.not_contains,
            self.matches,
            &mut problems,
        );
        let apart = self.stdout.is_some() || self.stderr.is_some();
        let stdout = Stream::new("stdout", self.stdout, world.directory, &mut problems);
        let stderr = Stream::new("stderr", self.stderr, world.directory, &mut problems);
        let base = match (self.from, self.files) {
            (Some(Origin::Base), Some(files)) if !files.is_empty() => {
                Globs::new("files", &files, &mut problems)
            }
            (Some(Origin::Base), _) => {
                let hint = "add `files`, as in `files: [\"tests/**\"]`".to_owned();
                let message = "`from: base` does not say which files";
                problems.push(Problem::field("from", message, Some(hint)));
                Globs::default()
            }
            (None, Some(_)) => {
                let hint = "add `from: base`".to_owned();
                let message = "`files` does not say where they come from";
                problems.push(Problem::field("files", message, Some(hint)));
                Globs::default()
            }
            (None, None) => Globs::default(),
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Command {
            script,
            variables,
            timeout,
            expect_exit: self.expect_exit.unwrap_or(0),
            output,
            apart,
            stdout,
            stderr,
            base,
        }))
    }
}

/// The script as bash gets it, and the variables that it refers to.
fn with_variables(
    run: &str,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> (String, BTreeMap<String, String>) {
    let mut script = String::new();
    let mut variables = BTreeMap::new();
    for piece in pieces(run) {
        match piece {
            // Bash knows more forms than we do; those are its own affair.
            Piece::Text(text) | Piece::Malformed(text) => script.push_str(text),
            Piece::Escape => script.push_str("${"),
            Piece::Reference { raw, name, default } => {
                script.push_str(raw);
                if let Some(value) = environment.get(name) {
                    variables.insert(name.to_owned(), value.clone());
                } else if default.is_none() {
                    problems.push(Problem::field(
                        "run",
                        format!("the environment variable `{name}` is not set"),
                        Some(format!(
                            "set it, write `${{{name}:-default}}`, or `$${{{name}}}` where it is a variable of the script"
                        )),
                    ));
                }
            }
        }
    }
    (script, variables)
}

#[async_trait]
impl Check for Command {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn title(&self) -> String {
        let first = self.script.trim().lines().next().unwrap_or_default();
        let more = if self.script.trim().lines().count() > 1 {
            " …"
        } else {
            ""
        };
        let mut demands = vec![format!("exits with {}", self.expect_exit)];
        let says = self.output.titles();
        demands.extend(says.iter().map(|title| format!("its output {title}")));
        demands.extend(self.stdout.titles("stdout"));
        demands.extend(self.stderr.titles("stderr"));
        let from = if self.base.is_empty() {
            String::new()
        } else {
            format!(" with {} from base", self.base.shown())
        };
        format!(
            "`{}{more}`{from} {}",
            clipped(first, 80),
            demands.join(" and ")
        )
    }

    fn time_limit(&self) -> Duration {
        self.timeout
    }

    fn starts_processes(&self) -> bool {
        true
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        if self.base.is_empty() {
            return self
                .execute(context, &context.launcher, context.workspace.root())
                .await;
        }
        let staged = match block_in_place(|| self.stage(context)) {
            Ok(staged) => staged,
            Err(why) => return Finding::errored(why),
        };
        let launcher = (context.held_to)(staged.root());
        let finding = self.execute(context, &launcher, staged.root()).await;
        block_in_place(|| drop(staged));
        self.with_edits(finding, context)
    }
}

impl Command {
    /// A copy of what the agent left with the named files as they were.
    fn stage(&self, context: &CheckContext<'_>) -> Result<Staged, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A file of any size is made in no time, and its copy would fill the disk.
        let size = size_of_changes(context);
        if size > LARGEST_COPY {
            return Err(format!(
                "the files that the agent changed have {} MiB together, more than the {} MiB that are copied for a check",
                size / 1024 / 1024,
                LARGEST_COPY / 1024 / 1024
            ));
        }
        let target = context.scratch.join(format!("check-{number}"));
        let staged = context
            .workspace
            .stage(&target, &|path| self.base.matches(path))
            .map_err(|error| format!("the files could not be put back: {error}"))?;
        if staged.restored() == 0 {
            return Err(format!(
                "nothing in the base matches {}: the check would measure nothing",
                self.base.shown()
            ));
        }
        Ok(staged)
    }

    /// Names the files that the agent changed although the check takes them from elsewhere.
    fn with_edits(&self, mut finding: Finding, context: &CheckContext<'_>) -> Finding {
        let edited: Vec<String> = context
            .changes
            .iter()
            .filter(|change| self.base.matches(&change.path))
            .map(|change| change.path.escape_debug().to_string())
            .collect();
        if edited.is_empty() {
            return finding;
        }
        let named: Vec<String> = edited
            .iter()
            .take(SHOWN_FILES)
            .map(|path| format!("`{}`", clipped(path, 200)))
            .collect();
        let more = match edited.len().saturating_sub(SHOWN_FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let edits = format!(
            "the agent changed {}{more}, which this check takes from base",
            named.join(", ")
        );
        finding.message = match finding.result {
            CheckResult::Passed => edits,
            CheckResult::Failed | CheckResult::Errored => format!("{}; {edits}", finding.message),
        };
        finding
    }

    async fn execute(
        &self,
        context: &CheckContext<'_>,
        launcher: &Launcher,
        root: &Path,
    ) -> Finding {
        let mut env = context.environment.clone();
        for (name, value) in &self.variables {
            // What every child gets was built with care (`PATH`, `HOME`), and stays.
            env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        env.retain(|name, _| {
            !SHELL_STARTUP.contains(&name.as_str()) && !name.starts_with("BASH_FUNC_")
        });
        let argv = ["bash", "--noprofile", "--norc", "-c", &self.script];
        let spec = Spec {
            argv: argv.map(str::to_owned).to_vec(),
            cwd: root.to_path_buf(),
            env,
            stdin: Vec::new(),
            time_limit: self.timeout,
            keep: KEPT_OUTPUT,
            spill: None,
            stderr: if self.apart {
                Stderr::Separate
            } else {
                Stderr::Merged
            },
        };
        let redactor = Arc::clone(&context.redactor);
        match launcher.run(spec, redactor, &context.cancel).await {
            Ok(finished) => self.judge(&finished),
            Err(error) => Finding::errored(format!("the command could not be started: {error}")),
        }
    }

    fn judge(&self, finished: &Finished) -> Finding {
        let (stdout, stderr) = (Output::of(&finished.stdout), Output::of(&finished.stderr));
        let together = stdout.and(&stderr);
        let expected = self.expect_exit;
        let finding = match finished.ending {
            Ending::Cancelled => return Finding::errored("the run was interrupted"),
            Ending::TimedOut => {
                let limit = TimeSpan(self.timeout);
                Finding::undecided(format!("not done within its time limit of {limit}"))
            }
            Ending::Signaled(signal) => Finding::undecided(format!("killed by signal {signal}")),
            Ending::Exited(code) if code != i32::from(expected) => {
                let failed = format!("exit code {code}, expected {expected}");
                // What bash says of a program that is not there, or is none.
                if matches!(code, 126 | 127) {
                    Finding::undecided(failed)
                } else {
                    Finding::failed(failed)
                }
            }
            Ending::Exited(_) => {
                let broken = together.broken("the output", &self.output);
                let broken = broken.and(self.stdout.broken("stdout", &stdout));
                broken.and(self.stderr.broken("stderr", &stderr)).finding()
            }
        };
        match (finding.result, tail(&together.text)) {
            (CheckResult::Passed, _) => finding,
            (_, "") => finding.with_details("there was no output"),
            (_, tail) => finding.with_details(tail),
        }
    }
}

/// How large the regular files are together that the agent changed, in bytes.
fn size_of_changes(context: &CheckContext<'_>) -> u64 {
    let root = context.workspace.root();
    let sizes = context.changes.iter().filter_map(|change| {
        let found = fs::symlink_metadata(root.join(&change.path)).ok()?;
        found.is_file().then_some(found.len())
    });
    sizes.fold(0, u64::saturating_add)
}

/// The end of an output: what a person looks at first.
fn tail(output: &str) -> &str {
    let output = output.trim_end();
    let lines = output
        .rmatch_indices('\n')
        .nth(TAIL_LINES - 1)
        .map_or(0, |(place, _)| place + 1);
    let chars = output
        .char_indices()
        .rev()
        .nth(TAIL_CHARS - 1)
        .map_or(0, |(place, _)| place);
    &output[lines.max(chars)..]
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::{Place, world};
    use super::*;
    use crate::proc::Captured;

    fn spec(json: serde_json::Value) -> CommandSpec {
        serde_json::from_value(json).unwrap()
    }

    fn command(json: serde_json::Value) -> Command {
        let spec = spec(json);
        let mut problems = Vec::new();
        let apart = spec.stdout.is_some() || spec.stderr.is_some();
        let command = Command {
            script: spec.run,
            variables: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
            expect_exit: spec.expect_exit.unwrap_or(0),
            output: Words::new(
                spec.contains,
                spec.not_contains,
                spec.matches,
                &mut problems,
            ),
            apart,
            stdout: Stream::new("stdout", spec.stdout, Path::new("/"), &mut problems),
            stderr: Stream::new("stderr", spec.stderr, Path::new("/"), &mut problems),
            base: Globs::new("files", &spec.files.unwrap_or_default(), &mut problems),
        };
        assert_eq!(problems, []);
        command
    }

    fn finished(ending: Ending, text: &str) -> Finished {
        let stdout = Captured {
            text: text.to_owned(),
            bytes: text.len() as u64,
            spilled: None,
        };
        Finished {
            ending,
            stdout,
            stderr: Captured::default(),
            leaked: 0,
            left: Vec::new(),
        }
    }

    #[test]
    fn the_exit_code_decides_and_the_message_has_the_output_s_end() {
        let check = command(serde_json::json!({"run": "make"}));
        assert_eq!(
            check.judge(&finished(Ending::Exited(0), "ok")),
            Finding::passed()
        );
        assert_eq!(
            check.judge(&finished(Ending::Exited(2), "a\nb\n")),
            Finding::failed("exit code 2, expected 0\na\nb")
        );
        let odd = command(serde_json::json!({"run": "false", "expect_exit": 1}));
        assert_eq!(
            odd.judge(&finished(Ending::Exited(1), "")).result,
            CheckResult::Passed
        );
        let silent = odd.judge(&finished(Ending::Exited(0), ""));
        assert_eq!(silent.message, "exit code 0, expected 1");
        assert_eq!(silent.details, "there was no output");
    }

    #[test]
    fn a_time_limit_fails_and_names_the_limit_while_an_interruption_is_no_finding() {
        let check = command(serde_json::json!({"run": "sleep 9999"}));
        let late = check.judge(&finished(Ending::TimedOut, ""));
        assert_eq!((late.result, late.decisive), (CheckResult::Failed, false));
        assert!(
            late.message.contains("time limit of 10m"),
            "{}",
            late.message
        );
        let cancelled = check.judge(&finished(Ending::Cancelled, ""));
        assert_eq!(cancelled.result, CheckResult::Errored);
        let killed = check.judge(&finished(Ending::Signaled(9), ""));
        assert!(killed.message.contains("signal 9"));
    }

    #[test]
    fn the_output_must_match_when_the_task_says_so() {
        let check = command(serde_json::json!({"run": "t", "matches": "[0-9]+ passed"}));
        assert_eq!(
            check.judge(&finished(Ending::Exited(0), "12 passed")),
            Finding::passed()
        );
        assert_eq!(
            check
                .judge(&finished(Ending::Exited(0), "none passed"))
                .result,
            CheckResult::Failed
        );
    }

    #[test]
    fn the_tail_is_bounded_in_lines_and_characters() {
        let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
        let lines = lines.join("\n");
        assert_eq!(tail(&lines).lines().count(), TAIL_LINES);
        assert!(tail(&lines).ends_with("line 99"));
        assert_eq!(tail(&"é".repeat(5000)).chars().count(), TAIL_CHARS);
        assert_eq!(tail("short"), "short");
    }

    #[test]
    fn a_variable_s_value_never_becomes_shell_code() {
        let environment = BTreeMap::from([("TITLE".to_owned(), "x; rm -rf /".to_owned())]);
        let mut problems = Vec::new();
        let (script, variables) = with_variables(
            "echo \"${TITLE}\" $${own} ${NO:-d}",
            &environment,
            &mut problems,
        );
        assert_eq!(script, "echo \"${TITLE}\" ${own} ${NO:-d}");
        assert_eq!(variables["TITLE"], "x; rm -rf /");
        assert_eq!(problems, []);
    }

    #[test]
    fn everything_that_is_wrong_with_a_command_is_said_at_once() {
        let problems = spec(serde_json::json!({
            "run": "echo ${GONE}", "timeout": "0s", "matches": "(", "from": "base",
            "stdout": {}, "stderr": {"schema": {"type": 1}},
        }))
        .build(world())
        .unwrap_err();
        let places: Vec<String> = problems.iter().map(Problem::place).collect();
        assert_eq!(
            places,
            [
                "run",
                "timeout",
                "matches",
                "stdout",
                "stderr.schema",
                "from"
            ]
        );
        let why = &problems[2].message;
        assert!(why.contains("unclosed group"), "{why}");
    }

    #[test]
    fn each_stream_has_demands_of_its_own() {
        let check = command(serde_json::json!({
            "run": "t", "stdout": {"json": {"/ok": true}}, "stderr": {"not_contains": "warning"}
        }));
        let run = |stdout: &str, stderr: &str| {
            let mut finished = finished(Ending::Exited(0), stdout);
            finished.stderr.text = stderr.to_owned();
            check.judge(&finished)
        };
        assert_eq!(run("{\"ok\": true}", ""), Finding::passed());
        assert_eq!(
            run("{\"ok\": true}", "warning: x").message,
            "stderr contains `warning`"
        );
        let broken = run("no", "warning");
        assert!(
            broken.message.starts_with("stdout is not JSON"),
            "{}",
            broken.message
        );
        assert!(
            broken.message.ends_with("(and 1 more)"),
            "{}",
            broken.message
        );
    }

    #[test]
    fn of_an_output_that_is_cut_nobody_says_what_it_does_not_hold() {
        let long = |spec: serde_json::Value| {
            let mut finished = finished(Ending::Exited(0), "begin {}\n...\nend");
            finished.stdout.bytes = KEPT_OUTPUT as u64 + 1;
            let finding = command(spec).judge(&finished);
            (finding.result, finding.decisive)
        };
        let unknown = (CheckResult::Failed, false);
        for (spec, expected) in [
            (serde_json::json!({"run": "t"}), (CheckResult::Passed, true)),
            (
                serde_json::json!({"run": "t", "contains": "end", "matches": "^begin"}),
                (CheckResult::Passed, true),
            ),
            (serde_json::json!({"run": "t", "contains": "FAIL"}), unknown),
            (serde_json::json!({"run": "t", "matches": "FAIL"}), unknown),
            (
                serde_json::json!({"run": "t", "not_contains": "FAIL"}),
                unknown,
            ),
            (
                serde_json::json!({"run": "t", "stdout": {"not_contains": "FAIL"}}),
                unknown,
            ),
            (
                serde_json::json!({"run": "t", "stdout": {"schema": {}}}),
                unknown,
            ),
        ] {
            assert_eq!(long(spec.clone()), expected, "{spec}");
        }
        let json = command(serde_json::json!({"run": "t", "stdout": {"json": {"/ok": true}}}));
        assert!(!json.judge(&finished(Ending::Exited(0), "garbage")).decisive);
        assert!(
            json.judge(&finished(Ending::Exited(0), "{\"ok\": false}"))
                .decisive
        );
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_started_is_an_error_and_not_a_failure() {
        let place = Place::new();
        let finding = command(serde_json::json!({"run": "true"}))
            .run(&place.context())
            .await;
        assert_eq!(finding.result, CheckResult::Errored);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_would_fill_the_disk_is_not_copied() {
        let place = Place::new();
        let huge = fs::File::create(place.dir.path().join("big")).unwrap();
        huge.set_len(1 << 40).unwrap();
        let check = command(serde_json::json!({"run": "true", "files": ["tests/**"]}));
        let finding = check.run(&place.context()).await;
        assert_eq!(finding.result, CheckResult::Errored);
        assert!(
            finding.message.contains("1048576 MiB"),
            "{}",
            finding.message
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_base_without_any_of_the_files_is_an_error() {
        let place = Place::new();
        let check = command(serde_json::json!({"run": "true", "files": ["tests/**"]}));
        let finding = check.run(&place.context()).await;
        assert_eq!(finding.result, CheckResult::Errored);
        assert!(
            finding.message.contains("measure nothing"),
            "{}",
            finding.message
        );
    }
}
