//! Mode and rules. The mode is pinned here for the whole run; rules keep their source, because a reader of a report
//! wants to know who allowed what.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::super::BYPASS_FLAG;
use super::super::diagnostic::quoted;
use super::super::rule_spec::RuleSpec;
use super::super::tree::Half;
use super::{At, Context, Findings, Origin, Project, files};
use crate::outcome::OnDenied;
use crate::policy::{Effect, FileKind, Mode, Rule, Source, Surroundings};
use crate::tool::BUILTIN;

pub(super) struct Permissions {
    pub(super) mode: Mode,
    pub(super) allow: Vec<Rule>,
    pub(super) deny: Vec<Rule>,
    pub(super) on_denied: OnDenied,
    pub(super) additional: Vec<PathBuf>,
}

pub(super) fn resolve<'a>(
    cx: &Context<'a>,
    tools: &[String],
    workspace: Option<&Path>,
    findings: &mut Findings,
) -> Permissions {
    let mode = mode(cx, findings);
    let on_denied = cx
        .pick(
            cx.spec.permissions.on_denied,
            |defaults| defaults.permissions.on_denied,
            &["permissions", "on_denied"],
        )
        .map_or_else(OnDenied::default, |picked| picked.value);
    let mut deny = Vec::new();
    let mut places = Vec::new();
    let mut add = |specs: &[RuleSpec], effect, at: &Origin<'a>, findings: &mut Findings| {
        let mut list = Vec::new();
        for (index, rule) in rules(specs, effect, at, findings) {
            places.push((rule.clone(), at.index(index)));
            list.push(rule);
        }
        list
    };
    if let Some(project) = cx.project {
        let origin = project.policy.origin(&["deny"]);
        deny.extend(add(
            &project.spec.policy.deny,
            Effect::Deny,
            &origin,
            findings,
        ));
    }
    let mut allow = Vec::new();
    for (origin, allowed, denied) in rule_lists(cx) {
        let (allow_at, deny_at) = match &origin {
            Origin::File { .. } => (origin.key("allow"), origin.key("deny")),
            Origin::CommandLine(_) => (
                Origin::CommandLine("--allow"),
                Origin::CommandLine("--deny"),
            ),
        };
        allow.extend(add(&allowed, Effect::Allow, &allow_at, findings));
        deny.extend(add(&denied, Effect::Deny, &deny_at, findings));
    }
    let around = Surroundings {
        mode,
        deny: &deny,
        existing: &BUILTIN,
        offered: Some(tools),
        workspace,
        kind_of: &kind_of,
    };
    doubt(&places, &around, findings);
    Permissions {
        mode,
        allow,
        deny,
        on_denied,
        additional: additional(cx, findings),
    }
}

/// Where two lists stand, and the lists: what is allowed, and what is denied.
type Lists<'a> = (Origin<'a>, Cow<'a, [RuleSpec]>, Cow<'a, [RuleSpec]>);

/// Allow and deny lists of defaults, task and command line, in this order.
fn rule_lists<'a>(cx: &Context<'a>) -> Vec<Lists<'a>> {
    let mut lists: Vec<Lists<'a>> = Vec::new();
    if let Some(project) = cx.project {
        let permissions = &project.spec.defaults.permissions;
        let origin = project.defaults.origin(&["permissions"]);
        lists.push((
            origin,
            Cow::Borrowed(&permissions.allow),
            Cow::Borrowed(&permissions.deny),
        ));
    }
    let permissions = &cx.spec.permissions;
    let origin = cx.layer.origin(&["permissions"]);
    lists.push((
        origin,
        Cow::Borrowed(&permissions.allow),
        Cow::Borrowed(&permissions.deny),
    ));
    let options = cx.options;
    lists.push((
        Origin::CommandLine(""),
        typed(&options.extra_allow),
        typed(&options.extra_deny),
    ));
    lists
}

fn mode(cx: &Context<'_>, findings: &mut Findings) -> Mode {
    let keys = ["permissions", "mode"];
    let named = cx.pick(
        cx.spec.permissions.mode,
        |defaults| defaults.permissions.mode,
        &keys,
    );
    let ceiling = cx.project.and_then(|project| {
        let modes = project.spec.policy.modes.as_ref()?;
        Some((modes, project.policy.origin(&["modes"])))
    });
    let mode = named
        .as_ref()
        .map_or_else(Mode::default, |named| named.value);
    let origin = named
        .as_ref()
        .map_or_else(|| cx.whole(), |named| named.origin.clone());
    if let Some((allowed, ceiling)) = ceiling
        && !allowed.contains(&mode)
        && (named.is_some() || !cx.mentions(&keys))
    {
        let message = match named {
            Some(_) => format!(
                "the mode `{}` is not one that the policy allows",
                mode.name()
            ),
            None => format!(
                "the task names no mode, and the policy does not allow `{}`",
                mode.name()
            ),
        };
        findings.beyond_policy(&origin, message, &ceiling);
    }
    if mode == Mode::BypassPermissions {
        if origin.layer() == "defaults" {
            let message = "no project can switch the gate off for all its tasks";
            let hint = "name the mode in each task that needs it";
            findings.error(&origin, message, Some(hint));
        } else if cx.options.allow_bypass {
            let message =
                "the permission gate lets everything pass that no deny rule names".to_owned();
            findings.warning(&origin, Half::Value, message, None);
        } else {
            let message = format!(
                "the mode `{}` takes effect only with `{BYPASS_FLAG}` on the command line",
                mode.name()
            );
            let hint = "a task file alone cannot switch the gate off; `acceptEdits` and allow rules are narrower";
            findings.error(&origin, message, Some(hint));
        }
    }
    mode
}

/// Rules of the command line.
fn typed(rules: &[String]) -> Cow<'static, [RuleSpec]> {
    Cow::Owned(rules.iter().map(|rule| rule.as_str().into()).collect())
}

/// Parses rules, and tries their examples; what is wrong is said. Each comes with its place in the list.
fn rules(
    specs: &[RuleSpec],
    effect: Effect,
    origin: &Origin<'_>,
    findings: &mut Findings,
) -> Vec<(usize, Rule)> {
    let mut parsed = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let source = Source {
            layer: origin.layer().to_owned(),
            file: match origin {
                Origin::File { .. } => origin.file().to_owned(),
                Origin::CommandLine(option) => (*option).to_owned(),
            },
        };
        match Rule::parse(&spec.rule, effect, source) {
            Ok(rule) => {
                try_examples(&rule, spec, &origin.index(index), findings);
                parsed.push((index, rule));
            }
            Err(error) => {
                findings.error(&origin.index(index), error.message, error.hint.as_deref());
            }
        }
    }
    parsed
}

/// Says which examples of a rule are wrong.
fn try_examples(rule: &Rule, spec: &RuleSpec, origin: &Origin<'_>, findings: &mut Findings) {
    let hint = "correct the rule or its example: they disagree";
    for (index, example) in spec.matching.iter().enumerate() {
        if let Err(why) = rule.matches_example(example) {
            let message = format!(
                "the rule {} does not match its example {}: {why}",
                quoted(&spec.rule),
                quoted(example)
            );
            findings.error(&origin.key("match").index(index), message, Some(hint));
        }
    }
    for (index, example) in spec.not_matching.iter().enumerate() {
        if rule.matches_example(example).is_ok() {
            let message = format!(
                "the rule {} matches {}, which it must not",
                quoted(&spec.rule),
                quoted(example)
            );
            findings.error(&origin.key("not_match").index(index), message, Some(hint));
        }
    }
}

/// Says which rules mean more, or less, than they seem to.
fn doubt(places: &[(Rule, Origin<'_>)], around: &Surroundings<'_>, findings: &mut Findings) {
    for (rule, origin) in places {
        // What stands elsewhere is written for several tasks.
        let around = Surroundings {
            offered: around.offered.filter(|_| origin.layer() == "task"),
            ..*around
        };
        let narrow = rule.narrowness(&around);
        if let Some(doubt) = narrow.or_else(|| rule.breadth()) {
            let message = format!("the rule {} {}", quoted(rule.text()), doubt.reason);
            findings.warning(origin, Half::Value, message, Some(doubt.hint));
        }
    }
}

fn kind_of(path: &Path) -> FileKind {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => FileKind::Directory,
        Ok(metadata) if metadata.is_file() => FileKind::File,
        Ok(_) => FileKind::Special,
        Err(_) => FileKind::Missing,
    }
}

fn additional(cx: &Context<'_>, findings: &mut Findings) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let task = &cx.spec.permissions.additional_directories;
    let mut lists = vec![(cx.layer, task)];
    if let Some(project) = cx.project {
        let defaults = &project.spec.defaults.permissions.additional_directories;
        lists.insert(0, (&project.defaults, defaults));
    }
    for (layer, list) in lists {
        let origin = layer.origin(&["permissions", "additional_directories"]);
        for (index, value) in list.iter().enumerate() {
            let named = At {
                value,
                origin: origin.index(index),
            };
            found.extend(files::directory(cx, &named, findings));
        }
    }
    found
}

/// The policy's deny rules are rules, also when no task is there to meet them.
pub(super) fn check_policy(project: &Project<'_>, findings: &mut Findings) {
    let origin = project.policy.origin(&["deny"]);
    rules(&project.spec.policy.deny, Effect::Deny, &origin, findings);
}
