//! What is wrong with a task file, and where: for a person at a terminal, and with plain fields for annotations.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// The longest text that a message quotes, in characters.
const LONGEST_QUOTE: usize = 80;

/// Whether a diagnostic stops the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The run does not start.
    Error,
    /// The run goes on.
    Warning,
}

/// A place in a file, with the text around it.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What is meant, as bytes of `text`.
    pub span: Range<usize>,
    /// The whole file.
    pub text: Arc<str>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Place {
    /// The place of a span of bytes.
    #[must_use]
    pub fn new(text: Arc<str>, span: Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[start..].chars().count();
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX).saturating_add(1);
        Self {
            line: number(line),
            column: number(column),
            span,
            text,
        }
    }
}

/// Another place that a diagnostic speaks of: the first of two duplicates, the policy's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// What is there.
    pub note: String,
    /// The file, as the command line named it.
    pub file: String,
    /// Where.
    pub place: Option<Place>,
}

/// One thing that is wrong or doubtful.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it stops the run.
    pub severity: Severity,
    /// The file, as the command line named it; empty for the command line itself.
    pub file: String,
    /// Where, if it is about a place.
    pub place: Option<Place>,
    /// What is wrong: a lower-case sentence.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Another place that it speaks of.
    pub related: Option<Related>,
}

impl Diagnostic {
    /// An error about a file as a whole.
    #[must_use]
    pub fn error(file: &str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.to_owned(),
            place: None,
            message: message.into(),
            hint: None,
            related: None,
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same at a place.
    #[must_use]
    pub fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }

    /// The line, from 1; 0 when it is about no line.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.line)
    }

    /// The column, from 1; 0 when it is about no line.
    #[must_use]
    pub fn column(&self) -> u32 {
        self.place.as_ref().map_or(0, |place| place.column)
    }

    /// The diagnostic as a compiler would show it, without a newline at the end. Understandable without `colour`.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level
            .primary_title(self.message.as_str())
            .elements(Vec::<annotate_snippets::Element<'_>>::new());
        group = shown(
            group,
            &self.file,
            self.place.as_ref(),
            AnnotationKind::Primary,
        );
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        let mut report = vec![group];
        if let Some(related) = &self.related {
            let note = Level::NOTE
                .secondary_title(related.note.as_str())
                .elements(Vec::<annotate_snippets::Element<'_>>::new());
            let place = related.place.as_ref();
            report.push(shown(note, &related.file, place, AnnotationKind::Primary));
        }
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&report)
    }
}

fn shown<'a>(
    group: Group<'a>,
    file: &'a str,
    place: Option<&'a Place>,
    kind: AnnotationKind,
) -> Group<'a> {
    match place {
        Some(place) => group.element(
            Snippet::source(&*place.text)
                .path(file)
                .annotation(kind.span(place.span.clone())),
        ),
        None if file.is_empty() => group,
        None => group.element(Origin::path(file)),
    }
}

/// Renders many, with a blank line between.
#[must_use]
pub fn render_all(diagnostics: &[Diagnostic], colour: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let _ = writeln!(out, "{}\n", diagnostic.render(colour));
    }
    out
}

/// A text from a task file for use in a message: in backticks, on one line, bounded, control characters escaped.
#[must_use]
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", one_line(text, LONGEST_QUOTE))
}

/// A text from a task file on one line: at most `limit` characters of it, control and invisible characters escaped.
#[must_use]
pub(super) fn one_line(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == limit {
            shown.push('…');
            break;
        }
        // Quotes and backslashes are not escaped: the text is between backticks.
        if matches!(c, '"' | '\'' | '\\') {
            shown.push(c);
        } else {
            shown.extend(c.escape_debug());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text: Arc<str> = "é: 1\r\nfoo: bär x\n".into();
        let start = text.find('x').unwrap();
        let place = Place::new(Arc::clone(&text), start..start + 1);
        assert_eq!((place.line, place.column), (2, 10));
        let first = Place::new(text, 0..1);
        assert_eq!((first.line, first.column), (1, 1));
    }

    #[test]
    fn quoted_text_cannot_write_to_the_terminal() {
        assert_eq!(
            quoted("a\u{1b}[31m\n\u{202e}\"b"),
            "`a\\u{1b}[31m\\n\\u{202e}\"b`"
        );
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), LONGEST_QUOTE + 3);
    }
}
