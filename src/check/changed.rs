//! `changed`: which files of the workspace the agent changed, and which it left alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Build, Check, CheckContext, Finding, Problem, clipped};
use crate::event::Change;

/// How many paths a message names.
const SHOWN_PATHS: usize = 10;

/// Looks at the files that the agent added, modified or deleted. Patterns are relative to the workspace; `*` stays
/// within a directory, `**` crosses them. All that is given must hold; at least one must be given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct ChangedSpec {
    /// Every changed file matches one of these. An empty list: nothing may change.
    pub only: Option<Vec<String>>,
    /// No changed file matches one of these.
    pub never: Option<Vec<String>>,
    /// At least so many files changed.
    #[schemars(range(min = 1))]
    pub at_least: Option<u32>,
    /// Each of these matches a changed file.
    pub files: Option<Vec<String>>,
}

#[derive(Debug)]
struct Changed {
    only: Option<Vec<GlobMatcher>>,
    never: Vec<GlobMatcher>,
    at_least: u32,
    files: Vec<GlobMatcher>,
}

impl Build for ChangedSpec {
    fn build(self, _: &BTreeMap<String, String>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.only.is_none()
            && self.never.is_none()
            && self.at_least.is_none()
            && self.files.is_none()
        {
            problems.push(Problem::whole(
                "`changed` demands nothing",
                "give at least one of `only`, `never`, `at_least`, `files`",
            ));
        }
        if self.at_least == Some(0) {
            let hint =
                Some("leave it out, or write `only: []` where nothing may change".to_owned());
            problems.push(Problem::field(
                "at_least",
                "`at_least: 0` always holds",
                hint,
            ));
        }
        let only = self.only.map(|list| globs("only", &list, &mut problems));
        let never = globs("never", &self.never.unwrap_or_default(), &mut problems);
        let files = globs("files", &self.files.unwrap_or_default(), &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Arc::new(Changed {
            only,
            never,
            at_least: self.at_least.unwrap_or(0),
            files,
        }))
    }
}

fn globs(
    field: &'static str,
    patterns: &[String],
    problems: &mut Vec<Problem>,
) -> Vec<GlobMatcher> {
    let mut matchers = Vec::new();
    for (index, pattern) in patterns.iter().enumerate() {
        match glob(pattern) {
            Ok(matcher) => matchers.push(matcher),
            Err((message, hint)) => problems.push(Problem {
                field: Some((field, Some(index))),
                message,
                hint: Some(hint),
            }),
        }
    }
    matchers
}

/// A pattern relative to the workspace, or why it is none and what to write.
fn glob(pattern: &str) -> Result<GlobMatcher, (String, String)> {
    let shown = clipped(pattern, 80);
    let relative = pattern.strip_prefix("./").unwrap_or(pattern);
    if relative.is_empty() {
        return Err((
            "the pattern is empty".into(),
            "write `**` for every file".into(),
        ));
    }
    if relative.starts_with('/')
        || relative.starts_with('~')
        || relative.split('/').any(|part| part == "..")
    {
        return Err((
            format!("the pattern `{shown}` leaves the workspace"),
            "changes are known by their path from the workspace, as in `src/**`".into(),
        ));
    }
    if let Some(directory) = relative.strip_suffix('/') {
        return Err((
            format!("the pattern `{shown}` names a directory, and only files change"),
            format!("write `{}/**`", clipped(directory, 80)),
        ));
    }
    GlobBuilder::new(relative)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| {
            (
                format!("the pattern `{shown}` is not a glob: {}", error.kind()),
                "special characters mean themselves after a backslash".into(),
            )
        })
}

#[async_trait]
impl Check for Changed {
    fn kind(&self) -> &'static str {
        "changed"
    }

    fn title(&self) -> String {
        let list = |globs: &[GlobMatcher]| {
            let shown: Vec<String> = globs
                .iter()
                .take(5)
                .map(|glob| format!("`{}`", clipped(glob.glob().glob(), 60)))
                .collect();
            let more = if globs.len() > 5 { ", …" } else { "" };
            format!("{}{more}", shown.join(", "))
        };
        let mut demands = Vec::new();
        match &self.only {
            Some(only) if only.is_empty() => demands.push("nothing".to_owned()),
            Some(only) => demands.push(format!("only {}", list(only))),
            None => {}
        }
        if !self.never.is_empty() {
            demands.push(format!("never {}", list(&self.never)));
        }
        if self.at_least > 0 {
            demands.push(format!("at least {}", files(self.at_least as usize)));
        }
        if !self.files.is_empty() {
            demands.push(format!("a file of each of {}", list(&self.files)));
        }
        format!("changed {}", demands.join(" and "))
    }

    async fn run(&self, context: &CheckContext) -> Finding {
        let finding = self.judge(&context.changes);
        finding.redacted(&context.redactor)
    }
}

impl Changed {
    fn judge(&self, changes: &[Change]) -> Finding {
        let mut broken = Vec::new();
        let matches =
            |globs: &[GlobMatcher], path: &str| globs.iter().any(|glob| glob.is_match(path));
        if let Some(only) = &self.only {
            let outside = changes.iter().filter(|change| !matches(only, &change.path));
            broken.extend(offending("changed outside of what `only` allows", outside));
        }
        let touched = changes
            .iter()
            .filter(|change| matches(&self.never, &change.path));
        broken.extend(offending("changed against `never`", touched));
        if changes.len() < self.at_least as usize {
            broken.push(format!(
                "expected at least {} to change, found {}",
                files(self.at_least as usize),
                changes.len()
            ));
        }
        for glob in &self.files {
            if !changes.iter().any(|change| glob.is_match(&change.path)) {
                broken.push(format!("no changed file matches `{}`", glob.glob().glob()));
            }
        }
        if broken.is_empty() {
            Finding::passed()
        } else {
            Finding::failed(broken.join("\n"))
        }
    }
}

/// One sentence and the paths it is about, or nothing when there are none.
fn offending<'a>(what: &str, changes: impl Iterator<Item = &'a Change>) -> Option<String> {
    let mut message = String::new();
    let mut count = 0;
    for change in changes {
        count += 1;
        if count <= SHOWN_PATHS {
            let path: String = change.path.escape_debug().collect();
            let _ = write!(message, "\n  {}", clipped(&path, 200));
        }
    }
    if count > SHOWN_PATHS {
        let _ = write!(message, "\n  and {} more", count - SHOWN_PATHS);
    }
    (count > 0).then(|| format!("{} {what}:{message}", files(count)))
}

fn files(count: usize) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ChangeKind, CheckResult};

    fn changed(json: serde_json::Value) -> Changed {
        let spec: ChangedSpec = serde_json::from_value(json).unwrap();
        let mut none = Vec::new();
        let check = Changed {
            only: spec.only.map(|list| globs("only", &list, &mut none)),
            never: globs("never", &spec.never.unwrap_or_default(), &mut none),
            at_least: spec.at_least.unwrap_or(0),
            files: globs("files", &spec.files.unwrap_or_default(), &mut none),
        };
        assert_eq!(none, []);
        check
    }

    fn said(finding: &Finding) -> String {
        format!("{}\n{}", finding.message, finding.details)
    }

    fn changes(paths: &[&str]) -> Vec<Change> {
        paths
            .iter()
            .map(|path| Change {
                path: (*path).to_owned(),
                kind: ChangeKind::Modified,
            })
            .collect()
    }

    #[test]
    fn a_star_stays_in_its_directory() {
        let check = changed(serde_json::json!({"only": ["src/*.rs", "./docs/**"]}));
        assert_eq!(
            check.judge(&changes(&["src/a.rs", "docs/x/y.md"])),
            Finding::passed()
        );
        let finding = check.judge(&changes(&["src/deep/a.rs", "src/a.rs"]));
        assert_eq!(
            said(&finding),
            "1 file changed outside of what `only` allows:\n  src/deep/a.rs"
        );
    }

    #[test]
    fn never_at_least_and_files_are_each_named() {
        let check = changed(serde_json::json!({
            "never": ["**/*.lock"], "at_least": 3, "files": ["src/**", "CHANGELOG.md"]
        }));
        let finding = check.judge(&changes(&["Cargo.lock", "src/a.rs"]));
        assert_eq!(finding.result, CheckResult::Failed);
        assert_eq!(
            said(&finding),
            "1 file changed against `never`:\n  Cargo.lock\nexpected at least 3 files to change, found 2\nno changed file matches `CHANGELOG.md`"
        );
    }

    #[test]
    fn an_empty_only_means_that_nothing_may_change() {
        let check = changed(serde_json::json!({"only": []}));
        assert_eq!(check.judge(&[]), Finding::passed());
        assert_eq!(check.judge(&changes(&["a"])).result, CheckResult::Failed);
    }

    #[test]
    fn the_list_of_paths_is_bounded_and_control_characters_are_shown() {
        let many: Vec<String> = (0..1000).map(|n| format!("\u{1b}[31m{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let message = changed(serde_json::json!({"only": []})).judge(&changes(&many));
        let message = said(&message);
        assert_eq!(message.lines().count(), SHOWN_PATHS + 2);
        assert!(message.ends_with("and 990 more"), "{message}");
        assert!(!message.contains('\u{1b}'));
    }

    #[test]
    fn patterns_that_can_match_nothing_are_refused() {
        for bad in ["", "/etc/*", "../x", "a/../b", "~/x", "src/", "a[", "{a"] {
            assert!(glob(bad).is_err(), "{bad}");
        }
    }
}
