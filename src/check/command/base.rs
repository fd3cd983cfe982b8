//! `from: base`: the command runs in a copy of what the agent left, in which the named files are as they were before.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::{CheckContext, Finding, clipped};
use super::Command;
use crate::event::CheckResult;
use crate::workspace::Staged;

/// How large the files may be together that the agent changed, so that they are copied for `from: base`, in bytes.
const LARGEST_COPY: u64 = 2 * 1024 * 1024 * 1024;
/// How many files a message names.
const SHOWN_FILES: usize = 5;

impl Command {
    /// A copy of what the agent left with the named files as they were.
    pub(super) fn stage(&self, context: &CheckContext<'_>) -> Result<Staged, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // A file of any size is made in no time, and its copy would fill the disk.
        let size = size_of_changes(context);
        if size > LARGEST_COPY {
            return Err(format!(
                "the files that the agent changed have {} MiB together, more than the {} MiB that are copied for a check",
                size / 1024 / 1024,
                LARGEST_COPY / 1024 / 1024
            ));
        }
        let target = context.scratch.join(format!("check-{number}"));
        let staged = context
            .workspace
            .stage(&target, &|path| self.base.matches(path))
            .map_err(|error| format!("the files could not be put back: {error}"))?;
        if staged.restored() == 0 {
            return Err(format!(
                "nothing in the base matches {}: the check would measure nothing",
                self.base.shown()
            ));
        }
        Ok(staged)
    }

    /// Names the files that the agent changed although the check takes them from elsewhere.
    pub(super) fn with_edits(&self, mut finding: Finding, context: &CheckContext<'_>) -> Finding {
        let edited: Vec<String> = context
            .changes
            .iter()
            .filter(|change| self.base.matches(&change.path))
            .map(|change| change.path.escape_debug().to_string())
            .collect();
        if edited.is_empty() {
            return finding;
        }
        let named: Vec<String> = edited
            .iter()
            .take(SHOWN_FILES)
            .map(|path| format!("`{}`", clipped(path, 200)))
            .collect();
        let more = match edited.len().saturating_sub(SHOWN_FILES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let edits = format!(
            "the agent changed {}{more}, which this check takes from base",
            named.join(", ")
        );
        finding.message = match finding.result {
            CheckResult::Passed => edits,
            CheckResult::Failed | CheckResult::Errored => format!("{}; {edits}", finding.message),
        };
        finding
    }
}

/// How large the regular files are together that the agent changed, in bytes.
fn size_of_changes(context: &CheckContext<'_>) -> u64 {
    let root = context.workspace.root();
    let sizes = context.changes.iter().filter_map(|change| {
        let found = fs::symlink_metadata(root.join(&change.path)).ok()?;
        found.is_file().then_some(found.len())
    });
    sizes.fold(0, u64::saturating_add)
}
