//! The answer to one tool call, made fit for the conversation: redacted first, then bounded.

use std::path::Path;
use std::{fs, io};

use crate::agent::halt::Halt;
use crate::event::ToolResultKind;
use crate::text;

/// The answer to one tool call.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) result: ToolResultKind,
    /// Bounded and redacted.
    pub(super) content: String,
    /// Relative to the run directory.
    pub(super) output_file: Option<String>,
    pub(super) output_bytes: u64,
    pub(super) duration_ms: u64,
    pub(super) leaked: u32,
    /// Why it was denied.
    pub(super) reason: String,
    /// The task has to end after this reply's results are appended.
    pub(super) halt: Option<Halt>,
}

impl Answer {
    /// A call that was answered without being run.
    pub(super) fn refused(result: ToolResultKind, content: String) -> Self {
        let output_bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Self {
            result,
            content,
            output_file: None,
            output_bytes,
            duration_ms: 0,
            leaked: 0,
            reason: String::new(),
            halt: None,
        }
    }

    /// A call that a hook or the gate denied.
    pub(super) fn denied(reason: &str) -> Self {
        let content = format!(
            "Denied: {reason}. Nobody can approve it during this run; do it another way or finish without it."
        );
        Self {
            reason: reason.to_owned(),
            ..Self::refused(ToolResultKind::Denied, content)
        }
    }
}

/// How many bytes each of `calls` results may have, so that all of a reply's results together stay bounded.
pub(super) fn share(output_limit: usize, calls: usize) -> usize {
    (output_limit.saturating_mul(4) / calls.max(1)).clamp(1_000, output_limit.max(1_000))
}

/// Bounds a redacted text. A longer one goes to `file` whole, and its head and tail with the file's path stay.
pub(super) fn bound(content: String, limit: usize, file: &Path) -> io::Result<(String, bool)> {
    if content.len() <= limit {
        return Ok((content, false));
    }
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(file, &content)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    Ok((
        format!(
            "{}\n{}",
            text::ends(&content, limit),
            where_it_is(content.len(), file)
        ),
        true,
    ))
}

/// Tells the model where the whole output is.
fn where_it_is(bytes: usize, file: &Path) -> String {
    format!(
        "(The whole output, {bytes} bytes, is in {}; look at it with Read, offset and limit, or with Grep.)",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_one_reply_share_a_bound() {
        assert_eq!(share(30_000, 1), 30_000);
        assert_eq!(share(30_000, 4), 30_000);
        assert_eq!(share(30_000, 12), 10_000);
        assert_eq!(share(30_000, 100_000), 1_000);
    }

    #[test]
    fn what_is_too_long_is_kept_whole_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("output/t1.txt");
        let long = "line\n".repeat(1000);
        let (preview, cut) = bound(long.clone(), 200, &file).unwrap();
        assert!(cut && preview.len() < 600 && preview.contains("5000 bytes"));
        assert_eq!(fs::read_to_string(&file).unwrap(), long);
        assert_eq!(
            bound("short".into(), 200, &file).unwrap(),
            ("short".into(), false)
        );
    }
}
