//! The documents are held against what they describe: the outcome table, the table of tools, the keys of task files and the
//! list of what a run leaves. A row that is missing, or one too many, fails here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agent_batch::outcome::{Exit, Outcome, Tally, Verdict};
use agent_batch::tool;
use serde_json::Value;

use crate::sandbox::{Run, Sandbox};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap()
}

/// The pages at the top of the repository, and those in `docs/`.
pub(crate) fn all() -> Vec<String> {
    let mut found = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
    ]
    .map(str::to_owned)
    .to_vec();
    let pages = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    found.extend(
        pages
            .filter(|name| name.ends_with(".md"))
            .map(|name| format!("docs/{name}")),
    );
    found.sort();
    assert!(found.len() >= 15, "{found:?}");
    found
}

/// The fenced blocks of a language.
pub(crate) fn blocks(text: &str, language: &str) -> Vec<String> {
    text.split(&format!("```{language}\n"))
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// The cells of every row of tables that begins with code, without the marks of the first cell.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells = line.trim_matches('|').split(" | ");
            cells
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect()
}

/// The section under a heading, without those under further ones.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text
        .split_once(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no section `{heading}`"));
    rest.split("\n## ").next().unwrap()
}

#[test]
fn the_outcome_table_is_the_one_in_the_program() {
    let documented = rows(&read("docs/outcomes.md"));
    let names: Vec<&str> = documented.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, Outcome::ALL.map(Outcome::name));
    for (row, outcome) in documented.iter().zip(Outcome::ALL) {
        let [_, meaning, junit, exit, again, trial, advice] = row.as_slice() else {
            panic!("{row:?}");
        };
        assert!(!meaning.is_empty() && !advice.is_empty(), "{row:?}");
        let verdict = outcome.verdict();
        let element = match verdict {
            Verdict::Passed => "none",
            Verdict::Failed => "failure",
            Verdict::Errored => "error",
            Verdict::Skipped => "skipped",
        };
        assert_eq!(junit, element, "{row:?}");
        assert_eq!(*exit, Exit::of([outcome]).code().to_string(), "{row:?}");
        // What was cut or not started is the run's affair: a retry within it would be cut as well.
        let is_cut = matches!(outcome, Outcome::Cancelled | Outcome::NotRun);
        let retried = outcome.row().retryable && !is_cut;
        let resumed = matches!(verdict, Verdict::Errored | Verdict::Skipped);
        assert_eq!(
            (again.contains("retries"), again.contains("--resume")),
            (retried, resumed),
            "{row:?}"
        );
        let mut tally = Tally::default();
        tally.note(outcome);
        let counted = match (tally.passed, tally.failed, tally.errored) {
            (1, 0, 0) => "passed",
            (0, 1, 0) => "failed",
            (0, 0, 1) => "nothing measured",
            _ => "not counted",
        };
        assert_eq!(trial, counted, "{row:?}");
    }
}

/// The type of an input as the page tells it.
fn type_of(schema: &Value) -> String {
    match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several[0].as_str().unwrap().to_owned(),
        _ => "string".to_owned(),
    }
}

#[test]
fn every_tool_is_documented_with_all_its_inputs_and_a_call_that_its_rule_allows() {
    let text = read("docs/tools.md");
    let sandbox = Sandbox::new().file("repo/src/main.rs", "fn main() {}\n");
    for name in tool::BUILTIN {
        let tool = tool::builtin(name).unwrap();
        let schema = tool.input_schema();
        let text = section(&text, &format!("## {name}"));
        let required: Vec<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap())
            .collect();
        let expected: BTreeSet<Vec<String>> = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, schema)| {
                let demanded = if required.contains(&key.as_str()) {
                    "yes"
                } else {
                    "no"
                };
                vec![key.clone(), type_of(schema), demanded.to_owned()]
            })
            .collect();
        let found: BTreeSet<Vec<String>> = rows(text)
            .into_iter()
            .map(|row| row[..3].to_vec())
            .collect();
        assert_eq!(found, expected, "{name}");

        let call: Value = serde_json::from_str(&blocks(text, "json")[0]).unwrap();
        assert_eq!(call["name"], name);
        let rule = text.split("\nRule: `").nth(1).unwrap();
        let rule = rule.split('`').next().unwrap();
        for (rules, code) in [(format!("\"{rule}\""), 0), (String::new(), 1)] {
            let lines =
                format!("tools: [{name}]\npermissions: {{ mode: strict, allow: [{rules}] }}\n");
            let task = format!(
                "model: anthropic/claude-sonnet-5\nprompt: x\nworkspace: {{ path: ../repo }}\n{lines}"
            );
            fs::write(sandbox.path().join("tasks/task.yaml"), task).unwrap();
            let input = call["input"].to_string();
            sandbox
                .call(&[
                    "explain",
                    "tasks/task.yaml",
                    "--tool",
                    name,
                    "--input",
                    &input,
                ])
                .exit(code);
        }
    }
    for mode in ["files_with_matches", "content", "count"] {
        assert!(text.contains(&format!("`{mode}`")));
    }
}

/// The keys of a schema's objects, the ones of other definitions left out.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                for (key, schema) in properties {
                    // Names of hooks that never happen are accepted so that sets of hooks can be shared.
                    let moot = schema["description"]
                        .as_str()
                        .is_some_and(|text| text.starts_with("An error: never happens"));
                    if !moot {
                        found.insert(key.clone());
                    }
                }
            }
            let inner = fields.iter().filter(|(key, _)| *key != "$defs");
            inner.for_each(|(_, field)| keys(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_key_of_a_task_file_and_of_the_project_is_documented() {
    let sandbox = Sandbox::new();
    let task_file = read("docs/task-file.md");
    let checks = read("docs/checks.md");
    let hooks = read("docs/hooks.md");
    let mut looked_at = 0;
    for arguments in [vec!["schema"], vec!["schema", "--project"]] {
        let schema: Value =
            serde_json::from_str(&sandbox.call(&arguments).exit(0).stdout()).unwrap();
        let mut parts = vec![("", &schema)];
        let definitions = schema["$defs"].as_object().unwrap();
        parts.extend(definitions.iter().map(|(name, part)| (name.as_str(), part)));
        for (name, part) in parts {
            let of_a_check = part["properties"]["at_most"].is_object()
                || [
                    "CheckSpec",
                    "CommandSpec",
                    "StreamSpec",
                    "FileSpec",
                    "ChangedSpec",
                    "ReplySpec",
                    "OutputSpec",
                    "CallsSpec",
                    "CountSpec",
                    "DenialsSpec",
                    "JudgeSpec",
                ]
                .contains(&name);
            let page = if of_a_check { &checks } else { &task_file };
            let mut wanted = BTreeSet::new();
            keys(part, &mut wanted);
            for key in wanted {
                // The events of hooks have a page of their own.
                let page = if key.starts_with(char::is_uppercase) {
                    &hooks
                } else {
                    page
                };
                let is_there = [format!("`{key}`"), format!("{key}:"), format!(".{key}`")]
                    .iter()
                    .any(|form| page.contains(form));
                assert!(
                    is_there,
                    "{arguments:?}: `{key}` of `{name}` is not documented"
                );
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 120, "{looked_at} keys were looked at");
}

/// The files below a run directory, with `<task>/<attempt>` for those of attempts and `output/` for what lies in it.
fn left(run: &Run, directory: &str) -> BTreeSet<String> {
    let base = run.path(directory);
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![base.clone()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            let inside = entry.path();
            let inside = inside.strip_prefix(&base).unwrap();
            let parts: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
            match parts.as_slice() {
                [_, _, "output"] => _ = found.insert("<task>/<attempt>/output/".to_owned()),
                _ if entry.file_type().unwrap().is_dir() => open.push(entry.path()),
                [name] => _ = found.insert((*name).to_owned()),
                [_, _, name] => _ = found.insert(format!("<task>/<attempt>/{name}")),
                _ => panic!("`{}` is nowhere documented", inside.display()),
            }
        }
    }
    found
}

#[test]
fn the_run_directory_holds_what_is_documented_and_nothing_else() {
    let text = read("docs/task-file.md");
    let documented: BTreeSet<String> = blocks(section(&text, "## The run directory"), "text")[0]
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split("  ").next())
        .map(str::to_owned)
        .collect();
    let sandbox = Sandbox::new()
        .named_task(
            "answer",
            "model: scripted/answering.yaml\nworkspace: { path: ../repo, isolation: copy }\ntools: [Write, Bash]\n\
             permissions: { allow: [Write(new.txt), \"Bash(seq:*)\"] }\noutput_schema: { type: object }\n",
        )
        .file(
            "tasks/answering.yaml",
            "- tool_calls:\n\
             \x20   - { name: Write, input: { file_path: new.txt, content: new } }\n\
             \x20   - { name: Bash, input: { command: seq 100000 } }\n\
             \x20   - { name: StructuredOutput, input: {} }\n\
             - text: done\n",
        )
        .script("- text: done\n")
        .named_task("fails", "checks: [{ reply: { contains: nothing of this } }]\n")
        .named_task("late", "");
    let tasks = ["tasks/answer.yaml", "tasks/fails.yaml", "tasks/late.yaml"];
    let call = |more: &[&str]| sandbox.call(&[&tasks[..], more].concat()).exit(1);
    call(&["--out", "before"]);
    let all = [
        "--jobs",
        "1",
        "--fail-fast",
        "--baseline",
        "before",
        "--gitlab",
        "always",
    ];
    let run = call(&all);
    assert_eq!(run.outcome("late"), "not_run");
    assert_eq!(left(&run, "agent-batch-results"), documented);
}

/// Writes the blocks that name their file in the first line, as in `# tasks/fix.yaml`.
pub(crate) fn write_named_files(sandbox: &Sandbox, text: &str) {
    for block in blocks(text, "yaml") {
        let name = block
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("# "));
        if let Some(name) = name.filter(|name| name.starts_with("tasks/") && !name.contains(' ')) {
            let path = sandbox.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &block).unwrap();
        }
    }
}

#[test]
fn the_scripted_example_passes_can_be_recorded_and_is_an_error_when_it_runs_out() {
    let text = read("docs/scripts.md");
    let sandbox = Sandbox::new()
        .file("docs/guide.md", "# Guide\n\nRuns on Python 3.9 or newer.\n")
        // The workspace is the sandbox, in which the home of other tests lies.
        .env("HOME", "/nonexistent");
    write_named_files(&sandbox, &text);
    let commands: Vec<String> = blocks(&text, "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    let has_jq = sandbox.shell("command -v jq").output.status.success();
    if !has_jq {
        eprintln!("SKIPPED in part: there is no jq, so the recorded script is not played");
    }
    for command in commands.iter().take(if has_jq { 4 } else { 2 }) {
        crate::examples::documented(&sandbox, command).exit(0);
    }
    if has_jq {
        let script = sandbox.path().join("tasks/scripts/bump.jsonl");
        assert_eq!(fs::read_to_string(script).unwrap().lines().count(), 3);
    }

    // The other block of the format, as it stands.
    let format = blocks(&text, "yaml").pop().unwrap();
    let sandbox = sandbox.script(&format).task("tools: [Grep]\n");
    sandbox.run().exit(0);

    let script = sandbox.path().join("tasks/scripts/bump.yaml");
    let whole = fs::read_to_string(&script).unwrap();
    let short = whole.split("  - expect: \"edited").next().unwrap();
    fs::write(&script, short).unwrap();
    let run = sandbox.call(&["tasks/bump.yaml"]).exit(3);
    assert_eq!(run.outcome("bump"), "api_error");
    assert!(run.stdout().contains("no more replies"), "{}", run.stdout());
    fs::write(&script, whole.replace("Python 3.9  ", "Python 2.7  ")).unwrap();
    let run = sandbox.call(&["tasks/bump.yaml"]).exit(3);
    assert!(run.stdout().contains("`Python 2.7`"), "{}", run.stdout());
}

#[test]
fn every_option_and_every_command_is_documented() {
    let sandbox = Sandbox::new();
    let page = read("docs/command-line.md");
    let mut documented = BTreeSet::new();
    for word in page.split(['`', ' ', '\n']) {
        if word.starts_with("--") && word != "--help" {
            documented.insert(word.to_owned());
        }
    }
    let mut known = BTreeSet::new();
    let commands = ["check", "explain", "report", "show", "export", "schema"];
    for arguments in [vec!["--help"]]
        .into_iter()
        .chain(commands.map(|command| vec![command, "--help"]))
    {
        let help = sandbox.call(&arguments).exit(0).stdout();
        for line in help.lines().map(str::trim_start) {
            let option = line.split([' ', '\n']).find(|word| word.starts_with("--"));
            if line.starts_with('-') {
                known.extend(option.map(str::to_owned));
            }
        }
        if let [command, _] = arguments.as_slice() {
            assert!(page.contains(&format!("| `{command}")), "{command}");
        }
    }
    known.remove("--help");
    known.remove("--version");
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(documented, known);
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let kept = line.trim_start_matches('#').trim().chars();
            kept.filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .collect::<String>()
                .to_lowercase()
                .replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_in_the_documents_lead_somewhere_and_the_index_to_every_page() {
    let mut from_the_index = BTreeSet::new();
    let mut checked = 0;
    for document in all() {
        let text = read(&document);
        let base = root().join(&document);
        let base = base.parent().unwrap();
        let links = text.split("](").skip(1);
        for link in links.map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                root().join(&document)
            } else {
                base.join(path)
            };
            assert!(target.exists(), "{document}: `{link}`");
            if !anchor.is_empty() {
                let page = fs::read_to_string(&target).unwrap();
                assert!(anchors(&page).contains(anchor), "{document}: `{link}`");
            }
            if document == "docs/README.md" {
                from_the_index.insert(format!("docs/{path}"));
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} links were found");
    for page in all() {
        let is_listed = !page.starts_with("docs/") || page == "docs/README.md";
        assert!(is_listed || from_the_index.contains(&page), "{page}");
    }
}
