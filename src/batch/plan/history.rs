//! How long tasks took and what they cost, from the `summary.json` of earlier runs.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a task weighs. Time comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight {
    /// In milliseconds.
    pub millis: u64,
    /// In billionths of a dollar.
    pub nanos: u64,
}

#[derive(Deserialize)]
struct Report {
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    name: String,
    verdict: String,
    #[serde(default)]
    duration_ms: u64,
    #[serde(default)]
    cost_usd: Option<f64>,
}

/// Takes a `summary.json` in; a task that is there already gets the new weight. Only tasks that came to a verdict count: how
/// long it took until an API failed says nothing.
///
/// # Errors
/// It is no `summary.json`.
pub fn take(text: &[u8], weights: &mut BTreeMap<String, Weight>) -> serde_json::Result<()> {
    let report: Report = serde_json::from_slice(text)?;
    for task in report.tasks {
        if !matches!(task.verdict.as_str(), "passed" | "failed") {
            continue;
        }
        let nanos = task
            .cost_usd
            .and_then(crate::usage::Usd::from_dollars)
            .map_or(0, crate::usage::Usd::nanos);
        let weight = Weight {
            millis: task.duration_ms,
            nanos,
        };
        weights.insert(task.name, weight);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_with_a_verdict_have_a_weight() {
        let text = br#"{"tasks": [
            {"name": "a", "verdict": "passed", "duration_ms": 7, "cost_usd": 0.5, "more": 1},
            {"name": "b", "verdict": "failed", "duration_ms": 3, "cost_usd": null},
            {"name": "c", "verdict": "error", "duration_ms": 9}]}"#;
        let mut weights = BTreeMap::new();
        take(text, &mut weights).unwrap();
        let told: Vec<_> = weights
            .iter()
            .map(|(name, weight)| (name.as_str(), weight.millis, weight.nanos))
            .collect();
        assert_eq!(told, [("a", 7, 500_000_000), ("b", 3, 0)]);
        assert!(take(b"{}", &mut weights).is_err());
    }
}
