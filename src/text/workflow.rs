//! Lines for the log of a CI system that obeys lines.
//!
//! A GitHub runner reads what a step prints, on stdout and stderr alike: a line that begins with
//! `::` (after blanks) is a command, and so is `##[command]` anywhere in a line; Azure Pipelines
//! obeys `##vso[`. [`inert`] breaks both with a zero-width space. [`data`] and [`property`] are the
//! escapes for the commands that we write ourselves.

/// Breaks what a runner would obey. Idempotent, and a text without commands stays as it is.
///
/// A line begins at the start, and after a line feed, a carriage return or any other character
/// that somebody may take for a line's end.
#[must_use]
pub fn inert(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut line_begins = true;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if line_begins && rest.starts_with("::") {
            out.push_str(":\u{200b}");
        } else if rest.starts_with("##") && opens_old_command(rest) {
            out.push_str("#\u{200b}");
        } else {
            out.push(c);
        }
        // Blanks and what has no shape may be trimmed by the reader before it looks for `::`. A zero-width
        // space is what we insert ourselves, so it counts as text here.
        line_begins = matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        ) || (line_begins
            && c != '\u{200b}'
            && (c.is_whitespace() || super::terminal::is_shapeless(c)));
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// `##[` and `##vso[`: the old form, with any word before the bracket.
fn opens_old_command(text: &str) -> bool {
    text.trim_start_matches('#')
        .trim_start_matches(|c: char| c.is_ascii_alphanumeric())
        .starts_with('[')
}

/// One line that shows everything and commands nothing: [`visible_line`](super::visible_line),
/// then [`inert`].
#[must_use]
pub fn inert_line(text: &str) -> String {
    inert(&super::terminal::visible_line(text))
}

/// Escapes the message of a workflow command.
#[must_use]
pub fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property's value of a workflow command.
#[must_use]
pub fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a runner does with a log: true when it would find a command.
    fn obeys(log: &str) -> bool {
        log.split(['\n', '\r']).any(|line| {
            line.trim_start_matches(|c: char| c.is_whitespace() || c.is_control())
                .starts_with("::")
                || line.contains("##[")
                || line.contains("##vso[")
        })
    }

    #[test]
    fn commands_are_broken_wherever_a_runner_looks_for_them() {
        for raw in [
            "::error::x",
            " \t::set-output name=a::b",
            "ok\n::add-mask::x",
            "progress\r::stop-commands::t",
            "text ##[set-env name=A]b",
            "###[group]",
            "##vso[task.setvariable]x",
            "\u{feff}::warning::x",
            "\u{b}::error::",
        ] {
            assert!(obeys(raw) || raw.starts_with('\u{feff}'), "{raw:?}");
            assert!(!obeys(&inert(raw)), "{raw:?}");
        }
        assert_eq!(inert("::error::x"), ":\u{200b}:error::x");
        assert_eq!(inert("std::io and ## [x]"), "std::io and ## [x]");
    }

    #[test]
    fn our_own_commands_hold_foreign_text_on_one_line() {
        assert_eq!(data("100%\r\na:b"), "100%25%0D%0Aa:b");
        assert_eq!(property("a:b,c\n"), "a%3Ab%2Cc%0A");
    }

    proptest! {
        #[test]
        fn nothing_is_obeyed_and_the_break_is_idempotent(text in "(:|::|#|##|\\[|vso| |\n|\r|\t|a|\u{feff}|\u{200b}|\u{85}){0,24}") {
            let once = inert(&text);
            prop_assert!(!obeys(&once), "{:?}", once);
            prop_assert_eq!(inert(&once), once.as_str());
            let line = inert_line(&text);
            prop_assert!(!obeys(&line) && !line.contains('\n'));
        }
    }
}
