//! What a running task is doing and what it has used, as the events say: for the lines of [`console`](super::console) and
//! [`progress`](super::progress).

use crate::event::{Event, Kind};
use crate::text;
use crate::usage::{Usage, Usd};

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Activity {
    /// The number of the current step, 0 before the first.
    pub(super) step: u32,
    /// In words, on one line.
    pub(super) doing: String,
    /// What its model calls used so far.
    pub(super) usage: Usage,
    /// What they cost, where the model has a price.
    pub(super) cost: Option<Usd>,
}

impl Activity {
    /// Of a task that has just begun.
    pub(super) fn new() -> Self {
        Self {
            step: 0,
            doing: "starting".to_owned(),
            usage: Usage::default(),
            cost: None,
        }
    }

    /// Takes in an event of the task.
    pub(super) fn fold(&mut self, event: &Event) {
        match &event.kind {
            Kind::StepStarted { step, .. } => {
                self.step = *step;
                self.does("waiting for the model");
            }
            Kind::ModelRetried { reason, .. } => {
                self.does(format!(
                    "waiting to try again: {}",
                    text::one_line(reason, 80)
                ));
            }
            Kind::CallCut(cut) => {
                self.usage = cut.total_usage;
                self.cost = cut.total_cost;
            }
            Kind::AssistantReplied(replied) => {
                self.usage = replied.total_usage;
                self.cost = replied.total_cost;
                self.does("going through the reply");
            }
            Kind::ToolDecided(decided) => {
                let tool = text::one_line(&decided.name, 60);
                self.does(if decided.allowed {
                    tool
                } else {
                    format!("{tool} denied")
                });
            }
            Kind::WorkspaceCompared(_) => self.does("checking its work"),
            Kind::CheckFinished(check) => {
                let title = text::one_line(&check.title, 80);
                self.does(format!("checking its work, after {title}"));
            }
            _ => {}
        }
    }

    fn does(&mut self, what: impl Into<String>) {
        self.doing = what.into();
    }
}

/// Events of a running task, for the tests of those who draw it.
#[cfg(test)]
pub(super) mod samples {
    use crate::event::Event;

    /// An event of these fields.
    pub(in super::super) fn event(task: &str, json: &serde_json::Value) -> Event {
        let mut fields = serde_json::json!({"v": 1, "at": "2026-01-02T03:04:05Z", "task": task, "attempt": 1, "seq": 0});
        if let (Some(fields), Some(more)) = (fields.as_object_mut(), json.as_object()) {
            fields.extend(more.clone());
        }
        serde_json::from_value(fields).unwrap()
    }

    /// The first one of a task.
    pub(in super::super) fn started(task: &str, mode: &str) -> Event {
        let started = serde_json::json!({
            "type": "task_started", "file": "a.yaml", "line": 1, "model": "scripted/a", "mode": mode,
            "allow": [], "deny": [], "limits": {}, "workspace": ".", "isolation": "none", "system": "", "tools": [],
            "hooks_sha256": "", "turns": 1, "program_version": "0"
        });
        event(task, &started)
    }
}
