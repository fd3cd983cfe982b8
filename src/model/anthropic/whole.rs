//! A reply that came in one body, and the parts of a reply that both ways read alike.

use serde_json::{Map, Value};

use super::input::{self, Strict};
use crate::message::Block;
use crate::model::Reply;
use crate::model::failure::{Failure, quote};
use crate::usage::Usage;

/// No call uses this many tokens. A count beyond it is held here.
const MOST_TOKENS: u64 = 1_000_000_000;

/// Reads a body that came with status 200.
pub(super) fn reply(body: &[u8], model: &str) -> Result<Reply, Failure> {
    let (mut message, ambiguous) = match serde_json::from_slice::<Strict>(body) {
        Ok(Strict(message)) => (message, false),
        // Either no JSON, or a key stands twice somewhere. Then no tool input of this reply can be trusted.
        Err(_) => match serde_json::from_slice::<Value>(body) {
            Ok(message) => (message, true),
            Err(error) => {
                return Err(Failure::passing(format!(
                    "the API's answer is not JSON ({})",
                    quote(&error.to_string())
                )));
            }
        },
    };
    if let Some(error) = message.get("error").filter(|error| error.is_object()) {
        return Err(Failure::of_error(error, model));
    }
    let Some(Value::Array(content)) = message.get_mut("content").map(Value::take) else {
        return Err(Failure::fatal(
            "expected a message with a list `content` from the API, found none; check the base URL",
        ));
    };
    let content = content
        .into_iter()
        .map(|block| Block::verbatim(with_checked_input(block, ambiguous)))
        .collect();
    let mut reply = Reply {
        content,
        request_id: text(&message, "request_id"),
        ..Reply::default()
    };
    ending(&mut reply, &message);
    if let Some(counts) = message.get("usage") {
        count(&mut reply.usage, counts);
    }
    Ok(reply)
}

/// Whether a body is the API's error and no message.
pub(super) fn is_error(body: &[u8]) -> bool {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    body.is_some_and(|body| body.get("error").is_some_and(Value::is_object))
}

fn with_checked_input(mut block: Value, ambiguous: bool) -> Value {
    let is_call = block.get("type").and_then(Value::as_str) == Some("tool_use");
    if is_call && let Some(found) = block.get_mut("input") {
        let found_input = found.take();
        *found = if ambiguous {
            Value::String(found_input.to_string())
        } else {
            input::check(found_input)
        };
    }
    block
}

/// Takes the stop reason and what belongs to it; what is null or absent stays unsaid.
pub(super) fn ending(reply: &mut Reply, from: &Value) {
    reply.stop_reason = text(from, "stop_reason").or(reply.stop_reason.take());
    reply.stop_sequence = text(from, "stop_sequence").or(reply.stop_sequence.take());
    reply.stop_details = from
        .get("stop_details")
        .filter(|details| !details.is_null())
        .cloned()
        .or(reply.stop_details.take());
}

/// Takes the counts that are there. They are running totals, so a later one replaces an earlier one.
pub(super) fn count(usage: &mut Usage, counts: &Value) {
    let fields: [(&str, &mut u64); 4] = [
        ("input_tokens", &mut usage.input_tokens),
        (
            "cache_creation_input_tokens",
            &mut usage.cache_creation_input_tokens,
        ),
        (
            "cache_read_input_tokens",
            &mut usage.cache_read_input_tokens,
        ),
        ("output_tokens", &mut usage.output_tokens),
    ];
    for (name, field) in fields {
        if let Some(value) = counts.get(name).and_then(Value::as_u64) {
            *field = value.min(MOST_TOKENS);
        }
    }
}

pub(super) fn text(from: &Value, key: &str) -> Option<String> {
    from.get(key).and_then(Value::as_str).map(str::to_owned)
}

/// The fields of an object; none for anything else.
pub(super) fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::failure::Retry;

    #[test]
    fn a_refusal_keeps_its_details_and_null_stays_unsaid() {
        let body = json!({"content": [], "stop_reason": "refusal", "stop_sequence": null,
            "stop_details": {"type": "refusal", "category": "cyber"}, "usage": {"input_tokens": 3}});
        let reply = reply(body.to_string().as_bytes(), "m").unwrap();
        assert_eq!(reply.stop_reason.as_deref(), Some("refusal"));
        assert_eq!(reply.stop_sequence, None);
        assert_eq!(reply.stop_details.unwrap()["category"], "cyber");
    }

    #[test]
    fn counts_that_are_no_counts_are_left_alone_and_large_ones_held() {
        let mut usage = Usage {
            output_tokens: 5,
            ..Usage::default()
        };
        count(
            &mut usage,
            &json!({"input_tokens": u64::MAX, "output_tokens": -1, "cache_read_input_tokens": 1.5}),
        );
        assert_eq!((usage.input_tokens, usage.output_tokens), (MOST_TOKENS, 5));
        assert_eq!(usage.cache_read_input_tokens, 0);
    }

    #[test]
    fn a_key_that_stands_twice_makes_tool_input_text() {
        let body = br#"{"content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"true","command":"rm x"}}],"stop_reason":"tool_use"}"#;
        let reply = reply(body, "m").unwrap();
        assert!(reply.content[0].as_tool_call().unwrap().input.is_string());
    }

    #[test]
    fn half_a_body_may_pass_and_a_body_of_something_else_does_not() {
        assert_eq!(
            reply(b"{\"content\":[", "m").unwrap_err().retry,
            Retry::Backoff
        );
        assert_eq!(
            reply(b"{\"ok\":true}", "m").unwrap_err().retry,
            Retry::Never
        );
        let overloaded = br#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
        assert_eq!(reply(overloaded, "m").unwrap_err().retry, Retry::Backoff);
    }

    proptest! {
        #[test]
        fn no_body_is_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), inner in "[\\[\\]{}\":,a0n ]{0,20}") {
            let _ = reply(&bytes, "m");
            let _ = reply(format!("{{\"content\":[{inner}],\"usage\":{inner}}}").as_bytes(), "m");
        }
    }
}
