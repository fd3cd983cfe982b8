//! What a task may do, as `agent-batch check` prints it: for the reviewer of a task file.

use std::fmt::Write as _;

use super::diagnostic::one_line;
use super::{ModelRef, Task};
use crate::check::TimeSpan;
use crate::outcome::Trials;
use crate::policy::{Mode, Rule};
use crate::sandbox::{self, Network};
use crate::workspace::Isolation;

/// The width of the column of names.
const NAMES: usize = 12;
/// The most characters of one value.
const LONGEST: usize = 160;

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scripted { name, .. } => f.write_str(name),
            Self::Anthropic { id } => write!(f, "anthropic/{id}"),
        }
    }
}

/// A small table, without a newline at the end. The same task gives the same text on every machine but for its paths.
#[must_use]
pub fn describe(task: &Task) -> String {
    let mut table = Table(format!(
        "{} ({}:{})\n",
        task.name,
        one_line(&task.file, LONGEST),
        task.line
    ));
    if !task.description.is_empty() {
        table.row("about", &task.description);
    }
    if !task.tags.is_empty() {
        table.row("tags", &task.tags.join(", "));
    }
    for (axis, value) in &task.matrix {
        table.row("matrix", &format!("{axis}: {value}"));
    }
    if let Some(quarantine) = &task.quarantine {
        let excused = format!("until {}: {}", quarantine.until, quarantine.reason);
        table.row("quarantine", &excused);
    }
    table.row("model", &task.model.to_string());
    table.row(
        "mode",
        &format!("{}: {}", task.mode.name(), meaning(task.mode)),
    );
    table.row("tools", &or_none(&task.tools.join(", ")));
    table.rules("allow", &task.allow);
    table.rules("deny", &task.deny);
    table.row("on denial", on_denied(task));
    table.row(
        "workspace",
        &format!(
            "{} ({})",
            task.workspace.display(),
            isolation(task.isolation)
        ),
    );
    for directory in &task.additional {
        table.row("also", &directory.display().to_string());
    }
    table.row("sandbox", &sandbox(task));
    table.row("limits", &limits(task));
    table.row("turns", &task.turns.len().to_string());
    if task.trials != Trials::default() {
        let Trials { count, pass } = task.trials;
        table.row("trials", &format!("{count}, of which {pass} have to pass"));
    }
    if task.retries > 0 {
        table.row(
            "retries",
            &format!("{} after infrastructure errors", task.retries),
        );
    }
    if let Some(group) = &task.group {
        table.row("group", group);
    }
    if task.checks.is_empty() {
        table.row(
            "checks",
            "none: the task passes when the model says that it is done",
        );
    }
    for name in task.judges.keys() {
        table.row("judge", name);
    }
    for check in &task.checks {
        table.row("check", &check.title());
    }
    for hook in &task.hooks {
        let matcher = if hook.matcher.is_empty() {
            "*"
        } else {
            &hook.matcher
        };
        let timeout = TimeSpan(hook.timeout);
        let command = hook.command.join(" ");
        table.row(
            "hook",
            &format!("{:?} {matcher}: {command} (at most {timeout})", hook.event),
        );
    }
    for warning in warnings(task) {
        table.row("warning", &warning);
    }
    table.0.truncate(table.0.trim_end().len());
    table.0
}

struct Table(String);

impl Table {
    fn row(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.0, "  {name:NAMES$}{}", one_line(value, LONGEST));
    }

    fn rules(&mut self, name: &str, rules: &[Rule]) {
        if rules.is_empty() {
            self.row(name, "none");
        }
        for rule in rules {
            let source = rule.source();
            self.row(
                name,
                &format!("{}  ({}, {})", rule.text(), source.layer, source.file),
            );
        }
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "none".to_owned()
    } else {
        text.to_owned()
    }
}

fn meaning(mode: Mode) -> &'static str {
    match mode {
        Mode::Strict => "only what a rule allows",
        Mode::Default => "reading in the workspace, and what a rule allows",
        Mode::AcceptEdits => "reading, Edit and Write in the workspace, and what a rule allows",
        Mode::Plan => "only reading",
        Mode::BypassPermissions => "everything that no deny rule names",
    }
}

fn on_denied(task: &Task) -> &'static str {
    match task.on_denied {
        crate::outcome::OnDenied::Fail => "the task fails",
        crate::outcome::OnDenied::Warn => "a warning",
        crate::outcome::OnDenied::Ignore => "nothing",
    }
}

fn isolation(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::None => "the directory itself",
        Isolation::Copy => "a copy, thrown away afterwards",
        Isolation::Worktree => "a work tree of a commit, thrown away afterwards",
    }
}

fn sandbox(task: &Task) -> String {
    let network = match task.network {
        Network::Deny => "no network".to_owned(),
        Network::Hosts => format!("of the network only {}", task.hosts.join(", ")),
        Network::Allow => "the network is reached".to_owned(),
    };
    match task.sandbox {
        sandbox::Mode::Off => "off: processes run with all rights of this user".to_owned(),
        sandbox::Mode::Auto => format!("auto: the strongest that the machine has; {network}"),
        sandbox::Mode::Required => {
            format!("required: whole, or the task does not start; {network}")
        }
    }
}

fn limits(task: &Task) -> String {
    let limits = &task.limits;
    let mut parts = vec![format!("{} steps a turn", limits.max_steps)];
    if let Some(total) = limits.max_total_steps {
        parts.push(format!("{total} steps in all"));
    }
    parts.push(format!("{} tokens in all", limits.max_tokens));
    parts.push(format!("{} tokens a reply", limits.max_output_tokens));
    if let Some(cost) = limits.max_cost {
        parts.push(format!("{cost} in all"));
    }
    parts.push(format!("{} of work", TimeSpan(limits.timeout)));
    parts.push(format!("{} a tool call", TimeSpan(limits.tool_timeout)));
    parts.join(", ")
}

fn warnings(task: &Task) -> Vec<String> {
    let mut found: Vec<String> = task
        .allow
        .iter()
        .filter_map(|rule| Some(format!("`{}` {}", rule.text(), rule.breadth()?.reason)))
        .collect();
    if task.mode == Mode::BypassPermissions {
        found.push("the permission gate lets everything pass that no deny rule names".to_owned());
    }
    found
}
