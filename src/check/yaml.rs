//! YAML of an agent as a value. It may be written to hurt: aliases that repeat each other unfold to more than any memory
//! holds, so what comes out is counted while it is made; and the parser goes through all open brackets for every token, and
//! through all anchors for every anchor and alias, so how long that can take is estimated before it begins.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::{Map, Number, Value};

use super::TimeSpan;
use crate::text;

/// The most values that a document may unfold to.
const MOST_VALUES: usize = 200_000;
/// The most bytes of text that it may unfold to.
const MOST_TEXT: usize = 32 * 1024 * 1024;

/// The most bytes of a document. The estimate can be deceived (a bracket that closes in a comment closes nothing), and then a
/// byte costs a thousand times what it costs elsewhere.
const MOST_BYTES: usize = 2 * 1024 * 1024;
/// The most steps that parsing may take, as [`effort`] counts them: about a second, some of a build for development.
const MOST_STEPS: u64 = 1 << 31;
/// How deep the parser follows brackets, and so how many steps a byte takes that the estimate was deceived about.
const DEEPEST: u64 = 1000;
/// The steps that are taken in a millisecond of a check's time: few enough for a slow machine.
const STEPS_IN_MILLISECOND: u64 = MOST_STEPS / 10_000;

/// What parsing may take.
#[derive(Debug, Clone, Copy)]
struct Effort {
    steps: u64,
    bytes: usize,
}

impl Effort {
    /// What fits into a check's time limit, whatever the text does to deceive the estimate.
    fn within(limit: Duration) -> Self {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let steps = millis.saturating_mul(STEPS_IN_MILLISECOND).min(MOST_STEPS);
        let bytes = usize::try_from(steps / DEEPEST).unwrap_or(usize::MAX);
        Self {
            steps,
            bytes: bytes.min(MOST_BYTES),
        }
    }
}

/// Parses one document, within the time limit of a check.
///
/// # Errors
/// It is not YAML, holds more than one document or more than can be looked at, or has what JSON has not: keys that are no
/// text, tags, numbers that are none. One line.
pub(super) fn parse(text: &str, limit: Duration) -> Result<Value, String> {
    let most = Effort::within(limit);
    if text.len() > most.bytes {
        return Err(format!(
            "it is larger than {}, the most that is read of YAML in {}",
            text::bytes(most.bytes as u64),
            TimeSpan(limit)
        ));
    }
    if effort(text) > most.steps {
        let message =
            "it has too many anchors or open brackets for its size to be read in bounded time";
        return Err(message.to_owned());
    }
    let room = Room {
        values: Cell::new(MOST_VALUES),
        text: Cell::new(MOST_TEXT),
    };
    Seed(&room)
        .deserialize(serde_yaml::Deserializer::from_str(text))
        .map_err(|error| super::clipped(&error.to_string().replace('\n', " "), 300))
}

/// The most steps that the parser could take, whatever the text means: brackets and anchors in quoted text are counted too.
fn effort(text: &str) -> u64 {
    let (mut open, mut deepest, mut anchors, mut before) = (0_u64, 0, 0_u64, b'\n');
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            b'&' if before.is_ascii_whitespace() || b"[{,:-?".contains(&before) => anchors += 1,
            _ => {}
        }
        deepest = deepest.max(open);
        before = byte;
    }
    (text.len() as u64).saturating_mul(1 + deepest + anchors)
}

struct Room {
    values: Cell<usize>,
    text: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Seed<'a>(&'a Room);

impl Seed<'_> {
    fn take<E: de::Error>(self, value: Value, text: usize) -> Result<Value, E> {
        let left = self.0.values.get().checked_sub(1);
        let text_left = self.0.text.get().checked_sub(text);
        let (Some(left), Some(text_left)) = (left, text_left) else {
            return Err(E::custom(format_args!(
                "it unfolds to more than {MOST_VALUES} values or {} MiB of text",
                MOST_TEXT / 1024 / 1024
            )));
        };
        self.0.values.set(left);
        self.0.text.set(text_left);
        Ok(value)
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what JSON has too")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        self.take(Value::Null, 0)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        self.take(value.into(), 0)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        self.take(value.into(), 0)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        self.take(value.into(), 0)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value)
            .ok_or_else(|| E::custom(format_args!("`{value}` is no number of JSON")))?;
        self.take(number.into(), 0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.take(text.into(), text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        self.take(items.into(), 0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let length = key.len();
            let value = access.next_value_seed(self)?;
            if fields.insert(key, value).is_some() {
                return Err(de::Error::custom("a key stands twice in one map"));
            }
            self.take::<A::Error>(Value::Null, length)?;
        }
        self.take(fields.into(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(text: &str) -> Result<Value, String> {
        super::parse(text, Duration::from_secs(60))
    }

    #[test]
    fn yaml_becomes_what_json_would_say() {
        let text = "a: [1, -2, 1.5, yes, true, ~]\nb: &x { c: d }\ne: *x\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": [1, -2, 1.5, "yes", true, null], "b": {"c": "d"}, "e": {"c": "d"}})
        );
    }

    #[test]
    fn what_unfolds_beyond_measure_is_refused_before_it_does() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let inner = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
        }
        assert!(parse(&bomb).is_err());
        let text = "x".repeat(1024 * 1024);
        let repeated = format!("a: &a {text}\nb: [{}]\n", vec!["*a"; 100].join(", "));
        assert!(parse(&repeated).unwrap_err().contains("unfolds"));
    }

    #[test]
    fn what_would_take_the_parser_too_long_is_refused_before_it_begins() {
        let lines =
            |count, line: fn(u32) -> String| (0..count).map(line).collect::<Vec<_>>().concat();
        let anchors = lines(100_000, |number| format!("- &a{number} x\n"));
        for hostile in [
            anchors,
            "[".repeat(1_000_000),
            "{".repeat(200_000) + &"a, ".repeat(100_000),
            "- ".to_owned() + &"[".repeat(3_000) + &"a,".repeat(500_000),
        ] {
            assert!(parse(&hostile).unwrap_err().contains("bounded time"));
        }
        let large = "- a\n".repeat(MOST_BYTES / 4 + 1);
        assert!(parse(&large).unwrap_err().contains("larger than 2.0 MiB"));
        // Much of everything, and harmless.
        let text = "url: http://a/?b=c&d=e&f=g\n".replace("url", "k");
        let long = lines(2_000, |number| format!("k{number}: \"[0m [a, {{b}}]\"\n"));
        let shared = format!("x: &x 1\n{long}y: *x\n");
        for fine in [text, shared] {
            assert!(parse(&fine).is_ok(), "{fine:.80}");
        }
    }

    #[test]
    fn what_could_not_be_parsed_in_a_checks_time_is_not_begun() {
        // The estimate takes each bracket for closed, and the parser none.
        let deceiving = |bytes: usize| "[\"]\",".repeat(bytes / 5);
        for (millis, bytes) in [(0, 0), (1, 214), (100, 21_474), (9_000, 1_932_732)] {
            let limit = Duration::from_millis(millis);
            let most = Effort::within(limit);
            assert_eq!(most.bytes, bytes);
            let worst = bytes as u64 * DEEPEST;
            assert!(worst <= millis * STEPS_IN_MILLISECOND, "{millis}");
            let text = deceiving(bytes + 5);
            assert!(effort(&text) <= 2 * text.len() as u64);
            let refused = super::parse(&text, limit).unwrap_err();
            assert!(refused.contains("larger than"), "{refused}");
        }
        let longest = Effort::within(Duration::MAX);
        assert_eq!((longest.steps, longest.bytes), (MOST_STEPS, MOST_BYTES));
    }

    #[test]
    fn what_json_has_not_is_refused_on_one_line() {
        for bad in [
            "a: !t x",
            "? [1]\n: x",
            "a: .nan",
            "a: 1\na: 2",
            "a: 1\n---\nb: 2",
            "a: [",
        ] {
            assert!(!parse(bad).unwrap_err().contains('\n'), "{bad}");
        }
    }
}
