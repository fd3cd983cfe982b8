//! Checks: what a task file says about them becomes something that can run.

use std::sync::Arc;

use super::{Context, Findings};
use crate::check::Check;

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> Vec<Arc<dyn Check>> {
    let mut checks = Vec::new();
    for (index, spec) in cx.spec.checks.iter().enumerate() {
        let origin = cx.layer.origin(&["checks"]).index(index).key(spec.kind());
        match spec.clone().build(&cx.options.env) {
            Ok(check) => checks.push(check),
            Err(problems) => {
                for problem in problems {
                    // A check that lacks what was taken out of it has been spoken of.
                    if problem.field.is_none() && origin.lost_part() {
                        continue;
                    }
                    let origin = match problem.field {
                        Some((field, Some(index))) => origin.key(field).index(index),
                        Some((field, None)) => origin.key(field),
                        None => origin.clone(),
                    };
                    findings.error(&origin, problem.message, problem.hint.as_deref());
                }
            }
        }
    }
    checks
}
