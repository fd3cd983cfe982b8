//! Turns a path into a place. The parser gives exact places with errors, and with nothing else: so the text is parsed
//! once more along the path, and at its end an error is raised whose place is the answer.

use std::fmt;
use std::ops::Range;

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, VariantAccess};

use super::tree::{Half, Path, Step};

/// The bytes that a path means, or `None` when it leads nowhere.
pub(super) fn locate(text: &str, path: &Path, half: Half) -> Option<Range<usize>> {
    let walk = Walk {
        rest: &path.0,
        half,
    };
    let error = walk
        .deserialize(serde_yaml::Deserializer::from_str(text))
        .err()?;
    let start = error.location()?.index();
    Some(start..end_of_token(text, start))
}

/// The bytes at which a second document begins.
pub(super) fn second_document(text: &str) -> Option<Range<usize>> {
    let document = serde_yaml::Deserializer::from_str(text).nth(1)?;
    let error = document.deserialize_any(Here).err()?;
    let start = error.location()?.index();
    Some(start..end_of_token(text, start))
}

/// The end of the word, quoted text or rest of a line that begins at `start`; at least one character if there is one.
pub(super) fn end_of_token(text: &str, start: usize) -> usize {
    let Some(rest) = text.get(start..) else {
        return start;
    };
    let line = rest.lines().next().unwrap_or_default();
    let length = match line.chars().next() {
        None => 0,
        Some(quote @ ('"' | '\'')) => line[1..].find(quote).map_or(line.len(), |end| end + 2),
        Some('[' | '{' | '|' | '>') => 1,
        Some('-') if line[1..].starts_with(' ') || line.len() == 1 => 1,
        Some(first) => {
            let end = [" #", ": ", ", ", "]", "}"]
                .iter()
                .filter_map(|stop| line.find(stop))
                .min()
                .unwrap_or(line.len());
            let word = line[..end].trim_end().trim_end_matches([':', ',']);
            word.len().max(first.len_utf8())
        }
    };
    start + length
}

/// Walks along the rest of a path.
struct Walk<'a> {
    rest: &'a [Step],
    half: Half,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.rest.is_empty() {
            deserializer.deserialize_any(Here)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

/// Consumes what it did not look for, so that the walk can go on behind it.
macro_rules! pass_by_scalars {
    ($value:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_i128<E>(self, _: i128) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_u128<E>(self, _: u128) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok($value)
        }
    };
}

impl<'de> de::Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value on the way")
    }

    pass_by_scalars!(());

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<(), A::Error> {
        let (_, content): (String, _) = access.variant()?;
        content.newtype_variant::<IgnoredAny>().map(drop)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let Some((Step::Index(wanted), rest)) = self.rest.split_first() else {
            while access.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        for index in 0.. {
            let found = if index == *wanted {
                let half = self.half;
                access.next_element_seed(Walk { rest, half })?
            } else {
                access.next_element::<IgnoredAny>()?.map(drop)
            };
            if found.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let Some((step, rest)) = self.rest.split_first() else {
            return Ok(());
        };
        let at_key = rest.is_empty() && self.half == Half::Key;
        for index in 0.. {
            let probe = Probe {
                wanted: step,
                index,
                at_key,
            };
            match access.next_key_seed(probe)? {
                None => break,
                Some(true) => {
                    let half = self.half;
                    access.next_value_seed(Walk { rest, half })?;
                }
                Some(false) => {
                    access.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Looks at a key: whether it is the wanted one. With `at_key` the wanted one is where the error is raised.
struct Probe<'a> {
    wanted: &'a Step,
    index: usize,
    at_key: bool,
}

impl<'de> DeserializeSeed<'de> for Probe<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.wanted {
            Step::Entry(wanted) if *wanted == self.index && self.at_key => {
                deserializer.deserialize_any(Here).map(|()| true)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> de::Visitor<'de> for Probe<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    pass_by_scalars!(false);

    fn visit_str<E: de::Error>(self, key: &str) -> Result<bool, E> {
        let found = match self.wanted {
            Step::Key(wanted) => wanted == key,
            Step::Entry(wanted) => *wanted == self.index,
            Step::Index(_) => false,
        };
        if found && self.at_key {
            return Err(E::custom("here"));
        }
        Ok(found)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<bool, A::Error> {
        let (_, content): (String, _) = access.variant()?;
        content.newtype_variant::<IgnoredAny>().map(|_| false)
    }
}

/// Raises the error, whatever comes: a visitor that has no method written refuses every value.
struct Here;

impl de::Visitor<'_> for Here {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# comment\nname: x\nchecks:\n  - command: { run: a b, timeout: 5 }\n  - reply:\n      \"contains\": 'it''s' # why\nname: y\nlimits: &l\n  max_steps: -12\nmore: *l\n[1]: z\n";

    fn found(path: &Path, half: Half) -> &'static str {
        &TEXT[locate(TEXT, path, half).unwrap()]
    }

    #[test]
    fn keys_values_and_elements_have_their_places() {
        let root = Path::root();
        let command = root.key("checks").index(0).key("command");
        assert_eq!(found(&root, Half::Value), "name");
        assert_eq!(found(&root.key("name"), Half::Key), "name");
        assert_eq!(found(&root.key("name"), Half::Value), "x");
        assert_eq!(found(&command, Half::Key), "command");
        assert_eq!(found(&command.key("run"), Half::Value), "a b");
        assert_eq!(found(&command.key("timeout"), Half::Key), "timeout");
        assert_eq!(found(&command.key("timeout"), Half::Value), "5");
        let reply = root.key("checks").index(1).key("reply").key("contains");
        assert_eq!(found(&reply, Half::Key), "\"contains\"");
        let limits = root.key("limits").key("max_steps");
        assert_eq!(found(&limits, Half::Value), "-12");
    }

    #[test]
    fn the_second_of_two_keys_and_a_key_that_is_no_text_have_places() {
        let second = Path::root().then(Step::Entry(2));
        let range = locate(TEXT, &second, Half::Key).unwrap();
        assert_eq!(range.start, TEXT.rfind("name").unwrap());
        let odd = Path::root().then(Step::Entry(5));
        assert_eq!(found(&odd, Half::Key), "[");
    }

    #[test]
    fn a_place_behind_an_alias_is_where_its_anchor_is() {
        let behind = Path::root().key("more").key("max_steps");
        assert_eq!(found(&behind, Half::Value), "-12");
        assert_eq!(locate(TEXT, &Path::root().key("no"), Half::Value), None);
    }

    #[test]
    fn a_second_document_has_a_place() {
        let text = "a: 1\n---\nb: 2\n";
        assert_eq!(second_document(text).map(|range| range.start), Some(9));
        assert_eq!(second_document("a: 1\n"), None);
    }
}
