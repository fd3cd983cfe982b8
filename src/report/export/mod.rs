//! A transcript in the formats of others, for their viewers and tools.
//!
//! | chapter | format |
//! |---|---|
//! | [`stream_json`] | the lines that Claude Code prints and keeps |
//! | [`atif`] | the Agent Trajectory Interchange Format of the benchmark field |
//!
//! Both are written event by event, so the size of a transcript does not matter. Ids are derived from what they name: an export
//! that is made again is the same. A transcript that ends in the middle is exported as far as it goes, and the caller is
//! told.

mod atif;
mod stream_json;

use std::io::{self, Write};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

use super::transcript::{Damage, Ending};
use crate::event::Event;
use crate::text;

/// How many hook answers, retries, warnings, checks or denials are kept where a format wants them together.
const KEPT: usize = 100;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Claude Code's stream-json, with the fields of its transcripts on disk as well.
    StreamJson,
    /// ATIF, version 1.7.
    Atif,
}

/// Writes the events in a format; says how the transcript ended. Of a transcript without any event, nothing is written.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    events: impl IntoIterator<Item = Result<Event, Damage>>,
    format: Format,
) -> io::Result<Ending> {
    let ending = match format {
        Format::StreamJson => each(events, stream_json::StreamJson::new(&mut *out))?,
        Format::Atif => each(events, atif::Atif::new(&mut *out))?,
    };
    out.flush()?;
    Ok(ending)
}

/// What a format does with a transcript.
trait Exporter {
    /// Takes one event.
    fn event(&mut self, event: &Event) -> io::Result<()>;
    /// There are no more.
    fn close(&mut self) -> io::Result<()>;
}

fn each(
    events: impl IntoIterator<Item = Result<Event, Damage>>,
    mut exporter: impl Exporter,
) -> io::Result<Ending> {
    let mut ending = Ending::default();
    for item in events {
        ending.note(&item);
        if let Ok(event) = item {
            exporter.event(&event)?;
        }
    }
    exporter.close()?;
    Ok(ending)
}

/// A value on one line on which nothing acts.
fn one_line(value: &Value) -> String {
    text::json::inert(&value.to_string())
}

/// An id in the form of a UUID (version 8: by our own rule), the same for the same parts.
fn id(parts: &[&str]) -> String {
    let mut hash = Sha256::digest(parts.join("\0").as_bytes());
    hash[6] = hash[6] & 0x0f | 0x80;
    hash[8] = hash[8] & 0x3f | 0x80;
    let hex = text::hex(&hash[..16]);
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// The id of the attempt that the event belongs to.
fn session(event: &Event) -> String {
    id(&["session", &event.task, &event.attempt.to_string()])
}

/// A time as both formats write it, to the millisecond.
fn timestamp(at: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(&format)
        .unwrap_or_default()
}

/// The model's name without its provider.
fn model_name(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_the_same_for_the_same() {
        let one = id(&["session", "a", "1"]);
        assert_eq!(one, id(&["session", "a", "1"]));
        assert_ne!(one, id(&["session", "a", "2"]));
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'8');
    }

    #[test]
    fn times_have_milliseconds() {
        let at = time::macros::datetime!(2026-01-02 03:04:05.5 UTC);
        assert_eq!(timestamp(at), "2026-01-02T03:04:05.500Z");
    }
}
