//! What is done in an attempt, in order.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{Attempt, Work, warn};
use crate::agent::{Agent, Ended, Interrupt, Shutdown, Surroundings, system_prompt};
use crate::batch::checking::Checked;
use crate::batch::overseer::{HOUSEKEEPING, Phase};
use crate::check::{CallLog, CheckContext, Taken};
use crate::event::{Emitter, Kind};
use crate::hook::Hooks;
use crate::outcome::Stop;
use crate::policy::Mode;
use crate::proc;
use crate::report::run_dir;
use crate::sandbox;
use crate::workspace::Workspace;

/// Most bytes of a tool result in the conversation.
const OUTPUT_LIMIT: usize = 30_000;

impl Attempt<'_> {
    pub(super) async fn work(
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
        let prepared = self.prepare(interrupt.token(), has_copied).await;
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
}
