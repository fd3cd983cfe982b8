//! Token counts by rule of thumb, where nobody counted: four bytes of JSON a token.
//!
//! A script has no tokenizer, and some gateways report no usage. A budget must move all the same.

use std::io;

use serde::Serialize;

use super::Request;
use crate::message::Block;
use crate::usage::Usage;

const BYTES_A_TOKEN: u64 = 4;

/// What a call would cost, from the sizes of the request and the reply.
pub(super) fn usage(request: &Request<'_>, content: &[Block]) -> Usage {
    Usage {
        input_tokens: tokens(&(request.system, request.tools, request.messages)),
        output_tokens: tokens(&content),
        ..Usage::default()
    }
}

fn tokens(value: &impl Serialize) -> u64 {
    json_bytes(value).div_ceil(BYTES_A_TOKEN)
}

/// The length of a value as compact JSON, without keeping that.
pub fn json_bytes(value: &impl Serialize) -> u64 {
    let mut counted = Counter(0);
    // Counting cannot fail, and a value that cannot be written has no size.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    #[test]
    fn a_longer_conversation_costs_more() {
        let cost = |text: &str| {
            let messages = [Message::user(text)];
            let request = Request {
                system: "",
                messages: &messages,
                tools: &[],
                max_tokens: 1,
            };
            usage(&request, &[Block::text("done")])
        };
        assert_eq!(
            cost(&"x".repeat(400)).input_tokens,
            cost("").input_tokens + 100
        );
        assert!(cost("").output_tokens > 0);
    }
}
