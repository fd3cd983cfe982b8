//! The ceilings of a task. There always is one for steps, tokens and time; none can be switched off.

use std::time::Duration;

use super::super::ModelRef;
use super::super::spec::LimitsSpec;
use super::super::tree::Half;
use super::{At, Context, Findings, Origin, Project};
use crate::budget::Limits;
use crate::check::TimeSpan;
use crate::usage::{ModelFacts, Usd};

/// One limit: how it is read, and between what it must lie. All are whole numbers here: counts, milliseconds,
/// nano-dollars.
struct Kind {
    key: &'static str,
    read: fn(&LimitsSpec) -> Option<u64>,
    least: u64,
    most: u64,
    show: fn(u64) -> String,
}

const MAX_STEPS: Kind = count("max_steps", |spec| spec.max_steps, 1000);
const MAX_TOTAL_STEPS: Kind = count("max_total_steps", |spec| spec.max_total_steps, 10_000);
const MAX_TOKENS: Kind = count("max_tokens", |spec| spec.max_tokens, 1_000_000_000);
const MAX_OUTPUT_TOKENS: Kind = count(
    "max_output_tokens",
    |spec| spec.max_output_tokens,
    1_000_000,
);
const MAX_COST: Kind = Kind {
    key: "max_cost_usd",
    read: |spec| spec.max_cost_usd.map(nanos),
    least: 1,
    most: 10_000 * 1_000_000_000,
    show: |nanos| match nanos {
        u64::MAX => "a negative amount, or none".to_owned(),
        nanos => format!("{}", Usd::from_nanos(nanos).dollars()),
    },
};
const TIMEOUT: Kind = span("timeout", |spec| spec.timeout.map(milliseconds));
const TOOL_TIMEOUT: Kind = span("tool_timeout", |spec| spec.tool_timeout.map(milliseconds));

const ALL: [Kind; 7] = [
    MAX_STEPS,
    MAX_TOTAL_STEPS,
    MAX_TOKENS,
    MAX_OUTPUT_TOKENS,
    MAX_COST,
    TIMEOUT,
    TOOL_TIMEOUT,
];

const fn count(key: &'static str, read: fn(&LimitsSpec) -> Option<u64>, most: u64) -> Kind {
    Kind {
        key,
        read,
        least: 1,
        most,
        show: |value| value.to_string(),
    }
}

const fn span(key: &'static str, read: fn(&LimitsSpec) -> Option<u64>) -> Kind {
    Kind {
        key,
        read,
        least: 1,
        most: 24 * 60 * 60 * 1000,
        show: |value| match value {
            0 => "0s".to_owned(),
            value => TimeSpan(Duration::from_millis(value)).to_string(),
        },
    }
}

fn milliseconds(span: TimeSpan) -> u64 {
    u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)
}

/// Zero for what is zero, and out of every range for what is no amount.
fn nanos(dollars: f64) -> u64 {
    Usd::from_dollars(dollars).map_or(u64::MAX, Usd::nanos)
}

impl Kind {
    /// The value if it lies in its range; otherwise that is said.
    fn in_range(&self, value: u64, origin: &Origin<'_>, findings: &mut Findings) -> Option<u64> {
        if (self.least..=self.most).contains(&value) {
            return Some(value);
        }
        let bounds = match self.least {
            1 => format!("above 0 and at most {}", (self.show)(self.most)),
            least => format!("from {} to {}", (self.show)(least), (self.show)(self.most)),
        };
        let message = format!(
            "`{}` must be {bounds}, found {}",
            self.key,
            (self.show)(value)
        );
        let hint = (value == 0).then_some("there is no way to have no limit");
        findings.error(origin, message, hint);
        None
    }

    /// What the task, or the operator, asks for.
    fn asked<'a>(
        &self,
        cx: &Context<'a>,
        option: Option<(u64, &'static str)>,
        findings: &mut Findings,
    ) -> Option<At<'a, u64>> {
        let from_option = option.map(|(value, name)| At {
            value,
            origin: Origin::CommandLine(name),
        });
        let asked = from_option.or_else(|| {
            let keys = ["limits", self.key];
            cx.pick(
                (self.read)(&cx.spec.limits),
                |defaults| (self.read)(&defaults.limits),
                &keys,
            )
        })?;
        let value = self.in_range(asked.value, &asked.origin, findings)?;
        let origin = asked.origin;
        if let Some(ceiling) = self.ceiling(cx)
            && value > ceiling
            && let Some(project) = cx.project
        {
            let message = format!(
                "`{}: {}` is more than the policy allows, which is {}",
                self.key,
                (self.show)(value),
                (self.show)(ceiling)
            );
            let place = project.policy.origin(&["limits", self.key]);
            findings.beyond_policy(&origin, message, &place);
        }
        Some(At { value, origin })
    }

    fn ceiling(&self, cx: &Context<'_>) -> Option<u64> {
        cx.project
            .and_then(|project| (self.read)(&project.spec.policy.limits))
    }

    /// What is asked for, else the built-in value, made smaller where the policy's is less.
    fn value(
        &self,
        cx: &Context<'_>,
        option: Option<(u64, &'static str)>,
        builtin: u64,
        findings: &mut Findings,
    ) -> u64 {
        match self.asked(cx, option, findings) {
            Some(asked) => asked.value,
            None => self
                .ceiling(cx)
                .map_or(builtin, |ceiling| ceiling.min(builtin)),
        }
    }
}

pub(super) fn resolve(
    cx: &Context<'_>,
    model: Option<&ModelRef>,
    turns: usize,
    findings: &mut Findings,
) -> Limits {
    let builtin = Limits::default();
    let overrides = &cx.options.overrides;
    let steps = overrides
        .max_steps
        .map(|value| (u64::from(value), "--max-steps"));
    let tokens = overrides.max_tokens.map(|value| (value, "--max-tokens"));
    let cost = overrides
        .max_cost_usd
        .map(|value| (nanos(value), "--max-cost-usd"));
    let time = overrides
        .timeout
        .map(|value| (milliseconds(TimeSpan(value)), "--timeout"));
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);

    let max_steps = MAX_STEPS.value(cx, steps, builtin.max_steps.into(), findings);
    let max_total_steps = MAX_TOTAL_STEPS
        .asked(cx, None, findings)
        .map(|asked| asked.value)
        .or_else(|| {
            let planned = max_steps.saturating_mul(turns as u64);
            MAX_TOTAL_STEPS
                .ceiling(cx)
                .filter(|ceiling| planned > *ceiling)
        });
    let max_cost = MAX_COST.asked(cx, cost, findings);
    check_price(cx, model, max_cost.as_ref(), findings);
    let max_output_tokens = MAX_OUTPUT_TOKENS.value(cx, None, builtin.max_output_tokens, findings);
    check_output(cx, model, max_output_tokens, findings);
    let millis = |duration: Duration| milliseconds(TimeSpan(duration));
    let timeout = TIMEOUT.value(cx, time, millis(builtin.timeout), findings);
    let tool_timeout = TOOL_TIMEOUT.value(cx, None, millis(builtin.tool_timeout), findings);
    Limits {
        max_steps: small(max_steps),
        max_total_steps: max_total_steps.map(small),
        max_tokens: MAX_TOKENS.value(cx, tokens, builtin.max_tokens, findings),
        max_output_tokens,
        max_cost: max_cost
            .map(|asked| asked.value)
            .or_else(|| MAX_COST.ceiling(cx))
            .map(Usd::from_nanos),
        timeout: Duration::from_millis(timeout),
        tool_timeout: Duration::from_millis(tool_timeout),
        wrap_up: wrap_up(cx),
    }
}

/// The operator may switch the wrap-up off for all tasks, as it costs a call.
fn wrap_up(cx: &Context<'_>) -> bool {
    let asked = cx.pick(
        cx.spec.limits.wrap_up,
        |defaults| defaults.limits.wrap_up,
        &["limits", "wrap_up"],
    );
    let policy = cx
        .project
        .and_then(|project| project.spec.policy.limits.wrap_up);
    asked.is_none_or(|asked| asked.value) && policy != Some(false)
}

/// A limit on money needs a price; without one it would never be reached.
fn check_price(
    cx: &Context<'_>,
    model: Option<&ModelRef>,
    asked: Option<&At<'_, u64>>,
    findings: &mut Findings,
) {
    let Some(ModelRef::Anthropic { id }) = model else {
        return;
    };
    if ModelFacts::of(id).is_some() {
        return;
    }
    let message = format!("`max_cost_usd` cannot be kept: the price of `{id}` is not known");
    if let Some(asked) = asked {
        let hint = Some("limit the tokens with `max_tokens`");
        findings.error(&asked.origin, message, hint);
    } else if let Some(project) = cx.project
        && MAX_COST.ceiling(cx).is_some()
    {
        let ceiling = project.policy.origin(&["limits", MAX_COST.key]);
        findings.beyond_policy(&cx.layer.origin(&["model"]), message, &ceiling);
    }
}

/// Said before the first call, which the provider would refuse.
fn check_output(
    cx: &Context<'_>,
    model: Option<&ModelRef>,
    max_output_tokens: u64,
    findings: &mut Findings,
) {
    let Some(ModelRef::Anthropic { id }) = model else {
        return;
    };
    let keys = ["limits", MAX_OUTPUT_TOKENS.key];
    if let Some(facts) = ModelFacts::of(id)
        && facts.max_output_tokens < max_output_tokens
        && cx.layer.mentions(&keys)
    {
        let message = format!(
            "`{id}` is known to give at most {} output tokens in one call",
            facts.max_output_tokens
        );
        findings.warning(&cx.layer.origin(&keys), Half::Value, message, None);
    }
}

/// The policy's own numbers lie in their ranges.
pub(super) fn check_policy(project: &Project<'_>, findings: &mut Findings) {
    for kind in &ALL {
        if let Some(value) = (kind.read)(&project.spec.policy.limits) {
            let origin = project.policy.origin(&["limits", kind.key]);
            kind.in_range(value, &origin, findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_and_the_loader_have_the_same_ranges() {
        let schema = serde_json::to_value(schemars::schema_for!(LimitsSpec)).unwrap();
        for kind in &ALL {
            let property = &schema["properties"][kind.key];
            let Some(most) = property["maximum"].as_f64() else {
                assert!(kind.key.ends_with("timeout"), "{}: {property}", kind.key);
                continue;
            };
            let shown: f64 = (kind.show)(kind.most).parse().unwrap();
            assert!((shown - most).abs() < 1e-9, "{}", kind.key);
        }
    }
}
