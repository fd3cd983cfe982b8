//! The checks of an attempt, one after the other, and what they come to together.

use std::io;

use tokio::sync::watch;

use super::attempt::Attempt;
use super::overseer::{HEED, Phase};
use crate::agent::Ended;
use crate::check::{self, CallLog, CheckContext};
use crate::event::{CallPlace, CheckFinished, CheckResult, Emitter, Kind};
use crate::outcome::ChecksResult;

/// What the checks of an attempt came to.
pub(super) struct Checked {
    pub(super) together: ChecksResult,
    /// One line for each check that did not pass.
    pub(super) failures: Vec<String>,
    /// Denials that do not count against the task.
    expected: Vec<CallPlace>,
}

impl Checked {
    /// There was nothing to check.
    pub(super) fn not_run() -> Self {
        Self {
            together: ChecksResult::NotRun,
            failures: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// Takes the expected denials out of those that count against the task.
    pub(super) fn excuse(&self, calls: &CallLog, ended: &mut Ended) {
        if self.expected.is_empty() {
            return;
        }
        let others: Vec<_> = calls
            .denied()
            .filter(|call| !self.expected.contains(&call.place()))
            .collect();
        // A log that is cut does not know all denials, and has no check pass that speaks of them.
        ended.denials = u32::try_from(others.len()).unwrap_or(u32::MAX);
        ended.first_denial = others.first().map(|call| call.reason.clone());
    }
}

impl Attempt<'_> {
    /// Runs the checks in order, all of them, so that one look shows everything that is wrong.
    pub(super) async fn check(
        &self,
        context: &CheckContext<'_>,
        phase: &watch::Sender<Phase>,
        emitter: &Emitter,
    ) -> io::Result<Checked> {
        let mut checked = Checked {
            together: ChecksResult::Passed,
            ..Checked::not_run()
        };
        for (index, check) in (0_u32..).zip(&self.task.checks) {
            let began = self.batch.clock.start();
            // It holds its own limit; the overseer is for one that does not.
            let limit = check.time_limit().saturating_add(HEED);
            phase.send_replace(Phase::Within(limit, "running a check"));
            let finding = check::run(check.as_ref(), context).await;
            checked.together = match (checked.together, finding.result) {
                (together, CheckResult::Passed) => together,
                (ChecksResult::Failed, _) | (_, CheckResult::Failed) => ChecksResult::Failed,
                (_, CheckResult::Errored) => ChecksResult::Errored,
            };
            if finding.result != CheckResult::Passed {
                let failure = format!("{}: {}", check.title(), finding.message);
                checked.failures.push(failure);
            }
            checked
                .expected
                .extend_from_slice(&finding.expected_denials);
            emitter.emit(Kind::CheckFinished(Box::new(CheckFinished {
                index,
                check: check.kind().to_owned(),
                title: check.title(),
                result: finding.result,
                message: finding.message,
                details: finding.details,
                spent: finding.spent,
                expected_denials: finding.expected_denials,
                duration_ms: began.elapsed_millis(),
            })))?;
        }
        Ok(checked)
    }
}
