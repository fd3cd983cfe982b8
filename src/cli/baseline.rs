//! `--baseline` and `--gate`: what a run is compared with, and what of that fails it.

use std::path::Path;

use crate::cli::args::BaselineArgs;
use crate::cli::fail;
use crate::cli::settings::Settings;
use crate::outcome::Exit;
use crate::report::baseline::{self, Snapshot};
use crate::report::summary::Gate;
use crate::report::{files, run_dir};

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
