//! What happened, as past-tense facts. The transcript is one [`Event`] a line, and **the transcript is the truth**: every
//! report is a fold over these lines.
//!
//! [`Emitter::emit`] redacts, numbers and hands the event to its sinks *before it returns*. So an effect that follows an
//! event (a tool that runs after the assistant's message) never happens without the event being on disk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use crate::clock::Clock;
use crate::message::Message;
use crate::outcome::{OnDenied, Outcome, Stop};
use crate::redact::Redactor;
use crate::usage::{Usage, Usd};

/// The version of the transcript's format. A new field gets a default; a changed meaning gets a new version.
pub const VERSION: u32 = 1;

/// One line of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Format version, [`VERSION`].
    pub v: u32,
    /// When, in UTC.
    #[serde(with = "crate::clock::rfc3339")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: OffsetDateTime,
    /// The task's name.
    pub task: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The event's number within the attempt, from 0, without gaps.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Kind {
    /// The attempt began. Everything that was pinned for it.
    TaskStarted(Box<TaskStarted>),
    /// Something that a reader should know and that changes no outcome.
    Warned {
        /// Stable word: `bypass`, `empty_reply`, `hook_allow_ignored`, `unused_rule`, ...
        code: String,
        /// For a person.
        message: String,
    },
    /// A user turn began; `text` was appended to the conversation as a user message.
    PromptAppended {
        /// The turn, from 1; a nudge or a Stop hook's reason belongs to the turn that it continues.
        turn: u32,
        /// `prompt`, `nudge`, `stop_hook` or `session_start`.
        origin: String,
        /// The text.
        text: String,
    },
    /// A model call is about to be made.
    StepStarted {
        /// The step, from 1, over the whole task.
        step: u32,
        /// The turn that it belongs to.
        turn: u32,
        /// `max_tokens` of the request, after the budget's clamp.
        max_tokens: u64,
    },
    /// A model call failed in a way that may pass, and is tried again after `delay_ms`.
    ModelRetried {
        /// The step.
        step: u32,
        /// The try that failed, from 1. On the wire it is `try`: `attempt` is the task's, in the same JSON object.
        #[serde(rename = "try")]
        attempt: u32,
        /// How long the next try waits, in milliseconds.
        delay_ms: u64,
        /// Why.
        reason: String,
    },
    /// A model call was cut off after its answer had begun, or with the task. Its provider bills it, so it is booked.
    CallCut(Box<CallCut>),
    /// A piece of the model's text arrived. Not stored: the whole text follows in `assistant_replied`.
    #[schemars(skip)]
    TextStreamed {
        /// The step.
        step: u32,
        /// The piece.
        text: String,
    },
    /// The model answered. Stored before anything looks at the answer.
    AssistantReplied(Box<AssistantReplied>),
    /// A hook ran.
    HookFinished(Box<HookFinished>),
    /// The gate (or a hook before it, or the look-up) answered for one call.
    ToolDecided(Box<ToolDecided>),
    /// A call was answered: exactly once for each, run or not.
    ToolFinished(Box<ToolFinished>),
    /// A connection that a process asked the runner's proxy for is over, or was not made.
    ConnectionFinished(Box<ConnectionFinished>),
    /// A text was appended to the last user message, behind all that it held, before that was sent.
    NoteAppended {
        /// The turn.
        turn: u32,
        /// `wind_down`: the batch's purse nears its end; `wrap_up`: a ceiling is reached, and the model is to hand over.
        origin: String,
        /// The text.
        text: String,
    },
    /// The results of one reply were appended as one user message, in this order.
    ResultsAppended {
        /// The step that asked.
        step: u32,
        /// The calls, in block order.
        tool_use_ids: Vec<String>,
    },
    /// The workspace was compared with its state at the start.
    WorkspaceCompared(Box<WorkspaceCompared>),
    /// A check gave its answer.
    CheckFinished(Box<CheckFinished>),
    /// The attempt ended. Always the last event of a transcript that is whole.
    TaskFinished(Box<TaskFinished>),
    /// An event of the batch: these tasks will not be started, or their missing trials will not.
    TasksNotRun {
        /// Their names.
        tasks: Vec<String>,
        /// Why, for a person.
        reason: String,
    },
    /// An event of the batch: a signal ends it.
    RunInterrupted {
        /// The signal's number.
        signal: u8,
    },
    /// An event of the batch: the API refused for load, and fewer calls are made at the same time for now.
    CallsEased {
        /// The most calls at the same time.
        window: u32,
        /// No call is made for this time, in milliseconds.
        wait_ms: u64,
    },
    /// An event that a later version writes and this one does not know.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// See [`Kind::TaskStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStarted {
    /// The task file, relative to where the run was started.
    pub file: String,
    /// The line on which the task begins.
    pub line: u32,
    /// For a person.
    #[serde(default)]
    pub description: String,
    /// The task's tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `provider/model`.
    pub model: String,
    /// The pinned permission mode.
    pub mode: String,
    /// Allow rules with their sources.
    pub allow: Vec<RuleRecord>,
    /// Deny rules with their sources.
    pub deny: Vec<RuleRecord>,
    /// What a denial means.
    #[serde(default)]
    pub on_denied: OnDenied,
    /// Limits as `name: value` in the task file's terms.
    pub limits: Value,
    /// The workspace, as the task names it, and its isolation.
    pub workspace: String,
    /// `none` or `copy`.
    pub isolation: String,
    /// How processes are held, and what of it works.
    #[serde(default)]
    pub sandbox: SandboxRecord,
    /// The system prompt of every request.
    pub system: String,
    /// The tool definitions of every request.
    pub tools: Vec<Value>,
    /// SHA-256 over the hook set and its programs, taken at the start.
    pub hooks_sha256: String,
    /// Number of user turns planned.
    pub turns: u32,
    /// Which of the task's trials the attempt belongs to, from 1; an attempt with the number of the one before it makes
    /// up for that. 0: not said.
    #[serde(default)]
    pub trial: u32,
    /// The version of the program.
    pub program_version: String,
    /// The commit that the configuration was read from; `None`: the work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_commit: Option<String>,
}

/// How the processes of a task are held: what was asked for, and what a self-test found to be enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxRecord {
    /// `auto`, `required` or `off`.
    pub mode: String,
    /// `deny`, `allow`, or `hosts`: only those in `hosts`, through the runner's proxy.
    pub network: String,
    /// The hosts that are reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Whether the task can start processes at all; if not, nothing was tried.
    pub used: bool,
    /// The mechanisms that work, strongest first.
    #[serde(default)]
    pub layers: Vec<String>,
    /// What was attempted from inside and failed.
    #[serde(default)]
    pub held: Vec<String>,
    /// What was attempted from inside and did not fail.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// A rule and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRecord {
    /// The rule as it is written.
    pub rule: String,
    /// `task`, `policy`, `defaults` or `cli`, with the file.
    pub source: String,
}

/// See [`Kind::CallCut`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallCut {
    /// The step.
    pub step: u32,
    /// The turn.
    pub turn: u32,
    /// Why it was cut off.
    pub reason: String,
    /// The tokens that are booked for it: what the provider had counted until then, and the most for the rest.
    pub usage: Usage,
    /// Their cost; `None` where the model's price is not known.
    #[serde(default)]
    pub cost: Option<Usd>,
    /// Whether some of `usage` is the most that it can have been, and was not counted by the provider.
    pub is_estimate: bool,
    /// Tokens so far.
    pub total_usage: Usage,
    /// Cost so far.
    #[serde(default)]
    pub total_cost: Option<Usd>,
}

/// See [`Kind::AssistantReplied`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AssistantReplied {
    /// The step.
    pub step: u32,
    /// The turn.
    pub turn: u32,
    /// The message as it was appended, verbatim.
    pub message: Message,
    /// The raw stop reason.
    pub stop_reason: Option<String>,
    /// `tool_use` when the loop goes on to run tools, else what it does: `end`, `continue`, `stop`.
    pub route: String,
    /// Tokens of this call.
    pub usage: Usage,
    /// Cost of this call; `None` where the model's price is not known.
    #[serde(default)]
    pub cost: Option<Usd>,
    /// Tokens so far.
    pub total_usage: Usage,
    /// Cost so far.
    #[serde(default)]
    pub total_cost: Option<Usd>,
    /// The provider's request id.
    #[serde(default)]
    pub request_id: Option<String>,
    /// How long the call took, retries and waits included, in milliseconds.
    pub duration_ms: u64,
}

/// See [`Kind::HookFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookFinished {
    /// The hook event's name, `PreToolUse` for one.
    pub event: String,
    /// The hook's program or name.
    pub hook: String,
    /// The call it was asked about.
    #[serde(default)]
    pub tool_use_id: Option<String>,
    /// What it answered.
    pub result: HookResult,
    /// Its message, or why it failed.
    #[serde(default)]
    pub message: String,
    /// The input before and after a rewrite.
    #[serde(default)]
    pub rewrite: Option<Rewrite>,
    /// In milliseconds.
    pub duration_ms: u64,
}

/// How a hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookResult {
    /// It had nothing to say against it.
    Passed,
    /// It blocked on purpose.
    Blocked,
    /// It did not work: timeout, crash, unknown exit code, invalid output. Where a hook can block, this blocks.
    Failed,
}

/// An input before and after a hook changed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rewrite {
    /// What the model asked for.
    pub before: Value,
    /// What was validated, gated and run instead.
    pub after: Value,
}

/// See [`Kind::ToolDecided`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDecided {
    /// The step that asked.
    pub step: u32,
    /// The call.
    pub tool_use_id: String,
    /// The tool.
    pub name: String,
    /// The input that was decided on.
    pub input: Value,
    /// Whether the call may run.
    pub allowed: bool,
    /// Whether an interactive tool would have asked a person here.
    #[serde(default)]
    pub would_ask: bool,
    /// The mode in force.
    pub mode: String,
    /// Who decided: `rule`, `mode`, `hook`, `hook_failure`, `protected`, `path`, `shell`, `human`, ...
    pub class: String,
    /// Why, in one sentence.
    pub reason: String,
    /// The rule that decided.
    #[serde(default)]
    pub rule: Option<RuleRecord>,
    /// The further rules that a command line of several commands needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_rules: Vec<RuleRecord>,
    /// The smallest rule that would have allowed a denied call.
    #[serde(default)]
    pub suggestion: Option<String>,
}

/// See [`Kind::ToolFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFinished {
    /// The step that asked.
    pub step: u32,
    /// The call.
    pub tool_use_id: String,
    /// The tool.
    pub name: String,
    /// How it ended.
    pub result: ToolResultKind,
    /// The text that the model gets: bounded and redacted.
    pub content: String,
    /// Where the whole output lies, when `content` is only a preview; relative to the run directory.
    #[serde(default)]
    pub output_file: Option<String>,
    /// Size of the whole output in bytes.
    pub output_bytes: u64,
    /// In milliseconds; 0 for what did not run.
    pub duration_ms: u64,
}

/// How a call was answered. All but `Ok` are `is_error` results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolResultKind {
    /// The tool did it.
    Ok,
    /// The tool ran and could not do it.
    Error,
    /// A hook or the gate denied it.
    Denied,
    /// No tool has this name.
    UnknownTool,
    /// The input does not fit the tool's schema.
    InvalidInput,
    /// The tool's time limit.
    TimedOut,
    /// The tool panicked.
    Panicked,
    /// The task ended before it could run, or the reply that asked was cut off.
    NotRun,
}

/// See [`Kind::ConnectionFinished`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectionFinished {
    /// The host: its canonical name, or what stood in its place in a request that was not understood.
    pub host: String,
    /// What became of the request.
    pub result: ConnectionResult,
    /// Why it was refused, failed, or was ended by the runner, in one sentence.
    #[serde(default)]
    pub reason: String,
    /// Whether it counts as a denied action: the first refusal of this host for this reason.
    #[serde(default)]
    pub is_denial: bool,
    /// Bytes from the sandbox to the host.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes from the host to the sandbox.
    #[serde(default)]
    pub received_bytes: u64,
    /// In milliseconds.
    pub duration_ms: u64,
}

/// What became of a request for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionResult {
    /// It was made.
    Allowed,
    /// It must not be made, or went on as it must not.
    Refused,
    /// It may be made and could not be.
    Failed,
}

/// See [`Kind::WorkspaceCompared`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceCompared {
    /// What is different, by path.
    pub changes: Vec<Change>,
    /// What of that a person should look at before the patch is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub concerns: Vec<Concern>,
    /// The patch, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchRecord>,
    /// The commit that a worktree began with, and that the patch is for; empty with other isolations.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
}

/// A change that deserves a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Concern {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// Why.
    pub kind: ConcernKind,
    /// Where a link leads, or what else there is to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Why a change deserves a look.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ConcernKind {
    /// It runs code, or steers an agent, for whoever uses the tree next: `AGENTS.md`, `.claude`, workflows.
    Steering,
    /// It can be executed now and could not before, or the other way round.
    Executable,
    /// A link that leads out of the tree.
    LinkOutside,
    /// Another repository inside the tree, or something in one.
    Repository,
    /// A FIFO, a socket or a device, or something that may not be read.
    NotAFile,
    /// Its content is no text.
    Binary,
    /// One that a later version writes and this one does not know.
    #[serde(other)]
    Unknown,
}

impl ConcernKind {
    /// What it means, after the path.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Steering => "runs code or steers an agent for whoever uses the tree next",
            Self::Executable => "its executable bit changed",
            Self::LinkOutside => "a link that leads out of the tree",
            Self::Repository => "belongs to another repository inside the tree",
            Self::NotAFile => "is no file that can be read",
            Self::Binary => "its content is no text",
            Self::Unknown => "said by a later version",
        }
    }
}

/// The file with an attempt's changes, for `git apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchRecord {
    /// Its name, beside the transcript. Empty when nothing could go into it.
    pub file: String,
    /// In bytes.
    pub bytes: u64,
    /// The changes that are not in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
}

/// A change that is not in the patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What happened to a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or type differs.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// The word on the wire and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

/// See [`Kind::CheckFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckFinished {
    /// Its place in the task file, from 0.
    pub index: u32,
    /// `command`, `reply`, `changed`, ...
    pub check: String,
    /// What it demands, in a few words.
    pub title: String,
    /// What it found.
    pub result: CheckResult,
    /// Why, in one line that a person understands; empty for what passed without a remark.
    #[serde(default)]
    pub message: String,
    /// What stands behind the message: the end of an output, paths, the answers inside a group. Several lines, bounded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub details: String,
    /// What the check itself used of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// The denied calls that the check expected: they do not count against the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected_denials: Vec<CallPlace>,
    /// In milliseconds.
    pub duration_ms: u64,
}

/// One tool call of an attempt. Ids are the model's and may come again; in one step they are unique.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CallPlace {
    /// The step that asked.
    pub step: u32,
    /// The call's id.
    pub tool_use_id: String,
}

/// Tokens, and money where the model's price is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Tokens.
    pub usage: Usage,
    /// Money; `None` where the price is not known.
    #[serde(rename = "cost_usd")]
    pub cost: Option<Usd>,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// As demanded.
    Passed,
    /// Not as demanded.
    Failed,
    /// It could not be run.
    Errored,
}

/// See [`Kind::TaskFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFinished {
    /// Why the loop ended.
    pub stop: Stop,
    /// The outcome that the table gives.
    pub outcome: Outcome,
    /// One line for a person: what happened, with the real numbers.
    pub message: String,
    /// The last turn's text.
    #[serde(default)]
    pub reply: String,
    /// Turns that were planned and not run.
    #[serde(default)]
    pub turns_skipped: u32,
    /// Processes that outlived their call and were killed.
    #[serde(default)]
    pub leaked_processes: u32,
    /// Time from `task_started`, in milliseconds.
    pub duration_ms: u64,
}

impl Kind {
    /// Whether the event is shown live and not stored.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::TextStreamed { .. })
    }
}

/// Takes events, one after the other.
pub trait Sink: Send {
    /// Takes one event. When this returns, the event is where it has to be.
    ///
    /// # Errors
    /// The event could not be stored; the task ends with `io_error`.
    fn accept(&mut self, event: &Event) -> io::Result<()>;
}

/// A sink that several tasks share.
pub type SharedSink = Arc<Mutex<dyn Sink>>;

/// Redacts, numbers and hands on the events of one attempt. Cheap to clone.
#[derive(Clone)]
pub struct Emitter {
    state: Arc<Mutex<State>>,
    redactor: Arc<Redactor>,
    clock: Clock,
    task: String,
    attempt: u32,
}

struct State {
    seq: u64,
    /// The last event of an attempt is stored. What comes after it, from work that was given up, is not.
    is_finished: bool,
    store: Box<dyn Sink>,
    watchers: Vec<SharedSink>,
}

impl Emitter {
    /// An emitter for one attempt. `store` is the transcript; `watchers` see each event after it is stored.
    pub fn new(
        task: impl Into<String>,
        attempt: u32,
        clock: Clock,
        redactor: Arc<Redactor>,
        store: Box<dyn Sink>,
        watchers: Vec<SharedSink>,
    ) -> Self {
        let state = Arc::new(Mutex::new(State {
            seq: 0,
            is_finished: false,
            store,
            watchers,
        }));
        Self {
            state,
            redactor,
            clock,
            task: task.into(),
            attempt,
        }
    }

    /// Stores and shows one event.
    ///
    /// # Errors
    /// The event could not be freed of secrets, the transcript could not be written, or the attempt has ended. A watcher's failure (a closed terminal) is not an error: the transcript is
    /// the truth, and reports can be made again from it.
    pub fn emit(&self, kind: Kind) -> io::Result<()> {
        let kind = self
            .redactor
            .redact_serialized(kind)
            .map_err(io::Error::other)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_finished {
            return Err(io::Error::other("the attempt has ended already"));
        }
        let event = Event {
            v: VERSION,
            at: self.clock.now(),
            task: self.task.clone(),
            attempt: self.attempt,
            seq: state.seq,
            kind,
        };
        if !event.kind.is_transient() {
            state.seq += 1;
            state.store.accept(&event)?;
            state.is_finished = matches!(event.kind, Kind::TaskFinished(_));
        }
        for watcher in &state.watchers {
            if let Err(error) = watcher
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .accept(&event)
            {
                tracing::warn!(%error, "an event could not be shown");
            }
        }
        Ok(())
    }

    /// The redactor that every stored string passes.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The same redactor, to be kept.
    #[must_use]
    pub fn shared_redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor)
    }

    /// The clock of the attempt.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// A sink that keeps everything, for tests and for the library's callers.
#[derive(Debug, Default)]
pub struct Recording(Vec<Event>);

impl Recording {
    /// What was recorded.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }
}

impl Sink for Recording {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        self.0.push(event.clone());
        Ok(())
    }
}
