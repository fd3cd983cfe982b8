//! Where a reply leads: the only branch of the loop, and a pure one.
//!
//! Routing looks at the stop reason, never at what the text says. `tool_use` means that an action is wanted; every other
//! value leaves the inner loop. Leaving is not success: what is not known, missing, or contradicts its content fails closed.

use crate::outcome::Stop;

/// Where a reply leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Run the tools and ask again.
    Tools,
    /// The turn is over; the reply's text is its answer.
    End,
    /// The task is over, and not because the model was done.
    Stop(Stop, String),
}

impl Route {
    /// The word in the transcript.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tools => "tool_use",
            Self::End => "end",
            Self::Stop(..) => "stop",
        }
    }
}

/// Routes a reply. `calls` is the number of its `tool_use` blocks.
#[must_use]
pub fn route(stop_reason: Option<&str>, calls: usize) -> Route {
    let stop = |stop, message: &str| Route::Stop(stop, message.to_owned());
    match stop_reason {
        Some("tool_use") if calls > 0 => Route::Tools,
        Some("tool_use") => stop(
            Stop::UnexpectedStop,
            "the model stopped with `tool_use` but asked for no tool",
        ),
        Some("end_turn" | "stop_sequence") if calls == 0 => Route::End,
        Some(reason @ ("end_turn" | "stop_sequence")) => Route::Stop(
            Stop::UnexpectedStop,
            format!(
                "the model stopped with `{reason}` while a tool call was pending; it was not run"
            ),
        ),
        Some("max_tokens") => stop(
            Stop::OutputTruncated,
            "the answer was cut off at the request's `max_tokens`",
        ),
        Some("refusal") => stop(Stop::Refusal, "the model refused"),
        Some("model_context_window_exceeded") => stop(
            Stop::ContextOverflow,
            "the conversation outgrew the model's context window",
        ),
        Some(reason @ ("pause_turn" | "compaction")) => Route::Stop(
            Stop::UnexpectedStop,
            format!(
                "the model stopped with `{reason}`, which belongs to features that were not asked for"
            ),
        ),
        Some(reason) => {
            let reason: String = reason.chars().take(64).collect();
            Route::Stop(
                Stop::UnexpectedStop,
                format!("the model stopped with the unknown reason `{reason}`"),
            )
        }
        None => stop(Stop::UnexpectedStop, "the model gave no stop reason"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_has_its_route() {
        let stop_of = |reason, calls| match route(reason, calls) {
            Route::Stop(stop, _) => stop,
            other => panic!("{reason:?} routed to {other:?}"),
        };
        assert_eq!(route(Some("tool_use"), 1), Route::Tools);
        assert_eq!(route(Some("end_turn"), 0), Route::End);
        assert_eq!(route(Some("stop_sequence"), 0), Route::End);
        assert_eq!(stop_of(Some("max_tokens"), 0), Stop::OutputTruncated);
        assert_eq!(stop_of(Some("max_tokens"), 1), Stop::OutputTruncated);
        assert_eq!(stop_of(Some("refusal"), 0), Stop::Refusal);
        assert_eq!(
            stop_of(Some("model_context_window_exceeded"), 0),
            Stop::ContextOverflow
        );
        for reason in [
            Some("pause_turn"),
            Some("compaction"),
            Some("future_reason"),
            Some(""),
            None,
        ] {
            assert_eq!(stop_of(reason, 0), Stop::UnexpectedStop);
            assert_eq!(stop_of(reason, 1), Stop::UnexpectedStop);
        }
    }

    #[test]
    fn a_stop_reason_that_contradicts_the_content_fails_closed() {
        assert!(matches!(
            route(Some("tool_use"), 0),
            Route::Stop(Stop::UnexpectedStop, _)
        ));
        assert!(matches!(
            route(Some("end_turn"), 1),
            Route::Stop(Stop::UnexpectedStop, _)
        ));
    }
}
