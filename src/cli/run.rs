//! `agent-batch TASK...`: run tasks, write every report, return the exit code that tells the truth.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::batch::{Batch, Job, Pinned, Scratch};
use crate::cli::args::{RunArgs, When};
use crate::cli::settings::Settings;
use crate::cli::{fail, github, load, redactor, say, workspaces};
use crate::clock::Clock;
use crate::event::{Event, SharedSink, Sink};
use crate::outcome::Exit;
use crate::proc::Launcher;
use crate::report::console::Console;
use crate::report::progress::{Colour, Progress};
use crate::report::{Forms, PlannedTask, RunPlan, Summary, account, files, run_dir};
use crate::task::PROJECT_FILE;
use crate::text;

/// Runs tasks.
pub(super) fn run(args: &RunArgs, settings: &Settings) -> Exit {
    let loaded = match load::load(&args.tasks, settings) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let jobs = match load::jobs(loaded.tasks, args, settings) {
        Ok(jobs) => jobs,
        Err(exit) => return exit,
    };
    if let Err(message) = workspaces::verify(jobs.iter().map(|job| &*job.task), settings) {
        return fail(Exit::Usage, &message);
    }
    let clock = Clock::system();
    let plan = RunPlan::new(
        env!("CARGO_PKG_VERSION"),
        clock.now(),
        args.jobs.into(),
        jobs.iter().map(planned).collect(),
    );
    let out = settings.base.join(&args.out);
    let _lock = match claim(&out, &plan) {
        Ok(lock) => lock,
        Err((exit, message)) => return fail(exit, &message),
    };
    let summary = Arc::new(Mutex::new(Fold(Summary::new(
        plan,
        args.out.to_string_lossy(),
    ))));
    let screen = Screen::new(args, settings, jobs.len());
    let batch = match batch(
        jobs,
        args,
        settings,
        clock,
        out.clone(),
        screen
            .sink()
            .into_iter()
            .chain([Arc::clone(&summary) as SharedSink])
            .collect(),
    ) {
        Ok(batch) => Arc::new(batch),
        Err(error) => return fail(Exit::Infrastructure, &error.to_string()),
    };
    if args.jobs > 1 && batch.serialised() > 0 {
        let tasks = text::plural(batch.serialised() as u64, "task");
        say(&format!(
            "note: {tasks} of {} work in a directory of another one and wait for it; `isolation: copy` would not",
            batch.jobs.len()
        ));
    }
    let signal = match execute(&batch) {
        Ok(signal) => signal,
        Err(error) => {
            return fail(
                Exit::Infrastructure,
                &format!("the runtime could not be started: {error}"),
            );
        }
    };
    screen.clear();
    drop(batch);
    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    summary.0.signal = signal;
    conclude(
        &summary.0,
        &out,
        settings.forms(&args.forms),
        settings.github(args.github),
        settings,
    )
}

/// Writes every report of a run, shows the account, and gives the exit code.
pub(super) fn conclude(
    summary: &Summary,
    out: &Path,
    forms: Forms,
    in_actions: bool,
    settings: &Settings,
) -> Exit {
    let written = files::write_all(out, summary, forms);
    // A reader that went away must not change the verdict.
    let _ = account::write(&mut io::stdout().lock(), summary);
    let told = if in_actions {
        github::tell(summary, settings)
    } else {
        Ok(())
    };
    for error in [
        written.err().map(|error| error.to_string()),
        told.err().map(|error| error.to_string()),
    ]
    .into_iter()
    .flatten()
    {
        say(&format!("error: a report could not be written: {error}"));
        if summary.exit() == Exit::Passed {
            return Exit::Infrastructure;
        }
    }
    summary.exit()
}

/// Runs the batch. The first SIGINT or SIGTERM ends the tasks in an orderly way, the second one at once. Returns the signal.
fn execute(batch: &Arc<Batch>) -> io::Result<Option<u8>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let signal = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let cancel = CancellationToken::new();
        let running = batch.run(&cancel);
        tokio::pin!(running);
        let first = tokio::select! {
            () = &mut running => return Ok(None),
            signal = signals.next() => signal,
        };
        cancel.cancel();
        tokio::select! {
            () = &mut running => {}
            _ = signals.next() => {}
        }
        Ok(Some(first))
    });
    // A tool that does not end must not hold the reports back.
    runtime.shutdown_background();
    signal
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

fn batch(
    jobs: Vec<Job>,
    args: &RunArgs,
    settings: &Settings,
    clock: Clock,
    out: PathBuf,
    watchers: Vec<SharedSink>,
) -> io::Result<Batch> {
    let redactor = redactor(settings);
    if redactor.refused() > 0 {
        let count = crate::text::plural(redactor.refused() as u64, "secret");
        say(&format!(
            "warning: {count} of the environment, shorter than {} bytes, cannot be told from other text and will not be redacted",
            crate::redact::SHORTEST
        ));
    }
    let task_files: Vec<PathBuf> = jobs.iter().map(|job| job.task.path.clone()).collect();
    let project = args
        .tasks
        .project
        .clone()
        .unwrap_or_else(|| PROJECT_FILE.into());
    let mut never_write = task_files;
    never_write.push(settings.base.join(project));
    let pinned = Pinned::new(never_write.clone());
    never_write.push(out.clone());
    Ok(Batch {
        jobs,
        parallel: args.jobs.into(),
        base: settings.base.clone(),
        scratch: Scratch::create(&settings.temp, &out, args.keep_workspaces)?,
        out,
        keep_workspaces: args.keep_workspaces,
        launcher: Launcher::new(settings.program.clone()),
        environment: settings.environment.clone(),
        redactor: Arc::clone(redactor),
        clock,
        watchers,
        never_write,
        pinned,
        closed: settings.runner_files(),
        extra_tools: Vec::new(),
        callbacks: Vec::new(),
    })
}

fn planned(job: &Job) -> PlannedTask {
    let task = &job.task;
    PlannedTask {
        name: task.name.clone(),
        file: task.file.clone(),
        line: task.line,
        model: job.model.name().to_owned(),
        mode: task.mode.name().to_owned(),
        tags: task.tags.clone(),
        isolation: task.isolation.name().to_owned(),
        on_denied: task.on_denied,
        quarantine: None,
        trials: task.trials,
        retries: task.retries,
        group: task.group.clone(),
        matrix: task.matrix.iter().cloned().collect(),
        definition_sha256: task.definition_sha256.clone(),
    }
}

/// Takes the run directory: empties an earlier run's, writes the plan, and keeps others out until the lock is dropped.
fn claim(out: &Path, plan: &RunPlan) -> Result<File, (Exit, String)> {
    let io = |error: io::Error| {
        (
            Exit::Infrastructure,
            format!("the run directory `{}`: {error}", out.display()),
        )
    };
    let is_foreign =
        out.is_dir() && !out.join(run_dir::PLAN).is_file() && !is_empty(out).map_err(io)?;
    if is_foreign || (out.exists() && !out.is_dir()) {
        let message = format!(
            "`{}` exists and is not a run directory; name another one with `--out`",
            out.display()
        );
        return Err((Exit::Usage, message));
    }
    fs::create_dir_all(out).map_err(io)?;
    let lock = lock_file(&out.join(run_dir::LOCK)).map_err(io)?;
    if lock.try_lock().is_err() {
        let message = format!(
            "another run is using `{}`; name another one with `--out`",
            out.display()
        );
        return Err((Exit::Infrastructure, message));
    }
    clear(out).map_err(io)?;
    fs::write(out.join(run_dir::IGNORE), "*\n").map_err(io)?;
    let plan = plan.to_json().map_err(|error| io(error.into()))?;
    files::write(&out.join(run_dir::PLAN), plan.as_bytes())
        .map_err(|error| (Exit::Infrastructure, error.to_string()))?;
    Ok(lock)
}

/// The lock's file, made if there is none. The directory may come from a checkout: nothing behind a link is opened, and a
/// pipe is not waited for.
fn lock_file(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(format!(
            "`{}` is no regular file",
            run_dir::LOCK
        )))
    }
}

fn is_empty(directory: &Path) -> io::Result<bool> {
    let mut entries = directory.read_dir()?;
    Ok(entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == run_dir::LOCK)))
}

/// Removes what an earlier run left. The plan goes last: a run that is killed in between leaves a directory that is still
/// known as a run's.
fn clear(out: &Path) -> io::Result<()> {
    for entry in out.read_dir()? {
        let entry = entry?;
        let name = entry.file_name();
        if name == run_dir::LOCK || name == run_dir::PLAN {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_file(out.join(run_dir::PLAN)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The live summary: the same fold that `agent-batch report` makes.
struct Fold(Summary);

impl Sink for Fold {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        self.0.fold(event);
        Ok(())
    }
}

/// What a person sees while it runs.
enum Screen {
    Nothing,
    Lines(Arc<Mutex<Console<io::Stderr>>>),
    Drawn(Arc<Mutex<Progress>>),
}

impl Screen {
    fn new(args: &RunArgs, settings: &Settings, tasks: usize) -> Self {
        if args.progress == When::Never {
            Self::Nothing
        } else if settings.draws_progress(args.progress) {
            let colour = if settings.variable("NO_COLOR").is_some() {
                Colour::Off
            } else {
                Colour::On
            };
            Self::Drawn(Arc::new(Mutex::new(Progress::new(tasks as u64, colour))))
        } else {
            Self::Lines(Arc::new(Mutex::new(Console::new(io::stderr()))))
        }
    }

    fn sink(&self) -> Option<SharedSink> {
        match self {
            Self::Nothing => None,
            Self::Lines(console) => Some(Arc::clone(console) as SharedSink),
            Self::Drawn(progress) => Some(Arc::clone(progress) as SharedSink),
        }
    }

    fn clear(&self) {
        if let Self::Drawn(progress) = self {
            progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
    }
}
