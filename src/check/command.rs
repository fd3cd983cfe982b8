//! `command`: a shell command in the workspace has the exit code, and says the words, that the task demands.
//!
//! The command is the task file's, so it is trusted and passes no gate; what it reads is the workspace, which is not.
//! `${NAME}` in it is left to bash, and the variable is handed over through the environment: a value can so never
//! become shell code, whoever wrote it (the title of a pull request, for one).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::reference::{Piece, pieces};
use super::{Build, Check, CheckContext, Finding, Problem, TimeSpan, bad_regex, clipped};
use crate::proc::{Ending, Finished, Spec, Stderr};

/// The time limit of a command that names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The longest time limit, which is also that of a task.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// How much of the output is kept in memory, in bytes.
const KEPT_OUTPUT: usize = 256 * 1024;
/// How much of the output's end a message shows.
const TAIL_LINES: usize = 20;
/// How long a message's tail is at most, in characters.
const TAIL_CHARS: usize = 2000;
/// Variables by which bash would read other code than the task file's.
const SHELL_STARTUP: [&str; 4] = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"];

/// Runs a shell command in the workspace, after the agent is gone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
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
    /// A regular expression that must match somewhere in the output (stdout and stderr together).
    pub matches: Option<String>,
}

#[derive(Debug)]
struct Command {
    /// For bash.
    script: String,
    /// Handed over beside the environment of every child.
    variables: BTreeMap<String, String>,
    timeout: Duration,
    expect_exit: u8,
    matches: Option<Regex>,
}

impl Build for CommandSpec {
    fn build(self, environment: &BTreeMap<String, String>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.run.trim().is_empty() {
            problems.push(Problem::field("run", "the command is empty", None));
        }
        let (script, variables) = with_variables(&self.run, environment, &mut problems);
        let timeout = self.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0);
        if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
            problems.push(Problem::field(
                "timeout",
                format!(
                    "`timeout` must be above 0 and at most 24h, found `{}`",
                    TimeSpan(timeout)
                ),
                None,
            ));
        }
        let matches = self.matches.and_then(|pattern| {
            Regex::new(&pattern)
                .map_err(|error| problems.push(bad_regex("matches", &error)))
                .ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Command {
            script,
            variables,
            timeout,
            expect_exit: self.expect_exit.unwrap_or(0),
            matches,
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
        let matches = self.matches.as_ref().map_or_else(String::new, |pattern| {
            format!(" and says `{}`", clipped(pattern.as_str(), 60))
        });
        format!(
            "`{}{more}` exits with {}{matches}",
            clipped(first, 80),
            self.expect_exit
        )
    }

    async fn run(&self, context: &CheckContext) -> Finding {
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
            cwd: context.workspace.clone(),
            env,
            stdin: Vec::new(),
            time_limit: self.timeout,
            keep: KEPT_OUTPUT,
            spill: None,
            stderr: Stderr::Merged,
        };
        let redactor = Arc::clone(&context.redactor);
        let finding = match context.launcher.run(spec, redactor, &context.cancel).await {
            Ok(finished) => self.judge(&finished),
            Err(error) => Finding::errored(format!("the command could not be started: {error}")),
        };
        finding.redacted(&context.redactor)
    }
}

impl Command {
    fn judge(&self, finished: &Finished) -> Finding {
        let output = &finished.stdout.text;
        let expected = self.expect_exit;
        match finished.ending {
            Ending::Cancelled => return Finding::errored("the run was interrupted"),
            Ending::TimedOut => {
                let limit = TimeSpan(self.timeout);
                return failed(
                    &format!("not done within its time limit of {limit}"),
                    output,
                );
            }
            Ending::Signaled(signal) => {
                return failed(&format!("killed by signal {signal}"), output);
            }
            Ending::Exited(code) if code != i32::from(expected) => {
                return failed(&format!("exit code {code}, expected {expected}"), output);
            }
            Ending::Exited(_) => {}
        }
        match &self.matches {
            Some(pattern) if !pattern.is_match(output) => failed(
                &format!("nothing in the output matches `{pattern}`"),
                output,
            ),
            _ => Finding::passed(),
        }
    }
}

fn failed(what: &str, output: &str) -> Finding {
    let tail = tail(output);
    if tail.is_empty() {
        return Finding::failed(format!("{what}; there was no output"));
    }
    Finding::failed(format!("{what}\n{tail}"))
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
    use super::*;
    use crate::event::CheckResult;
    use crate::proc::Captured;

    fn spec(json: serde_json::Value) -> CommandSpec {
        serde_json::from_value(json).unwrap()
    }

    fn command(json: serde_json::Value) -> Command {
        let spec = spec(json);
        Command {
            script: spec.run,
            variables: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
            expect_exit: spec.expect_exit.unwrap_or(0),
            matches: spec.matches.map(|pattern| Regex::new(&pattern).unwrap()),
        }
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
        assert_eq!(
            odd.judge(&finished(Ending::Exited(0), "")).message,
            "exit code 0, expected 1; there was no output"
        );
    }

    #[test]
    fn a_time_limit_fails_and_names_the_limit_while_an_interruption_is_no_finding() {
        let check = command(serde_json::json!({"run": "sleep 9999"}));
        let late = check.judge(&finished(Ending::TimedOut, ""));
        assert_eq!(late.result, CheckResult::Failed);
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
        let problems =
            spec(serde_json::json!({"run": "echo ${GONE}", "timeout": "0s", "matches": "("}))
                .build(&BTreeMap::new())
                .unwrap_err();
        let fields: Vec<_> = problems
            .iter()
            .map(|problem| problem.field.unwrap().0)
            .collect();
        assert_eq!(fields, ["run", "timeout", "matches"]);
        assert!(
            problems[2].message.contains("unclosed group"),
            "{}",
            problems[2].message
        );
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_started_is_an_error_and_not_a_failure() {
        let context = CheckContext {
            workspace: "/".into(),
            reply: String::new(),
            changes: Vec::new(),
            launcher: crate::proc::Launcher::new("/nonexistent/supervisor".into()),
            environment: BTreeMap::new(),
            redactor: Arc::default(),
            cancel: tokio_util::sync::CancellationToken::new(),
        };
        let finding = command(serde_json::json!({"run": "true"}))
            .run(&context)
            .await;
        assert_eq!(finding.result, CheckResult::Errored);
    }
}
