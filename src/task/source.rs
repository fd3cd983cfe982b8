//! Reads a task file as text: whatever lies at the path, the answer is text that YAML may be in, or one clear error.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use super::TaskFile;
use super::diagnostic::{Diagnostic, Place};

/// The largest task file, in bytes.
pub const LARGEST_FILE: u64 = 256 * 1024;
/// The most brackets that may be open at once. The parser's time is quadratic in this, and a hundred levels of
/// nesting are refused anyway.
const DEEPEST_BRACKETS: usize = 1000;

/// The text of a task file, without a byte order mark.
pub(super) fn read(file: &TaskFile) -> Result<Arc<str>, Box<Diagnostic>> {
    let bytes = bytes(file)?;
    text(&file.display, bytes)
}

fn bytes(file: &TaskFile) -> Result<Vec<u8>, Box<Diagnostic>> {
    let error = |message: String| Box::new(Diagnostic::error(&file.display, message));
    crate::file::read(&file.absolute, LARGEST_FILE).map_err(|reason| match reason.kind() {
        ErrorKind::NotFound => error("no such file".to_owned()),
        ErrorKind::IsADirectory => Box::new(
            Diagnostic::error(&file.display, "expected a task file, found a directory")
                .with_hint("name the files in it, as in `tasks/*.yaml`"),
        ),
        ErrorKind::FileTooLarge => error(format!(
            "the file is larger than {} KiB, which is the most a task file may have",
            LARGEST_FILE / 1024
        )),
        ErrorKind::InvalidInput => error("expected a regular file".to_owned()),
        _ => error(format!("the file could not be read: {reason}")),
    })
}

/// Bytes as text that a YAML parser may see.
pub(super) fn text(display: &str, bytes: Vec<u8>) -> Result<Arc<str>, Box<Diagnostic>> {
    let error = |message: String| Diagnostic::error(display, message);
    if let Some(place) = bytes.iter().position(|byte| *byte == 0) {
        return Err(Box::new(
            error(format!("expected text, found a NUL byte at byte {place}"))
                .with_hint("is this a binary file, or UTF-16? task files are UTF-8"),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|invalid| {
        let place = invalid.utf8_error().valid_up_to();
        Box::new(error(format!(
            "the file is not UTF-8: byte {place} begins no character"
        )))
    })?;
    let text: Arc<str> = text.strip_prefix('\u{feff}').unwrap_or(&text).into();
    if text.trim().is_empty() {
        return Err(Box::new(
            error("the file is empty".to_owned())
                .with_hint("a task needs at least a `model` and a `prompt`"),
        ));
    }
    let at = |message: String, span: Range<usize>| {
        Box::new(error(message).at(Some(Place::new(Arc::clone(&text), span))))
    };
    if let Some((place, c)) = text.char_indices().find(|(_, c)| is_forbidden(*c)) {
        let message = format!("the character U+{:04X} may not stand in YAML", u32::from(c));
        let diagnostic = at(message, place..place + c.len_utf8());
        return Err(Box::new(diagnostic.with_hint(
            "in double quotes it can be written as an escape, as in `\"\\u001B\"`",
        )));
    }
    if let Some(place) = too_many_brackets(&text) {
        return Err(at(
            "brackets are nested too deeply".to_owned(),
            place..place + 1,
        ));
    }
    Ok(text)
}

/// What YAML does not let stand in a file. The parser knows too, and does not say where.
fn is_forbidden(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{7f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        _ => c.is_control(),
    }
}

/// Where the text opens more brackets than can be meant, quoted or not.
fn too_many_brackets(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > DEEPEST_BRACKETS {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        text("t.yaml", bytes.to_vec()).unwrap_err().message
    }

    #[test]
    fn a_byte_order_mark_and_windows_lines_are_fine() {
        let text = text("t.yaml", b"\xef\xbb\xbfname: x\r\nprompt: y\r\n".to_vec()).unwrap();
        assert!(text.starts_with("name"));
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none() {
        assert!(message(b"").contains("empty"));
        assert!(message(b"\xef\xbb\xbf \n").contains("empty"));
        assert!(message(b"a\xff").contains("not UTF-8: byte 1"));
        assert!(message(b"\x7fELF\0\0").contains("NUL"));
        assert!(message(b"n\0a\0m\0e\0").contains("NUL"));
        assert!(message("[".repeat(2000).as_bytes()).contains("too deeply"));
    }

    #[test]
    fn a_forbidden_character_has_a_place() {
        let error = text("t.yaml", b"a: b\nc: \x1b[31m".to_vec()).unwrap_err();
        assert_eq!((error.line(), error.column()), (2, 4));
        assert!(error.message.contains("U+001B"));
    }
}
