//! What a command wrote, and what is demanded of one of its streams. Shared by the parts of [`command`](super::command).

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::shape::Shape;
use super::words::Words;
use super::{Finding, Problem, SchemaSpec, Step};
use crate::event::CheckResult;
use crate::proc::Captured;

/// How much of each stream is looked at, in bytes: its beginning and its end. As much as of a file.
pub(super) const KEPT_OUTPUT: usize = 8 * 1024 * 1024;

/// Demands on one output stream. All that is given must hold; at least one must be given.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct StreamSpec {
    /// It contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// It does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
    /// This regular expression matches somewhere in it.
    pub matches: Option<String>,
    /// It is JSON with these values: by JSON Pointer, as in `/passed: true`.
    pub json: Option<BTreeMap<String, Value>>,
    /// It is JSON that fits this schema.
    pub schema: Option<SchemaSpec>,
}

/// Demands on one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    words: Words,
    shape: Shape,
}

impl Stream {
    /// Reads the demands; what is wrong is added to `problems` below the stream's name.
    pub(super) fn new(
        name: &str,
        spec: Option<StreamSpec>,
        directory: &Path,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let Some(spec) = spec else {
            return Self::default();
        };
        let mut found = Vec::new();
        let stream = Self {
            words: Words::new(spec.contains, spec.not_contains, spec.matches, &mut found),
            shape: Shape::new(spec.schema, ("json", spec.json), directory, &mut found),
        };
        if stream.words.is_empty() && stream.shape.is_empty() && found.is_empty() {
            let hint =
                "give at least one of `contains`, `not_contains`, `matches`, `json`, `schema`";
            found.push(Problem::whole(format!("`{name}` demands nothing"), hint));
        }
        let key = Step::Key(name.to_owned());
        problems.extend(found.into_iter().map(|problem| problem.below(key.clone())));
        stream
    }

    pub(super) fn titles(&self, name: &str) -> Vec<String> {
        let mut titles = self.words.titles();
        titles.extend(self.shape.titles());
        titles
            .iter()
            .map(|title| format!("{name} {title}"))
            .collect()
    }

    pub(super) fn broken(&self, name: &str, output: &Output) -> Broken {
        let mut broken = output.broken(name, &self.words);
        if self.shape.is_empty() {
            return broken;
        }
        if output.is_cut {
            broken.unknown(Output::too_long(name));
            return broken;
        }
        match serde_json::from_str(&output.text) {
            Ok(value) => broken.known(self.shape.broken(name, &value)),
            Err(error) => broken.unknown(format!("{name} is not JSON: {error}")),
        }
        broken
    }
}

/// What a command wrote.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) text: String,
    /// Whether `text` is only the beginning and the end.
    is_cut: bool,
}

impl Output {
    pub(super) fn of(captured: &Captured) -> Self {
        Self {
            text: captured.text.clone(),
            is_cut: captured.bytes > KEPT_OUTPUT as u64,
        }
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        if other.text.is_empty() {
            return self.clone();
        }
        Self {
            text: format!("{}\n{}", self.text, other.text),
            is_cut: self.is_cut || other.is_cut,
        }
    }

    fn too_long(name: &str) -> String {
        format!(
            "{name} is larger than {} MiB, which is the most that a check reads",
            KEPT_OUTPUT / 1024 / 1024
        )
    }

    /// What was found is there, also in an output that is cut. That something is not there, nobody knows of such a one.
    pub(super) fn broken(&self, name: &str, words: &Words) -> Broken {
        let found = words.broken(name, &self.text);
        let mut broken = Broken::default();
        if !self.is_cut {
            broken.known(found);
            return broken;
        }
        for sentence in found {
            broken.unknown(sentence);
        }
        if words.not_contains.is_some() && broken.sentences.is_empty() {
            broken.unknown(Self::too_long(name));
        }
        broken
    }
}

/// What does not hold of an output.
#[derive(Debug, Default)]
pub(super) struct Broken {
    sentences: Vec<String>,
    /// Whether one of them says that the opposite holds.
    is_decisive: bool,
}

impl Broken {
    fn known(&mut self, sentences: Vec<String>) {
        self.is_decisive |= !sentences.is_empty();
        self.sentences.extend(sentences);
    }

    fn unknown(&mut self, sentence: String) {
        self.sentences.push(sentence);
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.is_decisive |= other.is_decisive;
        self.sentences.extend(other.sentences);
        self
    }

    pub(super) fn finding(&self) -> Finding {
        let finding = Finding::judged(&self.sentences);
        Finding {
            decisive: self.is_decisive || finding.result == CheckResult::Passed,
            ..finding
        }
    }
}
