//! Head and foot of the page, and its policy.

use std::path::Path;

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::report::files;
use crate::report::headline;
use crate::report::summary::Summary;

/// The style, ours alone.
const STYLE: &str = include_str!("page.css");
/// The script, ours alone: sorts the table and opens what an address points at.
const SCRIPT: &str = include_str!("page.js");

/// What a browser may do with the page: nothing but the embedded style and script, known by their hashes. No image, font, frame, form or
/// request of any kind.
#[must_use]
pub fn policy() -> String {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        source(STYLE),
        source(SCRIPT)
    )
}

/// The source expression for an embedded text.
fn source(text: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text));
    format!("sha256-{hash}")
}

/// Everything up to the content; [`foot`] closes it.
pub(super) fn head(summary: &Summary) -> Markup {
    let title = headline::of(summary);
    html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy());
            meta name="referrer" content="no-referrer";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · agent-batch" }
            style { (PreEscaped(STYLE)) }
        }
        (PreEscaped("<body>"))
        a.skip href="#Tasks" { "Skip to the tasks" }
    }
}

/// Reports that stand beside the page only sometimes, as not every version and system asks for them.
const SOMETIMES: [&str; 3] = [files::MARKDOWN, files::COMMENT, files::CODE_QUALITY];

/// The end of the page, with links to the reports that stand beside it in the run directory.
pub(super) fn foot(summary: &Summary, directory: &Path) -> Markup {
    let present = SOMETIMES
        .iter()
        .filter(|name| directory.join(name).is_file());
    let version = crate::text::html::line(&summary.plan.program_version, 40);
    html! {
        (PreEscaped("</main>"))
        footer {
            p {
                "Made by agent-batch " (version) " from the transcripts in this directory. The same data for programs: "
                a href="./summary.json" { "summary.json" } ", " a href="./junit.xml" { "junit.xml" }
                @for name in present { ", " a href={ "./" (name) } { (name) } }
                "."
            }
        }
        script { (PreEscaped(SCRIPT)) }
        (PreEscaped("</body></html>"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_style_and_script_ends_them_or_reaches_out() {
        for text in [STYLE, SCRIPT] {
            for foreign in ["<", "url(", "@import", "http", "\r", "innerHTML", "eval"] {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
    }

    #[test]
    fn the_policy_names_the_hash_of_what_is_embedded() {
        // The hash of the empty text, which everybody knows.
        assert_eq!(
            source(""),
            "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
        );
        assert!(policy().starts_with("default-src 'none'; "));
        assert!(!policy().contains("unsafe"));
    }
}
