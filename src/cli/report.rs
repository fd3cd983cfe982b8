//! `agent-batch report`: every report of a run directory again, from its transcripts alone.

use crate::cli::args::ReportArgs;
use crate::cli::settings::Settings;
use crate::cli::{fail, run, say};
use crate::outcome::Exit;
use crate::report::run_dir;

/// Makes the reports again and gives the exit code that the run has earned.
pub(super) fn report(args: &ReportArgs, settings: &Settings) -> Exit {
    let directory = settings.base.join(&args.dir);
    match run_dir::load(&directory) {
        Ok(mut loaded) => {
            for damage in &loaded.damages {
                say(&format!("warning: {damage}"));
            }
            loaded.summary.dir = args.dir.to_string_lossy().into_owned();
            run::conclude(
                &loaded.summary,
                &directory,
                settings.github(args.github),
                settings,
            )
        }
        Err(error) => fail(Exit::Usage, &error.to_string()),
    }
}
