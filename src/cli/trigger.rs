//! What started the job. Some events of GitHub run with the repository's secrets and carry text, or a checkout, of
//! whoever opened an issue: a run that one of them started has to be switched on, and then starts no process and
//! reaches no network.

use std::path::Path;

use serde_json::Value;

use crate::cli::settings::Settings;
use crate::file;
use crate::sandbox::Network;
use crate::task::Task;

/// Events that run with the secrets of the base repository, whoever caused them.
const OPEN_TO_ALL: [&str; 10] = [
    "pull_request_target",
    "issue_comment",
    "issues",
    "workflow_run",
    "discussion",
    "discussion_comment",
    "commit_comment",
    "gollum",
    "fork",
    "watch",
];
/// Who may write to the repository, as GitHub says it.
const MAY_WRITE: [&str; 3] = ["OWNER", "MEMBER", "COLLABORATOR"];
/// The largest payload that is read, in bytes.
const LARGEST_PAYLOAD: u64 = 32 * 1024 * 1024;

/// Why no task may start; nothing if all may.
///
/// `allowed` is the operator's flag.
pub(super) fn refusal(settings: &Settings, allowed: bool, tasks: &[Task]) -> Option<String> {
    if settings.variable("GITHUB_ACTIONS") != Some("true") {
        return None;
    }
    let event = settings.variable("GITHUB_EVENT_NAME")?;
    let payload = settings.file("GITHUB_EVENT_PATH").and_then(payload);
    let why = distrust(event, payload.as_ref())?;
    if !allowed {
        return Some(format!(
            "the event `{event}` started this job, and {why}; start agents from `push`, `schedule`, `workflow_dispatch` or \
             `pull_request`, or name `--allow-untrusted-trigger`, which lets tasks run that start no process and have no network"
        ));
    }
    let (task, what) = tasks.iter().find_map(|task| Some((task, reach(task)?)))?;
    Some(format!(
        "{}: the event `{event}` started this job, and {why}; a task may then start no process and have no network, and this \
         one has {what}",
        task.file
    ))
}

fn payload(path: &Path) -> Option<Value> {
    serde_json::from_slice(&file::read(path, LARGEST_PAYLOAD).ok()?).ok()
}

/// Why an event is not to be trusted. What the payload does not say counts against it.
fn distrust(event: &str, payload: Option<&Value>) -> Option<String> {
    if !OPEN_TO_ALL.contains(&event) {
        return None;
    }
    let Some(payload) = payload else {
        return Some("its payload cannot be read".to_owned());
    };
    if payload["sender"]["type"] != "User" {
        return Some("no person caused it".to_owned());
    }
    if event == "workflow_run" {
        let (head, base) = (
            &payload["workflow_run"]["head_repository"]["id"],
            &payload["repository"]["id"],
        );
        return (!head.is_u64() || head != base)
            .then(|| "it runs on the result of another repository's code".to_owned());
    }
    let subjects = ["comment", "issue", "pull_request", "discussion", "review"];
    let subjects: Vec<&Value> = subjects
        .iter()
        .filter_map(|subject| payload.get(subject))
        .collect();
    let may_write = |subject: &&Value| {
        let association = subject["author_association"].as_str().unwrap_or("NONE");
        MAY_WRITE.contains(&association)
    };
    let head = &payload["pull_request"]["head"]["repo"]["id"];
    if !head.is_null() && *head != payload["repository"]["id"] {
        return Some("the pull request comes from another repository".to_owned());
    }
    if subjects.is_empty() || !subjects.iter().all(may_write) {
        return Some("it carries the text of somebody who may not write here".to_owned());
    }
    None
}

/// What of a task reaches beyond files.
fn reach(task: &Task) -> Option<&'static str> {
    if starts_processes(task) {
        Some("a tool, a hook or a check that can start one")
    } else if task.network != Network::Deny {
        Some("the network")
    } else {
        None
    }
}

/// Whether anything in a task can start a process. A tool that is not known here counts as one that does.
pub(super) fn starts_processes(task: &Task) -> bool {
    const FILES: [&str; 5] = ["Read", "Glob", "Grep", "Edit", "Write"];
    task.tools
        .iter()
        .any(|tool| !FILES.contains(&tool.as_str()))
        || !task.hooks.is_empty()
        || task.checks.iter().any(|check| check.starts_processes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn person(extra: &Value) -> Value {
        let mut payload = json!({"sender": {"type": "User"}, "repository": {"id": 1}});
        for (name, value) in extra.as_object().unwrap() {
            payload[name] = value.clone();
        }
        payload
    }

    #[test]
    fn events_that_anybody_causes_are_trusted_only_if_all_authors_may_write() {
        let by = |who: &str| json!({"author_association": who});
        let trusted = [
            (
                "issue_comment",
                person(&json!({"comment": by("OWNER"), "issue": by("MEMBER")})),
            ),
            ("issues", person(&json!({"issue": by("COLLABORATOR")}))),
            (
                "pull_request_target",
                person(
                    &json!({"pull_request": {"author_association": "OWNER", "head": {"repo": {"id": 1}}}}),
                ),
            ),
            (
                "workflow_run",
                person(&json!({"workflow_run": {"head_repository": {"id": 1}}})),
            ),
            ("push", json!({})),
            ("pull_request", json!({})),
            ("schedule", json!({})),
        ];
        for (event, payload) in trusted {
            assert_eq!(distrust(event, Some(&payload)), None, "{event}");
        }
        let distrusted = [
            (
                "issue_comment",
                person(&json!({"comment": by("OWNER"), "issue": by("NONE")})),
            ),
            (
                "issue_comment",
                person(&json!({"comment": by("CONTRIBUTOR")})),
            ),
            (
                "issue_comment",
                json!({"comment": by("OWNER"), "sender": {"type": "Bot"}}),
            ),
            ("issues", person(&json!({"issue": {}}))),
            ("issues", person(&json!({}))),
            ("fork", person(&json!({}))),
            (
                "pull_request_target",
                person(
                    &json!({"pull_request": {"author_association": "OWNER", "head": {"repo": {"id": 2}}}}),
                ),
            ),
            (
                "workflow_run",
                person(&json!({"workflow_run": {"head_repository": {"id": 2}}})),
            ),
            (
                "workflow_run",
                person(&json!({"workflow_run": {"head_repository": null}})),
            ),
        ];
        for (event, payload) in distrusted {
            assert!(
                distrust(event, Some(&payload)).is_some(),
                "{event}: {payload}"
            );
        }
        assert!(distrust("issues", None).is_some());
    }
}
