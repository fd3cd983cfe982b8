//! What the headers of an answer say of the account's limits: `anthropic-ratelimit-<what>-{remaining,reset}`.
//!
//! A call that would only be refused need not be made: when nothing is left of one of them, all calls wait until it is
//! filled up again. The time is taken by the server's own clock.

use std::time::Duration;

use reqwest::header::HeaderMap;
use time::OffsetDateTime;
use time::format_description::well_known::{Rfc2822, Rfc3339};

const LIMITED: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];

/// How long until there is something left again of everything; `None` if there is now, or if nothing is said.
pub(super) fn exhausted(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let now = OffsetDateTime::parse(text("date")?, &Rfc2822).ok()?;
    let waits = LIMITED.iter().filter_map(|what| {
        let left = text(&format!("anthropic-ratelimit-{what}-remaining"))?;
        let reset = text(&format!("anthropic-ratelimit-{what}-reset"))?;
        let reset = OffsetDateTime::parse(reset, &Rfc3339).ok()?;
        (left.trim() == "0")
            .then(|| Duration::try_from(reset - now).ok())
            .flatten()
    });
    waits.max().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn told(remaining: &str, reset: &str) -> Option<Duration> {
        let fields = [
            ("date", "Mon, 30 Nov 2026 10:00:00 GMT"),
            ("anthropic-ratelimit-requests-remaining", "7"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T10:09:00Z"),
            ("anthropic-ratelimit-output-tokens-remaining", remaining),
            ("anthropic-ratelimit-output-tokens-reset", reset),
        ];
        let fields = fields.map(|(name, value)| {
            let value = HeaderValue::from_str(value).unwrap();
            (HeaderName::from_static(name), value)
        });
        exhausted(&HeaderMap::from_iter(fields))
    }

    #[test]
    fn the_wait_is_that_of_the_limit_of_which_nothing_is_left() {
        let wait = told("0", "2026-11-30T10:00:30Z");
        assert_eq!(wait, Some(Duration::from_secs(30)));
    }

    #[test]
    fn what_is_left_is_past_or_cannot_be_read_makes_nobody_wait() {
        assert_eq!(told("1000", "2026-11-30T10:00:30Z"), None);
        assert_eq!(told("0", "2026-11-30T09:59:30Z"), None);
        assert_eq!(told("0", "soon"), None);
        assert_eq!(exhausted(&HeaderMap::new()), None);
    }
}
