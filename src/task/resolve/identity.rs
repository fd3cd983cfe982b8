//! Name and tags: by these a task is known in reports, in directories and on the command line.

use super::super::diagnostic::quoted;
use super::{Context, Findings};

/// The longest name; it is a directory's name too.
const LONGEST_NAME: usize = 100;
/// Names of files in the run directory, beside which a task's directory lies.
const RESERVED: [&str; 6] = [
    "run.json",
    "junit.xml",
    "summary.json",
    "summary.md",
    "report.html",
    "agent-batch-results",
];

pub(super) fn name(cx: &Context<'_>, findings: &mut Findings) -> String {
    let Some(name) = &cx.spec.name else {
        let name = name_of_stem(&cx.layer.document.file);
        if RESERVED.contains(&name.as_str()) {
            let message = format!(
                "the file's name makes the name {}, which is reserved",
                quoted(&name)
            );
            findings.error(&cx.whole(), message, Some("give the task a `name`"));
        }
        return name;
    };
    let origin = cx.layer.origin(&["name"]);
    let fitting = name_of_stem(name);
    if !is_name(name) {
        let message = format!("the name {} does not fit", quoted(name));
        let hint = format!(
            "names are up to {LONGEST_NAME} letters `a-z`, digits, `.`, `_` and `-`, and begin with a letter or digit; `{fitting}` would do"
        );
        findings.error(&origin, message, Some(&hint));
    } else if RESERVED.contains(&name.as_str()) {
        let message = format!(
            "the name {} is that of a file in the run directory",
            quoted(name)
        );
        findings.error(&origin, message, None);
    }
    name.clone()
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
