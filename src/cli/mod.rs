//! The command line. stdout is data, stderr is talk; nothing is ever asked.
//!
//! `args` is what was typed, `settings` what the surroundings say (`environment` takes their secrets out of sight); each
//! command has its own file and returns the [`Exit`](crate::outcome::Exit) that becomes the process's exit code.

mod args;
mod baseline;
mod check;
mod claim;
mod configuration;
mod environment;
mod explain;
mod export;
mod github;
mod load;
mod open_files;
mod plan;
mod report;
mod run;
mod schema;
mod settings;
mod show;
mod trigger;
mod workspaces;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::args::{Cli, Command};
use crate::cli::settings::Settings;
use crate::outcome::Exit;
use crate::proc;
use crate::redact::Redactor;
use crate::text;

/// Removes secrets from what the command line itself says.
static REDACTOR: OnceLock<Arc<Redactor>> = OnceLock::new();

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli {
            command: Some(Command::Supervise),
            ..
        }) => ExitCode::from(supervise()),
        Ok(Cli {
            command: Some(Command::Confine),
            ..
        }) => ExitCode::from(proc::confine()),
        Ok(Cli {
            command: Some(Command::ProbeSandbox),
            ..
        }) => ExitCode::from(proc::probe_sandbox()),
        Ok(cli) => ExitCode::from(run_command(cli).code()),
        Err(error) => {
            let help = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            // A closed pipe is no reason to fail: `agent-batch --help | head` is fine.
            let _ = error.print();
            ExitCode::from(if help {
                Exit::Passed.code()
            } else {
                Exit::Usage.code()
            })
        }
    }
}

fn supervise() -> u8 {
    match settings::program() {
        Ok(program) => proc::supervise(&program),
        Err(_) => Exit::Infrastructure.code(),
    }
}

/// Closes our memory and `/proc` entries, the environment with the model's key among them, to other processes of the
/// same user. Root looks in all the same.
fn close_to_other_processes() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Where that is refused, nothing is worse than before.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Makes a limit on the size of files (`ulimit -f`) an error of the write, like a full disk. What the system does by itself
/// is to kill the process, and then there is no report. Children are not concerned: a handler does not outlive `exec`.
fn outlive_file_size_limit() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        // Once there, the handler stays. Where it cannot be had, nothing is worse than before.
        let _ = runtime.map(|runtime| runtime.block_on(async { signal(kind).map(drop) }));
    }
}

fn run_command(mut cli: Cli) -> Exit {
    close_to_other_processes();
    let settings = match Settings::read() {
        Ok(settings) => settings,
        Err(error) => {
            return fail(
                Exit::Infrastructure,
                &format!("the surroundings could not be read: {error}"),
            );
        }
    };
    outlive_file_size_limit();
    init_tracing(&settings);
    redactor(&settings);
    match cli.command {
        None => {
            let borne = open_files::take(cli.run.jobs);
            if borne < cli.run.jobs {
                say(&format!(
                    "warning: at most {} at the same time, since no more files may be open (`ulimit -Hn`)",
                    text::plural(borne.into(), "task")
                ));
            }
            cli.run.jobs = borne;
            run::run(&cli.run, &settings)
        }
        Some(Command::Check(args)) => check::check(&args, &settings),
        Some(Command::Explain(args)) => explain::explain(&args, &settings),
        Some(Command::Report(args)) => report::report(&args, &settings),
        Some(Command::Show(args)) => show::show(&args),
        Some(Command::Export(args)) => export::export(&args),
        Some(Command::Schema(args)) => schema::schema(&args),
        Some(Command::Supervise | Command::Confine | Command::ProbeSandbox) => Exit::Usage,
    }
}

/// Diagnostics of the program itself; quiet unless `AGENT_BATCH_LOG` asks.
fn init_tracing(settings: &Settings) {
    let filter = settings.variable("AGENT_BATCH_LOG").unwrap_or("error");
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_default();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .try_init();
}

/// The one redactor of the process: of what a run stores and of what the command line says.
fn redactor(settings: &Settings) -> &'static Arc<Redactor> {
    REDACTOR.get_or_init(|| Arc::new(Redactor::new(&settings.secrets())))
}

/// Says what is wrong in one line, and ends with `exit`.
fn fail(exit: Exit, message: &str) -> Exit {
    say(&format!("error: {message}"));
    exit
}

/// A line, or several, on stderr: no secret, no escape sequence, no command of the CI system.
fn say(message: &str) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}", harmless(message));
}

/// Data on stdout. A reader that went away (`| head`) is no failure.
fn print(data: &str) -> Exit {
    match io::stdout().lock().write_all(harmless(data).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(
            Exit::Infrastructure,
            &format!("stdout could not be written: {error}"),
        ),
        _ => Exit::Passed,
    }
}

/// What was typed and what stands in task files is foreign text too.
fn harmless(text: &str) -> String {
    let lines = text
        .split('\n')
        .map(text::visible_line)
        .collect::<Vec<_>>()
        .join("\n");
    let text = REDACTOR
        .get()
        .map_or_else(|| lines.clone(), |redactor| redactor.redact(&lines));
    text::workflow::inert(&text)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{DumpableBehavior, dumpable_behavior};

    #[test]
    fn our_memory_and_environment_are_closed_to_other_processes() {
        super::close_to_other_processes();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}
