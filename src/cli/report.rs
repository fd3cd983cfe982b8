//! `agent-batch report`: every report of a run directory again, from its transcripts alone.

use std::path::Path;

use crate::cli::args::ReportArgs;
use crate::cli::settings::Settings;
use crate::cli::{fail, run, say};
use crate::file;
use crate::outcome::Exit;
use crate::report::run_dir;

/// Makes the reports again and gives the exit code that the run has earned.
pub(super) fn report(args: &ReportArgs, settings: &Settings) -> Exit {
    let directory = settings.base.join(&args.dir);
    if is_in_use(&directory) {
        say(&format!(
            "note: a run is still using `{}`; this is its state now",
            args.dir.display()
        ));
    }
    match run_dir::load(&directory) {
        Ok(mut loaded) => {
            for damage in &loaded.damages {
                say(&format!("warning: {damage}"));
            }
            loaded.summary.dir = args.dir.to_string_lossy().into_owned();
            run::conclude(
                &loaded.summary,
                &directory,
                settings.forms(&args.forms),
                settings.github(args.github),
                settings,
            )
        }
        Err(error) => fail(Exit::Usage, &error.to_string()),
    }
}

/// Whether a run holds the directory's lock.
fn is_in_use(directory: &Path) -> bool {
    file::open(&directory.join(run_dir::LOCK)).is_ok_and(|lock| lock.try_lock_shared().is_err())
}
