//! Traps that only a ceiling would end otherwise: the same call with the same result, and denied calls in a row.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::event::ToolResultKind;
use crate::message::ToolCall;
use crate::outcome::Stop;

/// This many equal calls with equal results in a row end the task.
pub(super) const STOP_AT: u32 = 5;
/// This many equal *denied* calls in a row end the task.
pub(super) const STOP_AT_EQUAL_DENIED: u32 = 3;
/// This many denied calls in a row, equal or not, end the task.
pub(super) const STOP_AT_DENIED: u32 = 8;

/// Counts what repeats. Reads calls in block order.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    last: u64,
    equal: u32,
    denied: u32,
}

impl Repeats {
    /// Notes one answered call.
    pub(super) fn note(&mut self, call: &ToolCall, result: ToolResultKind, content: &str) {
        let mut hasher = DefaultHasher::new();
        (&call.name, call.input.to_string(), content).hash(&mut hasher);
        let hash = hasher.finish();
        self.equal = if self.equal > 0 && hash == self.last {
            self.equal.saturating_add(1)
        } else {
            1
        };
        self.last = hash;
        self.denied = if result == ToolResultKind::Denied {
            self.denied.saturating_add(1)
        } else {
            0
        };
    }

    /// Whether the task has to end now; `name` is the tool of the last call.
    #[must_use]
    pub(super) fn verdict(&self, name: &str) -> Option<(Stop, String)> {
        if self.denied > 0 && self.equal >= STOP_AT_EQUAL_DENIED {
            return Some((
                Stop::Denied,
                format!(
                    "the same denied `{name}` call came {} times in a row",
                    self.equal
                ),
            ));
        }
        if self.denied >= STOP_AT_DENIED {
            return Some((
                Stop::Denied,
                format!(
                    "{} calls in a row were denied, the last one of `{name}`",
                    self.denied
                ),
            ));
        }
        (self.equal >= STOP_AT).then(|| {
            (
                Stop::LoopDetected,
                format!(
                    "the same `{name}` call gave the same result {} times in a row",
                    self.equal
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(n: u32) -> ToolCall {
        ToolCall {
            id: format!("t{n}"),
            name: "Read".into(),
            input: json!({"file_path": "a"}),
        }
    }

    #[test]
    fn equal_calls_with_equal_results_end_the_task_and_others_start_the_count_again() {
        let mut repeats = Repeats::default();
        for n in 1..STOP_AT {
            repeats.note(&call(n), ToolResultKind::Ok, "same");
            assert_eq!(repeats.verdict("Read"), None);
        }
        repeats.note(&call(9), ToolResultKind::Ok, "other");
        for n in 1..=STOP_AT {
            repeats.note(&call(n), ToolResultKind::Ok, "same");
        }
        assert_eq!(
            repeats.verdict("Read").map(|(stop, _)| stop),
            Some(Stop::LoopDetected)
        );
    }

    #[test]
    fn a_denied_call_is_given_up_sooner() {
        let mut repeats = Repeats::default();
        for n in 0..STOP_AT_EQUAL_DENIED {
            repeats.note(&call(n), ToolResultKind::Denied, "denied");
        }
        assert_eq!(
            repeats.verdict("Read").map(|(stop, _)| stop),
            Some(Stop::Denied)
        );
        let mut repeats = Repeats::default();
        for n in 0..STOP_AT_DENIED {
            assert_eq!(repeats.verdict("Read"), None);
            let input = json!({"file_path": n.to_string()});
            repeats.note(
                &ToolCall { input, ..call(n) },
                ToolResultKind::Denied,
                "denied",
            );
        }
        assert_eq!(
            repeats.verdict("Read").map(|(stop, _)| stop),
            Some(Stop::Denied)
        );
    }
}
