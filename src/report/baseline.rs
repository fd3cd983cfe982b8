//! The comparison of a run with an earlier one: which tasks broke, which were fixed, and what takes notably more or less.
//!
//! [`read`] takes a baseline from a `summary.json` or from a run directory; [`Snapshot`] is what is kept of it, and stored in
//! the run directory, so that reports that are made again say the same. [`compare`] is the fold; what the result means for
//! the exit code stands with the [summary](super::summary).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::plan::RunPlan;
use super::summary::{
    Baseline, Before, Class, Compared, Gate, Kept, Measure, Shift, Summary, TaskSummary,
};
use super::{run_dir, seal, verdict_word};
use crate::file;
use crate::outcome::{Outcome, Verdict};
use crate::text;
use crate::usage::Usd;

/// The version of the stored format.
const VERSION: u32 = 1;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;
/// A change below this share of the baseline's value is no notable one.
const SHARE: f64 = 0.2;
/// A change of cost below this is no notable one, in dollars.
const LEAST_COST: f64 = 0.01;
/// A change of steps below this is no notable one.
const LEAST_STEPS: f64 = 2.0;

/// What is kept of the run that others are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Format version.
    pub v: u32,
    /// Where it was taken from, as it was named.
    pub source: String,
    /// When that run began.
    #[serde(with = "crate::clock::rfc3339::option")]
    pub started_at: Option<OffsetDateTime>,
    /// What fails the run that is compared.
    #[serde(default)]
    pub gate: Vec<Gate>,
    /// The tasks, by name.
    pub tasks: BTreeMap<String, Before>,
    /// Those of them that the run did not ask for, see [`Snapshot::select`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub not_selected: BTreeSet<String>,
}

/// A baseline that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// It cannot be read.
    #[error("the baseline `{}` cannot be read: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is something else.
    #[error(
        "the baseline `{}` is neither a run directory nor a `summary.json` of this version: {reason}",
        path.display()
    )]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It measured nothing.
    #[error("the baseline `{}` has no tasks, so nothing can be compared with it", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

/// What is read of a `summary.json`; what else stands there is no matter.
#[derive(Deserialize)]
struct Document {
    version: u32,
    #[serde(with = "crate::clock::rfc3339")]
    started_at: OffsetDateTime,
    tasks: Vec<DocumentTask>,
}

#[derive(Deserialize)]
struct DocumentTask {
    name: String,
    #[serde(default)]
    file: String,
    verdict: String,
    outcome: Outcome,
    #[serde(default)]
    flaky: bool,
    steps: u32,
    cost_usd: Option<Usd>,
}

/// Reads a baseline: a run directory, whose transcripts are the truth, a directory with a `summary.json`, or that file.
/// `source` is how it was named.
///
/// # Errors
/// See [`BaselineError`].
pub fn read(path: &Path, source: &str, gate: Vec<Gate>) -> Result<Snapshot, BaselineError> {
    let (started_at, tasks) = if path.join(run_dir::PLAN).is_file() {
        from_directory(path)?
    } else if path.is_dir() {
        from_document(&path.join("summary.json"))?
    } else {
        from_document(path)?
    };
    if tasks.is_empty() {
        let path = path.to_owned();
        return Err(BaselineError::Empty { path });
    }
    Ok(Snapshot {
        v: VERSION,
        source: source.to_owned(),
        started_at: Some(started_at),
        gate,
        tasks,
        not_selected: BTreeSet::new(),
    })
}

type Found = (OffsetDateTime, BTreeMap<String, Before>);

fn from_directory(path: &Path) -> Result<Found, BaselineError> {
    let invalid = |reason: String| BaselineError::Invalid {
        path: path.to_owned(),
        reason,
    };
    let loaded = run_dir::load(path).map_err(|error| invalid(error.to_string()))?;
    // A verdict that was lost would be one that nobody can break. What a kill has cut off is no damage of this kind.
    let mut damaged = loaded.damages.iter().filter(|found| !found.is_cut_off());
    let damaged = damaged.next().map(ToString::to_string);
    let replaced = || seal::replaced(&loaded.summary, path).into_iter().next();
    if let Some(damage) = damaged.or_else(replaced) {
        return Err(invalid(format!("it is damaged: {damage}")));
    }
    let tasks = loaded.summary.tasks.iter();
    let tasks = tasks.map(|task| (task.name.clone(), before(task)));
    Ok((loaded.plan.started_at, tasks.collect()))
}

fn from_document(path: &Path) -> Result<Found, BaselineError> {
    let invalid = |reason: String| BaselineError::Invalid {
        path: path.to_owned(),
        reason,
    };
    let text = file::read(path, LARGEST).map_err(|source| BaselineError::Io {
        path: path.to_owned(),
        source,
    })?;
    let document: Document =
        serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    if document.version != super::json::VERSION {
        return Err(invalid(format!(
            "it has version {}, expected {}",
            document.version,
            super::json::VERSION
        )));
    }
    let mut tasks = BTreeMap::new();
    for task in document.tasks {
        let name = text::one_line(&task.name, 100);
        let expected = verdict_word(task.outcome.verdict());
        if task.verdict != expected {
            return Err(invalid(format!(
                "it says of `{name}` that its verdict is `{}` and its outcome `{}`, which means `{expected}`",
                text::one_line(&task.verdict, 100),
                task.outcome.name()
            )));
        }
        let before = Before {
            file: task.file,
            outcome: task.outcome,
            flaky: task.flaky,
            steps: task.steps,
            cost: task.cost_usd,
        };
        if tasks.insert(task.name, before).is_some() {
            return Err(invalid(format!("it has two tasks with the name `{name}`")));
        }
    }
    Ok((document.started_at, tasks))
}

/// What later runs will see of a task.
fn before(task: &TaskSummary) -> Before {
    Before {
        file: task.file.clone(),
        outcome: task.outcome,
        flaky: is_flaky(task),
        steps: task.steps,
        cost: task.cost,
    }
}

/// Whether a task passed only after another attempt of it had failed.
fn is_flaky(task: &TaskSummary) -> bool {
    let mut earlier = task.earlier.iter();
    task.verdict() == Verdict::Passed
        && earlier.any(|attempt| attempt.outcome.verdict() == Verdict::Failed)
}

/// Says of every task what became of it since the baseline.
pub fn compare(summary: &mut Summary, snapshot: &Snapshot) {
    for task in &mut summary.tasks {
        let before = snapshot.tasks.get(&task.name);
        let verdict = before.map(|before| before.outcome.verdict());
        let class = Class::of(verdict, task.verdict());
        let shifts = before.map_or_else(Vec::new, |before| shifts(before, task));
        let mut gate = snapshot.gate.iter();
        let gated = gate.any(|gate| gate.fails(class, task.verdict(), &shifts));
        task.compared = Some(Compared {
            class,
            before: before.cloned(),
            shifts,
            gated: (!snapshot.gate.is_empty()).then_some(gated),
        });
    }
    let (mut removed, mut not_selected) = (Kept::default(), Kept::default());
    for name in snapshot.unplanned(&summary.plan) {
        if snapshot.not_selected.contains(name) {
            not_selected.push(name.clone());
        } else {
            removed.push(name.clone());
        }
    }
    summary.baseline = Some(Baseline {
        source: snapshot.source.clone(),
        started_at: snapshot.started_at,
        gate: snapshot.gate.clone(),
        removed,
        not_selected,
    });
}

/// What takes notably more or less. Only tasks that passed both times are compared: a failure stops early or runs on.
fn shifts(before: &Before, task: &TaskSummary) -> Vec<Shift> {
    if before.outcome.verdict() != Verdict::Passed || task.verdict() != Verdict::Passed {
        return Vec::new();
    }
    let cost = before.cost.zip(task.cost);
    let cost = cost.map(|(before, now)| (Measure::Cost, before.dollars(), now.dollars()));
    let steps = (Measure::Steps, before.steps.into(), task.steps.into());
    cost.into_iter()
        .chain([steps])
        .filter(|(measure, before, now)| {
            let least = match measure {
                Measure::Cost => LEAST_COST,
                Measure::Steps => LEAST_STEPS,
            };
            // Both: a share alone makes noise of small things, an amount alone of large ones.
            let change = (now - before).abs();
            change >= least && change >= before * SHARE
        })
        .map(|(measure, before, now)| Shift {
            measure,
            before,
            now,
        })
        .collect()
}

impl Snapshot {
    /// Whether a task passed or failed, so that there is something to compare with.
    #[must_use]
    pub fn has_verdict(&self, task: &str) -> bool {
        let before = self.tasks.get(task);
        before.is_some_and(|before| {
            matches!(before.outcome.verdict(), Verdict::Passed | Verdict::Failed)
        })
    }

    /// Notes which tasks a run could not have, because it did not ask for them: those that its filter left out, and those of
    /// task files that it did not read. What is left of the tasks that the plan does not have was removed. `is_searched` says
    /// of a task file of the baseline that all its tasks are known now: it was read, or it is gone.
    pub fn select(&mut self, plan: &RunPlan, is_searched: impl Fn(&str) -> bool) {
        let not_asked = self.unplanned(plan).filter(|name| {
            let file = self.tasks.get(*name).map_or("", |before| &before.file);
            plan.left_out.contains_key(*name) || !is_searched(file)
        });
        self.not_selected = not_asked.cloned().collect();
    }

    /// The tasks that a plan does not have.
    fn unplanned(&self, plan: &RunPlan) -> impl Iterator<Item = &String> {
        let planned: HashSet<String> = plan.tasks.iter().map(|task| task.name.clone()).collect();
        let names = self.tasks.keys();
        names.filter(move |name| !planned.contains(*name))
    }

    /// The content of `baseline.json` in a run directory.
    ///
    /// # Errors
    /// A time beyond the year 9999.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The baseline that a run was compared with, if it was.
    ///
    /// # Errors
    /// There is one and it cannot be used.
    pub fn stored(directory: &Path) -> Result<Option<Self>, BaselineError> {
        let path = directory.join(run_dir::BASELINE);
        let text = match file::read(&path, LARGEST) {
            Ok(text) => text,
            // What is no directory is told by whoever reads it as one.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(source) => return Err(BaselineError::Io { path, source }),
        };
        let invalid = |reason: String| BaselineError::Invalid {
            path: path.clone(),
            reason,
        };
        let snapshot: Self =
            serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        if snapshot.v == VERSION {
            Ok(Some(snapshot))
        } else {
            Err(invalid(format!("it has version {}", snapshot.v)))
        }
    }
}
