//! `${NAME}` in a command: bash gets it as it stands, and the variable through the environment.

use std::collections::BTreeMap;

use super::super::Problem;
use super::super::reference::{Piece, pieces};

/// The script as bash gets it, and the variables that it refers to.
pub(super) fn with_variables(
    run: &str,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> (String, BTreeMap<String, String>) {
    let mut script = String::new();
    let mut variables = BTreeMap::new();
    for piece in pieces(run) {
        match piece {
            // Bash knows more forms than we do; those are its own affair.
            Piece::Text(text) | Piece::Malformed(text) => script.push_str(text),
            Piece::Escape => script.push_str("${"),
            Piece::Reference { raw, name, default } => {
                script.push_str(raw);
                if let Some(value) = environment.get(name) {
                    variables.insert(name.to_owned(), value.clone());
                } else if default.is_none() {
                    problems.push(Problem::field(
                        "run",
                        format!("the environment variable `{name}` is not set"),
                        Some(format!(
                            "set it, write `${{{name}:-default}}`, or `$${{{name}}}` where it is a variable of the script"
                        )),
                    ));
                }
            }
        }
    }
    (script, variables)
}
