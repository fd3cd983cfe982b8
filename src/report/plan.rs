//! What a run set out to do: the content of `run.json`, written before the first model call.
//!
//! Without it a report could only speak of the tasks that left a transcript, and a task that never started would
//! vanish from it. The hash lets shards prove that they worked on the same plan: a shard's file holds the whole plan, and
//! for every task the shard that runs it.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::outcome::{OnDenied, Trials};

/// The version of the format of `run.json`. A new field gets a default; a changed meaning gets a new version.
pub const VERSION: u32 = 1;

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Format version, [`VERSION`].
    pub v: u32,
    /// The version of the program that made the plan.
    pub program_version: String,
    /// When the run began, in UTC.
    #[serde(with = "crate::clock::rfc3339")]
    pub started_at: OffsetDateTime,
    /// How many tasks run at the same time.
    pub jobs: u32,
    /// SHA-256, in hex, over the tasks as lines of compact JSON, their quarantine left out: that one depends on the day.
    pub plan_sha256: String,
    /// The part of the plan that the run works on; all of it when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// What a merge found that made this directory out of those of shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Merge>,
    /// For tasks that were changed before the run went on: the last attempt of the task as it was. It and those before it
    /// are of another task, and count for nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub superseded: BTreeMap<String, u32>,
    /// The commit that task files, the project's file, scripts and hooks were read from; `None`: the work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_commit: Option<String>,
    /// Tasks of the same task files that a filter left out: name and file. They are no part of the plan; without them a
    /// comparison with another run would take them for removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub left_out: BTreeMap<String, String>,
    /// When the run went on after it had ended or was killed, earliest first: the time between is not its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumed>,
    /// The tasks, in the order of the plan. Names are unique.
    pub tasks: Vec<PlannedTask>,
}

/// A run that goes on with an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resumed {
    /// When it began, in UTC.
    #[serde(with = "crate::clock::rfc3339")]
    pub at: OffsetDateTime,
}

/// A run's part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which part, from 1.
    pub index: u32,
    /// How many parts there are.
    pub total: u32,
    /// For every task of the plan, in its order, the part that runs it.
    pub dealt: Vec<u32>,
}

/// How a directory came out of those of shards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Merge {
    /// The directories that were joined, as they were named.
    pub directories: Vec<String>,
    /// What was missing, twice there or different, one sentence each. With any of them the plan is not proven to have been
    /// carried out, so the run cannot pass.
    #[serde(default)]
    pub faults: Vec<String>,
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.total)
    }
}

/// One task of the plan, with what reports say of a task that never started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedTask {
    /// The task's name, unique in the plan.
    pub name: String,
    /// The task file, relative to where the run was started.
    pub file: String,
    /// The line on which the task begins, from 1.
    pub line: u32,
    /// `provider/model`.
    pub model: String,
    /// The pinned permission mode.
    pub mode: String,
    /// The task's tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `none` or `copy`.
    #[serde(default)]
    pub isolation: String,
    /// What a denial means.
    #[serde(default)]
    pub on_denied: OnDenied,
    /// Why the task's failure does not count for now, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// How often it is run as a measurement, and how many of these runs have to pass.
    #[serde(default)]
    pub trials: Trials,
    /// How many attempts that ended in infrastructure may be made up for.
    #[serde(default)]
    pub retries: u32,
    /// The group whose limit on tasks at the same time it falls under.
    #[serde(default)]
    pub group: Option<String>,
    /// The values of its matrix, by axis.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub matrix: BTreeMap<String, String>,
    /// SHA-256, in hex, over what the task is made from.
    #[serde(default)]
    pub definition_sha256: String,
}

/// An entry of the project's quarantine list that held when the run began: the task runs and is reported, and its failure
/// does not fail the run. An infrastructure error is not excused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quarantine {
    /// Why, in the words of whoever put it there.
    pub reason: String,
    /// The last day on which it holds, in UTC, as `YYYY-MM-DD`.
    pub until: String,
}

/// A `run.json` that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not JSON, or not a plan.
    #[error("not a run plan: {0}")]
    Invalid(#[from] serde_json::Error),
    /// A later program wrote it.
    #[error(
        "the plan has format version {found}, expected {VERSION}; use the program that wrote it"
    )]
    Version {
        /// The version that it has.
        found: u32,
    },
    /// Two tasks have one name, or the shard is none of the plan.
    #[error("{0}")]
    Contradiction(String),
    /// Somebody changed the list of tasks.
    #[error(
        "the plan's hash is `{found}`, but its tasks hash to `{expected}`; the file was changed"
    )]
    Hash {
        /// The hash that the file states.
        found: String,
        /// The hash of its tasks.
        expected: String,
    },
}

impl RunPlan {
    /// A plan for these tasks.
    #[must_use]
    pub fn new(
        program_version: &str,
        started_at: OffsetDateTime,
        jobs: u32,
        tasks: Vec<PlannedTask>,
    ) -> Self {
        Self {
            v: VERSION,
            program_version: program_version.to_owned(),
            started_at,
            jobs,
            plan_sha256: hash(&tasks),
            shard: None,
            merge: None,
            superseded: BTreeMap::new(),
            config_commit: None,
            left_out: BTreeMap::new(),
            resumed: Vec::new(),
            tasks,
        }
    }

    /// The tasks that the run works on, in the plan's order.
    pub fn own(&self) -> impl Iterator<Item = &PlannedTask> {
        let is_own = |place: usize| {
            self.shard
                .as_ref()
                .is_none_or(|shard| shard.dealt.get(place) == Some(&shard.index))
        };
        let numbered = self.tasks.iter().enumerate();
        numbered
            .filter(move |(place, _)| is_own(*place))
            .map(|(_, task)| task)
    }

    /// The tasks that a shard of the plan works on, by name.
    pub fn of_shard(&self, index: u32) -> impl Iterator<Item = &str> {
        let dealt = self.shard.iter().flat_map(|shard| &shard.dealt);
        let tasks = self.tasks.iter().zip(dealt);
        tasks
            .filter(move |(_, shard)| **shard == index)
            .map(|(task, _)| task.name.as_str())
    }

    /// The content of `run.json`.
    ///
    /// # Errors
    /// A start beyond the year 9999.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Reads the content of `run.json`.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn from_json(text: &[u8]) -> Result<Self, PlanError> {
        let plan: Self = serde_json::from_slice(text)?;
        if plan.v != VERSION {
            return Err(PlanError::Version { found: plan.v });
        }
        let expected = hash(&plan.tasks);
        if plan.plan_sha256 != expected {
            return Err(PlanError::Hash {
                found: plan.plan_sha256,
                expected,
            });
        }
        plan.check().map_err(PlanError::Contradiction)?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        if let Some(twice) = self.tasks.iter().find(|task| !names.insert(&task.name)) {
            let name = crate::text::one_line(&twice.name, 100);
            return Err(format!("the plan has two tasks with the name `{name}`"));
        }
        let Some(shard) = &self.shard else {
            return Ok(());
        };
        let parts = 1..=shard.total;
        if !parts.contains(&shard.index) || !shard.dealt.iter().all(|part| parts.contains(part)) {
            return Err(format!("there is no shard {shard}"));
        }
        if shard.dealt.len() != self.tasks.len() {
            return Err("not every task of the plan belongs to a shard".to_owned());
        }
        Ok(())
    }
}

impl PlannedTask {
    /// The task without what depends on the day of the run: two runs are of one task when these are equal.
    #[must_use]
    pub fn comparable(&self) -> Self {
        Self {
            quarantine: None,
            ..self.clone()
        }
    }
}

fn hash(tasks: &[PlannedTask]) -> String {
    let mut hasher = Sha256::new();
    for task in tasks {
        // Strings, numbers and unit variants always serialise.
        hasher.update(serde_json::to_vec(&task.comparable()).unwrap_or_default());
        hasher.update(b"\n");
    }
    crate::text::hex(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    fn plan() -> RunPlan {
        let task = PlannedTask {
            name: "fix".into(),
            file: "tasks/fix.yaml".into(),
            line: 1,
            model: "scripted/a".into(),
            mode: "default".into(),
            tags: vec!["lint".into()],
            isolation: "copy".into(),
            on_denied: OnDenied::Warn,
            quarantine: None,
            trials: Trials { count: 5, pass: 4 },
            retries: 2,
            group: Some("api".into()),
            matrix: BTreeMap::from([("crate".into(), "parser".into())]),
            definition_sha256: "0".into(),
        };
        RunPlan::new("0.1.0", datetime!(2026-01-02 03:04:05 UTC), 4, vec![task])
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        let text = plan().to_json().unwrap();
        assert_eq!(RunPlan::from_json(text.as_bytes()).unwrap(), plan());
        assert!(
            text.contains("\"started_at\": \"2026-01-02T03:04:05.000Z\""),
            "{text}"
        );
    }

    #[test]
    fn a_changed_plan_and_a_later_format_are_refused() {
        let text = plan().to_json().unwrap();
        let changed = text.replace("tasks/fix.yaml", "tasks/other.yaml");
        let error = RunPlan::from_json(changed.as_bytes()).unwrap_err();
        assert!(matches!(error, PlanError::Hash { .. }), "{error}");
        let later = text.replace("\"v\": 1", "\"v\": 2");
        let error = RunPlan::from_json(later.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("format version 2"), "{error}");
    }

    #[test]
    fn a_shard_knows_its_tasks_and_those_of_the_others() {
        let mut plan = plan();
        let mut other = plan.tasks[0].clone();
        other.name = "other".into();
        plan = RunPlan::new(
            "0.1.0",
            plan.started_at,
            4,
            vec![plan.tasks[0].clone(), other],
        );
        assert_eq!(plan.own().count(), 2);
        plan.shard = Some(Shard {
            index: 2,
            total: 3,
            dealt: vec![3, 2],
        });
        let own: Vec<&str> = plan.own().map(|task| task.name.as_str()).collect();
        assert_eq!(own, ["other"]);
        assert_eq!(plan.of_shard(3).collect::<Vec<_>>(), ["fix"]);
        assert_eq!(plan.of_shard(1).count(), 0);
        let text = plan.to_json().unwrap();
        assert_eq!(RunPlan::from_json(text.as_bytes()).unwrap(), plan);
        for (from, to) in [
            ("\"index\": 2", "\"index\": 4"),
            ("\"index\": 2", "\"index\": 0"),
            ("3,\n      2", "3"),
            ("3,\n      2", "3,\n      9"),
        ] {
            assert!(text.contains(from), "{text}");
            let error = RunPlan::from_json(text.replace(from, to).as_bytes()).unwrap_err();
            assert!(matches!(error, PlanError::Contradiction(_)), "{error}");
        }
    }

    #[test]
    fn the_day_on_which_a_quarantine_ends_does_not_change_the_plan() {
        let mut tasks = plan().tasks;
        let before = hash(&tasks);
        tasks[0].quarantine = None;
        assert_eq!(hash(&tasks), before);
        tasks[0].retries = 3;
        assert_ne!(hash(&tasks), before);
    }
}
