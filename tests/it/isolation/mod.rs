//! Workspaces: patches that apply, tasks side by side, and nothing left behind.

mod patch;
pub(crate) mod worktree;
