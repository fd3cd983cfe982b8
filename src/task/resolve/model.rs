//! `provider/model`. Whether the provider knows the model is not asked: that would take the network.

use globset::{Glob, GlobMatcher};

use super::super::ModelRef;
use super::super::diagnostic::quoted;
use super::super::suggest::nearest;
use super::{At, Context, Findings, Origin, Project};

const PROVIDERS: [&str; 2] = ["anthropic", "scripted"];

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Option<ModelRef> {
    let override_ = cx.options.overrides.model.as_ref().map(|value| At {
        value,
        origin: Origin::CommandLine("--model"),
    });
    let named = override_.or_else(|| {
        cx.pick(
            cx.spec.model.as_ref(),
            |defaults| defaults.model.as_ref(),
            &["model"],
        )
    });
    let Some(named) = named else {
        if !cx.mentions(&["model"]) {
            findings.error(
                &cx.whole(),
                "the task has no `model`",
                Some(
                    "write `model: anthropic/<model id>`, or put it under `defaults` in `agent-batch.yaml`",
                ),
            );
        }
        return None;
    };
    resolve_named(cx, &named, findings)
}

/// A model that is named somewhere, under the policy's ceiling.
pub(super) fn resolve_named(
    cx: &Context<'_>,
    named: &At<'_, &String>,
    findings: &mut Findings,
) -> Option<ModelRef> {
    check_ceiling(cx, named, findings);
    parse(cx, named, findings)
}

fn parse(cx: &Context<'_>, named: &At<'_, &String>, findings: &mut Findings) -> Option<ModelRef> {
    let text = named.value.as_str();
    let (provider, id) = text.split_once('/').unwrap_or((text, ""));
    match provider {
        "anthropic" | "scripted" if id.is_empty() => {
            let message = format!("the model {} names only a provider", quoted(text));
            let hint = format!("write `{provider}/` and the model behind it");
            findings.error(&named.origin, message, Some(&hint));
            None
        }
        "anthropic" => {
            let fits = id
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._:@".contains(c));
            if !fits || id.len() > 200 {
                let message = format!("{} is not a model's id", quoted(id));
                findings.error(
                    &named.origin,
                    message,
                    Some("an id is as in `claude-sonnet-5`"),
                );
                return None;
            }
            Some(ModelRef::Anthropic { id: id.to_owned() })
        }
        "scripted" => {
            let path = named.origin.directory(&cx.options.cwd).join(id);
            match std::fs::canonicalize(&path) {
                Ok(path) if path.is_file() => Some(ModelRef::Scripted {
                    name: text.to_owned(),
                    path,
                }),
                Ok(_) => {
                    let message = format!("the script {} is not a file", quoted(id));
                    findings.error(&named.origin, message, None);
                    None
                }
                Err(error) => {
                    let reason = super::files::reason(&error);
                    let message = format!("the script {} cannot be read: {reason}", quoted(id));
                    findings.error(&named.origin, message, Some(named.origin.anchor()));
                    None
                }
            }
        }
        _ => {
            let message = format!("the provider of the model {} is not known", quoted(text));
            let hint = match nearest(provider, &PROVIDERS) {
                Some(meant) if text.contains('/') => format!("did you mean `{meant}/…`?"),
                _ if text.starts_with("claude") => format!("write `anthropic/{text}`"),
                _ => "models are `anthropic/<model id>` or `scripted/<file>`".to_owned(),
            };
            findings.error(&named.origin, message, Some(&hint));
            None
        }
    }
}

fn check_ceiling(cx: &Context<'_>, named: &At<'_, &String>, findings: &mut Findings) {
    let Some(project) = cx.project else { return };
    let Some(globs) = &project.spec.policy.models else {
        return;
    };
    // A glob that is none is told of where it stands, and would only make this wrong.
    let globs: Result<Vec<GlobMatcher>, _> = globs.iter().map(|glob| matcher(glob)).collect();
    let Ok(globs) = globs else { return };
    let allowed = globs.iter().any(|glob| glob.is_match(named.value));
    if !allowed {
        let message = format!(
            "the model {} is not one that the policy allows",
            quoted(named.value)
        );
        findings.beyond_policy(&named.origin, message, &project.policy.origin(&["models"]));
    }
}

fn matcher(glob: &str) -> Result<GlobMatcher, globset::Error> {
    Glob::new(glob).map(|glob| glob.compile_matcher())
}

/// The policy's globs are globs.
pub(super) fn check_policy(project: &Project<'_>, findings: &mut Findings) {
    let globs = project.spec.policy.models.as_deref().unwrap_or_default();
    for (index, glob) in globs.iter().enumerate() {
        if let Err(error) = matcher(glob) {
            let message = format!("{} is not a glob: {}", quoted(glob), error.kind());
            findings.error(
                &project.policy.origin(&["models"]).index(index),
                message,
                None,
            );
        }
    }
}
