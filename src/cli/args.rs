//! What was typed: no I/O happens to fill these.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::usage::Usd;

/// Runs LLM agents in CI: YAML tasks in, transcripts and JUnit out. Nothing ever asks a person.
#[derive(Debug, Parser)]
#[command(
    name = "agent-batch",
    version,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true
)]
#[command(
    after_help = "Exit codes: 0 all tasks passed, 1 a task failed its gate, 2 usage or an invalid task file, \
3 infrastructure, 129/130/143 interrupted (reports are written first)."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// What to do instead of running tasks.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Validate task files and print what each task may do
    Check(CheckArgs),
    /// Tell, without running anything, how the gate would answer one call
    Explain(ExplainArgs),
    /// Make every report of a run directory again, from its transcripts alone
    Report(ReportArgs),
    /// Print a transcript for a person, or events of it
    Show(ShowArgs),
    /// Print a transcript in a format of others, for their viewers
    Export(ExportArgs),
    /// Print the JSON Schema of task files, of transcripts or of `summary.json`
    Schema(SchemaArgs),
    /// Run one process and everything that it starts under supervision
    #[command(hide = true)]
    Supervise,
    /// The same inside of a sandbox
    #[command(hide = true)]
    Confine,
    /// Attempt what a sandbox must not permit
    #[command(hide = true)]
    ProbeSandbox,
}

/// Which task files, and how they are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tasks and what they may do")]
pub(super) struct TaskArgs {
    /// Task files, directories or globs (`tasks/*.yaml`)
    #[arg(value_name = "TASK", required = true, help_heading = "Arguments")]
    pub(super) tasks: Vec<String>,
    /// Project configuration: defaults for tasks and the policy ceiling [default: agent-batch.yaml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub(super) project: Option<PathBuf>,
    /// Read all configuration (task files, the project's file, and the scripts and hooks that they name) from this commit of the
    /// repository, not from the work tree: for pull requests from outside
    #[arg(long, value_name = "REV")]
    pub(super) config_from: Option<String>,
    /// Only the tasks for which this holds, as in `tag(nightly) & !name(slow*)`
    #[arg(long, value_name = "EXPRESSION")]
    pub(super) filter: Option<String>,
    /// Model for every task, in place of the one in the task file
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(super) model: Option<String>,
    /// Lower every task's `max_steps` to N
    #[arg(long, value_name = "N")]
    pub(super) max_steps: Option<u32>,
    /// One more deny rule for every task
    #[arg(long = "deny", value_name = "RULE")]
    pub(super) deny: Vec<String>,
    /// Sandbox for every task, in place of the one in the task file
    #[arg(long, value_enum, value_name = "MODE")]
    pub(super) sandbox: Option<Sandbox>,
    /// Let tasks use the mode `bypassPermissions` in this run
    #[arg(long)]
    pub(super) allow_bypass: bool,
}

/// For whom reports are written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reports")]
pub(super) struct FormArgs {
    /// Readers of `junit.xml`: `strict` leaves out what the schema of Jenkins' xUnit plugin refuses
    #[arg(long, value_enum, default_value_t = JunitDialect::Common, value_name = "DIALECT")]
    pub(super) junit_dialect: JunitDialect,
    /// `gl-code-quality-report.json` for GitLab CI
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(super) gitlab: When,
}

/// What a run is compared with.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(super) struct BaselineArgs {
    /// Compare with an earlier run: its run directory or `summary.json`
    #[arg(long, value_name = "DIR|FILE")]
    pub(super) baseline: Option<PathBuf>,
    /// What fails the run, in place of any failure; several, separated by commas. Needs a baseline
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub(super) gate: Vec<GateArg>,
}

/// What fails a run that is compared with a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GateArg {
    /// A task that passed in the baseline fails
    Broken,
    /// A task fails that the baseline has no verdict of
    New,
    /// A task costs notably more
    Cost,
    /// A task takes notably more steps
    Steps,
}

impl From<GateArg> for crate::report::summary::Gate {
    fn from(typed: GateArg) -> Self {
        match typed {
            GateArg::Broken => Self::Broken,
            GateArg::New => Self::New,
            GateArg::Cost => Self::Cost,
            GateArg::Steps => Self::Steps,
        }
    }
}

/// Run tasks.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) tasks: TaskArgs,
    /// Run although an event of GitHub started the job that anybody can cause (`issue_comment`, `pull_request_target` ..):
    /// only tasks that start no process and have no network
    #[arg(help_heading = "Tasks and what they may do", long)]
    pub(super) allow_untrusted_trigger: bool,
    /// Run directory: transcripts and reports
    #[arg(
        help_heading = "Reports",
        long,
        short,
        value_name = "DIR",
        default_value = "agent-batch-results"
    )]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) plan: PlanArgs,
    /// Tasks at the same time
    #[arg(help_heading = "Limits", long, short, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) jobs: u16,
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Ask the model for whole answers instead of streams
    #[arg(help_heading = "Model", long)]
    pub(super) no_stream: bool,
    /// Give a model call up after this time without anything new
    #[arg(help_heading = "Model", long, value_name = "TIME", default_value = "2m", value_parser = humantime::parse_duration)]
    pub(super) idle_timeout: std::time::Duration,
    /// Most tries of one model call
    #[arg(help_heading = "Model", long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) max_tries: u16,
    /// Keep copies of workspaces after the run
    #[arg(help_heading = "Plan", long)]
    pub(super) keep_workspaces: bool,
    /// Live progress on stderr: `auto` draws on a terminal and writes `tasks` elsewhere, `never` is silent until the account
    #[arg(help_heading = "Reports", long, value_enum, default_value_t = ProgressArg::Auto, value_name = "WHEN")]
    pub(super) progress: ProgressArg,
    /// Step summary, outputs and annotations for GitHub Actions
    #[arg(help_heading = "Reports", long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(super) github: When,
    #[command(flatten)]
    pub(super) baseline: BaselineArgs,
    #[command(flatten)]
    pub(super) forms: FormArgs,
}

/// What the run as a whole may take, and when it ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(super) struct LimitArgs {
    /// Most tokens over all tasks; a call that what is left cannot pay is not made
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_tokens: Option<u64>,
    /// Most money over all tasks, in US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(super) max_cost: Option<Usd>,
    /// Most time for the whole run; at its end everything is cut and the reports are written
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) timeout: Option<std::time::Duration>,
    /// Time for what is under way to finish after SIGINT or SIGTERM; a second signal ends it at once [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) grace: Option<std::time::Duration>,
    /// Start no other task after N that did not pass; the running ones finish
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_failures: Option<u32>,
    /// The same as `--max-failures 1`
    #[arg(long, conflicts_with = "max_failures")]
    pub(super) fail_fast: bool,
    /// Run all trials of a task, also those that cannot change its verdict any more
    #[arg(long)]
    pub(super) all_trials: bool,
}

/// An amount of money that is one.
fn dollars(typed: &str) -> Result<Usd, String> {
    let amount = typed.trim_start_matches('$').parse().ok();
    amount
        .and_then(Usd::from_dollars)
        .filter(|amount| *amount > Usd::ZERO)
        .ok_or_else(|| "expected an amount of dollars above 0, as in `2.50`".to_owned())
}

/// Which part of the plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Plan")]
pub(super) struct PlanArgs {
    /// Go on with the run in DIR: run what is missing or ended in infrastructure, and repeat nothing that is finished
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list"])]
    pub(super) resume: Option<PathBuf>,
    /// Go on although tasks were changed, added or removed since; what was changed is run again
    #[arg(long, requires = "resume")]
    pub(super) resume_changed: bool,
    /// Run one part of the plan: INDEX/TOTAL from 1, or `auto` (`auto/TOTAL`) for what the CI system says
    #[arg(long, value_name = "SHARD")]
    pub(super) shard: Option<String>,
    /// Deal tasks out to shards, and start them, by how long they took: a `summary.json`, or a run directory
    #[arg(long, value_name = "PATH")]
    pub(super) history: Vec<PathBuf>,
    /// Print the plan and run nothing
    #[arg(long)]
    pub(super) list: bool,
    /// How the plan is printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ListFormat::Text, requires = "list")]
    pub(super) list_format: ListFormat,
}

/// Validate.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) tasks: TaskArgs,
}

/// Ask the gate.
#[derive(Debug, Args)]
#[command(mut_arg("tasks", |tasks| tasks.required(false).required_unless_present("cases")))]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) tasks: TaskArgs,
    /// The tool of the call
    #[arg(long, value_name = "NAME")]
    pub(super) tool: Option<String>,
    /// The input of the call, a JSON object, as in `{"command": "cargo test"}`
    #[arg(long, value_name = "JSON")]
    pub(super) input: Option<String>,
    /// Answer every case of a file instead (JSON lines, each with its own mode and rules; `-`: standard input), and compare with what it expects
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub(super) cases: Option<PathBuf>,
    /// `text` for a person, `json` for programs, one line per task [default: text on a terminal, json elsewhere]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) format: Option<ShowFormat>,
}

/// Report.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The run directory; several, or a glob, with `--out`
    #[arg(value_name = "DIR", required = true)]
    pub(super) dirs: Vec<PathBuf>,
    /// Join the run directories of shards into this one, and prove that none is missing
    #[arg(long, short, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Step summary, outputs and annotations for GitHub Actions
    #[arg(long, value_enum, default_value_t = When::Never, value_name = "WHEN")]
    pub(super) github: When,
    #[command(flatten)]
    pub(super) baseline: BaselineArgs,
    #[command(flatten)]
    pub(super) forms: FormArgs,
}

/// Which transcript.
#[derive(Debug, Args)]
pub(super) struct TranscriptArgs {
    /// A transcript, the directory of an attempt or of a task with one attempt, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
}

/// Show.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) transcript: TranscriptArgs,
    /// `text` for a person, `json` for the events as they are stored
    #[arg(long, value_enum, default_value_t = ShowFormat::Text, value_name = "FORMAT")]
    pub(super) format: ShowFormat,
    /// Only this step, or these: `3`, `2..5`
    #[arg(long, value_name = "STEPS", value_parser = steps)]
    pub(super) step: Option<RangeInclusive<u32>>,
    /// Only calls of this tool, with the replies that asked for them
    #[arg(long, value_name = "NAME")]
    pub(super) tool: Option<String>,
    /// Only what was denied, by the gate or by a hook
    #[arg(long)]
    pub(super) denied: bool,
    /// Only what went wrong: failed calls and hooks, retried model calls, checks that did not pass
    #[arg(long)]
    pub(super) errors: bool,
}

/// Export.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) transcript: TranscriptArgs,
    /// `stream-json` for viewers of Claude Code's transcripts, `atif` for tools of the benchmark field
    // The name has the values, so that the error of a command line without it has them, too.
    #[arg(
        long,
        value_enum,
        value_name = "stream-json|atif",
        hide_possible_values = true
    )]
    pub(super) format: ExportFormat,
}

/// What `show` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShowFormat {
    /// For a person
    Text,
    /// For programs, one object a line
    Json,
}

/// What `export` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportFormat {
    /// Claude Code's lines
    StreamJson,
    /// The Agent Trajectory Interchange Format
    Atif,
}

impl From<ExportFormat> for crate::report::export::Format {
    fn from(typed: ExportFormat) -> Self {
        match typed {
            ExportFormat::StreamJson => Self::StreamJson,
            ExportFormat::Atif => Self::Atif,
        }
    }
}

/// `3` or `2..5`, both ends included.
fn steps(typed: &str) -> Result<RangeInclusive<u32>, String> {
    let number = |text: &str| {
        let number = text.parse::<u32>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| {
            format!("expected a step like `3` or steps like `2..5`, found `{typed}`")
        })
    };
    let (first, last) = typed.split_once("..").unwrap_or((typed, typed));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!(
            "expected the first step before the last one, found `{typed}`"
        ));
    }
    Ok(first..=last)
}

/// Schema.
#[derive(Debug, Args)]
pub(super) struct SchemaArgs {
    /// The schema of `agent-batch.yaml` instead
    #[arg(long)]
    pub(super) project: bool,
    /// The schema of one line of a transcript instead
    #[arg(long, conflicts_with = "project")]
    pub(super) transcript: bool,
    /// The schema of `summary.json` instead
    #[arg(long, conflicts_with_all = ["project", "transcript"])]
    pub(super) summary: bool,
}

/// How the plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ListFormat {
    /// A line for each task
    Text,
    /// One JSON document
    Json,
}

/// When something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// Where the environment is right for it
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What is seen of a run while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressArg {
    /// Drawn on a terminal, `tasks` elsewhere
    Auto,
    /// Drawn
    Always,
    /// A line when a task starts, one when it ends, and what goes wrong in between
    Tasks,
    /// A line for each step and check too
    Steps,
    /// Nothing
    Never,
}

/// The readers of `junit.xml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum JunitDialect {
    /// `file` and `line` on each case, for GitLab and annotating actions
    Common,
    /// Valid by `junit-10.xsd`
    Strict,
}

impl From<JunitDialect> for crate::report::junit::Dialect {
    fn from(typed: JunitDialect) -> Self {
        match typed {
            JunitDialect::Common => Self::Common,
            JunitDialect::Strict => Self::Strict,
        }
    }
}

/// How processes are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sandbox {
    /// The strongest that the machine has, with a warning for what it lacks
    Auto,
    /// Whole, or a task is an error before the first model call
    Required,
    /// None
    Off,
}

impl From<Sandbox> for crate::sandbox::Mode {
    fn from(typed: Sandbox) -> Self {
        match typed {
            Sandbox::Auto => Self::Auto,
            Sandbox::Required => Self::Required,
            Sandbox::Off => Self::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn steps_are_one_or_a_range() {
        assert_eq!(steps("3"), Ok(3..=3));
        assert_eq!(steps("2..5"), Ok(2..=5));
        for wrong in ["", "0", "x", "5..2", "1..", "-1"] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
