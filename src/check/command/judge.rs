//! What a command that has ended says of the task.

use super::super::stream::Output;
use super::super::{Finding, TimeSpan};
use super::Command;
use super::missing::missing_program;
use crate::event::CheckResult;
use crate::proc::{Ending, Finished};

/// How much of the output's end a message shows.
const TAIL_LINES: usize = 20;
/// How long a message's tail is at most, in characters.
const TAIL_CHARS: usize = 2000;

impl Command {
    /// `find` looks a program up by its name, as bash would.
    pub(super) fn judge(&self, finished: &Finished, find: &dyn Fn(&str) -> bool) -> Finding {
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
                // What bash says of a program that is not there, or is none; others say it too.
                if matches!(code, 126 | 127) {
                    match missing_program(&self.script, find) {
                        Some(program) => Finding::errored(format!(
                            "{failed}: there is no program `{program}` in the check's PATH"
                        )),
                        None => Finding::undecided(failed),
                    }
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

/// The end of an output: what a person looks at first.
pub(super) fn tail(output: &str) -> &str {
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
