//! Server-sent events: bytes in, events out, as the HTML standard (section 9.2.6) describes it.
//!
//! The decoder is pure and does not know where bytes come from, so a cut may fall anywhere: inside a
//! character, between CR and LF, inside the byte order mark. What an event means is for `anthropic` to say.

use std::collections::VecDeque;

/// The UTF-8 byte order mark, which one stream may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The `event` field, or `message` when the stream named none.
    pub name: String,
    /// The `data` lines, joined by LF. Bytes that are no UTF-8 became U+FFFD.
    pub data: String,
}

/// An event grew beyond the decoder's limit; the stream is of no further use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a streamed event is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Turns pushed bytes into events.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// A `data` field was seen; `data:` alone makes an event with empty data.
    has_data: bool,
    at_start: bool,
    /// The last line ended in CR; a LF that follows belongs to it.
    after_cr: bool,
    ready: VecDeque<Event>,
}

impl Decoder {
    /// A decoder for one stream. No event may need more than `limit` bytes of memory.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            at_start: true,
            after_cr: false,
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The event that these bytes belong to is too large. Events that ended before it can still be pulled.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                return self.keep(bytes);
            };
            self.keep(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
        Ok(())
    }

    /// The next event that is complete. What stands unfinished when a stream ends is no event.
    pub fn pull(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        let held = self.line.len() + self.data.len() + self.name.len();
        if held.saturating_add(part.len()) > self.limit {
            return Err(TooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) {
        let taken = std::mem::take(&mut self.line);
        let mut line = taken.as_slice();
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch();
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = value.to_vec(),
            // An empty field name is a comment. `id` and `retry` are for reconnecting, and a call that costs
            // money is never reconnected behind the caller's back. Other names are to be ignored.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if !std::mem::take(&mut self.has_data) {
            return;
        }
        let name = if name.is_empty() {
            "message".to_owned()
        } else {
            String::from_utf8_lossy(&name).into_owned()
        };
        let data = String::from_utf8_lossy(&data).into_owned();
        self.ready.push_back(Event { name, data });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = Decoder::new(1024);
        for chunk in chunks {
            decoder.push(chunk).unwrap();
        }
        std::iter::from_fn(|| decoder.pull())
            .map(|event| (event.name, event.data))
            .collect()
    }

    fn event(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn a_byte_order_mark_at_the_start_is_dropped_and_only_there() {
        let one = decode(&[b"\xEF", b"\xBB\xBFdata: a\n\ndata: \xEF\xBB\xBFb\n\n"]);
        assert_eq!(one, [event("message", "a"), event("message", "\u{feff}b")]);
    }

    #[test]
    fn all_three_line_ends_end_a_line_even_when_cut_in_two() {
        for text in [
            "event: x\rdata: 1\r\r",
            "event: x\ndata: 1\n\n",
            "event: x\r\ndata: 1\r\n\r\n",
        ] {
            assert_eq!(decode(&[text.as_bytes()]), [event("x", "1")], "{text:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(decode(&bytes), [event("x", "1")], "{text:?} byte by byte");
        }
    }

    #[test]
    fn data_lines_are_joined_and_only_one_space_is_stripped() {
        assert_eq!(
            decode(&[b"data:  a\ndata\ndata:b\n\n"]),
            [event("message", " a\n\nb")]
        );
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_say_nothing() {
        assert_eq!(
            decode(&[b": ping\n\nid: 7\nretry: 10\nfuture: x\n\nevent: only-a-name\n\ndata:\n\n"]),
            [event("message", "")]
        );
    }

    #[test]
    fn an_unfinished_event_is_no_event() {
        assert_eq!(
            decode(&[b"data: whole\n\ndata: half\n"]),
            [event("message", "whole")]
        );
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_stream() {
        assert_eq!(decode(&[b"data: \xff\n\n"]), [event("message", "\u{fffd}")]);
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused_however_it_is_built() {
        let mut long_line = Decoder::new(16);
        assert_eq!(long_line.push(&[b'x'; 17]), Err(TooLarge { limit: 16 }));
        let mut many_lines = Decoder::new(16);
        let pushed = (0..10).try_for_each(|_| many_lines.push(b"data: abc\n"));
        assert_eq!(pushed, Err(TooLarge { limit: 16 }));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just(b"data".to_vec()), Just(b"event".to_vec()), Just(b": ".to_vec()),
                    Just(b":".to_vec()), Just(b"\r".to_vec()), Just(b"\n".to_vec()), Just(b"\r\n".to_vec()),
                    Just("\u{feff}".as_bytes().to_vec()), Just("台".as_bytes().to_vec()),
                    Just(b"\n\n".to_vec()), proptest::collection::vec(any::<u8>(), 0..3),
                ],
                0..60,
            ),
            cuts in proptest::collection::vec(1_usize..7, 1..40),
        ) {
            let stream = parts.concat();
            let mut rest = stream.as_slice();
            let mut chunks = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (head, tail) = rest.split_at((*cut).min(rest.len()));
                chunks.push(head);
                rest = tail;
            }
            prop_assert_eq!(decode(&chunks), decode(&[&stream]));
        }

        #[test]
        fn what_is_written_as_events_comes_out_again(
            written in proptest::collection::vec(("[a-z_]{1,8}", "[^\r\n\u{feff}]{0,20}"), 0..8),
        ) {
            use std::fmt::Write as _;
            let mut stream = String::new();
            for (name, data) in &written {
                write!(stream, "event: {name}\ndata: {data}\n\n").unwrap();
            }
            prop_assert_eq!(decode(&[stream.as_bytes()]), written);
        }
    }
}
