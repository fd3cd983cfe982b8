//! What the tries of one call cost, those that were cut off included.
//!
//! A provider bills what it has begun to say, whether or not anybody hears the end. So a try that broke off after its
//! answer had begun is booked with what the provider had counted until then, and at its worst where it had not: against the
//! budget and against the batch's purse. The next try is made only if the rest can pay for it, with a shorter answer if need
//! be. A model reports to a [`Bill`] as a [`Listener`]; who makes the call reads it afterwards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::Listener;
use crate::budget::{Ask, Budget, Exceeded, Hold, Purse, Reservation};
use crate::text;
use crate::usage::{Usage, Usd};

/// What one call may spend and has spent.
#[derive(Debug)]
pub struct Bill {
    purse: Option<Arc<Purse>>,
    ask: Ask,
    /// The input that the budget reckons with, in tokens.
    estimated_input: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    budget: Budget,
    reservation: Reservation,
    hold: Option<Hold>,
    progress: Progress,
    /// What the provider has counted of the try that is under way.
    counted: Usage,
    /// Whether that is the last count.
    is_counted_whole: bool,
    cuts: u64,
    refused: Option<Exceeded>,
}

/// How far a try is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing is under way.
    Idle,
    /// The request is sent.
    Sent,
    /// The provider has begun to answer.
    Begun,
}

/// A try that was cut off and is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Booked {
    /// What is booked.
    pub usage: Usage,
    /// Its price, where known.
    pub cost: Option<Usd>,
    /// Whether some of it is the worst case, because the provider had not counted it yet.
    pub is_estimate: bool,
    /// All that is spent now.
    pub total_usage: Usage,
    /// Its price, where known.
    pub total_cost: Option<Usd>,
}

impl Bill {
    /// The bill of a call that is reserved from `budget`, and from `purse` with `hold`. `ask` is its worst case.
    #[must_use]
    pub fn new(
        budget: Budget,
        reservation: Reservation,
        estimated_input: u64,
        ask: Ask,
        paid: Option<(Arc<Purse>, Hold)>,
    ) -> Self {
        let (purse, hold) = paid.unzip();
        Self {
            purse,
            ask,
            estimated_input,
            state: Mutex::new(State {
                budget,
                reservation,
                hold,
                progress: Progress::Idle,
                counted: Usage::default(),
                is_counted_whole: false,
                cuts: 0,
                refused: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The try under way failed. It is booked if its answer had begun.
    pub fn fail(&self) -> Option<Booked> {
        let mut state = self.lock();
        let progress = std::mem::replace(&mut state.progress, Progress::Idle);
        (progress == Progress::Begun).then(|| self.book(&mut state))
    }

    /// Nobody waits for the call any more. A try that is under way is booked, since its provider goes on with it.
    pub fn drop_call(&self) -> Option<Booked> {
        let mut state = self.lock();
        let progress = std::mem::replace(&mut state.progress, Progress::Idle);
        let booked = (progress != Progress::Idle).then(|| self.book(&mut state));
        if let Some(hold) = state.hold.take() {
            hold.release();
        }
        booked
    }

    fn book(&self, state: &mut State) -> Booked {
        let mut usage = state.counted;
        let mut is_estimate = false;
        if usage.input() == 0 {
            // The dearest kind of input.
            usage.cache_creation_input_tokens = self.ask.input;
            is_estimate = true;
        }
        if !state.is_counted_whole {
            usage.output_tokens = usage.output_tokens.max(state.reservation.max_tokens);
            is_estimate = true;
        }
        state.cuts = state.cuts.saturating_add(1);
        let cost = state.budget.book(&usage);
        if let Some(hold) = state.hold.take() {
            hold.settle(&usage);
        }
        Booked {
            usage,
            cost,
            is_estimate,
            total_usage: state.budget.spent(),
            total_cost: state.budget.cost(),
        }
    }

    /// The call has no reply, and no other try is made.
    pub fn give_up(&self) {
        if let Some(hold) = self.lock().hold.take() {
            hold.release();
        }
    }

    /// The call has its reply. The budget is left to whoever has made the call.
    pub fn settle(&self, usage: &Usage) {
        let mut state = self.lock();
        state.progress = Progress::Idle;
        if let Some(hold) = state.hold.take() {
            hold.settle(usage);
        }
    }

    /// The budget with all that was booked here.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.lock().budget.clone()
    }

    /// What the last try was allowed.
    #[must_use]
    pub fn reservation(&self) -> Reservation {
        self.lock().reservation
    }

    /// Why there was no further try, if that was for want of tokens or money.
    #[must_use]
    pub fn refused(&self) -> Option<Exceeded> {
        self.lock().refused.clone()
    }

    /// Reserves the next try after one that was booked. The most output tokens that it may ask for; `None`: the rest cannot
    /// pay for it.
    pub async fn reserve_again(&self) -> Option<u64> {
        let (again, is_paid) = {
            let state = self.lock();
            if state.cuts == 0 {
                return Some(state.reservation.max_tokens);
            }
            let again = state
                .budget
                .reserve_again(&state.reservation, self.estimated_input);
            (again, state.hold.is_some())
        };
        match self.pay_again(again, is_paid).await {
            Ok((reservation, hold)) => {
                let mut state = self.lock();
                state.reservation = reservation;
                state.hold = hold.or(state.hold.take());
                Some(reservation.max_tokens)
            }
            Err(mut exceeded) => {
                let mut state = self.lock();
                exceeded.message = format!(
                    "{}; {} cut off in the middle {} counted at most",
                    exceeded.message,
                    text::plural(state.cuts, "call"),
                    if state.cuts == 1 { "is" } else { "are" }
                );
                state.refused = Some(exceeded);
                None
            }
        }
    }

    async fn pay_again(
        &self,
        again: Result<Reservation, Exceeded>,
        is_paid: bool,
    ) -> Result<(Reservation, Option<Hold>), Exceeded> {
        let mut reservation = again?;
        let Some(purse) = self.purse.as_ref().filter(|_| !is_paid) else {
            return Ok((reservation, None));
        };
        let ask = Ask {
            output: reservation.max_tokens,
            ..self.ask
        };
        let hold = purse.hold(&ask).await?;
        reservation.lower(hold.output);
        Ok((reservation, Some(hold)))
    }
}

/// Nobody looks on; only the costs are heard.
#[async_trait]
impl Listener for Bill {
    fn text(&self, _: &str) {}

    fn retried(&self, _: u32, _: Duration, _: &str) {}

    fn sent(&self) {
        let mut state = self.lock();
        state.progress = Progress::Sent;
        state.counted = Usage::default();
        state.is_counted_whole = false;
    }

    fn begun(&self) {
        self.lock().progress = Progress::Begun;
    }

    fn declined(&self) {
        self.lock().progress = Progress::Sent;
    }

    fn counted(&self, usage: &Usage, is_whole: bool) {
        let mut state = self.lock();
        state.counted = *usage;
        state.is_counted_whole = is_whole;
    }

    fn failed(&self, _: &str) {
        self.fail();
    }

    async fn again(&self, _: u64) -> Option<u64> {
        self.reserve_again().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Limits, PurseLimits};

    fn bill(tokens: u64, purse: Option<u64>) -> (Bill, Option<Arc<Purse>>) {
        let limits = Limits {
            max_tokens: tokens,
            max_output_tokens: 500,
            ..Limits::default()
        };
        let purse = purse.and_then(|tokens| {
            Purse::new(PurseLimits {
                max_tokens: Some(tokens),
                ..PurseLimits::default()
            })
        });
        let budget = Budget::new(limits, None, 1);
        let reservation = budget.reserve(1, 50).unwrap();
        let ask = Ask {
            input: 100,
            input_unmeasured: 100,
            output: reservation.max_tokens,
            price: None,
        };
        let held = purse.clone().map(|purse| {
            let hold = futures_now(purse.hold(&ask)).unwrap();
            (purse, hold)
        });
        (Bill::new(budget, reservation, 50, ask, held), purse)
    }

    /// Of what does not have to wait.
    fn futures_now<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_try_whose_answer_never_began_costs_nothing() {
        let (bill, purse) = bill(10_000, Some(10_000));
        bill.sent();
        assert_eq!(bill.fail(), None);
        assert_eq!(futures_now(bill.reserve_again()), Some(500));
        bill.give_up();
        assert!(purse.unwrap().state().contains("spent 0 of"));
    }

    #[test]
    fn a_try_that_was_cut_costs_what_was_counted_and_else_the_most() {
        let (bill, purse) = bill(10_000, Some(10_000));
        bill.sent();
        bill.begun();
        let booked = bill.fail().unwrap();
        assert_eq!((booked.usage.total(), booked.is_estimate), (600, true));
        bill.sent();
        bill.begun();
        let mut counted = Usage {
            input_tokens: 30,
            output_tokens: 1,
            ..Usage::default()
        };
        bill.counted(&counted, false);
        assert_eq!(bill.fail().unwrap().usage.total(), 530);
        assert_eq!(futures_now(bill.reserve_again()), Some(500));
        bill.sent();
        bill.begun();
        counted.output_tokens = 20;
        bill.counted(&counted, true);
        let booked = bill.drop_call().unwrap();
        assert_eq!((booked.usage.total(), booked.is_estimate), (50, false));
        assert_eq!(booked.total_usage.total(), 1180);
        assert_eq!(bill.budget().spent().total(), 1180);
        // The second try had not been reserved again, so that the purse knows of two.
        assert!(purse.unwrap().state().contains("spent 650 of"));
    }

    #[test]
    fn the_rest_pays_for_a_shorter_answer_and_then_for_none() {
        for purse in [None, Some(1000)] {
            let tokens = if purse.is_some() { 10_000 } else { 1000 };
            let (bill, _) = bill(tokens, purse);
            let mut granted = Vec::new();
            for _ in 0..5 {
                bill.sent();
                bill.begun();
                bill.fail();
                let Some(output) = futures_now(bill.reserve_again()) else {
                    break;
                };
                granted.push(output);
            }
            assert!(bill.budget().spent().total() <= 1000 + 50, "{purse:?}");
            assert!(granted.iter().all(|output| *output < 500), "{granted:?}");
            let refused = bill.refused().unwrap();
            assert!(
                refused.message.contains("cut off in the middle"),
                "{}",
                refused.message
            );
        }
    }
}
