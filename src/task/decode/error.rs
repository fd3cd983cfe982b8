//! Why a tree does not fit a type, in the words of a task file: what was expected, what was found, what to write.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::super::diagnostic::{one_line, quoted};
use super::super::suggest::{nearest, one_of};
use super::super::tree::{Half, Path, Problem, Step, Tree};
use super::Trail;

/// Why a tree does not fit a type.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) path: Option<Path>,
    half: Half,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    UnknownKey(String, &'static [&'static str]),
    UnknownWord(String, &'static [&'static str]),
    Missing(&'static str),
    /// Nothing is left here because all of it was reported.
    FollowUp,
    Other(String),
}

impl Error {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            path: None,
            half: Half::Value,
            kind,
        }
    }

    /// The innermost place wins.
    pub(super) fn at(mut self, trail: &Trail<'_>, half: Half) -> Self {
        if self.path.is_none() {
            self.path = Some(trail.path());
            self.half = half;
        }
        self
    }

    pub(super) fn problem(self, tree: &Tree) -> Problem {
        let path = self.path.unwrap_or_default();
        let (message, hint) = match self.kind {
            Kind::UnknownKey(key, allowed) => unknown_key(&path, &key, allowed),
            Kind::UnknownWord(word, allowed) if self.half == Half::Key => {
                unknown_key(&path, &word, allowed)
            }
            Kind::UnknownWord(word, allowed) => {
                let is_check = matches!(path.0.as_slice(), [.., Step::Key(key), Step::Index(_)] if key == "checks");
                let meant = nearest(&word, allowed).map(|meant| format!("did you mean `{meant}`?"));
                let hint = meant.or_else(|| {
                    is_check.then(|| {
                        format!(
                            "write\nchecks:\n  - command: {{ run: {} }}",
                            yaml_word(&word)
                        )
                    })
                });
                let message = format!("expected {}, found {}", one_of(allowed), quoted(&word));
                (message, hint)
            }
            Kind::Missing(name) => (format!("the key `{name}` is missing here"), None),
            Kind::FollowUp => ("nothing is left here".to_owned(), None),
            Kind::Other(message) => {
                let found = tree.get(&path);
                let hint = hint_for(found, &message).or_else(|| example(&path, found?, &message));
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
const ELSEWHERE: [(&str, &str, &str); 5] = [
    (
        "permissions",
        "ask",
        "nobody can be asked in a run without a person: put the rule under `allow` or `deny`",
    ),
    ("permissions", "defaultMode", "write `mode`"),
    ("", "repeat", "write `trials`"),
    ("", "retry", "write `retries`"),
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
    (
        "workspace",
        &["path", "isolation", "ref", "include_ignored"],
    ),
];

/// The events that happen, of all whose names are known.
const EVENTS: [&str; 6] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SessionStart",
    "SessionEnd",
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
    let deeper = |choose: fn(&str, &[&str]) -> Option<String>| {
        DEEPER.iter().find_map(|(map, keys)| {
            let meant = choose(key, keys).filter(|_| allowed.contains(map))?;
            Some(format!("write `{meant}` under `{map}`"))
        })
    };
    let exact = |key: &str, keys: &[&str]| keys.contains(&key).then(|| key.to_owned());
    let similar = |key: &str, keys: &[&str]| nearest(key, keys).map(ToOwned::to_owned);
    let hint = elsewhere
        .or_else(|| deeper(exact))
        .or_else(|| nearest(key, allowed).map(|meant| format!("did you mean `{meant}`?")))
        .or_else(|| deeper(similar))
        .or_else(|| {
            (parent == "hooks").then(|| {
                format!(
                    "the events are {}",
                    one_of(&EVENTS).replace(" or ", " and ")
                )
            })
        })
        .unwrap_or_else(|| {
            format!(
                "the keys here are {}",
                one_of(allowed).replace(" or ", " and ")
            )
        });
    (format!("unknown key {}", quoted(key)), Some(hint))
}

/// How a map or a list is written, by its key. `{}` stands for the text that was found in its place.
const EXAMPLES: [(&str, &str); 34] = [
    ("all", "all:\n  - command: { run: cargo test }"),
    ("any", "any:\n  - command: { run: cargo test }"),
    ("calls", "calls:\n  required: [Edit]"),
    ("changed", "changed:\n  only: [\"src/**\"]"),
    ("checks", "checks:\n  - command: { run: cargo test }"),
    ("command", "command:\n  run: {}"),
    ("cost", "cost:\n  at_most: 0.50"),
    ("defaults", "defaults:\n  model: anthropic/claude-sonnet-5"),
    ("denials", "denials:\n  at_most: 0"),
    ("file", "file:\n  path: {}"),
    ("hooks", "hooks:\n  PreToolUse: [{ command: [./check.sh] }]"),
    ("json", "json:\n  /version: 1"),
    ("judge", "judge:\n  rubric: {}"),
    ("limits", "limits:\n  max_steps: 20"),
    ("matrix", "matrix:\n  crate: [parser, lexer]"),
    ("network", "network:\n  hosts: [docs.rs]"),
    ("not", "not:\n  file: { path: {} }"),
    ("output", "output:\n  json: { /version: 1 }"),
    ("output_schema", "output_schema:\n  type: object"),
    ("permissions", "permissions:\n  mode: default"),
    ("policy", "policy:\n  modes: [strict, default]"),
    ("reply", "reply:\n  contains: {}"),
    ("schema", "schema:\n  type: object"),
    ("steps", "steps:\n  at_most: 15"),
    ("time", "time:\n  at_most: 5m"),
    ("tokens", "tokens:\n  at_most: 100000"),
    ("trials", "trials:\n  count: 5"),
    ("workspace", "workspace:\n  path: {}"),
    ("yaml", "yaml:\n  /version: 1"),
    ("PreToolUse", "PreToolUse:\n  - command: [./check.sh]"),
    ("PostToolUse", "PostToolUse:\n  - command: [./check.sh]"),
    ("Stop", "Stop:\n  - command: [./check.sh]"),
    ("SessionStart", "SessionStart:\n  - command: [./check.sh]"),
    ("SessionEnd", "SessionEnd:\n  - command: [./check.sh]"),
];

/// The right form of what has the wrong one, as two lines of a task file.
fn example(path: &Path, found: &Tree, message: &str) -> Option<String> {
    let (key, in_list) = match path.0.as_slice() {
        [.., Step::Key(key)] => (key.as_str(), false),
        [.., Step::Key(key), Step::Index(_)] => (key.as_str(), true),
        _ => return None,
    };
    let text = match found {
        Tree::Text(text) => Some(yaml_word(text)),
        _ => None,
    };
    let wants_list = message.starts_with("expected a list");
    let lines = if wants_list
        && !in_list
        && let Some(text) = &text
    {
        format!("{key}:\n  - {text}")
    } else if message.starts_with("expected text") && matches!(found, Tree::Map(_)) {
        return Some("put the text in quotes if it holds `: ` or begins with `{`".to_owned());
    } else if message.starts_with("expected text") && matches!(found, Tree::List(_)) && !in_list {
        format!("{key}: |\n  the text")
    } else if message.starts_with("expected a span of time") && !in_list {
        return Some(format!("write a unit, as in `{key}: 90s` or `{key}: 10m`"));
    } else if message.starts_with("expected a whole number")
        || message.starts_with("expected a number")
    {
        return text.and_then(|text| {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            (!digits.is_empty())
                .then(|| format!("write the digits alone, without quotes: `{key}: {digits}`"))
        });
    } else if message.starts_with("expected a map") || wants_list {
        // A hook's command is a list, that of a check a map.
        let known = EXAMPLES
            .iter()
            .filter(|_| !in_list)
            .find(|(name, _)| *name == key);
        match known {
            Some((_, lines)) => lines.replace("{}", text.as_deref().unwrap_or("..")),
            None if wants_list => format!("{key}:\n  - .."),
            None if in_list => format!("{key}:\n  - key: value"),
            None => format!("{key}:\n  key: value"),
        }
    } else {
        return None;
    };
    Some(format!("write\n{lines}"))
}

/// A text as YAML takes it for one; cut short, since it is an example.
fn yaml_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let word = one_line(text, 40);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "''"))
    }
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

pub(super) fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number `{value}`"),
        Unexpected::Signed(value) => format!("the number `{value}`"),
        Unexpected::Float(value) => format!("the number `{value:?}`"),
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
