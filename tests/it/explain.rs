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
