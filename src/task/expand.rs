//! `${NAME}` in a task file: replaced in the tree, before anything is decoded, by values of the environment that the
//! caller hands in. A value is text, whatever it looks like: it never becomes YAML.

use std::collections::BTreeMap;

use super::tree::{Path, Problem, Step, Tree};
use crate::check::reference::{Piece, pieces};

/// The keys of a task in which references are replaced.
const TASK_KEYS: [&str; 5] = ["model", "system", "prompt", "turns", "checks"];

/// Replaces the references under `at` (a task's map). A place with an unset variable is taken out of the tree.
pub(super) fn expand(
    tree: &mut Tree,
    at: &Path,
    environment: &BTreeMap<String, String>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for key in TASK_KEYS {
        let path = at.key(key);
        if let Some(value) = tree.get_mut(&path) {
            expand_value(value, &path, environment, &mut problems);
        }
    }
    problems
}

fn expand_value(
    tree: &mut Tree,
    path: &Path,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) {
    match tree {
        Tree::Text(text) => match expand_text(text, environment) {
            Ok(expanded) => *text = expanded,
            Err((message, hint)) => {
                problems.push(Problem::value(path.clone(), message).hint(hint));
                *tree = Tree::Removed;
            }
        },
        Tree::List(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                expand_value(element, &path.index(index), environment, problems);
            }
        }
        Tree::Map(entries) => {
            for (key, value) in entries {
                // The shell replaces its own references: a value pasted into a command would become code.
                let is_shell = key == "run" && path.0.last() == Some(&Step::Key("command".into()));
                if !is_shell {
                    expand_value(value, &path.key(key), environment, problems);
                }
            }
        }
        Tree::Null
        | Tree::Bool(_)
        | Tree::Unsigned(_)
        | Tree::Negative(_)
        | Tree::Float(_)
        | Tree::Removed => {}
    }
}

/// The text with its references replaced, or the first that cannot be, with advice.
fn expand_text(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<String, (String, String)> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Escape => out.push_str("${"),
            Piece::Malformed(raw) => {
                return Err((
                    format!("{} refers to no variable", super::diagnostic::quoted(raw)),
                    "write `${NAME}` or `${NAME:-default}`, or `$${` for a `${` that means itself"
                        .into(),
                ));
            }
            Piece::Reference { name, .. } if is_secret_name(name) => {
                return Err((
                    format!("`{name}` looks like a secret, and would be sent to the model"),
                    "a check's `command` may use it; otherwise give the value another name".into(),
                ));
            }
            Piece::Reference { name, default, .. } => {
                // As in a shell, the default also stands for what is set and empty.
                let value = environment.get(name).map(String::as_str);
                match (value, default) {
                    (Some(value), None) => out.push_str(value),
                    (Some(value), Some(_)) if !value.is_empty() => out.push_str(value),
                    (_, Some(default)) => out.push_str(default),
                    (None, None) => {
                        return Err((
                            format!("the environment variable `{name}` is not set"),
                            format!("set it, or write `${{{name}:-default}}`"),
                        ));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Whether a variable's name says that its value is a secret: what is written into a prompt leaves the machine.
fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 7] = [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "CREDENTIAL",
        "CREDENTIALS",
    ];
    name.to_ascii_uppercase()
        .split('_')
        .any(|part| WORDS.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> BTreeMap<String, String> {
        [("A", "x: [1]"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn values_defaults_and_escapes() {
        let expand = |text| expand_text(text, &environment());
        assert_eq!(expand("<${A}>").unwrap(), "<x: [1]>");
        assert_eq!(expand("${EMPTY}|${EMPTY:-d}|${NO:-}").unwrap(), "|d|");
        assert_eq!(expand("$${A} $A").unwrap(), "${A} $A");
        assert!(expand("${NO}").unwrap_err().0.contains("`NO` is not set"));
        assert!(expand("${A%x}").is_err());
    }

    #[test]
    fn a_secret_is_not_written_into_a_prompt() {
        let environment = BTreeMap::from([("API_KEY".to_owned(), "k".to_owned())]);
        for text in ["${API_KEY}", "${github_token:-}", "${X_PASSWORD}"] {
            let (message, _) = expand_text(text, &environment).unwrap_err();
            assert!(message.contains("secret"), "{text}: {message}");
        }
        assert_eq!(
            expand_text("${MAX_TOKENS:-5}${MONKEY:-}", &environment).unwrap(),
            "5"
        );
    }

    #[test]
    fn a_value_is_not_expanded_again() {
        let environment = BTreeMap::from([("A".to_owned(), "${B}".to_owned())]);
        assert_eq!(expand_text("${A}", &environment).unwrap(), "${B}");
    }

    #[test]
    fn shell_commands_and_names_are_left_alone() {
        let text = "name: ${A}\nprompt: ${A}\nchecks: [{command: {run: '${A}'}}, {reply: {contains: '${A}'}}]\n";
        let (mut tree, _) = Tree::parse(text).unwrap();
        assert_eq!(expand(&mut tree, &Path::root(), &environment()), []);
        let at = |path: &Path| tree.get(path).cloned().unwrap();
        let checks = Path::root().key("checks");
        assert_eq!(at(&Path::root().key("name")), Tree::Text("${A}".into()));
        assert_eq!(at(&Path::root().key("prompt")), Tree::Text("x: [1]".into()));
        assert_eq!(
            at(&checks.index(0).key("command").key("run")),
            Tree::Text("${A}".into())
        );
        assert_eq!(
            at(&checks.index(1).key("reply").key("contains")),
            Tree::Text("x: [1]".into())
        );
    }
}
