//! "Did you mean": the nearest of the words that are allowed.

/// The most similar word, if one is similar enough to be meant.
#[must_use]
pub(super) fn nearest<'a>(word: &str, allowed: &[&'a str]) -> Option<&'a str> {
    // Words of a task file are short; the distance of longer ones would cost more than it tells.
    if word.chars().count() > 64 {
        return None;
    }
    let folded = fold(word);
    let limit = (folded.len() / 3).max(1);
    allowed
        .iter()
        .map(|candidate| (distance(&folded, &fold(candidate)), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `maxSteps`, `max-steps` and `MAX_STEPS` are the same slip.
fn fold(word: &str) -> Vec<char> {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Edit distance in which two neighbours that changed places count once.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Words as "`a`, `b` or `c`".
#[must_use]
pub(super) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 4] = ["max_steps", "max_tokens", "timeout", "prompt"];

    #[test]
    fn slips_find_their_word_and_other_words_find_none() {
        for (slip, meant) in [
            ("max_step", Some("max_steps")),
            ("maxSteps", Some("max_steps")),
            ("tiemout", Some("timeout")),
            ("promt", Some("prompt")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, &KEYS), meant, "{slip}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), &KEYS), None);
    }

    #[test]
    fn neighbours_that_changed_places_count_once() {
        let chars = |word: &str| word.chars().collect::<Vec<_>>();
        assert_eq!(distance(&chars("tiemout"), &chars("timeout")), 1);
        assert_eq!(distance(&chars("abc"), &chars("")), 3);
    }

    #[test]
    fn a_list_of_words_reads_like_a_sentence() {
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!(one_of(&["a"]), "`a`");
    }
}
