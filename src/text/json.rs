//! JSON on a terminal or in the log of a CI system.
//!
//! Foreign text in JSON cannot be changed to make it harmless, a program reads it; but JSON has escapes of its own. What has
//! no shape, and what a runner would obey, is written as one: the value stays what it was.

use std::fmt::Write as _;

use super::terminal;

/// The same JSON document, in which nothing acts. Expects what a serializer wrote, without line breaks between tokens, so that
/// a character which is not ASCII and a `#` can only stand in a string.
#[must_use]
pub fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut before = ' ';
    for c in json.chars() {
        // `##[command]` is obeyed anywhere in a line. A line that begins with `::` is not JSON.
        if (c == '#' && before == '#') || (c > '\u{7e}' && terminal::is_shapeless(c)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_reader_gets_what_was_said_and_a_terminal_gets_nothing() {
        let said = json!({"a": "###[group]x\u{202e}\u{9b}31m\u{e0041}\u{7f}\u{1b}é😀\\##"});
        let text = inert(&said.to_string());
        assert!(!text.contains("##") && text.contains("é😀"), "{text}");
        assert!(!text.chars().any(terminal::is_shapeless), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), said);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(said in "(\\PC|[\\x00-\\x1f]|#|\\\\|\"|\u{202e}|\u{fffe}){0,40}") {
            let text = inert(&json!(said).to_string());
            prop_assert!(!text.chars().any(terminal::is_shapeless));
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!(said));
        }
    }
}
