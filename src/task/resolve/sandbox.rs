//! How the task's processes are held, and whether they reach the network. The policy names the least and the most.

use std::path::Path;

use super::{At, Context, Findings, Origin};
use crate::sandbox::{Mode, Network};
use crate::task::Task;

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

/// A directory that holds the home of whoever runs us, or the whole machine, is not to be given to a task whose processes
/// are held by a sandbox: what is hidden in it is hidden by name, and everything else of a home is read and written.
pub(super) fn check_places(cx: &Context<'_>, task: &Task, findings: &mut Findings) {
    if task.sandbox == Mode::Off || !task.starts_processes() {
        return;
    }
    let home = cx.options.env.get("HOME").map(Path::new);
    let home = home.and_then(|home| home.canonicalize().ok());
    let holds = |place: &Path| {
        place.parent().is_none() || home.as_ref().is_some_and(|home| home.starts_with(place))
    };
    let named = [("workspace", &task.workspace)].into_iter().chain(
        task.additional
            .iter()
            .map(|directory| ("permissions", directory)),
    );
    for (key, place) in named.filter(|(_, place)| holds(place)) {
        let what = if place.parent().is_none() {
            "the whole machine"
        } else {
            "the home directory"
        };
        let message = format!(
            "`{}` holds {what}, which no sandbox can keep from the processes of this task",
            place.display()
        );
        let hint =
            "name a checkout below it, run with `HOME` set to another directory, or `sandbox: off`";
        findings.key_error(&cx.layer.origin(&[key]), message, Some(hint));
    }
}
