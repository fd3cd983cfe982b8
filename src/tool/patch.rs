//! What an edit did: as a diff for the model, and as hunks for hooks.

use std::time::Duration;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

/// After this time the diff is coarse instead of minimal.
const TIME: Duration = Duration::from_millis(500);
/// Lines around a change.
const CONTEXT: usize = 3;
/// Most bytes of a diff in a result.
const LIMIT: usize = 8 * 1024;

/// Both forms of a change.
pub(super) struct Patch {
    /// A unified diff without file names, clipped.
    pub(super) text: String,
    /// `structuredPatch`: hunks with `oldStart`, `oldLines`, `newStart`, `newLines`, `lines`.
    pub(super) hunks: Value,
}

/// Compares by lines.
pub(super) fn patch(old: &str, new: &str) -> Patch {
    let diff = TextDiff::configure().timeout(TIME).diff_lines(old, new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        text.push_str(&hunk.to_string());
        if text.len() > LIMIT {
            break;
        }
    }
    if text.len() > LIMIT {
        let mut end = LIMIT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("\n[the rest of the diff is left out]");
    }
    let mut size = 0;
    let mut hunks = Vec::new();
    for group in diff.grouped_ops(CONTEXT) {
        if size > LIMIT * 4 {
            break;
        }
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let lines: Vec<String> = group
            .iter()
            .flat_map(|op| diff.iter_changes(op))
            .map(|change| {
                let sign = match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                };
                format!("{sign}{}", change.value().trim_end_matches(['\n', '\r']))
            })
            .collect();
        size += lines.iter().map(String::len).sum::<usize>();
        hunks.push(json!({
            "oldStart": first.old_range().start + 1,
            "oldLines": last.old_range().end - first.old_range().start,
            "newStart": first.new_range().start + 1,
            "newLines": last.new_range().end - first.new_range().start,
            "lines": lines,
        }));
    }
    Patch {
        text,
        hunks: json!(hunks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_its_lines_around() {
        let old = "a\nb\nc\nd\ne\nf\n";
        let patch = patch(old, &old.replace("e\n", "E\nE\n"));
        assert_eq!(patch.text, "@@ -2,5 +2,6 @@\n b\n c\n d\n-e\n+E\n+E\n f\n");
        assert_eq!(
            patch.hunks,
            json!([{
                "oldStart": 2, "oldLines": 5, "newStart": 2, "newLines": 6,
                "lines": [" b", " c", " d", "-e", "+E", "+E", " f"],
            }])
        );
    }

    #[test]
    fn a_huge_change_is_clipped() {
        let patch = patch("", &"ä line\n".repeat(100_000));
        assert!(patch.text.len() < LIMIT + 100);
        assert!(patch.text.ends_with("left out]"));
    }
}
