//! From the tasks that were loaded to the plan of the run: which shard this is, how tasks are dealt out, and `--list`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::batch::plan::detect::detect;
use crate::batch::plan::history::{self, Weight};
use crate::batch::plan::shard;
use crate::cli::args::{ListFormat, RunArgs};
use crate::cli::settings::Settings;
use crate::cli::{print, say};
use crate::file;
use crate::outcome::{Exit, Trials};
use crate::report::{PlannedTask, RunPlan, Shard, files, run_dir};
use crate::task::Task;
use crate::text;

/// The largest `summary.json` that is read, in bytes.
const LARGEST_SUMMARY: u64 = 256 * 1024 * 1024;

/// How tasks are dealt out.
pub(super) struct Dealing {
    /// Index and total, if the run is a shard.
    shard: Option<(u32, u32)>,
    /// How long tasks took.
    weights: BTreeMap<String, Weight>,
}

impl Dealing {
    /// What was typed, what the CI system says and what an earlier run took.
    ///
    /// # Errors
    /// One line for a person.
    pub(super) fn read(args: &RunArgs, settings: &Settings) -> Result<Self, String> {
        let shard = match args.plan.shard.as_deref() {
            None => None,
            Some(typed) if typed == "auto" || typed.starts_with("auto/") => {
                Some(automatic(typed, settings)?)
            }
            Some(typed) => Some(shard::parse(typed).map_err(|error| format!("--shard: {error}"))?),
        };
        let mut weights = BTreeMap::new();
        for path in &args.plan.history {
            let found = settings.base.join(path);
            take_history(&found, &mut weights)
                .map_err(|error| format!("--history: `{}`: {error}", path.display()))?;
        }
        Ok(Self { shard, weights })
    }

    /// Takes the shard of a run that is gone on with, where none was typed.
    ///
    /// # Errors
    /// Another one was typed.
    pub(super) fn go_on_with(&mut self, begun: bool, before: Option<&Shard>) -> Result<(), String> {
        if !begun {
            return Ok(());
        }
        let before = before.map(|shard| (shard.index, shard.total));
        let Some((index, total)) = self.shard.filter(|typed| Some(*typed) != before) else {
            self.shard = before;
            return Ok(());
        };
        let was = before.map_or_else(
            || "the whole plan".to_owned(),
            |(index, total)| format!("shard {index}/{total}"),
        );
        Err(format!(
            "--resume: the run worked on {was}, not on shard {index}/{total}; leave `--shard` out"
        ))
    }

    /// The plan's part for this run.
    pub(super) fn deal(&self, plan: &mut RunPlan) {
        let names: Vec<&str> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
        let known = names
            .iter()
            .filter(|name| self.weights.contains_key(**name))
            .count();
        if !self.weights.is_empty() && known < names.len() {
            let by = if known == 0 {
                "; tasks are dealt out by their names"
            } else {
                ", and the others count like the middle one"
            };
            say(&format!(
                "note: the history knows {known} of {}{by}",
                text::plural(names.len() as u64, "task")
            ));
        }
        plan.shard = self.shard.map(|(index, total)| Shard {
            index,
            total,
            dealt: shard::deal(&names, total, &self.weights),
        });
    }

    /// Sorts longest first, so that the last task to end did not start last. Without a history the order stays.
    pub(super) fn longest_first<T>(&self, tasks: &mut [T], name: impl Fn(&T) -> &str) {
        if !self.weights.is_empty() {
            tasks.sort_by_key(|task| std::cmp::Reverse(self.weights.get(name(task)).copied()));
        }
    }
}

fn automatic(typed: &str, settings: &Settings) -> Result<(u32, u32), String> {
    let total = match typed.split_once('/') {
        None => None,
        Some((_, total)) => Some(total.parse::<u32>().map_err(|_| {
            format!(
                "--shard: expected `auto/TOTAL`, found `{}`",
                text::one_line(typed, 80)
            )
        })?),
    };
    let found = detect(|name| settings.variable(name), total)
        .map_err(|error| format!("--shard auto: {error}"))?;
    say(&format!(
        "note: shard {}/{} ({})",
        found.index, found.total, found.source
    ));
    Ok((found.index, found.total))
}

/// A `summary.json`, or a run directory with one; one that was killed before it wrote its reports is read from its
/// transcripts.
fn take_history(path: &Path, weights: &mut BTreeMap<String, Weight>) -> Result<(), String> {
    let summary = if path.is_dir() {
        path.join(files::JSON)
    } else {
        path.to_owned()
    };
    let text = if path.is_dir() && summary.symlink_metadata().is_err() {
        let loaded = run_dir::load(path).map_err(|error| error.to_string())?;
        crate::report::json::render(&loaded.summary)
            .map(String::into_bytes)
            .map_err(|error| error.to_string())?
    } else {
        file::read(&summary, LARGEST_SUMMARY).map_err(|error| error.to_string())?
    };
    history::take(&text, weights).map_err(|error| format!("not a `{}`: {error}", files::JSON))
}

/// What reports and other shards are told of a task.
pub(super) fn planned(task: &Task) -> PlannedTask {
    PlannedTask {
        name: task.name.clone(),
        file: task.file.clone(),
        line: task.line,
        model: task.model.to_string(),
        mode: task.mode.name().to_owned(),
        tags: task.tags.clone(),
        isolation: task.isolation.name().to_owned(),
        on_denied: task.on_denied,
        quarantine: task.quarantine.clone(),
        trials: task.trials,
        retries: task.retries,
        group: task.group.clone(),
        matrix: task.matrix.iter().cloned().collect(),
        definition_sha256: task.definition_sha256.clone(),
    }
}

/// Prints the plan.
pub(super) fn list(plan: &RunPlan, format: ListFormat) -> Exit {
    match format {
        ListFormat::Text => {
            say(&told(plan));
            print(&table(plan))
        }
        ListFormat::Json => {
            let tasks = plan.tasks.iter().enumerate().map(|(place, task)| Listed {
                task,
                shard: plan
                    .shard
                    .as_ref()
                    .and_then(|shard| shard.dealt.get(place).copied()),
            });
            let listing = Listing {
                version: 1,
                plan_sha256: &plan.plan_sha256,
                shard: plan
                    .shard
                    .as_ref()
                    .map(|shard| (shard.index, shard.total))
                    .map(|(index, total)| ListedShard { index, total }),
                tasks: tasks.collect(),
            };
            match serde_json::to_string_pretty(&listing) {
                Ok(text) => print(&(text + "\n")),
                Err(error) => super::fail(Exit::Infrastructure, &error.to_string()),
            }
        }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    plan_sha256: &'a str,
    shard: Option<ListedShard>,
    tasks: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct ListedShard {
    index: u32,
    total: u32,
}

#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    task: &'a PlannedTask,
    /// The shard that runs it; `null` when the plan is not dealt out.
    shard: Option<u32>,
}

fn told(plan: &RunPlan) -> String {
    let all = text::plural(plan.tasks.len() as u64, "task");
    match &plan.shard {
        None => all,
        Some(shard) => format!("{all}, {} of them in shard {shard}", plan.own().count()),
    }
}

/// One line for each task; with shards, the shard that runs it comes first.
fn table(plan: &RunPlan) -> String {
    let width = |of: fn(&PlannedTask) -> &str| {
        let all = plan.tasks.iter().map(|task| of(task).chars().count());
        all.max().unwrap_or(0)
    };
    let widest = width(|task| &task.name);
    let models = width(|task| &task.model);
    let mut out = String::new();
    for (place, task) in plan.tasks.iter().enumerate() {
        if let Some(shard) = &plan.shard {
            let number = shard.dealt.get(place).copied().unwrap_or(0);
            let width = shard.total.to_string().len();
            let _ = write!(out, "{number:width$}/{}  ", shard.total);
        }
        let _ = write!(
            out,
            "{:widest$}  {:models$}  {}:{}",
            task.name, task.model, task.file, task.line
        );
        if !task.tags.is_empty() {
            let _ = write!(out, "  [{}]", task.tags.join(", "));
        }
        if task.trials != Trials::default() {
            let _ = write!(
                out,
                "  {} of {} trials",
                task.trials.pass, task.trials.count
            );
        }
        out.push('\n');
    }
    out
}
