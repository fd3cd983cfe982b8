//! Text for an HTML page, and the addresses that may stand there.
//!
//! Nothing is escaped here: the template does that with everything that is spliced into it. What comes from here is bounded,
//! shows all that it holds, and has no character that an HTML parser replaces or that turns the reading direction around.

use std::fmt::Write as _;

use super::{clip, terminal};

/// A text of several lines: beginning and end of at most `max` bytes, without escape sequences. What has no shape is written
/// as an escape and may take up to four times its room.
#[must_use]
pub fn block(text: &str, max: usize) -> String {
    terminal::visible(&terminal::plain(&clip::ends(text, max)))
}

/// A text on one line: its beginning, of at most `max` bytes before what has no shape is written as an escape.
#[must_use]
pub fn line(text: &str, max: usize) -> String {
    terminal::visible_line(&terminal::plain(&clip::head(text, max)))
}

/// The address of a file that lies below the page, from its path with `/`.
///
/// `None` for a path that is empty or absolute, climbs, or has an empty part. Every byte that could mean something in an address is
/// percent-encoded, and the address begins with `./`, so that no name is ever a scheme or a host.
#[must_use]
pub fn address(path: &str) -> Option<String> {
    let mut address = String::from(".");
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return None;
        }
        address.push('/');
        for byte in part.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'~') {
                address.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    Some(address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_shows_what_it_holds_and_how_much_was_cut() {
        assert_eq!(
            block("\u{1b}[31ma\0\r\n\u{202e}b\tc", 100),
            "a\\x00\n\\u{202e}b\tc"
        );
        assert_eq!(line("a\nb", 100), "a\\nb");
        assert!(block(&"x".repeat(1_000_000), 100).contains("bytes cut]"));
    }

    #[test]
    fn an_address_stays_below_the_page() {
        assert_eq!(
            address("fix bug/1/a#b.txt").as_deref(),
            Some("./fix%20bug/1/a%23b.txt")
        );
        assert_eq!(
            address("javascript:alert(1)").as_deref(),
            Some("./javascript%3Aalert%281%29")
        );
        for path in ["", "/etc/passwd", "a/../b", "..", "a//b", "//host/x", "a/"] {
            assert_eq!(address(path), None, "{path}");
        }
        assert_eq!(address("..\\x").as_deref(), Some("./..%5Cx"));
    }

    proptest! {
        #[test]
        fn cleaned_text_is_bounded_and_inert(text in "(\\PC|[\\x00-\\x1f]|\u{202e}|\u{fffe}|\n){0,120}", max in 0_usize..300) {
            let acts = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&c);
            let shown = block(&text, max);
            prop_assert!(!shown.contains(acts) && shown.len() <= max * 4, "{:?}", shown);
            let shown = line(&text, max);
            prop_assert!(!shown.contains(|c| acts(c) || c == '\n') && shown.len() <= max * 4, "{:?}", shown);
        }

        #[test]
        fn an_address_has_no_meaning_but_its_path(path in "(\\PC|/|\\.|%|[a-z:?#\\\\]){0,40}") {
            if let Some(address) = address(&path) {
                prop_assert!(address.starts_with("./") && !address.contains("/../") && !address.ends_with("/.."));
                prop_assert!(address.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-~/%".contains(&b)));
            }
        }
    }
}
