//! Why a task stopped, what its gate makes of that, and what the run's exit code is.
//!
//! [`Stop`] says why the loop ended. [`Outcome`] is the one word that reports show; [`Outcome::of`] derives it from the
//! stop, the denials and the checks. [`Outcome::row`] is the one table from there to verdict, JUnit element and retry.

mod trials;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use trials::{Standing, Tally, Trials};

/// Why the agent loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The model ended its last turn (`end_turn` or `stop_sequence`).
    Completed,
    /// `max_steps` or `max_total_steps` was reached.
    StepLimit,
    /// The token budget cannot pay for the next call, or was overspent by the last one.
    TokenBudget,
    /// The cost budget cannot pay for the next call, or was overspent by the last one.
    CostBudget,
    /// The task's wall-clock limit was reached.
    Timeout,
    /// The same call with the same result came too often in a row.
    LoopDetected,
    /// Too many denied calls in a row.
    Denied,
    /// A Stop hook kept blocking.
    StopHookLoop,
    /// A hook ended the run (`continue: false`).
    HookStopped,
    /// The model's answer was cut off by `max_tokens`.
    OutputTruncated,
    /// The model or its provider refused.
    Refusal,
    /// The conversation does not fit the context window.
    ContextOverflow,
    /// A missing or unknown stop reason, or one that contradicts its content.
    UnexpectedStop,
    /// The model could not be reached or answered with an error.
    ApiError,
    /// The script of a scripted model has no reply for the call, or refuses it; another attempt would meet the same.
    ScriptError,
    /// The model's provider refused the credentials.
    AuthError,
    /// The transcript or workspace could not be read or written.
    IoError,
    /// A hook or configuration file changed during the run.
    HookTampered,
    /// The demanded sandbox is not available.
    SandboxUnavailable,
    /// SIGINT or SIGTERM.
    Cancelled,
    /// The batch's purse could not pay for the first call.
    NotStarted,
}

/// What a task's denials mean for its outcome (`permissions.on_denied`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// Any denied action fails the task.
    #[default]
    Fail,
    /// Denials are shown as warnings.
    Warn,
    /// Denials are recorded and nothing else.
    Ignore,
}

/// How the checks of a task went, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksResult {
    /// None failed (or there were none).
    Passed,
    /// At least one found the work wrong.
    Failed,
    /// At least one could not be run, which is never a pass.
    Errored,
    /// They were not run, because the loop did not complete.
    NotRun,
}

/// The word that every report shows for a task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model finished and every check passed.
    Completed,
    /// See [`Stop::StepLimit`].
    StepLimit,
    /// See [`Stop::TokenBudget`].
    TokenBudget,
    /// See [`Stop::CostBudget`].
    CostBudget,
    /// At least one action was denied and the task says that this fails it.
    Denied,
    /// See [`Stop::LoopDetected`].
    LoopDetected,
    /// See [`Stop::StopHookLoop`].
    StopHookLoop,
    /// See [`Stop::HookStopped`].
    HookStopped,
    /// See [`Stop::OutputTruncated`].
    OutputTruncated,
    /// See [`Stop::Refusal`].
    Refusal,
    /// See [`Stop::ContextOverflow`].
    ContextOverflow,
    /// See [`Stop::Timeout`].
    Timeout,
    /// See [`Stop::UnexpectedStop`].
    UnexpectedStop,
    /// A check found the work wrong.
    CheckFailed,
    /// A check could not be run.
    CheckError,
    /// See [`Stop::ApiError`].
    ApiError,
    /// See [`Stop::AuthError`].
    AuthError,
    /// See [`Stop::IoError`].
    IoError,
    /// See [`Stop::HookTampered`].
    HookTampered,
    /// See [`Stop::SandboxUnavailable`].
    SandboxUnavailable,
    /// See [`Stop::Cancelled`].
    Cancelled,
    /// The transcript ends in the middle: the runner was killed.
    Unfinished,
    /// The task never started.
    NotRun,
}

/// What a task's gate makes of its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The work is acceptable. JUnit: no child element.
    Passed,
    /// The agent's work is not acceptable. JUnit: `failure`.
    Failed,
    /// The harness or the model's provider did not work. JUnit: `error`.
    Errored,
    /// The task was not run. JUnit: `skipped`.
    Skipped,
}

/// One row of the outcome table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The outcome's name in every report and in JUnit's `type`.
    pub name: &'static str,
    /// Verdict, which also names the JUnit element.
    pub verdict: Verdict,
    /// Whether trying again could help without anybody changing anything.
    pub retryable: bool,
    /// What happened, in words for a person.
    pub meaning: &'static str,
}

impl Outcome {
    /// Every outcome, in the table's order.
    pub const ALL: [Self; 23] = [
        Self::Completed,
        Self::StepLimit,
        Self::TokenBudget,
        Self::CostBudget,
        Self::Denied,
        Self::LoopDetected,
        Self::StopHookLoop,
        Self::HookStopped,
        Self::OutputTruncated,
        Self::Refusal,
        Self::ContextOverflow,
        Self::Timeout,
        Self::UnexpectedStop,
        Self::CheckFailed,
        Self::CheckError,
        Self::ApiError,
        Self::AuthError,
        Self::IoError,
        Self::HookTampered,
        Self::SandboxUnavailable,
        Self::Cancelled,
        Self::Unfinished,
        Self::NotRun,
    ];

    /// Derives the outcome of a task that ran.
    ///
    /// A loop that did not complete is named by its stop. A completed one is `denied` before it is `check_failed`:
    /// the denial is usually why the check failed, and the message lists both.
    #[must_use]
    pub fn of(stop: Stop, denials: u32, on_denied: OnDenied, checks: ChecksResult) -> Self {
        match stop {
            Stop::Completed => match checks {
                _ if denials > 0 && on_denied == OnDenied::Fail => Self::Denied,
                ChecksResult::Failed => Self::CheckFailed,
                ChecksResult::Errored => Self::CheckError,
                ChecksResult::Passed | ChecksResult::NotRun => Self::Completed,
            },
            Stop::StepLimit => Self::StepLimit,
            Stop::TokenBudget => Self::TokenBudget,
            Stop::CostBudget => Self::CostBudget,
            Stop::Timeout => Self::Timeout,
            Stop::LoopDetected => Self::LoopDetected,
            Stop::Denied => Self::Denied,
            Stop::StopHookLoop => Self::StopHookLoop,
            Stop::HookStopped => Self::HookStopped,
            Stop::OutputTruncated => Self::OutputTruncated,
            Stop::Refusal => Self::Refusal,
            Stop::ContextOverflow => Self::ContextOverflow,
            Stop::UnexpectedStop => Self::UnexpectedStop,
            Stop::ApiError | Stop::ScriptError => Self::ApiError,
            Stop::AuthError => Self::AuthError,
            Stop::IoError => Self::IoError,
            Stop::HookTampered => Self::HookTampered,
            Stop::SandboxUnavailable => Self::SandboxUnavailable,
            Stop::Cancelled => Self::Cancelled,
            Stop::NotStarted => Self::NotRun,
        }
    }

    /// The table.
    #[must_use]
    pub fn row(self) -> Row {
        use Verdict::{Errored, Failed, Passed, Skipped};
        let row = |name, verdict, retryable, meaning| Row {
            name,
            verdict,
            retryable,
            meaning,
        };
        match self {
            Self::Completed => row(
                "completed",
                Passed,
                false,
                "the model finished and every check passed",
            ),
            Self::StepLimit => row("step_limit", Failed, false, "the step limit was reached"),
            Self::TokenBudget => row("token_budget", Failed, false, "the token budget is spent"),
            Self::CostBudget => row("cost_budget", Failed, false, "the cost budget is spent"),
            Self::Denied => row("denied", Failed, false, "an action was denied"),
            Self::LoopDetected => row(
                "loop_detected",
                Failed,
                false,
                "the same call came again and again",
            ),
            Self::StopHookLoop => row("stop_hook_loop", Failed, false, "a Stop hook kept blocking"),
            Self::HookStopped => row("hook_stopped", Failed, false, "a hook ended the run"),
            Self::OutputTruncated => row(
                "output_truncated",
                Failed,
                false,
                "the answer was cut off by max_tokens",
            ),
            Self::Refusal => row("refusal", Failed, false, "the model refused"),
            Self::ContextOverflow => row(
                "context_overflow",
                Failed,
                false,
                "the conversation outgrew the window",
            ),
            Self::Timeout => row("timeout", Failed, false, "the wall-clock limit was reached"),
            Self::UnexpectedStop => row(
                "unexpected_stop",
                Failed,
                false,
                "the model stopped in an unknown way",
            ),
            Self::CheckFailed => row("check_failed", Failed, false, "a check failed"),
            Self::CheckError => row("check_error", Errored, false, "a check could not be run"),
            Self::ApiError => row("api_error", Errored, true, "the model's API failed"),
            Self::AuthError => row(
                "auth_error",
                Errored,
                false,
                "the model's API refused the credentials",
            ),
            Self::IoError => row(
                "io_error",
                Errored,
                true,
                "a file could not be read or written",
            ),
            Self::HookTampered => row(
                "hook_tampered",
                Errored,
                false,
                "a hook, a task file or the project's file changed during the run",
            ),
            Self::SandboxUnavailable => row(
                "sandbox_unavailable",
                Errored,
                false,
                "the sandbox is not available",
            ),
            Self::Cancelled => row("cancelled", Errored, true, "the run was interrupted"),
            Self::Unfinished => row(
                "unfinished",
                Errored,
                true,
                "the transcript ends in the middle",
            ),
            Self::NotRun => row("not_run", Skipped, true, "the task was not started"),
        }
    }

    /// The outcome's name in every report.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether an attempt was ended from outside, before the task was tried to its end: the runner was killed or
    /// interrupted. It says nothing about the task, so a later pass is no sign of flakiness.
    #[must_use]
    pub fn is_cut_off(self) -> bool {
        matches!(self, Self::Unfinished | Self::Cancelled | Self::NotRun)
    }

    /// What the task's gate makes of it.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        self.row().verdict
    }
}

/// The name of a signal that ends a run, as manuals spell it; of another one, its number.
#[must_use]
pub fn signal_name(signal: u8) -> String {
    match signal {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

/// The exit code of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: every task passed.
    Passed,
    /// 1: at least one task failed its gate.
    Failed,
    /// 2: usage, an invalid task file, or nothing matched; no model was called.
    Usage,
    /// 3: infrastructure errors and no failure.
    Infrastructure,
    /// 128 + signal: interrupted, with the reports written first.
    Signal(u8),
}

impl Exit {
    /// The exit code of a run without a signal, from its tasks' outcomes. A task that was not run proves nothing, so it
    /// counts as infrastructure.
    pub fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let mut exit = Self::Passed;
        for outcome in outcomes {
            match outcome.verdict() {
                Verdict::Failed => return Self::Failed,
                Verdict::Errored | Verdict::Skipped => exit = Self::Infrastructure,
                Verdict::Passed => {}
            }
        }
        exit
    }

    /// The code for the operating system.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Infrastructure => 3,
            Self::Signal(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// `success` or `failure`, as GitHub names a conclusion; `cancelled` for a signal.
    #[must_use]
    pub fn conclusion(self) -> &'static str {
        match self {
            Self::Passed => "success",
            Self::Failed | Self::Usage | Self::Infrastructure => "failure",
            Self::Signal(_) => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_table_are_the_names_on_the_wire() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
        }
    }

    #[test]
    fn a_denied_action_fails_a_completed_task_unless_the_task_says_otherwise() {
        let of = |on_denied| Outcome::of(Stop::Completed, 1, on_denied, ChecksResult::Passed);
        assert_eq!(of(OnDenied::Fail), Outcome::Denied);
        assert_eq!(of(OnDenied::Warn), Outcome::Completed);
        assert_eq!(of(OnDenied::Ignore), Outcome::Completed);
    }

    #[test]
    fn a_failure_outweighs_an_infrastructure_error_and_a_check_that_cannot_run_is_no_pass() {
        assert_eq!(Exit::of([]), Exit::Passed);
        assert_eq!(
            Exit::of([Outcome::Completed, Outcome::ApiError]),
            Exit::Infrastructure
        );
        assert_eq!(
            Exit::of([Outcome::ApiError, Outcome::StepLimit]),
            Exit::Failed
        );
        assert_eq!(Exit::of([Outcome::NotRun]), Exit::Infrastructure);
        let errored = Outcome::of(Stop::Completed, 0, OnDenied::Fail, ChecksResult::Errored);
        assert_eq!(errored.verdict(), Verdict::Errored);
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = [
            Exit::Passed,
            Exit::Failed,
            Exit::Usage,
            Exit::Infrastructure,
            Exit::Signal(2),
            Exit::Signal(15),
        ];
        assert_eq!(codes.map(Exit::code), [0, 1, 2, 3, 130, 143]);
    }
}
