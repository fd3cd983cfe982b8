//! Steps, tokens and money: pure accounting.
//!
//! A call is **reserved before and settled after**: [`Budget::reserve`] refuses a call that the rest of the budget cannot
//! pay for and clamps its `max_tokens` to what is left, so that a task stops before it overspends. What a provider bills
//! beyond the estimate shows in [`Budget::settle`] and ends the task at the next look.
//!
//! Where a wrap-up is wanted, what it costs is held back from the second call on. [`Purse`] is the same for a whole batch.
//!
//! Wall-clock time is not kept here: it ends calls from the outside (`agent::interrupt`).

mod purse;

use std::time::Duration;

pub use purse::{Ask, Hold, Purse, PurseLimits};

use crate::usage::{ModelFacts, Usage, Usd};

/// A call that may produce fewer output tokens than this is not worth its input.
pub const MIN_OUTPUT_TOKENS: u64 = 128;

/// Most output tokens of a wrap-up.
pub const WRAP_UP_OUTPUT_TOKENS: u64 = 2_048;

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
    /// Whether the model is asked, in one call without tools, to hand over what it has before steps, tokens or money end the
    /// task.
    pub wrap_up: bool,
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
            wrap_up: true,
        }
    }
}

/// What a task has spent against its [`Limits`].
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    facts: Option<ModelFacts>,
    turns: u32,
    steps: u32,
    spent: Usage,
    cost: Usd,
}

/// The permission to make one model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// `max_tokens` for the request.
    pub max_tokens: u64,
    /// The budget that made it smaller than the task's `max_output_tokens`, if one did.
    pub clamped_by: Option<Ceiling>,
}

impl Reservation {
    /// The batch's purse grants less.
    pub fn lower(&mut self, max_tokens: u64) {
        if max_tokens < self.max_tokens {
            self.max_tokens = max_tokens;
            self.clamped_by = Some(Ceiling::BatchTokens);
        }
    }
}

/// Which ceiling a task ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// `max_steps`, per turn.
    Steps,
    /// `max_total_steps`.
    TotalSteps,
    /// `max_tokens`.
    Tokens,
    /// `max_cost_usd`.
    Cost,
    /// The model's context window.
    Window,
    /// The tokens of the whole batch.
    BatchTokens,
    /// The money of the whole batch.
    BatchCost,
}

/// A ceiling was reached; the message has the real numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Exceeded {
    /// Which one.
    pub ceiling: Ceiling,
    /// One line for a person.
    pub message: String,
}

impl Budget {
    /// Nothing is spent yet. `turns` is the number of user turns planned.
    #[must_use]
    pub fn new(limits: Limits, facts: Option<ModelFacts>, turns: u32) -> Self {
        Self {
            limits,
            facts,
            turns,
            steps: 0,
            spent: Usage::default(),
            cost: Usd::ZERO,
        }
    }

    /// Reserves the next call. `step_in_turn` counts from 1; `estimated_input` is in tokens.
    ///
    /// # Errors
    /// The first ceiling that the call would break.
    pub fn reserve(
        &self,
        step_in_turn: u32,
        estimated_input: u64,
    ) -> Result<Reservation, Exceeded> {
        self.reserve_step(step_in_turn)?;
        // Before the first reply there is nothing to hand over.
        let holds_back = self.limits.wrap_up && self.steps > 0;
        self.fit(self.limits.max_output_tokens, estimated_input, holds_back)
    }

    /// Reserves the one call in which the model hands over what it has. Steps do not stand against it.
    ///
    /// # Errors
    /// The first ceiling that the call would break.
    pub fn reserve_wrap_up(&self, estimated_input: u64) -> Result<Reservation, Exceeded> {
        self.fit(
            self.limits.max_output_tokens.min(WRAP_UP_OUTPUT_TOKENS),
            estimated_input,
            false,
        )
    }

    /// Reserves another try of a call whose last one is booked; it asks for no more than that one did. The step is the same.
    ///
    /// # Errors
    /// The first ceiling that the try would break.
    pub fn reserve_again(
        &self,
        before: &Reservation,
        estimated_input: u64,
    ) -> Result<Reservation, Exceeded> {
        let again = self.fit(before.max_tokens, estimated_input, false)?;
        Ok(Reservation {
            clamped_by: again.clamped_by.or(before.clamped_by),
            ..again
        })
    }

    fn fit(
        &self,
        most: u64,
        estimated_input: u64,
        holds_back: bool,
    ) -> Result<Reservation, Exceeded> {
        let mut max_tokens = most;
        let mut clamped_by = None;
        for (ceiling, room) in self.rooms(estimated_input, holds_back) {
            if room < MIN_OUTPUT_TOKENS.min(self.limits.max_output_tokens) {
                return Err(self.exceeded(ceiling, estimated_input, holds_back));
            }
            if room < max_tokens {
                (max_tokens, clamped_by) = (room, Some(ceiling));
            }
        }
        Ok(Reservation {
            max_tokens,
            clamped_by,
        })
    }

    /// Books a call. Returns its cost where the model's price is known.
    pub fn settle(&mut self, usage: &Usage) -> Option<Usd> {
        self.steps = self.steps.saturating_add(1);
        self.book(usage)
    }

    /// Books what a call has cost that brought no reply.
    pub fn book(&mut self, usage: &Usage) -> Option<Usd> {
        self.spent += *usage;
        let cost = self.facts?.price.cost(usage);
        self.cost = self.cost.saturating_add(cost);
        Some(cost)
    }

    /// The ceiling that the calls so far have overshot, if any.
    #[must_use]
    pub fn overspent(&self) -> Option<Exceeded> {
        let tokens = self.spent.total() > self.limits.max_tokens;
        let cost = self.limits.max_cost.is_some_and(|limit| self.cost > limit);
        let ceiling = if tokens {
            Ceiling::Tokens
        } else {
            Ceiling::Cost
        };
        (tokens || cost).then(|| self.exceeded(ceiling, 0, false))
    }

    /// Tokens so far.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.spent
    }

    /// Money so far; `None` where the model's price is not known.
    #[must_use]
    pub fn cost(&self) -> Option<Usd> {
        self.facts.map(|_| self.cost)
    }

    /// Model calls so far.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps
    }

    fn reserve_step(&self, step_in_turn: u32) -> Result<(), Exceeded> {
        if step_in_turn > self.limits.max_steps {
            return Err(self.exceeded(Ceiling::Steps, 0, false));
        }
        if self.steps >= self.total_steps() {
            return Err(self.exceeded(Ceiling::TotalSteps, 0, false));
        }
        Ok(())
    }

    fn total_steps(&self) -> u32 {
        self.limits
            .max_total_steps
            .unwrap_or_else(|| self.limits.max_steps.saturating_mul(self.turns.max(1)))
    }

    /// How many output tokens each ceiling leaves room for, after the estimated input; with `holds_back`, also after a
    /// wrap-up that reads all of that again.
    fn rooms(&self, estimated_input: u64, holds_back: bool) -> Vec<(Ceiling, u64)> {
        let left = self
            .limits
            .max_tokens
            .saturating_sub(self.spent.total())
            .saturating_sub(estimated_input);
        let tokens = if holds_back {
            left.saturating_sub(estimated_input)
                .saturating_sub(MIN_OUTPUT_TOKENS)
                / 2
        } else {
            left
        };
        let mut rooms = vec![(Ceiling::Tokens, tokens)];
        if let Some(facts) = self.facts {
            rooms.push((
                Ceiling::Window,
                facts.context_window.saturating_sub(estimated_input),
            ));
            if let Some(limit) = self.limits.max_cost {
                let input = Usd::from_nanos(
                    estimated_input.saturating_mul(facts.price.input.max(facts.price.cache_write)),
                );
                let mut left = limit.saturating_sub(self.cost).saturating_sub(input);
                let mut dear = facts.price.output;
                if holds_back {
                    let answer = Usd::from_nanos(MIN_OUTPUT_TOKENS.saturating_mul(dear));
                    left = left.saturating_sub(input).saturating_sub(answer);
                    dear = dear.saturating_add(facts.price.input.max(facts.price.cache_write));
                }
                rooms.push((
                    Ceiling::Cost,
                    left.nanos().checked_div(dear).unwrap_or(u64::MAX),
                ));
            }
        }
        rooms
    }

    /// With `holds_back`, the message has what [`Budget::rooms`] holds back, so that its numbers add up to more than the limit.
    fn exceeded(&self, ceiling: Ceiling, estimated_input: u64, holds_back: bool) -> Exceeded {
        let answer = MIN_OUTPUT_TOKENS.min(self.limits.max_output_tokens);
        // The wrap-up reads the answer of the call before it, too.
        let read_again = estimated_input.saturating_add(answer);
        let next = |spent: String| {
            if estimated_input == 0 {
                return spent;
            }
            let needs = format!(
                "{spent}; the next call needs about {estimated_input} tokens of input and {answer} for an answer"
            );
            if holds_back {
                let kept = read_again.saturating_add(MIN_OUTPUT_TOKENS);
                format!("{needs}, and about {kept} are kept for the hand-over")
            } else {
                needs
            }
        };
        let next_cost = |spent: String| match self.facts {
            Some(facts) if estimated_input > 0 => {
                let dear = facts.price.input.max(facts.price.cache_write);
                let cost = |input: u64, output: u64| {
                    let input = input.saturating_mul(dear);
                    let output = output.saturating_mul(facts.price.output);
                    Usd::from_nanos(input.saturating_add(output))
                };
                let needs = cost(estimated_input, answer);
                let needs = format!("{spent}; the next call needs about {needs}");
                if holds_back {
                    let kept = cost(read_again, MIN_OUTPUT_TOKENS);
                    format!("{needs}, and about {kept} is kept for the hand-over")
                } else {
                    needs
                }
            }
            _ => spent,
        };
        let message = match ceiling {
            Ceiling::Steps => format!(
                "the step limit of {} (`max_steps`) was reached",
                self.limits.max_steps
            ),
            Ceiling::TotalSteps => format!(
                "the limit of {} steps over all turns was reached",
                self.total_steps()
            ),
            Ceiling::Tokens => next(format!(
                "spent {} of {} tokens (`max_tokens`)",
                self.spent.total(),
                self.limits.max_tokens
            )),
            Ceiling::Cost => next_cost(format!(
                "spent {} of {} (`max_cost_usd`)",
                self.cost,
                self.limits.max_cost.unwrap_or_default()
            )),
            // The purse speaks for itself.
            Ceiling::BatchTokens | Ceiling::BatchCost => String::new(),
            Ceiling::Window => format!(
                "about {estimated_input} tokens do not fit the context window of {}",
                self.facts.map_or(0, |facts| facts.context_window)
            ),
        };
        Exceeded { ceiling, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            max_steps: 5,
            max_tokens: 1000,
            max_output_tokens: 500,
            wrap_up: false,
            ..Limits::default()
        }
    }

    fn output(tokens: u64) -> Usage {
        Usage {
            output_tokens: tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn the_second_call_overshoots_and_the_third_is_not_started() {
        let mut budget = Budget::new(limits(), None, 1);
        assert_eq!(
            budget.reserve(1, 50),
            Ok(Reservation {
                max_tokens: 500,
                clamped_by: None
            })
        );
        budget.settle(&output(600));
        assert_eq!(
            budget.reserve(2, 50),
            Ok(Reservation {
                max_tokens: 350,
                clamped_by: Some(Ceiling::Tokens)
            })
        );
        budget.settle(&output(600));
        assert_eq!(
            budget.overspent().map(|exceeded| exceeded.ceiling),
            Some(Ceiling::Tokens)
        );
        assert_eq!(
            budget.reserve(3, 50).unwrap_err().message,
            "spent 1200 of 1000 tokens (`max_tokens`); the next call needs about 50 tokens of input and 128 for an answer"
        );
    }

    #[test]
    fn a_call_that_cannot_be_paid_is_not_started() {
        let mut budget = Budget::new(limits(), None, 1);
        budget.settle(&output(950));
        assert_eq!(budget.reserve(2, 10).unwrap_err().ceiling, Ceiling::Tokens);
        assert_eq!(budget.overspent(), None);
    }

    #[test]
    fn from_the_second_call_on_a_wrap_up_is_held_back_and_can_be_paid() {
        let limits = Limits {
            wrap_up: true,
            ..limits()
        };
        let mut budget = Budget::new(limits, None, 1);
        assert_eq!(budget.reserve(1, 100).map(|call| call.max_tokens), Ok(500));
        budget.settle(&output(200));
        // 800 are left: 100 of input, an answer of A, then 100 + A of input again and 128 for the hand-over.
        assert_eq!(budget.reserve(2, 100).map(|call| call.max_tokens), Ok(236));
        budget.settle(&output(100 + 236));
        // 536 are spent: 336 + 128 for a call would fit, 336 + 128 + 128 for the hand-over after it would not.
        assert_eq!(
            budget.reserve(3, 336),
            Err(Exceeded {
                ceiling: Ceiling::Tokens,
                message: "spent 536 of 1000 tokens (`max_tokens`); the next call needs about 336 tokens of input and 128 \
                          for an answer, and about 592 are kept for the hand-over"
                    .into()
            })
        );
        assert_eq!(
            budget.reserve_wrap_up(336).map(|call| call.max_tokens),
            Ok(128)
        );
    }

    #[test]
    fn money_clamps_the_output_and_then_refuses_the_call() {
        let facts = ModelFacts::of("claude-sonnet-5").unwrap();
        let limits = Limits {
            max_cost: Usd::from_dollars(0.01),
            max_tokens: 1_000_000,
            ..limits()
        };
        let mut budget = Budget::new(limits, Some(facts), 1);
        // 1,000 tokens of input at the dearer cache-write price cost $0.0025; $0.0075 buy 750 tokens of output.
        assert_eq!(
            budget.reserve(1, 1000),
            Ok(Reservation {
                max_tokens: 500,
                clamped_by: None
            })
        );
        budget.settle(&output(500));
        assert_eq!(
            budget.reserve(2, 1000),
            Ok(Reservation {
                max_tokens: 250,
                clamped_by: Some(Ceiling::Cost)
            })
        );
        budget.settle(&output(400));
        assert_eq!(budget.reserve(3, 1000).unwrap_err().ceiling, Ceiling::Cost);
    }

    #[test]
    fn money_that_is_kept_for_the_wrap_up_is_named() {
        let facts = ModelFacts::of("claude-sonnet-5").unwrap();
        let limits = Limits {
            max_cost: Usd::from_dollars(0.015),
            max_tokens: 1_000_000,
            wrap_up: true,
            ..limits()
        };
        let mut budget = Budget::new(limits, Some(facts), 1);
        budget.settle(&output(800));
        let message = budget.reserve(2, 1000).unwrap_err().message;
        assert_eq!(
            message,
            "spent $0.0080 of $0.0150 (`max_cost_usd`); the next call needs about $0.0038, and about $0.0041 is kept for \
             the hand-over"
        );
    }

    #[test]
    fn steps_are_counted_per_turn_and_over_all_turns() {
        let mut budget = Budget::new(
            Limits {
                max_total_steps: Some(8),
                max_tokens: 1_000_000,
                ..limits()
            },
            None,
            2,
        );
        assert!(budget.reserve(5, 0).is_ok());
        assert_eq!(budget.reserve(6, 0).unwrap_err().ceiling, Ceiling::Steps);
        for _ in 0..8 {
            budget.settle(&Usage::default());
        }
        assert_eq!(
            budget.reserve(4, 0).unwrap_err().ceiling,
            Ceiling::TotalSteps
        );
    }

    #[test]
    fn what_does_not_fit_the_window_is_refused_and_hostile_usage_does_not_overflow() {
        let facts = ModelFacts::of("claude-haiku-4-5").unwrap();
        let mut budget = Budget::new(
            Limits {
                max_tokens: u64::MAX,
                ..limits()
            },
            Some(facts),
            1,
        );
        assert_eq!(
            budget.reserve(1, 199_950).unwrap_err().ceiling,
            Ceiling::Window
        );
        budget.settle(&output(u64::MAX));
        budget.settle(&output(u64::MAX));
        assert!(budget.reserve(2, u64::MAX).is_err());
    }
}
