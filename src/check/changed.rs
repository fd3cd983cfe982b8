//! `changed`: which files of the workspace the agent changed, and which it left alone.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::block_in_place;

use super::diff::{Lines, lines};
use super::globs::Globs;
use super::{
    Build, Check, CheckContext, Finding, Problem, QUICK, TimeSpan, World, clipped, time_limit,
};
use crate::event::{Change, CheckResult};
use crate::text;

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
    /// At most so many files changed.
    pub max_files: Option<u32>,
    /// At most so many lines were added and removed, all files together. A file of any size is counted; of one above 8 MiB, all
    /// from the first to the last line that differs counts as changed. A binary file (one with a NUL byte) has no lines, and a file
    /// that had more than 8 MiB before the agent came is not kept; a change of such a file fails the check.
    pub max_lines: Option<u32>,
    /// How long the check may take. Default: `1m`.
    pub timeout: Option<TimeSpan>,
}

#[derive(Debug)]
struct Changed {
    only: Option<Globs>,
    never: Globs,
    at_least: u32,
    files: Globs,
    max_files: Option<u32>,
    max_lines: Option<u32>,
    time_limit: Duration,
}

impl ChangedSpec {
    fn read(self, problems: &mut Vec<Problem>) -> Changed {
        let is_empty = self.only.is_none()
            && self.never.is_none()
            && self.at_least.is_none()
            && self.files.is_none()
            && self.max_files.is_none()
            && self.max_lines.is_none();
        if is_empty {
            problems.push(Problem::whole(
                "`changed` demands nothing",
                "give at least one of `only`, `never`, `at_least`, `files`, `max_files`, `max_lines`",
            ));
        }
        for (name, list) in [("never", &self.never), ("files", &self.files)] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                let hint = Some("write a pattern, or leave the key out".to_owned());
                let message = format!("`{name}` is empty, and that always holds");
                problems.push(Problem::field(name, message, hint));
            }
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
        if let (Some(least), Some(most)) = (self.at_least, self.max_files)
            && least > most
        {
            let message = format!("no change has at least {least} and at most {most} files");
            problems.push(Problem::field("max_files", message, None));
        }
        let time_limit = time_limit(self.timeout, QUICK, problems);
        Changed {
            only: self.only.map(|list| Globs::new("only", &list, problems)),
            never: Globs::new("never", &self.never.unwrap_or_default(), problems),
            files: Globs::new("files", &self.files.unwrap_or_default(), problems),
            at_least: self.at_least.unwrap_or(0),
            max_files: self.max_files,
            max_lines: self.max_lines,
            time_limit,
        }
    }
}

impl Build for ChangedSpec {
    fn build(self, _: World<'_>) -> Result<Arc<dyn Check>, Vec<Problem>> {
        let mut problems = Vec::new();
        let changed = self.read(&mut problems);
        if problems.is_empty() {
            Ok(Arc::new(changed))
        } else {
            Err(problems)
        }
    }
}

#[async_trait]
impl Check for Changed {
    fn kind(&self) -> &'static str {
        "changed"
    }

    fn title(&self) -> String {
        let mut demands = Vec::new();
        match &self.only {
            Some(only) if only.is_empty() => demands.push("nothing".to_owned()),
            Some(only) => demands.push(format!("only {}", only.shown())),
            None => {}
        }
        if !self.never.is_empty() {
            demands.push(format!("never {}", self.never.shown()));
        }
        if self.at_least > 0 {
            demands.push(format!("at least {}", files(self.at_least as usize)));
        }
        if !self.files.is_empty() {
            demands.push(format!("a file of each of {}", self.files.shown()));
        }
        if let Some(most) = self.max_files {
            demands.push(format!("at most {}", files(most as usize)));
        }
        if let Some(most) = self.max_lines {
            demands.push(format!("at most {}", text::plural(most.into(), "line")));
        }
        format!("changed {}", demands.join(" and "))
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    async fn run(&self, context: &CheckContext<'_>) -> Finding {
        let counted = match self.max_lines {
            Some(_) => {
                let workspace = context.workspace;
                block_in_place(|| lines(workspace, &context.changes, self.time_limit)).map(Some)
            }
            None => Ok(None),
        };
        match counted {
            Ok(counted) => self.judge(&context.changes, counted.as_ref()),
            Err(why) => Finding::errored(format!("the changed lines could not be counted: {why}")),
        }
    }
}

impl Changed {
    /// `counted` is there where `max_lines` is.
    fn judge(&self, changes: &[Change], counted: Option<&Lines>) -> Finding {
        let mut broken = Vec::new();
        if let Some(only) = &self.only {
            let outside = changes.iter().filter(|change| !only.matches(&change.path));
            broken.extend(offending("changed outside of what `only` allows", outside));
        }
        let touched = changes
            .iter()
            .filter(|change| self.never.matches(&change.path));
        broken.extend(offending("changed against `never`", touched));
        let count = changes.len();
        if count < self.at_least as usize {
            let least = files(self.at_least as usize);
            broken.push(format!(
                "expected at least {least} to change, found {count}"
            ));
        }
        if let Some(most) = self.max_files
            && count > most as usize
        {
            let most = files(most as usize);
            broken.push(format!("expected at most {most} to change, found {count}"));
        }
        for (pattern, glob) in self.files.each() {
            if !changes.iter().any(|change| glob.is_match(&change.path)) {
                let pattern = clipped(pattern, 200);
                broken.push(format!("no changed file matches `{pattern}`"));
            }
        }
        let mut uncounted = false;
        if let (Some(most), Some(counted)) = (self.max_lines, counted) {
            let (added, removed) = (counted.added, counted.removed);
            if added + removed > u64::from(most) {
                let most = text::plural(most.into(), "changed line");
                broken.push(format!(
                    "expected at most {most}, found {added} added and {removed} removed"
                ));
            } else {
                uncounted = broken.is_empty() && !counted.uncounted.is_empty();
            }
            broken.extend(offending(
                "changed whose lines cannot be counted (binary, no regular file, too large before, or not read in time)",
                counted.uncounted.iter(),
            ));
        }
        let mut finding = Finding::judged(&broken);
        if finding.result == CheckResult::Failed {
            finding.decisive = !uncounted;
        }
        finding
    }
}

/// One sentence that names the first path, and the paths it is about, or nothing when there are none.
fn offending<'a>(what: &str, changes: impl Iterator<Item = &'a Change>) -> Option<String> {
    let mut paths = String::new();
    let (mut count, mut first) = (0, String::new());
    for change in changes {
        count += 1;
        if count <= SHOWN_PATHS {
            let path: String = change.path.escape_debug().collect();
            let path = clipped(&path, 200);
            let _ = write!(paths, "\n  {path}");
            if count == 1 {
                first = path;
            }
        }
    }
    match count {
        0 => None,
        1 => Some(format!("1 file {what}: {first}")),
        _ => {
            if count > SHOWN_PATHS {
                let _ = write!(paths, "\n  and {} more", count - SHOWN_PATHS);
            }
            Some(format!("{} {what}, `{first}` first:{paths}", files(count)))
        }
    }
}

fn files(count: usize) -> String {
    format!("{count} {}", if count == 1 { "file" } else { "files" })
}

#[cfg(test)]
mod tests {
    use super::super::context::fixture::Place;
    use super::*;
    use crate::event::ChangeKind;

    fn changed(json: serde_json::Value) -> Changed {
        let spec: ChangedSpec = serde_json::from_value(json).unwrap();
        let mut none = Vec::new();
        let check = spec.read(&mut none);
        assert_eq!(none, []);
        check
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
            check.judge(&changes(&["src/a.rs", "docs/x/y.md"]), None),
            Finding::passed()
        );
        let finding = check.judge(&changes(&["src/deep/a.rs", "src/a.rs"]), None);
        assert_eq!(
            finding.message,
            "1 file changed outside of what `only` allows: src/deep/a.rs"
        );
    }

    #[test]
    fn everything_that_is_broken_is_named() {
        let check = changed(serde_json::json!({
            "never": ["**/*.lock"], "at_least": 3, "files": ["src/**", "CHANGELOG.md"]
        }));
        let finding = check.judge(&changes(&["Cargo.lock", "src/a.rs"]), None);
        assert_eq!(finding.result, CheckResult::Failed);
        assert_eq!(
            finding.details,
            "1 file changed against `never`: Cargo.lock\nexpected at least 3 files to change, found 2\nno changed file matches `CHANGELOG.md`"
        );
        let check = changed(serde_json::json!({"max_files": 1}));
        let finding = check.judge(&changes(&["a", "b"]), None);
        assert_eq!(
            finding.message,
            "expected at most 1 file to change, found 2"
        );
    }

    #[test]
    fn an_empty_only_means_that_nothing_may_change() {
        let check = changed(serde_json::json!({"only": []}));
        assert_eq!(check.judge(&[], None), Finding::passed());
        let finding = check.judge(&changes(&["a"]), None);
        assert_eq!(finding.result, CheckResult::Failed);
    }

    #[test]
    fn an_empty_list_of_anything_else_would_always_hold_and_is_refused() {
        for spec in [
            serde_json::json!({"never": []}),
            serde_json::json!({"files": [], "only": ["src/**"]}),
        ] {
            let read: ChangedSpec = serde_json::from_value(spec.clone()).unwrap();
            let mut problems = Vec::new();
            read.read(&mut problems);
            assert_eq!(problems.len(), 1, "{spec}: {problems:?}");
        }
    }

    #[test]
    fn the_list_of_paths_is_bounded_and_control_characters_are_shown() {
        let many: Vec<String> = (0..1000).map(|n| format!("\u{1b}[31m{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let finding = changed(serde_json::json!({"only": []})).judge(&changes(&many), None);
        assert_eq!(finding.details.lines().count(), SHOWN_PATHS + 2);
        assert!(finding.details.ends_with("and 990 more"), "{finding:?}");
        assert!(!finding.details.contains('\u{1b}'));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lines_are_counted_against_the_state_before_the_agent() {
        let place = Place::new();
        std::fs::write(place.dir.path().join("a"), "one\n2\nthree\n").unwrap();
        std::fs::write(place.dir.path().join("new"), "x\ny\n").unwrap();
        // One line changed and one added in `a`, two in `new`: five lines.
        for (most, result) in [(5, CheckResult::Passed), (4, CheckResult::Failed)] {
            let check = changed(serde_json::json!({"max_lines": most}));
            let finding = check.run(&place.context()).await;
            assert_eq!(finding.result, result, "{finding:?}");
        }
        // However large it is.
        let large = place.dir.path().join("large");
        std::fs::write(&large, "0123456789abcde\n".repeat(600_000)).unwrap();
        for (most, result) in [
            (600_005, CheckResult::Passed),
            (600_004, CheckResult::Failed),
        ] {
            let check = changed(serde_json::json!({"max_lines": most}));
            let finding = check.run(&place.context()).await;
            assert_eq!(finding.result, result, "{finding:?}");
        }
        std::fs::remove_file(large).unwrap();
        std::fs::write(place.dir.path().join("image"), b"\x89PNG\0\0").unwrap();
        let finding = changed(serde_json::json!({"max_lines": 100}))
            .run(&place.context())
            .await;
        assert_eq!(
            (finding.result, finding.decisive),
            (CheckResult::Failed, false)
        );
        assert!(finding.message.contains("image"), "{}", finding.message);
    }
}
