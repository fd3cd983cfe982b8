//! Runs a check: holds its time limit, survives its panics, and makes its finding fit to be recorded.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::{Check, CheckContext, Finding, TimeSpan};

/// A check's own time limit strikes first; this is how much later ours does.
const GRACE: Duration = Duration::from_secs(15);

/// Runs a check. Whatever goes wrong with the check itself is an error, and never a pass.
pub async fn run(check: &dyn Check, context: &CheckContext<'_>) -> Finding {
    let limit = check.time_limit();
    let work = AssertUnwindSafe(check.run(context)).catch_unwind();
    let finding = tokio::select! {
        finding = work => finding
            .unwrap_or_else(|_| Finding::errored("the check crashed, which is a mistake in this program")),
        () = tokio::time::sleep(limit.saturating_add(GRACE)) => {
            Finding::errored(format!("not done within its time limit of {}", TimeSpan(limit)))
        }
    };
    finding.told(&context.redactor)
}
