//! `${NAME}` and `${NAME:-default}`: finds references to variables in a text. Pure; who replaces them by what is
//! decided elsewhere (`task` for prompts, [`super::command`] for shell commands).

/// A stretch of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Means itself.
    Text(&'a str),
    /// `$${`, which stands for `${`.
    Escape,
    /// A reference.
    Reference {
        /// All of it, as written.
        raw: &'a str,
        /// The variable.
        name: &'a str,
        /// What stands for it when it is unset or empty.
        default: Option<&'a str>,
    },
    /// `${` and no reference after it: up to the closing brace, or to the end of the line.
    Malformed(&'a str),
}

/// Cuts a text into its pieces; together they are the whole text.
#[must_use]
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        if rest[..dollar].ends_with('$') {
            push_text(&mut found, &rest[..dollar - 1]);
            found.push(Piece::Escape);
            rest = &rest[dollar + 2..];
            continue;
        }
        push_text(&mut found, &rest[..dollar]);
        let (piece, length) = reference(&rest[dollar..]);
        found.push(piece);
        rest = &rest[dollar + length..];
    }
    push_text(&mut found, rest);
    found
}

fn push_text<'a>(found: &mut Vec<Piece<'a>>, text: &'a str) {
    if !text.is_empty() {
        found.push(Piece::Text(text));
    }
}

/// The piece at the start of a text that begins with `${`, and its length.
fn reference(text: &str) -> (Piece<'_>, usize) {
    let inside = &text[2..];
    let end = inside.find(['}', '\n']).unwrap_or(inside.len());
    if !inside[end..].starts_with('}') {
        return (Piece::Malformed(&text[..2 + end]), 2 + end);
    }
    let raw = &text[..end + 3];
    let body = &inside[..end];
    let (name, default) = match body.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (body, None),
    };
    let piece = if is_name(name) {
        Piece::Reference { raw, name, default }
    } else {
        Piece::Malformed(raw)
    };
    (piece, raw.len())
}

/// Whether a variable can have this name.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_defaults_escapes_and_what_is_neither() {
        assert_eq!(
            pieces("a ${B} $${C} ${D:-e f} ${g%h} $i ${j"),
            [
                Piece::Text("a "),
                Piece::Reference {
                    raw: "${B}",
                    name: "B",
                    default: None
                },
                Piece::Text(" "),
                Piece::Escape,
                Piece::Text("C} "),
                Piece::Reference {
                    raw: "${D:-e f}",
                    name: "D",
                    default: Some("e f")
                },
                Piece::Text(" "),
                Piece::Malformed("${g%h}"),
                Piece::Text(" $i "),
                Piece::Malformed("${j"),
            ]
        );
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_whole_text(text in r"[$\{\}a:\-\né ]{0,40}") {
            let whole: String = pieces(&text)
                .into_iter()
                .map(|piece| match piece {
                    Piece::Text(text) | Piece::Malformed(text) => text.to_owned(),
                    Piece::Escape => "$${".to_owned(),
                    Piece::Reference { raw, .. } => raw.to_owned(),
                })
                .collect();
            prop_assert_eq!(whole, text);
        }
    }
}
