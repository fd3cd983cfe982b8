//! `Glob`: files by name, the ones that changed last first.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Tool, ToolContext, ToolOutput, input, target};
use crate::clock::Clock;
use crate::policy::{Action, FileKind, Permit};
use crate::workspace::resolve;

/// Most files of a result.
const FILES: usize = 100;

/// See the module.
pub(super) struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The glob, such as `src/**/*.rs`. Without a `/` it matches names at any depth.
    pattern: String,
    /// The directory to search: absolute, or relative to the workspace. Default: the workspace.
    path: Option<String>,
}

#[async_trait]
impl Tool for Glob {
    fn name(&self) -> &'static str {
        "Glob"
    }

    fn description(&self) -> &'static str {
        "Finds files by a glob: `*`, `**`, `?`, `[a-z]`, `{a,b}`. Gives at most 100 paths relative to the workspace, the \
         ones that changed last first. Hidden and git-ignored files are found too; `.git` is not searched."
    }

    fn input_schema(&self) -> Value {
        input::schema_of::<Input>()
    }

    fn action(&self, input: &Value) -> Action {
        Action::Glob {
            root: input::string(input, "path"),
            pattern: input::string(input, "pattern").unwrap_or_default(),
        }
    }

    fn is_read_only(&self, _input: &Value) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Value) -> bool {
        true
    }

    async fn call(&self, permit: Permit, context: &ToolContext) -> ToolOutput {
        target::blocking(permit, context, |permit, _context, stop| glob(permit, stop)).await
    }
}

fn glob(permit: &Permit, stop: &CancellationToken) -> Result<ToolOutput, String> {
    let started = Clock::system().start();
    let input: Input = input::parse(permit.input())?;
    let root = search_root(permit, input.path.as_deref())?;
    let matcher = matcher(&input.pattern, &root)?;

    // The newest are kept as the walk goes, so that a large tree costs no memory.
    let mut newest: BTreeSet<(Reverse<SystemTime>, PathBuf)> = BTreeSet::new();
    let mut found = 0_u64;
    for entry in walk(&root) {
        if stop.is_cancelled() {
            return Err("the search was stopped".to_owned());
        }
        let Ok(entry) = entry else { continue };
        let fits = entry
            .path()
            .strip_prefix(&root)
            .is_ok_and(|relative| matcher.is_match(relative));
        if !fits || !may_show(permit, entry.path()) {
            continue;
        }
        let Some(changed) = entry.metadata().ok().and_then(|data| data.modified().ok()) else {
            continue;
        };
        found += 1;
        newest.insert((Reverse(changed), entry.into_path()));
        if newest.len() > FILES {
            newest.pop_last();
        }
    }

    let names: Vec<String> = newest.iter().map(|(_, path)| shown(permit, path)).collect();
    let truncated = found > names.len() as u64;
    let mut text = names.join("\n");
    if names.is_empty() {
        "[no files match]".clone_into(&mut text);
    } else if truncated {
        let _ = write!(
            text,
            "\n[the {FILES} newest of {found} files are shown; a narrower pattern shows the others]"
        );
    }
    Ok(ToolOutput {
        text,
        response: Some(json!({
            "durationMs": started.elapsed_millis(),
            "numFiles": names.len(),
            "filenames": names,
            "truncated": truncated,
        })),
        ..ToolOutput::default()
    })
}

/// The physical directory of a search: the one that was decided on, or the workspace.
pub(super) fn search_root(permit: &Permit, path: Option<&str>) -> Result<PathBuf, String> {
    let Some(path) = path else {
        return Ok(permit.workspace().to_path_buf());
    };
    let facts = target::facts(permit, path)?;
    match facts.kind {
        FileKind::Directory | FileKind::File => Ok(facts.physical.clone()),
        FileKind::Missing => Err(format!("`{path}` does not exist")),
        FileKind::Special => Err(format!(
            "`{path}` is neither a directory nor a regular file"
        )),
    }
}

/// Whether the rules let a search show a file. What nothing can be found out about is not shown.
pub(super) fn may_show(permit: &Permit, path: &Path) -> bool {
    let facts = path
        .to_str()
        .and_then(|path| resolve(permit.workspace(), path));
    facts.is_some_and(|facts| facts.kind == FileKind::File && permit.may_show(&facts))
}

/// Relative to the workspace where it is inside.
pub(super) fn shown(permit: &Permit, path: &Path) -> String {
    path.strip_prefix(permit.workspace())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

fn matcher(pattern: &str, root: &Path) -> Result<GlobMatcher, String> {
    if pattern.contains('\0') {
        return Err("the pattern holds a NUL character".to_owned());
    }
    if pattern.split('/').any(|part| part == "..") {
        return Err(format!(
            "the pattern `{pattern}` holds `..`; give the directory to search as `path`"
        ));
    }
    let relative = match pattern.strip_prefix('/') {
        None => pattern.to_owned(),
        Some(_) => Path::new(pattern)
            .strip_prefix(root)
            .map_err(|_| {
                format!(
                    "the pattern `{pattern}` is absolute and not below `{}`; give the directory to search as `path`",
                    root.display()
                )
            })?
            .to_string_lossy()
            .into_owned(),
    };
    let relative = relative.trim_start_matches("./");
    let anywhere = if pattern.contains('/') {
        relative.to_owned()
    } else {
        format!("**/{relative}")
    };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("the pattern `{pattern}` is no glob: {}", error.kind()))
}

/// Everything below a directory but repositories' own files; links are met, not followed.
fn walk(root: &Path) -> ignore::Walk {
    WalkBuilder::new(root)
        .standard_filters(false)
        .follow_links(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};
    use std::time::Duration;

    use super::*;
    use crate::tool::fixture::Fixture;

    fn aged(fixture: &Fixture, path: &str, seconds: u64) {
        fixture.write(path, "");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::options()
            .write(true)
            .open(fixture.path(path))
            .unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }

    #[tokio::test]
    async fn the_newest_come_first() {
        let fixture = Fixture::new();
        aged(&fixture, "src/old.rs", 100);
        aged(&fixture, "src/deep/new.rs", 300);
        aged(&fixture, ".hidden.rs", 200);
        aged(&fixture, ".git/x.rs", 400);
        aged(&fixture, "src/no.txt", 500);
        let output = fixture.call("Glob", json!({"pattern": "*.rs"})).await;
        assert_eq!(output.text, "src/deep/new.rs\n.hidden.rs\nsrc/old.rs");
        let output = fixture
            .call("Glob", json!({"pattern": "src/*.{rs,txt}"}))
            .await;
        assert_eq!(output.text, "src/no.txt\nsrc/old.rs");
        let output = fixture
            .call("Glob", json!({"pattern": "*.rs", "path": "src/deep"}))
            .await;
        assert_eq!(output.text, "src/deep/new.rs");
        let absolute = format!("{}/**/new.rs", fixture.path("src").display());
        let output = fixture.call("Glob", json!({"pattern": absolute})).await;
        assert_eq!(output.text, "src/deep/new.rs");
        assert_eq!(output.response.unwrap()["numFiles"], 1);
    }

    #[tokio::test]
    async fn a_hundred_are_shown_and_the_others_counted() {
        let fixture = Fixture::new();
        for index in 0..130 {
            aged(&fixture, &format!("f{index}"), index);
        }
        let output = fixture.call("Glob", json!({"pattern": "f*"})).await;
        assert!(output.text.starts_with("f129\nf128\n"));
        assert!(
            output.text.contains("\nf30\n[the 100 newest of 130 files"),
            "{}",
            output.text
        );
    }

    #[tokio::test]
    async fn links_are_not_followed_into_other_trees() {
        let fixture = Fixture::new();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.rs"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), fixture.path("link")).unwrap();
        let output = fixture.call("Glob", json!({"pattern": "**/*.rs"})).await;
        assert_eq!(
            (output.text.as_str(), output.is_error),
            ("[no files match]", false)
        );
    }

    #[tokio::test]
    async fn what_is_no_pattern_is_refused() {
        let fixture = Fixture::new();
        for pattern in ["[", "a\0b", "../*", "src/../../x", "/etc/*"] {
            let output = fixture.call("Glob", json!({"pattern": pattern})).await;
            assert!(output.is_error, "{pattern:?}");
        }
        let output = fixture
            .call("Glob", json!({"pattern": "*", "path": "missing"}))
            .await;
        assert!(output.is_error);
    }
}
