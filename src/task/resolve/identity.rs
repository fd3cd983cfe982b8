//! Name and tags: by these a task is known in reports, in directories and on the command line.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::super::diagnostic::quoted;
use super::{Context, Findings};
use crate::report::{files, run_dir};

/// The longest name; it is a directory's name too.
const LONGEST_NAME: usize = 100;
/// Names of files in the run directory, beside which a task's directory lies.
const RESERVED: [&str; 11] = [
    run_dir::PLAN,
    run_dir::LOCK,
    run_dir::BATCH,
    run_dir::BASELINE,
    files::JUNIT,
    files::JSON,
    files::MARKDOWN,
    files::COMMENT,
    files::HTML,
    files::CODE_QUALITY,
    "agent-batch-results",
];
/// The largest file that a task file names, in bytes, as far as it counts for what a task is.
const LARGEST_NAMED: u64 = 16 * 1024 * 1024;

/// The name of a task: what its file says, or is called, and behind it what its matrix adds.
pub(in super::super) fn full_name(name: Option<&str>, file: &str, suffix: &str) -> String {
    let name = name.map_or_else(|| name_of_stem(file), str::to_owned);
    name + suffix
}

pub(super) fn name(cx: &Context<'_>, findings: &mut Findings) -> String {
    let suffix = &cx.combination.suffix;
    let file = &cx.layer.document.file;
    let full = full_name(cx.spec.name.as_deref(), file, suffix);
    let origin = match &cx.spec.name {
        Some(_) => cx.layer.origin(&["name"]),
        None => cx.whole(),
    };
    if let Some(name) = &cx.spec.name
        && !is_name(name)
    {
        let message = format!("the name {} does not fit", quoted(name));
        let fitting = name_of_stem(name);
        let hint = format!(
            "names are up to {LONGEST_NAME} letters `a-z`, digits, `.`, `_` and `-`, and begin with a letter or digit; `{fitting}` would do"
        );
        findings.error(&origin, message, Some(&hint));
    } else if full.len() > LONGEST_NAME {
        let message = format!(
            "with the values of the matrix, the name {} is longer than {LONGEST_NAME} characters",
            quoted(&full)
        );
        findings.error(&origin, message, Some("give the task a shorter `name`"));
    } else if RESERVED.contains(&full.as_str()) {
        let (message, hint) = if cx.spec.name.is_some() {
            ("is that of a file in the run directory", None)
        } else {
            let hint = "it comes from the file's name: give the task a `name`";
            ("is reserved", Some(hint))
        };
        findings.error(
            &origin,
            format!("the name {} {message}", quoted(&full)),
            hint,
        );
    }
    full
}

fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.ends_with('.')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
}

/// A file's name without directories and extension, made fit to be a task's name.
pub(in super::super) fn name_of_stem(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or_default();
    let stem = name
        .strip_suffix(".yaml")
        .or_else(|| name.strip_suffix(".yml"))
        .unwrap_or(name);
    let mut fitting = String::new();
    for c in stem.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-') {
            fitting.push(c);
        } else if !fitting.ends_with('-') {
            fitting.push('-');
        }
    }
    fitting.truncate(LONGEST_NAME);
    let fitting = fitting.trim_matches(['-', '.']);
    if fitting.is_empty() {
        "task".to_owned()
    } else {
        fitting.to_owned()
    }
}

pub(super) fn tags(cx: &Context<'_>, findings: &mut Findings) -> Vec<String> {
    let origin = cx.layer.origin(&["tags"]);
    for (index, tag) in cx.spec.tags.iter().enumerate() {
        let fits = !tag.is_empty()
            && tag.len() <= LONGEST_NAME
            && tag
                .chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/'));
        if !fits {
            let message = format!("the tag {} does not fit", quoted(tag));
            let hint = "tags are letters, digits, `.`, `_`, `-`, `:` and `/`";
            findings.error(&origin.index(index), message, Some(hint));
        }
    }
    cx.spec.tags.clone()
}

/// What a task is made from, with the files that its own file names: `own` if it names none. A file that cannot be read
/// counts as one without content; it is an error elsewhere.
pub(super) fn definition<'a>(own: &str, files: impl Iterator<Item = &'a Path>) -> String {
    let mut hasher = None;
    for path in files {
        let content = crate::file::read(path, LARGEST_NAMED).unwrap_or_default();
        // Line ends of text do not count: a checkout may change them.
        let content = match String::from_utf8(content) {
            Ok(text) => text.replace("\r\n", "\n").into_bytes(),
            Err(other) => other.into_bytes(),
        };
        let hasher = hasher.get_or_insert_with(|| Sha256::new().chain_update(own));
        hasher.update(Sha256::digest(content));
    }
    hasher.map_or_else(
        || own.to_owned(),
        |hasher| crate::text::hex(&hasher.finalize()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_s_name_is_made_fit() {
        for (file, name) in [
            ("tasks/fix-clippy.yaml", "fix-clippy"),
            ("Fix Clippy!.yml", "fix-clippy"),
            ("tasks/.yaml", "task"),
            ("v1.2.yaml", "v1.2"),
            ("Übung.yaml", "bung"),
        ] {
            assert_eq!(name_of_stem(file), name);
        }
    }

    proptest! {
        #[test]
        fn every_file_s_name_makes_a_name_that_fits(file in r"\PC{0,150}") {
            prop_assert!(is_name(&name_of_stem(&file)), "{}", name_of_stem(&file));
        }
    }
}
