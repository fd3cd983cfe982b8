//! The CI examples in the documents: the commands that stand in them are run with the variables that each system sets. The example of a matrix for
//! GitHub is run as a whole, in `action.rs`.

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
    for example in ["github.yml", "github-nightly.yml"] {
        uses(&documents_of_ci(example).remove(0), &mut found);
    }
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
    // What `allow_failure` lets through: one shard, then all of them have left nothing.
    sandbox.shell(&format!("rm -r shard-2; {line}")).exit(3);
    sandbox.shell(&format!("rm -r shard-*; {line}")).exit(2);
}

/// Stands in for GitHub's command line: `runs` are the identifiers that it lists, `store/` holds the artifact of run 8 alone.
const GH: &str = r#"#!/bin/sh
run=$3
case "$1 $2" in
"run list") exec cat runs ;;
"run download") ;;
*) exit 9 ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
  --name) name=$2 ;;
  --dir) to=$2 ;;
  esac
  shift
done
[ "$run" = 8 ] && mkdir -p "$to" && cp -a "store/$name/." "$to"
"#;

#[test]
fn the_nightly_example_compares_each_night_with_the_last_one_that_left_results() {
    let sandbox = checkout().program("bin/gh", GH).file("runs", "");
    let workflow = documents_of_ci("github-nightly.yml").remove(0);
    let steps = workflow["jobs"]["agents"]["steps"].as_array().unwrap();
    let fetch = steps.iter().find_map(|step| step["run"].as_str()).unwrap();
    let with = |action: &str| {
        let of_action = |step: &&Value| step["uses"].as_str().unwrap_or("").starts_with(action);
        &steps.iter().find(of_action).unwrap()["with"]
    };
    let (given, kept) = (
        with("agent-batch/agent-batch@"),
        with("actions/upload-artifact@"),
    );
    let temp = sandbox.path().join("runner");
    let place = |input: &str| {
        let place = given[input].as_str().unwrap();
        place.replace("${{ runner.temp }}", &temp.display().to_string())
    };
    let baseline = place("baseline");
    assert_eq!(place("history"), baseline);
    let fetched = || {
        sandbox.shell(&format!(
            "rm -rf runner; mkdir runner; export PATH=\"$PWD/bin:$PATH\" GITHUB_REPOSITORY=o/r GITHUB_WORKFLOW=w GITHUB_REF_NAME=main RUNNER_TEMP='{}'\nset -e\n{fetch}",
            temp.display()
        ))
    };
    let night = |options: &[&str]| {
        let out = kept["path"].as_str().unwrap();
        let mut args = vec!["tasks/*.yaml", "--out", out];
        args.extend(options);
        let run = sandbox.call(&args);
        let artifact = format!("store/{}", kept["name"].as_str().unwrap());
        passed(sandbox.shell(&format!(
            "rm -rf store; mkdir store; mv '{out}' '{artifact}'; printf '9\\n8\\n7\\n' >runs"
        )));
        run
    };
    // In the first night there is nothing to fetch, which is no mistake.
    passed(fetched());
    assert!(!Path::new(&baseline).exists());
    passed(night(&[]));
    let gate = given["gate"].as_str().unwrap();
    let compared = [
        "--baseline",
        &baseline,
        "--gate",
        gate,
        "--history",
        &baseline,
    ];
    // Then a task breaks, and stays so.
    let path = sandbox.path().join("tasks/two.yaml");
    let task = fs::read_to_string(&path).unwrap();
    fs::write(&path, task + "checks: [{ reply: { contains: never } }]\n").unwrap();
    for code in [1, 0] {
        passed(fetched());
        night(&compared).exit(code);
    }
    // A list that cannot be had must not pass for a first night.
    fs::remove_file(sandbox.path().join("runs")).unwrap();
    assert!(!fetched().output.status.success());
}

#[test]
fn the_image_holds_this_program_and_what_it_needs() {
    let text = documents::read("docs/ci/Dockerfile");
    let repository = env!("CARGO_PKG_REPOSITORY");
    assert!(text.contains(&format!("cargo install --locked --git {repository} ")));
    assert!(text.contains(" bash bubblewrap ca-certificates git "));
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
