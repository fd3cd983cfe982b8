//! `agent-batch TASK...`: run tasks, write every report, return the exit code that tells the truth.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::agent::Shutdown;
use crate::batch::plan::resume;
use crate::batch::{self, Batch, Job, Journal, Pinned, Rules, Scratch};
use crate::budget::Purse;
use crate::cli::args::{ProgressArg, RunArgs};
use crate::cli::claim::{self, Claimed, Refusal, claim};
use crate::cli::configuration::{Configuration, Files};
use crate::cli::plan::{self, Dealing};
use crate::cli::settings::Settings;
use crate::cli::{baseline, fail, github, load, redactor, say, trigger, workspaces};
use crate::clock::Clock;
use crate::event::{Event, Kind, SharedSink, Sink};
use crate::model::gate::Gate;
use crate::outcome::{Exit, Stop};
use crate::proc::Launcher;
use crate::report::baseline::{Snapshot, compare};
use crate::report::console::{Console, Detail};
use crate::report::progress::{Colour, Progress};
use crate::report::{Forms, RunPlan, Summary, account, files, seal};
use crate::sandbox::{self, Superuser};
use crate::task::{BatchLimits, Loaded, Task};
use crate::text;

/// How long what is under way may take to finish after a signal, when nobody says otherwise: CI systems kill ten seconds
/// after the first signal, and the reports are to be written by then.
const GRACE: Duration = Duration::from_secs(5);
/// How long what was cut may take to write its last event when a further signal says that nobody waits any more.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How often a look is taken whether the log shows that the run lives: CI systems that end a silent job wait ten minutes.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Runs tasks.
pub(super) fn run(args: &RunArgs, settings: &Settings) -> Exit {
    // Before the run directory is emptied: it may be the baseline itself.
    let Opened {
        mut before,
        configuration,
        loaded,
    } = match open(args, settings) {
        Ok(opened) => opened,
        Err(exit) => return exit,
    };
    let limits = narrowed(loaded.batch, args);
    let gate = Arc::new(Gate::new(args.jobs.into()));
    let clock = Clock::system();
    let Prepared {
        jobs,
        out,
        summary,
        lock: _lock,
    } = match prepare(
        loaded.tasks,
        (loaded.left_out, configuration.commit.clone()),
        &limits,
        &gate,
        args,
        settings,
        &clock,
    ) {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return Exit::Passed,
        Err((exit, message)) => return fail(exit, &message),
    };
    if let Some(before) = &mut before {
        baseline::select(before, &summary.plan, &configuration.base);
        if let Err(exit) = baseline::store(before, &out) {
            return exit;
        }
    }
    let summary = Arc::new(Mutex::new(Fold(summary)));
    let screen = Screen::new(args, settings, jobs.len());
    let files = configuration.files(jobs.iter().map(|job| job.task.path.clone()));
    let serialised = batch::serialised(&jobs);
    if args.jobs > 1 && serialised > 0 {
        let tasks = text::plural(serialised as u64, "task");
        say(&format!(
            "note: {tasks} of {} share a directory with another one and wait for it: use `isolation: copy`, and additional directories of their own",
            jobs.len()
        ));
    }
    let batch = match batch(
        &limits,
        args,
        settings,
        files,
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
    let weak = Arc::downgrade(&batch);
    gate.watch(move |eased| {
        if let Some(batch) = weak.upgrade() {
            batch.tell(Kind::CallsEased {
                window: eased.window,
                wait_ms: u64::try_from(eased.wait.as_millis()).unwrap_or(u64::MAX),
            });
        }
    });
    let beat = screen.heartbeat();
    if let Err(error) = execute(&batch, jobs, limits.grace.unwrap_or(GRACE), beat) {
        return fail(
            Exit::Infrastructure,
            &format!("the runtime could not be started: {error}"),
        );
    }
    screen.clear();
    drop(batch);
    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = &before {
        compare(&mut summary.0, before);
    }
    seal::seal(&mut summary.0, &out);
    conclude(
        &summary.0,
        &out,
        settings.forms(&args.forms),
        settings.github(args.github),
        settings,
    )
}

/// What a run is made from.
struct Opened {
    before: Option<Snapshot>,
    configuration: Configuration,
    loaded: Loaded,
}

/// Reads everything that the arguments name, and refuses what cannot become a run.
fn open(args: &RunArgs, settings: &Settings) -> Result<Opened, Exit> {
    if let Some(dir) = &args.plan.resume {
        claim::begun(&settings.base.join(dir), dir).map_err(|(exit, why)| fail(exit, &why))?;
    }
    let before = match &args.plan.resume {
        Some(dir) => baseline::of_report(&args.baseline, &settings.base.join(dir), settings)?,
        None => baseline::demand(&args.baseline)
            .and_then(|()| baseline::named(&args.baseline, settings))?,
    };
    let configuration = Configuration::open(&args.tasks, settings)
        .map_err(|message| fail(Exit::Usage, &message))?;
    let loaded = load::load(&configuration, &args.tasks, settings)?;
    if let Some(before) = &before {
        baseline::cover(before, &loaded.tasks)?;
    }
    if let Some(why) = trigger::refusal(settings, args.allow_untrusted_trigger, &loaded.tasks) {
        return Err(fail(Exit::Usage, &why));
    }
    if let Some(warning) = superuser(&loaded.tasks, settings) {
        say(&warning);
    }
    workspaces::verify(loaded.tasks.iter(), settings)
        .map_err(|message| fail(Exit::Usage, &message))?;
    Ok(Opened {
        before,
        configuration,
        loaded,
    })
}

/// Says so where tasks without a sandbox could do everything on this machine. In a sandbox no program gains rights, `sudo`
/// included; `sandbox: off` is the operator's word, and what it means here is said before the first call.
fn superuser(tasks: &[Task], settings: &Settings) -> Option<String> {
    let open = tasks
        .iter()
        .filter(|task| task.sandbox == sandbox::Mode::Off && task.starts_processes())
        .count();
    if open == 0 {
        return None;
    }
    let superuser = Superuser::of(settings.variable("PATH").unwrap_or_default())?;
    Some(format!(
        "warning: the sandbox is off for {}, whose processes {}: nothing on this machine is closed to them, the model's key \
         included",
        text::plural(open as u64, "task"),
        superuser.means()
    ))
}

/// Whether a limit on money can be held: all models need known prices.
fn priced(limits: &BatchLimits, jobs: &[Job]) -> Result<(), String> {
    let models = |job: &Job| {
        let judges = job.judges.values().cloned();
        judges.chain([Arc::clone(&job.model)]).collect::<Vec<_>>()
    };
    let mut models = jobs.iter().flat_map(models);
    let unknown = models.find(|model| model.facts().is_none());
    match unknown.filter(|_| limits.purse.max_cost.is_some()) {
        None => Ok(()),
        Some(model) => Err(format!(
            "a limit on the money of the run needs models with known prices, and `{}` is not listed; use `--max-tokens`",
            model.name()
        )),
    }
}

/// The limits of the project, made narrower by the command line.
fn narrowed(mut limits: BatchLimits, args: &RunArgs) -> BatchLimits {
    fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
    limits.purse.max_tokens = least(limits.purse.max_tokens, args.limits.max_tokens);
    limits.purse.max_cost = least(limits.purse.max_cost, args.limits.max_cost);
    limits.timeout = least(limits.timeout, args.limits.timeout);
    limits.grace = args.limits.grace.or(limits.grace);
    limits
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
    if let Err(error) = &written {
        // Before all else, as a run without its reports must not be read as a whole one.
        let message = format!("this run is not complete, a report is missing: {error}");
        let _ = if in_actions {
            writeln!(io::stdout().lock(), "{}", github::error(&message))
        } else {
            account::write_line(&mut io::stdout().lock(), &format!("error: {message}"))
        };
    }
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

/// Runs the batch. After the first SIGINT, SIGTERM or SIGHUP nothing new begins, and what is under way has `grace` to finish
/// before it is cut; the second one cuts it at once.
fn execute(
    batch: &Arc<Batch>,
    jobs: Vec<Job>,
    grace: Duration,
    beat: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.spawn(async move {
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            beat();
        }
    });
    let listening = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let shutdown = Shutdown::default();
        let running = batch.run(jobs, &shutdown);
        tokio::pin!(running);
        let signal = tokio::select! {
            () = &mut running => return Ok(()),
            signal = signals.next() => signal,
        };
        shutdown.begin(Stop::Cancelled, "the run was interrupted");
        batch.tell(Kind::RunInterrupted { signal });
        let is_over = tokio::select! {
            () = &mut running => true,
            () = tokio::time::sleep(grace) => false,
            _ = signals.next() => false,
        };
        if is_over {
            return Ok(());
        }
        shutdown.cut();
        let again = async {
            signals.next().await;
            // What is cut ends by itself; this is for what does not.
            tokio::time::sleep(LAST_WORDS).await;
        };
        tokio::select! {
            () = &mut running => {}
            () = again => {}
        }
        Ok(())
    });
    // A tool that does not end must not hold the reports back.
    runtime.shutdown_background();
    listening
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// None where whoever started us wants it ignored (`nohup`).
    hang_up: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: (!ignores_hang_up())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
        })
    }

    async fn next(&mut self) -> u8 {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hang_up => 1,
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

/// Whether SIGHUP is ignored in this process; elsewhere than on Linux nobody says.
fn ignores_hang_up() -> bool {
    let status =
        crate::file::read_text(Path::new("/proc/self/status"), 64 * 1024).unwrap_or_default();
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & 1 == 1)
}

fn batch(
    limits: &BatchLimits,
    args: &RunArgs,
    settings: &Settings,
    files: Files,
    out: PathBuf,
    watchers: Vec<SharedSink>,
) -> io::Result<Batch> {
    let redactor = redactor(settings);
    if redactor.refused() > 0 {
        let count = crate::text::plural(redactor.refused() as u64, "secret");
        let names = settings.short_secrets();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        say(&format!(
            "warning: {count} of the environment, shorter than {} bytes, cannot be told from other text and will not be redacted: {}",
            crate::redact::SHORTEST,
            crate::text::some(&names, 20)
        ));
    }
    let clock = Clock::system();
    let pinned = Pinned::new(files.read, clock).with_program(&settings.program);
    let mut never_write = files.never_write;
    never_write.push(out.clone());
    Ok(Batch {
        parallel: args.jobs.into(),
        rules: Rules {
            groups: limits.groups.clone(),
            max_failures: args
                .limits
                .max_failures
                .or(args.limits.fail_fast.then_some(1)),
            all_trials: args.limits.all_trials,
            timeout: limits.timeout,
        },
        purse: Purse::new(limits.purse),
        journal: Journal::default(),
        base: settings.base.clone(),
        scratch: Scratch::create(&settings.temp, &out, args.keep_workspaces)?,
        out,
        keep_workspaces: args.keep_workspaces,
        launcher: Launcher::new(settings.program.clone()),
        environment: settings.environment.clone(),
        redactor: Arc::clone(redactor),
        clock,
        watchers,
        never_write: never_write.into(),
        pinned,
        config_commit: files.commit,
        closed: settings.closed_files(),
        extra_tools: Vec::new(),
        callbacks: Vec::new(),
    })
}

/// What a run starts with.
struct Prepared {
    jobs: Vec<Job>,
    /// The run directory, absolute.
    out: PathBuf,
    /// What has happened so far: nothing, unless the run goes on with an earlier one.
    summary: Summary,
    lock: Claimed,
}

/// Makes the plan, takes the run directory and chooses what is left to do. `None`: the plan was only to be shown.
fn prepare(
    tasks: Vec<Task>,
    (left_out, config_commit): (BTreeMap<String, String>, Option<String>),
    limits: &BatchLimits,
    gate: &Arc<Gate>,
    args: &RunArgs,
    settings: &Settings,
    clock: &Clock,
) -> Result<Option<Prepared>, Refusal> {
    let usage = |message| (Exit::Usage, message);
    let mut dealing = Dealing::read(args, settings).map_err(usage)?;
    let mut plan = RunPlan::new(
        env!("CARGO_PKG_VERSION"),
        clock.now(),
        args.jobs.into(),
        tasks.iter().map(plan::planned).collect(),
    );
    plan.left_out = left_out;
    plan.config_commit = config_commit;
    if args.plan.list {
        dealing.deal(&mut plan);
        plan::list(&plan, args.plan.list_format);
        return Ok(None);
    }
    let shown = args.plan.resume.as_ref().unwrap_or(&args.out);
    let out = settings.base.join(shown);
    // A key that is missing is told before an earlier run is emptied.
    let all =
        load::jobs(tasks, args, settings, gate).map_err(|exit| (exit, "no task was run".into()))?;
    priced(limits, &all).map_err(usage)?;
    let lock = claim(&out, shown)?;
    let (earlier, summary) = if args.plan.resume.is_some() {
        let before = lock.before()?;
        let shard = before.plan.as_ref().and_then(|plan| plan.shard.as_ref());
        dealing
            .go_on_with(before.plan.is_some(), shard)
            .map_err(usage)?;
        dealing.deal(&mut plan);
        let resumed = lock.go_on(plan, before, args.plan.resume_changed)?;
        (resumed.earlier, resumed.summary)
    } else {
        dealing.deal(&mut plan);
        lock.begin(&plan)?;
        (HashMap::new(), Summary::new(plan, shown.to_string_lossy()))
    };
    let own: HashSet<&str> = summary.plan.own().map(|task| task.name.as_str()).collect();
    let count = own.len();
    let mut jobs: Vec<Job> = all
        .into_iter()
        .filter(|job| own.contains(job.task.name.as_str()))
        .map(|job| Job {
            earlier: earlier.get(&job.task.name).cloned().unwrap_or_default(),
            ..job
        })
        .filter(|job| !resume::is_done(job.task.trials, args.limits.all_trials, &job.earlier))
        .collect();
    dealing.longest_first(&mut jobs, |job| &job.task.name);
    if args.plan.resume.is_some() {
        say(&format!(
            "note: {} of {count} tasks left to run in `{}`",
            jobs.len(),
            shown.display()
        ));
    }
    Ok(Some(Prepared {
        jobs,
        out,
        summary,
        lock,
    }))
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
        let draws = match args.progress {
            ProgressArg::Never => return Self::Nothing,
            ProgressArg::Auto => settings.draws_progress(),
            ProgressArg::Always => true,
            ProgressArg::Tasks | ProgressArg::Steps => false,
        };
        if draws {
            let colour = if settings.variable("NO_COLOR").is_some() {
                Colour::Off
            } else {
                Colour::On
            };
            Self::Drawn(Arc::new(Mutex::new(Progress::new(tasks as u64, colour))))
        } else {
            let detail = if args.progress == ProgressArg::Steps {
                Detail::Steps
            } else {
                Detail::Tasks
            };
            let console = Console::new(io::stderr()).with_detail(detail);
            Self::Lines(Arc::new(Mutex::new(console)))
        }
    }

    fn sink(&self) -> Option<SharedSink> {
        match self {
            Self::Nothing => None,
            Self::Lines(console) => Some(Arc::clone(console) as SharedSink),
            Self::Drawn(progress) => Some(Arc::clone(progress) as SharedSink),
        }
    }

    /// To be called from time to time while tasks run.
    fn heartbeat(&self) -> impl Fn() + Send + 'static {
        let console = match self {
            Self::Lines(console) => Some(Arc::clone(console)),
            Self::Nothing | Self::Drawn(_) => None,
        };
        move || {
            if let Some(console) = &console {
                let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
                // Whoever reads the log is gone, and the run goes on.
                let _ = console.heartbeat();
            }
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
