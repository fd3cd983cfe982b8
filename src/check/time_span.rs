//! A span of time as task files write it: `90s`, `10m`, `1h 30m`.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A span of time with its unit, as in `10m`. A bare number is refused, because nobody can tell seconds from
/// milliseconds by looking at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeSpan(pub Duration);

impl std::fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (millis.into(), "ms"),
        ];
        if parts.iter().all(|(count, _)| *count == 0) {
            return f.write_str("0s");
        }
        for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{count}{unit}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = TimeSpan;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a span of time with a unit, as in `90s`, `10m` or `1h`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeSpan, E> {
                // The parser takes a lone `0`, which has no unit either.
                let parsed = humantime::parse_duration(text).ok();
                parsed
                    .filter(|_| text.trim() != "0")
                    .map(TimeSpan)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A span of time with a unit, as in `90s`, `10m` or `1h 30m`.",
            "pattern": "^([0-9]+\\s*[a-zA-Z]+\\s*)+$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Duration> {
        serde_json::from_value::<TimeSpan>(text.into())
            .ok()
            .map(|span| span.0)
    }

    #[test]
    fn a_span_has_a_unit() {
        assert_eq!(parse("90s"), Some(Duration::from_secs(90)));
        assert_eq!(parse("1h 30m"), Some(Duration::from_secs(5400)));
        for bad in ["", "0", "10", "-5s", "10 parsecs", "99999999999999999999h"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_span_is_shown_as_it_can_be_written() {
        for (millis, shown) in [
            (0, "0s"),
            (5_400_000, "1h30m"),
            (90_000, "1m30s"),
            (90_000_000, "25h"),
            (1_500, "1s500ms"),
        ] {
            assert_eq!(TimeSpan(Duration::from_millis(millis)).to_string(), shown);
        }
    }
}
