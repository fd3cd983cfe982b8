//! `agent-batch report`: every report of a run directory again, from its transcripts alone; or of several, joined.

use std::path::{Path, PathBuf};

use crate::cli::args::ReportArgs;
use crate::cli::claim::{claim, replaceable};
use crate::cli::settings::Settings;
use crate::cli::{baseline, fail, load, run, say};
use crate::file;
use crate::outcome::Exit;
use crate::report::RunPlan;
use crate::report::baseline::{Snapshot, compare};
use crate::report::merge::{self, Member};
use crate::report::{run_dir, seal};

/// Makes the reports again and gives the exit code that the run has earned.
pub(super) fn report(args: &ReportArgs, settings: &Settings) -> Exit {
    let dirs = match directories(&args.dirs, &settings.base) {
        Ok(dirs) => dirs,
        Err(message) => return fail(Exit::Usage, &message),
    };
    for dir in &dirs {
        if is_in_use(&settings.base.join(dir)) {
            say(&format!(
                "note: a run is still using `{}`; this is its state now",
                dir.display()
            ));
        }
    }
    match (&args.out, dirs.as_slice()) {
        (Some(out), dirs) => merged(dirs, out, args, settings),
        (None, [dir]) => {
            match baseline::of_report(&args.baseline, &settings.base.join(dir), settings) {
                Ok(before) => again(dir, before, args, settings),
                Err(exit) => exit,
            }
        }
        (None, several) => fail(
            Exit::Usage,
            &format!(
                "{} run directories are joined into another one; name it with `--out DIR`",
                several.len()
            ),
        ),
    }
}

/// Joins, keeps with the result what it is compared with, and makes its reports.
fn merged(dirs: &[PathBuf], out: &Path, args: &ReportArgs, settings: &Settings) -> Exit {
    // Before the directory is emptied: it may be the baseline itself.
    let mut named = match baseline::named(&args.baseline, settings) {
        Ok(named) => named,
        Err(exit) => return exit,
    };
    let (plan, of_shards) = match join(dirs, out, settings) {
        Ok(joined) => joined,
        Err((exit, message)) => return fail(exit, &message),
    };
    if let Some(named) = &mut named {
        baseline::select(named, &plan, &settings.base);
    }
    let target = settings.base.join(out);
    if let Some(snapshot) = named.as_ref().or(of_shards.as_ref())
        && let Err(exit) = baseline::store(snapshot, &target)
    {
        return exit;
    }
    let before = match named {
        Some(named) => Ok(Some(named)),
        None => baseline::of_report(&args.baseline, &target, settings),
    };
    match before {
        Ok(before) => again(out, before, args, settings),
        Err(exit) => exit,
    }
}

fn again(dir: &Path, before: Option<Snapshot>, args: &ReportArgs, settings: &Settings) -> Exit {
    let directory = settings.base.join(dir);
    match run_dir::load(&directory) {
        Ok(mut loaded) => {
            for damage in &loaded.damages {
                say(&format!("warning: {damage}"));
            }
            seal::seal(&mut loaded.summary, &directory);
            loaded.summary.dir = dir.to_string_lossy().into_owned();
            if let Some(mut before) = before {
                // What is stored was judged where the run was made.
                if args.baseline.baseline.is_some() {
                    baseline::select(&mut before, &loaded.plan, &settings.base);
                }
                compare(&mut loaded.summary, &before);
            }
            let exit = run::conclude(
                &loaded.summary,
                &directory,
                settings.forms(&args.forms),
                settings.github(args.github),
                settings,
            );
            // What is missing or different stands in the account.
            if !loaded.summary.faults().is_empty() {
                say("error: the merge is incomplete, so there is no verdict");
            }
            exit
        }
        Err(error) => fail(Exit::Usage, &error.to_string()),
    }
}

/// The directories that the arguments mean, each once. Globs are expanded for shells that did not.
fn directories(arguments: &[PathBuf], base: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found: Vec<PathBuf> = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy();
        let is_glob = text.contains(['*', '?', '[', '{']);
        let matching = if is_glob && base.join(argument).symlink_metadata().is_err() {
            let matching = load::matching(text.trim_end_matches('/'), base, Path::is_dir)?;
            if matching.is_empty() {
                return Err(format!(
                    "nothing matches `{text}`; expected run directories"
                ));
            }
            matching
        } else {
            vec![argument.clone()]
        };
        for path in matching {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Makes one run directory out of those of shards. What is missing is in its plan, so that every report tells it. Returns the
/// plan, and what the shards were compared with.
fn join(
    dirs: &[PathBuf],
    out: &Path,
    settings: &Settings,
) -> Result<(RunPlan, Option<Snapshot>), (Exit, String)> {
    let target = settings.base.join(out);
    let physical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let members: Vec<Member> = dirs
        .iter()
        .map(|dir| Member::read(&dir.to_string_lossy(), settings.base.join(dir)))
        .collect();
    let (own, paths) = (
        physical(&target),
        members.iter().map(|one| physical(&one.path)),
    );
    for path in paths {
        if path.starts_with(&own) || own.starts_with(&path) {
            let message = format!(
                "`{}` lies in `{}` or the other way round, and it is emptied first; name another one with `--out`",
                out.display(),
                path.display()
            );
            return Err((Exit::Usage, message));
        }
    }
    replaceable(&target, out)?;
    let Some(joined) = merge::judge(&members) else {
        let told: Vec<String> = members
            .iter()
            .filter_map(|member| member.found.as_ref().err().cloned())
            .collect();
        let message = format!("there is no run directory to join: {}", told.join("; "));
        return Err((Exit::Usage, message));
    };
    let (of_shards, others) = joined
        .baseline()
        .map_err(|error| (Exit::Usage, error.to_string()))?;
    for warning in joined.warnings.iter().chain(&others) {
        say(&format!("warning: {warning}"));
    }
    let claimed = claim(&target, out)?;
    claimed.begin(&joined.plan)?;
    for (task, source) in &joined.sources {
        let skipped = merge::copy(task, source, &target)
            .map_err(|error| (Exit::Infrastructure, error.to_string()))?;
        for path in skipped {
            say(&format!(
                "warning: `{path}` is no regular file and was left out"
            ));
        }
    }
    let skipped = joined
        .journal(&target)
        .map_err(|error| (Exit::Infrastructure, error.to_string()))?;
    for what in skipped {
        say(&format!("warning: {what}"));
    }
    Ok((joined.plan, of_shards))
}

/// Whether a run holds the directory's lock.
fn is_in_use(directory: &Path) -> bool {
    file::open(&directory.join(run_dir::LOCK)).is_ok_and(|lock| lock.try_lock_shared().is_err())
}
