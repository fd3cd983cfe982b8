//! The outputs of the step, in the form of the file `GITHUB_OUTPUT`.

use super::super::account::in_dir;
use super::super::files::JUNIT;
use super::super::summary::Summary;
use crate::text;

/// The shortest delimiter, in bytes: 128 bits in hex.
const DELIMITER: usize = 32;
/// The longest value, in bytes.
const VALUE: usize = 4096;

/// Outputs that would not be safe to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// The delimiter could be guessed or would break the file.
    #[error("the delimiter must be at least 32 ASCII letters or digits")]
    Delimiter,
    /// A value holds the delimiter.
    #[error("the value of output `{0}` holds the delimiter; try another one")]
    Collision(&'static str),
}

/// The text to append: `conclusion`, `exit-code`, `passed`, `failed`, `errors`, `skipped`, `junit`, `run-dir`. The delimiter is
/// random and must not be known to anything that the run has started.
///
/// # Errors
/// See [`OutputError`].
pub fn outputs(summary: &Summary, delimiter: &str) -> Result<String, OutputError> {
    if delimiter.len() < DELIMITER || !delimiter.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(OutputError::Delimiter);
    }
    let totals = summary.totals();
    let exit = summary.exit();
    let values = [
        ("conclusion", exit.conclusion().to_owned()),
        ("exit-code", exit.code().to_string()),
        ("passed", totals.passed.to_string()),
        ("failed", totals.failed.to_string()),
        ("errors", totals.errors.to_string()),
        ("skipped", totals.skipped.to_string()),
        ("junit", in_dir(&summary.dir, JUNIT)),
        ("run-dir", summary.dir.clone()),
    ];
    let mut out = String::new();
    for (key, value) in values {
        let value = text::visible_line(&text::head(&value, VALUE));
        if value.contains(delimiter) {
            return Err(OutputError::Collision(key));
        }
        out.extend([key, "<<", delimiter, "\n", &value, "\n", delimiter, "\n"]);
    }
    Ok(out)
}
