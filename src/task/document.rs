//! A task file in memory: its text, its tree, and the way from a path in the tree to a diagnostic at a place.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::TaskFile;
use super::decode::decode;
use super::diagnostic::{Diagnostic, Place, Related};
use super::locate::{locate, second_document};
use super::source;
use super::suggest::nearest;
use super::tree::{Half, Path, Problem, Tree};

/// The most diagnostics of one file; each costs a parse of it.
const MOST_PROBLEMS: usize = 50;

/// A parsed file.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// As the command line named it.
    pub(super) file: String,
    text: Arc<str>,
    /// What is left of it after everything wrong was taken out.
    pub(super) tree: Tree,
    /// What was wrong in its form.
    problems: Vec<Problem>,
}

impl Document {
    /// Reads and parses a file. What is refused in it is kept for [`Document::finish`].
    pub(super) fn open(file: &TaskFile) -> Result<Self, Box<Diagnostic>> {
        let text = source::read(file)?;
        Self::parse(&file.display, text)
    }

    /// Parses a text that [`source`] let pass.
    pub(super) fn parse(file: &str, text: Arc<str>) -> Result<Self, Box<Diagnostic>> {
        let (tree, problems) =
            Tree::parse(&text).map_err(|error| Box::new(syntax_error(file, &text, &error)))?;
        if tree == Tree::Null {
            return Err(Box::new(
                Diagnostic::error(file, "the file is empty: it has comments only")
                    .with_hint("a task needs at least a `model` and a `prompt`"),
            ));
        }
        Ok(Self {
            file: file.to_owned(),
            text,
            tree,
            problems,
        })
    }

    /// Adds problems that a pass over the tree found.
    pub(super) fn report(&mut self, problems: Vec<Problem>) {
        self.problems.extend(problems);
    }

    /// Decodes the tree, and takes out of it what does not fit.
    pub(super) fn decode<T: DeserializeOwned>(&mut self) -> Option<T> {
        let (value, problems) = decode(&mut self.tree, MOST_PROBLEMS);
        self.problems.extend(problems);
        value
    }

    /// Decodes the value of one key of the root, and takes it out if anything in it does not fit.
    pub(super) fn decode_key<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let path = Path::root().key(key);
        let part = self.tree.get_mut(&path)?;
        let (value, problems) = decode(part, MOST_PROBLEMS);
        let value = value.filter(|_| problems.is_empty());
        if value.is_none() {
            *part = Tree::Removed;
        }
        self.problems
            .extend(problems.into_iter().map(|problem| Problem {
                path: Path(path.0.iter().chain(&problem.path.0).cloned().collect()),
                ..problem
            }));
        value
    }

    /// The whole text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Everything that was wrong in the file's form, in the file's order.
    pub(super) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found: Vec<Diagnostic> = self
            .problems
            .iter()
            .take(MOST_PROBLEMS)
            .map(|problem| self.diagnose(problem))
            .collect();
        found.sort_by_key(|diagnostic| (diagnostic.line(), diagnostic.column()));
        let more = self.problems.len().saturating_sub(MOST_PROBLEMS);
        if more > 0 {
            let message = format!("{more} more problems in this file are not shown");
            found.push(Diagnostic::error(&self.file, message));
        }
        found
    }

    fn diagnose(&self, problem: &Problem) -> Diagnostic {
        let related = problem.first.as_ref().map(|first| Related {
            note: "it stands here first".to_owned(),
            file: self.file.clone(),
            place: self.written_place(first, Half::Key),
        });
        Diagnostic {
            hint: problem.hint.clone(),
            related,
            ..Diagnostic::error(&self.file, &problem.message)
                .at(self.written_place(&problem.path, problem.half))
        }
    }

    fn written_place(&self, path: &Path, half: Half) -> Option<Place> {
        locate(&self.text, path, half).map(|span| Place::new(Arc::clone(&self.text), span))
    }

    /// The place of something decoded. Where the path ends before its time, the place is that of the nearest parent.
    pub(super) fn place(&self, path: &Path, half: Half) -> Option<Place> {
        let mut path = self.tree.as_written(path);
        loop {
            match self.written_place(&path, half) {
                None if !path.0.is_empty() => {
                    path.0.pop();
                }
                place => return place,
            }
        }
    }

    /// Whether there is a key under `map`, or was until it turned out to be wrong, be it that its name was.
    pub(super) fn mentions(&self, map: &Path, key: &str) -> bool {
        let Some(Tree::Map(entries)) = self.tree.get(map) else {
            return self.tree.get(map) == Some(&Tree::Removed);
        };
        entries.iter().any(|(name, value)| {
            name == key || (*value == Tree::Removed && nearest(name, &[key]).is_some())
        })
    }

    /// Whether something directly in the map or list was taken out.
    pub(super) fn lost_part_of(&self, path: &Path) -> bool {
        match self.tree.get(&self.tree.as_written(path)) {
            Some(Tree::Map(entries)) => entries.iter().any(|(_, value)| *value == Tree::Removed),
            Some(Tree::List(elements)) => elements.contains(&Tree::Removed),
            _ => false,
        }
    }
}

/// What the parser says, with its place taken out of its sentence.
fn syntax_error(file: &str, text: &Arc<str>, error: &serde_yaml::Error) -> Diagnostic {
    let said = error.to_string();
    if said.contains("more than one document") {
        let place = second_document(text).map(|span| Place::new(Arc::clone(text), span));
        return Diagnostic::error(file, "expected one document, found a second one")
            .at(place)
            .with_hint("write one file for each task");
    }
    let place = error.location().map(|location| {
        let start = (0..=location.index().min(text.len()))
            .rev()
            .find(|index| text.is_char_boundary(*index))
            .unwrap_or(0);
        let length = text[start..].chars().next().map_or(0, char::len_utf8);
        Place::new(Arc::clone(text), start..start + length)
    });
    let message = match said.find("the file unfolds") {
        Some(start) => without_places(&said[start..]),
        None => format!("not valid YAML: {}", without_places(&said)),
    };
    let mut diagnostic = Diagnostic::error(file, message).at(place);
    diagnostic.hint = SYNTAX_HINTS
        .iter()
        .find(|(part, _)| said.contains(part))
        .map(|(_, hint)| (*hint).to_owned());
    diagnostic
}

/// What usually is behind the parser's sentences.
const SYNTAX_HINTS: [(&str, &str); 6] = [
    (
        "mapping values are not allowed",
        "text with `: ` in it needs quotes, and keys of one map the same indent",
    ),
    (
        "tab character",
        "YAML is indented with blanks, not with tabs",
    ),
    (
        "cannot start any token",
        "lines are indented with blanks, not with tabs; text that begins with `@`, `%` or a backtick needs quotes",
    ),
    (
        "recursion limit",
        "nothing in a task file is nested this deeply",
    ),
    (
        "unknown anchor",
        "text that begins with `*` needs quotes, as in `\"*.rs\"`",
    ),
    (
        "did not find expected key",
        "keys of one map need the same indent",
    ),
];

/// Removes every ` at line L column C`.
fn without_places(said: &str) -> String {
    let mut rest = said;
    let mut out = String::new();
    while let Some(start) = rest.find(" at line ") {
        out.push_str(&rest[..start]);
        rest = rest[start + " at line ".len()..]
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start_matches(" column ")
            .trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Diagnostic {
        *Document::parse("t.yaml", text.into()).unwrap_err()
    }

    #[test]
    fn a_syntax_error_has_the_parser_s_place_once() {
        let error = error("a: 1\nb: [1\nc: 2\n");
        assert_eq!((error.line(), error.column()), (3, 2));
        assert_eq!(
            error.message,
            "not valid YAML: did not find expected ',' or ']', while parsing a flow sequence"
        );
    }

    #[test]
    fn a_second_document_is_named_at_its_line() {
        let error = error("a: 1\n---\nb: 2\n");
        assert_eq!((error.line(), error.column()), (3, 1));
    }

    #[test]
    fn comments_alone_are_an_empty_file() {
        assert!(error("# nothing\n").message.contains("empty"));
    }

    #[test]
    fn an_alias_bomb_and_deep_nesting_end_in_one_clear_error() {
        let deep = format!("a: {}1{}", "[".repeat(500), "]".repeat(500));
        assert!(error(&deep).message.contains("recursion limit"));
    }
}
