//! What YAML may say: the types of a task file and of `agent-batch.yaml`, and nothing resolved in them. The comments of
//! the fields are the descriptions in the JSON Schema, so they speak to whoever writes task files.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::batch_spec::{BatchSpec, GroupSpec};
use super::matrix_spec::MatrixSpec;
use super::network_spec::NetworkSpec;
use super::rule_spec::RuleSpec;
use super::trials_spec::TrialsSpec;
use crate::check::{CheckSpec, SchemaSpec, TimeSpan};
use crate::hook::HookEvent;
use crate::outcome::OnDenied;
use crate::policy::Mode;
use crate::sandbox;
use crate::workspace::Isolation;

/// A task for an agent: what to do, with which model, under which permissions and limits, and how the work is measured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// The task's name in reports: letters `a-z`, digits, `.`, `_`, `-`; unique in a run. Default: the file's name
    /// without its extension.
    #[schemars(regex(pattern = r"^[a-z0-9_][a-z0-9._-]*$"), length(max = 100))]
    pub name: Option<String>,
    /// One line for the readers of reports.
    pub description: Option<String>,
    /// Words by which tasks can be chosen.
    #[serde(default)]
    pub tags: Vec<String>,
    /// `anthropic/<model id>`, or `scripted/<file>` for replies from a file (relative to this file).
    #[schemars(regex(pattern = r"^(anthropic|scripted)/.+|\$\{"))]
    pub model: Option<String>,
    /// Text that is appended to the built-in system prompt.
    pub system: Option<String>,
    /// What the agent is to do. `${NAME}` is replaced by an environment variable, `${NAME:-default}` has a default,
    /// `$${` stands for `${`.
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// Several prompts in one conversation, instead of `prompt`: each is sent when the one before is answered.
    #[schemars(length(min = 1, max = 50))]
    pub turns: Option<Vec<String>>,
    /// The tools that the model is offered. Default: Read, Glob, Grep, Edit, Write.
    pub tools: Option<Vec<String>>,
    /// What the agent may do.
    #[serde(default)]
    pub permissions: PermissionsSpec,
    /// When the task is ended.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// The directory that the agent works in.
    #[serde(default)]
    pub workspace: WorkspaceSpec,
    /// The sandbox of Bash, command hooks and command checks. `auto`: the strongest that the machine has; what it lacks is
    /// a warning in every report. `required`: whole, or the task is an error before the first model call. `off`: none.
    /// Default: `auto`.
    pub sandbox: Option<sandbox::Mode>,
    /// What of the network the sandbox reaches: `deny`, `allow`, or a map with `hosts`, a list of the hosts that are reached.
    /// Default: `deny`.
    pub network: Option<NetworkSpec>,
    /// What the work is measured by, after the agent is done.
    #[serde(default)]
    pub checks: Vec<CheckSpec>,
    /// The form of the task's answer: a JSON Schema of an object, or the path of a file with one. The model is then offered
    /// a tool `StructuredOutput` that takes such an object; the answer is stored as `output.json` beside the transcript, and
    /// a task without one fails.
    pub output_schema: Option<SchemaSpec>,
    /// Programs that are asked or told about the agent's actions, by event.
    #[serde(default)]
    #[schemars(schema_with = "hooks_schema")]
    pub hooks: HooksSpec,
    /// Makes a task of every combination of these values. `{{ matrix.NAME }}` stands for a value in description, tags, model,
    /// prompts, permissions, workspace, checks, hooks and group; the values are put behind the task's name.
    pub matrix: Option<MatrixSpec>,
    /// Runs the task more than once, as a measurement: `5`, or `{ count: 5, pass: 4 }` when not all of them have to pass.
    pub trials: Option<TrialsSpec>,
    /// How often the task may be tried again after an infrastructure error, over all its trials. A task that failed is
    /// never tried again. Default: 0.
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u64>,
    /// A word; the operator may limit how many tasks of a group run at the same time.
    #[schemars(regex(pattern = r"^[A-Za-z0-9._-]+$"), length(max = 100))]
    pub group: Option<String>,
}

/// What the agent may do. What no rule and no mode allows is denied; nobody is ever asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionsSpec {
    /// `strict`: only what a rule allows. `default`: also reading in the workspace (`dontAsk` is the same).
    /// `acceptEdits`: also Edit and Write in the workspace. `plan`: only reading. `bypassPermissions`: no rule needed;
    /// takes effect only with `--allow-bypass` on the command line. Default: `default`.
    #[serde(default)]
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<Mode>,
    /// Rules for what is allowed, as in `Edit(src/**)` or `Bash(cargo test:*)`; or maps with `rule`, and with `match` and
    /// `not_match`: examples that are checked when the file is read.
    #[serde(default)]
    pub allow: Vec<RuleSpec>,
    /// Rules for what is denied, whatever else allows it.
    #[serde(default)]
    pub deny: Vec<RuleSpec>,
    /// What a denied action means for the task: `fail`, `warn` or `ignore`. Default: `fail`.
    pub on_denied: Option<OnDenied>,
    /// Directories beside the workspace that file tools may use, relative to this file.
    #[serde(default)]
    pub additional_directories: Vec<String>,
}

/// When the task is ended. There is no way to have no limit.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsSpec {
    /// The most model calls for each prompt. Default: 10.
    #[schemars(range(min = 1, max = 1000))]
    pub max_steps: Option<u64>,
    /// The most model calls over all prompts. Default: `max_steps` for each prompt.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_total_steps: Option<u64>,
    /// The most tokens over the whole task: all input, cached or not, and all output. Default: 1000000.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub max_tokens: Option<u64>,
    /// The most output tokens of one model call. Default: 16000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_output_tokens: Option<u64>,
    /// The most money over the whole task, in US dollars. Default: none.
    #[schemars(range(max = 10_000), extend("exclusiveMinimum" = 0))]
    pub max_cost_usd: Option<f64>,
    /// The longest time for the whole task. Default: `30m`.
    pub timeout: Option<TimeSpan>,
    /// The longest time for one tool call. Default: `2m`.
    pub tool_timeout: Option<TimeSpan>,
    /// Whether the model is asked in one more call, without tools, to hand over what it has when steps, tokens or money end
    /// the task. The task has failed all the same. Default: `true`.
    pub wrap_up: Option<bool>,
}

/// The directory that the agent works in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSpec {
    /// The directory, relative to this file. Default: the directory in which the run is started.
    pub path: Option<String>,
    /// `none`: the directory itself; tasks that share it run one after the other. `copy`: a copy that is thrown away
    /// afterwards, not made while a task of the run writes in the original. `worktree`: a work tree of a commit, thrown away afterwards. Default: `none`.
    pub isolation: Option<Isolation>,
    /// With `isolation: worktree`: the branch, tag or commit that it begins with. Default: `HEAD`.
    #[serde(rename = "ref")]
    #[schemars(length(min = 1, max = 250))]
    pub reference: Option<String>,
    /// With `isolation: copy`: whether what git ignores (build caches, installed packages) is copied too. Default: `false`.
    pub include_ignored: Option<bool>,
}

/// Hooks by event.
pub type HooksSpec = BTreeMap<HookEventName, Vec<HookCommandSpec>>;

/// A program that is asked or told about an event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookCommandSpec {
    /// Which tools it is about: a name, several separated by `|`, or a regular expression. Default: all.
    pub matcher: Option<String>,
    /// The program and its arguments. A program with a `/` is relative to this file; others are found by `PATH`.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// How long it may take; what takes longer blocks the action. Default: `60s`.
    pub timeout: Option<TimeSpan>,
}

/// The events of hooks, by the names that are in use for them. Only some of them happen in this runner; the others are
/// accepted with a warning, so that a set of hooks can be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names are the convention's")]
pub enum HookEventName {
    SessionStart,
    Setup,
    SessionEnd,
    UserPromptSubmit,
    UserPromptExpansion,
    InstructionsLoaded,
    PreToolUse,
    PermissionRequest,
    PermissionDenied,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    TaskCreated,
    TaskCompleted,
    TeammateIdle,
    PreCompact,
    PostCompact,
    Notification,
    MessageDisplay,
    ConfigChange,
    CwdChanged,
    DirectoryAdded,
    FileChanged,
    WorktreeCreate,
    WorktreeRemove,
    Elicitation,
    ElicitationResult,
}

impl HookEventName {
    /// The event of this runner that the name stands for; `None` for one that never happens here.
    #[must_use]
    pub fn event(self) -> Option<HookEvent> {
        match self {
            Self::PreToolUse => Some(HookEvent::PreToolUse),
            Self::PostToolUse => Some(HookEvent::PostToolUse),
            Self::PostToolUseFailure => Some(HookEvent::PostToolUseFailure),
            Self::Stop => Some(HookEvent::Stop),
            Self::SessionStart => Some(HookEvent::SessionStart),
            Self::SessionEnd => Some(HookEvent::SessionEnd),
            _ => None,
        }
    }

    /// The event of this runner that comes nearest to one that never happens here.
    pub(super) fn instead(self) -> Option<HookEvent> {
        match self {
            Self::PermissionRequest => Some(HookEvent::PreToolUse),
            Self::PostToolBatch => Some(HookEvent::PostToolUse),
            Self::SubagentStop | Self::TaskCompleted => Some(HookEvent::Stop),
            Self::StopFailure => Some(HookEvent::SessionEnd),
            Self::UserPromptSubmit => Some(HookEvent::SessionStart),
            _ => None,
        }
    }

    /// When it happens, for the schema.
    fn meaning(self) -> &'static str {
        match self.event() {
            Some(HookEvent::PreToolUse) => {
                "Before a tool runs: may block the call or rewrite its input."
            }
            Some(HookEvent::PostToolUse) => "After a tool succeeded.",
            Some(HookEvent::PostToolUseFailure) => "After a tool ran and failed.",
            Some(HookEvent::Stop) => "When the model wants to end a turn: may make it go on.",
            Some(HookEvent::SessionStart) => "Before the first model call.",
            Some(HookEvent::SessionEnd) => "After the last model call.",
            None => "An error: never happens in this runner.",
        }
    }
}

/// What holds for all tasks of a project: `agent-batch.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectSpec {
    /// What a task gets that does not say otherwise.
    #[serde(default)]
    pub defaults: DefaultsSpec,
    /// What no task can go beyond.
    #[serde(default)]
    pub policy: PolicySpec,
    /// What all tasks of a run together may spend, and how it ends.
    #[serde(default)]
    pub batch: BatchSpec,
    /// How many tasks of a group run at the same time, by the name that tasks give as `group`.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupSpec>,
    /// Tasks that run and are reported, and whose failures do not fail the run. Infrastructure errors still do.
    #[serde(default)]
    pub quarantine: Vec<QuarantineSpec>,
}

/// Tasks that may fail for now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineSpec {
    /// A glob for the names of the tasks.
    #[schemars(length(min = 1))]
    pub task: String,
    /// The last day on which it holds, in UTC, as `2026-12-31`. Afterwards a failure counts again.
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))]
    pub until: String,
    /// Why, and who looks at it.
    #[schemars(length(min = 1))]
    pub reason: String,
}

/// What a task gets that does not say otherwise. Rules, hooks and additional directories are added to those of the
/// task; everything else is replaced by what the task says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultsSpec {
    /// The model of tasks that name none.
    pub model: Option<String>,
    /// The tools of tasks that name none.
    pub tools: Option<Vec<String>>,
    /// Permissions; the rules hold beside those of the task.
    #[serde(default)]
    pub permissions: PermissionsSpec,
    /// Limits, one by one.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// The workspace of tasks that name none.
    #[serde(default)]
    pub workspace: WorkspaceSpec,
    /// The sandbox of tasks that name none.
    pub sandbox: Option<sandbox::Mode>,
    /// The network of tasks that name none.
    pub network: Option<NetworkSpec>,
    /// Hooks, which run before those of the task.
    #[serde(default)]
    #[schemars(schema_with = "hooks_schema")]
    pub hooks: HooksSpec,
    /// The retries of tasks that say nothing of them.
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u64>,
    /// The group of tasks that name none.
    pub group: Option<String>,
}

/// What no task can go beyond. A task that asks for more is an error.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The modes that a task may have. Default: all.
    #[serde(default)]
    #[schemars(schema_with = "modes_schema")]
    pub modes: Option<Vec<Mode>>,
    /// The most that a task's limits may be; also what a task gets that names no limit, where that is less than the
    /// built-in one.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// Globs for the models that a task may use, as in `anthropic/*`. Default: all.
    pub models: Option<Vec<String>>,
    /// Rules for what is denied in every task.
    #[serde(default)]
    pub deny: Vec<RuleSpec>,
    /// The tools that a task may offer. Default: all.
    pub tools: Option<Vec<String>>,
    /// The least that a task's sandbox may be: `off`, `auto` or `required`. Default: `off`.
    pub sandbox: Option<sandbox::Mode>,
    /// The most that a task reaches of the network. `deny`: nothing. A map with `hosts`: only hosts of this list.
    /// Default: `allow`.
    pub network: Option<NetworkSpec>,
}

/// The modes by all their names, the aliases included.
pub(super) const MODE_NAMES: [&str; 7] = [
    "strict",
    "default",
    "dontAsk",
    "acceptEdits",
    "plan",
    "bypassPermissions",
    "bypass",
];

fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": MODE_NAMES })
}

fn modes_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "enum": MODE_NAMES } })
}

/// The map's own schema, with a description for every event.
fn hooks_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = HooksSpec::json_schema(generator);
    let properties = schema
        .get_mut("properties")
        .and_then(serde_json::Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let event = serde_json::from_value::<HookEventName>(name.as_str().into());
        if let (Ok(event), Some(property)) = (event, property.as_object_mut()) {
            property.insert("description".to_owned(), event.meaning().into());
        }
    }
    schema
}
