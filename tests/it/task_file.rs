//! Task files from their bytes to a `Task` or to every mistake in them.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of this file belong to its tests"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_batch::check::{self, CallLog, CheckContext, Finding, Taken};
use agent_batch::event::CheckResult;
use agent_batch::outcome::{OnDenied, Trials};
use agent_batch::policy::Mode;
use agent_batch::proc::Launcher;
use agent_batch::task::{
    Diagnostic, LARGEST_FILE, LoadOptions, Loaded, ModelRef, Severity, TaskFile, describe, load,
    project_schema, render_all, schema,
};
use agent_batch::usage::Usd;
use agent_batch::workspace::{Isolation, Workspace};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Sandbox;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tasks")
}

fn file(path: &Path) -> TaskFile {
    let display = path.strip_prefix(data()).unwrap_or(path);
    TaskFile {
        display: display.display().to_string(),
        absolute: path.to_path_buf(),
    }
}

fn options() -> LoadOptions {
    LoadOptions {
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: data(),
        ..LoadOptions::default()
    }
}

fn load_named(names: &[&str], options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
    let files: Vec<TaskFile> = names.iter().map(|name| file(&data().join(name))).collect();
    load(&files, None, options)
}

fn load_in_project(project: &str, names: &[&str]) -> Result<Loaded, Vec<Diagnostic>> {
    let files: Vec<TaskFile> = names.iter().map(|name| file(&data().join(name))).collect();
    load(&files, Some(&file(&data().join(project))), &options())
}

/// Loads one file with these bytes.
fn load_bytes(bytes: &[u8]) -> Result<Loaded, Vec<Diagnostic>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    fs::write(&path, bytes).unwrap();
    let file = TaskFile {
        display: "t.yaml".to_owned(),
        absolute: path,
    };
    let options = LoadOptions {
        cwd: directory.path().to_path_buf(),
        ..LoadOptions::default()
    };
    load(&[file], None, &options)
}

/// The one error of a file with these bytes.
fn error_of(bytes: &[u8]) -> Diagnostic {
    let errors = load_bytes(bytes).unwrap_err();
    assert_eq!(errors.len(), 1, "{}", render_all(&errors, false));
    errors.into_iter().next().unwrap()
}

fn places(errors: &[Diagnostic]) -> Vec<(u32, u32)> {
    errors
        .iter()
        .map(|error| (error.line(), error.column()))
        .collect()
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(data().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn no_task_takes_the_name_of_a_file_in_the_run_directory() {
    for name in [
        "junit.xml",
        "comment.md",
        "batch.jsonl",
        "baseline.json",
        "run.lock",
    ] {
        let sandbox = Sandbox::new()
            .task(&format!("name: {name}\n"))
            .script("- text: done\n");
        let run = sandbox.call(&["tasks/task.yaml"]).exit(2);
        let told = format!("the name `{name}` is that of a file in the run directory");
        assert!(run.stderr().contains(&told), "{}", run.stderr());
    }
}

#[test]
fn a_script_among_the_task_files_is_called_what_it_is() {
    let sandbox = Sandbox::new().task("").script("- text: done\n");
    let run = sandbox.call(&["tasks"]).exit(2);
    let told = "error: this is a script for a scripted model, no task\n--> tasks/script.yaml";
    assert!(run.stderr().contains(told), "{}", run.stderr());
    assert!(
        run.stderr().contains("1 error in 1 file"),
        "{}",
        run.stderr()
    );
}

#[test]
fn five_mistakes_are_five_diagnostics_at_their_places() {
    let errors = load_named(&["invalid/five-mistakes.yaml"], &options()).unwrap_err();
    let found = [(3, 1), (5, 3), (6, 15), (8, 9), (12, 5)];
    assert_eq!(places(&errors), found, "{}", render_all(&errors, false));
}

#[test]
fn every_invalid_file_is_refused_with_all_that_is_wrong_in_it() {
    for path in yaml_files("invalid") {
        let errors = load(&[file(&path)], None, &options()).unwrap_err();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(errors.iter().all(|error| error.severity == Severity::Error));
        assert!(
            errors.iter().all(|error| error.place.is_some()),
            "{name}: an error without a place"
        );
        insta::assert_snapshot!(name, render_all(&errors, false));
    }
}

#[test]
fn the_full_example_says_everything() {
    let loaded = load_named(&["valid/full.yaml"], &options()).unwrap();
    assert_eq!(loaded.warnings, []);
    let [task] = loaded.tasks.as_slice() else {
        panic!("one task")
    };
    assert_eq!(task.name, "full.example_1");
    assert_eq!(task.line, 2);
    assert_eq!(task.tags, ["lint", "nightly"]);
    assert_eq!(
        task.turns,
        ["Fix every warning in parser, and leave ${HOME} alone.\n"]
    );
    assert_eq!(task.mode, Mode::Default);
    assert_eq!(task.on_denied, OnDenied::Warn);
    assert_eq!(task.isolation, Isolation::Copy);
    assert_eq!(task.workspace, data().join("valid"));
    assert_eq!(task.additional, [data().join("valid/hooks")]);
    assert_eq!(task.limits.max_steps, 20);
    assert_eq!(task.limits.max_total_steps, Some(30));
    assert_eq!(task.limits.max_cost, Usd::from_dollars(0.5));
    assert_eq!(task.limits.tool_timeout, Duration::from_secs(90));
    assert_eq!(task.deny[0].source().layer, "task");
    let kinds: Vec<&str> = task.checks.iter().map(|check| check.kind()).collect();
    assert_eq!(kinds, ["command", "changed", "reply"]);
    assert_eq!(task.hooks.len(), 2);
    let program = data().join("valid/hooks/no-force-push.sh");
    let hook = task
        .hooks
        .iter()
        .find(|hook| hook.matcher == "Bash")
        .unwrap();
    assert_eq!(hook.command, [program.to_str().unwrap(), "--strict"]);
    let ModelRef::Scripted { path, .. } = &task.model else {
        panic!("scripted")
    };
    assert_eq!(*path, data().join("valid/replies.json"));
}

#[test]
fn what_a_task_may_do_is_one_table() {
    let loaded = load_named(&["valid/full.yaml", "valid/minimal.yaml"], &options()).unwrap();
    let described: Vec<String> = loaded.tasks.iter().map(describe).collect();
    let root = data().display().to_string();
    insta::assert_snapshot!(described.join("\n\n").replace(&root, "[DATA]"));
}

#[test]
fn a_task_that_says_little_gets_the_documented_defaults() {
    let loaded = load_named(&["valid/minimal.yaml"], &options()).unwrap();
    let task = &loaded.tasks[0];
    assert_eq!(task.name, "minimal");
    assert_eq!(task.tools, ["Read", "Glob", "Grep", "Edit", "Write"]);
    assert_eq!(task.limits, agent_batch::budget::Limits::default());
    assert_eq!(task.limits.max_steps, 10);
    assert_eq!((task.mode, task.on_denied), (Mode::Default, OnDenied::Fail));
    assert_eq!(task.workspace, data());
}

#[test]
fn the_schema_accepts_what_the_loader_accepts_and_refuses_what_is_wrong_in_form() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let instance = |path: &Path| -> Option<serde_json::Value> {
        serde_yaml::from_str(&fs::read_to_string(path).unwrap()).ok()
    };
    for path in yaml_files("valid") {
        let errors: Vec<String> = validator
            .iter_errors(&instance(&path).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        assert!(
            load(&[file(&path)], None, &options()).is_ok(),
            "{}",
            path.display()
        );
    }
    for name in [
        "five-mistakes",
        "unknown-keys",
        "wrong-types",
        "list",
        "limits",
    ] {
        let path = data().join("invalid").join(format!("{name}.yaml"));
        let instance = instance(&path).unwrap();
        assert!(!validator.is_valid(&instance), "{name}");
    }
    let nothing = serde_json::json!({ "prompt": "x", "limits": { "max_steps": null } });
    assert!(!validator.is_valid(&nothing), "no limit is not a limit");
    let project = jsonschema::validator_for(&project_schema()).unwrap();
    assert!(project.is_valid(&instance(&data().join("project/agent-batch.yaml")).unwrap()));
    assert!(!project.is_valid(&instance(&data().join("project/broken.yaml")).unwrap()));
}

#[test]
fn every_field_of_the_schema_has_a_description() {
    fn walk(value: &serde_json::Value, missing: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(|found| found.as_object()) {
            for (name, property) in properties {
                if property.get("description").is_none() {
                    missing.push(name.clone());
                }
            }
        }
        match value {
            serde_json::Value::Object(map) => map.values().for_each(|value| walk(value, missing)),
            serde_json::Value::Array(list) => list.iter().for_each(|value| walk(value, missing)),
            _ => {}
        }
    }
    let mut missing = Vec::new();
    walk(&schema(), &mut missing);
    walk(&project_schema(), &mut missing);
    // A check's key is described beside it, as a variant.
    missing.retain(|name| !agent_batch::check::KINDS.contains(&name.as_str()));
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn a_file_that_is_no_text_or_too_large_or_not_there_is_one_clear_error() {
    assert!(error_of(b"").message.contains("empty"));
    assert!(error_of(b"# only a comment\n").message.contains("empty"));
    assert!(error_of(b"\x89PNG\r\n\x1a\n\0\0").message.contains("NUL"));
    assert!(
        error_of(b"prompt: \xff\xfe\n")
            .message
            .contains("not UTF-8")
    );
    let escaped = b"model: anthropic/m\nprompt: \"a\\0b\"\n";
    assert!(error_of(escaped).message.contains("NUL"));
    let large = vec![b'#'; usize::try_from(LARGEST_FILE).unwrap() + 1];
    assert!(error_of(&large).message.contains("larger than 256 KiB"));
    let missing = load_named(&["no-such.yaml"], &options()).unwrap_err();
    assert_eq!(missing[0].message, "no such file");
    let directory = load_named(&["valid"], &options()).unwrap_err();
    assert!(directory[0].message.contains("found a directory"));
    let device = load(&[file(Path::new("/dev/zero"))], None, &options()).unwrap_err();
    assert!(device[0].message.contains("regular file"));
}

#[test]
fn bombs_and_deep_nesting_end_in_one_clear_error() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..20 {
        let line = format!("*a{}, ", n - 1).repeat(10);
        let _ = writeln!(bomb, "a{n}: &a{n} [{line}]");
    }
    assert!(
        error_of(bomb.as_bytes())
            .message
            .contains("unfolds to more than")
    );
    let nested = format!("a: {}{}", "[".repeat(200), "]".repeat(200));
    assert!(
        error_of(nested.as_bytes())
            .message
            .contains("recursion limit")
    );
    assert!(
        error_of("{".repeat(250_000).as_bytes())
            .message
            .contains("nested too deeply")
    );
    assert!(
        error_of("- ".repeat(120_000).as_bytes())
            .message
            .contains("recursion limit")
    );
}

#[test]
fn a_byte_order_mark_and_windows_lines_change_nothing() {
    let text = "\u{feff}model: anthropic/claude-sonnet-5\r\nprompt: |\r\n  a\r\n  b\r\n";
    let loaded = load_bytes(text.as_bytes()).unwrap();
    assert_eq!(loaded.tasks[0].turns, ["a\nb\n"]);
    let wrong = "\u{feff}modle: x\r\nmodel: anthropic/claude-sonnet-5\r\nprompt: x\r\n";
    assert_eq!(places(&[error_of(wrong.as_bytes())]), [(1, 1)]);
}

#[test]
fn many_mistakes_are_bounded() {
    let mut many = String::new();
    for n in 0..5000 {
        let _ = writeln!(many, "k{n}: 1");
    }
    let errors = load_bytes(many.as_bytes()).unwrap_err();
    assert!(errors.len() <= 52, "{}", errors.len());
}

#[test]
fn what_follows_from_mistakes_is_bounded_like_them() {
    let mut many = "model: anthropic/m\nprompt: x\nchecks:\n".to_owned();
    for _ in 0..10_000 {
        many.push_str("- {command: !t x}\n");
    }
    let errors = load_bytes(many.as_bytes()).unwrap_err();
    assert!(
        errors
            .iter()
            .all(|error| error.message.contains("tag") || error.message.contains("not shown"))
    );
}

#[test]
fn many_mistakes_of_meaning_are_bounded_too() {
    let tags = "\"\", ".repeat(5000);
    let text = format!("model: anthropic/claude-sonnet-5\nprompt: x\ntags: [{tags}]\n");
    let errors = load_bytes(text.as_bytes()).unwrap_err();
    assert_eq!(errors.len(), 51);
    assert!(errors[50].message.contains("not shown"));
}

#[test]
fn mistakes_of_all_files_come_together() {
    let names = [
        "invalid/price.yaml",
        "valid/minimal.yaml",
        "invalid/bypass.yaml",
    ];
    let errors = load_named(&names, &options()).unwrap_err();
    let files: Vec<&str> = errors.iter().map(|error| error.file.as_str()).collect();
    assert_eq!(files, ["invalid/price.yaml", "invalid/bypass.yaml"]);
}

#[test]
fn two_tasks_with_one_name_are_an_error_at_the_second_that_names_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let task = "model: anthropic/claude-sonnet-5\nprompt: x\n";
    let mut files = Vec::new();
    for (name, text) in [
        ("a/x.yaml", task.to_owned()),
        ("b/X.yaml", task.to_owned()),
        ("c.yaml", format!("{task}name: x\n")),
    ] {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        files.push(TaskFile {
            display: name.to_owned(),
            absolute: path,
        });
    }
    let errors = load(&files, None, &options()).unwrap_err();
    let found: Vec<(&str, u32, &str)> = errors
        .iter()
        .map(|error| {
            (
                error.file.as_str(),
                error.line(),
                error.related.as_ref().unwrap().file.as_str(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [("b/X.yaml", 1, "a/x.yaml"), ("c.yaml", 3, "a/x.yaml")]
    );
}

#[test]
fn a_file_that_is_named_twice_is_run_once() {
    let loaded = load_named(
        &["valid/minimal.yaml", "valid/../valid/minimal.yaml"],
        &options(),
    )
    .unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    assert_eq!(loaded.warnings.len(), 1);
}

#[test]
fn the_environment_is_what_the_caller_hands_in() {
    let mut options = options();
    for (name, value) in [
        ("NO_SUCH_MODEL", "claude-sonnet-5"),
        ("NO_SUCH_TITLE", "tools: [Bash] # $(id) ${X}"),
        ("NO_SUCH_NUMBER", "7"),
        ("NO_SUCH_WORD", "w"),
    ] {
        options.env.insert(name.to_owned(), value.to_owned());
    }
    let errors = load_named(&["invalid/variables.yaml"], &options).unwrap_err();
    assert_eq!(
        places(&errors),
        [(3, 9)],
        "only the reference that is none is left"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    fs::write(
        &path,
        "model: anthropic/${NO_SUCH_MODEL}\nprompt: <${NO_SUCH_TITLE}>\n",
    )
    .unwrap();
    let loaded = load(&[file(&path)], None, &options).unwrap();
    assert_eq!(loaded.tasks[0].turns, ["<tools: [Bash] # $(id) ${X}>"]);
    assert_eq!(
        loaded.tasks[0].model.to_string(),
        "anthropic/claude-sonnet-5"
    );
}

#[test]
fn bypass_takes_the_file_and_the_flag() {
    let mut options = options();
    assert!(load_named(&["invalid/bypass.yaml"], &options).is_err());
    options.allow_bypass = true;
    let loaded = load_named(&["invalid/bypass.yaml"], &options).unwrap();
    assert_eq!(loaded.tasks[0].mode, Mode::BypassPermissions);
    assert_eq!(loaded.warnings.len(), 1);
    let plain = load_named(&["valid/minimal.yaml"], &options).unwrap();
    assert_eq!(
        plain.tasks[0].mode,
        Mode::Default,
        "the flag alone changes nothing"
    );
}

#[test]
fn no_task_goes_beyond_the_policy() {
    let errors = load_in_project("project/agent-batch.yaml", &["project/beyond.yaml"]).unwrap_err();
    assert!(
        errors
            .iter()
            .all(|error| error.related.as_ref().unwrap().file == "project/agent-batch.yaml")
    );
    insta::assert_snapshot!(render_all(&errors, false));
}

#[test]
fn a_task_within_the_policy_gets_the_defaults_and_the_ceilings() {
    let loaded = load_in_project("project/agent-batch.yaml", &["project/within.yaml"]).unwrap();
    let task = &loaded.tasks[0];
    assert_eq!(task.model.to_string(), "anthropic/claude-haiku-4-5");
    assert_eq!(task.limits.max_steps, 20, "the task's own value");
    assert_eq!(
        task.limits.max_tokens, 100_000,
        "less than the built-in value"
    );
    assert_eq!(task.limits.timeout, Duration::from_secs(1200));
    assert_eq!(task.limits.max_cost, Usd::from_dollars(1.0));
    assert_eq!(
        task.tools,
        ["Read", "Glob", "Grep", "Edit"],
        "Write is not the policy's"
    );
    let sources: Vec<(&str, &str)> = task
        .deny
        .iter()
        .map(|rule| (rule.text(), rule.source().layer.as_str()))
        .collect();
    assert_eq!(
        sources,
        [
            ("Read(**/*.pem)", "policy"),
            ("Bash(git push:*)", "defaults")
        ]
    );
}

#[test]
fn the_operator_cannot_go_beyond_the_policy_either() {
    let mut options = options();
    options.overrides.max_steps = Some(500);
    options.overrides.model = Some("scripted/valid/replies.json".to_owned());
    let project = file(&data().join("project/agent-batch.yaml"));
    let within = file(&data().join("project/within.yaml"));
    let errors = load(std::slice::from_ref(&within), Some(&project), &options).unwrap_err();
    assert_eq!(errors.len(), 2);
    assert!(
        errors
            .iter()
            .all(|error| error.place.is_none() && error.related.is_some())
    );
    options.overrides = agent_batch::task::Overrides {
        max_steps: Some(3),
        ..Default::default()
    };
    let loaded = load(&[within], Some(&project), &options).unwrap();
    assert_eq!(loaded.tasks[0].limits.max_steps, 3);
}

#[test]
fn a_broken_project_file_is_told_once_for_all_tasks() {
    let errors = load_in_project(
        "project/broken.yaml",
        &["valid/minimal.yaml", "valid/turns.yaml"],
    )
    .unwrap_err();
    insta::assert_snapshot!(render_all(&errors, false));
}

#[test]
fn a_policy_on_money_holds_also_where_a_price_is_not_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    fs::write(&path, "model: anthropic/some-new-model\nprompt: x\n").unwrap();
    let project = file(&data().join("project/agent-batch.yaml"));
    let errors = load(&[file(&path)], Some(&project), &options()).unwrap_err();
    assert_eq!(places(&errors), [(1, 8)]);
    assert!(errors[0].message.contains("price"), "{}", errors[0].message);
}

#[test]
fn the_projects_own_file_is_left_out_of_the_tasks() {
    let names = ["project/agent-batch.yaml", "project/within.yaml"];
    let loaded = load_in_project("project/agent-batch.yaml", &names).unwrap();
    assert_eq!(loaded.tasks.len(), 1);
    assert_eq!(loaded.warnings[0].file, "project/agent-batch.yaml");
}

#[test]
fn a_task_that_names_no_mode_meets_a_policy_that_wants_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent-batch.yaml");
    fs::write(&path, "policy: { modes: [strict] }\n").unwrap();
    let minimal = file(&data().join("valid/minimal.yaml"));
    let errors = load(&[minimal], Some(&file(&path)), &options()).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("names no mode"));
}

#[test]
fn bypass_is_never_a_default() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("agent-batch.yaml");
    let text = "defaults: { permissions: { mode: bypassPermissions } }\n";
    fs::write(&path, text).unwrap();
    let minimal = file(&data().join("valid/minimal.yaml"));
    let mut options = options();
    options.allow_bypass = true;
    let errors = load(&[minimal], Some(&file(&path)), &options).unwrap_err();
    assert_eq!(places(&errors), [(1, 34)]);
}

#[test]
fn what_stands_in_defaults_is_relative_to_the_projects_file() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    fs::create_dir_all(root.join("tasks")).unwrap();
    fs::write(root.join("replies.json"), "[]").unwrap();
    fs::write(root.join("tasks/t.yaml"), "prompt: x\n").unwrap();
    let text = "defaults:\n  model: scripted/replies.json\n  workspace: { path: ., isolation: copy }\n  hooks:\n    Stop: [{ command: [sh, -c, exit 0] }]\n";
    fs::write(root.join("agent-batch.yaml"), text).unwrap();
    let project = file(&root.join("agent-batch.yaml"));
    let loaded = load(
        &[file(&root.join("tasks/t.yaml"))],
        Some(&project),
        &options(),
    )
    .unwrap();
    let task = &loaded.tasks[0];
    assert_eq!((&task.workspace, task.isolation), (&root, Isolation::Copy));
    let ModelRef::Scripted { path, .. } = &task.model else {
        panic!("scripted")
    };
    assert_eq!(*path, root.join("replies.json"));
    assert!(task.hooks[0].command[0].ends_with("/sh"));
}

#[test]
fn a_missing_project_file_is_the_only_error() {
    let errors = load_in_project("project/no-such.yaml", &["project/within.yaml"]).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].file, "project/no-such.yaml");
}

#[test]
fn doubtful_rules_matchers_and_events_are_warnings() {
    let text = "model: anthropic/claude-sonnet-5\nprompt: x\npermissions:\n  allow:\n    - Bash(python *)\n    - Edit(//**)\nhooks:\n  PreToolUse: [{ matcher: bash, command: [sh, ./check.sh] }]\n";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.yaml");
    fs::write(&path, text).unwrap();
    let task = TaskFile {
        display: "t.yaml".to_owned(),
        absolute: path,
    };
    let loaded = load(&[task], None, &options()).unwrap();
    assert!(
        loaded
            .warnings
            .iter()
            .all(|warning| warning.severity == Severity::Warning)
    );
    insta::assert_snapshot!(render_all(&loaded.warnings, false));
}

#[test]
fn what_has_the_wrong_shape_is_told_with_the_right_one() {
    let directory = tempfile::tempdir().unwrap();
    for (keys, told) in [
        ("workspace: ..\n", "workspace:\n            path: .."),
        ("tools: Bash\n", "tools:\n            - Bash"),
        (
            "checks: [{ command: ls }]\n",
            "command:\n            run: ls",
        ),
        ("checks: [ls]\n", "- command: { run: ls }"),
        (
            "hooks: { Stop: [{ command: ./x.sh }] }\n",
            "command:\n            - ./x.sh",
        ),
        (
            "hooks: { Stop: { command: [sh] } }\n",
            "Stop:\n            - command:",
        ),
        ("mode: acceptEdits\n", "write `mode` under `permissions`"),
        ("network: yes\n", "`deny`, `allow`, or a map with `hosts`"),
        ("limits: { max_steps: '5' }\n", "`max_steps: 5`"),
        ("limits: { timeout: 5 }\n", "`timeout: 10m`"),
        ("hooks: { Before: [] }\n", "the events are `PreToolUse`"),
        ("hooks: { preToolUse: [] }\n", "did you mean `PreToolUse`?"),
        (
            "hooks: { PermissionRequest: [{ command: [sh] }] }\n",
            "write them under `PreToolUse`",
        ),
        (
            "hooks: { Notification: [{ command: [sh] }] }\n",
            "would never run",
        ),
    ] {
        let path = directory.path().join("t.yaml");
        fs::write(
            &path,
            format!("model: anthropic/claude-sonnet-5\nprompt: x\n{keys}"),
        )
        .unwrap();
        let task = TaskFile {
            display: "t.yaml".to_owned(),
            absolute: path,
        };
        let errors = load(&[task], None, &options()).unwrap_err();
        let shown = render_all(&errors, false);
        assert!(shown.contains(told), "{keys}: {shown}");
        assert!(shown.contains("--> t.yaml:3:"), "{keys}: {shown}");
    }
}

#[test]
fn the_operators_rules_are_there_with_their_source() {
    let mut options = options();
    options.extra_deny = vec!["Bash".to_owned()];
    options.extra_allow = vec!["Edit(docs/**)".to_owned()];
    let loaded = load_named(&["valid/minimal.yaml"], &options).unwrap();
    let task = &loaded.tasks[0];
    assert_eq!(task.allow[0].source().layer, "cli");
    assert_eq!(task.deny[0].source().file, "--deny");
}

/// Runs the checks of a task with these `checks`, with `TITLE` set to what would be code in a shell.
async fn run_checks(checks: &str) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    let workspace = fs::canonicalize(directory.path()).unwrap();
    let path = workspace.join("t.yaml");
    fs::write(
        &path,
        format!("model: anthropic/m\nprompt: x\nchecks:\n{checks}"),
    )
    .unwrap();
    let mut options = options();
    options
        .env
        .insert("TITLE".to_owned(), "a\"; touch pwned; \"".to_owned());
    let loaded = load(&[file(&path)], None, &options).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let prepared = Workspace::prepare(&workspace, Isolation::None, scratch.path()).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into());
    let context = CheckContext {
        workspace: &prepared,
        changes: Vec::new(),
        turns: vec!["x".to_owned()],
        reply: "done".to_owned(),
        output: None,
        calls: CallLog::default(),
        taken: Taken::default(),
        judges: BTreeMap::new(),
        purse: None,
        scratch: scratch.path().to_path_buf(),
        launcher: launcher.clone(),
        held_to: &|_| launcher.clone(),
        environment: options.env.clone(),
        redactor: Arc::default(),
        cancel: CancellationToken::new(),
    };
    let mut findings = Vec::new();
    for one in &loaded.tasks[0].checks {
        findings.push(check::run(one.as_ref(), &context).await);
    }
    assert!(!workspace.join("pwned").exists(), "a value became code");
    findings
}

#[tokio::test]
async fn commands_are_judged_by_what_real_processes_did() {
    let findings = run_checks(
        r#"
- command: { run: 'test "$PWD" = "$(dirname "$PWD/t.yaml")" && test -f t.yaml' }
- command: { run: 'echo "${TITLE}"; exit 3', expect_exit: 3, matches: 'touch pwned' }
- command: { run: 'echo to stderr >&2; exit 1' }
- command: { run: 'sleep 600', timeout: 100ms }
- reply: { contains: done }
"#,
    )
    .await;
    let results: Vec<CheckResult> = findings.iter().map(|finding| finding.result).collect();
    use CheckResult::{Failed, Passed};
    assert_eq!(
        results,
        [Passed, Passed, Failed, Failed, Passed],
        "{findings:?}"
    );
    assert_eq!(findings[2].message, "exit code 1, expected 0");
    assert_eq!(findings[2].details, "to stderr");
    assert!(findings[3].message.contains("time limit of 100ms"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load_bytes(&bytes);
    }

    #[test]
    fn arbitrary_yaml_never_panics_and_every_error_can_be_rendered(
        lines in prop::collection::vec(
            r"( {0,6})(- )?(name|model|prompt|turns|limits|max_steps|checks|command|run|hooks|PreToolUse|permissions|allow|&a|\*a|<<|!t|[a-zé]{1,3}|[0-9]{1,3})?(: ?)(\[|\]|\{|\}|'|\x22|\||>|\$\{A\}|[a-zé]{0,4}|-?[0-9.]{1,4}|\*a|&a x|!t x|~)?",
            0..12,
        )
    ) {
        let text = lines.join("\n");
        if let Err(errors) = load_bytes(text.as_bytes()) {
            prop_assert!(!errors.is_empty());
            prop_assert!(!render_all(&errors, false).is_empty());
        }
    }
}

/// A task with these lines beside what every task needs.
fn load_lines(lines: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load_bytes(format!("model: anthropic/claude-sonnet-5\nprompt: go\n{lines}").as_bytes())
}

#[test]
fn trials_are_a_number_or_a_number_and_how_many_have_to_pass() {
    let trials = |lines: &str| load_lines(lines).unwrap().tasks[0].trials;
    let of = |count, pass| Trials { count, pass };
    assert_eq!(trials(""), of(1, 1));
    assert_eq!(trials("trials: 5"), of(5, 5));
    assert_eq!(trials("trials: { count: 5, pass: 4 }"), of(5, 4));
    assert_eq!(trials("trials: { count: 5 }"), of(5, 5));
    let task = load_lines("retries: 2\ngroup: staging-db\n")
        .unwrap()
        .tasks
        .remove(0);
    assert_eq!(
        (task.retries, task.group.as_deref()),
        (2, Some("staging-db"))
    );
}

#[test]
fn trials_retries_and_groups_out_of_range_are_errors_at_their_place() {
    for (lines, place, message) in [
        ("trials: 0", (3, 9), "1 to 100 trials"),
        ("trials: { count: 101 }", (3, 18), "1 to 100 trials"),
        (
            "trials: { count: 5, pass: 6 }",
            (3, 27),
            "1 to 5 can have to pass",
        ),
        (
            "trials: { count: 5, pass: 0 }",
            (3, 27),
            "1 to 5 can have to pass",
        ),
        ("trials: { pass: 2 }", (3, 9), "count"),
        ("trials: often", (3, 9), "a whole number, or a map"),
        ("retries: 11", (3, 10), "at most 10 times"),
        ("group: a b", (3, 8), "`a b` does not fit"),
    ] {
        let errors = load_lines(lines).unwrap_err();
        assert_eq!(errors.len(), 1, "{lines}");
        assert!(
            errors[0].message.contains(message),
            "{lines}: {}",
            errors[0].message
        );
        assert_eq!((errors[0].line(), errors[0].column()), place, "{lines}");
    }
}

#[test]
fn a_matrix_makes_a_task_of_every_combination() {
    let lines = "name: fix\nmatrix: { crate: [parser, Lexer/x], level: [1, true] }\ntags: [\"{{ matrix.crate }}\"]\nsystem: level {{matrix.level}}\n\
        permissions: { allow: [\"Edit(crates/{{ matrix.crate }}/**)\"] }\nchecks: [{ command: { run: \"make {{ matrix.crate }} all\" } }]\n";
    let loaded = load_lines(lines).unwrap();
    assert_eq!(loaded.warnings, []);
    let told: Vec<_> = loaded
        .tasks
        .iter()
        .map(|task| {
            format!(
                "{} {} {} {} {}",
                task.name,
                task.tags[0],
                task.system,
                task.allow[0].text(),
                task.checks[0].title()
            )
        })
        .collect();
    assert_eq!(told.len(), 4);
    assert!(
        told[0].starts_with("fix.parser.1 parser level 1 Edit(crates/parser/**)"),
        "{}",
        told[0]
    );
    assert!(told[0].contains("make parser all"), "{}", told[0]);
    assert!(
        told[3].starts_with("fix.lexer-x.true Lexer/x level true Edit(crates/Lexer/x/**)"),
        "{}",
        told[3]
    );
    let values = |values: [(&str, &str); 2]| {
        values
            .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
            .to_vec()
    };
    assert_eq!(
        loaded.tasks[1].matrix,
        values([("crate", "parser"), ("level", "true")])
    );
}

#[test]
fn mistakes_in_a_matrix_are_told_once_at_their_place() {
    for (lines, place, message) in [
        ("matrix: {}", (3, 9), "has no axis"),
        ("matrix: 5", (3, 9), "expected a map"),
        ("matrix: { a: x }", (3, 14), "expected a list"),
        ("matrix: { a: [] }", (3, 14), "has no value"),
        (
            "matrix: { a: [[1]] }",
            (3, 15),
            "a text, a number or a boolean",
        ),
        ("matrix: { 1a: [x] }", (3, 11), "`1a` does not fit"),
        (
            "matrix: { a: [x/y, x-y] }",
            (3, 20),
            "makes the same name as `x-y`",
        ),
        (
            "matrix: { a: [x, y] }\nsystem: \"{{ matrix.b }}\"",
            (4, 9),
            "no axis `b`",
        ),
        ("system: \"{{ matrix.b }}\"", (3, 9), "no axis `b`"),
        (
            "matrix: { a: [x, y] }\nname: \"n-{{ matrix.a }}\"",
            (4, 7),
            "where no value of a matrix is put",
        ),
    ] {
        let errors = load_lines(lines).unwrap_err();
        assert_eq!(errors.len(), 1, "{lines}: {}", render_all(&errors, false));
        assert!(
            errors[0].message.contains(message),
            "{lines}: {}",
            errors[0].message
        );
        assert_eq!((errors[0].line(), errors[0].column()), place, "{lines}");
    }
    let many: Vec<String> = (0..17).map(|value| value.to_string()).collect();
    let many = many.join(", ");
    let errors = load_lines(&format!("matrix: {{ a: [{many}], b: [{many}] }}")).unwrap_err();
    assert!(
        errors[0].message.contains("289 combinations"),
        "{}",
        errors[0].message
    );
    let errors = load_lines("matrix: { a: [x.y, x], b: [z, y.z] }").unwrap_err();
    let told = render_all(&errors, false);
    assert!(
        told.contains("is called") && told.contains("values of `matrix`"),
        "{told}"
    );
    let loaded = load_lines("matrix: { a: [x, y] }").unwrap();
    assert_eq!(loaded.tasks.len(), 2);
    assert!(
        loaded.warnings[0]
            .message
            .contains("no text of the task uses")
    );
}

#[test]
fn the_definition_of_a_task_is_its_file_the_project_and_the_operators_words() {
    let one = |lines: &str| {
        load_lines(lines).unwrap().tasks[0]
            .definition_sha256
            .clone()
    };
    assert_eq!(one("tags: [a]\n"), one("tags: [a]\r\n"));
    assert_ne!(one("tags: [a]\n"), one("tags: [b]\n"));
}
