//! The log of a CI job: one line for each fact that is worth one.
//!
//! Lines begin with the task's name, where they are of one, hold no escape code, and no runner can take one for a command, whatever a model or tool
//! said. Every line is written at once, so that lines of parallel tasks do not mix.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use super::account::{bypass_warning, cost, write_line};
use super::activity::Activity;
use super::{is_bypass, verdict_word};
use crate::event::{
    AssistantReplied, CallCut, CheckResult, Event, HookResult, Kind, Sink, TaskFinished,
    TaskStarted,
};
use crate::outcome::signal_name;
use crate::text;

/// How many tools of a step, and how many running tasks, are named.
const NAMED: usize = 6;

/// How much is worth a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The start and the end of a task, and what goes wrong in between.
    Tasks,
    /// Each step, check and note too.
    Steps,
}

/// Writes lines as events come.
#[derive(Debug)]
pub struct Console<W> {
    out: W,
    detail: Detail,
    /// The running tasks, by name.
    running: BTreeMap<String, Activity>,
    /// Whether nothing was written since the last look.
    is_quiet: bool,
}

impl<W: Write> Console<W> {
    /// A console that writes to `out`, which is stderr outside of tests.
    pub fn new(out: W) -> Self {
        Self {
            out,
            detail: Detail::Steps,
            running: BTreeMap::new(),
            is_quiet: false,
        }
    }

    /// The same with more or fewer lines.
    #[must_use]
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.detail = detail;
        self
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Says what is running, if nothing was written since the last time that this was asked: a log without a new line looks
    /// like a program that hangs, and some CI systems end its job.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn heartbeat(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_quiet, true) || self.running.is_empty() {
            return Ok(());
        }
        let told = self.running.iter().take(NAMED).map(|(name, activity)| {
            let name = text::visible_line(&text::head(name, 120));
            format!("{name} (step {}, {})", activity.step, activity.doing)
        });
        let mut told: Vec<String> = told.collect();
        if self.running.len() > NAMED {
            told.push(format!("{} more", self.running.len() - NAMED));
        }
        self.write(&format!("still running: {}", told.join(", ")))
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        write_line(&mut self.out, line)?;
        self.out.flush()
    }

    fn say(&mut self, event: &Event, line: &str) -> io::Result<()> {
        let name = text::head(&event.task, 120);
        let name = text::visible_line(&name);
        let prefix = if event.attempt > 1 {
            format!("{name}#{}", event.attempt)
        } else {
            name
        };
        // What happens to the run as a whole has no task.
        let line = if event.task.is_empty() {
            line.to_owned()
        } else {
            format!("[{prefix}] {line}")
        };
        self.is_quiet = false;
        self.write(&line)
    }

    fn started(&mut self, event: &Event, started: &TaskStarted) -> io::Result<()> {
        self.running.insert(event.task.clone(), Activity::new());
        let turns = text::plural(started.turns.into(), "turn");
        self.say(
            event,
            &format!("started: {}, mode {}, {turns}", started.model, started.mode),
        )?;
        if is_bypass(&started.mode) {
            self.say(event, &bypass_warning(&started.mode))?;
        }
        Ok(())
    }

    fn cut(&mut self, event: &Event, cut: &CallCut) -> io::Result<()> {
        let line = format!(
            "step {}: cut off, booked with {} tokens: {}",
            cut.step,
            text::tokens(cut.usage.total()),
            text::one_line(&cut.reason, 400)
        );
        self.say(event, &line)
    }

    fn replied(&mut self, event: &Event, replied: &AssistantReplied) -> io::Result<()> {
        if self.detail == Detail::Tasks {
            return Ok(());
        }
        let calls = replied.message.tool_calls();
        let mut names: Vec<String> = calls
            .iter()
            .take(NAMED)
            .map(|call| text::one_line(&call.name, 60))
            .collect();
        if calls.len() > NAMED {
            names.push(format!("{} more", calls.len() - NAMED));
        }
        let did = if names.is_empty() {
            replied
                .stop_reason
                .as_deref()
                .unwrap_or("no stop reason")
                .to_owned()
        } else {
            names.join(", ")
        };
        self.say(
            event,
            &format!(
                "step {}: {}; {} tokens, {} so far",
                replied.step,
                text::one_line(&did, 400),
                text::tokens(replied.total_usage.total()),
                cost(replied.total_cost),
            ),
        )
    }

    fn finished(&mut self, event: &Event, finished: &TaskFinished) -> io::Result<()> {
        let used = self.running.remove(&event.task);
        let used = used.unwrap_or_else(Activity::new);
        let row = finished.outcome.row();
        self.say(
            event,
            &format!(
                "{} ({}): {}; {}, {} tokens, {}, {}",
                verdict_word(row.verdict),
                row.name,
                text::one_line(&finished.message, 600),
                text::plural(used.step.into(), "step"),
                text::tokens(used.usage.total()),
                cost(used.cost),
                text::duration(Duration::from_millis(finished.duration_ms)),
            ),
        )
    }
}

impl<W: Write + Send> Sink for Console<W> {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        if let Some(activity) = self.running.get_mut(&event.task) {
            activity.fold(event);
        }
        match &event.kind {
            Kind::TaskStarted(started) => self.started(event, started),
            Kind::Warned { code, message } => self.say(
                event,
                &format!("warning {code}: {}", text::one_line(message, 600)),
            ),
            Kind::ModelRetried {
                step,
                attempt,
                delay_ms,
                reason,
            } => self.say(
                event,
                &format!(
                    "step {step}: try {attempt} failed, next in {}: {}",
                    text::duration(Duration::from_millis(*delay_ms)),
                    text::one_line(reason, 400)
                ),
            ),
            Kind::CallCut(cut) => self.cut(event, cut),
            Kind::AssistantReplied(replied) => self.replied(event, replied),
            Kind::HookFinished(hook) if hook.result != HookResult::Passed => {
                let did = if hook.result == HookResult::Failed {
                    "failed"
                } else {
                    "blocked"
                };
                let message = text::one_line(&hook.message, 400);
                self.say(
                    event,
                    &format!("{} hook `{}` {did}: {message}", hook.event, hook.hook),
                )
            }
            Kind::ToolDecided(decided) if !decided.allowed => {
                let line = format!(
                    "denied {} in mode {}: {}",
                    decided.name,
                    decided.mode,
                    text::one_line(&decided.reason, 600)
                );
                self.say(event, &line)
            }
            Kind::ConnectionFinished(connection) if connection.is_denial => {
                let line = format!(
                    "denied the network to {}: {}",
                    text::one_line(&connection.host, 300),
                    text::one_line(&connection.reason, 600)
                );
                self.say(event, &line)
            }
            Kind::CheckFinished(check)
                if self.detail == Detail::Steps || check.result != CheckResult::Passed =>
            {
                let did = match check.result {
                    CheckResult::Passed => "passed",
                    CheckResult::Failed => "failed",
                    CheckResult::Errored => "could not be run",
                };
                let title = text::one_line(&check.title, 300);
                self.say(event, &format!("check {} {did}: {title}", check.check))
            }
            Kind::TaskFinished(finished) => self.finished(event, finished),
            Kind::TasksNotRun { tasks, reason } => {
                let tasks = text::plural(tasks.len() as u64, "task");
                self.say(event, &format!("{tasks} will not be run: {reason}"))
            }
            Kind::RunInterrupted { signal } => self.say(
                event,
                &format!(
                    "{}: what is under way may finish; once more ends it at once",
                    signal_name(*signal)
                ),
            ),
            Kind::CallsEased { window, wait_ms } => self.say(
                event,
                &format!(
                    "the API refuses for load: {} at the same time, the next one in {}",
                    text::plural(u64::from(*window), "call"),
                    text::duration(Duration::from_millis(*wait_ms)),
                ),
            ),
            Kind::NoteAppended { origin, .. } if self.detail == Detail::Steps => {
                self.say(event, &format!("told the model: {origin}"))
            }
            Kind::CheckFinished(_)
            | Kind::NoteAppended { .. }
            | Kind::PromptAppended { .. }
            | Kind::StepStarted { .. }
            | Kind::TextStreamed { .. }
            | Kind::HookFinished(_)
            | Kind::ToolDecided(_)
            | Kind::ToolFinished(_)
            | Kind::ConnectionFinished(_)
            | Kind::ResultsAppended { .. }
            | Kind::WorkspaceCompared(_)
            | Kind::Unknown => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::samples::{event, started};
    use super::*;

    #[test]
    fn a_log_that_is_silent_for_long_says_what_is_running_and_another_one_does_not() {
        let mut console = Console::new(Vec::new()).with_detail(Detail::Tasks);
        console.heartbeat().unwrap();
        console.heartbeat().unwrap();
        assert!(console.out.is_empty(), "nothing runs");

        console.accept(&started("slow", "default")).unwrap();
        let step =
            serde_json::json!({"type": "step_started", "step": 3, "turn": 1, "max_tokens": 5});
        console.accept(&event("slow", &step)).unwrap();
        console.accept(&started("fresh", "default")).unwrap();
        console.out.clear();
        console.heartbeat().unwrap();
        assert!(
            console.out.is_empty(),
            "something was said since the last look"
        );
        console.heartbeat().unwrap();
        let said = String::from_utf8(std::mem::take(&mut console.out)).unwrap();
        assert_eq!(
            said,
            "still running: fresh (step 0, starting), slow (step 3, waiting for the model)\n"
        );

        let finished = serde_json::json!({
            "type": "task_finished", "stop": "completed", "outcome": "completed", "message": "m", "duration_ms": 1
        });
        for task in ["slow", "fresh"] {
            console.accept(&event(task, &finished)).unwrap();
        }
        console.out.clear();
        console.heartbeat().unwrap();
        console.heartbeat().unwrap();
        assert!(console.out.is_empty(), "all have ended");
    }
}
