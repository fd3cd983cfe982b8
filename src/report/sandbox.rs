//! What every report says of the sandbox: what is enforced, and loudly what is not.

use std::collections::BTreeMap;

use super::summary::Summary;
use crate::event::SandboxRecord;
use crate::text;

/// How many tasks are named beside a warning.
const NAMED: usize = 5;
/// The longest list of what is missing, in bytes.
const MISSING: usize = 600;

/// The sandbox on one line: mode, what enforces it, network.
#[must_use]
pub fn in_short(record: &SandboxRecord) -> String {
    let mode = if record.mode.is_empty() {
        "unknown"
    } else {
        &record.mode
    };
    if record.mode == "off" || !record.used {
        let why = if record.used || record.mode == "off" || record.mode.is_empty() {
            ""
        } else {
            ": no process is started"
        };
        return format!("{mode}{why}");
    }
    let layers = if record.layers.is_empty() {
        "nothing".to_owned()
    } else {
        record.layers.join(", ")
    };
    let network = if record.hosts.is_empty() {
        record.network.clone()
    } else {
        format!("only {}", record.hosts.join(", "))
    };
    format!("{mode}: {layers}; network {network}")
}

/// The warning that stands wherever processes were not wholly confined.
#[must_use]
pub fn warning(record: &SandboxRecord) -> Option<String> {
    if !record.used {
        return None;
    }
    if record.mode == "off" {
        return Some("WARNING: sandbox off: processes ran with all rights of the user".to_owned());
    }
    if record.layers.is_empty() {
        return Some(
            "WARNING: NO SANDBOX works on this machine: processes ran with all rights of the user"
                .to_owned(),
        );
    }
    if record.missing.is_empty() {
        return None;
    }
    let missing = record.missing.join("; ");
    let layers = record.layers.join(", ");
    Some(format!(
        "WARNING: the sandbox ({layers}) is not whole, it does not hold: {}",
        text::head(&missing, MISSING)
    ))
}

/// The warnings of a run, each once, with the tasks that it is about.
#[must_use]
pub fn warnings(summary: &Summary) -> Vec<String> {
    let mut tasks: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for task in &summary.tasks {
        if let Some(warning) = warning(&task.sandbox) {
            tasks.entry(warning).or_default().push(&task.name);
        }
    }
    let line = |(warning, names): (String, Vec<&str>)| {
        let shown: Vec<String> = names
            .iter()
            .take(NAMED)
            .map(|name| text::visible_line(name))
            .collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        format!(
            "{}{more}: {}",
            shown.join(", "),
            text::visible_line(&warning)
        )
    };
    tasks.into_iter().map(line).take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(mode: &str, layers: &[&str], missing: &[&str]) -> SandboxRecord {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        SandboxRecord {
            mode: mode.to_owned(),
            network: "deny".to_owned(),
            hosts: Vec::new(),
            used: true,
            layers: owned(layers),
            held: Vec::new(),
            missing: owned(missing),
        }
    }

    #[test]
    fn a_whole_sandbox_is_no_warning_and_everything_less_is() {
        assert_eq!(warning(&record("auto", &["bubblewrap"], &[])), None);
        assert!(
            warning(&record("off", &[], &[]))
                .unwrap()
                .contains("sandbox off")
        );
        assert!(
            warning(&record("auto", &[], &["everything"]))
                .unwrap()
                .contains("NO SANDBOX")
        );
        let partial = warning(&record("auto", &["landlock"], &["x", "y"])).unwrap();
        assert!(
            partial.contains("(landlock)") && partial.ends_with("x; y"),
            "{partial}"
        );
        let unused = SandboxRecord {
            used: false,
            ..record("off", &[], &[])
        };
        assert_eq!(warning(&unused), None);
    }

    #[test]
    fn one_line_says_what_enforces() {
        assert_eq!(
            in_short(&record("auto", &["a", "b"], &[])),
            "auto: a, b; network deny"
        );
        assert_eq!(in_short(&record("off", &[], &[])), "off");
        assert_eq!(in_short(&SandboxRecord::default()), "unknown");
    }
}
