//! What the agent asked for, folded from the same events that the transcript holds: the calls in their order, what the gate
//! said, and how each ended.

use std::io;

use serde_json::Value;

use crate::event::{CallPlace, Event, Kind, Sink, ToolResultKind};

/// How many calls are kept.
const MOST_CALLS: usize = 5000;
/// The longest command, path or URL that is kept, in bytes.
const LONGEST: usize = 64 * 1024;

/// The calls of an attempt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallLog {
    /// In the order in which the model asked.
    pub calls: Vec<LoggedCall>,
    /// Whether there were more than are kept: then nobody can speak of all of them.
    pub is_cut: bool,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedCall {
    /// The call's id.
    pub id: String,
    /// The step that asked.
    pub step: u32,
    /// The tool.
    pub tool: String,
    /// What a rule for this tool speaks of: a command line, a path, a pattern, a URL. `None` where the call has none, or
    /// one that is too long.
    pub subject: Option<String>,
    /// Whether the subject was too long to be kept.
    pub is_cut: bool,
    /// What the gate said; `None` where it was not asked.
    pub allowed: Option<bool>,
    /// Why it was denied.
    pub reason: String,
    /// How it ended.
    pub result: Option<ToolResultKind>,
}

impl CallLog {
    /// Takes one event in.
    pub fn fold(&mut self, event: &Event) {
        match &event.kind {
            Kind::AssistantReplied(replied) => {
                for call in replied.message.tool_calls() {
                    if self.calls.len() >= MOST_CALLS {
                        self.is_cut = true;
                        return;
                    }
                    let mut logged = LoggedCall {
                        id: call.id,
                        step: replied.step,
                        tool: call.name,
                        subject: None,
                        is_cut: false,
                        allowed: None,
                        reason: String::new(),
                        result: None,
                    };
                    logged.look_at(&call.input);
                    self.calls.push(logged);
                }
            }
            Kind::ToolDecided(decided) => {
                if let Some(call) = self.last(&decided.tool_use_id, decided.step) {
                    call.look_at(&decided.input);
                    call.allowed = Some(decided.allowed);
                    if !decided.allowed {
                        call.reason.clone_from(&decided.reason);
                    }
                }
            }
            Kind::ToolFinished(finished) => {
                if let Some(call) = self.last(&finished.tool_use_id, finished.step) {
                    call.result = Some(finished.result);
                }
            }
            _ => {}
        }
    }

    /// Calls that a hook or the gate denied.
    pub fn denied(&self) -> impl Iterator<Item = &LoggedCall> {
        self.calls.iter().filter(|call| call.is_denied())
    }

    /// The call of this id that is not older than its step: ids are the model's, and may come again.
    fn last(&mut self, id: &str, step: u32) -> Option<&mut LoggedCall> {
        self.calls
            .iter_mut()
            .rev()
            .take_while(|call| call.step >= step)
            .find(|call| call.id == id)
    }
}

impl LoggedCall {
    /// Which call it is.
    #[must_use]
    pub fn place(&self) -> CallPlace {
        CallPlace {
            step: self.step,
            tool_use_id: self.id.clone(),
        }
    }

    /// Whether a hook or the gate denied it.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.result == Some(ToolResultKind::Denied) || self.allowed == Some(false)
    }

    /// Whether the tool did what it was asked for.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.result == Some(ToolResultKind::Ok)
    }

    fn look_at(&mut self, input: &Value) {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let subject = match self.tool.as_str() {
            "Bash" => text("command").map(str::to_owned),
            "Read" | "Edit" | "Write" => text("file_path").map(str::to_owned),
            "Grep" => Some(text("path").unwrap_or(".").to_owned()),
            "Glob" => text("pattern").map(|pattern| match text("path") {
                Some(root) => format!("{}/{pattern}", root.trim_end_matches('/')),
                None => pattern.to_owned(),
            }),
            "WebFetch" => text("url").map(str::to_owned),
            _ => None,
        };
        self.is_cut = subject.as_ref().is_some_and(|text| text.len() > LONGEST);
        self.subject = subject.filter(|_| !self.is_cut);
    }
}

/// A shared log among an emitter's watchers.
impl Sink for CallLog {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        self.fold(event);
        Ok(())
    }
}
