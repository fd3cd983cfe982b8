//! The body of a request.
//!
//! Messages are written as they stand, so each request of a task repeats the one before it byte for byte and adds to it;
//! that is what prompt caching pays for. Caching is asked for at the top level, never inside a message. Sampling parameters
//! are not sent: current models refuse them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::Settings;
use crate::message::{Block, Content, Message};
use crate::model::Request;

/// What stands for a message in which nothing was said, since the API takes no empty one.
const NOTHING_SAID: &str = "(nothing)";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
    messages: Vec<Cow<'a, Message>>,
}

#[derive(Serialize)]
struct CacheControl {
    r#type: &'static str,
}

/// Writes the body.
pub(super) fn body(
    model: &str,
    request: &Request<'_>,
    settings: &Settings,
) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Body {
        model,
        max_tokens: request.max_tokens,
        stream: settings.streaming,
        cache_control: settings.caching.then_some(CacheControl {
            r#type: "ephemeral",
        }),
        system: request.system,
        tools: request.tools,
        messages: request.messages.iter().map(acceptable).collect(),
    })
}

/// The message, or what the API takes in its place. Three things that a model may say are refused when they go back: tool
/// input that is no object, text without a word, and nothing. Each message is looked at alone, so it is written the same
/// way in every request.
fn acceptable(message: &Message) -> Cow<'_, Message> {
    let Content::Blocks(blocks) = &message.content else {
        return Cow::Borrowed(message);
    };
    if !blocks.is_empty()
        && !blocks
            .iter()
            .any(|block| is_blank(block) || has_odd_input(block))
    {
        return Cow::Borrowed(message);
    }
    let mut kept: Vec<Block> = blocks
        .iter()
        .filter(|block| !is_blank(block))
        .map(with_object_input)
        .collect();
    if kept.is_empty() {
        kept.push(Block::text(NOTHING_SAID));
    }
    Cow::Owned(Message {
        role: message.role,
        content: Content::Blocks(kept),
    })
}

fn is_blank(block: &Block) -> bool {
    block.as_text().is_some_and(|text| text.trim().is_empty())
}

fn has_odd_input(block: &Block) -> bool {
    block.kind() == "tool_use"
        && block
            .value()
            .get("input")
            .is_some_and(|input| !input.is_object())
}

fn with_object_input(block: &Block) -> Block {
    if !has_odd_input(block) {
        return block.clone();
    }
    let mut value = block.value().clone();
    if let Some(input) = value.get_mut("input") {
        *input = json!({ "invalid_input": input.take() });
    }
    Block::verbatim(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Secret;

    fn written(messages: &[Message], tools: &[Value], system: &str) -> Value {
        let request = Request {
            system,
            messages,
            tools,
            max_tokens: 7,
        };
        let settings = Settings::new(Secret::new("sk-secret".to_owned()));
        let body = body("claude-x", &request, &settings).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn a_request_has_what_the_api_wants_and_nothing_else() {
        let tools = [json!({"name": "Read", "input_schema": {"type": "object"}})];
        assert_eq!(
            written(&[Message::user("hi")], &tools, "be brief").to_string(),
            r#"{"model":"claude-x","max_tokens":7,"stream":true,"cache_control":{"type":"ephemeral"},"system":"be brief","tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}]}"#
        );
    }

    #[test]
    fn without_tools_and_system_the_keys_are_left_out() {
        let body = written(&[Message::user("hi")], &[], "");
        assert!(body.get("tools").is_none() && body.get("system").is_none());
    }

    #[test]
    fn blocks_go_back_as_they_came() {
        let raw = json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "", "signature": "c2ln"},
            {"type": "future", "z": 1, "a": {"y": [], "b": 0}},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"z": 1, "a": 2}},
        ]});
        let message: Message = serde_json::from_value(raw.clone()).unwrap();
        let body = written(&[Message::user("hi"), message], &[], "");
        assert_eq!(body["messages"][1].to_string(), raw.to_string());
    }

    #[test]
    fn what_the_api_would_refuse_is_made_acceptable_the_same_way_each_time() {
        let odd = Message::assistant(vec![
            Block::text(" "),
            Block::verbatim(
                json!({"type": "tool_use", "id": "t", "name": "Read", "input": "{\"a\":,"}),
            ),
        ]);
        let silent = Message::assistant(vec![]);
        let body = written(
            &[Message::user("a"), odd, Message::user("b"), silent],
            &[],
            "",
        );
        assert_eq!(
            body["messages"][1]["content"],
            json!([{"type": "tool_use", "id": "t", "name": "Read", "input": {"invalid_input": "{\"a\":,"}}])
        );
        assert_eq!(
            body["messages"][3]["content"],
            json!([{"type": "text", "text": NOTHING_SAID}])
        );
    }
}
