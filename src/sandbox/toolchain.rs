//! What the directories of a search path need beside them to work.

use std::fs;
use std::path::{Path, PathBuf};

use super::plan::SYSTEM;

/// Folders in a home where version managers keep toolchains.
const TOOLCHAINS: [&str; 12] = [
    ".pyenv", ".nvm", ".rbenv", ".sdkman", ".asdf", ".volta", ".bun", ".deno", ".dotnet", ".ghcup",
    ".juliaup", "go",
];

/// A directory of programs, and what its programs need.
pub(super) fn belongings(entry: &Path) -> Vec<PathBuf> {
    let mut parts = vec![entry.to_path_buf()];
    let is_bin = entry
        .file_name()
        .is_some_and(|name| name == "bin" || name == "shims" || name == "sbin");
    let Some(parent) = entry.parent().filter(|_| is_bin) else {
        return parts;
    };
    let manager = entry.ancestors().find(|above| {
        above
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| TOOLCHAINS.contains(&name))
    });
    let name = parent
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if let Some(manager) = manager {
        parts.push(manager.to_path_buf());
    } else if name == ".local" {
        // `share` beside them holds keyrings.
        parts.extend(["lib", "pipx"].map(|part| parent.join(part)));
    } else {
        parts.extend(
            ["lib", "lib64", "libexec", "include", "share", "conf"].map(|part| parent.join(part)),
        );
    }
    parts
}

/// Where links in a directory of programs lead, as files.
pub(super) fn link_targets(entry: &Path) -> Vec<PathBuf> {
    if SYSTEM.iter().any(|system| entry.starts_with(system)) {
        return Vec::new();
    }
    let entries = fs::read_dir(entry)
        .into_iter()
        .flatten()
        .flatten()
        .take(2000);
    entries
        .filter(|found| found.file_type().is_ok_and(|kind| kind.is_symlink()))
        .filter_map(|found| found.path().canonicalize().ok())
        .filter(|target| target.is_file() && !target.starts_with(entry))
        .take(200)
        .collect()
}
