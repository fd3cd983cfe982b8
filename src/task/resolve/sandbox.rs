//! How the task's processes are held, and whether they reach the network. The policy names the least and the most.

use std::path::Path;

use super::super::network_spec::NetworkSpec;
use super::{At, Context, Findings, Origin, Project};
use crate::policy::url::host_name;
use crate::sandbox::{Mode, Network};
use crate::task::Task;

pub(super) fn resolve(cx: &Context<'_>, findings: &mut Findings) -> (Mode, Network, Vec<String>) {
    let mode = mode(cx, findings);
    let (network, hosts) = network(cx, mode, findings);
    (mode, network, hosts)
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

/// What of the network is reached, and the hosts where it is only some.
fn network(cx: &Context<'_>, mode: Mode, findings: &mut Findings) -> (Network, Vec<String>) {
    let named = cx.pick(
        cx.spec.network.as_ref(),
        |defaults| defaults.network.as_ref(),
        &["network"],
    );
    let Some(named) = named else {
        return (Network::default(), Vec::new());
    };
    let (network, hosts) = match named.value {
        NetworkSpec::Deny => (Network::Deny, Vec::new()),
        NetworkSpec::Allow => (Network::Allow, Vec::new()),
        NetworkSpec::Hosts(list) => {
            let hosts = hosts(list, &named.origin, findings);
            // An empty list is no list that lets everything through.
            let some = if hosts.is_empty() {
                Network::Deny
            } else {
                Network::Hosts
            };
            (some, hosts)
        }
    };
    if network == Network::Hosts && mode == Mode::Off {
        findings.error(
            &named.origin,
            "only the sandbox can hold a task to some hosts, and it is `off`",
            Some("use `sandbox: auto` or `sandbox: required`, or say `network: allow`"),
        );
    }
    if let Some(project) = cx.project
        && let Some(most) = &project.spec.policy.network
        && let Some(message) = beyond(network, &hosts, most)
    {
        findings.beyond_policy(&named.origin, message, &project.policy.origin(&["network"]));
    }
    (network, hosts)
}

/// What of it the policy does not allow, in words.
fn beyond(network: Network, hosts: &[String], most: &NetworkSpec) -> Option<String> {
    let allowed: Vec<String> = match most {
        NetworkSpec::Allow => return None,
        NetworkSpec::Deny => Vec::new(),
        NetworkSpec::Hosts(list) => list
            .iter()
            .filter_map(|host| host_name(host).ok())
            .collect(),
    };
    if network == Network::Deny {
        return None;
    }
    if allowed.is_empty() {
        return Some("the policy allows no network".to_owned());
    }
    if network == Network::Allow {
        return Some("the policy allows only some hosts of the network".to_owned());
    }
    let other = hosts.iter().find(|host| !allowed.contains(host))?;
    Some(format!("the policy does not allow the host `{other}`"))
}

/// The hosts in canonical form, each once.
fn hosts(list: &[String], origin: &Origin<'_>, findings: &mut Findings) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for host in list {
        match host_name(host) {
            Ok(host) if hosts.contains(&host) => {}
            Ok(host) => hosts.push(host),
            Err(why) => findings.error(
                origin,
                format!("the host `{host}` {why}"),
                Some("name each host alone and in full, as in `static.crates.io`: no wildcard, scheme, port or path"),
            ),
        }
    }
    hosts
}

/// Looks at the hosts of the policy.
pub(super) fn check_policy(project: &Project<'_>, findings: &mut Findings) {
    if let Some(NetworkSpec::Hosts(list)) = &project.spec.policy.network {
        hosts(list, &project.policy.origin(&["network"]), findings);
    }
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
