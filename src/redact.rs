//! Secrets, and their removal from everything that is stored or shown.
//!
//! [`Redactor`] knows the exact values of the secrets that the run was given and replaces each by
//! `***`, in the forms in which a value usually travels ([`forms`]). It is a **second line**: a program that
//! wants to hide a value from it can. The first line is that children do not get the secret.
//!
//! A value shorter than [`SHORTEST`] bytes is not looked for: `true` or `8080` as a secret would
//! shred every text and hide nothing. [`Redactor::refused`] counts them, so that the caller can warn.
//!
//! Matching is over bytes, leftmost first and longest first, in one pass for all secrets.

mod content;
mod forms;
mod stream;

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub use stream::RedactStream;

/// What stands where a secret stood.
pub const MARK: &str = "***";

/// The shortest value, in bytes, that is looked for.
pub const SHORTEST: usize = 8;

/// A value that is never printed, stored or compared in the open.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret value.
    #[must_use]
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the one place that needs it (a request header).
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Replaces secret values, and their common encodings, by [`MARK`].
#[derive(Clone, Default)]
pub struct Redactor {
    matcher: Matcher,
    refused: usize,
}

/// What is looked for.
#[derive(Clone, Default)]
enum Matcher {
    /// There is no secret.
    #[default]
    Nothing,
    /// The forms of all secrets.
    Forms {
        automaton: AhoCorasick,
        /// Length of the longest form in bytes.
        longest: usize,
    },
    /// The forms are too many for an automaton: everything counts as secret.
    Everything,
}

/// A value could not be rebuilt after its secrets were taken out. It was not handed on.
#[derive(Debug, thiserror::Error)]
#[error("a value could not be stored without its secrets, so it was dropped: {0}")]
pub struct Unredactable(#[from] serde_json::Error);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(***)")
    }
}

impl Redactor {
    /// A redactor for these values. Blanks around a value do not belong to it.
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        let mut forms = Vec::new();
        let mut refused = 0;
        for secret in secrets {
            let value = secret.expose().trim();
            if value.is_empty() {
                continue;
            }
            if value.len() < SHORTEST || value.chars().all(|c| c == '*') {
                refused += 1;
                continue;
            }
            forms.extend(forms::of(value));
        }
        forms.sort_unstable();
        forms.dedup();
        let Some(longest) = forms.iter().map(Vec::len).max() else {
            return Self {
                matcher: Matcher::Nothing,
                refused,
            };
        };
        let matcher = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms)
            .map_or(Matcher::Everything, |automaton| Matcher::Forms {
                automaton,
                longest,
            });
        Self { matcher, refused }
    }

    /// How many values were too short to be looked for.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// The text without secrets.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        self.redacted(text).into_owned()
    }

    /// The bytes without secrets; they need not be text.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut out = stream.push(bytes);
        out.extend(stream.finish());
        out
    }

    /// Every string (keys too) of a JSON value without secrets. Two keys that become one keep both values, the
    /// second under the key with a number.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redacted(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                for (key, mut field) in std::mem::take(fields) {
                    self.redact_value(&mut field);
                    let key = self.redact_key(&key, fields);
                    fields.insert(key, field);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// A serialisable value with every string in it redacted.
    ///
    /// What the type itself says (names of fields and of variants) stays: it is public, and a
    /// secret that happens to be called `completed` must not break the format. An internally tagged
    /// enum's tag is known by being the first field, called `type`.
    ///
    /// # Errors
    /// The value did not survive the way through JSON; nothing of it is handed on.
    pub fn redact_serialized<T: Serialize + DeserializeOwned>(
        &self,
        value: T,
    ) -> Result<T, Unredactable> {
        if matches!(self.matcher, Matcher::Nothing) {
            return Ok(value);
        }
        match content::redact(self, &value)? {
            Some(clean) => Ok(serde_json::from_value(clean)?),
            None => Ok(value),
        }
    }

    /// Redacts what arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> RedactStream {
        RedactStream::new(self.matcher.clone())
    }

    /// The text, owned only where something was found.
    fn redacted<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.matcher {
            Matcher::Nothing => Cow::Borrowed(text),
            Matcher::Everything if text.is_empty() => Cow::Borrowed(text),
            Matcher::Everything => Cow::Borrowed(MARK),
            Matcher::Forms { automaton, .. } => {
                if !automaton.is_match(text) {
                    return Cow::Borrowed(text);
                }
                let mut out = String::with_capacity(text.len());
                automaton.replace_all_with(text, &mut out, |_, _, out| {
                    out.push_str(MARK);
                    true
                });
                Cow::Owned(out)
            }
        }
    }

    /// A key without secrets that is not yet taken.
    fn redact_key(&self, key: &str, taken: &Map<String, Value>) -> String {
        let clean = self.redacted(key);
        if !taken.contains_key(clean.as_ref()) {
            return clean.into_owned();
        }
        // Begins at a number that is free but for odd keys, so that many equal ones cost no search.
        let mut number = taken.len() + 1;
        loop {
            let key = format!("{clean}{number}");
            if !taken.contains_key(&key) {
                return key;
            }
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CANARY: &str = "s3cr3t/Canary+\"42\"";

    fn redactor(values: &[&str]) -> Redactor {
        let secrets: Vec<Secret> = values
            .iter()
            .map(|v| Secret::new((*v).to_owned()))
            .collect();
        Redactor::new(&secrets)
    }

    #[test]
    fn a_secret_is_replaced_in_every_form_and_the_rest_stays() {
        let redactor = redactor(&[CANARY]);
        assert_eq!(redactor.redact(&format!("a {CANARY} b")), "a *** b");
        for form in forms::of(CANARY) {
            let form = String::from_utf8(form).unwrap();
            assert_eq!(redactor.redact(&format!("<{form}>")), "<***>", "{form}");
        }
        assert_eq!(redactor.redact("nothing here"), "nothing here");
    }

    #[test]
    fn of_two_secrets_the_longer_wins() {
        let redactor = redactor(&["abcdefgh", "abcdefghijkl"]);
        assert_eq!(redactor.redact("xabcdefghijklx abcdefghx"), "x***x ***x");
    }

    #[test]
    fn a_short_value_is_refused_and_counted() {
        let redactor = redactor(&["true", "", "1234567", "  short  ", "********"]);
        assert_eq!(redactor.refused(), 4);
        assert_eq!(redactor.redact("true 1234567"), "true 1234567");
    }

    #[test]
    fn blanks_around_a_value_are_not_part_of_it() {
        assert_eq!(
            redactor(&["hunter2-hunter2\n"]).redact("=hunter2-hunter2;"),
            "=***;"
        );
    }

    #[test]
    fn keys_are_redacted_and_none_is_lost() {
        let mut value =
            json!({"key-abcdefgh": 1, "key-***": 0, "n": ["abcdefgh", {"abcdefgh": null}]});
        redactor(&["abcdefgh"]).redact_value(&mut value);
        assert_eq!(
            value,
            json!({"key-***": 1, "key-***2": 0, "n": ["***", {"***": null}]})
        );
    }

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Tagged {
        ToolFinished {
            tool_use_id: String,
            result: Ending,
            more: Value,
        },
        #[serde(other)]
        Unknown,
    }

    #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Ending {
        TimedOut,
        Cut(String, Option<u8>),
    }

    #[test]
    fn a_value_keeps_its_shape_whatever_word_is_a_secret() {
        let redactor = redactor(&["tool_finished", "timed_out", "tool_use_id"]);
        let value = |text: &str, result| Tagged::ToolFinished {
            tool_use_id: text.into(),
            result,
            more: json!({"type": text, "n": 1.5, "list": [text, true, null]}),
        };
        for result in [
            |_| Ending::TimedOut,
            |text: &str| Ending::Cut(text.into(), Some(1)),
        ] {
            let text = "timed_out, tool_finished and tool_use_id";
            let clean = "***, *** and ***";
            assert_eq!(
                redactor
                    .redact_serialized(value(text, result(text)))
                    .unwrap(),
                value(clean, result(clean))
            );
        }
    }

    #[test]
    fn what_does_not_survive_the_way_is_not_handed_on() {
        #[derive(Serialize, serde::Deserialize)]
        struct Lopsided {
            #[serde(rename(serialize = "out", deserialize = "in"))]
            text: String,
        }
        let value = Lopsided {
            text: "abcdefgh".into(),
        };
        let error = redactor(&["abcdefgh"])
            .redact_serialized(value)
            .err()
            .unwrap();
        assert!(!error.to_string().contains("abcdefgh"), "{error}");
    }

    #[test]
    fn nothing_shows_a_secret() {
        let secret = Secret::new(CANARY.into());
        assert!(!format!("{secret:?} {:?}", redactor(&[CANARY])).contains("Canary"));
    }
}
