//! The file that a call is about, as it was decided on, and work on it off the runtime's threads.

use tokio_util::sync::CancellationToken;

use super::seen::{Hash, Knowledge};
use super::{ToolContext, ToolOutput};
use crate::policy::{FileKind, PathFacts, Permit};

/// The facts that the permit holds for a path of the input. Without facts there was no decision on that path.
pub(super) fn facts<'a>(permit: &'a Permit, path: &str) -> Result<&'a PathFacts, String> {
    permit.path(path).ok_or_else(|| {
        format!(
            "nothing could be found out about the path `{path}`: check that it exists and that every part of it but \
             the last is a directory"
        )
    })
}

/// The facts, if they are those of a regular file.
pub(super) fn existing_file<'a>(permit: &'a Permit, path: &str) -> Result<&'a PathFacts, String> {
    let facts = facts(permit, path)?;
    match facts.kind {
        FileKind::File => Ok(facts),
        FileKind::Missing if facts.dangling => {
            Err(format!("`{path}` is a symbolic link that points nowhere"))
        }
        FileKind::Missing => Err(format!("the file `{path}` does not exist")),
        FileKind::Directory => Err(format!("`{path}` is a directory; list it with Glob")),
        FileKind::Special => Err(format!(
            "`{path}` is a device, FIFO or socket; only regular files can be used"
        )),
    }
}

/// Whether the task may change a file with this content.
pub(super) fn demand_current(
    context: &ToolContext,
    facts: &PathFacts,
    path: &str,
    hash: &Hash,
) -> Result<(), String> {
    match context.seen.knowledge(&facts.physical, hash) {
        Knowledge::Current => Ok(()),
        Knowledge::None => Err(format!(
            "`{path}` has not been read yet; Read it before you change it"
        )),
        Knowledge::Stale => Err(format!(
            "`{path}` has changed on disk since you read it; Read it again before you change it"
        )),
    }
}

/// Runs blocking work on a thread for that. The token it gets is cancelled with the task, and when the call is
/// dropped, so that nothing goes on working for nobody.
pub(super) async fn blocking(
    permit: Permit,
    context: &ToolContext,
    work: impl FnOnce(&Permit, &ToolContext, &CancellationToken) -> Result<ToolOutput, String>
    + Send
    + 'static,
) -> ToolOutput {
    let stop = context.cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let context = context.clone();
    let work = move || work(&permit, &context, &stop).unwrap_or_else(ToolOutput::error);
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(_) => ToolOutput::error("the tool failed with an internal error"),
    }
}
