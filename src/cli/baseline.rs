//! `--baseline` and `--gate`: what a run is compared with, and what of that fails it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::cli::args::BaselineArgs;
use crate::cli::settings::Settings;
use crate::cli::{fail, say};
use crate::outcome::Exit;
use crate::report::baseline::{self, Snapshot};
use crate::report::summary::Gate;
use crate::report::{RunPlan, files, run_dir};
use crate::task::Task;
use crate::text;

/// How many tasks are named in one sentence.
const NAMED: usize = 10;

/// The baseline that was named, if one was; or the exit code after it was said what is wrong with it.
pub(super) fn named(args: &BaselineArgs, settings: &Settings) -> Result<Option<Snapshot>, Exit> {
    let Some(path) = &args.baseline else {
        return Ok(None);
    };
    baseline::read(
        &settings.base.join(path),
        &path.to_string_lossy(),
        gates(args),
    )
    .map(Some)
    .map_err(|error| fail(Exit::Usage, &error.to_string()))
}

/// The same for a run that has begun before: without a name, what it was compared with then.
pub(super) fn of_report(
    args: &BaselineArgs,
    directory: &Path,
    settings: &Settings,
) -> Result<Option<Snapshot>, Exit> {
    if args.baseline.is_some() {
        return named(args, settings);
    }
    let mut stored =
        Snapshot::stored(directory).map_err(|error| fail(Exit::Usage, &error.to_string()))?;
    match &mut stored {
        Some(snapshot) if !args.gate.is_empty() => snapshot.gate = gates(args),
        None => demand(args)?,
        Some(_) => {}
    }
    Ok(stored)
}

/// A gate without a baseline would let everything pass.
pub(super) fn demand(args: &BaselineArgs) -> Result<(), Exit> {
    if args.gate.is_empty() || args.baseline.is_some() {
        return Ok(());
    }
    let message = "`--gate` needs something to compare with; name it with `--baseline`";
    Err(fail(Exit::Usage, message))
}

/// Says of which tasks the baseline has no verdict: a gate lets those fail, unless it is also one for new tasks.
///
/// # Errors
/// There is such a gate, and the baseline has a verdict of none of them; it is most likely that of another project.
pub(super) fn cover(snapshot: &Snapshot, tasks: &[Task]) -> Result<(), Exit> {
    let gates: Vec<String> = snapshot.gate.iter().map(Gate::to_string).collect();
    let new: Vec<&str> = tasks
        .iter()
        .map(|task| task.name.as_str())
        .filter(|name| !snapshot.has_verdict(name))
        .collect();
    if new.is_empty() || gates.is_empty() || snapshot.gate.contains(&Gate::New) {
        return Ok(());
    }
    let (source, gates) = (&snapshot.source, gates.join(","));
    if new.len() == tasks.len() {
        let known: Vec<&str> = snapshot.tasks.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "it has none at all".to_owned()
        } else {
            format!("it has {}", text::some(&known, NAMED))
        };
        let message = format!(
            "the baseline `{source}` has a verdict of none of the tasks ({known}), so `--gate {gates}` would let everything pass; name the \
             right one, or leave `--gate` away"
        );
        return Err(fail(Exit::Usage, &message));
    }
    let count = text::plural(new.len() as u64, "task");
    say(&format!(
        "warning: the baseline `{source}` has no verdict of {count}, which `--gate {gates}` lets fail (`--gate {gates},new` does not): {}",
        text::some(&new, NAMED)
    ));
    Ok(())
}

/// Tells tasks that are gone from those that the run did not ask for. `base` is where task files are relative to; where none of
/// the run's own is found there, nothing is known of the others either, and none of them is called gone.
pub(super) fn select(snapshot: &mut Snapshot, plan: &RunPlan, base: &Path) {
    // Without `.` in it: `tasks/a.yaml` and `./tasks/a.yaml` are one file.
    let place = |file: &str| base.join(file).components().collect::<PathBuf>();
    let of_plan = plan.tasks.iter().map(|task| &task.file);
    let read: HashSet<PathBuf> = of_plan
        .chain(plan.left_out.values())
        .map(|file| place(file))
        .collect();
    let is_there = |path: &Path| path.symlink_metadata().is_ok();
    let is_at_home = read.iter().any(|path| is_there(path));
    snapshot.select(plan, |file| {
        let path = place(file);
        read.contains(&path) || (is_at_home && !is_there(&path))
    });
}

/// Keeps the baseline with the run, so that reports that are made again say the same.
pub(super) fn store(snapshot: &Snapshot, out: &Path) -> Result<(), Exit> {
    let failed = |error: String| {
        let message = format!("the baseline could not be kept: {error}");
        fail(Exit::Infrastructure, &message)
    };
    let text = snapshot
        .to_json()
        .map_err(|error| failed(error.to_string()))?;
    files::write(&out.join(run_dir::BASELINE), text.as_bytes())
        .map_err(|error| failed(error.to_string()))
}

fn gates(args: &BaselineArgs) -> Vec<Gate> {
    args.gate.iter().map(|gate| Gate::from(*gate)).collect()
}
