//! The purse of a whole batch: tokens and money that all tasks spend from, reserved before each call and settled after.
//!
//! A call is started only when the purse can pay the **worst** that it can cost beside the worst of all calls that are under
//! way, so that started calls never overspend. What others have reserved may come back, so a call that only that stands
//! against waits ([`Purse::hold`]); one that what is spent stands against is refused. A call whose end nobody saw
//! (cancelled in the middle) is booked at its worst: its provider bills it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Ceiling, Exceeded, MIN_OUTPUT_TOKENS};
use crate::usage::{Price, Usage, Usd};

/// What a batch may spend. `None`: as much as its tasks may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurseLimits {
    /// Tokens, see [`Usage::total`].
    pub max_tokens: Option<u64>,
    /// Money; needs models with known prices.
    pub max_cost: Option<Usd>,
    /// The share in percent from which on no task is started, and the running ones are told what is left.
    pub wind_down: u8,
}

impl PurseLimits {
    /// The share at which the batch winds down when nobody says otherwise, in percent.
    pub const WIND_DOWN: u8 = 90;
}

impl Default for PurseLimits {
    fn default() -> Self {
        Self {
            max_tokens: None,
            max_cost: None,
            wind_down: Self::WIND_DOWN,
        }
    }
}

/// What one call can cost at worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Input: no more tokens than this, however they are counted.
    pub input: u64,
    /// What [`Ask::input`] is when nothing that the provider counted before is believed.
    pub input_unmeasured: u64,
    /// Most output tokens.
    pub output: u64,
    /// The model's price, where known.
    pub price: Option<Price>,
}

/// The purse. Shared by all tasks of a batch.
#[derive(Debug)]
pub struct Purse {
    limits: PurseLimits,
    state: Mutex<State>,
    /// Something was given back.
    returned: Notify,
}

#[derive(Debug, Default)]
struct State {
    spent: Amount,
    reserved: Amount,
    /// A provider counted more input than it had said itself before; its counts are not believed any more.
    distrusts: bool,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    tokens: u64,
    cost: Usd,
}

impl Amount {
    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.saturating_add(other.cost),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
        }
    }
}

/// What is reserved for one call. [`Hold::settle`] or [`Hold::release`] it; dropped, it is booked as spent.
#[derive(Debug)]
pub struct Hold {
    purse: Arc<Purse>,
    amount: Amount,
    input: u64,
    price: Option<Price>,
    /// Output tokens that were granted: no more than asked for.
    pub output: u64,
    is_open: bool,
}

impl Purse {
    /// A full purse, or none where nothing is limited.
    #[must_use]
    pub fn new(limits: PurseLimits) -> Option<Arc<Self>> {
        let is_limited = limits.max_tokens.is_some() || limits.max_cost.is_some();
        is_limited.then(|| {
            Arc::new(Self {
                limits,
                state: Mutex::default(),
                returned: Notify::new(),
            })
        })
    }

    /// What it held at the start.
    #[must_use]
    pub fn limits(&self) -> PurseLimits {
        self.limits
    }

    /// Reserves a call, and waits as long as only the reservations of others stand against it.
    ///
    /// # Errors
    /// What is left cannot pay for the call's input and a useful answer.
    pub async fn hold(self: &Arc<Self>, ask: &Ask) -> Result<Hold, Exceeded> {
        loop {
            let returned = self.returned.notified();
            tokio::pin!(returned);
            returned.as_mut().enable();
            if let Some(answer) = self.try_hold(ask) {
                return answer;
            }
            returned.await;
        }
    }

    /// Reserves a call, or tells that it has to wait (`None`) or that it will never be paid (`Err`).
    fn try_hold(self: &Arc<Self>, ask: &Ask) -> Option<Result<Hold, Exceeded>> {
        let mut state = self.lock();
        let input = if state.distrusts {
            ask.input.max(ask.input_unmeasured)
        } else {
            ask.input
        };
        let least = MIN_OUTPUT_TOKENS.min(ask.output);
        if let Some(ceiling) = self.lack(state.spent, input, least, ask.price) {
            return Some(Err(self.exceeded(ceiling, state.spent)));
        }
        let taken = state.spent.plus(state.reserved);
        let output = if self.lack(taken, input, ask.output, ask.price).is_none() {
            ask.output
        } else if state.reserved == Amount::default() {
            // Nobody gives anything back, so the answer has to be shorter.
            self.affordable(state.spent, input, ask)
        } else {
            return None;
        };
        let amount = worst(input, output, ask.price);
        state.reserved = state.reserved.plus(amount);
        Some(Ok(Hold {
            purse: Arc::clone(self),
            amount,
            input,
            price: ask.price,
            output,
            is_open: true,
        }))
    }

    /// What of the purse a call would break.
    fn lack(
        &self,
        taken: Amount,
        input: u64,
        output: u64,
        price: Option<Price>,
    ) -> Option<Ceiling> {
        let sum = taken.plus(worst(input, output, price));
        if self.limits.max_tokens.is_some_and(|most| sum.tokens > most) {
            return Some(Ceiling::BatchTokens);
        }
        let is_too_dear = self.limits.max_cost.is_some_and(|most| sum.cost > most);
        is_too_dear.then_some(Ceiling::BatchCost)
    }

    /// The longest answer that what is left can pay for.
    fn affordable(&self, spent: Amount, input: u64, ask: &Ask) -> u64 {
        let used = spent.plus(worst(input, 0, ask.price));
        let by_tokens = self
            .limits
            .max_tokens
            .map_or(u64::MAX, |most| most.saturating_sub(used.tokens));
        let by_cost = self
            .limits
            .max_cost
            .zip(ask.price)
            .map_or(u64::MAX, |(most, price)| {
                let left = most.saturating_sub(used.cost).nanos();
                left.checked_div(price.output).unwrap_or(u64::MAX)
            });
        ask.output.min(by_tokens).min(by_cost)
    }

    /// Whether the share is reached from which on no task is started.
    #[must_use]
    pub fn is_winding_down(&self) -> bool {
        let spent = self.lock().spent;
        let reached = |spent: u64, most: Option<u64>| {
            most.is_some_and(|most| {
                u128::from(spent) * 100 >= u128::from(most) * u128::from(self.limits.wind_down)
            })
        };
        reached(spent.tokens, self.limits.max_tokens)
            || reached(spent.cost.nanos(), self.limits.max_cost.map(Usd::nanos))
    }

    /// What is spent of what, for a person.
    #[must_use]
    pub fn state(&self) -> String {
        self.told(self.lock().spent)
    }

    fn told(&self, spent: Amount) -> String {
        let tokens = self
            .limits
            .max_tokens
            .map(|most| format!("{} of {most} tokens (`--max-tokens`)", spent.tokens));
        let cost = self
            .limits
            .max_cost
            .map(|most| format!("{} of {most} (`--max-cost`)", spent.cost));
        let parts: Vec<String> = tokens.into_iter().chain(cost).collect();
        format!("the batch has spent {}", parts.join(" and "))
    }

    fn exceeded(&self, ceiling: Ceiling, spent: Amount) -> Exceeded {
        Exceeded {
            ceiling,
            message: format!(
                "{}, which leaves too little for another call",
                self.told(spent)
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most that a call can cost: all of its input at the dearest price of input.
fn worst(input: u64, output: u64, price: Option<Price>) -> Amount {
    let cost = price.map_or(Usd::ZERO, |price| {
        let input = input.saturating_mul(price.input.max(price.cache_write));
        Usd::from_nanos(input.saturating_add(output.saturating_mul(price.output)))
    });
    Amount {
        tokens: input.saturating_add(output),
        cost,
    }
}

impl Hold {
    /// Books what the call has cost. More than was held is booked too: it is what the provider bills.
    pub fn settle(mut self, usage: &Usage) {
        let cost = self.price.map_or(Usd::ZERO, |price| price.cost(usage));
        let spent = Amount {
            tokens: usage.total(),
            cost,
        };
        self.close(spent, usage.input() > self.input);
    }

    /// Gives all of it back: the call failed and is not billed.
    pub fn release(mut self) {
        self.close(Amount::default(), false);
    }

    fn close(&mut self, spent: Amount, distrusts: bool) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let mut state = self.purse.lock();
        state.reserved = state.reserved.minus(self.amount);
        state.spent = state.spent.plus(spent);
        state.distrusts |= distrusts;
        drop(state);
        self.purse.returned.notify_waiters();
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.close(self.amount, false);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn purse(tokens: u64) -> Arc<Purse> {
        let limits = PurseLimits {
            max_tokens: Some(tokens),
            ..PurseLimits::default()
        };
        Purse::new(limits).unwrap()
    }

    fn ask(input: u64, output: u64) -> Ask {
        Ask {
            input,
            input_unmeasured: input,
            output,
            price: None,
        }
    }

    fn used(input: u64, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        }
    }

    #[test]
    fn a_call_waits_for_what_others_hold_and_is_refused_for_what_is_spent() {
        let purse = purse(1000);
        let first = purse.try_hold(&ask(300, 300)).unwrap().unwrap();
        assert!(purse.try_hold(&ask(300, 300)).is_none());
        first.settle(&used(200, 50));
        let second = purse.try_hold(&ask(300, 300)).unwrap().unwrap();
        second.settle(&used(300, 300));
        // 850 are spent: 150 tokens pay no input of 100 with an answer of 128.
        let refused = purse.try_hold(&ask(100, 300)).unwrap().unwrap_err();
        assert_eq!(refused.ceiling, Ceiling::BatchTokens);
        assert!(
            refused.message.contains("850 of 1000 tokens"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn the_last_call_gets_a_shorter_answer() {
        let purse = purse(1000);
        let last = purse.try_hold(&ask(300, 5000)).unwrap().unwrap();
        assert_eq!(last.output, 700);
    }

    #[test]
    fn a_call_whose_end_nobody_saw_is_booked_at_its_worst() {
        let purse = purse(1000);
        drop(purse.try_hold(&ask(300, 300)).unwrap().unwrap());
        assert!(purse.state().contains("600 of 1000"));
        purse.try_hold(&ask(100, 200)).unwrap().unwrap().release();
        assert!(purse.state().contains("600 of 1000"));
    }

    #[test]
    fn money_is_held_at_the_dearest_price() {
        let price = Price {
            input: 1,
            cache_write: 2,
            cache_read: 0,
            output: 10,
        };
        let limits = PurseLimits {
            max_cost: Some(Usd::from_nanos(5000)),
            ..PurseLimits::default()
        };
        let purse = Purse::new(limits).unwrap();
        let asked = Ask {
            price: Some(price),
            ..ask(1000, 400)
        };
        let hold = purse.try_hold(&asked).unwrap().unwrap();
        assert_eq!(hold.output, 300);
        hold.settle(&used(1000, 300));
        assert!(!purse.is_winding_down());
        let refused = purse.try_hold(&asked).unwrap().unwrap_err();
        assert_eq!(refused.ceiling, Ceiling::BatchCost);
    }

    #[test]
    fn hostile_counts_do_not_overflow_and_end_the_batch() {
        let purse = purse(1000);
        let hold = purse.try_hold(&ask(100, 300)).unwrap().unwrap();
        hold.settle(&used(u64::MAX, u64::MAX));
        assert!(purse.is_winding_down());
        assert!(purse.try_hold(&ask(u64::MAX, u64::MAX)).unwrap().is_err());
    }

    #[test]
    fn counts_that_contradict_themselves_are_not_believed_any_more() {
        let purse = purse(10_000);
        let asked = Ask {
            input_unmeasured: 900,
            ..ask(100, 300)
        };
        let hold = purse.try_hold(&asked).unwrap().unwrap();
        hold.settle(&used(101, 1));
        let _next = purse.try_hold(&asked).unwrap().unwrap();
        assert_eq!(purse.lock().reserved.tokens, 1200);
    }

    #[tokio::test]
    async fn who_waits_is_let_on_by_what_comes_back() {
        let purse = purse(1000);
        let first = purse.hold(&ask(300, 500)).await.unwrap();
        let waiting = tokio::spawn({
            let purse = Arc::clone(&purse);
            async move { purse.hold(&ask(300, 500)).await.map(|hold| hold.output) }
        });
        tokio::task::yield_now().await;
        first.settle(&used(100, 100));
        assert_eq!(waiting.await.unwrap(), Ok(500));
    }

    proptest! {
        #[test]
        fn whatever_comes_in_whatever_order_no_more_is_spent_than_there_is(
            calls in prop::collection::vec((0_u64..400, 1_u64..400, 0_u64..=100, 0_u64..=100, any::<bool>()), 1..60),
        ) {
            let purse = purse(5000);
            let mut open = Vec::new();
            for (input, output, of_input, of_output, ends) in calls {
                if let Some(Ok(hold)) = purse.try_hold(&ask(input, output)) {
                    let usage = used(input * of_input / 100, hold.output * of_output / 100);
                    open.push((hold, usage));
                }
                if ends && let Some((hold, usage)) = open.pop() {
                    hold.settle(&usage);
                }
            }
            drop(open);
            prop_assert!(purse.lock().spent.tokens <= 5000);
        }
    }
}
