//! The layout of a run directory, and the way back from it to a [`Summary`].
//!
//! ```text
//! <out>/run.lock                              locked while a run uses the directory
//! <out>/run.json                              the plan, written first
//! <out>/batch.jsonl                            events of the batch itself, if there were any
//! <out>/baseline.json                         what the run was compared with, of a run with `--baseline`
//! <out>/<task>/<attempt>/transcript.jsonl     one event a line
//! <out>/<task>/<attempt>/output.json          the structured answer, of a task with `output_schema`
//! <out>/<task>/<attempt>/output/              whole outputs that a preview stands for
//! <out>/junit.xml, summary.json, summary.md,  made again by `agent-batch report`
//!       report.html, comment.md, gl-code-quality-report.json
//! ```
//!
//! `<task>` is the task's name as a safe [file name](crate::text::file_name); the name itself stands in every event.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::event::Kind;
use crate::file;
use crate::outcome::Outcome;
use crate::report::plan::{PlanError, RunPlan};
use crate::report::summary::Summary;
use crate::report::transcript;
use crate::text::file_name::file_name;

/// The plan's file.
pub const PLAN: &str = "run.json";
/// Keeps the directory out of the repository that it may lie in, and out of what agents search.
pub const IGNORE: &str = ".gitignore";
/// Locked while a run is using the directory.
pub const LOCK: &str = "run.lock";
/// Events of the batch itself: what was not run and why, signals, load.
pub const BATCH: &str = "batch.jsonl";
/// The transcript's file.
pub const TRANSCRIPT: &str = "transcript.jsonl";
/// The file with what an attempt changed, for `git apply`.
pub const PATCH: &str = "changes.patch";
/// What the run was compared with.
pub const BASELINE: &str = "baseline.json";
/// The structured answer's file.
pub const ANSWER: &str = "output.json";
/// The directory of whole outputs.
pub const OUTPUT: &str = "output";

/// How many damages are listed.
const DAMAGES: usize = 100;

/// The largest plan that is read, in bytes.
pub const LARGEST_PLAN: u64 = 64 * 1024 * 1024;

/// The directory of an attempt, relative to the run directory, with `/`.
#[must_use]
pub fn attempt(task: &str, attempt: u32) -> String {
    format!("{}/{attempt}", file_name(task))
}

/// The transcript of an attempt, relative to the run directory, with `/`.
#[must_use]
pub fn transcript(task: &str, number: u32) -> String {
    format!("{}/{TRANSCRIPT}", attempt(task, number))
}

/// The patch of an attempt, relative to the run directory, with `/`.
#[must_use]
pub fn patch(task: &str, number: u32) -> String {
    format!("{}/{PATCH}", attempt(task, number))
}

/// The directory of an attempt's whole outputs, relative to the run directory, with `/`.
#[must_use]
pub fn output(task: &str, number: u32) -> String {
    format!("{}/{OUTPUT}", attempt(task, number))
}

/// A run directory that cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No run wrote the directory.
    #[error(
        "`{}` is no run directory: {}; expected the directory that a run wrote (`--out`, else `agent-batch-results`)",
        path.display(), reason
    )]
    NoRun {
        /// The directory.
        path: PathBuf,
        /// What there is instead.
        reason: &'static str,
    },
    /// A file or directory could not be read.
    #[error("could not read `{}`: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `run.json` is not usable.
    #[error("`{}`: {source}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PlanError,
    },
}

/// What a run directory holds.
#[derive(Debug)]
pub struct Loaded {
    /// What was planned.
    pub plan: RunPlan,
    /// What it came to. Its `damages` are those below, as sentences.
    pub summary: Summary,
    /// What could not be used.
    pub damages: Vec<transcript::Damage>,
    /// For every task of the plan, the attempts that there are and how each ended, by number; also those that count for
    /// nothing any more.
    pub attempts: HashMap<String, Vec<Attempt>>,
    /// The attempts that have no end because of what their transcripts are: garbage, or of another format version.
    pub lost: Vec<Lost>,
}

/// An attempt whose transcript cannot be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The task's name.
    pub task: String,
    /// The attempt's number.
    pub attempt: u32,
    /// Why, with the line.
    pub why: String,
}

/// An attempt that a run directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// The trial that it belongs to, from 1; 0 where its transcript does not say.
    pub trial: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// Reads a run directory back. A transcript that is missing, cut off or damaged is no error: the task is then
/// `not_run` or `unfinished`, and what could not be used is listed.
///
/// # Errors
/// `run.json` is missing or not usable, or a directory cannot be listed.
pub fn load(directory: &Path) -> Result<Loaded, LoadError> {
    let path = directory.join(PLAN);
    let text = regular(&path)
        .and_then(|()| file::read(&path, LARGEST_PLAN))
        .map_err(|source| match no_run(directory, &source) {
            Some(reason) => LoadError::NoRun {
                path: directory.to_owned(),
                reason,
            },
            None => LoadError::Io {
                path: path.clone(),
                source,
            },
        })?;
    let plan = RunPlan::from_json(&text).map_err(|source| LoadError::Plan { path, source })?;
    let mut summary = Summary::new(plan.clone(), directory.to_string_lossy());
    let mut damages = Vec::new();
    let mut all = HashMap::new();
    let mut lost = Vec::new();
    for planned in plan.own() {
        let numbers = attempts(&directory.join(file_name(&planned.name)))?;
        let superseded = plan.superseded.get(&planned.name).copied().unwrap_or(0);
        let mut ended = Vec::with_capacity(numbers.len());
        for number in &numbers {
            let before = damages.len();
            let path = directory.join(transcript(&planned.name, *number));
            let counts = (*number > superseded).then_some(&mut summary);
            let (trial, outcome) = replay(&path, &planned.name, *number, counts, &mut damages);
            let mut found = damages.iter().skip(before);
            if *number > superseded
                && outcome == Outcome::Unfinished
                && let Some(damage) = found.find(|damage| !damage.is_cut_off())
            {
                let why = match damage.line {
                    0 => damage.reason.clone(),
                    line => format!("line {line}: {}", damage.reason),
                };
                summary.lose(&planned.name, *number, &why);
                lost.push(Lost {
                    task: planned.name.clone(),
                    attempt: *number,
                    why,
                });
            }
            // The runner was killed, and another attempt makes up for this one: nothing hangs on what it could not write.
            if outcome == Outcome::Unfinished && Some(number) != numbers.last() {
                damages.truncate(before);
            }
            ended.push(Attempt {
                number: *number,
                trial,
                outcome,
            });
        }
        all.insert(planned.name.clone(), ended);
    }
    // Last, because what is said here of a task holds beside its attempts.
    replay(
        &directory.join(BATCH),
        "",
        0,
        Some(&mut summary),
        &mut damages,
    );
    for task in summary.tasks.iter().filter(|task| task.gaps > 0) {
        summary.damages.push(format!(
            "task `{}`: its transcript lacks events at {}",
            task.name,
            crate::text::plural(task.gaps, "place")
        ));
    }
    summary
        .damages
        .extend(damages.iter().map(ToString::to_string));
    Ok(Loaded {
        plan,
        summary,
        damages,
        attempts: all,
        lost,
    })
}

/// What stands in place of a run directory whose plan could not be read, if it is none.
fn no_run(directory: &Path, error: &io::Error) -> Option<&'static str> {
    if directory.is_file() {
        return Some("it is a file");
    }
    if error.kind() != io::ErrorKind::NotFound {
        return None;
    }
    Some(if directory.is_dir() {
        "there is no `run.json` in it"
    } else {
        "there is nothing of that name"
    })
}

/// Refuses what is no regular file. A link, pipe or device in an artifact is nothing that a run has written, and opening one
/// could lead out of it or never return.
pub(super) fn regular(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(io::Error::other("expected a regular file"))
    }
}

/// No task comes to so many attempts. A directory with a higher number was made by somebody else, and is no attempt.
const LAST_ATTEMPT: u32 = 1_000_000;

/// The numbers of the attempts below a task's directory, ascending.
///
/// # Errors
/// The directory is there and cannot be read.
pub fn attempts(directory: &Path) -> Result<Vec<u32>, LoadError> {
    let failed = |source| LoadError::Io {
        path: directory.to_owned(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        // Only the canonical spelling, so that `1` and `01` are not one attempt.
        if let Some(number) = name.to_str().and_then(|name| {
            let number: u32 = name.parse().ok()?;
            ((1..=LAST_ATTEMPT).contains(&number) && number.to_string() == name).then_some(number)
        }) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Folds one transcript in, and tells of which trial the attempt is and how it ended. Events of another task or attempt do not belong there and are
/// damage.
fn replay(
    path: &Path,
    task: &str,
    attempt: u32,
    mut summary: Option<&mut Summary>,
    damages: &mut Vec<transcript::Damage>,
) -> (u32, Outcome) {
    let (mut trial, mut outcome) = (0, Outcome::Unfinished);
    let mut note = |damage| {
        if damages.len() < DAMAGES {
            damages.push(damage);
        }
    };
    let damage = |line, reason: String| transcript::Damage {
        path: path.to_owned(),
        line,
        reason,
    };
    let reader = match regular(path).and_then(|()| transcript::read(path)) {
        Ok(reader) => reader,
        // The attempt's directory is made before the transcript.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (trial, outcome),
        Err(error) => {
            note(damage(0, error.to_string()));
            return (trial, outcome);
        }
    };
    let mut line = 0;
    let mut is_over = false;
    for item in reader {
        line += 1;
        match item {
            // A run writes nothing behind the end, so a second verdict is not its own.
            Ok(_) if is_over => note(damage(line, "an event after the end".to_owned())),
            Ok(event) if event.task == task && event.attempt == attempt => {
                match &event.kind {
                    Kind::TaskStarted(started) => trial = started.trial,
                    Kind::TaskFinished(finished) => {
                        outcome = finished.outcome;
                        is_over = true;
                    }
                    _ => {}
                }
                if let Some(summary) = &mut summary {
                    summary.fold(&event);
                }
            }
            Ok(_) => note(damage(
                line,
                "an event of another task or attempt".to_owned(),
            )),
            Err(damage) => {
                line = damage.line;
                note(damage);
            }
        }
    }
    (trial, outcome)
}
