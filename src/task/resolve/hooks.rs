//! Hooks: which programs run at which events. Those of `agent-batch.yaml` come before those of the task.

use std::path::PathBuf;
use std::time::Duration;

use regex::Regex;

use super::super::diagnostic::quoted;
use super::super::spec::{HookCommandSpec, HooksSpec};
use super::super::suggest::nearest;
use super::super::tree::Half;
use super::{Context, Findings, Origin, files};
use crate::check::{TimeSpan, regex_reason};
use crate::hook::{HookEvent, HookSpec};
use crate::tool::BUILTIN;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The hooks of a task.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) list: Vec<HookSpec>,
    /// Programs that belong to the configuration: those that are named by a path, not looked up.
    pub(super) files: Vec<PathBuf>,
}

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Hooks {
    let mut resolved = Hooks::default();
    let mut layers: Vec<(Origin<'_>, &HooksSpec)> = Vec::new();
    if let Some(project) = cx.project {
        let origin = project.defaults.origin(&["hooks"]);
        layers.push((origin, &project.spec.defaults.hooks));
    }
    layers.push((cx.layer.origin(&["hooks"]), &cx.spec.hooks));
    for (origin, hooks) in layers {
        for (name, list) in hooks {
            // The names of the enum are the keys of the file.
            let at = origin.key(&format!("{name:?}"));
            let event = name.event();
            if event.is_none() {
                // A hook that guards something and never runs is a hole that looks closed.
                let message = format!(
                    "the event `{name:?}` never happens in this runner, so its hooks would never run"
                );
                let hint = match name.instead() {
                    Some(meant) => format!("write them under `{meant:?}`, or remove them"),
                    None => "remove them".to_owned(),
                };
                findings.key_error(&at, message, Some(&hint));
                continue;
            }
            for (index, hook) in list.iter().enumerate() {
                let Some(spec) = one(cx, hook, event, &at.index(index), findings) else {
                    continue;
                };
                if hook.command.first().is_some_and(|name| name.contains('/')) {
                    resolved
                        .files
                        .extend(spec.command.first().map(PathBuf::from));
                }
                resolved.list.push(spec);
            }
        }
    }
    resolved
}

fn one(
    cx: &Context<'_>,
    hook: &HookCommandSpec,
    event: Option<HookEvent>,
    origin: &Origin<'_>,
    findings: &mut Findings,
) -> Option<HookSpec> {
    let matcher = hook.matcher.clone().unwrap_or_default();
    check_matcher(&matcher, event, &origin.key("matcher"), findings);
    let timeout = hook.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0);
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        let found = TimeSpan(timeout);
        let message =
            format!("the `timeout` of a hook must be above 0 and at most 1h, found {found}");
        findings.error(&origin.key("timeout"), message, None);
    }
    let command = command(cx, &hook.command, &origin.key("command"), findings)?;
    Some(HookSpec {
        event: event?,
        matcher,
        command,
        timeout,
    })
}

/// The command with its program absolute.
fn command(
    cx: &Context<'_>,
    command: &[String],
    origin: &Origin<'_>,
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let Some((name, arguments)) = command.split_first().filter(|(name, _)| !name.is_empty()) else {
        let hint = "write the program and its arguments as a list";
        findings.error(origin, "the hook has no program", Some(hint));
        return None;
    };
    for (index, argument) in arguments.iter().enumerate() {
        if argument.starts_with("./") || argument.starts_with("../") {
            let message = format!(
                "{} is looked up in the workspace, where the agent may change it",
                quoted(argument)
            );
            let hint = "make the script the program itself: that path is relative to this file, and is watched";
            findings.warning(
                &origin.index(index + 1),
                Half::Value,
                message,
                Some(hint.to_owned()),
            );
        }
    }
    let search = cx.options.env.get("PATH").map(String::as_str);
    match files::program(name, origin.directory(&cx.options.cwd), search) {
        Ok(program) => {
            let mut resolved = vec![program.to_string_lossy().into_owned()];
            resolved.extend(arguments.iter().cloned());
            Some(resolved)
        }
        Err(message) => {
            let hint = name.contains('/').then(|| origin.anchor());
            findings.error(&origin.index(0), message, hint);
            None
        }
    }
}

/// A matcher is `*`, a list of names, or a regular expression. A name that no tool has would silently guard nothing.
fn check_matcher(
    matcher: &str,
    event: Option<HookEvent>,
    origin: &Origin<'_>,
    findings: &mut Findings,
) {
    let is_tool_event = matches!(
        event,
        Some(HookEvent::PreToolUse | HookEvent::PostToolUse | HookEvent::PostToolUseFailure)
    );
    if matcher.is_empty() || matcher == "*" {
        return;
    }
    let is_list = matcher
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | ',' | '|'));
    if !is_list {
        if let Err(error) = Regex::new(matcher) {
            let reason = regex_reason(&error);
            let message = format!(
                "the matcher {} is not a regular expression: {reason}",
                quoted(matcher)
            );
            findings.error(origin, message, None);
        }
        return;
    }
    if !is_tool_event {
        return;
    }
    for name in matcher.split(['|', ',']).map(str::trim) {
        if BUILTIN.contains(&name) || name.starts_with("mcp__") {
            continue;
        }
        let message = format!(
            "no tool is called {}: this hook never runs for it",
            quoted(name)
        );
        let hint = nearest(name, &BUILTIN).map(|meant| format!("did you mean `{meant}`?"));
        findings.warning(origin, Half::Value, message, hint);
    }
}
