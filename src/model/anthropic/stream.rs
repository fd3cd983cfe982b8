//! A reply put together from the events of a stream. Pure: events in, one [`Reply`] out, whole or not at all.

use serde_json::{Map, Value};

use super::{input, whole};
use crate::message::Block;
use crate::model::Reply;
use crate::model::failure::Failure;
use crate::model::sse::Event;
use crate::usage::Usage;

/// Most blocks of one reply.
const MOST_BLOCKS: usize = 4096;

/// The reply so far.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    reply: Reply,
    open: Option<OpenBlock>,
    started: bool,
    /// The last counts came.
    is_counted: bool,
    ended: bool,
}

/// What an event brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A sign of life or something unknown: nothing that brings the reply nearer to its end.
    Nothing,
    /// The reply grew.
    Progress,
    /// The reply's text grew by this.
    Text(String),
    /// The reply is whole.
    End,
}

/// A block between its start and its stop.
#[derive(Debug)]
struct OpenBlock {
    index: u64,
    fields: Map<String, Value>,
    /// Tool input, in pieces of JSON.
    input: String,
}

impl Assembly {
    /// Takes the next event.
    ///
    /// # Errors
    /// The event is an error of the API, or the events do not make a message.
    pub(super) fn take(&mut self, event: &Event, model: &str) -> Result<Heard, Failure> {
        let mut data: Value = serde_json::from_str(&event.data)
            .map_err(|_| garbled(&format!("the data of `{}` is not JSON", event.name)))?;
        let kind = whole::text(&data, "type").unwrap_or_else(|| event.name.clone());
        match kind.as_str() {
            "message_start" => {
                self.started = true;
                if let Some(counts) = data.pointer("/message/usage") {
                    whole::count(&mut self.reply.usage, counts);
                }
                Ok(Heard::Progress)
            }
            "content_block_start" => self.start(&mut data),
            "content_block_delta" => self.grow(&mut data),
            "content_block_stop" => self.stop(&data),
            "message_delta" => {
                if let Some(delta) = data.get("delta") {
                    whole::ending(&mut self.reply, delta);
                }
                if let Some(counts) = data.get("usage") {
                    whole::count(&mut self.reply.usage, counts);
                    self.is_counted = self.reply.stop_reason.is_some()
                        && counts.get("output_tokens").is_some_and(Value::is_u64);
                }
                Ok(Heard::Progress)
            }
            "message_stop" => {
                self.ended = true;
                Ok(Heard::End)
            }
            "error" => Err(Failure::of_error(
                data.get("error").unwrap_or(&Value::Null),
                model,
            )),
            _ => Ok(Heard::Nothing),
        }
    }

    /// Whether the message has a beginning.
    pub(super) fn has_begun(&self) -> bool {
        self.started
    }

    /// The counts so far, and whether they are the last, which come with the reason why the message stopped.
    pub(super) fn counted(&self) -> (Usage, bool) {
        (self.reply.usage, self.is_counted)
    }

    /// The reply.
    ///
    /// # Errors
    /// A part of it is missing.
    pub(super) fn finish(self) -> Result<Reply, Failure> {
        if !self.started || !self.ended {
            return Err(garbled("the message has no beginning or no end"));
        }
        if self.open.is_some() {
            return Err(garbled("the message ended inside a block"));
        }
        Ok(self.reply)
    }

    fn start(&mut self, data: &mut Value) -> Result<Heard, Failure> {
        let index = index_of(data);
        if self.open.is_some() || index != Some(self.reply.content.len() as u64) {
            return Err(garbled("blocks do not follow one another"));
        }
        if self.reply.content.len() >= MOST_BLOCKS {
            return Err(Failure::fatal(format!(
                "the API's answer has more than {MOST_BLOCKS} blocks"
            )));
        }
        let fields = whole::fields(
            data.get_mut("content_block")
                .map(Value::take)
                .unwrap_or_default(),
        );
        let text = match fields.get("text") {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        self.open = Some(OpenBlock {
            index: index.unwrap_or_default(),
            fields,
            input: String::new(),
        });
        Ok(text.map_or(Heard::Progress, Heard::Text))
    }

    fn grow(&mut self, data: &mut Value) -> Result<Heard, Failure> {
        let index = index_of(data);
        let Some(open) = self.open.as_mut().filter(|open| Some(open.index) == index) else {
            return Err(garbled("a piece belongs to no block"));
        };
        let mut delta = whole::fields(data.get_mut("delta").map(Value::take).unwrap_or_default());
        let kind = delta.remove("type");
        let mut piece = |key: &str| match delta.remove(key) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match kind.as_ref().and_then(Value::as_str).unwrap_or_default() {
            "text_delta" => {
                let text = piece("text");
                open.append("text", &text);
                if !text.is_empty() {
                    return Ok(Heard::Text(text));
                }
            }
            "input_json_delta" => open.input.push_str(&piece("partial_json")),
            "thinking_delta" => open.append("thinking", &piece("thinking")),
            "signature_delta" => {
                let signature = piece("signature");
                open.fields.insert("signature".to_owned(), signature.into());
            }
            "citations_delta" => open.cite(delta.remove("citation")),
            _ => return Ok(Heard::Nothing),
        }
        Ok(Heard::Progress)
    }

    fn stop(&mut self, data: &Value) -> Result<Heard, Failure> {
        let Some(open) = self
            .open
            .take()
            .filter(|open| Some(open.index) == index_of(data))
        else {
            return Err(garbled("a block ends that did not begin"));
        };
        self.reply.content.push(open.close());
        Ok(Heard::Progress)
    }
}

impl OpenBlock {
    fn append(&mut self, key: &str, piece: &str) {
        if let Some(Value::String(text)) = self.fields.get_mut(key) {
            text.push_str(piece);
        } else {
            self.fields.insert(key.to_owned(), piece.into());
        }
    }

    fn cite(&mut self, citation: Option<Value>) {
        let Some(citation) = citation else { return };
        if let Some(Value::Array(citations)) = self.fields.get_mut("citations") {
            citations.push(citation);
        } else {
            self.fields
                .insert("citations".to_owned(), Value::Array(vec![citation]));
        }
    }

    /// The block as it goes back. The input of a call is parsed once, here.
    fn close(mut self) -> Block {
        let is_call = self.fields.get("type").and_then(Value::as_str) == Some("tool_use");
        let begun_with = self.fields.get_mut("input").map(Value::take);
        if !self.input.is_empty() {
            self.fields
                .insert("input".to_owned(), input::parse(&self.input));
        } else if let Some(begun_with) = begun_with {
            self.fields
                .insert("input".to_owned(), input::check(begun_with));
        } else if is_call {
            self.fields
                .insert("input".to_owned(), Value::Object(Map::new()));
        }
        Block::verbatim(Value::Object(self.fields))
    }
}

fn index_of(data: &Value) -> Option<u64> {
    data.get("index").and_then(Value::as_u64)
}

/// The stream is not what the API documents: cut and glued by something in between, so that another try may pass.
fn garbled(what: &str) -> Failure {
    Failure::passing(format!("the API's stream is garbled: {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::failure::Retry;

    fn event(data: &Value) -> Event {
        Event {
            name: data["type"].as_str().unwrap_or("message").to_owned(),
            data: data.to_string(),
        }
    }

    fn assemble(events: &[Value]) -> Result<(Reply, Vec<Heard>), Failure> {
        let mut assembly = Assembly::default();
        let mut heard = Vec::new();
        for data in events {
            heard.push(assembly.take(&event(data), "m")?);
        }
        Ok((assembly.finish()?, heard))
    }

    fn around(block_events: Vec<Value>) -> Vec<Value> {
        let mut events = vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}),
        ];
        events.extend(block_events);
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 30}}));
        events.push(json!({"type": "message_stop"}));
        events
    }

    fn block(start: &Value, deltas: &[Value]) -> Vec<Value> {
        let mut events =
            vec![json!({"type": "content_block_start", "index": 0, "content_block": start})];
        events.extend(
            deltas
                .iter()
                .map(|delta| json!({"type": "content_block_delta", "index": 0, "delta": delta})),
        );
        events.push(json!({"type": "content_block_stop", "index": 0}));
        events
    }

    fn one(start: &Value, deltas: &[Value]) -> Value {
        let (reply, _) = assemble(&around(block(start, deltas))).unwrap();
        reply.content[0].value().clone()
    }

    fn call(pieces: &[&str]) -> Value {
        let deltas: Vec<Value> = pieces
            .iter()
            .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
            .collect();
        one(
            &json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}}),
            &deltas,
        )["input"]
            .clone()
    }

    #[test]
    fn text_arrives_in_pieces_and_is_whole_in_the_end() {
        let events = around(block(
            &json!({"type": "text", "text": ""}),
            &[
                json!({"type": "text_delta", "text": "帶"}),
                json!({"type": "text_delta", "text": "吧"}),
            ],
        ));
        let (reply, heard) = assemble(&events).unwrap();
        assert_eq!(reply.content, [Block::text("帶吧")]);
        let pieces: String = heard
            .iter()
            .filter_map(|heard| match heard {
                Heard::Text(piece) => Some(piece.as_str()),
                Heard::Nothing | Heard::Progress | Heard::End => None,
            })
            .collect();
        assert_eq!(pieces, "帶吧");
        assert_eq!(reply.stop_reason.as_deref(), Some("tool_use"));
        assert_eq!(
            (reply.usage.input_tokens, reply.usage.output_tokens),
            (9, 30),
            "counts are running totals"
        );
    }

    #[test]
    fn tool_input_may_be_cut_anywhere_and_nothing_means_an_empty_object() {
        let raw = r#"{"path":"src/台.rs","n":1}"#;
        for (at, _) in raw.char_indices() {
            assert_eq!(call(&[&raw[..at], &raw[at..]]).to_string(), raw);
        }
        assert_eq!(call(&[]), json!({}));
        assert_eq!(call(&[""]), json!({}));
    }

    #[test]
    fn broken_tool_input_is_kept_as_text() {
        assert_eq!(call(&["{\"a\":", ",,"]), json!("{\"a\":,,"));
    }

    #[test]
    fn thinking_signatures_citations_and_unknown_blocks_are_kept() {
        assert_eq!(
            one(
                &json!({"type": "thinking", "thinking": "", "signature": ""}),
                &[
                    json!({"type": "thinking_delta", "thinking": "hm"}),
                    json!({"type": "thinking_delta", "thinking": "m"}),
                    json!({"type": "signature_delta", "signature": "c2ln"}),
                ]
            ),
            json!({"type": "thinking", "thinking": "hmm", "signature": "c2ln"})
        );
        assert_eq!(
            one(
                &json!({"type": "text", "text": ""}),
                &[
                    json!({"type": "citations_delta", "citation": {"n": 1}}),
                    json!({"type": "citations_delta", "citation": {"n": 2}})
                ]
            )["citations"],
            json!([{"n": 1}, {"n": 2}])
        );
        let future = json!({"type": "future", "z": {"y": 1}, "a": []});
        assert_eq!(
            one(&future, &[json!({"type": "future_delta", "x": 1})]),
            future
        );
    }

    #[test]
    fn pings_and_unknown_events_are_no_progress() {
        let mut assembly = Assembly::default();
        for data in [json!({"type": "ping"}), json!({"type": "future_event"})] {
            assert_eq!(assembly.take(&event(&data), "m").unwrap(), Heard::Nothing);
        }
    }

    #[test]
    fn a_stop_reason_that_was_not_said_stays_unsaid() {
        let events = [
            json!({"type": "message_start", "message": {"stop_reason": null}}),
            json!({"type": "message_delta", "delta": {"stop_reason": null}}),
            json!({"type": "message_stop"}),
        ];
        assert_eq!(assemble(&events).unwrap().0.stop_reason, None);
    }

    #[test]
    fn an_error_in_the_stream_ends_the_try() {
        let failure = assemble(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]).unwrap_err();
        assert_eq!(failure.retry, Retry::Backoff);
        assert!(
            failure
                .error
                .message
                .contains("overloaded_error: `Overloaded`")
        );
    }

    #[test]
    fn events_that_make_no_message_are_a_failure_and_not_half_a_reply() {
        let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
        let delta = json!({"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}});
        let stop = json!({"type": "message_stop"});
        let begin = json!({"type": "message_start"});
        for events in [
            vec![stop.clone()],
            vec![begin.clone(), start.clone(), stop],
            vec![begin.clone(), start.clone(), start.clone()],
            vec![begin.clone(), start, delta.clone()],
            vec![begin.clone(), delta],
            vec![begin, json!({"type": "content_block_stop", "index": 0})],
        ] {
            assert_eq!(
                assemble(&events).unwrap_err().retry,
                Retry::Backoff,
                "{events:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_event_is_a_panic(
            kinds in proptest::collection::vec(0_usize..7, 0..12),
            index in 0_u64..3,
            inner in prop_oneof![Just(json!(null)), Just(json!(7)), Just(json!({"type": "text_delta", "text": 1})), Just(json!({"type": "tool_use", "input": []})), Just(json!([]))],
        ) {
            const KINDS: [&str; 7] = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error", "x"];
            let mut assembly = Assembly::default();
            for kind in kinds {
                let data = json!({"type": KINDS[kind], "index": index, "delta": inner, "content_block": inner, "message": inner, "usage": inner, "error": inner});
                let _ = assembly.take(&event(&data), "m");
            }
            let _ = assembly.finish();
        }
    }
}
