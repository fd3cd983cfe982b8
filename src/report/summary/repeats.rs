//! Counts calls that come again with the same input, in bounded memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::record::{self, RepeatedCall};

/// How many different calls are counted; later ones are not.
const ROOM: usize = 2000;
/// From how many times on a call is reported.
const NOTABLE: u32 = 3;
/// How many repeated calls are reported.
const REPORTED: usize = 20;

/// The counter.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Repeats {
    seen: HashMap<u64, Count>,
    /// The reported ones, in the order in which they became notable.
    pub(super) found: Vec<RepeatedCall>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    times: u32,
    place: Option<usize>,
}

impl Repeats {
    pub(super) fn count(&mut self, tool: &str, input: &Value) {
        // Not a secret and not stored, so a keyless hash will do; a collision would only miscount.
        let mut hasher = DefaultHasher::new();
        tool.hash(&mut hasher);
        input.to_string().hash(&mut hasher);
        let key = hasher.finish();
        if self.seen.len() >= ROOM && !self.seen.contains_key(&key) {
            return;
        }
        let count = self.seen.entry(key).or_default();
        count.times = count.times.saturating_add(1);
        if count.times == NOTABLE && self.found.len() < REPORTED {
            count.place = Some(self.found.len());
            self.found.push(RepeatedCall {
                tool: record::name(tool),
                input: record::input(input),
                times: NOTABLE,
            });
        } else if let Some(call) = count.place.and_then(|place| self.found.get_mut(place)) {
            call.times = count.times;
        }
    }
}
