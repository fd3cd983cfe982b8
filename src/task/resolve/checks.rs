//! Checks: what a task file says about them becomes something that can run. The schema of a structured answer belongs to
//! them, as does every model that judges.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::ModelRef;
use super::{At, Context, Findings, Origin, model};
use crate::check::{self, Check, CheckSpec, OutputSpec, Problem, Step, World};
use crate::policy::{Effect, Rule, Source};
use crate::tool::{Registry, STRUCTURED_OUTPUT, StructuredOutput};

/// What checks come to.
#[derive(Default)]
pub(super) struct Checks {
    /// In the order in which they run.
    pub(super) list: Vec<Arc<dyn Check>>,
    /// The schema of the structured answer.
    pub(super) output_schema: Option<Arc<Value>>,
    /// The models of judges, by the names in the file.
    pub(super) judges: BTreeMap<String, ModelRef>,
}

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Checks {
    let mut checks = Checks {
        output_schema: output_schema(cx, findings),
        ..Checks::default()
    };
    let world = World {
        variables: &cx.options.env,
        directory: cx.layer.directory,
        output_schema: checks.output_schema.as_deref(),
        depth: 0,
    };
    // What was promised is looked at, whether the file says so or not.
    let is_looked_at = cx.spec.checks.iter().any(|spec| spec.kind() == "output");
    if world.output_schema.is_some() && !is_looked_at {
        let promised = CheckSpec::Output(OutputSpec::default()).build(world);
        checks.list.extend(promised);
    }
    let all = cx.layer.origin(&["checks"]);
    for (index, spec) in cx.spec.checks.iter().enumerate() {
        let origin = all.index(index).key(spec.kind());
        for (path, name) in spec.models() {
            let named = At {
                value: &name.to_owned(),
                origin: below(&origin, &path),
            };
            if let Some(model) = model::resolve_named(cx, &named, findings) {
                checks.judges.insert(name.to_owned(), model);
            }
        }
        // Without its schema, what would be said about an `output` is not true.
        let is_moot = spec.kind() == "output"
            && world.output_schema.is_none()
            && cx.mentions(&["output_schema"]);
        match spec.clone().build(world) {
            Ok(check) => checks.list.push(check),
            Err(_) if is_moot => {}
            Err(problems) => {
                for problem in problems {
                    tell(&origin, problem, findings);
                }
            }
        }
    }
    if !checks.list.is_empty() && checks.list.iter().all(|check| only_judges(check.as_ref())) {
        let message = "nothing but a model\'s opinion decides on this task".to_owned();
        let hint =
            "add a check that a model cannot be talked out of: `command`, `file`, `changed`, ...";
        let half = super::Half::Key;
        findings.warning(&all, half, message, Some(hint.to_owned()));
    }
    checks
}

fn below<'a>(origin: &Origin<'a>, path: &[Step]) -> Origin<'a> {
    path.iter().fold(origin.clone(), |origin, step| match step {
        Step::Key(name) => origin.key(name),
        Step::Index(index) => origin.index(*index),
    })
}

fn tell(origin: &Origin<'_>, problem: Problem, findings: &mut Findings) {
    let place = below(origin, &problem.path);
    // A check that lacks what was taken out of it has been spoken of.
    if problem.is_lack && place.lost_part() {
        return;
    }
    findings.error(&place, problem.message, problem.hint.as_deref());
}

/// Whether the answer of a check hangs on judges alone.
fn only_judges(check: &dyn Check) -> bool {
    match check.parts() {
        [] => check.kind() == "judge",
        parts => parts.iter().all(|part| only_judges(part.as_ref())),
    }
}

/// The schema of the structured answer, which has to be one that a tool can have.
fn output_schema(cx: &Context<'_>, findings: &mut Findings) -> Option<Arc<Value>> {
    let spec = cx.spec.output_schema.as_ref()?;
    let origin = cx.layer.origin(&["output_schema"]);
    let checked = spec.read(cx.layer.directory).and_then(|schema| {
        check::compile(&schema)?;
        let tool = StructuredOutput::new(schema.clone(), "output.json".into());
        Registry::default().register(Arc::new(tool))?;
        Ok(schema)
    });
    match checked {
        Ok(schema) => Some(Arc::new(schema)),
        Err(why) => {
            let hint =
                "the answer is an object: `{ type: object, properties: { … }, required: [ … ] }`";
            findings.error(&origin, why, Some(hint));
            None
        }
    }
}

/// The rule by which the gate lets the structured answer pass: the task file asks for it.
pub(super) fn output_rule(cx: &Context<'_>, schema: Option<&Arc<Value>>) -> Option<Rule> {
    schema?;
    let source = Source {
        layer: cx.layer.name.to_owned(),
        file: format!("{} (output_schema)", cx.layer.document.file),
    };
    Rule::parse_with(
        STRUCTURED_OUTPUT,
        Effect::Allow,
        source,
        &[STRUCTURED_OUTPUT],
    )
    .ok()
}
