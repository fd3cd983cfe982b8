//! Workspaces: patches that apply, tasks side by side, and nothing left behind.

mod beside;
mod patch;
mod shapes;
pub(crate) mod worktree;
