//! Why a task has to end before its turns are done, whoever said so.

use std::io;

use crate::agent::interrupt::Interrupt;
use crate::budget::{Ceiling, Exceeded, Reservation};
use crate::model::{ModelError, ModelErrorKind};
use crate::outcome::Stop;

/// Ends the task before its turns are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    pub(super) stop: Stop,
    pub(super) message: String,
}

impl Halt {
    /// `doing` completes the sentence: `while running ...`.
    pub(super) fn interrupted(interrupt: &Interrupt, doing: &str) -> Self {
        let (stop, message) = interrupt.reason();
        Self {
            stop,
            message: format!("{message} while {doing}"),
        }
    }

    /// A reply that was cut off because the budget had made the call smaller is the budget's doing.
    pub(super) fn after_reply(stop: Stop, message: String, reservation: &Reservation) -> Self {
        match reservation.clamped_by {
            Some(ceiling) if stop == Stop::OutputTruncated => Self {
                stop: stop_of(ceiling),
                message: format!(
                    "{message}, which what is left of the budget had set to {}",
                    reservation.max_tokens
                ),
            },
            _ => Self { stop, message },
        }
    }
}

impl From<Exceeded> for Halt {
    fn from(exceeded: Exceeded) -> Self {
        Self {
            stop: stop_of(exceeded.ceiling),
            message: exceeded.message,
        }
    }
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self {
            stop: Stop::IoError,
            message: error.to_string(),
        }
    }
}

impl From<ModelError> for Halt {
    fn from(error: ModelError) -> Self {
        let stop = match error.kind {
            ModelErrorKind::Auth => Stop::AuthError,
            ModelErrorKind::TooLarge => Stop::ContextOverflow,
            ModelErrorKind::Api => Stop::ApiError,
            ModelErrorKind::Script => Stop::ScriptError,
        };
        Self {
            stop,
            message: error.message,
        }
    }
}

fn stop_of(ceiling: Ceiling) -> Stop {
    match ceiling {
        Ceiling::Steps | Ceiling::TotalSteps => Stop::StepLimit,
        Ceiling::Tokens | Ceiling::BatchTokens => Stop::TokenBudget,
        Ceiling::Cost | Ceiling::BatchCost => Stop::CostBudget,
        Ceiling::Window => Stop::ContextOverflow,
    }
}
