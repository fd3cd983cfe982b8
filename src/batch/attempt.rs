//! One task from its start to its last event.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Ended, Interrupt, Shutdown, Surroundings, panic_message, system_prompt};
use crate::batch::checking::Checked;
use crate::batch::course::Number;
use crate::batch::overseer::{HOUSEKEEPING, Phase, overdue};
use crate::batch::{Batch, Job};
use crate::budget::Limits;
use crate::check::{CallLog, CheckContext, Taken};
use crate::event::{
    Change, Emitter, Kind, RuleRecord, SandboxRecord, SharedSink, Spent, TaskFinished, TaskStarted,
    WorkspaceCompared,
};
use crate::hook::{HookContext, HookRuntime, Hooks};
use crate::outcome::{ChecksResult, OnDenied, Outcome, Stop};
use crate::policy::{Mode, Policy, Roots};
use crate::proc::{self, Launcher};
use crate::report::{run_dir, transcript};
use crate::sandbox;
use crate::task::Task;
use crate::text;
use crate::tool::{Registry, StructuredOutput, builtin};
use crate::workspace::{Git, Isolation, Workspace};

/// Most bytes of a tool result in the conversation.
const OUTPUT_LIMIT: usize = 30_000;

/// Runs one attempt and returns how it ended. Its result is its transcript; when that cannot be written, there is only the
/// log to say so, and every report says `not_run` or `unfinished`.
pub(super) async fn run(
    batch: &Arc<Batch>,
    job: &Arc<Job>,
    number: Number,
    has_copied: impl FnOnce() + Send + 'static,
    shutdown: &Shutdown,
) -> Outcome {
    let attempt = Attempt::new(batch, job, number);
    let calls = Arc::new(Mutex::new(CallLog::default()));
    let emitter = match attempt.open_transcript(Arc::clone(&calls) as SharedSink) {
        Ok(emitter) => emitter,
        Err(error) => {
            tracing::error!(%error, task = job.task.name, "the transcript could not be opened");
            return Outcome::IoError;
        }
    };
    let began = batch.clock.start();
    let work = attempt
        .oversee(&emitter, calls, batch, job, has_copied, shutdown)
        .await;
    let finished = attempt.last_event(work, began.elapsed_millis());
    let outcome = finished.outcome;
    // It is synced to the disk, which the other tasks need not wait for.
    let stored = block_in_place(|| emitter.emit(Kind::TaskFinished(Box::new(finished))));
    if let Err(error) = stored {
        tracing::error!(%error, task = job.task.name, "the transcript could not be finished");
    }
    outcome
}

pub(super) struct Attempt<'a> {
    pub(super) batch: &'a Batch,
    job: &'a Job,
    pub(super) task: &'a Task,
    number: u32,
    trial: u32,
    /// Where transcript and output go.
    dir: PathBuf,
    /// Private HOME, TMPDIR and copy of the workspace.
    pub(super) scratch: PathBuf,
}

/// What came out of an attempt.
struct Work {
    ended: Ended,
    denials: u32,
    checks: ChecksResult,
    /// One line for each check that did not pass.
    failures: Vec<String>,
}

impl<'a> Attempt<'a> {
    fn new(batch: &'a Batch, job: &'a Job, number: Number) -> Self {
        let name = &job.task.name;
        let Number {
            attempt: number,
            trial,
        } = number;
        let dir = batch.out.join(run_dir::attempt(name, number));
        let scratch = batch.scratch.root().join(name).join(number.to_string());
        Self {
            batch,
            job,
            task: &job.task,
            number,
            trial,
            dir,
            scratch,
        }
    }

    fn open_transcript(&self, calls: SharedSink) -> io::Result<Emitter> {
        make(&self.dir)?;
        let store = transcript::Writer::create(&self.dir.join(run_dir::TRANSCRIPT))?;
        let redactor = Arc::clone(&self.batch.redactor);
        let watchers = self.batch.watchers.iter().cloned().chain([calls]).collect();
        Ok(Emitter::new(
            &*self.task.name,
            self.number,
            self.batch.clock,
            redactor,
            Box::new(store),
            watchers,
        ))
    }

    /// Does the work in a task of the runtime's own, so that neither a crash nor something that does not end takes the batch
    /// with it.
    async fn oversee(
        &self,
        emitter: &Emitter,
        calls: Arc<Mutex<CallLog>>,
        batch: &Arc<Batch>,
        job: &Arc<Job>,
        has_copied: impl FnOnce() + Send + 'static,
        shutdown: &Shutdown,
    ) -> Work {
        let (interrupt, _clock) = Interrupt::start(shutdown, self.task.limits.timeout);
        let (phase, phases) = watch::channel(Phase::Within(HOUSEKEEPING, "preparing"));
        let mut work = tokio::spawn({
            let (batch, job, emitter) = (Arc::clone(batch), Arc::clone(job), emitter.clone());
            let (interrupt, shutdown) = (interrupt.clone(), shutdown.clone());
            let number = Number {
                attempt: self.number,
                trial: self.trial,
            };
            async move {
                Attempt::new(&batch, &job, number)
                    .work(&emitter, &calls, &interrupt, &phase, &shutdown, has_copied)
                    .await
            }
        });
        let ended = tokio::select! {
            ended = &mut work => ended,
            phase = overdue(phases, &interrupt, shutdown) => {
                work.abort();
                let (stop, reason) = match phase {
                    Phase::Agent => interrupt.reason(),
                    Phase::Within(..) if shutdown.token().is_cancelled() => shutdown.reason(),
                    Phase::Within(limit, _) => {
                        let limit = humantime::format_duration(limit);
                        (Stop::Timeout, format!("it took longer than {limit}"))
                    }
                };
                let message = format!("{reason}; it could not be ended while {} and was given up", phase.name());
                return Work::stopped(stop, message, self.task);
            }
        };
        match ended {
            Ok(Ok(work)) => work,
            Ok(Err(error)) => Work::failed(&error, self.task),
            Err(crash) => {
                let message = format!("the runner crashed in this task: {}", panic_message(crash));
                Work::stopped(Stop::IoError, message, self.task)
            }
        }
    }

    async fn work(
        &self,
        emitter: &Emitter,
        calls: &Mutex<CallLog>,
        interrupt: &Interrupt,
        phase: &watch::Sender<Phase>,
        shutdown: &Shutdown,
        has_copied: impl FnOnce() + Send,
    ) -> io::Result<Work> {
        let began = self.batch.clock.start();
        let mut environment = self.environment();
        let registry = self.registry().map_err(io::Error::other)?;
        let system = system_prompt(self.task.mode, &registry.names(), &self.task.system);
        let prepared = self.prepare(interrupt.token()).await;
        has_copied();
        let root = prepared
            .as_ref()
            .map_or(&*self.task.workspace, Workspace::root);
        let borrowed = prepared.as_ref().map_or(&[][..], Workspace::borrowed);
        if self.task.sandbox != sandbox::Mode::Off {
            proc::trust_repository(&mut environment, root);
        }
        let mut held = self.hold(root, borrowed, &environment, emitter).await;
        environment.extend(held.variables());
        let hooks = self.hooks(root, &environment, &held.launcher, interrupt.token());
        let digest = hooks.as_ref().map_or_else(|_| String::new(), Hooks::digest);
        emitter.emit(Kind::TaskStarted(Box::new(self.started(
            &registry,
            &system,
            digest,
            std::mem::take(&mut held.record),
        ))))?;
        if let Some(message) = held.warning.take() {
            warn(emitter, "sandbox", message)?;
        }
        if let Some(refusal) = held.refusal.take() {
            return Ok(Work::stopped(Stop::SandboxUnavailable, refusal, self.task));
        }
        if self.task.mode == Mode::BypassPermissions {
            let message = "mode `bypassPermissions`: calls need no rule in this task".to_owned();
            warn(emitter, "bypass", message)?;
        }
        let (hooks, workspace) = (hooks?, prepared?);
        for note in workspace.notes() {
            warn(emitter, "workspace", note.clone())?;
        }
        let agent = Agent {
            model: Arc::clone(&self.job.model),
            registry,
            hooks,
            hook_context: self.hook_context(workspace.root()),
            policy: Arc::new(self.policy(workspace.root())),
            limits: self.task.limits.clone(),
            purse: self.batch.purse.clone(),
            system,
            surroundings: Surroundings {
                launcher: held.launcher.clone(),
                environment: environment.clone(),
                output_dir: self.output_dir(),
                output_name: run_dir::output(&self.task.name, self.number),
                output_limit: OUTPUT_LIMIT,
            },
        };
        phase.send_replace(Phase::Agent);
        let mut ended = agent.run(&self.task.turns, emitter, interrupt).await;
        phase.send_replace(Phase::Within(HOUSEKEEPING, "comparing the workspace"));
        let changes = self.compare(&workspace, emitter).await?;
        let checked = if ended.stop == Stop::Completed {
            let held_to =
                |root: &Path| self.held_to(root, workspace.borrowed(), &held.layers, &environment);
            let context = CheckContext {
                workspace: &workspace,
                changes,
                turns: self.task.turns.clone(),
                reply: ended.reply.clone(),
                output: self.answer_file(),
                calls: calls.lock().unwrap_or_else(PoisonError::into_inner).clone(),
                taken: Taken {
                    steps: ended.steps,
                    spent: ended.spent,
                    time: began.elapsed(),
                },
                judges: self.job.judges.clone(),
                purse: self.batch.purse.clone(),
                scratch: self.scratch.clone(),
                launcher: held.launcher.clone(),
                held_to: &held_to,
                environment: environment.clone(),
                redactor: Arc::clone(&self.batch.redactor),
                cancel: shutdown.token().clone(),
            };
            let checked = self.check(&context, phase, emitter).await?;
            checked.excuse(&context.calls, &mut ended);
            checked
        } else {
            Checked::not_run()
        };
        let ended = held.look_back(ended, &workspace, emitter)?;
        phase.send_replace(Phase::Within(HOUSEKEEPING, "removing the workspace"));
        self.remove(workspace, emitter)?;
        let ended = self.look_at_configuration(ended).await;
        Ok(Work {
            denials: ended.denials,
            ended,
            checks: checked.together,
            failures: checked.failures,
        })
    }

    /// Removes the workspace, unless it is to be kept.
    fn remove(&self, workspace: Workspace, emitter: &Emitter) -> io::Result<()> {
        if !self.batch.keep_workspaces
            && let Err(error) = block_in_place(|| workspace.remove())
        {
            let message = format!("the workspace could not be removed: {error}");
            warn(emitter, "workspace", message)?;
        }
        Ok(())
    }

    /// Where the structured answer lies, if the task demands one.
    fn answer_file(&self) -> Option<PathBuf> {
        let demanded = self.task.output_schema.is_some();
        demanded.then(|| self.dir.join(run_dir::ANSWER))
    }

    /// Compares the workspace with its state at the start and leaves the difference as a patch, however the agent ended.
    async fn compare(&self, workspace: &Workspace, emitter: &Emitter) -> io::Result<Vec<Change>> {
        workspace.reopen();
        // What the last call could not remove, because the agent had closed its place.
        sandbox::remove_stale(workspace.root());
        let own = self.never_write(workspace.root());
        let protected = |path: &Path| {
            let path = workspace.root().join(path);
            let mut never = own.iter().chain(&*self.batch.never_write);
            never.any(|never| path.starts_with(never))
        };
        let redactor = &self.batch.redactor;
        let comparison = block_in_place(|| workspace.compare(&protected, redactor))?;
        let changes = comparison.changes().to_vec();
        let mut compared = WorkspaceCompared {
            changes: changes.clone(),
            concerns: comparison.concerns().to_vec(),
            patch: None,
            commit: workspace.commit().unwrap_or_default().to_owned(),
        };
        let mut problem = None;
        if !changes.is_empty() {
            let written = match self.git() {
                Ok(git) => {
                    comparison
                        .write_patch(&git, &self.dir.join(run_dir::PATCH))
                        .await
                }
                Err(error) => Err(error),
            };
            match written {
                Ok(record) => compared.patch = Some(record),
                Err(error) => problem = Some(format!("there is no patch of the changes: {error}")),
            }
        }
        emitter.emit(Kind::WorkspaceCompared(Box::new(compared)))?;
        if let Some(message) = problem {
            warn(emitter, "patch", message)?;
        }
        Ok(changes)
    }

    /// The git of the search path that we were started with.
    fn git(&self) -> io::Result<Git> {
        let search = self.batch.environment.get("PATH");
        let avoid = [&*self.task.workspace, self.batch.scratch.root()];
        Git::find(
            search.map_or("", String::as_str),
            &avoid,
            self.batch.launcher.clone(),
        )
    }

    /// A run whose configuration changed under it has no other result than that.
    async fn look_at_configuration(&self, ended: Ended) -> Ended {
        let changed = self.batch.pinned.changed(&self.task.path).await;
        if changed.is_empty() {
            return ended;
        }
        let names: Vec<String> = changed
            .iter()
            .map(|path| path.strip_prefix(&self.batch.base).unwrap_or(path))
            .map(|path| path.display().to_string())
            .collect();
        Ended {
            stop: Stop::HookTampered,
            message: format!("changed during the run: {}", names.join(", ")),
            ..ended
        }
    }

    fn last_event(&self, work: Work, duration_ms: u64) -> TaskFinished {
        let Work {
            ended,
            denials,
            checks,
            failures,
        } = work;
        let outcome = Outcome::of(ended.stop, denials, self.task.on_denied, checks);
        let denied = |reason: Option<String>| match (reason, denials) {
            (Some(reason), 1) => reason,
            (Some(reason), more) => format!(
                "{reason}; and {} more",
                text::plural((more - 1).into(), "denial")
            ),
            (None, _) => String::new(),
        };
        let mut message = match outcome {
            Outcome::Denied if ended.stop == Stop::Completed => denied(ended.first_denial),
            Outcome::CheckFailed => failures.join("; "),
            Outcome::CheckError => format!("a check could not be run: {}", failures.join("; ")),
            _ => ended.message,
        };
        if outcome == Outcome::Denied && !failures.is_empty() {
            message.push_str(&format!("; check failed: {}", failures.join("; ")));
        }
        if denials > 0 && outcome == Outcome::Completed && self.task.on_denied == OnDenied::Warn {
            message.push_str(&format!(" and {}", text::plural(denials.into(), "denial")));
        }
        TaskFinished {
            stop: ended.stop,
            outcome,
            message,
            reply: ended.reply,
            turns_skipped: ended.turns_skipped,
            leaked_processes: ended.leaked_processes,
            duration_ms,
        }
    }

    fn started(
        &self,
        registry: &Registry,
        system: &str,
        hooks_sha256: String,
        sandbox: SandboxRecord,
    ) -> TaskStarted {
        let task = self.task;
        TaskStarted {
            file: task.file.clone(),
            line: task.line,
            description: task.description.clone(),
            tags: task.tags.clone(),
            model: self.job.model.name().to_owned(),
            mode: task.mode.name().to_owned(),
            allow: task.allow.iter().map(RuleRecord::from).collect(),
            deny: task.deny.iter().map(RuleRecord::from).collect(),
            on_denied: task.on_denied,
            limits: limits(&task.limits),
            workspace: relative_to(&self.batch.base, &task.workspace),
            isolation: task.isolation.name().to_owned(),
            sandbox,
            system: system.to_owned(),
            tools: registry.definitions(),
            hooks_sha256,
            turns: u32::try_from(task.turns.len()).unwrap_or(u32::MAX),
            trial: self.trial,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            config_commit: self.batch.config_commit.clone(),
        }
    }

    /// The tools that the task names. A tool that is not named is not there at all.
    fn registry(&self) -> Result<Registry, String> {
        let mut registry = Registry::default();
        for name in &self.task.tools {
            let extra = self
                .batch
                .extra_tools
                .iter()
                .find(|tool| tool.name() == name)
                .cloned();
            let tool = extra
                .or_else(|| builtin(name))
                .ok_or_else(|| format!("there is no tool `{name}`"))?;
            registry.register(tool)?;
        }
        if let (Some(schema), Some(file)) = (&self.task.output_schema, self.answer_file()) {
            let tool = StructuredOutput::new(Value::clone(schema), file);
            registry.register(Arc::new(tool))?;
        }
        Ok(registry)
    }

    fn hooks(
        &self,
        root: &Path,
        environment: &BTreeMap<String, String>,
        launcher: &Launcher,
        cancel: &CancellationToken,
    ) -> io::Result<Hooks> {
        let runtime = HookRuntime {
            launcher: launcher.clone(),
            environment: environment.clone(),
            workspace: root.to_path_buf(),
            redactor: Arc::clone(&self.batch.redactor),
            cancel: cancel.clone(),
        };
        Hooks::build(&self.task.hooks, &self.batch.callbacks, runtime).map_err(io::Error::other)
    }

    fn hook_context(&self, root: &Path) -> HookContext {
        HookContext {
            session_id: format!("{}#{}", self.task.name, self.number),
            transcript_path: self.dir.join(run_dir::TRANSCRIPT).display().to_string(),
            cwd: root.display().to_string(),
            permission_mode: self.task.mode.name().to_owned(),
        }
    }

    fn policy(&self, root: &Path) -> Policy {
        Policy {
            mode: self.task.mode,
            allow: self.task.allow.clone(),
            deny: self.task.deny.clone(),
            roots: Roots {
                workspace: root.to_path_buf(),
                additional: self.task.additional.clone(),
                output: self.output_dir().canonicalize().ok(),
                never_write: self.never_write(root),
                never_write_in_run: Arc::clone(&self.batch.never_write),
                closed: self.batch.closed.clone(),
            },
        }
    }

    /// The runner's own files where a copy of the workspace has them, and what is its own in every workspace; where they lie
    /// is the batch's knowledge.
    pub(super) fn never_write(&self, root: &Path) -> Vec<PathBuf> {
        let copied = self.batch.never_write.iter().filter_map(|path| {
            let inside = path.strip_prefix(&self.task.workspace).ok()?;
            (root != self.task.workspace).then(|| root.join(inside))
        });
        copied
            .chain([
                root.join("agent-batch.yaml"),
                root.join("agent-batch-results"),
            ])
            .collect()
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let parent = self.batch.environment.clone().into_iter();
        proc::child_environment(
            parent,
            &self.scratch.join("home"),
            &self.scratch.join("tmp"),
        )
    }

    /// Makes the attempt's own directories and its workspace.
    async fn prepare(&self, cancel: &CancellationToken) -> io::Result<Workspace> {
        for dir in [
            self.output_dir(),
            self.scratch.join("home"),
            self.scratch.join("tmp"),
        ] {
            make(&dir)?;
        }
        sandbox::remove_stale(&self.task.workspace);
        let excluded = [
            self.batch.out.clone(),
            self.batch.scratch.root().to_path_buf(),
        ];
        let setup = self.task.setup(&self.scratch, &excluded);
        let checkout = match self.task.isolation {
            Isolation::Worktree => setup.check_out(&self.git()?.until(cancel)).await?,
            Isolation::None | Isolation::Copy => None,
        };
        block_in_place(|| Workspace::new(&setup, checkout))
    }

    pub(super) fn output_dir(&self) -> PathBuf {
        self.dir.join(run_dir::OUTPUT)
    }
}

impl Work {
    /// The attempt could not be carried out.
    fn failed(error: &io::Error, task: &Task) -> Self {
        Self::stopped(Stop::IoError, error.to_string(), task)
    }

    /// The agent was not asked at all.
    fn stopped(stop: Stop, message: String, task: &Task) -> Self {
        let ended = Ended {
            stop,
            message,
            reply: String::new(),
            turns_skipped: u32::try_from(task.turns.len()).unwrap_or(u32::MAX),
            leaked_processes: 0,
            denials: 0,
            first_denial: None,
            steps: 0,
            spent: Spent::default(),
            messages: Vec::new(),
        };
        Self {
            ended,
            denials: 0,
            checks: ChecksResult::NotRun,
            failures: Vec::new(),
        }
    }
}

fn warn(emitter: &Emitter, code: &str, message: String) -> io::Result<()> {
    let code = code.to_owned();
    emitter.emit(Kind::Warned { code, message })
}

/// The limits in the task file's terms.
fn limits(limits: &Limits) -> Value {
    json!({
        "max_steps": limits.max_steps,
        "max_total_steps": limits.max_total_steps,
        "max_tokens": limits.max_tokens,
        "max_output_tokens": limits.max_output_tokens,
        "max_cost_usd": limits.max_cost,
        "timeout": humantime::format_duration(limits.timeout).to_string(),
        "tool_timeout": humantime::format_duration(limits.tool_timeout).to_string(),
        "wrap_up": limits.wrap_up,
    })
}

fn make(directory: &Path) -> io::Result<()> {
    let made = fs::create_dir_all(directory);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
}

/// A path as a person would name it from where the run was started.
fn relative_to(base: &Path, path: &Path) -> String {
    match path.strip_prefix(base) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
