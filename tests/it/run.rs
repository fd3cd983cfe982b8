//! The loop as its users see it: task files in, exit code, transcript and JUnit out.

use crate::sandbox::Sandbox;

#[test]
fn a_final_answer_is_one_step_and_passes() {
    let run = Sandbox::new()
        .task("tools: []\n")
        .script("- text: hello\n")
        .run()
        .exit(0);
    assert_eq!(run.outcome("task"), "completed");
    let types: Vec<String> = run
        .events("task")
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        types,
        [
            "task_started",
            "prompt_appended",
            "step_started",
            "assistant_replied",
            "workspace_compared",
            "task_finished"
        ]
    );
    assert!(run.junit().contains("tests=\"1\""), "{}", run.junit());
}

#[test]
fn chained_calls_run_in_one_turn_and_their_results_go_back() {
    let run = Sandbox::new()
        .file("repo/a.txt", "alpha\n")
        .file("repo/b.txt", "beta\n")
        .task("checks:\n  - reply: { contains: alpha beta }\n")
        .script(
            "- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n\
             - tool_calls: [{ name: Read, input: { file_path: b.txt } }]\n  expect: [alpha]\n\
             - text: alpha beta\n  expect: [beta]\n",
        )
        .run()
        .exit(0);
    assert_eq!(run.events_of("task", "assistant_replied").len(), 3);
    assert_eq!(run.events_of("task", "prompt_appended").len(), 1);
}

#[test]
fn the_step_limit_fails_the_task_after_the_last_tool_ran() {
    let run = Sandbox::new()
        .file("repo/a.txt", "alpha\n")
        .task("limits: { max_steps: 1 }\n")
        .script("- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: never\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "step_limit");
    assert!(run.junit().contains("type=\"step_limit\""));
    let finished = run.events_of("task", "tool_finished");
    assert_eq!(
        (finished.len(), finished[0]["result"].as_str()),
        (1, Some("ok"))
    );
    assert_eq!(run.events_of("task", "results_appended").len(), 1);
}

#[test]
fn a_task_without_a_step_limit_has_one() {
    let run = Sandbox::new()
        .task("tools: [Bash]\npermissions: { allow: [\"Bash(true:*)\"] }\n")
        .script("- tool_calls: [{ name: Bash, input: { command: \"true\" } }]\n  repeat: forever\n")
        .run()
        .exit(1);
    // Identical calls are noticed before the default limit of ten steps.
    assert_eq!(run.outcome("task"), "loop_detected");
    assert_eq!(run.events_of("task", "assistant_replied").len(), 5);
}

#[test]
fn each_stop_reason_has_its_outcome() {
    for (stop_reason, outcome) in [
        ("stop_sequence", "completed"),
        ("max_tokens", "output_truncated"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_overflow"),
        ("pause_turn", "unexpected_stop"),
        ("future_reason", "unexpected_stop"),
        ("null", "unexpected_stop"),
        ("tool_use", "unexpected_stop"),
    ] {
        let run = Sandbox::new()
            .task("")
            .script(&format!(
                "- text: I will call Read now\n  stop_reason: {stop_reason}\n"
            ))
            .run();
        let run = run.exit(i32::from(outcome != "completed"));
        assert_eq!(run.outcome("task"), outcome, "for {stop_reason}");
        assert!(run.events_of("task", "tool_finished").is_empty());
    }
}

#[test]
fn a_cut_off_tool_call_is_not_run_and_is_answered() {
    let run = Sandbox::new()
        .task("permissions: { mode: acceptEdits }\n")
        .script("- tool_calls: [{ name: Write, input: { file_path: x, content: y } }]\n  stop_reason: max_tokens\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "output_truncated");
    let finished = run.events_of("task", "tool_finished");
    assert_eq!(
        (finished.len(), finished[0]["result"].as_str()),
        (1, Some("not_run"))
    );
    assert!(
        run.events_of("task", "workspace_compared")[0]["changes"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn several_turns_share_one_conversation_and_a_broken_turn_skips_the_rest() {
    let sandbox = Sandbox::new().task("turns: [first, second, third]\nlimits: { max_steps: 1, wrap_up: false }\n").script(
        "- text: one\n- tool_calls: [{ name: Glob, input: { pattern: \"*\" } }]\n  expect: [second]\n- text: never\n",
    );
    let run = sandbox.run().exit(1);
    assert_eq!(run.outcome("task"), "step_limit");
    let last = run.events_of("task", "task_finished").remove(0);
    assert_eq!(last["turns_skipped"], 1);
    assert_eq!(last["reply"], "one");
}

#[test]
fn unknown_tools_and_bad_inputs_are_results_and_the_task_goes_on() {
    let run = Sandbox::new()
        .file("repo/a.txt", "alpha\n")
        .task("")
        .script(
            "- tool_calls: [{ name: read, input: {} }, { name: Read, input: { path: a.txt } }, { name: Read, input: { file_path: nowhere.txt } }, { name: Read, input: { file_path: a.txt } }]\n\
             - text: fine\n  expect: [\"There is no tool `read`\", file_path, nowhere.txt, alpha]\n",
        )
        .run()
        .exit(0);
    let results: Vec<_> = run
        .events_of("task", "tool_finished")
        .iter()
        .map(|event| (event["tool_use_id"].clone(), event["result"].clone()))
        .collect();
    assert_eq!(results.len(), 4, "{results:?}");
    let appended = run.events_of("task", "results_appended").remove(0);
    let order: Vec<_> = appended["tool_use_ids"].as_array().unwrap().clone();
    assert_eq!(order, ["toolu_1_1", "toolu_1_2", "toolu_1_3", "toolu_1_4"]);
    assert_eq!(run.summary()["tasks"][0]["tool_errors"], 3);
}

#[test]
fn edits_to_one_file_in_one_reply_are_applied_in_order() {
    let run = Sandbox::new()
        .file("repo/a.txt", "one\n")
        .task("permissions: { mode: acceptEdits }\nchecks:\n  - command: { run: test \"$(cat a.txt)\" = three }\n  - changed: { only: [a.txt], at_least: 1 }\n")
        .script(
            "- tool_calls: [{ name: Read, input: { file_path: a.txt } }, { name: Edit, input: { file_path: a.txt, old_string: one, new_string: two } }, { name: Edit, input: { file_path: a.txt, old_string: two, new_string: three } }]\n\
             - text: done\n",
        )
        .run()
        .exit(0);
    assert_eq!(run.read("repo/a.txt"), "three\n");
}

#[test]
fn a_denied_action_fails_a_task_that_ended_well_unless_the_task_says_otherwise() {
    let sandbox = |on_denied: &str| {
        Sandbox::new()
            .task(&format!("tools: [Read, Bash]\npermissions: {{ on_denied: {on_denied} }}\n"))
            .script("- tool_calls: [{ name: Bash, input: { command: touch x } }]\n- text: I could not do it.\n")
    };
    let run = sandbox("fail").run().exit(1);
    assert_eq!(run.outcome("task"), "denied");
    assert!(run.junit().contains("type=\"denied\""));
    assert!(run.stderr().contains("Bash(touch x)"), "{}", run.stderr());
    let denied = run.events_of("task", "tool_decided").remove(0);
    assert_eq!(
        (denied["allowed"].as_bool(), denied["mode"].as_str()),
        (Some(false), Some("default"))
    );
    sandbox("ignore").run().exit(0);
    sandbox("warn").run().exit(0);
}

#[test]
fn the_same_denied_call_is_given_up() {
    let run = Sandbox::new()
        .task("tools: [Bash]\n")
        .script("- tool_calls: [{ name: Bash, input: { command: touch x } }]\n  repeat: forever\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "denied");
    assert_eq!(run.events_of("task", "assistant_replied").len(), 3);
}

#[test]
fn a_token_budget_ends_the_task_before_a_call_that_it_cannot_pay() {
    let run = Sandbox::new()
        .task("tools: [Glob]\nlimits: { max_tokens: 1000, max_output_tokens: 400, wrap_up: false }\n")
        .script(
            "- tool_calls: [{ name: Glob, input: { pattern: a } }]\n  usage: { input_tokens: 100, output_tokens: 300 }\n\
             - tool_calls: [{ name: Glob, input: { pattern: b } }]\n  usage: { input_tokens: 100, output_tokens: 700 }\n\
             - text: never\n",
        )
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "token_budget");
    assert_eq!(run.events_of("task", "assistant_replied").len(), 2);
    assert!(run.junit().contains("1200 of 1000"), "{}", run.junit());
}

#[test]
fn a_budget_that_the_last_answer_broke_fails_the_task() {
    let run = Sandbox::new()
        .task("limits: { max_tokens: 1000 }\n")
        .script("- text: done\n  usage: { input_tokens: 10, output_tokens: 2000 }\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "token_budget");
}

#[test]
fn a_tool_that_does_not_end_is_killed_at_its_limit_and_a_task_at_its_own() {
    let run = Sandbox::new()
        .task("tools: [Bash]\npermissions: { allow: [\"Bash(sleep:*)\"] }\nlimits: { tool_timeout: 300ms }\n")
        .script("- tool_calls: [{ name: Bash, input: { command: sleep 1000 } }]\n- text: gave up\n")
        .run()
        .exit(0);
    assert_eq!(
        run.events_of("task", "tool_finished")[0]["result"],
        "timed_out"
    );
    let run = Sandbox::new()
        .task("tools: [Bash]\npermissions: { allow: [\"Bash(sleep:*)\"] }\nlimits: { timeout: 500ms }\n")
        .script("- tool_calls: [{ name: Bash, input: { command: sleep 1000 } }, { name: Bash, input: { command: sleep 1 } }]\n- text: never\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "timeout");
    assert_eq!(run.events_of("task", "tool_finished").len(), 2);
    assert_eq!(run.events_of("task", "results_appended").len(), 1);
}

#[test]
fn a_check_decides_and_a_check_that_cannot_run_is_no_pass() {
    let run = Sandbox::new()
        .task("checks:\n  - command: { run: exit 3 }\n")
        .script("- text: all good\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "check_failed");
    assert!(run.junit().contains("type=\"check_failed\""));
}

#[test]
fn the_hook_of_the_example_holds_in_bypass_mode() {
    let hook = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tasks/hooks/no-rm-rf.sh"
    ))
    .unwrap();
    let sandbox = Sandbox::new()
        .program("tasks/no-rm-rf.sh", &hook)
        .file("repo/precious/file", "x")
        .task(
            "tools: [Bash]\npermissions: { mode: bypassPermissions }\nhooks:\n  PreToolUse: [{ matcher: Bash, command: [./no-rm-rf.sh] }]\n",
        )
        .script("- tool_calls: [{ name: Bash, input: { command: rm -rf precious } }]\n- text: blocked\n  expect: [\"rm -rf\"]\n");
    let refused = sandbox.run().exit(2);
    assert!(
        refused.stderr().contains("--allow-bypass"),
        "{}",
        refused.stderr()
    );
    let run = sandbox.call(&["tasks/task.yaml", "--allow-bypass"]).exit(1);
    assert_eq!(run.outcome("task"), "denied");
    assert_eq!(run.events_of("task", "tool_decided")[0]["class"], "hook");
    assert_eq!(run.read("repo/precious/file"), "x");
    assert!(
        run.stderr().contains("bypassPermissions") && run.junit().contains("bypassPermissions")
    );
    assert!(
        run.read("agent-batch-results/summary.md")
            .contains("bypassPermissions")
    );
}

#[test]
fn nothing_matched_is_a_usage_error() {
    let sandbox = Sandbox::new();
    assert!(
        sandbox
            .call(&["tasks/*.yaml"])
            .exit(2)
            .stderr()
            .contains("tasks/*.yaml")
    );
    sandbox.call(&["tasks/none.yaml"]).exit(2);
}
