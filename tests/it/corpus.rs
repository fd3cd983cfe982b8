//! Every case of `tests/data/corpus`, against real files below a scratch root.
//!
//! The resolver here is the test's own, small and slow: it walks one component at a time and never leaves the scratch
//! root, whatever a link says.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_batch::policy::{
    Action, Call, Denial, Effect, Facts, FileKind, Mode, PathFacts, Permit, Policy, Roots, Rule,
    Source, decide, queries,
};
use serde::Deserialize;
use serde_json::Value;

/// Cases that are not answered as expected yet. The list may only shrink: a case that passes has to leave it.
const NOT_YET: [&str; 0] = [];

const WORKSPACE: &str = "/srv/ci/repo";

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    class: String,
    mode: String,
    allow: Vec<String>,
    deny: Vec<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    pub(crate) command: String,
    #[serde(default)]
    path: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    setup: String,
    pub(crate) expect: String,
    why: String,
}

/// A directory that stands for `/`.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn build(setup: &str) -> Self {
        let world = Self {
            root: tempfile::tempdir().unwrap(),
        };
        for path in [
            "src/a.rs",
            "docs/x.md",
            "README.md",
            ".env",
            ".git/config",
            ".git/HEAD",
            ".github/workflows/ci.yml",
            "task.yaml",
            "agent-batch.yaml",
            "/srv/ci/outside/secret.txt",
            "/srv/ci/repo-evil/x",
        ] {
            world.file(path);
        }
        for step in setup.split("; ").filter(|step| !step.is_empty()) {
            world.step(step);
        }
        world
    }

    /// The place on the disk of a path of this world.
    fn real(&self, path: &str) -> PathBuf {
        let absolute = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{WORKSPACE}/{path}")
        };
        self.root.path().join(absolute.trim_start_matches('/'))
    }

    fn parent(&self, path: &str) -> PathBuf {
        let real = self.real(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        real
    }

    fn file(&self, path: &str) {
        fs::write(self.parent(path), "x").unwrap();
    }

    fn step(&self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap();
        match verb {
            "file" => self.file(rest),
            "dir" => fs::create_dir_all(self.real(rest)).unwrap(),
            "symlink" => {
                let (path, target) = rest.split_once(" -> ").unwrap();
                symlink(target, self.parent(path)).unwrap();
            }
            "hardlink" => {
                let (path, target) = rest.split_once(" -> ").unwrap();
                fs::hard_link(self.real(target), self.parent(path)).unwrap();
            }
            "fifo" => {
                use rustix::fs::{CWD, FileType, Mode, mknodat};
                mknodat(CWD, self.parent(rest), FileType::Fifo, Mode::RWXU, 0).unwrap();
            }
            "socket" => drop(UnixListener::bind(self.parent(rest)).unwrap()),
            "sparse" => {
                let (path, size) = rest.rsplit_once(' ').unwrap();
                let giga: u64 = size.trim_end_matches('G').parse().unwrap();
                fs::File::create(self.parent(path))
                    .unwrap()
                    .set_len(giga << 30)
                    .unwrap();
            }
            other => panic!("unknown step `{other}`"),
        }
    }

    /// Follows a path as the kernel would; `None` where a file is used as a directory.
    fn resolve(&self, path: &str) -> Option<PathFacts> {
        let absolute = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{WORKSPACE}/{path}")
        };
        let mut lexical: Vec<&str> = Vec::new();
        for component in absolute.split('/') {
            match component {
                "" | "." => {}
                ".." => drop(lexical.pop()),
                name => lexical.push(name),
            }
        }
        // Each component with a mark: whether the path itself holds it, or a link's target.
        let mut todo: Vec<(String, bool)> = absolute
            .split('/')
            .rev()
            .map(|name| (name.to_owned(), true))
            .collect();
        let mut at = PathBuf::from("/");
        let (mut links, mut seen_link, mut dotdot, mut dangling) = (0, false, false, false);
        while let Some((name, own)) = todo.pop() {
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    dotdot |= own && seen_link;
                    at.pop();
                    continue;
                }
                _ => {}
            }
            let next = at.join(&name);
            let real = self.real(next.to_str().unwrap());
            match fs::symlink_metadata(&real) {
                Ok(found) if found.file_type().is_symlink() => {
                    links += 1;
                    seen_link = true;
                    if links > 40 {
                        dangling = true;
                        break;
                    }
                    let target = fs::read_link(&real).unwrap();
                    let target = target.to_str().unwrap().to_owned();
                    if target.starts_with('/') {
                        at = PathBuf::from("/");
                    }
                    todo.extend(target.split('/').rev().map(|name| (name.to_owned(), false)));
                }
                Ok(_) => at = next,
                Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return None,
                Err(_) => {
                    dangling |= !own; // a link's target is what is missing
                    at = next;
                }
            }
        }
        let found = fs::symlink_metadata(self.real(at.to_str().unwrap())).ok();
        let kind = found.as_ref().map_or(FileKind::Missing, |found| {
            let kind = found.file_type();
            if kind.is_file() {
                FileKind::File
            } else if kind.is_dir() {
                FileKind::Directory
            } else {
                assert!(kind.is_fifo() || kind.is_socket() || kind.is_symlink());
                FileKind::Special
            }
        });
        Some(PathFacts {
            lexical: PathBuf::from(format!("/{}", lexical.join("/"))),
            physical: at,
            kind,
            links: found.map_or(0, |found| found.nlink()),
            dotdot_after_link: dotdot,
            dangling,
        })
    }
}

pub(crate) fn cases(file: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/corpus")
        .join(file);
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn rules(texts: &[String], effect: Effect) -> Result<Vec<Rule>, String> {
    let source = Source {
        layer: "task".into(),
        file: "task.yaml".into(),
    };
    texts
        .iter()
        .map(|text| Rule::parse(text, effect, source.clone()).map_err(|error| error.to_string()))
        .collect()
}

/// The answer to a case; the error says why it is denied.
fn answer(case: &Case, ordinary: &World) -> Result<Permit, String> {
    let policy = Arc::new(Policy {
        mode: case
            .mode
            .parse::<Mode>()
            .map_err(|error| error.to_string())?,
        allow: rules(&case.allow, Effect::Allow)?,
        deny: rules(&case.deny, Effect::Deny)?,
        roots: Roots {
            workspace: WORKSPACE.into(),
            never_write: ["task.yaml", "agent-batch.yaml", "agent-batch-results"]
                .map(|name| Path::new(WORKSPACE).join(name))
                .into(),
            closed: vec!["/srv/ci/outside/_runner_file_commands".into()],
            ..Roots::default()
        },
    });
    let tool = case.tool.as_deref().unwrap_or("Bash");
    let path = case.path.clone();
    let action = match tool {
        "Bash" => Action::Bash {
            command: case.command.clone(),
        },
        "Read" => Action::Read { path },
        "Edit" => Action::Edit { path },
        "Write" => Action::Write { path },
        "Glob" => Action::Glob {
            root: None,
            pattern: path,
        },
        "Grep" => Action::Grep { root: Some(path) },
        "WebFetch" => Action::Fetch {
            url: case.input.clone(),
        },
        _ => Action::Other,
    };
    let own = (!case.setup.is_empty()).then(|| World::build(&case.setup));
    let world = own.as_ref().unwrap_or(ordinary);
    let facts: Facts = queries(&action, &policy)
        .into_iter()
        .filter_map(|query| Some((query.clone(), world.resolve(&query)?)))
        .collect();
    let call = Call {
        tool,
        input: &Value::Null,
        action,
        read_only: false,
    };
    decide(&call, &facts, &policy).map_err(|denial: Box<Denial>| denial.reason)
}

fn run(file: &str) {
    let cases = cases(file);
    assert!(cases.len() > 50, "{file} holds {} cases", cases.len());
    let ordinary = World::build("");
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for case in &cases {
        assert!(seen.insert(&case.id), "the id {} occurs twice", case.id);
        let answer = answer(case, &ordinary);
        let right = answer.is_ok() == (case.expect == "allow");
        if right == NOT_YET.contains(&case.id.as_str()) {
            let found = match answer {
                Ok(permit) => format!("allowed: {}", permit.reason()),
                Err(reason) => reason,
            };
            wrong.push(format!(
                "{} ({}) expects {}: {}\n    {:?}{:?} allow {:?} deny {:?}\n    {found}",
                case.id,
                case.class,
                case.expect,
                case.why,
                case.command,
                case.path,
                case.allow,
                case.deny
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} cases of {file} are wrong, or listed and right:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn command_lines_are_answered_as_the_corpus_says() {
    run("bash.jsonl");
}

#[test]
fn paths_are_answered_as_the_corpus_says() {
    run("path.jsonl");
}

#[test]
fn hosts_and_mcp_tools_are_answered_as_the_corpus_says() {
    run("other.jsonl");
}
