//! Faults that a script plays. Each becomes the same [`Failure`] as the real thing, and so meets the same schedule.

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::json;

use crate::model::failure::{Failure, Head};
use crate::model::http;

/// A fault and how often it strikes within one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    kind: Kind,
    /// Seconds or a date, as a server would send it.
    retry_after: Option<String>,
    /// The tries that fail; `None`: every one, or, where a reply stands beside the fault, one.
    pub(super) times: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Status(u16),
    SpendLimit,
    PromptTooLong,
    Overloaded,
    Cut,
    Truncate,
    Stall,
}

/// Names of faults that are no status.
const NAMES: [(&str, Kind); 6] = [
    ("cut", Kind::Cut),
    ("truncate", Kind::Truncate),
    ("stall", Kind::Stall),
    ("overloaded", Kind::Overloaded),
    ("spend_limit", Kind::SpendLimit),
    ("prompt_too_long", Kind::PromptTooLong),
];

impl Fault {
    /// The failure of one try.
    pub(super) fn failure(&self, model: &str) -> Failure {
        let status = |status: u16, kind: &str, message: &str, code: Option<&str>| {
            let head = Head {
                status,
                retry_after: self.retry_after.as_deref(),
                ..Head::default()
            };
            let body = json!({"error": {"type": kind, "message": message, "details": {"error_code": code}}});
            Failure::of_status(head, body.to_string().as_bytes(), model)
        };
        match self.kind {
            Kind::Status(code) => status(code, error_type(code), "played by the script", None),
            Kind::SpendLimit => status(
                429,
                error_type(429),
                "played by the script",
                Some("enforced_spend_limit_reached"),
            ),
            Kind::PromptTooLong => status(400, error_type(400), "prompt is too long", None),
            Kind::Overloaded => Failure::of_error(
                &json!({"type": "overloaded_error", "message": "played by the script"}),
                model,
            ),
            Kind::Cut => Failure::passing("the connection to the API broke: played by the script"),
            Kind::Truncate => Failure::passing("the API's answer ended before it was complete"),
            Kind::Stall => http::stalled("sent nothing", Duration::from_secs(120)),
        }
    }
}

/// The API's own word for a status.
fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        let status = name.parse().ok().and_then(Self::status);
        status.or_else(|| {
            NAMES
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, kind)| *kind)
        })
    }

    fn status(code: u64) -> Option<Self> {
        let code = u16::try_from(code)
            .ok()
            .filter(|code| (400..=599).contains(code))?;
        Some(Self::Status(code))
    }
}

fn expected() -> String {
    let names: Vec<String> = NAMES.iter().map(|(name, _)| format!("`{name}`")).collect();
    format!("a status from 400 to 599 or one of {}", names.join(", "))
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StatusOrName;

        impl Visitor<'_> for StatusOrName {
            type Value = Kind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&expected())
            }

            fn visit_u64<E: Error>(self, code: u64) -> Result<Kind, E> {
                Kind::status(code)
                    .ok_or_else(|| E::custom(format!("expected {}, found `{code}`", expected())))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Kind, E> {
                Kind::named(name)
                    .ok_or_else(|| E::custom(format!("expected {}, found `{name}`", expected())))
            }
        }

        deserializer.deserialize_any(StatusOrName)
    }
}

/// `retry_after: 2` and `retry_after: "Sun, 06 Nov ..."`.
fn retry_after<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Wait {
        Seconds(f64),
        Text(String),
    }
    Ok(match Option::<Wait>::deserialize(deserializer)? {
        None => None,
        Some(Wait::Seconds(seconds)) => Some(seconds.to_string()),
        Some(Wait::Text(text)) => Some(text),
    })
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Long {
            #[serde(alias = "status")]
            kind: Kind,
            #[serde(default, deserialize_with = "retry_after")]
            retry_after: Option<String>,
            times: Option<u32>,
        }

        struct ShortOrLong;

        impl<'de> Visitor<'de> for ShortOrLong {
            type Value = Fault;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "{}, or a map with `kind`, `retry_after` and `times`",
                    expected()
                )
            }

            fn visit_u64<E: Error>(self, code: u64) -> Result<Fault, E> {
                Kind::deserialize(serde::de::value::U64Deserializer::new(code)).map(Fault::of)
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Fault, E> {
                Kind::deserialize(serde::de::value::StrDeserializer::new(name)).map(Fault::of)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fault, A::Error> {
                let long = Long::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Fault {
                    retry_after: long.retry_after,
                    times: long.times,
                    ..Fault::of(long.kind)
                })
            }
        }

        deserializer.deserialize_any(ShortOrLong)
    }
}

impl Fault {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            retry_after: None,
            times: None,
        }
    }
}
