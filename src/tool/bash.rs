//! `Bash`: one command line in a fresh shell.
//!
//! The shell gets exactly the bytes that the gate analysed, no start-up file, and no function or option from the
//! environment. When it ends, so does everything that it started.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Tool, ToolContext, ToolOutput, input};
use crate::policy::{Action, Permit};
use crate::proc::{Ending, Finished, Spec, Stderr};

/// Bytes of a result that are kept for notices.
const NOTICE: usize = 600;
/// Where bash usually is. A search path may lead into the workspace, these do not.
const SHELLS: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];
/// Variables, beside `BASH*`, that change what a command line means.
const LEVERS: [&str; 7] = [
    "ENV",
    "SHELLOPTS",
    "POSIXLY_CORRECT",
    "CDPATH",
    "GLOBIGNORE",
    "IFS",
    "PS4",
];
/// Commands whose exit code 1 is an answer ("no match", "different", "false") and no failure.
const ONE_IS_AN_ANSWER: [&str; 9] = [
    "grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "find",
];

/// See the module.
pub(super) struct Bash;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The command line, as `bash -c` gets it.
    command: String,
    /// Time limit in milliseconds; more than the task allows is cut to that.
    #[schemars(range(min = 1))]
    timeout: Option<u64>,
    /// What the command does, in a few words.
    #[serde(rename = "description")]
    _description: Option<String>,
}

#[async_trait]
impl Tool for Bash {
    fn name(&self) -> &'static str {
        "Bash"
    }

    fn description(&self) -> &'static str {
        "Runs a command line with bash in the workspace and gives its output, stdout and stderr in order. Every call is a \
         fresh shell: neither directory, variables nor background processes last; whatever still runs at the end is \
         killed. There is no terminal and no input. A failure begins with `Exit code N`."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Bash {
            command: input::string(input, "command").unwrap_or_default(),
        }
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        let input: Input = match input::parse(permit.input()) {
            Ok(input) => input,
            Err(error) => return ToolOutput::error(error),
        };
        if input.command.contains('\0') {
            return ToolOutput::error("the command holds a NUL character");
        }
        let time_limit = input
            .timeout
            .map_or(context.time_limit, Duration::from_millis)
            .min(context.time_limit);
        let spec = Spec {
            argv: argv(&input.command),
            cwd: permit.workspace().to_path_buf(),
            env: environment(&context.environment),
            stdin: Vec::new(),
            time_limit,
            keep: context.output_limit.saturating_sub(NOTICE),
            spill: Some(
                context
                    .output_dir
                    .join(format!("{}.txt", context.output_stem)),
            ),
            stderr: Stderr::Merged,
        };
        let run = context
            .launcher
            .run(spec, context.redactor.clone(), &context.cancel);
        match run.await {
            Ok(finished) => output(&input.command, time_limit, finished),
            Err(error) => ToolOutput::error(format!("the command could not be run: {error}")),
        }
    }
}

fn argv(command: &str) -> Vec<String> {
    let shell = SHELLS
        .into_iter()
        .find(|shell| Path::new(shell).exists())
        .unwrap_or("bash");
    [shell, "--noprofile", "--norc", "-c", command]
        .map(str::to_owned)
        .to_vec()
}

/// Without the variables by which an environment can make bash do something else than its command line says.
fn environment(given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    given
        .iter()
        .filter(|(name, _)| !name.starts_with("BASH") && !LEVERS.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// What the model is told.
fn output(command: &str, time_limit: Duration, finished: Finished) -> ToolOutput {
    let mut text = String::new();
    let (is_error, code) = match finished.ending {
        Ending::Exited(0) => (false, Some(0)),
        Ending::Exited(1) if one_is_an_answer(command) => (false, Some(1)),
        Ending::Exited(code) => {
            let _ = writeln!(text, "Exit code {code}");
            (true, Some(code))
        }
        Ending::Signaled(signal) => {
            let _ = writeln!(
                text,
                "Exit code {} (killed by signal {signal})",
                128 + signal
            );
            (true, Some(128 + signal))
        }
        Ending::TimedOut => {
            let _ = writeln!(
                text,
                "The command was stopped at its time limit of {} ms, with everything that it had started.",
                time_limit.as_millis()
            );
            (true, None)
        }
        Ending::Cancelled => {
            text.push_str("The command was stopped because the task ended.\n");
            (true, None)
        }
    };
    text.push_str(&finished.stdout.text);
    let mut note = |sentence: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&sentence);
    };
    if finished.stdout.bytes == 0 && !is_error {
        note(match code {
            Some(1) => "[no output, exit code 1]".to_owned(),
            _ => "[no output]".to_owned(),
        });
    } else if !is_error && code == Some(1) {
        note("[exit code 1]".to_owned());
    }
    if let Some(path) = &finished.stdout.spilled {
        note(format!(
            "[the whole output of {} bytes is in `{}`; Read it in parts]",
            finished.stdout.bytes,
            path.display()
        ));
    }
    let which = if finished.left.is_empty() {
        String::new()
    } else {
        format!(": {}", finished.left.join("; "))
    };
    match finished.leaked {
        0 => {}
        1 => note(format!(
            "[1 process that was left running was killed{which}]"
        )),
        count => note(format!(
            "[{count} processes that were left running were killed{which}]"
        )),
    }
    let timed_out = finished.ending == Ending::TimedOut;
    ToolOutput {
        is_error,
        response: Some(json!({
            "stdout": finished.stdout.text,
            "stderr": "",
            "interrupted": timed_out || finished.ending == Ending::Cancelled,
            "isImage": false,
            "exitCode": code,
        })),
        spilled: finished
            .stdout
            .spilled
            .map(|path| (path, finished.stdout.bytes)),
        leaked: finished.leaked,
        timed_out,
        text,
    }
}

/// By the first word; with git, by the second as well.
fn one_is_an_answer(command: &str) -> bool {
    let mut words = command.split_ascii_whitespace();
    let first = words.next().unwrap_or_default();
    let name = first.rsplit('/').next().unwrap_or_default();
    ONE_IS_AN_ANSWER.contains(&name)
        || (name == "git" && matches!(words.next(), Some("diff" | "grep")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Captured;

    fn finished(ending: Ending, text: &str) -> Finished {
        Finished {
            ending,
            stdout: Captured {
                text: text.to_owned(),
                bytes: text.len() as u64,
                spilled: None,
            },
            stderr: Captured::default(),
            leaked: 0,
            left: Vec::new(),
        }
    }

    fn told(command: &str, ending: Ending, text: &str) -> (String, bool) {
        let output = output(command, Duration::from_secs(2), finished(ending, text));
        (output.text, output.is_error)
    }

    #[test]
    fn a_failure_begins_with_the_exit_code() {
        assert_eq!(
            told("x", Ending::Exited(0), "out\n"),
            ("out\n".into(), false)
        );
        assert_eq!(
            told("x", Ending::Exited(0), ""),
            ("[no output]".into(), false)
        );
        assert_eq!(
            told("x", Ending::Exited(2), "out\n"),
            ("Exit code 2\nout\n".into(), true)
        );
        assert_eq!(
            told("x", Ending::Signaled(9), ""),
            ("Exit code 137 (killed by signal 9)\n".into(), true)
        );
        let (text, is_error) = told("x", Ending::TimedOut, "so far");
        assert!(
            is_error && text.contains("2000 ms") && text.ends_with("\nso far"),
            "{text}"
        );
    }

    #[test]
    fn one_is_no_failure_of_a_question() {
        for command in [
            "grep -q x y",
            "/usr/bin/diff a b",
            "[ -e x ]",
            "  test -e x",
            "git diff --quiet",
        ] {
            let (text, is_error) = told(command, Ending::Exited(1), "");
            assert_eq!(
                (text.as_str(), is_error),
                ("[no output, exit code 1]", false),
                "{command}"
            );
            assert!(told(command, Ending::Exited(2), "").1, "{command}");
        }
        for command in ["greps x", "cat x | grep y", "git commit", "false", ""] {
            assert!(told(command, Ending::Exited(1), "").1, "{command}");
        }
    }

    #[test]
    fn what_was_left_and_where_the_rest_is_is_said() {
        let mut finished = finished(Ending::Exited(0), "head ... tail");
        finished.leaked = 2;
        finished.stdout.spilled = Some("/out/call-1.txt".into());
        finished.stdout.bytes = 1_000_000;
        let output = output("x", Duration::from_secs(2), finished);
        assert_eq!(
            output.text,
            "head ... tail\n[the whole output of 1000000 bytes is in `/out/call-1.txt`; Read it in parts]\n[2 processes \
             that were left running were killed]"
        );
        assert_eq!(output.spilled, Some(("/out/call-1.txt".into(), 1_000_000)));
        assert_eq!(output.leaked, 2);
    }

    #[test]
    fn bash_is_told_nothing_by_its_environment() {
        let given = [
            "BASH_ENV",
            "ENV",
            "BASHOPTS",
            "SHELLOPTS",
            "BASH_FUNC_ls%%",
            "PS4",
            "PATH",
        ]
        .map(|name| (name.to_owned(), "x".to_owned()));
        let names: Vec<String> = environment(&given.into()).into_keys().collect();
        assert_eq!(names, ["PATH"]);
    }
}
