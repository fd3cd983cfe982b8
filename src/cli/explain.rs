//! `agent-batch explain`: the gate's answer for one call, offline, with the same code that decides in a run.

mod cases;
mod world;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cli::args::{ExplainArgs, ShowFormat};
use crate::cli::configuration::Configuration;
use crate::cli::settings::Settings;
use crate::cli::{fail, load, print};
use crate::outcome::Exit;
use crate::policy::{self, Action, Call, Policy, Roots, Rule};
use crate::task::{PROJECT_FILE, Task};
use crate::text;
use crate::tool::{BUILTIN, Registry, STRUCTURED_OUTPUT, StructuredOutput, Tool, builtin};
use crate::workspace;

/// Prints what the gate of each task answers and why, one JSON line a task or some lines for a person. Exit 1 when a call
/// would not run: the gate denies it, or the task does not offer the tool.
/// With `--cases`, the cases of a file are answered instead.
pub(super) fn explain(args: &ExplainArgs, settings: &Settings) -> Exit {
    if let Some(file) = &args.cases {
        return cases::cases(file, settings);
    }
    let (Some(tool), Some(input)) = (&args.tool, &args.input) else {
        let example = r#"`--tool Bash --input '{"command": "cargo test"}'`"#;
        return fail(
            Exit::Usage,
            &format!(
                "`explain` needs a task and `--tool` and `--input`, as in {example}; or `--cases FILE` for a file of calls"
            ),
        );
    };
    let call = match asked(tool, input) {
        Ok(call) => call,
        Err(message) => return fail(Exit::Usage, &message),
    };
    let configuration = match Configuration::open(&args.tasks, settings) {
        Ok(configuration) => configuration,
        Err(message) => return fail(Exit::Usage, &message),
    };
    let loaded = match load::load(&configuration, &args.tasks, settings) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let format = args.format.unwrap_or(if settings.stdout_terminal {
        ShowFormat::Text
    } else {
        ShowFormat::Json
    });
    let mut exit = Exit::Passed;
    let mut lines = String::new();
    for task in &loaded.tasks {
        if let Err(message) = fits_answer(task, &call) {
            return fail(Exit::Usage, &message);
        }
        let mut answer = answer(task, &call, settings);
        if answer["decision"] == "deny" {
            exit = Exit::Failed;
        }
        if let Some(commit) = &configuration.commit {
            answer["config_commit"] = commit.as_str().into();
        }
        match format {
            ShowFormat::Json => lines.push_str(&format!("{answer}\n")),
            ShowFormat::Text => lines.push_str(&told(&answer)),
        }
    }
    match print(&lines) {
        Exit::Passed => exit,
        failed => failed,
    }
}

/// The call that is asked about.
struct Asked {
    tool: Arc<dyn Tool>,
    input: Value,
}

/// The call, if there is such a tool and it takes such an input.
fn asked(name: &str, input: &str) -> Result<Asked, String> {
    let tool = tool(name).ok_or_else(|| {
        let mut known = BUILTIN.iter().chain([&STRUCTURED_OUTPUT]);
        let hint = match known.find(|tool| tool.eq_ignore_ascii_case(name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!(
                "the tools are {}, and `{STRUCTURED_OUTPUT}` in a task with an `output_schema`",
                BUILTIN.join(", ")
            ),
        };
        format!("there is no tool `{}`; {hint}", text::one_line(name, 80))
    })?;
    let input: Value = serde_json::from_str(input).map_err(|error| {
        format!(
            "`--input` is not JSON: {error}; expected an object, as in '{{\"command\": \"cargo test\"}}'"
        )
    })?;
    let mut registry = Registry::default();
    registry.register(Arc::clone(&tool))?;
    registry.validate(name, &input)?;
    Ok(Asked { tool, input })
}

/// The tool of this name. `StructuredOutput` is another one in each task, see [`fits_answer`]; here it takes any object.
fn tool(name: &str) -> Option<Arc<dyn Tool>> {
    if name == STRUCTURED_OUTPUT {
        let any = json!({"type": "object"});
        return Some(Arc::new(StructuredOutput::new(any, PathBuf::new())));
    }
    builtin(name)
}

/// An answer has to fit the schema of the task.
fn fits_answer(task: &Task, asked: &Asked) -> Result<(), String> {
    let name = asked.tool.name();
    let Some(schema) = task
        .output_schema
        .as_ref()
        .filter(|_| name == STRUCTURED_OUTPUT)
    else {
        return Ok(());
    };
    let mut registry = Registry::default();
    // Nothing is called here, so that there is no file to write.
    let tool = StructuredOutput::new(Value::clone(schema), PathBuf::new());
    registry.register(Arc::new(tool))?;
    registry
        .validate(name, &asked.input)
        .map_err(|error| format!("{}: {error}", task.name))
}

fn answer(task: &Task, asked: &Asked, settings: &Settings) -> Value {
    let name = asked.tool.name();
    let is_answer = name == STRUCTURED_OUTPUT;
    let offered = if is_answer {
        task.output_schema.is_some()
    } else {
        task.tools.iter().any(|known| known == name)
    };
    let missing = if is_answer {
        "give the task an `output_schema`"
    } else {
        "name it under `tools`"
    };
    let action = asked.tool.action(&asked.input);
    let policy = Arc::new(policy_of(task, settings));
    let mut line = if offered {
        decision(task, asked, action.clone(), &policy)
    } else {
        // A run does not even ask the gate.
        json!({
            "decision": "deny",
            "class": "not_offered",
            "reason": format!("the task does not offer `{name}`, so a call of it is not run; {missing}"),
            "rule": null,
            "would_ask": false,
            "suggestion": null,
        })
    };
    if let Action::Bash { command } = &action
        && offered
        && line["decision"] == "deny"
    {
        let parts = policy::simple_commands(command);
        if parts.len() > 1 {
            let parts = parts.into_iter().map(|command| {
                let action = Action::Bash {
                    command: command.clone(),
                };
                let mut part = decision(task, asked, action, &policy);
                part["command"] = command.into();
                part
            });
            line["parts"] = parts.collect();
        }
    }
    line["task"] = task.name.clone().into();
    line["mode"] = task.mode.name().into();
    line["tool"] = name.into();
    line["offered"] = offered.into();
    line
}

/// What the gate says.
fn decision(task: &Task, asked: &Asked, action: Action, policy: &Arc<Policy>) -> Value {
    let facts = workspace::resolve_all(&task.workspace, &policy::queries(&action, policy));
    let call = Call {
        tool: asked.tool.name(),
        input: &asked.input,
        action,
        read_only: asked.tool.is_read_only(&asked.input),
    };
    match policy::decide(&call, &facts, policy) {
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
    }
}

/// The answer for a person: the decision first, then what each command of a line comes to.
fn told(answer: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = format!(
        "{}: {} ({})\n",
        text(&answer["task"]),
        text(&answer["decision"]),
        text(&answer["mode"])
    );
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            out.push_str(&format!("  {name:9}{value}\n"));
        }
    };
    row("why", &text(&answer["reason"]));
    if let Some(rule) = answer["rule"].as_object() {
        let source = text(&rule["source"]);
        row("rule", &format!("{}  ({source})", text(&rule["rule"])));
    }
    row("write", &text(&answer["suggestion"]));
    for part in answer["parts"].as_array().into_iter().flatten() {
        let by = match (&part["rule"]["rule"], &part["suggestion"]) {
            (Value::String(rule), _) => format!("  by {rule}"),
            (_, Value::String(rule)) => format!("  {rule} would allow it"),
            _ => String::new(),
        };
        row(
            &text(&part["decision"]),
            &format!("{}{by}", text(&part["command"])),
        );
    }
    out
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
