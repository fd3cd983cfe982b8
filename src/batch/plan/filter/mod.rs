//! The language of `--filter`: `tag(nightly) & !name(slow*)`.
//!
//! | form | means |
//! |---|---|
//! | `name(GLOB)`, `file(GLOB)`, `model(GLOB)` | the task's name, file, `provider/model` |
//! | `tag(GLOB)` | any of its tags |
//! | `mode(GLOB)` | its permission mode |
//! | `all()`, `none()` | every task, no task |
//! | `!x`, `not x` | not x |
//! | `x & y`, `x and y` | both; binds tighter than `\|` |
//! | `x \| y`, `x or y` | one of them |
//!
//! `parse` makes an [`Filter`] or says where and why not; the tree is evaluated here.

mod lexer;
mod parse;

use std::ops::Range;
use std::sync::Arc;

use globset::GlobMatcher;

use crate::task::{Diagnostic, Place, Task};

/// A filter that was understood.
#[derive(Debug, Clone)]
pub struct Filter {
    text: Arc<str>,
    tree: Expr,
}

/// The tree.
#[derive(Debug, Clone)]
enum Expr {
    All,
    None,
    Is(Predicate),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

/// One word with its glob.
#[derive(Debug, Clone)]
struct Predicate {
    field: Field,
    glob: GlobMatcher,
    /// Where it stands, as bytes of the text.
    span: Range<usize>,
}

/// What of a task a predicate looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Tag,
    File,
    Model,
    Mode,
}

/// The name under which the option is shown in diagnostics.
const SOURCE: &str = "--filter";

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// The first thing that is wrong, at its place in the expression.
    pub fn parse(text: &str) -> Result<Self, Box<Diagnostic>> {
        let text: Arc<str> = text.into();
        match parse::parse(&text) {
            Ok(tree) => Ok(Self { text, tree }),
            Err(error) => {
                let place = Place::new(Arc::clone(&text), error.span);
                let mut diagnostic = Diagnostic::error(SOURCE, error.message).at(Some(place));
                diagnostic.hint = error.hint;
                Err(Box::new(diagnostic))
            }
        }
    }

    /// Whether a task is chosen.
    #[must_use]
    pub fn chooses(&self, task: &Task) -> bool {
        self.tree.holds(task)
    }

    /// The words of the expression that are true of no task: slips, most of the time.
    pub fn idle<'a>(&'a self, tasks: &'a [Task]) -> impl Iterator<Item = &'a str> {
        let mut predicates = Vec::new();
        self.tree.predicates(&mut predicates);
        predicates
            .into_iter()
            .filter(|predicate| !tasks.iter().any(|task| predicate.holds(task)))
            .filter_map(|predicate| self.text.get(predicate.span.clone()))
    }
}

impl Expr {
    fn holds(&self, task: &Task) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Is(predicate) => predicate.holds(task),
            Self::Not(inner) => !inner.holds(task),
            Self::And(one, other) => one.holds(task) && other.holds(task),
            Self::Or(one, other) => one.holds(task) || other.holds(task),
        }
    }

    fn predicates<'a>(&'a self, found: &mut Vec<&'a Predicate>) {
        match self {
            Self::All | Self::None => {}
            Self::Is(predicate) => found.push(predicate),
            Self::Not(inner) => inner.predicates(found),
            Self::And(one, other) | Self::Or(one, other) => {
                one.predicates(found);
                other.predicates(found);
            }
        }
    }
}

impl Predicate {
    fn holds(&self, task: &Task) -> bool {
        let is = |text: &str| self.glob.is_match(text);
        match self.field {
            Field::Name => is(&task.name),
            Field::Tag => task.tags.iter().any(|tag| is(tag)),
            Field::File => is(&task.file),
            Field::Model => is(&task.model.to_string()),
            Field::Mode => is(task.mode.name()),
        }
    }
}
