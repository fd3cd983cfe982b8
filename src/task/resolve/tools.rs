//! Which tools the model is offered.

use super::super::diagnostic::quoted;
use super::super::suggest::{nearest, one_of};
use super::{Context, Findings, Origin, Project};
use crate::tool::BUILTIN;

/// What a task offers that names no tools. Bash is not among them: it is offered only where it is named.
const DEFAULT: [&str; 5] = ["Read", "Glob", "Grep", "Edit", "Write"];

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Vec<String> {
    let ceiling = cx.project.and_then(|project| {
        let tools = project.spec.policy.tools.as_ref()?;
        Some((tools, project.policy.origin(&["tools"])))
    });
    let named = cx.pick(
        cx.spec.tools.as_ref(),
        |defaults| defaults.tools.as_ref(),
        &["tools"],
    );
    let Some(named) = named else {
        // Not asked for is not asked too much: the built-in set is made smaller without a word.
        return DEFAULT
            .iter()
            .filter(|tool| {
                ceiling
                    .as_ref()
                    .is_none_or(|(allowed, _)| allowed.iter().any(|name| name == *tool))
            })
            .map(|tool| (*tool).to_owned())
            .collect();
    };
    check(named.value, &named.origin, findings);
    if let Some((allowed, ceiling)) = ceiling {
        for (index, tool) in named.value.iter().enumerate() {
            if BUILTIN.contains(&tool.as_str()) && !allowed.contains(tool) {
                let message = format!(
                    "the tool {} is not one that the policy allows",
                    quoted(tool)
                );
                findings.beyond_policy(&named.origin.index(index), message, &ceiling);
            }
        }
    }
    named.value.clone()
}

/// Every name is a tool's, and stands once.
fn check(tools: &[String], origin: &Origin<'_>, findings: &mut Findings) {
    for (index, tool) in tools.iter().enumerate() {
        if !BUILTIN.contains(&tool.as_str()) {
            let message = format!("there is no tool {}", quoted(tool));
            let hint = match nearest(tool, &BUILTIN) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!(
                    "the tools are {}",
                    one_of(&BUILTIN).replace(" or ", " and ")
                ),
            };
            findings.error(&origin.index(index), message, Some(&hint));
        } else if tools[..index].contains(tool) {
            let message = format!("the tool {} stands here twice", quoted(tool));
            findings.error(&origin.index(index), message, None);
        }
    }
}

/// The policy's tools exist.
pub(super) fn check_policy(project: &Project<'_>, findings: &mut Findings) {
    let tools = project.spec.policy.tools.as_deref().unwrap_or_default();
    check(tools, &project.policy.origin(&["tools"]), findings);
}
