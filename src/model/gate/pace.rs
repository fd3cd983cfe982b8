//! How many requests may be under way, learnt from the answers: pure, time comes in from the outside.
//!
//! It begins at the ceiling, so that nothing is lost where the server bears it. A refusal for load cuts the window to what
//! the server evidently bears: the requests that are still under way. All refusals of requests that were sent before the
//! cut belong to one **episode** and only lower it further. After a wait that the server asked for, one request goes
//! first; when it is taken, the window opens by one with each request that is taken, up to where it was cut. Beyond that it
//! grows by one after a whole window without a refusal; each time such a step is refused, it takes twice as many.

use std::time::Duration;

use tokio::time::Instant;

/// The most windows without a refusal that a step beyond a known wall takes.
const MOST_PATIENCE: u32 = 64;

/// The state. Every method is a transition.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// Never more.
    ceiling: u32,
    /// The most requests under way right now.
    window: u32,
    /// Up to here the window opens fast.
    threshold: u32,
    in_flight: u32,
    /// Windows without a refusal before one more is dared.
    patience: u32,
    /// Requests taken since the last change.
    clean: u32,
    /// The number of cuts: a request carries the one that it was sent under.
    episode: u64,
    /// Nothing is sent before.
    opens_at: Option<Instant>,
    trial: Trial,
}

/// The one request that goes first after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    None,
    Due,
    UnderWay,
}

/// What a request carries from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    episode: u64,
    is_trial: bool,
}

impl Pace {
    pub(super) fn new(ceiling: u32) -> Self {
        let ceiling = ceiling.max(1);
        Self {
            ceiling,
            window: ceiling,
            threshold: ceiling,
            in_flight: 0,
            patience: 1,
            clean: 0,
            episode: 0,
            opens_at: None,
            trial: Trial::None,
        }
    }

    /// The most requests under way, as it stands.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// When the next request may be sent at the earliest, if that is not yet.
    pub(super) fn opens_at(&self, now: Instant) -> Option<Instant> {
        self.opens_at.filter(|at| *at > now)
    }

    pub(super) fn may_send(&self, now: Instant) -> bool {
        self.opens_at(now).is_none()
            && self.in_flight < self.window
            && self.trial != Trial::UnderWay
    }

    /// A request is sent; [`Pace::may_send`] was asked before.
    pub(super) fn send(&mut self) -> Ticket {
        self.in_flight += 1;
        let is_trial = self.trial == Trial::Due;
        if is_trial {
            self.trial = Trial::UnderWay;
        }
        Ticket {
            episode: self.episode,
            is_trial,
        }
    }

    /// The server has begun to answer the request.
    pub(super) fn taken(&mut self, ticket: Ticket) {
        if ticket.is_trial && self.trial == Trial::UnderWay {
            self.trial = Trial::None;
            self.window = self.in_flight.saturating_add(1).min(self.threshold);
            return;
        }
        if ticket.episode != self.episode {
            return;
        }
        if self.window < self.threshold {
            self.window += 1;
            return;
        }
        self.clean = self.clean.saturating_add(1);
        let enough = self.clean >= self.window.saturating_mul(self.patience);
        // A window that is not filled says nothing about what a larger one would meet.
        if enough && self.window < self.ceiling && self.in_flight >= self.window {
            self.window += 1;
            self.threshold = self.window;
            self.clean = 0;
        }
    }

    /// The request is over, however it went.
    pub(super) fn done(&mut self, ticket: Ticket) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if ticket.is_trial && self.trial == Trial::UnderWay {
            self.trial = Trial::Due;
        }
    }

    /// The request failed, and not for load: no time to grow.
    pub(super) fn failed(&mut self, ticket: Ticket) {
        self.clean = 0;
        self.done(ticket);
    }

    /// The request was refused for load. Nothing is sent for `wait`. Returns whether this began an episode.
    pub(super) fn refused(&mut self, ticket: Ticket, wait: Duration, now: Instant) -> bool {
        self.done(ticket);
        let bears = self.in_flight.max(1);
        let is_new = ticket.episode == self.episode;
        if is_new {
            let was = self.window;
            let gentle = was.saturating_mul(4).div_ceil(5).min(was.saturating_sub(1));
            self.threshold = gentle.min(bears).max(1);
            // Refused in the first step beyond what was borne: that is the wall. A deeper cut says only that it lies lower.
            self.patience = if self.threshold + 1 >= was {
                self.patience.saturating_mul(2).min(MOST_PATIENCE)
            } else {
                1
            };
            self.episode += 1;
        } else {
            self.threshold = self.threshold.min(bears);
        }
        self.window = self.threshold;
        self.clean = 0;
        self.close(wait, now);
        is_new
    }

    /// Nothing is sent for `wait`; then one request goes first.
    pub(super) fn close(&mut self, wait: Duration, now: Instant) {
        if wait.is_zero() {
            return;
        }
        let until = now + wait;
        self.opens_at = self.opens_at.max(Some(until));
        if self.trial == Trial::None {
            self.trial = Trial::Due;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NONE: Duration = Duration::ZERO;

    /// A server that refuses what is above its limit at once, and answers all others at the end of a round.
    fn play(pace: &mut Pace, limit: usize, rounds: usize, now: Instant) -> (u32, u32) {
        let (mut sent, mut refused) = (0, 0);
        let mut borne = Vec::new();
        for _ in 0..rounds {
            while pace.may_send(now) {
                let ticket = pace.send();
                sent += 1;
                if borne.len() >= limit {
                    pace.refused(ticket, NONE, now);
                    refused += 1;
                } else {
                    pace.taken(ticket);
                    borne.push(ticket);
                }
            }
            for ticket in borne.drain(..) {
                pace.done(ticket);
            }
        }
        (sent, refused)
    }

    #[test]
    fn a_server_that_bears_all_is_given_all_at_once() {
        let mut pace = Pace::new(64);
        assert_eq!(play(&mut pace, usize::MAX, 3, Instant::now()), (192, 0));
    }

    #[test]
    fn a_limit_is_found_by_one_refusal_and_then_seldom_tried() {
        let now = Instant::now();
        let mut pace = Pace::new(64);
        play(&mut pace, 8, 2, now);
        assert_eq!(pace.window(), 8);
        let (sent, refused) = play(&mut pace, 8, 150, now);
        assert!(refused * 50 < sent, "{refused} of {sent}");
        assert!(sent >= 149 * 8, "{sent}");
    }

    #[test]
    fn a_burst_that_was_under_way_is_one_episode_and_leaves_what_the_server_bears() {
        let now = Instant::now();
        let mut pace = Pace::new(64);
        let tickets: Vec<Ticket> = (0..64).map(|_| pace.send()).collect();
        let begun: Vec<bool> = tickets[8..]
            .iter()
            .map(|ticket| pace.refused(*ticket, NONE, now))
            .collect();
        assert_eq!(begun.iter().filter(|is_new| **is_new).count(), 1);
        assert_eq!(pace.window(), 8);
        assert!(!pace.may_send(now));
    }

    #[test]
    fn after_a_wait_one_goes_first_and_the_others_follow_step_by_step() {
        let now = Instant::now();
        let mut pace = Pace::new(16);
        let tickets: Vec<Ticket> = (0..16).map(|_| pace.send()).collect();
        for ticket in &tickets[12..] {
            pace.refused(*ticket, Duration::from_secs(20), now);
        }
        for ticket in &tickets[..12] {
            pace.taken(*ticket);
            pace.done(*ticket);
        }
        assert!(!pace.may_send(now));
        let later = now + Duration::from_secs(20);
        assert!(pace.may_send(later));
        let first = pace.send();
        assert!(!pace.may_send(later), "one goes first");
        pace.taken(first);
        let second = pace.send();
        assert!(!pace.may_send(later), "not all at once");
        pace.taken(second);
        assert!(pace.may_send(later));
    }

    #[test]
    fn a_trial_that_is_given_up_is_made_by_another() {
        let now = Instant::now();
        let mut pace = Pace::new(4);
        pace.close(Duration::from_secs(1), now);
        let later = now + Duration::from_secs(1);
        let first = pace.send();
        assert!(!pace.may_send(later));
        pace.done(first);
        assert!(pace.may_send(later));
    }

    #[test]
    fn a_server_that_bears_more_again_is_given_more() {
        let now = Instant::now();
        let mut pace = Pace::new(64);
        play(&mut pace, 2, 5, now);
        assert_eq!(pace.window(), 2);
        play(&mut pace, usize::MAX, 2000, now);
        assert!(pace.window() > 32, "{}", pace.window());
    }

    proptest! {
        #[test]
        fn there_is_always_a_way_on_and_never_more_than_the_ceiling(steps in prop::collection::vec(0_u8..5, 0..400), ceiling in 1_u32..20) {
            let mut now = Instant::now();
            let mut pace = Pace::new(ceiling);
            let mut out = Vec::new();
            for step in steps {
                match step {
                    0 | 1 => if pace.may_send(now) { out.push(pace.send()); },
                    2 => if let Some(ticket) = out.pop() { pace.taken(ticket); pace.done(ticket); },
                    3 => if let Some(ticket) = out.pop() { pace.refused(ticket, Duration::from_millis(u64::from(ceiling % 3)), now); },
                    _ => now += Duration::from_millis(1),
                }
                prop_assert!(u32::try_from(out.len()).unwrap() <= ceiling);
                prop_assert!((1..=ceiling).contains(&pace.window()));
            }
            for ticket in out { pace.done(ticket); }
            prop_assert!(pace.may_send(now + Duration::from_secs(1)));
        }
    }
}
