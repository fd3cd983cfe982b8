//! Which events of a transcript are shown.

use std::ops::RangeInclusive;

use crate::event::{CheckResult, ConnectionResult, Event, HookResult, Kind, ToolResultKind};

/// What is looked for. Without any demand, everything is shown; of several, an event has to meet all, but that `denied` and
/// `errors` together mean either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// These steps only.
    pub steps: Option<RangeInclusive<u32>>,
    /// Calls of this tool only, with the replies that asked for them.
    pub tool: Option<String>,
    /// What was denied: by the gate or by a hook.
    pub denied: bool,
    /// What went wrong: failed calls, hooks that did not work, model calls that were tried again, checks that did not pass.
    pub errors: bool,
}

impl Filter {
    /// Whether it demands anything.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}

/// A filter on its way through a transcript: it remembers which step is going on, and which calls are of the tool.
#[derive(Debug)]
pub struct Filtering<'a> {
    filter: &'a Filter,
    step: Option<u32>,
    calls: Vec<String>,
}

impl<'a> Filtering<'a> {
    /// At the transcript's begin.
    #[must_use]
    pub fn new(filter: &'a Filter) -> Self {
        Self {
            filter,
            step: None,
            calls: Vec::new(),
        }
    }

    /// Whether to show the event. Every event has to pass here, in order.
    pub fn takes(&mut self, event: &Event) -> bool {
        self.follow(&event.kind);
        let in_step = self.filter.steps.as_ref().is_none_or(|steps| {
            let step = self.step;
            step.is_some_and(|step| steps.contains(&step))
        });
        let of_tool = self
            .filter
            .tool
            .as_ref()
            .is_none_or(|tool| self.is_of(&event.kind, tool));
        let wanted = match (self.filter.denied, self.filter.errors) {
            (false, false) => true,
            (denied, errors) => denied && is_denial(&event.kind) || errors && is_error(&event.kind),
        };
        in_step && of_tool && wanted
    }

    fn follow(&mut self, kind: &Kind) {
        match kind {
            Kind::StepStarted { step, .. } | Kind::ModelRetried { step, .. } => {
                self.step = Some(*step);
            }
            Kind::CallCut(cut) => self.step = Some(cut.step),
            Kind::AssistantReplied(replied) => {
                self.step = Some(replied.step);
                self.calls = replied
                    .message
                    .tool_calls()
                    .into_iter()
                    .filter(|call| Some(&call.name) == self.filter.tool.as_ref())
                    .map(|call| call.id)
                    .collect();
            }
            Kind::ToolDecided(decided) => self.step = Some(decided.step),
            Kind::ToolFinished(finished) => self.step = Some(finished.step),
            // What comes before the first step and after the last one belongs to none.
            Kind::TaskStarted(_)
            | Kind::PromptAppended { .. }
            | Kind::WorkspaceCompared { .. }
            | Kind::CheckFinished(_)
            | Kind::TaskFinished(_) => self.step = None,
            Kind::Warned { .. }
            | Kind::TextStreamed { .. }
            | Kind::HookFinished(_)
            | Kind::ConnectionFinished(_)
            | Kind::NoteAppended { .. }
            | Kind::ResultsAppended { .. }
            | Kind::TasksNotRun { .. }
            | Kind::RunInterrupted { .. }
            | Kind::CallsEased { .. }
            | Kind::Unknown => {}
        }
    }

    fn is_of(&self, kind: &Kind, tool: &str) -> bool {
        match kind {
            Kind::AssistantReplied(_) => !self.calls.is_empty(),
            Kind::ToolDecided(decided) => decided.name == tool,
            Kind::ToolFinished(finished) => finished.name == tool,
            Kind::HookFinished(hook) => {
                let call = hook.tool_use_id.as_ref();
                call.is_some_and(|call| self.calls.contains(call))
            }
            _ => false,
        }
    }
}

fn is_denial(kind: &Kind) -> bool {
    match kind {
        Kind::ToolDecided(decided) => !decided.allowed,
        Kind::ToolFinished(finished) => finished.result == ToolResultKind::Denied,
        Kind::HookFinished(hook) => hook.result == HookResult::Blocked,
        Kind::ConnectionFinished(connection) => connection.is_denial,
        _ => false,
    }
}

fn is_error(kind: &Kind) -> bool {
    match kind {
        Kind::ModelRetried { .. } | Kind::CallCut(_) => true,
        Kind::HookFinished(hook) => hook.result == HookResult::Failed,
        Kind::ConnectionFinished(connection) => connection.result == ConnectionResult::Failed,
        Kind::CheckFinished(check) => check.result != CheckResult::Passed,
        Kind::ToolFinished(finished) => match finished.result {
            ToolResultKind::Ok | ToolResultKind::Denied => false,
            ToolResultKind::Error
            | ToolResultKind::UnknownTool
            | ToolResultKind::InvalidInput
            | ToolResultKind::TimedOut
            | ToolResultKind::Panicked
            | ToolResultKind::NotRun => true,
        },
        _ => false,
    }
}
