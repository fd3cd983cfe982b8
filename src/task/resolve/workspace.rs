//! The workspace: which directory, and how it is kept apart.

use std::path::PathBuf;

use super::{Context, Findings, files};
use crate::workspace::Isolation;

/// A workspace, as far as it could be resolved.
pub(super) struct Resolved {
    pub(super) path: Option<PathBuf>,
    pub(super) isolation: Isolation,
    pub(super) reference: String,
    pub(super) include_ignored: bool,
}

/// The workspace and how it is kept apart. A task that names none works where the run was started.
pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Resolved {
    let isolation = cx
        .pick(
            cx.spec.workspace.isolation,
            |defaults| defaults.workspace.isolation,
            &["workspace", "isolation"],
        )
        .map_or_else(Isolation::default, |picked| picked.value);
    let named = cx.pick(
        cx.spec.workspace.path.as_ref(),
        |defaults| defaults.workspace.path.as_ref(),
        &["workspace", "path"],
    );
    let path = match named {
        Some(named) => files::directory(cx, &named, findings),
        None => match std::fs::canonicalize(&cx.options.cwd) {
            Ok(path) => Some(path),
            Err(error) => {
                let message = format!("the current directory cannot be the workspace: {error}");
                findings.error(&cx.whole(), message, None);
                None
            }
        },
    };
    let reference = cx.pick(
        cx.spec.workspace.reference.as_ref(),
        |defaults| defaults.workspace.reference.as_ref(),
        &["workspace", "ref"],
    );
    if let Some(named) = &reference {
        if isolation != Isolation::Worktree && cx.spec.workspace.reference.is_some() {
            let message = "`ref` has a meaning with `isolation: worktree` only";
            findings.error(
                &named.origin,
                message.to_owned(),
                Some("the other isolations work on what is there"),
            );
        } else if !is_reference(named.value) {
            let message = format!(
                "`{}` is no branch, tag or commit",
                named.value.escape_debug()
            );
            findings.error(
                &named.origin,
                message,
                Some("write `main`, `v1.2` or a commit's hash"),
            );
        }
    }
    let include_ignored = cx.pick(
        cx.spec.workspace.include_ignored,
        |defaults| defaults.workspace.include_ignored,
        &["workspace", "include_ignored"],
    );
    // Defaults of the project hold for the tasks that they have a meaning for.
    if let Some(named) = &include_ignored
        && isolation != Isolation::Copy
        && cx.spec.workspace.include_ignored.is_some()
    {
        let message = "`include_ignored` has a meaning with `isolation: copy` only";
        findings.error(&named.origin, message.to_owned(), None);
    }
    Resolved {
        path,
        isolation,
        reference: reference.map_or_else(|| "HEAD".to_owned(), |named| named.value.clone()),
        include_ignored: include_ignored.is_some_and(|named| named.value),
    }
}

/// Whether git can take this for a commit and for nothing else: no option, no range, no path in a commit.
fn is_reference(text: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || ":?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= 250
        && !text.starts_with('-')
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_name_or_a_hash() {
        for good in [
            "main",
            "v1.2",
            "origin/feature-x",
            "0123abc",
            "HEAD~1",
            "refs/heads/ä",
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in ["", "-main", "a..b", "a b", "main:src", "@{-1}", "x\n"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }
}
