//! Parses YAML strictly into a [`Tree`]: keys are text and unique, their order is kept, and what task files have no use
//! for (tags, merge keys) is refused and left out. What the text unfolds to is bounded, because aliases repeat.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, VariantAccess};

use super::diagnostic::quoted;
use super::tree::{Path, Problem, Step, Tree};

/// The most values that a file may unfold to; aliases make this more than is written.
const MOST_VALUES: usize = 50_000;
/// The most bytes of text that a file may unfold to.
const MOST_TEXT: usize = 4 * 1024 * 1024;
/// The longest key, in bytes. Every path holds copies of keys.
const LONGEST_KEY: usize = 256;

impl Tree {
    /// Parses a text. The problems are what is refused in it; where they are, the tree has [`Tree::Removed`].
    pub(super) fn parse(text: &str) -> Result<(Self, Vec<Problem>), serde_yaml::Error> {
        let state = RefCell::new(State::default());
        let seed = Seed {
            state: &state,
            path: Path::root(),
        };
        let tree = seed.deserialize(serde_yaml::Deserializer::from_str(text))?;
        Ok((tree, state.into_inner().problems))
    }
}

#[derive(Default)]
struct State {
    problems: Vec<Problem>,
    values: usize,
    text: usize,
}

impl State {
    /// Counts a value; the error ends the parse, with the parser's own place.
    fn count<E: de::Error>(&mut self, text: usize) -> Result<(), E> {
        self.values += 1;
        self.text += text;
        if self.values > MOST_VALUES || self.text > MOST_TEXT {
            return Err(E::custom(format_args!(
                "the file unfolds to more than {MOST_VALUES} values or {} MiB of text; do aliases repeat each other?",
                MOST_TEXT / 1024 / 1024
            )));
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Seed<'a> {
    state: &'a RefCell<State>,
    path: Path,
}

impl Seed<'_> {
    fn at(&self, step: Step) -> Self {
        Self {
            state: self.state,
            path: self.path.then(step),
        }
    }

    fn refuse(&self, problem: Problem) -> Tree {
        self.state.borrow_mut().problems.push(problem);
        Tree::Removed
    }

    fn count<E: de::Error>(&self, text: usize) -> Result<(), E> {
        self.state.borrow_mut().count(text)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Seed<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        self.count(0)?;
        Ok(Tree::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
        self.count(0)?;
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
        self.count(0)?;
        Ok(Tree::Unsigned(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
        self.count(0)?;
        Ok(u64::try_from(value).map_or(Tree::Negative(value), Tree::Unsigned))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Tree, E> {
        self.count(0)?;
        let problem = Problem::value(
            self.path.clone(),
            format!("the number `{value}` is too large"),
        );
        Ok(self.refuse(problem))
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Tree, E> {
        self.count(0)?;
        let problem = Problem::value(
            self.path.clone(),
            format!("the number `{value}` is too small"),
        );
        Ok(self.refuse(problem))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        self.count(0)?;
        Ok(Tree::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Tree, E> {
        self.count(value.len())?;
        if value.contains('\0') {
            // No path, argument or variable of the system can hold it.
            let problem = Problem::value(self.path.clone(), "the text has a NUL character in it");
            return Ok(self.refuse(problem));
        }
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        self.count(0)?;
        let mut elements = Vec::new();
        while let Some(element) = access.next_element_seed(self.at(Step::Index(elements.len())))? {
            elements.push(element);
        }
        Ok(Tree::List(elements))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        self.count(0)?;
        let mut entries: Vec<(String, Tree)> = Vec::new();
        let mut known = HashSet::new();
        for index in 0.. {
            let entry = self.at(Step::Entry(index));
            let Some(key) = access.next_key_seed(entry.clone())? else {
                break;
            };
            let refused = |message: String, hint: &str| {
                self.refuse(Problem::key(entry.path.clone(), message).hint(hint))
            };
            let name = match key {
                Tree::Text(name) if name == "<<" => {
                    refused(
                        "merge keys (`<<`) are not used in task files".to_owned(),
                        "write the keys out, or put them under `defaults` in `agent-batch.yaml`",
                    );
                    None
                }
                Tree::Text(name) if name.len() > LONGEST_KEY => {
                    refused(
                        "the key is too long".to_owned(),
                        "no key of a task file is this long",
                    );
                    None
                }
                Tree::Text(name) => Some(name),
                Tree::Removed => None,
                _ => {
                    refused(
                        "expected a key that is text".to_owned(),
                        "put the key in quotes",
                    );
                    None
                }
            };
            let Some(name) = name else {
                access.next_value::<IgnoredAny>()?;
                continue;
            };
            if !known.insert(name.clone()) {
                let message = format!("the key {} stands here twice", quoted(&name));
                let mut problem = Problem::key(entry.path.clone(), message)
                    .hint("keep one of the two; the other would be lost without a word");
                problem.first = Some(self.path.key(&name));
                self.refuse(problem);
                access.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = access.next_value_seed(self.at(Step::Key(name.clone())))?;
            entries.push((name, value));
        }
        Ok(Tree::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Tree, A::Error> {
        let (tag, content): (String, _) = access.variant()?;
        content.newtype_variant::<IgnoredAny>()?;
        self.count(0)?;
        let message = format!(
            "the tag {} is not known; task files use no tags",
            quoted(&format!("!{tag}"))
        );
        let problem = Problem::value(self.path.clone(), message)
            .hint("put text that begins with `!` in quotes");
        Ok(self.refuse(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn problems(text: &str) -> Vec<(String, String)> {
        let (_, problems) = Tree::parse(text).unwrap();
        problems
            .into_iter()
            .map(|problem| (problem.path.to_string(), problem.message))
            .collect()
    }

    #[test]
    fn order_and_types_are_kept() {
        let (tree, problems) = Tree::parse("z: 1\na: [-2, 1.5, yes, true, ~, '3']\n").unwrap();
        assert_eq!(problems, []);
        let list = vec![
            Tree::Negative(-2),
            Tree::Float(1.5),
            Tree::Text("yes".into()),
            Tree::Bool(true),
            Tree::Null,
            Tree::Text("3".into()),
        ];
        assert_eq!(
            tree,
            Tree::Map(vec![
                ("z".into(), Tree::Unsigned(1)),
                ("a".into(), Tree::List(list))
            ])
        );
    }

    #[test]
    fn duplicate_keys_tags_merge_keys_and_odd_keys_are_found_at_any_depth() {
        let found =
            problems("a: {b: [{c: 1, c: 2}]}\nd: !foo [x]\ne: {<<: {f: 1}, 5: x, [1]: y}\n");
        let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a.b[0][1]", "d", "e[0]", "e[1]", "e[2]"]);
    }

    #[test]
    fn aliases_are_followed_and_bombs_are_not() {
        let (tree, _) = Tree::parse("a: &x [1]\nb: *x\n").unwrap();
        assert_eq!(
            tree.get(&Path::root().key("b").index(0)),
            Some(&Tree::Unsigned(1))
        );
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let line = format!("*a{}, ", n - 1).repeat(10);
            let _ = writeln!(bomb, "a{n}: &a{n} [{line}]");
        }
        let error = Tree::parse(&bomb).unwrap_err().to_string();
        assert!(error.contains("unfolds to more than"), "{error}");
        let long = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(100_000),
            "*a, ".repeat(10_000)
        );
        let error = Tree::parse(&long).unwrap_err().to_string();
        assert!(error.contains("unfolds to more than"), "{error}");
    }
}
