//! Says the result to GitHub Actions: annotations on stdout, outputs and step summary in the files that it names.
//! `GITHUB_ENV` and `GITHUB_PATH` are never written.

use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use crate::cli::settings::Settings;
use crate::report::{Summary, github, page};
use crate::text::{self, workflow};

/// Writes annotations, outputs and summary, as far as the environment names places for them.
///
/// # Errors
/// One of the files could not be written; the error names it.
pub(super) fn tell(summary: &Summary, settings: &Settings) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for annotation in github::annotations(summary) {
        let _ = writeln!(stdout, "{annotation}");
    }
    if let Some(file) = settings.file("GITHUB_OUTPUT") {
        append(
            file,
            &github::outputs(summary, &delimiter()).map_err(io::Error::other)?,
        )?;
    }
    if let Some(file) = settings.file("GITHUB_STEP_SUMMARY") {
        append(file, &page::step_summary(summary))?;
    }
    Ok(())
}

/// An error of the run as a whole, as an annotation.
pub(super) fn error(message: &str) -> String {
    let message = text::visible_line(&text::strip_ansi(message));
    format!("::error title=agent-batch::{}", workflow::data(&message))
}

fn append(file: &Path, text: &str) -> io::Result<()> {
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// A word that nobody can have foreseen: 128 bits of the process's random hasher keys.
fn delimiter() -> String {
    let part = |salt: u8| RandomState::new().hash_one(salt);
    format!("agentbatch{:016x}{:016x}", part(0), part(1))
}
