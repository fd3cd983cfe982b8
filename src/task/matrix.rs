//! `matrix:` makes a task of every combination of its values: `{{ matrix.NAME }}` stands for a value in the texts of the
//! task, and the values become part of the task's name.
//!
//! The text is replaced in the tree, before `${NAME}` and before anything is decoded; a value never becomes YAML. Only
//! `{{ matrix.` is ours: other `{{ … }}` is text, and so is `${{ matrix.x }}`, which is GitHub's.

use std::collections::BTreeSet;
use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::diagnostic::quoted;
use super::matrix_spec::MatrixSpec;
use super::suggest::{nearest, one_of};
use super::tree::{Path, Problem, Tree};

/// The most combinations of one task.
pub(super) const MOST: usize = 256;
/// The longest part of a name that a value makes, in bytes.
const LONGEST_PART: usize = 40;
/// The keys of a task in whose texts values are put.
const KEYS: [&str; 11] = [
    "description",
    "tags",
    "model",
    "system",
    "prompt",
    "turns",
    "permissions",
    "workspace",
    "checks",
    "hooks",
    "group",
];

/// One value for every axis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Combination {
    /// Axis and value, in the file's order.
    pub(super) values: Vec<(String, String)>,
    /// What is put behind the task's name; begins with a dot, or is empty without a matrix.
    pub(super) suffix: String,
}

/// The combinations of a task, in the order of the file, the last axis fastest; a single empty one without a matrix.
/// `None` when the matrix is wrong.
pub(super) fn combinations(
    tree: &Tree,
    spec: Option<&MatrixSpec>,
) -> (Option<Vec<Combination>>, Vec<Problem>) {
    let Some(spec) = spec else {
        let lost = matches!(tree.get(&root()), Some(Tree::Removed));
        return ((!lost).then(|| vec![Combination::default()]), Vec::new());
    };
    let problems = problems(spec);
    if !problems.is_empty() {
        return (None, problems);
    }
    let mut all = vec![Combination::default()];
    for (axis, values) in &spec.0 {
        all = all
            .iter()
            .flat_map(|so_far| values.iter().map(move |value| so_far.with(axis, value)))
            .collect();
    }
    (Some(all), problems)
}

fn root() -> Path {
    Path::root().key("matrix")
}

fn problems(spec: &MatrixSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if spec.0.is_empty() {
        problems.push(
            Problem::value(root(), "the matrix has no axis")
                .hint("write `matrix: { name: [value, value] }`"),
        );
    }
    let mut count = 1_usize;
    for (axis, values) in &spec.0 {
        let path = root().key(axis);
        if !is_axis(axis) {
            let message = format!("the axis {} does not fit", quoted(axis));
            let hint = "axes are letters, digits, `_` and `-`, and begin with a letter";
            problems.push(Problem::key(path.clone(), message).hint(hint));
        }
        if values.is_empty() {
            problems.push(Problem::value(
                path.clone(),
                "the axis has no value, so there is no task",
            ));
        }
        let mut parts = BTreeSet::new();
        for (index, value) in values.iter().enumerate() {
            if !parts.insert(part(value)) {
                let message = format!(
                    "another value of the axis makes the same name as {}",
                    quoted(value)
                );
                let hint = "values become part of the task's name: `a-z`, digits, `.`, `_` and `-` of them";
                problems.push(Problem::value(path.index(index), message).hint(hint));
            }
        }
        count = count.saturating_mul(values.len().max(1));
    }
    if count > MOST {
        let message = format!(
            "the matrix has {count} combinations, more than the {MOST} that a task may have"
        );
        problems.push(Problem::key(root(), message));
    }
    problems
}

fn is_axis(name: &str) -> bool {
    name.len() <= 50
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// What a value adds to a name. Other characters than those of names become `-`; a value without any, and a long one, is
/// told by its hash. The same value gives the same part, whatever the others are.
fn part(value: &str) -> String {
    let mut fitting = String::new();
    for c in value.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-') {
            fitting.push(c);
        } else if !fitting.ends_with('-') {
            fitting.push('-');
        }
    }
    let mut fitting = fitting.trim_matches(['-', '.']).to_owned();
    if fitting.is_empty() || fitting.len() > LONGEST_PART {
        let mut hash = crate::text::hex(&Sha256::digest(value));
        hash.truncate(8);
        fitting.truncate(LONGEST_PART - 1 - hash.len());
        fitting = if fitting.is_empty() {
            hash
        } else {
            format!("{fitting}-{hash}")
        };
    }
    fitting
}

impl Combination {
    fn with(&self, axis: &str, value: &str) -> Self {
        let mut values = self.values.clone();
        values.push((axis.to_owned(), value.to_owned()));
        Self {
            values,
            suffix: format!("{}.{}", self.suffix, part(value)),
        }
    }

    fn value(&self, axis: &str) -> Option<&str> {
        let found = self.values.iter().find(|(name, _)| name == axis);
        found.map(|(_, value)| value.as_str())
    }
}

/// What putting values into a tree came to.
#[derive(Debug, Default)]
pub(super) struct Substituted {
    /// References that mean nothing.
    pub(super) problems: Vec<Problem>,
    /// The axes that were used.
    pub(super) used: BTreeSet<String>,
}

/// Puts the values of a combination into the texts of a task. A place with a reference that means nothing is taken out of
/// the tree.
pub(super) fn substitute(tree: &mut Tree, combination: &Combination) -> Substituted {
    let mut done = Substituted::default();
    let Tree::Map(entries) = tree else {
        return done;
    };
    for (key, value) in entries.iter_mut().filter(|(key, _)| key != "matrix") {
        let here = if KEYS.contains(&key.as_str()) {
            Some(combination)
        } else {
            None
        };
        visit(value, &Path::root().key(key), here, &mut done);
    }
    done
}

/// `combination` is none where values are not put.
fn visit(tree: &mut Tree, path: &Path, combination: Option<&Combination>, done: &mut Substituted) {
    match tree {
        Tree::Text(text) => match replace(text, combination, &mut done.used) {
            Ok(replaced) => *text = replaced,
            Err((message, hint)) => {
                done.problems
                    .push(Problem::value(path.clone(), message).hint(hint));
                *tree = Tree::Removed;
            }
        },
        Tree::List(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                visit(element, &path.index(index), combination, done);
            }
        }
        Tree::Map(entries) => {
            for (key, value) in entries {
                visit(value, &path.key(key), combination, done);
            }
        }
        _ => {}
    }
}

fn replace(
    text: &str,
    combination: Option<&Combination>,
    used: &mut BTreeSet<String>,
) -> Result<String, (String, String)> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((span, inside)) = next_reference(rest) {
        let raw = quoted(&rest[span.clone()]);
        let Some(combination) = combination else {
            let hint = format!("values are put into the texts under {}", one_of(&KEYS));
            return Err((
                format!("{raw} stands where no value of a matrix is put"),
                hint,
            ));
        };
        let axis = inside.ok_or_else(|| {
            let hint = "write `{{ matrix.NAME }}`, with the name of an axis";
            (format!("{raw} refers to no axis"), hint.to_owned())
        })?;
        let value = combination
            .value(axis)
            .ok_or_else(|| unknown(axis, combination))?;
        out.push_str(&rest[..span.start]);
        out.push_str(value);
        used.insert(axis.to_owned());
        rest = &rest[span.end..];
    }
    out.push_str(rest);
    Ok(out)
}

fn unknown(axis: &str, combination: &Combination) -> (String, String) {
    let known: Vec<&str> = combination
        .values
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let message = format!("the matrix has no axis {}", quoted(axis));
    let hint = match nearest(axis, &known) {
        Some(meant) => format!("did you mean `{{{{ matrix.{meant} }}}}`?"),
        None if known.is_empty() => format!("write `matrix: {{ {axis}: [value, value] }}`"),
        None => format!("its axes are {}", one_of(&known)),
    };
    (message, hint)
}

/// The next `{{ matrix.NAME }}` and the name in it; `None` in place of the name when it is malformed.
fn next_reference(text: &str) -> Option<(Range<usize>, Option<&str>)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find("{{")?;
        from = start + 2;
        let inside = text[from..].trim_start_matches([' ', '\t']);
        let is_ours = inside
            .strip_prefix("matrix")
            .is_some_and(|behind| behind.starts_with(['.', ' ', '}', '[', '|']));
        if !is_ours || text[..start].ends_with('$') {
            continue;
        }
        let Some(length) = inside.find("}}") else {
            let line = text[start..].lines().next().unwrap_or_default().len();
            return Some((start..start + line.max(2), None));
        };
        let end = text.len() - inside.len() + length + 2;
        let name = inside[..length].trim().strip_prefix("matrix.");
        return Some((start..end, name.filter(|name| is_axis(name))));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn combination() -> Combination {
        Combination::default()
            .with("crate", "parser")
            .with("Opt-1", "{{ matrix.crate }} ${X}")
    }

    fn replaced(text: &str) -> Result<String, String> {
        replace(text, Some(&combination()), &mut BTreeSet::new())
            .map_err(|(message, hint)| format!("{message}; {hint}"))
    }

    #[test]
    fn a_reference_becomes_the_value_once_and_everything_else_is_text() {
        assert_eq!(
            replaced("in {{matrix.crate}}/{{  matrix.crate }}!").unwrap(),
            "in parser/parser!"
        );
        assert_eq!(
            replaced("{{ matrix.Opt-1 }}").unwrap(),
            "{{ matrix.crate }} ${X}"
        );
        for text in [
            "{{ other.x }}",
            "${{ matrix.crate }}",
            "{{",
            "{{ matrixes }}",
            "}} { { matrix.crate }}",
        ] {
            assert_eq!(replaced(text).unwrap(), text);
        }
    }

    #[test]
    fn a_reference_that_means_nothing_is_told_with_what_is_there() {
        let error = |text| replaced(text).unwrap_err();
        assert!(
            error("{{ matrix.crat }}").contains("did you mean `{{ matrix.crate }}`?"),
            "{}",
            error("{{ matrix.crat }}")
        );
        assert!(error("{{ matrix.zebra }}").contains("its axes are `crate` or `Opt-1`"));
        for text in [
            "{{ matrix }}",
            "{{ matrix.crate | upper }}",
            "{{ matrix.crate",
            "{{ matrix['crate'] }}",
        ] {
            assert!(error(text).contains("refers to no axis"), "{text}");
        }
    }

    #[test]
    fn parts_of_names_are_stable_and_fit() {
        for (value, expected) in [
            ("parser", "parser"),
            ("1.80", "1.80"),
            ("anthropic/claude-x", "anthropic-claude-x"),
            ("A B", "a-b"),
        ] {
            assert_eq!(part(value), expected);
        }
        assert_eq!(part("日本").len(), 8);
        assert_eq!(part(&"x".repeat(500)).len(), LONGEST_PART);
        assert_ne!(part(&"x".repeat(500)), part(&"x".repeat(501)));
    }

    proptest! {
        #[test]
        fn every_value_makes_a_part_that_fits(value in r"\PC{0,80}") {
            let part = part(&value);
            prop_assert!(!part.is_empty() && part.len() <= LONGEST_PART, "{part}");
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
            prop_assert!(part.chars().all(fits) && !part.ends_with('.'), "{part}");
        }

        #[test]
        fn no_text_panics(text in r"(\{\{|\}\}|matrix|\.|crate| |\$|é|\PC){0,20}") {
            let _ = replaced(&text);
        }
    }
}
