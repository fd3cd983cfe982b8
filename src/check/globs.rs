//! Patterns for files of the workspace, as checks write them: relative, `*` within a directory, `**` across.

use globset::{GlobBuilder, GlobMatcher};

use super::{Problem, clipped};

/// Patterns that were checked when the task was loaded.
#[derive(Debug, Clone, Default)]
pub(super) struct Globs(Vec<GlobMatcher>);

impl Globs {
    /// Reads the patterns under the key `field`; what is wrong is added to `problems`.
    pub(super) fn new(field: &str, patterns: &[String], problems: &mut Vec<Problem>) -> Self {
        let mut matchers = Vec::new();
        for (index, pattern) in patterns.iter().enumerate() {
            match glob(pattern) {
                Ok(matcher) => matchers.push(matcher),
                Err((message, hint)) => {
                    problems.push(Problem::field(field, message, Some(hint)).element(index));
                }
            }
        }
        Self(matchers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn matches(&self, path: impl AsRef<std::path::Path>) -> bool {
        self.0.iter().any(|glob| glob.is_match(path.as_ref()))
    }

    /// Each pattern as it was written, and whether it matches.
    pub(super) fn each(&self) -> impl Iterator<Item = (&str, &GlobMatcher)> {
        self.0.iter().map(|glob| (glob.glob().glob(), glob))
    }

    /// The first few patterns, for a title.
    pub(super) fn shown(&self) -> String {
        let shown: Vec<String> = self
            .each()
            .take(5)
            .map(|(glob, _)| format!("`{}`", clipped(glob, 60)))
            .collect();
        let more = if self.0.len() > 5 { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    }
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
    if leaves(relative) {
        return Err((
            format!("the pattern `{shown}` leaves the workspace"),
            "files are known by their path from the workspace, as in `src/**`".into(),
        ));
    }
    if let Some(directory) = relative.strip_suffix('/') {
        return Err((
            format!("the pattern `{shown}` names a directory, and only files are looked at"),
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

/// Whether a path or pattern leads out of the workspace by its text.
pub(super) fn leaves(path: &str) -> bool {
    path.starts_with('/') || path.starts_with('~') || path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_can_match_nothing_are_refused() {
        for bad in ["", "/etc/*", "../x", "a/../b", "~/x", "src/", "a[", "{a"] {
            let mut problems = Vec::new();
            let globs = Globs::new("only", &["ok/**".into(), bad.into()], &mut problems);
            assert_eq!(problems[0].place(), "only[1]", "{bad}");
            assert!(globs.matches("ok/a/b"));
        }
    }
}
