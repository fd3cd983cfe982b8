//! Names for files and directories.
//!
//! A name has to be good on every file system and in the artifact store of GitHub, which refuses
//! `" : < > | * ?` and line ends, and leaves hidden files out.

use sha2::{Digest as _, Sha256};

/// The longest name that is made, in bytes.
pub const MAX: usize = 120;

/// A safe name for `text`: `[a-z0-9._-]`, neither hidden nor reserved, at most [`MAX`] bytes.
///
/// A name that is safe already stays as it is. Any other gets eight hex digits of its hash at the
/// end, so that two texts do not meet in one name.
#[must_use]
pub fn file_name(text: &str) -> String {
    if is_safe(text) {
        return text.to_owned();
    }
    let digest = Sha256::digest(text.as_bytes());
    let hash = super::hex(&digest[..4]);
    let readable: String = text
        .chars()
        .take(MAX - 1 - hash.len())
        .map(|c| c.to_ascii_lowercase())
        .map(|c| if is_safe_character(c) { c } else { '_' })
        .collect();
    let readable = readable.trim_start_matches(['.', '-']);
    // The prefix keeps a reserved name (`con`) from standing alone before its extension.
    let readable = if is_reserved(readable) || readable.is_empty() {
        format!("_{}", readable.replace('.', "_"))
    } else {
        readable.to_owned()
    };
    format!("{readable}-{hash}")
}

fn is_safe_character(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-')
}

fn is_safe(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX
        && text.chars().all(is_safe_character)
        && !text.starts_with(['.', '-'])
        && !text.ends_with('.')
        && !is_reserved(text)
}

/// Names that Windows keeps for devices, with any extension.
fn is_reserved(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default();
    matches!(stem, "con" | "prn" | "aux" | "nul")
        || (stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_safe_name_stays_and_any_other_is_told_apart() {
        assert_eq!(file_name("fix-clippy.v2"), "fix-clippy.v2");
        let names = [
            "a/b", "a:b", "a?b", "A_b", "", "..", "../x", "con", "nul.txt", ".hidden", "a.", "ä",
        ];
        let made: std::collections::BTreeSet<String> = names.map(file_name).into();
        assert_eq!(made.len(), names.len(), "{made:?}");
    }

    proptest! {
        #[test]
        fn every_name_is_safe_and_made_once(text in "(\\PC|/|\\.|\n|\0|[a-zA-Z]){0,200}") {
            let name = file_name(&text);
            prop_assert!(is_safe(&name), "{:?}", name);
            prop_assert_eq!(file_name(&name), name.as_str());
        }
    }
}
