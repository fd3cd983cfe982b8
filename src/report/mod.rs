//! Reading: events in, bytes out.
//!
//! The transcript is the truth. [`summary`] folds events, live or read back by [`transcript`], into what a run came
//! to; every report is a function of that fold, so two reports cannot disagree and each can be made
//! again from the artifact.
//!
//! | chapter | reader |
//! |---|---|
//! | [`plan`], [`run_dir`], [`transcript`] | the run directory: what was planned, where things lie, what happened |
//! | [`seal`] | whether transcripts are those that an earlier report was made from |
//! | [`summary`] | the fold |
//! | [`baseline`], [`gate`] | the comparison with an earlier run, and why it decided |
//! | [`console`], [`account`] | the log of a CI job |
//! | [`progress`] | a terminal |
//! | [`junit`] | the test reports of CI systems |
//! | [`json`] | programs |
//! | [`html`] | a person who wants to see what happened |
//! | [`page`] | a person who opens the build: Markdown for a step summary or a comment |
//! | [`github`] | GitHub Actions: annotations and outputs |
//! | [`gitlab`] | GitLab: a code quality report beside the merge request |
//! | [`show`] | a person who reads one transcript |
//! | [`export`] | viewers and tools of others |
//! | [`schema`] | programs that want to know the formats |
//! | [`files`] | writes the reports, each whole or not at all |
//!
//! All text of models, tools, hooks and repositories is hostile here; it passes [`text`](crate::text) on its way out.

pub mod plan;
pub mod merge;
pub mod run_dir;
pub mod transcript;
pub mod summary;
mod activity;
pub mod account;
pub mod baseline;
pub mod console;
pub mod export;
pub mod files;
pub mod gate;
pub mod github;
pub mod gitlab;
mod headline;
pub mod html;
pub mod json;
pub mod junit;
pub mod page;
pub mod progress;
pub mod sandbox;
pub mod schema;
pub mod seal;
pub mod show;

use crate::outcome::Verdict;

pub use files::{Forms, write_all};
pub use plan::{Merge, PlannedTask, Quarantine, RunPlan, Shard};
pub use summary::{Summary, TaskSummary};

/// The word for a verdict in every report.
#[must_use]
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Errored => "error",
        Verdict::Skipped => "skipped",
    }
}

/// Whether a permission mode lets actions through that no rule names; every report says so loudly.
#[must_use]
pub fn is_bypass(mode: &str) -> bool {
    matches!(mode, "bypass" | "bypassPermissions")
}
