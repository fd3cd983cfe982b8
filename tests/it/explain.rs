//! Rules as their users meet them: `check` tries their examples and doubts them, a run tells which were used.

use crate::sandbox::Sandbox;

fn check(permissions: &str) -> (Option<i32>, String, String) {
    let run = Sandbox::new()
        .script("- text: done\n")
        .task(permissions)
        .call(&["check", "tasks/task.yaml"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        run.output.status.code(),
        text(&run.output.stdout),
        text(&run.output.stderr),
    )
}

#[test]
fn a_rule_with_examples_is_a_rule() {
    let (exit, stdout, stderr) = check(
        r#"
tools: [Bash, Edit]
permissions:
  allow:
    - { rule: "Bash(cargo test:*)", match: ["cargo test --offline", "timeout 60 cargo test"], not_match: ["cargo testbed"] }
    - Edit(src/**)
  deny:
    - { rule: "Bash(rm:*)", match: ["sudo rm x"], not_match: ["git rm x"] }
"#,
    );
    assert_eq!(exit, Some(0), "{stderr}");
    assert!(
        stdout.contains("Bash(cargo test:*)  (task, tasks/task.yaml)"),
        "{stdout}"
    );
    assert!(stdout.contains("Bash(rm:*)"), "{stdout}");
}

#[test]
fn an_example_that_fails_is_an_error_with_its_line() {
    let (exit, _, stderr) = check(
        r#"
tools: [Bash]
permissions:
  allow:
    - rule: "Bash(cargo test:*)"
      match: ["cargo test", "cargo build"]
      not_match: ["cargo test --lib"]
"#,
    );
    assert_eq!(exit, Some(2));
    for told in [
        "does not match its example `cargo build`",
        "matches `cargo test --lib`, which it must not",
        "2 errors",
    ] {
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    assert!(stderr.contains("tasks/task.yaml:9:29"), "{stderr}");
    assert!(stderr.contains("tasks/task.yaml:10:19"), "{stderr}");
}

#[test]
fn a_map_that_is_no_rule_is_an_error() {
    for allow in [
        "[{ match: [a] }]",
        "[{ rule: Read, matches: [a] }]",
        "[3]",
        "[{ rule: 'Bash(a' }]",
    ] {
        let (exit, _, stderr) = check(&format!("tools: [Bash]\npermissions:\n  allow: {allow}\n"));
        assert_eq!(exit, Some(2), "{allow}: {stderr}");
    }
}

#[test]
fn rules_that_allow_less_than_they_seem_to_are_doubted() {
    let (exit, _, stderr) = check(
        r#"
tools: [Bash, Edit]
permissions:
  allow: ["Bash(git push:*)", "Edit(*.rs)", "Edit(.git/**)", "Bash(wget:*)", "Bash(ls:*)"]
  deny: ["Bash(git:*)"]
"#,
    );
    assert_eq!(exit, Some(0), "{stderr}");
    for told in [
        "`Bash(git push:*)` allows nothing: the deny rule `Bash(git:*)`",
        "`Edit(*.rs)` matches only directly in the workspace",
        "`Edit(.git/**)` allows nothing",
        "`Bash(wget:*)` covers no arguments",
    ] {
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    assert_eq!(stderr.matches("warning:").count(), 4, "{stderr}");
}

#[test]
fn rules_that_cover_less_than_they_seem_to_are_told_with_their_place() {
    let run = Sandbox::new()
        .script("- text: done\n")
        .file("repo/src/lib.rs", "")
        .task(
            r"
tools: [Bash, Edit]
permissions:
  allow:
    - Edit(src)
    - Edit(src/**)
    - Edit
    - Bash(*)
    - mcp__a
  deny:
    - Read(/etc/hosts)
    - Bash(git push)
",
        )
        .call(&["check", "tasks/task.yaml"]);
    let stderr = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert_eq!(run.output.status.code(), Some(0), "{stderr}");
    for told in [
        "`src` is a directory, and the rule means a file of that name",
        "write `Edit(src/**)`",
        "`Bash(*)` allows every command",
        "no MCP server is configured",
        "write `Read(//etc/hosts)`",
        "write `Bash(git push:*)`",
    ] {
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    assert_eq!(stderr.matches("warning:").count(), 5, "{stderr}");
    assert_eq!(
        stderr.matches("--> tasks/task.yaml:").count(),
        5,
        "{stderr}"
    );
}

fn explained(arguments: &[&str]) -> (Option<i32>, String, String) {
    let sandbox = Sandbox::new()
        .script("- text: done\n")
        .task("tools: [Read, Bash]\npermissions:\n  allow: [\"Bash(cargo test:*)\"]\n");
    let run = sandbox.call(&[&["explain", "tasks/task.yaml"], arguments].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        run.output.status.code(),
        text(&run.output.stdout),
        text(&run.output.stderr),
    )
}

#[test]
fn a_tool_that_the_task_does_not_offer_is_denied() {
    let input = r#"{"file_path": "a", "content": "x"}"#;
    let (exit, stdout, _) = explained(&["--tool", "Write", "--input", input]);
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(exit, Some(1), "{stdout}");
    assert_eq!(answer["decision"], "deny");
    assert_eq!(answer["class"], "not_offered");
    assert_eq!(answer["offered"], false);
}

#[test]
fn the_tool_for_the_answer_is_allowed_where_the_task_has_a_schema_that_the_input_fits() {
    let explained = |task: &str, input: &str| {
        let run = Sandbox::new().script("- text: done\n").task(task).call(&[
            "explain",
            "tasks/task.yaml",
            "--tool",
            "StructuredOutput",
            "--input",
            input,
        ]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let out = &run.output;
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let schema = "tools: []\noutput_schema: { type: object, properties: { severity: { enum: [low, high] } }, required: [severity] }\n";
    let (exit, stdout, stderr) = explained(schema, r#"{"severity": "low"}"#);
    assert_eq!(exit, Some(0), "{stdout}{stderr}");
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&answer["decision"], &answer["offered"]),
        (&"allow".into(), &true.into())
    );

    let (exit, _, stderr) = explained(schema, r#"{"severity": "middle"}"#);
    assert_eq!(exit, Some(2));
    assert!(
        stderr.contains("does not fit the schema of `StructuredOutput`"),
        "{stderr}"
    );

    let (exit, stdout, _) = explained("tools: [Read]\n", r#"{"severity": "low"}"#);
    assert_eq!(exit, Some(1), "{stdout}");
    assert!(
        stdout.contains("give the task an `output_schema`"),
        "{stdout}"
    );
}

#[test]
fn each_command_of_a_line_is_answered_alone() {
    let input = r#"{"command": "cargo test && cargo build | sort"}"#;
    let (exit, stdout, _) = explained(&["--tool", "Bash", "--input", input]);
    assert_eq!(exit, Some(1));
    let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let parts: Vec<(&str, &str, &str)> = answer["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            let text = |key: &str| part[key].as_str().unwrap_or_default();
            (text("command"), text("decision"), text("suggestion"))
        })
        .collect();
    assert_eq!(
        parts,
        [
            ("cargo test", "allow", ""),
            ("cargo build", "deny", "Bash(cargo build)"),
            ("sort", "deny", "Bash(sort)"),
        ]
    );
    let (_, text, _) = explained(&["--tool", "Bash", "--input", input, "--format", "text"]);
    for told in [
        "task: deny (default)",
        "allow    cargo test  by Bash(cargo test:*)",
        "deny     sort  Bash(sort) would allow it",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[test]
fn a_question_that_is_none_is_told_with_the_right_one() {
    for (arguments, told) in [
        (
            &["--tool", "bash", "--input", "{}"][..],
            "did you mean `Bash`?",
        ),
        (&["--tool", "Shell", "--input", "{}"], "the tools are Read"),
        (
            &["--tool", "Bash", "--input", "ls"],
            "expected an object, as in",
        ),
        (&["--tool", "Bash"], "or `--cases FILE`"),
    ] {
        let (exit, _, stderr) = explained(arguments);
        assert_eq!(exit, Some(2), "{stderr}");
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
    let (exit, _, stderr) = explained(&["--tool", "Bash", "--input", "{}"]);
    assert_eq!(exit, Some(2));
    assert_eq!(stderr.matches("does not fit").count(), 1, "{stderr}");
}

#[test]
fn what_was_typed_and_what_a_script_holds_is_told_where_it_is() {
    let sandbox = Sandbox::new()
        .file("README.md", "# no task\n")
        .task("tools: [Read]\n")
        .script("- text: done\n- txt: once more\n");
    let run = sandbox.call(&["check", "README.md"]);
    assert_eq!(run.output.status.code(), Some(2));
    assert!(
        run.stderr().contains("`README.md` is no task file"),
        "{}",
        run.stderr()
    );
    let run = sandbox.call(&["check", "tasks/task.yaml", "--model", "foo"]);
    assert!(
        run.stderr().contains("1 error; no model was called"),
        "{}",
        run.stderr()
    );
    let run = sandbox.call(&["check", "tasks/task.yaml"]);
    assert_eq!(run.output.status.code(), Some(2));
    for told in [
        "--> tasks/script.yaml:2:3",
        "2 | - txt: once more",
        "no model was called",
    ] {
        assert!(run.stderr().contains(told), "{told}: {}", run.stderr());
    }
    let top = sandbox.path().to_string_lossy().into_owned();
    assert!(!run.stderr().contains(&top), "{}", run.stderr());
}

#[test]
fn the_log_of_a_job_has_a_line_at_the_start_and_one_at_the_end_of_a_task() {
    let script = "- tool_calls: [{ name: Read, input: { file_path: a } }]\n- text: done\n";
    let sandbox = Sandbox::new()
        .file("repo/a", "text")
        .task("checks: [{ reply: { contains: done } }]\n")
        .script(script);
    let lines = |progress: &[&str]| {
        let run = sandbox
            .call(&[&["tasks/task.yaml"], progress].concat())
            .exit(0);
        let stderr = run.stderr();
        stderr
            .lines()
            .filter(|line| line.starts_with("[task] ") && !line.contains("] warning"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let tasks = lines(&[]);
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    assert!(
        tasks[0].contains("started") && tasks[1].contains("2 steps"),
        "{tasks:?}"
    );
    let steps = lines(&["--progress", "steps"]);
    assert!(
        steps.iter().any(|line| line.contains("step 1: Read")),
        "{steps:?}"
    );
    assert!(
        steps.iter().any(|line| line.contains("check reply passed")),
        "{steps:?}"
    );
    assert_eq!(lines(&["--progress", "never"]), Vec::<String>::new());
}

#[test]
fn every_rule_that_a_line_needed_counts_as_used() {
    let run = Sandbox::new()
        .script(
            "- tool_calls: [{ name: Bash, input: { command: 'printf a | sort > out.txt' } }]\n- text: done\n",
        )
        .task(
            r#"
tools: [Bash]
permissions:
  allow: ["Bash(printf:*)", "Bash(sort:*)", "Write(out.txt)", "Bash(id)"]
"#,
        )
        .run()
        .exit(0);
    let summary = run.summary();
    let unused: Vec<&str> = summary["tasks"][0]["unused_allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    assert_eq!(unused, ["Bash(id)"]);
}

#[test]
fn nothing_of_the_checkout_is_configuration() {
    let settings = r#"{"permissions": {"allow": ["Bash"]}, "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch started"}]}]}}"#;
    let run = Sandbox::new()
        .file("repo/AGENTS.md", "CANARY of AGENTS.md")
        .file("repo/CLAUDE.md", "CANARY of CLAUDE.md")
        .file("repo/.env", "ANTHROPIC_BASE_URL=http://canary.invalid")
        .file(
            "repo/.mcp.json",
            r#"{"mcpServers": {"canary": {"command": "touch", "args": ["started"]}}}"#,
        )
        .file("repo/.claude/settings.json", settings)
        .file(
            "repo/agent-batch.yaml",
            "defaults: { permissions: { allow: [\"Bash(ls)\"] } }\n",
        )
        .task("tools: [Bash]\n")
        .script("- tool_calls: [{ name: Bash, input: { command: ls } }]\n- text: done\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "denied");
    let transcript = run.read("agent-batch-results/task/1/transcript.jsonl");
    assert!(!transcript.contains("CANARY") && !transcript.contains("canary"));
    assert!(
        run.events_of("task", "workspace_compared")[0]["changes"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

/// Whatever a name leads to, the answer is one clear error and not a process that waits or grows.
#[test]
fn what_is_no_regular_file_or_too_large_is_refused_by_every_command() {
    let sandbox = Sandbox::new().file("run/run.json", "{}");
    let path = |name: &str| sandbox.path().join(name);
    let huge = std::fs::File::create(path("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    for pipe in ["pipe", "run/run.lock"] {
        let made = sandbox.shell(&format!("mkfifo {pipe}"));
        assert!(made.output.status.success(), "{}", made.stderr());
    }
    std::fs::create_dir(path("plan-is-huge")).unwrap();
    std::fs::hard_link(path("huge"), path("plan-is-huge/run.json")).unwrap();
    for (command, told) in [
        ("explain --cases /dev/zero", "expected a regular file"),
        ("explain --cases pipe", "expected a regular file"),
        ("explain --cases huge", "larger than"),
        ("explain --cases run", "expected a regular file"),
        ("check pipe", "expected a regular file"),
        ("check /dev/zero", "expected a regular file"),
        ("check huge", "larger than"),
        (
            "check --project pipe run/run.json",
            "expected a regular file",
        ),
        ("check --project huge run/run.json", "larger than"),
        ("show /dev/zero", "expected a regular file"),
        ("show pipe", "expected a regular file"),
        ("report plan-is-huge", "larger than"),
        ("report run", "run.json"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let run = sandbox.call(&words);
        let stderr = run.stderr();
        assert_eq!(run.output.status.code(), Some(2), "{command}: {stderr}");
        assert!(stderr.contains(told), "{command}: {stderr}");
    }
}

#[test]
fn a_prepared_run_directory_neither_holds_the_run_up_nor_leads_it_out() {
    let sandbox = Sandbox::new()
        .script("- text: done\n")
        .task("")
        .file("outside", "mine")
        .file("agent-batch-results/run.json", "{}");
    let made = sandbox.shell("ln -s ../outside agent-batch-results/run.lock");
    assert!(made.output.status.success());
    sandbox.run().exit(3);
    let made =
        sandbox.shell("rm agent-batch-results/run.lock; mkfifo agent-batch-results/run.lock");
    assert!(made.output.status.success());
    let run = sandbox.run().exit(3);
    assert_eq!(run.read("outside"), "mine");
}

#[test]
fn cases_come_from_standard_input_too_and_a_line_has_a_length() {
    let sandbox = Sandbox::new()
        .file(
            "long.jsonl",
            format!("{{\"id\":\"a\",\"why\":\"{}\"}}\n", "x".repeat(300_000)),
        )
        .file(
            "one.jsonl",
            "{\"id\":\"a\",\"command\":\"id\",\"expect\":\"deny\"}\n",
        );
    let stdin = |name: &str| std::fs::File::open(sandbox.path().join(name)).unwrap();
    let from = |file: &str| {
        let mut command = sandbox.command(&["explain", "--cases", "-"]);
        command.stdin(stdin(file)).output().unwrap()
    };
    let good = from("one.jsonl");
    assert_eq!(good.status.code(), Some(0));
    let long = from("long.jsonl");
    assert_eq!(long.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&long.stderr).contains("-:1: the line is longer"));
    let endless = sandbox
        .command(&["explain", "--cases", "-"])
        .stdin(std::fs::File::open("/dev/zero").unwrap())
        .output()
        .unwrap();
    assert_eq!(endless.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&endless.stderr).contains("larger than"));
}
