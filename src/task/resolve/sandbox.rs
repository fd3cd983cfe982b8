//! How the task's processes are held, and whether they reach the network. The policy names the least and the most.

use super::{At, Context, Findings, Origin};
use crate::sandbox::{Mode, Network};

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> (Mode, Network) {
    (mode(cx, findings), network(cx, findings))
}

fn mode(cx: &Context<'_>, findings: &mut Findings) -> Mode {
    let typed = cx.options.overrides.sandbox.map(|value| At {
        value,
        origin: Origin::CommandLine("--sandbox"),
    });
    let named =
        typed.or_else(|| cx.pick(cx.spec.sandbox, |defaults| defaults.sandbox, &["sandbox"]));
    let least = cx.project.and_then(|project| {
        let least = project.spec.policy.sandbox?;
        Some((least, project.policy.origin(&["sandbox"])))
    });
    let least_mode = least.as_ref().map_or(Mode::Off, |(least, _)| *least);
    let Some(named) = named else {
        return Mode::default().max(least_mode);
    };
    if let Some((least, ceiling)) = least
        && named.value < least
    {
        let message = format!(
            "the sandbox `{}` is less than the `{}` that the policy demands",
            named.value.name(),
            least.name()
        );
        findings.beyond_policy(&named.origin, message, &ceiling);
    }
    named.value
}

fn network(cx: &Context<'_>, findings: &mut Findings) -> Network {
    let named = cx.pick(cx.spec.network, |defaults| defaults.network, &["network"]);
    let Some(named) = named else {
        return Network::default();
    };
    if let Some(project) = cx.project
        && let Some(most) = project.spec.policy.network
        && named.value > most
    {
        let message = "the policy allows no network".to_owned();
        findings.beyond_policy(&named.origin, message, &project.policy.origin(&["network"]));
    }
    named.value
}
