//! Clipping: every bound is in bytes, every cut is at a character boundary, and every cut shows.

use std::borrow::Cow;

/// What stands where the end of a text was cut off.
pub const ELLIPSIS: &str = "…";

/// The longest beginning of `text` that has at most `max` bytes.
#[must_use]
pub fn prefix(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The longest end of `text` that has at most `max` bytes.
#[must_use]
pub fn suffix(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut start = text.len() - max;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The beginning of `text` with `…` where it was cut; never more than `max` bytes.
#[must_use]
pub fn head(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    match max.checked_sub(ELLIPSIS.len()) {
        Some(room) => Cow::Owned(format!("{}{ELLIPSIS}", prefix(text, room))),
        None => Cow::Borrowed(prefix(text, max)),
    }
}

/// The beginning and the end of `text`, with a line in between that says how many bytes were cut;
/// never more than `max` bytes.
#[must_use]
pub fn ends(text: &str, max: usize) -> Cow<'_, str> {
    /// Room for the marker with the longest possible number.
    const MARKER: usize = 48;
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let Some(room) = max.checked_sub(MARKER) else {
        return head(text, max);
    };
    let first = prefix(text, room / 2);
    let last = suffix(text, room - room / 2);
    let cut = text.len() - first.len() - last.len();
    Cow::Owned(format!("{first}\n[{cut} bytes cut]\n{last}"))
}

/// The first line that is not blank, without escape sequences and blanks around it, clipped to
/// `max` bytes by [`head`].
#[must_use]
pub fn one_line(text: &str, max: usize) -> String {
    // No more than this much is looked at: a message of a megabyte has its first line near its start.
    let looked_at = prefix(text, max.saturating_mul(8).max(4096));
    let plain = super::terminal::plain(looked_at);
    let line = plain
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    head(line, max).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_is_at_a_character_boundary_and_shows() {
        assert_eq!(prefix("aé", 2), "a");
        assert_eq!(suffix("éa", 2), "a");
        assert_eq!(head("äöü", 5), "ä…");
        assert_eq!(head("äöü", 6), "äöü");
        let long = "x".repeat(100);
        assert_eq!(
            ends(&long, 58),
            format!("{}\n[90 bytes cut]\n{}", "x".repeat(5), "x".repeat(5))
        );
    }

    #[test]
    fn the_first_line_that_says_something_is_taken() {
        assert_eq!(one_line("\n  \u{1b}[31mred\u{1b}[0m \nrest", 80), "red");
        assert_eq!(one_line("", 80), "");
    }

    proptest! {
        #[test]
        fn clipping_is_bounded_and_idempotent(text in "(\\PC|\n){0,200}", max in 0_usize..220) {
            for clip in [head, ends] {
                let once = clip(&text, max).into_owned();
                prop_assert!(once.len() <= max);
                let twice = clip(&once, max);
                prop_assert_eq!(twice.as_ref(), once.as_str());
            }
            let line = one_line(&text, max);
            prop_assert!(line.len() <= max && !line.contains('\n'));
            prop_assert_eq!(one_line(&line, max), line);
        }
    }
}
