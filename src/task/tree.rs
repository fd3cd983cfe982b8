//! YAML as a strict tree, and paths into it. The tree remembers no places; `locate` turns a path into one.

use std::fmt;

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    /// Nothing: `key:`, `~`, `null`.
    Null,
    /// `true` or `false`; `yes`, `no`, `on` and `off` are text.
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Negative(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// A map, in the file's order.
    Map(Vec<(String, Tree)>),
    /// Something wrong that has been reported: readers go on as if it were not there.
    Removed,
}

/// One step into a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of a key.
    Key(String),
    /// An element of a list, counted as the file counts, removed ones included.
    Index(usize),
    /// An entry of a map by its place; for keys that are not unique, or no text.
    Entry(usize),
}

/// The way from the root to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// The root itself.
    pub(super) fn root() -> Self {
        Self::default()
    }

    /// On to the value of a key.
    pub(super) fn key(&self, name: &str) -> Self {
        self.then(Step::Key(name.to_owned()))
    }

    /// On to an element.
    pub(super) fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// On by one step.
    pub(super) fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

/// The path in words: `checks[1].command.run`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(name) if count == 0 => f.write_str(name)?,
                Step::Key(name) => write!(f, ".{name}")?,
                Step::Index(index) | Step::Entry(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Which half of a map's entry is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    /// The key.
    Key,
    /// The value (and every element of a list).
    Value,
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where.
    pub(super) path: Path,
    /// Which half of the entry.
    pub(super) half: Half,
    /// What is wrong.
    pub(super) message: String,
    /// What to do.
    pub(super) hint: Option<String>,
    /// Where the first of two duplicates stands.
    pub(super) first: Option<Path>,
}

impl Problem {
    /// A problem with a value.
    pub(super) fn value(path: Path, message: impl Into<String>) -> Self {
        Self {
            path,
            half: Half::Value,
            message: message.into(),
            hint: None,
            first: None,
        }
    }

    /// A problem with a key.
    pub(super) fn key(path: Path, message: impl Into<String>) -> Self {
        Self {
            half: Half::Key,
            ..Self::value(path, message)
        }
    }

    /// The same with advice.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Tree {
    /// The value at a path.
    pub(super) fn get(&self, path: &Path) -> Option<&Self> {
        path.0
            .iter()
            .try_fold(self, |tree, step| match (tree, step) {
                (Self::Map(entries), Step::Key(name)) => entries
                    .iter()
                    .find(|(key, _)| key == name)
                    .map(|(_, value)| value),
                (Self::List(elements), Step::Index(index)) => elements.get(*index),
                _ => None,
            })
    }

    /// The value at a path, to be changed.
    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Self> {
        path.0
            .iter()
            .try_fold(self, |tree, step| match (tree, step) {
                (Self::Map(entries), Step::Key(name)) => entries
                    .iter_mut()
                    .find(|(key, _)| key == name)
                    .map(|(_, value)| value),
                (Self::List(elements), Step::Index(index)) => elements.get_mut(*index),
                _ => None,
            })
    }

    /// The path as the file counts, for one that counts as a reader does, to whom removed elements do not exist.
    pub(super) fn as_written(&self, path: &Path) -> Path {
        let mut written = Path::root();
        for step in &path.0 {
            let step = match (self.get(&written), step) {
                (Some(Self::List(elements)), Step::Index(index)) => elements
                    .iter()
                    .enumerate()
                    .filter(|(_, element)| **element != Self::Removed)
                    .nth(*index)
                    .map_or(Step::Index(*index), |(place, _)| Step::Index(place)),
                _ => step.clone(),
            };
            written = written.then(step);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_s_index_skips_removed_elements() {
        let tree = Tree::List(vec![Tree::Null, Tree::Removed, Tree::Null]);
        assert_eq!(
            tree.as_written(&Path::root().index(1)),
            Path::root().index(2)
        );
    }
}
