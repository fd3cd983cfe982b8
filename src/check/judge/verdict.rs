//! The answer of a judge, read strictly: one JSON object with a score and a reason, alone or in one fence.

use serde::Deserialize;

/// A judge's answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verdict {
    /// From 0 to 1.
    pub(super) score: f64,
    /// Why.
    pub(super) reason: String,
}

/// Reads an answer.
///
/// # Errors
/// It is anything else than one object with exactly these two fields, or the score is none.
pub(super) fn parse(text: &str) -> Result<Verdict, String> {
    let text = text.trim();
    let inside = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"))
        .and_then(|rest| rest.strip_suffix("```"));
    let verdict: Verdict = serde_json::from_str(inside.unwrap_or(text).trim())
        .map_err(|error| format!("expected {{\"score\": …, \"reason\": …}}: {error}"))?;
    if !(0.0..=1.0).contains(&verdict.score) {
        return Err(format!(
            "expected a score from 0 to 1, found `{}`",
            verdict.score
        ));
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_alone_or_in_one_fence_is_a_verdict() {
        for text in [
            "{\"score\": 0.5, \"reason\": \"a\"}",
            "\n```json\n{\"reason\": \"a\", \"score\": 0.5}\n```\n",
            "```\n{\"score\": 0.5, \"reason\": \"a\"}\n```",
        ] {
            let reason = "a".to_owned();
            assert_eq!(parse(text), Ok(Verdict { score: 0.5, reason }), "{text}");
        }
        for text in [
            "",
            "0.5",
            "So: {\"score\": 0.5, \"reason\": \"a\"}",
            "{\"score\": 0.5, \"reason\": \"a\"} done",
            "{\"score\": 0.1, \"score\": 0.9, \"reason\": \"a\"}",
            "{\"score\": -0.1, \"reason\": \"a\"}",
            "{\"score\": null, \"reason\": \"a\"}",
            "{\"score\": 1e400, \"reason\": \"a\"}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_verdict_has_a_score_between_0_and_1_whatever_is_said(text in "\\PC{0,60}", score in any::<f64>()) {
            let said = format!("{{\"score\": {score}, \"reason\": \"{text}\"}}");
            for text in [text.as_str(), said.as_str()] {
                if let Ok(verdict) = parse(text) {
                    prop_assert!((0.0..=1.0).contains(&verdict.score));
                }
            }
        }
    }
}
