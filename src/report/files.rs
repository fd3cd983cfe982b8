//! Writes reports: each appears whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::report::junit::{self, Dialect};
use crate::report::{gitlab, html, json, page, summary::Summary};

/// How the name of a file begins that is being written.
pub const WRITING: &str = ".writing-";
/// The JUnit report.
pub const JUNIT: &str = "junit.xml";
/// The report for programs.
pub const JSON: &str = "summary.json";
/// The page for a person, which is also the step summary.
pub const MARKDOWN: &str = "summary.md";
/// The page for a person who wants to see what the agents did.
pub const HTML: &str = "report.html";
/// The page again, short enough for a comment on a pull request.
pub const COMMENT: &str = "comment.md";
/// The report that GitLab shows beside a merge request; written only for GitLab.
pub const CODE_QUALITY: &str = "gl-code-quality-report.json";

/// The forms that reports take where readers differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forms {
    /// The readers of [`JUNIT`].
    pub junit: Dialect,
    /// Whether [`CODE_QUALITY`] is written.
    pub gitlab: bool,
}

/// A report that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write `{}`: {source}", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Writes a file by way of a temporary one in the same directory. Readers see the old content or the new one.
///
/// # Errors
/// The directory does not exist or is not writable, or the disk is full; the old file is left as it was.
pub fn write(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(content))
}

/// Like [`write()`], for content that is made piece by piece.
///
/// # Errors
/// Those of [`write()`] and of `write`; the old file is left as it was.
pub fn write_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let failed = |source| WriteError {
        path: path.to_owned(),
        source,
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(WRITING);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // Reports are read by later steps, which may run as another user; the umask still applies.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(directory).map_err(failed)?;
    let mut buffer = BufWriter::new(file);
    write(&mut buffer).map_err(failed)?;
    let file = buffer
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Writes [`JUNIT`], [`JSON`], [`MARKDOWN`], [`COMMENT`], [`HTML`] and what `forms` asks for into the run directory.
///
/// # Errors
/// The first report that could not be made or written; the others are tried all the same. An old [`JUNIT`] is not left in place
/// of the one that could not be written, as whoever reads it would take it for this run's.
pub fn write_all(directory: &Path, summary: &Summary, forms: Forms) -> Result<(), WriteError> {
    // The one that most depends on comes first: a disk that fills up while reports are written has room for it. Those of many tasks
    // are megabytes: they are written as they are made. The others are bounded.
    let path = directory.join(JUNIT);
    let mut first = write_with(&path, |out| junit::write(out, summary, forms.junit));
    if first.is_err() {
        // What cannot be removed either is told with the error.
        let _ = std::fs::remove_file(&path);
    }
    first = first.and(write_with(&directory.join(JSON), |out| {
        json::write(out, summary)
    }));
    let put = |name: &str, content: &str| write(&directory.join(name), content.as_bytes());
    first = first.and(put(MARKDOWN, &page::step_summary(summary)));
    first = first.and(put(COMMENT, &page::comment(summary)));
    if forms.gitlab {
        first = first.and(write_with(&directory.join(CODE_QUALITY), |out| {
            let report = gitlab::code_quality(summary)?;
            out.write_all(report.as_bytes())
        }));
    }
    let page = write_with(&directory.join(HTML), |out| {
        html::write(out, summary, directory)
    });
    first.and(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.txt");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing/a.txt");
        let error = write(&path, b"x").unwrap_err().to_string();
        assert!(error.contains("missing/a.txt"), "{error}");
    }
}
