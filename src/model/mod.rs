//! Models: a conversation in, one reply out; nothing is kept between calls.
//!
//! The agent loop knows only [`Model`]. Providers are `anthropic` (the Messages API) and `scripted` (replies from a file,
//! which tests and examples run on). They share the pure parts: `sse` decodes streams, `failure` sorts errors, `retry`
//! says when to try again, `bill` books what tries cost that were cut off, `gate` slows all calls of a run down when the server has too
//! much to do. `http` is the one client. No provider reads the environment: keys and addresses are handed in.

pub mod anthropic;
mod bill;
mod estimate;
pub mod failure;
pub mod gate;
pub mod http;
pub mod retry;
pub mod scripted;
pub mod sse;

use std::time::Duration;

pub use bill::{Bill, Booked};
pub use estimate::json_bytes;

use async_trait::async_trait;
use serde_json::Value;

use crate::message::{Block, Message};
use crate::usage::{ModelFacts, Usage};

/// One call.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The whole conversation.
    pub messages: &'a [Message],
    /// Tool definitions (`name`, `description`, `input_schema`), stable between steps.
    pub tools: &'a [Value],
    /// Most output tokens.
    pub max_tokens: u64,
}

/// The answer, whole.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// The blocks in order.
    pub content: Vec<Block>,
    /// As the provider said; `None` when it said nothing.
    pub stop_reason: Option<String>,
    /// For `stop_sequence`: which.
    pub stop_sequence: Option<String>,
    /// For `refusal`: the provider's details.
    pub stop_details: Option<Value>,
    /// What it cost.
    pub usage: Usage,
    /// The provider's request id.
    pub request_id: Option<String>,
}

/// Hears what happens during a call.
#[async_trait]
pub trait Listener: Send + Sync {
    /// A piece of text arrived. Pieces of a try that failed are void; [`Listener::retried`] says so.
    fn text(&self, piece: &str);
    /// A try failed and is repeated after `delay`.
    fn retried(&self, attempt: u32, delay: Duration, reason: &str);
    /// The call begins to wait for its turn or for the server's load, which is not the task's time.
    fn waiting(&self) {}
    /// The wait that [`Listener::waiting`] told of is over. Told of a call that is dropped, too.
    fn resumed(&self) {}
    /// A try is under way.
    fn sent(&self) {}
    /// The provider has begun to answer the try: from here it may bill it.
    fn begun(&self) {}
    /// The provider says that it does not answer after all.
    fn declined(&self) {}
    /// What the provider has counted of the try so far; `is_whole`: it counts no more.
    fn counted(&self, _usage: &Usage, _is_whole: bool) {}
    /// The try failed.
    fn failed(&self, _reason: &str) {}
    /// Another try is wanted, of at most `max_tokens` output tokens. Returns how many it may ask for; `None`: it is not to be
    /// made.
    async fn again(&self, max_tokens: u64) -> Option<u64> {
        Some(max_tokens)
    }
}

/// Tells a listener of a wait, from here until it is dropped.
pub struct Waiting<'a>(&'a dyn Listener);

impl<'a> Waiting<'a> {
    /// The wait begins.
    pub fn of(listener: &'a dyn Listener) -> Self {
        listener.waiting();
        Self(listener)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.resumed();
    }
}

/// Why there is no reply. Named by what the loop has to decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What it means for the loop.
    pub kind: ModelErrorKind,
    /// One sentence for a person, with what to do where there is something to do.
    pub message: String,
}

/// See [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The credentials are missing or refused (401, 403).
    Auth,
    /// The conversation is too large (413, "prompt is too long").
    TooLarge,
    /// Anything else that ends the task as an infrastructure error.
    Api,
}

/// A model.
#[async_trait]
pub trait Model: Send + Sync {
    /// `provider/model`.
    fn name(&self) -> &str;
    /// Price and limits, where known.
    fn facts(&self) -> Option<ModelFacts>;
    /// Makes one call; retries what may pass. Dropping the future ends the call.
    ///
    /// # Errors
    /// There is no reply and trying again will not help.
    async fn reply(
        &self,
        request: Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ModelError>;
}
