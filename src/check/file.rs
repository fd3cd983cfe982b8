//! `file`: one file of the workspace, as the agent left it.
//!
//! The path is the task file's, and what stands there is the agent's: a link that leads out, a device or a file without
//! end is told and never opened or read.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::globs::leaves;
use super::shape::Shape;
use super::words::Words;
use super::{
    Build, Check, CheckContext, Finding, Problem, QUICK, SchemaSpec, TimeSpan, World, clipped,
    time_limit, yaml,
};
use crate::policy::FileKind;
use crate::workspace;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;

/// Looks at one file of the workspace. All that is given must hold; where nothing is, the file has to exist.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// The file, relative to the workspace.
    #[schemars(length(min = 1))]
    pub path: String,
    /// The file exists. It does as well where its content is looked at.
    pub exists: Option<bool>,
    /// Nothing stands at the path.
    pub absent: Option<bool>,
    /// The file contains this text, letter by letter.
    #[schemars(length(min = 1))]
    pub contains: Option<String>,
    /// The file does not contain this text.
    #[schemars(length(min = 1))]
    pub not_contains: Option<String>,
    /// This regular expression matches somewhere in the file.
    pub matches: Option<String>,
    /// The file is JSON with these values: by JSON Pointer, as in `/version: "1.2"`.
    pub json: Option<BTreeMap<String, Value>>,
    /// The file is YAML with these values: by JSON Pointer.
    pub yaml: Option<BTreeMap<String, Value>>,
    /// The file fits this JSON Schema. It is read as YAML if its name ends so or `yaml` is given, else as JSON.
    pub schema: Option<SchemaSpec>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

#[derive(Debug, Clone)]
struct Content {
    path: String,
    absent: bool,
    words: Words,
    shape: Shape,
    is_yaml: bool,
}

#[derive(Debug)]
struct File {
    content: Content,
    time_limit: Duration,
}

impl Build for FileSpec {
    fn build(self, world: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        let path = self
            .path
            .strip_prefix("./")
            .unwrap_or(&self.path)
            .to_owned();
        if path.is_empty() {
            problems.push(Problem::field("path", "the path is empty", None));
        } else if leaves(&path) {
            let message = format!("the path `{}` leaves the workspace", clipped(&path, 80));
            let hint = "a path is relative to the workspace, as in `out/report.json`".to_owned();
            problems.push(Problem::field("path", message, Some(hint)));
        }
        for (name, value, other) in [
            ("exists", self.exists, "absent"),
            ("absent", self.absent, "exists"),
        ] {
            if value == Some(false) {
                let message = format!("`{name}: false` demands nothing");
                let hint = format!("write `{other}: true`, or leave it out");
                problems.push(Problem::field(name, message, Some(hint)));
            }
        }
        if self.json.is_some() && self.yaml.is_some() {
            let hint = Some("write two checks".to_owned());
            problems.push(Problem::field(
                "yaml",
                "a file is JSON or YAML, not both",
                hint,
            ));
        }
        let time_limit = time_limit(self.timeout, QUICK, &mut problems);
        let words = Words::new(
            self.contains,
            self.not_contains,
            self.matches,
            &mut problems,
        );
        let by_name = Path::new(&path).extension().is_some_and(|name| {
            name.eq_ignore_ascii_case("yaml") || name.eq_ignore_ascii_case("yml")
        });
        let is_yaml = self.json.is_none() && (self.yaml.is_some() || by_name);
        let paths = if is_yaml {
            ("yaml", self.yaml)
        } else {
            ("json", self.json)
        };
        let shape = Shape::new(self.schema, paths, world.directory, &mut problems);
        let absent = self.absent == Some(true);
        if absent && (self.exists == Some(true) || !words.is_empty() || !shape.is_empty()) {
            problems.push(Problem::field(
                "absent",
                "a file that is absent has no content",
                Some("remove `absent`, or what is demanded of the content".to_owned()),
            ));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let content = Content {
            path,
            absent,
            words,
            shape,
            is_yaml,
        };
        Ok(Arc::new(File {
            content,
            time_limit,
        }))
    }
}

#[async_trait]
impl Check for File {
    fn kind(&self) -> &'static str {
        "file"
    }

    fn title(&self) -> String {
        let content = &self.content;
        let mut demands = content.words.titles();
        demands.extend(content.shape.titles());
        let demands = match (content.absent, demands.is_empty()) {
            (true, _) => "is absent".to_owned(),
            (false, true) => "exists".to_owned(),
            (false, false) => demands.join(" and "),
        };
        format!("file `{}` {demands}", clipped(&content.path, 120))
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        let (looked, root) = (self.content.clone(), context.workspace.root().to_path_buf());
        let limit = self.time_limit;
        let work = tokio::task::spawn_blocking(move || looked.look(&root, limit));
        within(limit, work).await
    }
}

/// The finding of work that goes on elsewhere; work that takes longer than its limit is given up, and ends by itself.
async fn within(limit: Duration, work: JoinHandle<Finding>) -> Finding {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(finding)) => finding,
        Ok(Err(error)) => Finding::errored(format!("the file could not be looked at: {error}")),
        Err(_) => Finding::errored(format!(
            "the file was not looked at within the time limit of {}",
            TimeSpan(limit)
        )),
    }
}

impl Content {
    fn look(&self, root: &Path, limit: Duration) -> Finding {
        let shown = format!("`{}`", clipped(&self.path, 200));
        let Some(facts) = workspace::resolve(root, &self.path) else {
            // The agent's doing: it closed a directory on the way, or put a file or a loop of links there.
            return Finding::undecided(format!(
                "{shown} could not be looked at: the way to it is closed, or leads through something that is no directory"
            ));
        };
        let is_there = facts.kind != FileKind::Missing || facts.dangling;
        if self.absent {
            return if is_there {
                Finding::failed(format!("{shown} is there"))
            } else {
                Finding::passed()
            };
        }
        if !facts.physical.starts_with(root) {
            return Finding::undecided(format!(
                "{shown} is a link that leads out of the workspace"
            ));
        }
        match facts.kind {
            FileKind::Missing => {
                let why = format!("{shown} does not exist");
                // Where its content is asked for, a misspelt path would let `not` pass for ever.
                return if self.demands_content() {
                    Finding::undecided(why)
                } else {
                    Finding::failed(why)
                };
            }
            FileKind::Directory => return Finding::undecided(format!("{shown} is a directory")),
            FileKind::Special => {
                return Finding::undecided(format!(
                    "{shown} is no regular file but a pipe, a socket or a device"
                ));
            }
            FileKind::File => {}
        }
        if !self.demands_content() {
            return Finding::passed();
        }
        match workspace::read_file(&facts.physical, LARGEST) {
            Ok(bytes) => self.judge(&shown, &String::from_utf8_lossy(&bytes), limit),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Finding::undecided(format!(
                    "{shown} is larger than {} MiB, which is the most that a check reads",
                    LARGEST / 1024 / 1024
                ))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Finding::undecided(format!("{shown} may not be read"))
            }
            Err(error) => Finding::errored(format!("{shown} could not be read: {error}")),
        }
    }

    fn demands_content(&self) -> bool {
        !self.words.is_empty() || !self.shape.is_empty()
    }

    fn judge(&self, shown: &str, text: &str, limit: Duration) -> Finding {
        let mut broken = self.words.broken(shown, text);
        let mut decisive = true;
        if !self.shape.is_empty() {
            let (format, parsed) = if self.is_yaml {
                ("YAML", yaml::parse(text, limit))
            } else {
                let parsed = serde_json::from_str(text);
                (
                    "JSON",
                    parsed.map_err(|error: serde_json::Error| error.to_string()),
                )
            };
            match parsed {
                Ok(value) => broken.extend(self.shape.broken(shown, &value)),
                Err(why) => {
                    decisive = !broken.is_empty();
                    broken.push(format!("{shown} is not {format}: {why}"));
                }
            }
        }
        Finding {
            decisive,
            ..Finding::judged(&broken)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::world;
    use super::*;
    use crate::event::CheckResult::{Failed, Passed};
    use serde_json::json;
    use std::fs;

    fn content(spec: Value) -> Content {
        let spec: FileSpec = serde_json::from_value(spec).unwrap();
        let mut problems = Vec::new();
        let is_yaml = spec.path.ends_with("yaml");
        let paths = if is_yaml { spec.yaml } else { spec.json };
        Content {
            path: spec.path,
            absent: spec.absent.unwrap_or_default(),
            words: Words::new(
                spec.contains,
                spec.not_contains,
                spec.matches,
                &mut problems,
            ),
            shape: Shape::new(spec.schema, ("json", paths), Path::new("/"), &mut problems),
            is_yaml,
        }
    }

    fn look(root: &Path, spec: Value) -> Finding {
        content(spec).look(&root.canonicalize().unwrap(), QUICK)
    }

    fn problems(spec: Value) -> Vec<String> {
        let spec: FileSpec = serde_json::from_value(spec).unwrap();
        let built = spec.build(world());
        built
            .err()
            .unwrap_or_default()
            .iter()
            .map(Problem::place)
            .collect()
    }

    #[test]
    fn a_file_is_looked_at_by_words_and_by_shape() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.json"), r#"{"v": "1.2", "list": [1, 2]}"#).unwrap();
        fs::write(dir.path().join("b.yaml"), "on: [push]\njobs: { x: 1 }\n").unwrap();
        for (spec, result) in [
            (json!({"path": "a.json"}), Passed),
            (json!({"path": "none"}), Failed),
            (json!({"path": "none", "absent": true}), Passed),
            (json!({"path": "a.json", "absent": true}), Failed),
            (
                json!({"path": "a.json", "json": {"/v": "1.2", "/list/1": 2}}),
                Passed,
            ),
            (json!({"path": "a.json", "json": {"/v": "1.3"}}), Failed),
            (
                json!({"path": "a.json", "schema": {"required": ["v"]}}),
                Passed,
            ),
            (
                json!({"path": "a.json", "schema": {"required": ["w"]}}),
                Failed,
            ),
            (
                json!({"path": "b.yaml", "yaml": {"/on/0": "push", "/jobs": {"x": 1}}}),
                Passed,
            ),
            (
                json!({"path": "b.yaml", "contains": "push", "not_contains": "pull"}),
                Passed,
            ),
            (json!({"path": "b.yaml", "matches": "(?m)^on:"}), Passed),
            (json!({"path": "b.yaml", "matches": "^jobs:"}), Failed),
        ] {
            let finding = look(dir.path(), spec.clone());
            assert_eq!(finding.result, result, "{spec} {finding:?}");
        }
    }

    #[test]
    fn what_an_agent_may_put_there_neither_leads_out_nor_holds_us_up() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        symlink("/etc/hostname", dir.path().join("out")).unwrap();
        symlink("/dev/zero", dir.path().join("device")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        fs::create_dir(dir.path().join("dir")).unwrap();
        fs::File::create(dir.path().join("huge"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap());
        for path in ["out", "device", "loop", "dir", "huge", "socket"] {
            let finding = look(dir.path(), json!({"path": path, "not_contains": "x"}));
            assert_ne!(finding.result, Passed, "{path}");
            let absent = look(dir.path(), json!({"path": path, "absent": true}));
            assert_eq!(absent.result, Failed, "{path}");
        }
        // None of these says that the opposite holds.
        for path in ["out", "device", "dir", "huge", "socket", "loop", "none"] {
            assert!(
                !look(dir.path(), json!({"path": path, "contains": "x"})).decisive,
                "{path}"
            );
        }
        assert!(look(dir.path(), json!({"path": "none"})).decisive);
        fs::write(dir.path().join("garbage"), "{").unwrap();
        let garbage = |spec: Value| look(dir.path(), spec).decisive;
        assert!(!garbage(json!({"path": "garbage", "json": {"/a": 1}})));
        assert!(garbage(
            json!({"path": "garbage", "json": {"/a": 1}, "contains": "x"})
        ));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_takes_too_long_is_given_up() {
        let never = tokio::spawn(std::future::pending());
        let finding = within(QUICK, never).await;
        assert_eq!(finding.result, crate::event::CheckResult::Errored);
        assert!(finding.message.contains("time limit of 1m"), "{finding:?}");
    }

    #[test]
    fn contradictions_are_refused_at_their_places() {
        assert_eq!(problems(json!({"path": "/etc/passwd"})), ["path"]);
        assert_eq!(problems(json!({"path": "a", "exists": false})), ["exists"]);
        assert_eq!(
            problems(json!({"path": "a", "absent": true, "contains": "x"})),
            ["absent"]
        );
        assert_eq!(
            problems(json!({"path": "a", "json": {"/a": 1}, "yaml": {"/a": 1}})),
            ["yaml"]
        );
        assert_eq!(
            problems(json!({"path": "a", "matches": "(", "schema": {"type": 3}, "timeout": "0s"})),
            ["timeout", "matches", "schema"]
        );
    }
}
