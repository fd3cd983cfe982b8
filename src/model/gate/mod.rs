//! The one gate that all model calls of a run pass, so that a server's word about its load is heard by all of them.
//!
//! `pace` knows how many may be under way and when; this module makes the others wait, in the order in which they came.
//! A call that was refused for load goes to the front: it has waited the longest. Dropping a waiting call or a
//! [`Pass`] gives its place to the next one.

mod pace;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::pace::{Pace, Ticket};

/// See the module. Shared by all models of a run that talk to one account.
pub struct Gate {
    state: Mutex<State>,
    watcher: OnceLock<Watcher>,
}

/// Is told when the gate gives way to the server's load.
type Watcher = Box<dyn Fn(Eased) + Send + Sync>;

/// The server refused for load, and fewer calls are made at the same time from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eased {
    /// The most calls at the same time, for now.
    pub window: u32,
    /// Nothing is sent for this time.
    pub wait: Duration,
}

struct State {
    pace: Pace,
    waiting: VecDeque<oneshot::Sender<Pass>>,
    /// When somebody will look again without being asked.
    alarm: Option<Instant>,
    refusals: u64,
}

/// The permission to have one request under way. Dropping it ends the request.
pub struct Pass {
    gate: Arc<Gate>,
    ticket: Option<Ticket>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate for at most `ceiling` requests at the same time.
    #[must_use]
    pub fn new(ceiling: u32) -> Self {
        Self {
            state: Mutex::new(State {
                pace: Pace::new(ceiling),
                waiting: VecDeque::new(),
                alarm: None,
                refusals: 0,
            }),
            watcher: OnceLock::new(),
        }
    }

    /// Tells `watcher` of each time that the gate gives way. The first one stays.
    pub fn watch(&self, watcher: impl Fn(Eased) + Send + Sync + 'static) {
        let _ = self.watcher.set(Box::new(watcher));
    }

    /// How many requests were refused for load.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.lock().refusals
    }

    /// Waits until a request may be sent. `again`: the call was refused before and goes to the front.
    pub async fn enter(self: &Arc<Self>, again: bool) -> Pass {
        let turn = {
            let mut state = self.lock();
            if (again || state.waiting.is_empty()) && state.pace.may_send(Instant::now()) {
                let ticket = Some(state.pace.send());
                return Pass {
                    gate: Arc::clone(self),
                    ticket,
                };
            }
            let (sender, turn) = oneshot::channel();
            if again {
                state.waiting.push_front(sender);
            } else {
                state.waiting.push_back(sender);
            }
            self.admit(&mut state);
            turn
        };
        match turn.await {
            Ok(pass) => pass,
            // The sender lives as long as the gate, and we hold the gate; without it nobody limits.
            Err(_) => Pass {
                gate: Arc::clone(self),
                ticket: None,
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets in whoever may go, and sets the alarm for the others.
    fn admit(self: &Arc<Self>, state: &mut State) {
        let now = Instant::now();
        while state.pace.may_send(now) {
            let Some(next) = state.waiting.pop_front() else {
                return;
            };
            let pass = Pass {
                gate: Arc::clone(self),
                ticket: Some(state.pace.send()),
            };
            if let Err(mut unwanted) = next.send(pass)
                && let Some(ticket) = unwanted.ticket.take()
            {
                state.pace.done(ticket);
            }
        }
        let Some(at) = state.pace.opens_at(now) else {
            return;
        };
        if state.waiting.is_empty() || state.alarm.is_some_and(|alarm| alarm >= at) {
            return;
        }
        // Without a runtime the run is over, and nobody waits any more.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        state.alarm = Some(at);
        let gate = Arc::downgrade(self);
        runtime.spawn(async move {
            tokio::time::sleep_until(at).await;
            if let Some(gate) = gate.upgrade() {
                let mut state = gate.lock();
                if state.alarm == Some(at) {
                    state.alarm = None;
                }
                gate.admit(&mut state);
            }
        });
    }

    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.admit(&mut state);
    }
}

impl Pass {
    /// The server has begun to answer.
    pub fn taken(&self) {
        if let Some(ticket) = self.ticket {
            self.gate.change(|state| state.pace.taken(ticket));
        }
    }

    /// The server says that nothing is left until `wait` is over.
    pub fn exhausted(&self, wait: Duration) {
        self.gate
            .change(|state| state.pace.close(wait, Instant::now()));
    }

    /// The request was refused for load; nothing is sent for `wait`.
    pub fn refused(mut self, wait: Duration) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut eased = None;
        self.gate.change(|state| {
            state.refusals += 1;
            let is_new = state.pace.refused(ticket, wait, Instant::now());
            eased = is_new.then_some(Eased {
                window: state.pace.window(),
                wait,
            });
        });
        if let (Some(eased), Some(watcher)) = (eased, self.gate.watcher.get()) {
            watcher(eased);
        }
    }

    /// The request failed, and not for load.
    pub fn failed(mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.gate.change(|state| state.pace.failed(ticket));
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.gate.change(|state| state.pace.done(ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_refusal_all_wait_one_goes_first_and_all_get_through() {
        let gate = Arc::new(Gate::new(50));
        let begun = Instant::now();
        let inside = Arc::new(AtomicUsize::new(0));
        let first = gate.enter(false).await;
        first.refused(Duration::from_secs(30));
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
                tokio::spawn(async move {
                    let pass = gate.enter(false).await;
                    let beside = inside.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    pass.taken();
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    (begun.elapsed().as_secs(), beside)
                })
            })
            .collect();
        let mut entered = Vec::new();
        for call in calls {
            entered.push(call.await.unwrap());
        }
        assert_eq!(entered[0], (32, 0));
        assert_eq!(entered.iter().filter(|(at, _)| *at == 32).count(), 1);
        assert_eq!(gate.refusals(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_given_up_leaves_its_place_to_the_next() {
        let gate = Arc::new(Gate::new(1));
        let held = gate.enter(false).await;
        let given_up = tokio::time::timeout(Duration::from_secs(1), gate.enter(false)).await;
        assert!(given_up.is_err());
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter(false).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        drop(waiting.await.unwrap());
        drop(gate.enter(false).await);
    }
}
