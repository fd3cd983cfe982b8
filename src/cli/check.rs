//! `agent-batch check`: validate, and print what each task may do.

use crate::cli::args::CheckArgs;
use crate::cli::configuration::Configuration;
use crate::cli::settings::Settings;
use crate::cli::{fail, load, print, say, workspaces};
use crate::outcome::Exit;
use crate::task::describe;
use crate::text;

/// Prints a table for each task; says everything that is wrong instead, if anything is.
pub(super) fn check(args: &CheckArgs, settings: &Settings) -> Exit {
    let configuration = match Configuration::open(&args.tasks, settings) {
        Ok(configuration) => configuration,
        Err(message) => return fail(Exit::Usage, &message),
    };
    match load::load(&configuration, &args.tasks, settings) {
        Ok(loaded) => {
            // What the run would refuse is not valid.
            if let Err(message) = workspaces::verify(loaded.tasks.iter(), settings) {
                return fail(Exit::Usage, &message);
            }
            say(&format!(
                "{} valid",
                text::plural(loaded.tasks.len() as u64, "task")
            ));
            let tables: Vec<String> = loaded.tasks.iter().map(describe).collect();
            print(&(tables.join("\n\n") + "\n"))
        }
        Err(exit) => exit,
    }
}
