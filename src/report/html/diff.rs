//! A diff in colours. Whatever looks like one gets them: colours are all that it gets.

use maud::{Markup, html};

/// Whether a text holds a hunk of a unified diff.
pub(super) fn is_diff(text: &str) -> bool {
    text.lines().any(|line| {
        line.starts_with("@@ -") && line.get(4..).is_some_and(|rest| rest.contains(" @@"))
    })
}

/// The lines of a cleaned text with added and removed ones marked. Lines of one kind stand in one element, so a diff is not larger
/// than its text by much.
pub(super) fn lines(text: &str) -> Markup {
    let mut runs: Vec<(Kind, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let kind = kind(line);
        match runs.last_mut() {
            Some((last, run)) if *last == kind => run.push_str(line),
            _ => runs.push((kind, line.to_owned())),
        }
    }
    html! {
        pre.diff {
            @for (kind, run) in &runs {
                @match kind {
                    Kind::Added => ins { (run) },
                    Kind::Removed => del { (run) },
                    Kind::Hunk => span.hunk { (run) },
                    Kind::File => span.file { (run) },
                    Kind::Same => (run),
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Added,
    Removed,
    Hunk,
    File,
    Same,
}

fn kind(line: &str) -> Kind {
    const FILE: [&str; 9] = [
        "diff ",
        "index ",
        "--- ",
        "+++ ",
        "new file",
        "deleted file",
        "old mode",
        "new mode",
        "rename ",
    ];
    if FILE.iter().any(|start| line.starts_with(start)) {
        Kind::File
    } else if line.starts_with('+') {
        Kind::Added
    } else if line.starts_with('-') {
        Kind::Removed
    } else if line.starts_with("@@") {
        Kind::Hunk
    } else {
        Kind::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_marked_by_how_they_begin() {
        let diff = "@@ -1 +1 @@\n-old <b>\n-two\n+new\n same";
        assert!(is_diff(diff) && !is_diff("@@ not\n-a"));
        assert_eq!(
            lines(diff).into_string(),
            "<pre class=\"diff\"><span class=\"hunk\">@@ -1 +1 @@\n</span><del>-old &lt;b&gt;\n-two\n</del><ins>+new\n</ins> same</pre>"
        );
    }
}
