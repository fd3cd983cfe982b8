//! The chain of a transcript's lines: each ends with a hash over itself and over the hash of the line before.
//!
//! A line that was edited, dropped, inserted or moved does not continue the chain. There is no key in it: whoever writes
//! every line after the change anew has a whole chain again. A line without a hash is none that was written.

use sha2::{Digest as _, Sha256};

use crate::text;

/// The field that holds the hash, and what encloses it. It is the last one of its line; within a string the quotes would be
/// escaped, so no text can look like it.
const BEFORE: &[u8] = b",\"chain\":\"";
const AFTER: &[u8] = b"\"}";
/// Half of SHA-256, as hexadecimal digits.
const DIGITS: usize = 32;

/// How many bytes at the end of a transcript hold the last hash.
pub(super) const LENGTH: u64 = (BEFORE.len() + DIGITS + AFTER.len() + 1) as u64;

/// The hash that ends the last line of these bytes, which are the end of a transcript.
pub(super) fn last(end: &[u8]) -> Option<String> {
    let (_, hash) = split(end.strip_suffix(b"\n")?)?;
    Some(hash.to_owned())
}

/// The hash of the last line, while lines are written.
#[derive(Debug, Default)]
pub(super) struct Chain(String);

impl Chain {
    /// Makes an event's JSON object the next line of the chain; `start` is where the object begins.
    pub(super) fn close(&mut self, line: &mut Vec<u8>, start: usize) {
        // The brace that ends the object; the field goes before it.
        line.pop();
        self.0 = next(&self.0, line.get(start..).unwrap_or_default());
        line.extend_from_slice(BEFORE);
        line.extend_from_slice(self.0.as_bytes());
        line.extend_from_slice(AFTER);
    }
}

/// What is known of the chain, while lines are read: the hash that the next line continues; `None` behind a line that could
/// not be read.
#[derive(Debug)]
pub(super) struct Check(Option<String>);

impl Default for Check {
    fn default() -> Self {
        Self(Some(String::new()))
    }
}

impl Check {
    /// Looks at a line that is an event, without its line feed; the error says what is wrong with it.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let Some((content, hash)) = split(line.trim_ascii_end()) else {
            return Err("it has no `chain`, and every line that a run writes has one");
        };
        match self.0.replace(hash.to_owned()) {
            Some(before) if next(&before, content) != hash => Err(
                "it does not continue the chain: it was edited, or a line before it was dropped, inserted or moved",
            ),
            _ => Ok(()),
        }
    }

    /// A line that could not be read; what follows it cannot be checked against it.
    pub(super) fn lost(&mut self) {
        self.0 = None;
    }
}

/// The hash of a line: of the hash before it and its bytes up to the field.
fn next(before: &str, content: &[u8]) -> String {
    let digest = Sha256::new()
        .chain_update(before)
        .chain_update(content)
        .finalize();
    text::hex(digest.get(..DIGITS / 2).unwrap_or_default())
}

/// A line's bytes before the field, and the field's value; nothing if it has none.
fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let rest = line.strip_suffix(AFTER)?;
    let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let content = rest.strip_suffix(BEFORE)?;
    let is_hash = hash
        .iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some((content, std::str::from_utf8(hash).ok().filter(|_| is_hash)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<Vec<u8>> {
        let mut chain = Chain::default();
        (0..count)
            .map(|number| {
                let mut line = format!("{{\"seq\":{number},\"text\":\"a\"}}").into_bytes();
                chain.close(&mut line, 0);
                line
            })
            .collect()
    }

    fn wrong(lines: &[Vec<u8>]) -> Vec<usize> {
        let mut check = Check::default();
        let answers = lines.iter().map(|line| check.line(line).is_err());
        let answers: Vec<bool> = answers.collect();
        (0..answers.len()).filter(|at| answers[*at]).collect()
    }

    #[test]
    fn lines_as_they_were_written_are_whole_objects_that_continue_each_other() {
        let lines = lines(4);
        assert!(wrong(&lines).is_empty());
        for line in &lines {
            let value: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(value["chain"].as_str().unwrap().len(), DIGITS);
        }
    }

    #[test]
    fn whatever_is_changed_is_found_where_it_is() {
        let whole = lines(5);
        for at in 0..5 {
            let mut edited = whole.clone();
            let place = edited[at].iter().rposition(|byte| *byte == b'a').unwrap();
            // The last `a` may stand in the hash; either way one byte is another one.
            edited[at][place] = b'b';
            assert_eq!(wrong(&edited).first(), Some(&at), "edited {at}");
            if at < 4 {
                let mut dropped = whole.clone();
                dropped.remove(at);
                assert_eq!(wrong(&dropped), [at], "dropped {at}");
                let mut moved = whole.clone();
                moved.swap(at, at + 1);
                assert_eq!(wrong(&moved).first(), Some(&at), "moved {at}");
            }
            let mut again = whole.clone();
            again.insert(at, whole[at].clone());
            assert_eq!(wrong(&again), [at + 1], "twice {at}");
        }
    }

    #[test]
    fn a_line_without_a_chain_is_none_that_was_written() {
        let mut without = lines(3);
        without[1] = b"{\"seq\":1}".to_vec();
        assert_eq!(wrong(&without), [1, 2]);
        without[0] = b"{\"seq\":0}".to_vec();
        without[2] = b"{\"seq\":2}".to_vec();
        assert_eq!(wrong(&without), [0, 1, 2]);
    }

    #[test]
    fn behind_a_line_that_could_not_be_read_the_chain_begins_anew() {
        let lines = lines(4);
        let mut check = Check::default();
        assert!(check.line(&lines[0]).is_ok());
        check.lost();
        assert!(check.line(&lines[2]).is_ok());
        assert!(check.line(&lines[3]).is_ok());
    }

    #[test]
    fn a_text_that_looks_like_the_field_is_none() {
        let text = format!("x\",\"chain\":\"{}", "0".repeat(DIGITS));
        let line = serde_json::to_vec(&serde_json::json!({ "text": text })).unwrap();
        assert!(split(&line).is_none());
        let nested = format!("{{\"a\":{{\"b\":1,\"chain\":\"{}\"}}}}", "0".repeat(DIGITS));
        assert!(split(nested.as_bytes()).is_none());
    }
}
