//! What the events of an attempt say about its outcome, beside its last event, which names one.
//!
//! The chain has no key, so a red verdict could be written over and every hash made anew. Whoever does that must also change what
//! the verdict came from: the stop, the checks and the denials, as [`Outcome::of`] reads them. An end that says another thing than
//! these is no end.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::event::{CheckResult, Kind, TaskFinished, ToolResultKind};
use crate::outcome::{ChecksResult, OnDenied, Outcome, Stop};

/// How many denied calls are told apart. No check can expect more: it does not pass when it has not seen all calls.
const MOST_DENIED: usize = 5000;

/// What is known of an attempt while its events are read.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    on_denied: OnDenied,
    failed: bool,
    errored: bool,
    /// The denied calls that no check expected, by the hash of their place.
    denied: HashSet<u64>,
    /// Whether there are denials that no check can expect.
    denied_beyond: bool,
}

impl Evidence {
    /// Takes the next event in; the error says how the last one contradicts those before it.
    pub(super) fn take(&mut self, kind: &Kind) -> Result<(), String> {
        match kind {
            Kind::TaskStarted(started) => {
                *self = Self {
                    on_denied: started.on_denied,
                    ..Self::default()
                };
            }
            Kind::ToolFinished(finished) if finished.result == ToolResultKind::Denied => {
                if self.denied.len() < MOST_DENIED {
                    self.denied
                        .insert(place(finished.step, &finished.tool_use_id));
                } else {
                    self.denied_beyond = true;
                }
            }
            Kind::ConnectionFinished(connection) => self.denied_beyond |= connection.is_denial,
            Kind::CheckFinished(check) => {
                self.failed |= check.result == CheckResult::Failed;
                self.errored |= check.result == CheckResult::Errored;
                for call in &check.expected_denials {
                    self.denied.remove(&place(call.step, &call.tool_use_id));
                }
            }
            Kind::TaskFinished(finished) => return self.agrees(finished),
            _ => {}
        }
        Ok(())
    }

    fn agrees(&self, finished: &TaskFinished) -> Result<(), String> {
        let checks = match (self.failed, self.errored) {
            (true, _) => ChecksResult::Failed,
            (false, true) => ChecksResult::Errored,
            (false, false) => ChecksResult::Passed,
        };
        let denials = u32::from(self.denied_beyond || !self.denied.is_empty());
        let expected = Outcome::of(finished.stop, denials, self.on_denied, checks);
        // What a process did past the sandbox counts as a denial or as a warning, and which of both stands in no event.
        let may_be_denied = finished.stop == Stop::Completed
            && finished.outcome == Outcome::Denied
            && self.on_denied == OnDenied::Fail;
        if finished.outcome == expected || may_be_denied {
            return Ok(());
        }
        Err(format!(
            "it says `{}`, and the events before it come to `{}`",
            finished.outcome.name(),
            expected.name()
        ))
    }
}

/// Stands for a call's place; ids are the model's and of any length.
fn place(step: u32, id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (step, id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(events: &[Value], stop: &str, outcome: &str) -> Result<(), String> {
        let mut evidence = Evidence::default();
        for event in events {
            let kind = serde_json::from_value(event.clone()).unwrap();
            evidence.take(&kind).unwrap();
        }
        let end = json!({"type": "task_finished", "stop": stop, "outcome": outcome, "message": "", "duration_ms": 1});
        evidence.take(&serde_json::from_value(end).unwrap())
    }

    fn check(result: &str, expected: &[&str]) -> Value {
        let calls = expected.iter();
        let calls: Vec<Value> = calls
            .map(|id| json!({"step": 1, "tool_use_id": id}))
            .collect();
        json!({"type": "check_finished", "index": 0, "check": "reply", "title": "", "result": result,
            "expected_denials": calls, "duration_ms": 1})
    }

    fn denied(id: &str) -> Value {
        json!({"type": "tool_finished", "step": 1, "tool_use_id": id, "name": "Bash", "result": "denied", "content": "",
            "output_bytes": 0, "duration_ms": 0})
    }

    #[test]
    fn a_pass_beside_a_check_that_did_not_pass_is_a_contradiction() {
        let of = |result, outcome| told(&[check(result, &[])], "completed", outcome);
        assert!(of("passed", "completed").is_ok());
        assert!(of("failed", "check_failed").is_ok());
        assert!(of("errored", "check_error").is_ok());
        let said = of("failed", "completed").unwrap_err();
        assert!(said.contains("`check_failed`"), "{said}");
        assert!(of("errored", "completed").is_err());
        assert!(of("failed", "check_error").is_err());
    }

    #[test]
    fn an_outcome_that_is_not_that_of_the_stop_is_a_contradiction() {
        assert!(told(&[], "step_limit", "step_limit").is_ok());
        assert!(told(&[], "step_limit", "completed").is_err());
        assert!(told(&[], "completed", "api_error").is_err());
        assert!(told(&[], "not_started", "not_run").is_ok());
    }

    #[test]
    fn a_denial_counts_unless_a_check_expected_it() {
        let pass = |events: &[Value]| told(events, "completed", "completed").is_ok();
        assert!(!pass(&[denied("a")]));
        assert!(pass(&[denied("a"), check("passed", &["a"])]));
        assert!(!pass(&[denied("a"), denied("b"), check("passed", &["a"])]));
        assert!(told(&[denied("a")], "completed", "denied").is_ok());
        // A process got around the sandbox.
        assert!(told(&[], "completed", "denied").is_ok());
    }
}
