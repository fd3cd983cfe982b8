//! Messages of a conversation in the shape of the Messages API.
//!
//! A block is kept as the JSON that the model sent, key order included, and is only *viewed* as text, tool
//! use or tool result. So thinking blocks with their signatures, and block types that nobody knew when this
//! was written, go back to the model exactly as they came.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Who speaks. The API knows only two roles inside `messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The caller: prompts and tool results.
    User,
    /// The model.
    Assistant,
}

/// One entry of `messages[]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

/// A plain string or a list of blocks; both are legal on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// A prompt.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
}

/// A content block, verbatim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Block(Value);

/// A tool call that the model asks for: data, not yet an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The block's id, which the result repeats.
    pub id: String,
    /// The tool's exact name.
    pub name: String,
    /// The input object (unchecked).
    pub input: Value,
}

impl Message {
    /// A user message that is one string.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: Content::Text(text.into()),
        }
    }

    /// A user message that answers tool calls, in block order.
    #[must_use]
    pub fn results(blocks: Vec<Block>) -> Self {
        Self {
            role: Role::User,
            content: Content::Blocks(blocks),
        }
    }

    /// An assistant message.
    #[must_use]
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self {
            role: Role::Assistant,
            content: Content::Blocks(blocks),
        }
    }

    /// The blocks; none for a plain string.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        match &self.content {
            Content::Text(_) => &[],
            Content::Blocks(blocks) => blocks,
        }
    }

    /// The text that a person reads: all text blocks joined, thinking left out.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => blocks.iter().filter_map(Block::as_text).collect(),
        }
    }

    /// The tool calls in block order.
    #[must_use]
    pub fn tool_calls(&self) -> Vec<ToolCall> {
        self.blocks()
            .iter()
            .filter_map(Block::as_tool_call)
            .collect()
    }
}

impl Block {
    /// Wraps a block as it came.
    #[must_use]
    pub fn verbatim(value: Value) -> Self {
        Self(value)
    }

    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({"type": "text", "text": text.into()}))
    }

    /// A request to call a tool.
    #[must_use]
    pub fn tool_use(call: &ToolCall) -> Self {
        Self(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}))
    }

    /// The answer to a tool call. `is_error` is written only when true, as the API's examples do.
    #[must_use]
    pub fn tool_result(tool_use_id: &str, content: &str, is_error: bool) -> Self {
        let mut block = Map::new();
        block.insert("type".into(), "tool_result".into());
        block.insert("tool_use_id".into(), tool_use_id.into());
        block.insert("content".into(), content.into());
        if is_error {
            block.insert("is_error".into(), true.into());
        }
        Self(Value::Object(block))
    }

    /// The block's `type`, or an empty string.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        (self.kind() == "text")
            .then(|| self.0.get("text").and_then(Value::as_str))
            .flatten()
    }

    /// The call of a `tool_use` block. Server-side tools (`server_tool_use`) are not ours to answer.
    #[must_use]
    pub fn as_tool_call(&self) -> Option<ToolCall> {
        if self.kind() != "tool_use" {
            return None;
        }
        let text = |key: &str| {
            self.0
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let input = self
            .0
            .get("input")
            .cloned()
            .unwrap_or_else(|| Value::Object(Map::new()));
        Some(ToolCall {
            id: text("id"),
            name: text("name"),
            input,
        })
    }

    /// The id that a `tool_result` block answers.
    #[must_use]
    pub fn answers(&self) -> Option<&str> {
        (self.kind() == "tool_result")
            .then(|| self.0.get("tool_use_id").and_then(Value::as_str))
            .flatten()
    }

    /// The raw JSON.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Checks what the API demands of `messages[]`: it starts with the user, roles alternate, and every tool
/// call is answered exactly once, by the very next message, with its results first.
///
/// # Errors
/// One sentence that names the first broken rule and the message's index.
pub fn check_well_formed(messages: &[Message]) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut expected = Role::User;
    for (index, message) in messages.iter().enumerate() {
        if message.role != expected {
            return Err(format!(
                "message {index}: expected role {expected:?}, found {:?}",
                message.role
            ));
        }
        expected = if expected == Role::User {
            Role::Assistant
        } else {
            Role::User
        };
        let answers: Vec<&str> = message.blocks().iter().filter_map(Block::answers).collect();
        if message
            .blocks()
            .iter()
            .take(answers.len())
            .any(|block| block.answers().is_none())
        {
            return Err(format!(
                "message {index}: a block stands before the tool results"
            ));
        }
        let mut asked = std::mem::take(&mut open);
        for id in answers {
            let Some(place) = asked.iter().position(|known| known == id) else {
                return Err(format!(
                    "message {index}: result for `{id}`, which was not asked for"
                ));
            };
            asked.remove(place);
        }
        if let Some(id) = asked.first() {
            return Err(format!("message {index}: tool call `{id}` has no result"));
        }
        open = message
            .tool_calls()
            .into_iter()
            .map(|call| call.id)
            .collect();
    }
    match open.first() {
        Some(id) => Err(format!(
            "the last message leaves tool call `{id}` without a result"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_blocks_go_back_as_they_came() {
        let raw = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"future","z":1,"a":[2]},{"type":"text","text":"hi"}]}"#;
        let message: Message = serde_json::from_str(raw).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), raw);
        assert_eq!(message.text(), "hi");
    }

    #[test]
    fn an_orphan_result_and_a_missing_one_are_found() {
        let call = ToolCall {
            id: "t1".into(),
            name: "Read".into(),
            input: json!({}),
        };
        let asked = Message::assistant(vec![Block::tool_use(&call)]);
        let orphan = [
            Message::user("go"),
            Message::assistant(vec![]),
            Message::results(vec![Block::tool_result("t1", "", false)]),
        ];
        assert!(
            check_well_formed(&orphan)
                .unwrap_err()
                .contains("not asked for")
        );
        let missing = [Message::user("go"), asked.clone(), Message::user("next")];
        assert!(
            check_well_formed(&missing)
                .unwrap_err()
                .contains("has no result")
        );
        let late = [
            Message::user("go"),
            asked.clone(),
            Message::results(vec![Block::text("x"), Block::tool_result("t1", "", false)]),
        ];
        assert!(
            check_well_formed(&late)
                .unwrap_err()
                .contains("before the tool results")
        );
        let right = [
            Message::user("go"),
            asked,
            Message::results(vec![Block::tool_result("t1", "ok", false)]),
        ];
        assert_eq!(check_well_formed(&right), Ok(()));
    }
}
