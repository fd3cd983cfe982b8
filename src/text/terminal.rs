//! Text for a terminal or for a log that a person reads.
//!
//! [`plain`] takes away what only a terminal understands (colours, cursor movements, links, the
//! overprinting of progress bars). [`visible`] makes the rest of what has no shape visible as an
//! escape, so that no control, bidirectional or zero-width character ever acts.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

const ESC: char = '\u{1b}';
const BEL: char = '\u{7}';
/// String terminator, 8-bit.
const ST: char = '\u{9c}';

/// Drops ANSI escape sequences: control sequences, operating system commands (links and titles),
/// device control and other strings, in their 7-bit and 8-bit forms.
///
/// A string that is never terminated ends at its line, so that it cannot hide what follows.
#[must_use]
pub fn strip_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ESC => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            ST => {}
            _ => out.push(c),
        }
    }
    out
}

/// After ESC: the second character says what follows.
fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        _ => {
            while rest
                .next_if(|c| ('\u{20}'..='\u{2f}').contains(c))
                .is_some()
            {}
            let _final = rest.next_if(|c| ('\u{30}'..='\u{7e}').contains(c));
        }
    }
}

/// Parameters, intermediates and one final character; what fits none of them is text again.
fn skip_control_sequence(rest: &mut Peekable<Chars<'_>>) {
    while rest
        .next_if(|c| ('\u{20}'..='\u{3f}').contains(c))
        .is_some()
    {}
    let _final = rest.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
}

/// Up to BEL or the string terminator, at most to the end of the line.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    while let Some(c) = rest.next_if(|c| !matches!(*c, '\n' | ESC)) {
        if matches!(c, BEL | ST) {
            return;
        }
    }
    if rest.next_if_eq(&ESC).is_some() && rest.next_if_eq(&'\\').is_none() {
        skip_escape(rest);
    }
}

/// Text as a person would have seen it at the end: without escape sequences, with `\n` line ends,
/// and of a line that was overprinted (`10%\r20%\r`) only the last state.
#[must_use]
pub fn plain(text: &str) -> String {
    let stripped = strip_ansi(text);
    if !stripped.contains('\r') {
        return stripped;
    }
    let mut out = String::with_capacity(stripped.len());
    for (index, line) in stripped.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.push_str(
            line.rsplit('\r')
                .find(|segment| !segment.is_empty())
                .unwrap_or_default(),
        );
    }
    out
}

/// Text of several lines with every character that has no shape written as an escape: `\x1b`,
/// `\u{202e}`. Line feeds and tabs stay.
#[must_use]
pub fn visible(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Text as one line: like [`visible`], with line feeds and tabs escaped as well. For names.
#[must_use]
pub fn visible_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) || !is_shapeless(c) {
            out.push(c);
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match c {
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\0'..='\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
            _ => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    out
}

/// Whether a character acts or hides instead of showing: controls, format characters
/// (bidirectional, zero-width, tags), line and paragraph separators, private use, non-characters,
/// fillers, and the variation selectors that can carry a hidden text.
#[must_use]
pub fn is_shapeless(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
    ) || matches!(
        c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
            | '\u{180b}'..='\u{180f}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{e0100}'..='\u{e01ef}'
            | '\u{fdd0}'..='\u{fdef}'
    ) || u32::from(c) & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequences_of_both_widths_are_dropped_and_their_text_stays() {
        for (raw, expected) in [
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{9b}31mred\u{9b}0m", "red"),
            (
                "\u{1b}]8;;https://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\",
                "link",
            ),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{9d}0;title\u{9c}text", "text"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{1b}(Bplain\u{1b}7\u{1b}c", "plain"),
            ("a\tb", "a\tb"),
        ] {
            assert_eq!(strip_ansi(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_hides_no_more_than_its_line() {
        assert_eq!(strip_ansi("\u{1b}]0;never ends\nerror: x"), "\nerror: x");
        assert_eq!(strip_ansi("\u{1b}[12"), "");
        assert_eq!(strip_ansi("\u{1b}[é"), "é");
        assert_eq!(strip_ansi("\u{1b}]0;a\u{1b}[31mred"), "red");
        assert_eq!(strip_ansi("\u{1b}"), "");
    }

    #[test]
    fn of_an_overprinted_line_the_last_state_stays() {
        assert_eq!(plain("10%\r20%\r30%\r\nok\r\n"), "30%\nok\n");
    }

    #[test]
    fn what_has_no_shape_gets_one() {
        assert_eq!(
            visible("a\0\u{8}\u{85}\n\tb\u{202e}c\u{200b}\u{fffe}\u{e0041}"),
            "a\\x00\\x08\\u{85}\n\tb\\u{202e}c\\u{200b}\\u{fffe}\\u{e0041}"
        );
        assert_eq!(visible_line("a\nb\r"), "a\\nb\\r");
        assert_eq!(visible("grün 漢字 🦀"), "grün 漢字 🦀");
    }

    proptest! {
        #[test]
        fn cleaning_is_idempotent_and_leaves_nothing_that_acts(text in "(\\PC|[\\x00-\\x1f\\x7f-\\x9f]|\u{202e}|\\[|\\]){0,80}") {
            let stripped = strip_ansi(&text);
            let introducers = [ESC, '\u{9b}', '\u{9d}', '\u{90}', ST];
            prop_assert!(!stripped.contains(introducers));
            prop_assert_eq!(strip_ansi(&stripped), stripped.as_str());
            let plain_text = plain(&text);
            prop_assert!(!plain_text.contains('\r'));
            prop_assert_eq!(plain(&plain_text), plain_text.as_str());
            let shown = visible_line(&text);
            prop_assert!(!shown.chars().any(is_shapeless));
            prop_assert_eq!(visible_line(&shown), shown.as_str());
        }
    }
}
