//! What `agent-batch.yaml` says of the run as a whole: the purse, the clock, and groups of tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::budget::PurseLimits;
use crate::check::TimeSpan;
use crate::usage::Usd;

/// What all tasks of a run together may spend, and how it ends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// The most tokens over all tasks of a run. A call that what is left cannot pay is not made. Default: none.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// The most money over all tasks of a run, in US dollars. Default: none.
    #[schemars(range(max = 1_000_000), extend("exclusiveMinimum" = 0))]
    pub max_cost_usd: Option<f64>,
    /// The share of the two above, in percent, from which on no task is started and the running ones are told what is left.
    /// Default: 90.
    #[schemars(range(min = 1, max = 100))]
    pub wind_down: Option<u64>,
    /// The longest time for the whole run. Default: none.
    pub timeout: Option<TimeSpan>,
    /// How long what is under way may take to finish after SIGINT or SIGTERM. Default: `5s`.
    pub grace: Option<TimeSpan>,
}

/// A group of tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSpec {
    /// The most tasks of the group at the same time.
    #[schemars(range(min = 1, max = 65_535))]
    pub jobs: u64,
}

/// What holds for the run as a whole, resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchLimits {
    /// What it may spend.
    pub purse: PurseLimits,
    /// The longest time.
    pub timeout: Option<Duration>,
    /// How long what is under way may take to finish after a signal, if that is said.
    pub grace: Option<Duration>,
    /// Most tasks at the same time, by group.
    pub groups: BTreeMap<String, u32>,
}

impl BatchLimits {
    /// Resolves what is said. What is wrong is told to `error` with the path of its key.
    pub(super) fn of(
        batch: &BatchSpec,
        groups: &BTreeMap<String, GroupSpec>,
        mut error: impl FnMut(&[&str], String),
    ) -> Self {
        let mut purse = PurseLimits::default();
        if batch.max_tokens == Some(0) {
            let message = "a run of no tokens makes no call: expected 1 or more";
            error(&["batch", "max_tokens"], message.to_owned());
        }
        purse.max_tokens = batch.max_tokens;
        if let Some(dollars) = batch.max_cost_usd {
            purse.max_cost = Usd::from_dollars(dollars).filter(|cost| *cost > Usd::ZERO);
            if purse.max_cost.is_none() {
                let message = format!("expected an amount of dollars above 0, found `{dollars}`");
                error(&["batch", "max_cost_usd"], message);
            }
        }
        if let Some(share) = batch.wind_down {
            match u8::try_from(share)
                .ok()
                .filter(|share| (1..=100).contains(share))
            {
                Some(share) => purse.wind_down = share,
                None => error(
                    &["batch", "wind_down"],
                    format!("expected a share from 1 to 100 percent, found {share}"),
                ),
            }
        }
        if batch.timeout.is_some_and(|span| span.0.is_zero()) {
            let message = "a run of no time makes no call: expected more than 0";
            error(&["batch", "timeout"], message.to_owned());
        }
        let mut limits = BTreeMap::new();
        for (name, group) in groups {
            match u32::try_from(group.jobs).ok().filter(|jobs| *jobs > 0) {
                Some(jobs) => {
                    limits.insert(name.clone(), jobs);
                }
                None => error(
                    &["groups", name, "jobs"],
                    format!("expected 1 or more tasks, found {}", group.jobs),
                ),
            }
        }
        Self {
            purse,
            timeout: batch.timeout.map(|span| span.0),
            grace: batch.grace.map(|span| span.0),
            groups: limits,
        }
    }
}
