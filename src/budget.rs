//! Steps, tokens, money and time: pure accounting. (Interface; completed with the loop.)

use std::time::Duration;

use crate::usage::Usd;

/// The ceilings of a task. There is always a step ceiling, a token ceiling and a wall-clock ceiling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Model calls per user turn.
    pub max_steps: u32,
    /// Model calls over all turns; `None`: turns x `max_steps`.
    pub max_total_steps: Option<u32>,
    /// Tokens over the whole task, see [`crate::usage::Usage::total`].
    pub max_tokens: u64,
    /// Most output tokens of one call.
    pub max_output_tokens: u64,
    /// Money over the whole task; needs a model with a known price.
    pub max_cost: Option<Usd>,
    /// Wall clock of the task.
    pub timeout: Duration,
    /// Wall clock of one tool call.
    pub tool_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 10,
            max_total_steps: None,
            max_tokens: 1_000_000,
            max_output_tokens: 16_000,
            max_cost: None,
            timeout: Duration::from_secs(30 * 60),
            tool_timeout: Duration::from_secs(120),
        }
    }
}
