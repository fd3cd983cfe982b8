//! Hears a model call of a step: turns what it hears into events, keeps its bill, and stops the task's clock while it waits.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::agent::interrupt::Interrupt;
use crate::event::{CallCut, Emitter, Kind};
use crate::model::{Bill, Booked, Listener, Waiting};
use crate::redact::RedactStream;
use crate::usage::Usage;

/// See the module.
pub(super) struct StepListener {
    step: u32,
    turn: u32,
    /// What the tries cost.
    pub(super) bill: Bill,
    emitter: Emitter,
    interrupt: Interrupt,
    /// Holds back what could be the beginning of a secret.
    pending: Mutex<RedactStream>,
}

impl StepListener {
    pub(super) fn new(
        step: u32,
        turn: u32,
        bill: Bill,
        emitter: &Emitter,
        interrupt: &Interrupt,
    ) -> Self {
        Self {
            step,
            turn,
            bill,
            interrupt: interrupt.clone(),
            emitter: emitter.clone(),
            pending: Mutex::new(emitter.redactor().stream()),
        }
    }

    /// A live event that cannot be stored is told by the next one that must be.
    fn emit(&self, kind: Kind) {
        if let Err(error) = self.emitter.emit(kind) {
            tracing::warn!(%error, "an event could not be stored");
        }
    }

    /// Nobody waits for the call any more.
    pub(super) fn drop_call(&self, reason: &str) {
        self.cut(self.bill.drop_call(), reason);
    }

    fn cut(&self, booked: Option<Booked>, reason: &str) {
        let Some(booked) = booked else { return };
        self.emit(Kind::CallCut(Box::new(CallCut {
            step: self.step,
            turn: self.turn,
            reason: reason.to_owned(),
            usage: booked.usage,
            cost: booked.cost,
            is_estimate: booked.is_estimate,
            total_usage: booked.total_usage,
            total_cost: booked.total_cost,
        })));
    }
}

#[async_trait]
impl Listener for StepListener {
    fn text(&self, piece: &str) {
        let bytes = self
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(piece.as_bytes());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.emit(Kind::TextStreamed {
            step: self.step,
            text,
        });
    }

    fn retried(&self, attempt: u32, delay: Duration, reason: &str) {
        let delay_ms = as_millis(delay);
        self.emit(Kind::ModelRetried {
            step: self.step,
            attempt,
            delay_ms,
            reason: reason.to_owned(),
        });
    }

    fn waiting(&self) {
        self.interrupt.pause();
    }

    fn resumed(&self) {
        self.interrupt.resume();
    }

    fn sent(&self) {
        self.bill.sent();
    }

    fn begun(&self) {
        self.bill.begun();
    }

    fn declined(&self) {
        self.bill.declined();
    }

    fn counted(&self, usage: &Usage, is_whole: bool) {
        self.bill.counted(usage, is_whole);
    }

    fn failed(&self, reason: &str) {
        self.cut(self.bill.fail(), reason);
    }

    async fn again(&self, _: u64) -> Option<u64> {
        // What the batch makes it wait for is not the task's time.
        let _waiting = Waiting::of(self);
        self.bill.reserve_again().await
    }
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
