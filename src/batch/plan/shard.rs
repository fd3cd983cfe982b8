//! Deals the tasks of a plan out to shards: by earlier durations where they are known, else by a stable hash.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::history::Weight;

/// The most shards.
pub const MOST: u32 = 1000;

/// Reads `INDEX/TOTAL`, both from 1.
///
/// # Errors
/// It is something else.
pub fn parse(text: &str) -> Result<(u32, u32), String> {
    let expected = || {
        format!(
            "expected `INDEX/TOTAL`, as in `2/4`, found `{}`",
            crate::text::one_line(text, 80)
        )
    };
    let (index, total) = text.split_once('/').ok_or_else(expected)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| expected());
    in_range(number(index)?, number(total)?)
}

/// A shard that there is.
///
/// # Errors
/// There is no such shard.
pub fn in_range(index: u32, total: u32) -> Result<(u32, u32), String> {
    if !(1..=MOST).contains(&total) {
        return Err(format!("there can be 1 to {MOST} shards, found {total}"));
    }
    if !(1..=total).contains(&index) {
        return Err(format!(
            "of {total} shards, there is no shard {index}; they are counted from 1"
        ));
    }
    Ok((index, total))
}

/// For every task, by its name and in its order, the shard that runs it, from 1.
///
/// With weights, the longest task is dealt first, each to the shard with the least so far. A task without a weight counts
/// as much as those with one do in the middle. Without any, each task goes by its name alone, so that a task that is added or
/// removed moves no other one.
#[must_use]
pub fn deal(names: &[&str], total: u32, weights: &BTreeMap<String, Weight>) -> Vec<u32> {
    let known: Vec<Option<Weight>> = names
        .iter()
        .map(|name| weights.get(*name).copied())
        .collect();
    let Some(middle) = middle(known.iter().flatten().copied()) else {
        return names.iter().map(|name| by_hash(name, total)).collect();
    };
    let weight = |place: usize| known.get(place).copied().flatten().unwrap_or(middle);
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|one, other| {
        weight(*other)
            .cmp(&weight(*one))
            .then_with(|| names[*one].cmp(names[*other]))
    });
    let mut loads = vec![(0_u128, 0_u128, 0_usize); total.max(1) as usize];
    let mut dealt = vec![1; names.len()];
    for place in order {
        let least = (0..loads.len())
            .min_by_key(|shard| loads[*shard])
            .unwrap_or(0);
        let Weight { millis, nanos } = weight(place);
        let (time, money, count) = &mut loads[least];
        // A task of no duration is still one task.
        *time += u128::from(millis.max(1));
        *money += u128::from(nanos);
        *count += 1;
        dealt[place] = u32::try_from(least).unwrap_or(0) + 1;
    }
    dealt
}

/// Highest random weight: the shard for which the hash with the name is the largest.
fn by_hash(name: &str, total: u32) -> u32 {
    (1..=total.max(1))
        .max_by_key(|shard| {
            let mut hasher = Sha256::new();
            hasher.update(shard.to_be_bytes());
            hasher.update(name);
            <[u8; 32]>::from(hasher.finalize())
        })
        .unwrap_or(1)
}

fn middle(weights: impl Iterator<Item = Weight>) -> Option<Weight> {
    let mut all: Vec<Weight> = weights.collect();
    all.sort();
    all.get(all.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("task-{number}")).collect()
    }

    fn borrowed(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    fn weights(of: &[(&str, u64)]) -> BTreeMap<String, Weight> {
        let weight = |millis| Weight { millis, nanos: 0 };
        of.iter()
            .map(|(name, millis)| ((*name).to_owned(), weight(*millis)))
            .collect()
    }

    #[test]
    fn a_shard_is_two_numbers_from_one() {
        assert_eq!(parse("2/4"), Ok((2, 4)));
        for text in [
            "0/4", "5/4", "1/0", "1", "a/b", "-1/4", "1/2/3", "1/100000", "",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_longest_tasks_go_first_to_whoever_has_least() {
        let history = weights(&[
            ("a", 60),
            ("b", 50),
            ("c", 40),
            ("d", 30),
            ("e", 20),
            ("f", 10),
        ]);
        let dealt = deal(&["f", "a", "e", "b", "d", "c"], 2, &history);
        // a, d, e: 110; b, c, f: 100.
        assert_eq!(dealt, [2, 1, 1, 2, 1, 2]);
        let unknown = deal(&["a", "new", "f"], 2, &history);
        assert_eq!(unknown, [1, 2, 2], "a new task counts like the middle one");
    }

    #[test]
    fn money_decides_where_time_does_not() {
        let weight = |nanos| Weight { millis: 5, nanos };
        let history = [("a", 9), ("b", 1), ("c", 1)]
            .map(|(name, nanos)| (name.to_owned(), weight(nanos)))
            .into();
        assert_eq!(deal(&["a", "b", "c"], 2, &history), [1, 2, 2]);
    }

    #[test]
    fn a_task_that_is_added_moves_no_other_one() {
        let many = names(200);
        let all = deal(&borrowed(&many), 4, &BTreeMap::new());
        let fewer = deal(&borrowed(&many[..150]), 4, &BTreeMap::new());
        assert_eq!(all[..150], fewer);
        for shard in 1..=4 {
            let count = all.iter().filter(|one| **one == shard).count();
            assert!((30..=70).contains(&count), "{count}");
        }
        // What other programs and later versions have to agree with.
        assert_eq!(
            deal(&["fix-bug", "review", "umbrella"], 4, &BTreeMap::new()),
            GOLDEN
        );
    }

    const GOLDEN: [u32; 3] = [4, 3, 4];

    proptest! {
        #[test]
        fn every_task_has_exactly_one_shard_and_long_ones_are_spread(
            durations in prop::collection::vec(1_u64..10_000, 1..60),
            total in 1_u32..9,
        ) {
            let names = names(durations.len());
            let pairs: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(durations.iter().copied()).collect();
            let dealt = deal(&borrowed(&names), total, &weights(&pairs));
            prop_assert_eq!(dealt.len(), names.len());
            prop_assert!(dealt.iter().all(|shard| (1..=total).contains(shard)));
            let loads: Vec<u64> = (1..=total)
                .map(|shard| dealt.iter().zip(&durations).filter(|(one, _)| **one == shard).map(|(_, time)| time).sum())
                .collect();
            let ideal = durations.iter().sum::<u64>() / u64::from(total);
            let longest = durations.iter().max().copied().unwrap_or(0);
            prop_assert!(loads.iter().all(|load| *load <= ideal + longest + 1), "{loads:?}");
        }
    }
}
