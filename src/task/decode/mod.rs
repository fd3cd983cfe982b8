//! A serde deserializer over [`Tree`] whose errors know their path and speak the words of a task file.

mod error;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::diagnostic::quoted;
use super::suggest::one_of;
use super::tree::{Half, Path, Problem, Tree};
use error::{Error, Kind, found};

/// Decodes a value, taking out of the tree whatever is wrong, one thing after the other, until the rest fits. `None`
/// when the whole does not fit.
pub(super) fn decode<T: de::DeserializeOwned>(
    tree: &mut Tree,
    most_problems: usize,
) -> (Option<T>, Vec<Problem>) {
    let mut problems = Vec::new();
    // What only follows from a problem costs a turn too, and is not counted among them.
    for _ in 0..most_problems.saturating_mul(10) {
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
            break;
        }
    }
    (None, problems)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        inner: Vec<Either>,
        count: Option<u32>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Either {
        Left(Inner),
        Right,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        name: String,
    }

    fn decoded(text: &str) -> (Option<Outer>, Vec<(String, String)>) {
        let (mut tree, _) = Tree::parse(text).unwrap();
        let (value, problems) = decode(&mut tree, 50);
        let told = problems
            .into_iter()
            .map(|problem| (problem.path.to_string(), problem.message))
            .collect();
        (value, told)
    }

    fn paths(text: &str) -> Vec<String> {
        decoded(text).1.into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn what_fits_is_kept_and_everything_else_is_told_once() {
        let (value, told) =
            decoded("inner: [right, {left: {name: 5}}, {up: 1}, {left: {name: a}}]\ncount: x\n");
        let paths: Vec<&str> = told.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["inner[1].left.name", "inner[2].up", "count"]);
        let left = Either::Left(Inner { name: "a".into() });
        let inner = vec![Either::Right, left];
        assert_eq!(value, Some(Outer { inner, count: None }));
    }

    #[test]
    fn a_list_is_no_map_even_if_its_elements_would_fit() {
        assert_eq!(paths("[[], 5]"), [""]);
        assert_eq!(paths("inner: [{left: [a]}]"), ["inner[0].left"]);
    }

    #[test]
    fn nothing_is_not_the_same_as_a_key_left_out() {
        assert_eq!(paths("count:"), ["count"]);
        assert_eq!(
            decoded("inner: []").0,
            Some(Outer {
                inner: vec![],
                count: None
            })
        );
    }

    #[test]
    fn a_word_and_a_map_are_not_confused() {
        assert_eq!(paths("inner: [left]"), ["inner[0]"]);
        assert_eq!(paths("inner: [{right: {}}]"), ["inner[0].right"]);
        assert_eq!(paths("inner: [{left: {name: a}, right: b}]"), ["inner[0]"]);
    }
}
