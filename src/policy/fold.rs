//! One form for all the ways in which a name can be written that some file system, editor or eye takes for the same.
//!
//! Deny rules and protected names are compared after folding, so that `.GIT`, `.git.` or a full-width `.git` are no
//! way around them. Allow rules never fold: there, two spellings are two files.

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

/// Whether a character is invisible or has no agreed meaning: format, line and paragraph separators, private use.
pub(super) fn is_invisible(c: char) -> bool {
    !c.is_ascii()
        && matches!(
            c.general_category(),
            GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
                | GeneralCategory::PrivateUse
        )
}

/// The folded form of one path component: format characters dropped, NFKC, case folded, trailing dots and blanks cut,
/// a dotless `i` taken for an `i`.
pub(super) fn component(text: &str) -> String {
    if text.is_ascii() {
        return text
            .to_ascii_lowercase()
            .trim_end_matches(['.', ' ', '\t'])
            .to_owned();
    }
    let folded: String = characters(text);
    folded
        .trim_end_matches(|c: char| c == '.' || c.is_whitespace())
        .to_owned()
}

/// Whether a component folds to a name that is written folded, in ASCII. Most do not, and are told without a copy.
pub(super) fn is(text: &str, name: &str) -> bool {
    if text.is_ascii() {
        return text
            .trim_end_matches(['.', ' ', '\t'])
            .eq_ignore_ascii_case(name);
    }
    component(text) == name
}

/// As [`component`], without cutting the end: for the literal parts of patterns.
pub(super) fn characters(text: &str) -> String {
    text.chars()
        .filter(|c| c.general_category() != GeneralCategory::Format)
        .nfkc()
        .flat_map(char::to_lowercase)
        .nfkc()
        .filter(|&c| c != '\u{307}') // what `İ` leaves behind in lower case
        .map(|c| match c {
            'ı' => 'i',
            'ς' => 'σ',
            other => other,
        })
        .collect::<String>()
        .replace('ß', "ss")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_of_git_fold_to_git() {
        for spelling in [
            ".GIT",
            ".git.",
            ".git ",
            ".g\u{200c}it",
            ".gıt",
            "．ｇｉｔ",
            ".gİt",
        ] {
            assert_eq!(component(spelling), ".git", "{spelling:?}");
            assert!(is(spelling, ".git"), "{spelling:?}");
        }
    }

    #[test]
    fn another_name_stays_another_name() {
        assert_eq!(component(".gitignore"), ".gitignore");
        assert_eq!(component("a.b"), "a.b");
    }
}
