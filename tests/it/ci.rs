//! The CI examples in the documents: the commands that stand in them are run with the variables that each system sets. The example for GitHub
//! is run as a whole, in `action.rs`.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::documents;
use crate::sandbox::{Run, Sandbox};

fn documents_of_ci(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/ci")
        .join(name);
    let text = fs::read_to_string(path).unwrap();
    serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

/// Three tasks, and the program on the search path.
pub(crate) fn checkout() -> Sandbox {
    let program = Path::new(env!("CARGO_BIN_EXE_agent-batch"))
        .parent()
        .unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut sandbox = Sandbox::new()
        .env("PATH", &path)
        .file("replies.yaml", "- text: done\n");
    for name in ["one", "two", "three"] {
        sandbox = sandbox.named_task(name, "model: scripted/../replies.yaml\ntools: []\n");
    }
    sandbox
}

fn passed(run: Run) -> Run {
    assert!(
        run.output.status.success(),
        "{}{}",
        run.stdout(),
        run.stderr()
    );
    run
}

pub(crate) fn merged(summary: &str) {
    let summary: Value = serde_json::from_str(summary).unwrap();
    assert_eq!(summary["totals"]["passed"], 3);
    assert_eq!(summary["merge"]["directories"].as_array().unwrap().len(), 4);
}

/// The `with` of every step that uses the action, wherever it stands in a document.
fn uses(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let action = fields.get("uses").and_then(Value::as_str);
            if action.is_some_and(|action| action.starts_with("agent-batch/agent-batch@")) {
                let given = fields.get("with").and_then(Value::as_object);
                found.extend(given.into_iter().flat_map(|given| given.keys().cloned()));
            }
            fields.values().for_each(|field| uses(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| uses(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_examples_are_mentioned_and_give_the_action_inputs_that_it_has() {
    let action: Value = serde_yaml::from_str(&documents::read("action.yml")).unwrap();
    let mut found = Vec::new();
    uses(&documents_of_ci("github.yml").remove(0), &mut found);
    for page in documents::all() {
        for block in documents::blocks(&documents::read(&page), "yaml") {
            if block.contains("uses: ") {
                uses(&serde_yaml::from_str(&block).unwrap(), &mut found);
            }
        }
    }
    assert!(found.len() >= 5, "{found:?}");
    for input in found {
        assert!(
            action["inputs"][&input].is_object(),
            "there is no input `{input}`"
        );
    }
    let pages: String = documents::all()
        .iter()
        .map(|page| documents::read(page))
        .collect();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            pages.contains(&format!("(ci/{name})")),
            "no page links `{name}`"
        );
    }
}

#[test]
fn the_gitlab_example_runs_and_merges() {
    let sandbox = checkout();
    let file = documents_of_ci("gitlab.yml").remove(0);
    let script = |job: &str| file[job]["script"][0].as_str().unwrap().to_owned();
    let total = file["agents"]["parallel"].as_u64().unwrap();
    for index in 1..=total {
        let line = format!(
            "export GITLAB_CI=true CI_NODE_INDEX={index} CI_NODE_TOTAL={total}; {}",
            script("agents")
        );
        passed(sandbox.shell(&line));
    }
    let line = format!("export GITLAB_CI=true; {}", script("merge"));
    let run = passed(sandbox.shell(&line));
    merged(&run.read("agent-batch-results/summary.json"));
    let reports = file["merge"]["artifacts"]["reports"].as_object().unwrap();
    assert_eq!(reports.len(), 2);
    for path in reports.values() {
        assert!(run.path(path.as_str().unwrap()).exists(), "{path}");
    }
}

#[test]
fn the_kubernetes_example_runs_is_killed_goes_on_and_merges() {
    let sandbox = checkout();
    let results = sandbox.path().join("results");
    fs::create_dir(&results).unwrap();
    let jobs = documents_of_ci("kubernetes.yaml");
    let script = |job: &Value| {
        let command = &job["spec"]["template"]["spec"]["containers"][0]["command"];
        let line = command[2].as_str().unwrap();
        line.replace("/results", &results.display().to_string())
    };
    let count = jobs[0]["spec"]["completions"].as_u64().unwrap();
    // Every pod is started twice, as after the loss of a node.
    for index in (0..count).chain(0..count) {
        let line = format!("export JOB_COMPLETION_INDEX={index}\n{}", script(&jobs[0]));
        passed(sandbox.shell(&line));
    }
    let run = passed(sandbox.shell(&script(&jobs[1])));
    merged(&run.read("results/merged/summary.json"));
}
