//! How much changed: the lines of the agent's files against what was there before.

use std::io;
use std::path::Path;
use std::time::Duration;

use similar::{Algorithm, ChangeTag, TextDiff};

use crate::event::Change;
use crate::policy::FileKind;
use crate::workspace::{self, Original, Workspace};

/// The largest file whose lines are compared, in bytes.
const LARGEST: u64 = 8 * 1024 * 1024;
/// The longest time for one file; what is left of it then counts as changed.
const LONGEST: Duration = Duration::from_secs(5);

/// Lines that changed, over all files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) added: u64,
    pub(super) removed: u64,
    /// Changes of what has no lines: binary and very large files, links.
    pub(super) uncounted: Vec<Change>,
}

/// Counts the lines of all changes.
pub(super) fn lines(
    workspace: &Workspace,
    changes: &[Change],
    limit: Duration,
) -> io::Result<Lines> {
    let mut lines = Lines::default();
    let each = limit.min(LONGEST);
    for change in changes {
        let (Some(before), Some(now)) = (
            before(workspace, &change.path)?,
            now(workspace, &change.path)?,
        ) else {
            lines.uncounted.push(change.clone());
            continue;
        };
        let diff = TextDiff::configure()
            .algorithm(Algorithm::Myers)
            .timeout(each)
            .diff_lines(before.as_str(), now.as_str());
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => lines.added += 1,
                ChangeTag::Delete => lines.removed += 1,
                ChangeTag::Equal => {}
            }
        }
    }
    Ok(lines)
}

/// The text of a file before the agent; empty where none was, `None` for what is no text.
fn before(workspace: &Workspace, path: &str) -> io::Result<Option<String>> {
    let base = workspace.base();
    let path = Path::new(path);
    match base.get(path) {
        None => Ok(Some(String::new())),
        Some(Original::File { size, .. }) if size <= LARGEST => match base.read(path) {
            Ok(bytes) => Ok(text(bytes)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
            Err(error) => Err(error),
        },
        Some(_) => Ok(None),
    }
}

/// The same as the agent left it.
fn now(workspace: &Workspace, path: &str) -> io::Result<Option<String>> {
    let root = workspace.root();
    let Some(facts) = workspace::resolve(root, path) else {
        return Ok(None);
    };
    if facts.dangling || facts.physical != root.join(path) {
        return Ok(None);
    }
    match facts.kind {
        FileKind::Missing => Ok(Some(String::new())),
        FileKind::File => match workspace::read_file(&facts.physical, LARGEST) {
            Ok(bytes) => Ok(text(bytes)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::FileTooLarge | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        },
        FileKind::Directory | FileKind::Special => Ok(None),
    }
}

fn text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}
