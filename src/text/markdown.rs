//! Foreign text on a Markdown page: only ever as code.
//!
//! Backslashes are not enough. A mention or an issue number is looked for in the page that was
//! rendered already, where the backslash is gone; inside code nobody looks. So a block goes into a
//! fence that is longer than any run of backticks in it, and a line goes into a code span of the
//! same kind.

use super::terminal;

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A fenced code block, with a line feed at its end. Controls are shown as escapes.
#[must_use]
pub fn fence(text: &str) -> String {
    let shown = terminal::visible(&terminal::plain(text));
    let mark = "`".repeat(longest_run(&shown).max(2) + 1);
    let body = shown.trim_end_matches('\n');
    format!("{mark}text\n{body}\n{mark}\n")
}

/// A code span on one line; nothing for an empty text. Pipes are escaped, so that it can stand in a table.
#[must_use]
pub fn code(text: &str) -> String {
    let shown = terminal::visible_line(&terminal::plain(text)).replace('|', "\\|");
    if shown.trim().is_empty() {
        return String::new();
    }
    let mark = "`".repeat(longest_run(&shown) + 1);
    // A blank on both sides is taken away by the reader; it keeps a backtick of the text from the mark.
    if shown.starts_with(['`', ' ']) || shown.ends_with(['`', ' ']) {
        format!("{mark} {shown} {mark}")
    } else {
        format!("{mark}{shown}{mark}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fence("a"), "```text\na\n```\n");
        assert_eq!(
            fence("```\n<script>\n````\n"),
            "`````text\n```\n<script>\n````\n`````\n"
        );
    }

    #[test]
    fn a_line_is_code_whatever_it_says() {
        assert_eq!(code("fixes #1 @root <b>"), "`fixes #1 @root <b>`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("a|b\nc"), "`a\\|b\\nc`");
        assert_eq!(code(" \n"), "`  \\n `");
        assert_eq!(code("  "), "");
    }

    proptest! {
        #[test]
        fn no_run_inside_is_as_long_as_the_mark(text in "(`|``|a| |\n|\\|){0,30}") {
            let block = fence(&text);
            let mark = block.split("text\n").next().unwrap().len();
            let inside = &block[mark + 5..block.len() - mark - 1];
            prop_assert!(longest_run(inside) < mark);
            let span = code(&text);
            if !span.is_empty() {
                prop_assert!(!span.contains('\n'));
                let mark = span.len() - span.trim_start_matches('`').len();
                let inside = &span[mark..span.len() - mark];
                prop_assert!(longest_run(inside) < mark);
            }
        }
    }
}
