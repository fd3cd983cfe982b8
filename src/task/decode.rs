//! A serde deserializer over [`Tree`] whose errors know their path and speak the words of a task file.

use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::diagnostic::quoted;
use super::suggest::{nearest, one_of};
use super::tree::{Half, Path, Problem, Step, Tree};

/// Decodes a value, taking out of the tree whatever is wrong, one thing after the other, until the rest fits. `None`
/// when the whole does not fit.
pub(super) fn decode<T: de::DeserializeOwned>(
    tree: &mut Tree,
    most_problems: usize,
) -> (Option<T>, Vec<Problem>) {
    let mut problems = Vec::new();
    loop {
        let node = Node {
            tree,
            trail: Trail::Root,
        };
        let error = match T::deserialize(node) {
            Ok(value) => return (Some(value), problems),
            Err(error) => error,
        };
        let path = error.path.clone().unwrap_or_default();
        let is_follow_up = match (&error.kind, tree.get(&path)) {
            // What is missing was there, and was reported for another reason.
            (Kind::Missing(name), Some(Tree::Map(entries))) => entries
                .iter()
                .any(|(key, value)| key == name && *value == Tree::Removed),
            (kind, _) => matches!(kind, Kind::FollowUp),
        };
        if !is_follow_up {
            problems.push(error.problem(tree));
        }
        match tree.get_mut(&path) {
            Some(place) if !path.0.is_empty() && *place != Tree::Removed => *place = Tree::Removed,
            _ => return (None, problems),
        }
        if problems.len() >= most_problems {
            return (None, problems);
        }
    }
}

/// Why a tree does not fit a type.
#[derive(Debug)]
struct Error {
    path: Option<Path>,
    half: Half,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    UnknownKey(String, &'static [&'static str]),
    UnknownWord(String, &'static [&'static str]),
    Missing(&'static str),
    /// Nothing is left here because all of it was reported.
    FollowUp,
    Other(String),
}

impl Error {
    fn new(kind: Kind) -> Self {
        Self {
            path: None,
            half: Half::Value,
            kind,
        }
    }

    /// The innermost place wins.
    fn at(mut self, trail: &Trail<'_>, half: Half) -> Self {
        if self.path.is_none() {
            self.path = Some(trail.path());
            self.half = half;
        }
        self
    }

    fn problem(self, tree: &Tree) -> Problem {
        let path = self.path.unwrap_or_default();
        let (message, hint) = match self.kind {
            Kind::UnknownKey(key, allowed) => unknown_key(&path, &key, allowed),
            Kind::UnknownWord(word, allowed) if self.half == Half::Key => {
                unknown_key(&path, &word, allowed)
            }
            Kind::UnknownWord(word, allowed) => (
                format!("expected {}, found {}", one_of(allowed), quoted(&word)),
                nearest(&word, allowed).map(|meant| format!("did you mean `{meant}`?")),
            ),
            Kind::Missing(name) => (format!("the key `{name}` is missing here"), None),
            Kind::FollowUp => ("nothing is left here".to_owned(), None),
            Kind::Other(message) => {
                let hint = hint_for(tree.get(&path), &message);
                (message, hint)
            }
        };
        Problem {
            path,
            half: self.half,
            message,
            hint,
            first: None,
        }
    }
}

/// Keys that people bring from elsewhere, with what to write here: the map it stands in, the key, the advice.
const ELSEWHERE: [(&str, &str, &str); 6] = [
    (
        "permissions",
        "ask",
        "nobody can be asked in a run without a person: put the rule under `allow` or `deny`",
    ),
    ("permissions", "defaultMode", "write `mode`"),
    (
        "",
        "matrix",
        "a task file is one task for now: write one file for each combination",
    ),
    ("", "trials", "repeated measurement is not available yet"),
    (
        "",
        "retries",
        "failed calls of the model are retried without being told to",
    ),
    ("", "steps", "write `max_steps` under `limits`"),
];

/// Keys that belong one level deeper than where people look for them first.
const DEEPER: [(&str, &[&str]); 3] = [
    (
        "limits",
        &[
            "max_steps",
            "max_total_steps",
            "max_tokens",
            "max_output_tokens",
            "max_cost_usd",
            "timeout",
            "tool_timeout",
        ],
    ),
    (
        "permissions",
        &[
            "mode",
            "allow",
            "deny",
            "on_denied",
            "additional_directories",
        ],
    ),
    ("workspace", &["path", "isolation"]),
];

fn unknown_key(path: &Path, key: &str, allowed: &[&str]) -> (String, Option<String>) {
    let parent = match path.0.as_slice() {
        [.., Step::Key(parent), _] => parent,
        _ => "",
    };
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(map, name, _)| *map == parent && *name == key)
        .map(|(_, _, advice)| (*advice).to_owned());
    let deeper = || {
        DEEPER.iter().find_map(|(map, keys)| {
            let meant = nearest(key, keys).filter(|_| allowed.contains(map))?;
            Some(format!("write `{meant}` under `{map}`"))
        })
    };
    let hint = elsewhere
        .or_else(|| nearest(key, allowed).map(|meant| format!("did you mean `{meant}`?")))
        .or_else(deeper)
        .unwrap_or_else(|| {
            format!(
                "the keys here are {}",
                one_of(allowed).replace(" or ", " and ")
            )
        });
    (format!("unknown key {}", quoted(key)), Some(hint))
}

/// What to do about a value of the wrong type.
fn hint_for(found: Option<&Tree>, message: &str) -> Option<String> {
    match found? {
        Tree::Null => Some("write a value, or remove the key".to_owned()),
        Tree::Bool(_) | Tree::Unsigned(_) | Tree::Negative(_) | Tree::Float(_) => message
            .starts_with("expected text")
            .then(|| "put it in quotes".to_owned()),
        Tree::Text(_) | Tree::List(_) | Tree::Map(_) | Tree::Removed => None,
    }
}

/// The names that serde's own types give themselves, in words of a task file.
fn expected(exp: &dyn Expected) -> String {
    let name = exp.to_string();
    match name.as_str() {
        "a string" | "str" | "string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "u8" => "a whole number from 0 to 255".to_owned(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" => "a whole number, 0 or more".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        other if other.starts_with("struct ") || other == "a map" => "a map".to_owned(),
        other => other.to_owned(),
    }
}

fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number `{value}`"),
        Unexpected::Signed(value) => format!("the number `{value}`"),
        Unexpected::Float(value) => format!("the number `{value}`"),
        Unexpected::Str(text) => quoted(text),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Kind::Other(message.to_string()))
    }

    fn invalid_type(unexpected: Unexpected<'_>, exp: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {}, found {}",
            expected(exp),
            found(&unexpected)
        ))
    }

    fn invalid_value(unexpected: Unexpected<'_>, exp: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, exp)
    }

    fn unknown_field(field: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownKey(field.to_owned(), allowed))
    }

    fn unknown_variant(variant: &str, allowed: &'static [&'static str]) -> Self {
        Self::new(Kind::UnknownWord(variant.to_owned(), allowed))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Kind::Missing(field))
    }
}

/// The way to a node, kept on the stack while decoding goes down.
#[derive(Clone, Copy)]
enum Trail<'t> {
    Root,
    Key(&'t Trail<'t>, &'t str),
    Index(&'t Trail<'t>, usize),
}

impl Trail<'_> {
    fn path(&self) -> Path {
        match self {
            Trail::Root => Path::root(),
            Trail::Key(parent, name) => parent.path().key(name),
            Trail::Index(parent, index) => parent.path().index(*index),
        }
    }
}

struct Node<'t> {
    tree: &'t Tree,
    trail: Trail<'t>,
}

impl Node<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self.tree {
            Tree::Null | Tree::Removed => Unexpected::Unit,
            Tree::Bool(value) => Unexpected::Bool(*value),
            Tree::Unsigned(value) => Unexpected::Unsigned(*value),
            Tree::Negative(value) => Unexpected::Signed(*value),
            Tree::Float(value) => Unexpected::Float(*value),
            Tree::Text(text) => Unexpected::Str(text),
            Tree::List(_) => Unexpected::Seq,
            Tree::Map(_) => Unexpected::Map,
        }
    }

    fn wrong_shape(&self, expected: &str) -> Error {
        let found = found(&self.unexpected());
        Error::new(Kind::Other(format!("expected {expected}, found {found}")))
            .at(&self.trail, Half::Value)
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let trail = self.trail;
        match self.tree {
            Tree::Null | Tree::Removed => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Unsigned(value) => visitor.visit_u64(*value),
            Tree::Negative(value) => visitor.visit_i64(*value),
            Tree::Float(value) => visitor.visit_f64(*value),
            Tree::Text(text) => visitor.visit_str(text),
            Tree::List(elements) => visitor.visit_seq(Elements {
                elements: elements.iter().enumerate(),
                trail: &trail,
            }),
            Tree::Map(entries) => visitor.visit_map(Entries {
                left: entries.iter(),
                value: None,
                trail: &trail,
            }),
        }
        .map_err(|error| error.at(&trail, Half::Value))
    }

    /// A key that is there has a value: nothing is not the same as a key left out.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// serde's own types would also take a list, field by field: nobody writes that on purpose.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.tree {
            Tree::Map(_) => self.deserialize_any(visitor),
            _ => Err(self.wrong_shape("a map")),
        }
    }

    /// A word, or a map with one key that names the variant.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let trail = self.trail;
        match self.tree {
            Tree::Text(word) => visitor
                .visit_enum(Word {
                    word,
                    trail: &trail,
                })
                .map_err(|error| error.at(&trail, Half::Value)),
            Tree::Map(entries) => {
                let left: Vec<_> = entries
                    .iter()
                    .filter(|(_, value)| *value != Tree::Removed)
                    .collect();
                match left.as_slice() {
                    [(key, value)] => visitor.visit_enum(OneKey {
                        key,
                        value,
                        trail: &trail,
                    }),
                    [] if !entries.is_empty() => Err(Error::new(Kind::FollowUp)),
                    _ => Err(Error::new(Kind::Other(format!(
                        "expected a map with one key, {}, found {} keys",
                        one_of(variants),
                        left.len()
                    )))),
                }
                .map_err(|error| error.at(&trail, Half::Value))
            }
            _ => Err(self.wrong_shape(&one_of(variants))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

struct Elements<'t> {
    elements: std::iter::Enumerate<std::slice::Iter<'t, Tree>>,
    trail: &'t Trail<'t>,
}

impl<'de> de::SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let next = self
            .elements
            .by_ref()
            .find(|(_, tree)| **tree != Tree::Removed);
        let Some((index, tree)) = next else {
            return Ok(None);
        };
        let trail = Trail::Index(self.trail, index);
        seed.deserialize(Node { tree, trail })
            .map(Some)
            .map_err(|error| error.at(&trail, Half::Value))
    }
}

struct Entries<'t> {
    left: std::slice::Iter<'t, (String, Tree)>,
    value: Option<(&'t str, &'t Tree)>,
    trail: &'t Trail<'t>,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let next = self.left.by_ref().find(|(_, tree)| *tree != Tree::Removed);
        let Some((key, tree)) = next else {
            return Ok(None);
        };
        self.value = Some((key, tree));
        let trail = Trail::Key(self.trail, key);
        seed.deserialize(key.as_str().into_deserializer())
            .map(Some)
            .map_err(|error: Error| error.at(&trail, Half::Key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, tree)) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        let trail = Trail::Key(self.trail, key);
        seed.deserialize(Node { tree, trail })
            .map_err(|error| error.at(&trail, Half::Value))
    }
}

/// An enum's variant as a word.
struct Word<'t> {
    word: &'t str,
    trail: &'t Trail<'t>,
}

impl<'de> de::EnumAccess<'de> for Word<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = seed.deserialize(self.word.into_deserializer())?;
        Ok((variant, self))
    }
}

impl Word<'_> {
    fn lacks_content(&self) -> Error {
        let word = quoted(self.word);
        Error::new(Kind::Other(format!(
            "{word} needs a map of its own, as in `{}: {{ … }}`",
            word.trim_matches('`')
        )))
        .at(self.trail, Half::Value)
    }
}

impl<'de> de::VariantAccess<'de> for Word<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(self.lacks_content())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(self.lacks_content())
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        Err(self.lacks_content())
    }
}

/// An enum's variant as a map with one key.
struct OneKey<'t> {
    key: &'t str,
    value: &'t Tree,
    trail: &'t Trail<'t>,
}

impl OneKey<'_> {
    fn node(&self) -> Node<'_> {
        Node {
            tree: self.value,
            trail: Trail::Key(self.trail, self.key),
        }
    }
}

impl<'de> de::EnumAccess<'de> for OneKey<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let trail = Trail::Key(self.trail, self.key);
        let variant = seed
            .deserialize(self.key.into_deserializer())
            .map_err(|error: Error| error.at(&trail, Half::Key))?;
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for OneKey<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Err(self.node().wrong_shape("a word alone"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let node = self.node();
        let trail = node.trail;
        seed.deserialize(node)
            .map_err(|error| error.at(&trail, Half::Value))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.node().deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.node().deserialize_any(visitor)
    }
}
