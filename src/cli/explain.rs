//! `agent-batch explain`: the gate's answer for one call, offline, with the same code that decides in a run.

mod cases;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::args::ExplainArgs;
use crate::cli::configuration::Configuration;
use crate::cli::settings::Settings;
use crate::cli::{fail, load, print};
use crate::outcome::Exit;
use crate::policy::{self, Call, Policy, Roots, Rule};
use crate::task::{PROJECT_FILE, Task};
use crate::tool::{Registry, builtin};
use crate::workspace;

/// Prints one JSON line per task: what the gate answers and why. Exit 1 when a task's gate denies the call.
/// With `--cases`, the cases of a file are answered instead.
pub(super) fn explain(args: &ExplainArgs, settings: &Settings) -> Exit {
    if let Some(file) = &args.cases {
        return cases::cases(file, settings);
    }
    let (Some(tool), Some(input)) = (&args.tool, &args.input) else {
        return fail(
            Exit::Usage,
            "`explain` needs `--tool` and `--input`, or `--cases`",
        );
    };
    let input: Value = match serde_json::from_str(input) {
        Ok(input) => input,
        Err(error) => return fail(Exit::Usage, &format!("`--input` is not JSON: {error}")),
    };
    let configuration = match Configuration::open(&args.tasks, settings) {
        Ok(configuration) => configuration,
        Err(message) => return fail(Exit::Usage, &message),
    };
    let loaded = match load::load(&configuration, &args.tasks, settings) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let mut exit = Exit::Passed;
    let mut lines = String::new();
    for task in &loaded.tasks {
        match answer(task, tool, &input, settings) {
            Ok(mut answer) => {
                if answer["decision"] == "deny" {
                    exit = Exit::Failed;
                }
                if let Some(commit) = &configuration.commit {
                    answer["config_commit"] = commit.as_str().into();
                }
                lines.push_str(&format!("{answer}\n"));
            }
            Err(error) => return fail(Exit::Usage, &format!("{}: {error}", task.file)),
        }
    }
    match print(&lines) {
        Exit::Passed => exit,
        failed => failed,
    }
}

fn answer(task: &Task, name: &str, input: &Value, settings: &Settings) -> Result<Value, String> {
    let tool = builtin(name).ok_or_else(|| format!("there is no tool `{name}`"))?;
    let mut registry = Registry::default();
    registry.register(Arc::clone(&tool))?;
    registry
        .validate(name, input)
        .map_err(|error| format!("the input does not fit the schema of `{name}`: {error}"))?;
    let policy = Arc::new(policy_of(task, settings));
    let action = tool.action(input);
    let facts = workspace::resolve_all(&task.workspace, &policy::queries(&action, &policy));
    let call = Call {
        tool: name,
        input,
        action,
        read_only: tool.is_read_only(input),
    };
    let offered = task.tools.iter().any(|known| known == name);
    let mut line = match policy::decide(&call, &facts, &policy) {
        Ok(permit) => {
            json!({"decision": "allow", "reason": permit.reason(), "rule": permit.rule().map(rule)})
        }
        Err(denial) => json!({
            "decision": "deny",
            "class": denial.class,
            "reason": denial.reason,
            "rule": denial.rule.as_ref().map(rule),
            "would_ask": denial.would_ask,
            "suggestion": denial.suggestion,
        }),
    };
    line["task"] = task.name.clone().into();
    line["mode"] = task.mode.name().into();
    line["tool"] = name.into();
    line["offered"] = offered.into();
    Ok(line)
}

/// The task's gate as a run in place would have it; no copy of the workspace is made.
fn policy_of(task: &Task, settings: &Settings) -> Policy {
    let never_write: Vec<PathBuf> = vec![
        task.path.clone(),
        settings.base.join(PROJECT_FILE),
        task.workspace.join(PROJECT_FILE),
        task.workspace.join("agent-batch-results"),
    ];
    Policy {
        mode: task.mode,
        allow: task.allow.clone(),
        deny: task.deny.clone(),
        roots: Roots {
            workspace: task.workspace.clone(),
            additional: task.additional.clone(),
            output: None,
            never_write,
            never_write_in_run: Arc::default(),
            closed: settings.closed_files(),
        },
    }
}

fn rule(rule: &Rule) -> Value {
    json!({"rule": rule.text(), "source": rule.source().to_string()})
}
