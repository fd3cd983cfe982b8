//! Progress on a terminal: one line for each running task and one for the run.
//!
//! Where stderr is no terminal nothing is drawn; there the [`console`](super::console) speaks. The lines are a [`Sink`] like any other
//! and know no more than the events say.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::account::cost;
use super::activity::Activity;
use super::is_bypass;
use crate::event::{Event, Kind, Sink};
use crate::outcome::Verdict;
use crate::text;
use crate::usage::Usd;

/// Whether lines may be coloured; off under `NO_COLOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Plain characters only.
    Off,
    /// The spinner and failures in colour.
    On,
}

/// Draws the state of a run.
#[derive(Debug)]
pub struct Progress {
    lines: MultiProgress,
    overall: ProgressBar,
    tasks: u64,
    running: HashMap<String, Line>,
    colour: Colour,
    /// Tasks that ended, and whether they passed. One that is tried again is taken out.
    ended: HashMap<String, Verdict>,
    /// What tasks that ended have cost, and the running ones so far.
    spent: HashMap<String, Usd>,
}

/// The line of a task.
#[derive(Debug)]
struct Line {
    bar: ProgressBar,
    mode: String,
    activity: Activity,
}

impl Progress {
    /// Progress for that many tasks on stderr; hidden where stderr is no terminal.
    #[must_use]
    pub fn new(tasks: u64, colour: Colour) -> Self {
        Self::on(ProgressDrawTarget::stderr(), tasks, colour)
    }

    /// Progress on another target.
    #[must_use]
    pub fn on(target: ProgressDrawTarget, tasks: u64, colour: Colour) -> Self {
        let lines = MultiProgress::with_draw_target(target);
        let overall = lines.add(ProgressBar::new(tasks));
        overall.set_style(style("{msg} {elapsed}"));
        let progress = Self {
            lines,
            overall,
            tasks,
            running: HashMap::new(),
            colour,
            ended: HashMap::new(),
            spent: HashMap::new(),
        };
        progress.draw_overall();
        progress
    }

    /// Whether nothing is drawn.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.lines.is_hidden()
    }

    /// Takes all lines away, before the account is written.
    pub fn clear(&self) {
        for line in self.running.values() {
            line.bar.finish_and_clear();
        }
        self.overall.finish_and_clear();
        // A terminal that is gone needs no clearing.
        let _ = self.lines.clear();
    }

    fn open(&mut self, name: &str, mode: &str) {
        let bar = self
            .lines
            .insert_before(&self.overall, ProgressBar::new_spinner());
        bar.set_style(match self.colour {
            Colour::On => style("{spinner:.cyan} {wide_msg}"),
            Colour::Off => style("{spinner} {wide_msg}"),
        });
        if !self.is_hidden() {
            // Shows that the program lives while a model thinks.
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let line = Line {
            bar,
            mode: mode.to_owned(),
            activity: Activity::new(),
        };
        line.draw(name);
        if let Some(old) = self.running.insert(name.to_owned(), line) {
            old.bar.finish_and_clear();
        }
    }

    fn update(&mut self, event: &Event) {
        if let Some(line) = self.running.get_mut(&event.task) {
            line.activity.fold(event);
            line.draw(&event.task);
        }
    }

    fn draw_overall(&self) {
        let verdicts = self.ended.values();
        let failed = verdicts
            .filter(|verdict| **verdict != Verdict::Passed)
            .count();
        let failed = match (failed, self.colour) {
            (0, _) | (_, Colour::Off) => format!("{failed} failed"),
            (failed, Colour::On) => format!("\u{1b}[31m{failed} failed\u{1b}[0m"),
        };
        let spent = self
            .spent
            .values()
            .fold(Usd::ZERO, |sum, cost| sum.saturating_add(*cost));
        let running = self.running.len();
        let (ended, tasks) = (self.ended.len(), self.tasks);
        // One text, as each change is drawn at once: a count must not stand beside one of an earlier moment.
        self.overall.set_message(format!(
            "{ended}/{tasks} done, {failed}, {running} running, {spent}"
        ));
    }
}

impl Line {
    /// The line as text, from what the events said.
    fn text(&self, name: &str) -> String {
        let bypass = if is_bypass(&self.mode) {
            " [BYPASS]"
        } else {
            ""
        };
        let line = format!(
            "{name}{bypass}: step {}, {}; {} tokens, {}",
            self.activity.step,
            self.activity.doing,
            text::tokens(self.activity.usage.total()),
            cost(self.activity.cost)
        );
        text::visible_line(&text::strip_ansi(&text::head(&line, 400)))
    }

    fn draw(&self, name: &str) {
        self.bar.set_message(self.text(name));
    }
}

/// A template that is known to be right; a wrong one would only look different.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

impl Sink for Progress {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        let name = event.task.as_str();
        match &event.kind {
            Kind::TaskStarted(started) => {
                self.ended.remove(name);
                self.open(name, &started.mode);
            }
            Kind::AssistantReplied(replied) => {
                self.spent.insert(
                    format!("{name}#{}", event.attempt),
                    replied.total_cost.unwrap_or_default(),
                );
                self.update(event);
            }
            Kind::StepStarted { .. }
            | Kind::ModelRetried { .. }
            | Kind::CallCut(_)
            | Kind::ToolDecided(_)
            | Kind::WorkspaceCompared(_)
            | Kind::CheckFinished(_) => self.update(event),
            Kind::TaskFinished(finished) => {
                if let Some(line) = self.running.remove(name) {
                    line.bar.finish_and_clear();
                    self.lines.remove(&line.bar);
                }
                self.ended
                    .insert(name.to_owned(), finished.outcome.verdict());
            }
            Kind::Warned { .. }
            | Kind::PromptAppended { .. }
            | Kind::TextStreamed { .. }
            | Kind::HookFinished(_)
            | Kind::ToolFinished(_)
            | Kind::ConnectionFinished(_)
            | Kind::ResultsAppended { .. }
            | Kind::NoteAppended { .. }
            | Kind::TasksNotRun { .. }
            | Kind::RunInterrupted { .. }
            | Kind::CallsEased { .. }
            | Kind::Unknown => return Ok(()),
        }
        self.draw_overall();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::samples::{event, started};
    use super::*;

    #[test]
    fn a_task_has_a_line_while_it_runs_and_the_run_counts_it_afterwards() {
        let mut progress = Progress::on(ProgressDrawTarget::hidden(), 2, Colour::Off);
        assert!(progress.is_hidden());
        progress
            .accept(&started("fix", "bypassPermissions"))
            .unwrap();
        progress
            .accept(&event(
                "fix",
                &serde_json::json!({"type": "step_started", "step": 2, "turn": 1, "max_tokens": 5}),
            ))
            .unwrap();
        let line = &progress.running["fix"];
        assert_eq!(
            line.text("fix\u{1b}[2J\u{202e}"),
            "fix\\u{202e} [BYPASS]: step 2, waiting for the model; 0 tokens, -"
        );
        progress
            .accept(&event("fix", &serde_json::json!({
                "type": "task_finished", "stop": "step_limit", "outcome": "step_limit", "message": "m", "duration_ms": 1
            })))
            .unwrap();
        assert!(progress.running.is_empty());
        assert_eq!(
            progress.overall.message(),
            "1/2 done, 1 failed, 0 running, $0.0000"
        );
    }
}
