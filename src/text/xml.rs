//! Text for an XML 1.0 document.
//!
//! XML has no escape for most control characters: a document that holds one, raw or as a character
//! reference, is not well-formed and a strict reader drops the whole report. So they are replaced.

use std::borrow::Cow;

use super::{clip, terminal};

/// Whether XML 1.0 allows the character in a document.
#[must_use]
pub fn is_legal(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}')
}

/// The text with every character that XML 1.0 forbids replaced by U+FFFD. Idempotent.
#[must_use]
pub fn xml_legal(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_legal) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| if is_legal(c) { c } else { '\u{fffd}' })
            .collect(),
    )
}

/// A text of several lines for an element's content: without escape sequences, with `\n` line ends
/// (a reader would make them so), legal, at most `max` bytes. Not yet escaped.
#[must_use]
pub fn content(text: &str, max: usize) -> String {
    let plain = terminal::plain(text);
    clip::ends(&xml_legal(&plain), max).into_owned()
}

/// A text of one line for an attribute's value: what has no shape is written as an escape, at most
/// `max` bytes. Not yet escaped.
#[must_use]
pub fn attribute(text: &str, max: usize) -> String {
    let line = terminal::visible_line(&terminal::plain(text));
    clip::head(&xml_legal(&line), max).into_owned()
}

/// The inside of a CDATA section, for a writer that puts `<![CDATA[` and `]]>` around it and looks
/// at nothing: an end mark inside the text is split over two sections.
#[must_use]
pub fn cdata(text: &str) -> String {
    text.replace("]]>", "]]]]><![CDATA[>")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_parser_takes_is_replaced_and_tabs_survive() {
        assert_eq!(
            xml_legal("a\0\u{1b}\u{fffe}\tb"),
            "a\u{fffd}\u{fffd}\u{fffd}\tb"
        );
        assert_eq!(content("\u{1b}[1ma\r\nb\u{b}", 100), "a\nb\u{fffd}");
        assert_eq!(attribute("a\nb", 100), "a\\nb");
    }

    #[test]
    fn the_end_of_a_section_cannot_be_said() {
        assert_eq!(cdata("a]]>b"), "a]]]]><![CDATA[>b");
    }

    proptest! {
        #[test]
        fn cleaned_text_is_legal_bounded_and_stays_as_it_is(text in "(\\PC|[\\x00-\\x1f]|\u{fffe}|\u{ffff}|\\]\\]>){0,120}", max in 0_usize..300) {
            let once = content(&text, max);
            prop_assert!(once.len() <= max && once.chars().all(is_legal));
            prop_assert_eq!(content(&once, max), once.as_str());
            prop_assert!(attribute(&text, max).chars().all(is_legal));
        }
    }
}
