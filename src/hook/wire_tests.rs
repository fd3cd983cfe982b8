use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::proc::Captured;

fn captured(text: &str) -> Captured {
    Captured {
        text: text.to_owned(),
        bytes: text.len() as u64,
        spilled: None,
    }
}

fn ended(ending: Ending, stdout: &str, stderr: &str) -> Finished {
    Finished {
        ending,
        stdout: captured(stdout),
        stderr: captured(stderr),
        leaked: 0,
        left: Vec::new(),
    }
}

fn printed(event: HookEvent, stdout: &str) -> Opinion {
    interpret(event, &ended(Ending::Exited(0), stdout, ""))
}

fn pre(stdout: &Value) -> Opinion {
    printed(HookEvent::PreToolUse, &stdout.to_string())
}

fn block(reason: &str) -> Verdict {
    Verdict::Block(reason.to_owned())
}

#[track_caller]
fn assert_fails(opinion: &Opinion, part: &str) {
    let Verdict::Fail(cause) = &opinion.verdict else {
        panic!("expected a failure, found {opinion:?}");
    };
    assert!(cause.contains(part), "{cause}");
    assert_eq!(
        *opinion,
        Opinion::failed(cause.clone()),
        "nothing else of a failed hook counts"
    );
}

#[test]
fn the_input_has_the_common_fields_first_and_keeps_them() {
    let fields =
        json!({"tool_name": "Bash", "session_id": "forged", "tool_input": {"command": "ls"}});
    let context = HookContext {
        session_id: "fix#1".into(),
        transcript_path: "/run/t.jsonl".into(),
        cwd: "/ws".into(),
        permission_mode: "default".into(),
    };
    let Value::Object(fields) = fields else {
        unreachable!()
    };
    let input = Value::Object(input(HookEvent::PreToolUse, fields, &context));
    assert_eq!(
        input.to_string(),
        r#"{"session_id":"fix#1","transcript_path":"/run/t.jsonl","cwd":"/ws","permission_mode":"default","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}"#
    );
}

#[test]
fn silence_is_no_opinion() {
    for silence in ["", " \n\t", "{}", "\n{}\n"] {
        assert_eq!(printed(HookEvent::PreToolUse, silence), Opinion::default());
    }
}

#[test]
fn plain_text_is_context_at_the_start_and_ignored_elsewhere() {
    let opinion = printed(HookEvent::SessionStart, "the build is red\n");
    assert_eq!(opinion.context.as_deref(), Some("the build is red"));
    assert_eq!(
        printed(HookEvent::PreToolUse, "looks fine"),
        Opinion::default()
    );
    assert_eq!(printed(HookEvent::Stop, "[1, 2]"), Opinion::default());
}

#[test]
fn a_decision_behind_chatter_is_a_failure_and_not_lost() {
    let opinion = printed(
        HookEvent::PreToolUse,
        "loading...\n{\"decision\":\"block\"}",
    );
    assert_fails(&opinion, "other text");
}

#[test]
fn exit_2_blocks_with_the_text_of_stderr() {
    let opinion = interpret(
        HookEvent::PreToolUse,
        &ended(Ending::Exited(2), "", "  no pushes on Friday\n"),
    );
    assert_eq!(opinion.verdict, block("no pushes on Friday"));
}

#[test]
fn exit_2_without_a_text_has_the_reason_of_the_json_or_a_default() {
    let reason = r#"{"decision":"block","reason":"because"}"#;
    for (stdout, expected) in [
        (reason, "because"),
        ("", "blocked by a hook that gave no reason"),
        ("{broken", "blocked by a hook that gave no reason"),
    ] {
        let opinion = interpret(HookEvent::Stop, &ended(Ending::Exited(2), stdout, ""));
        assert_eq!(opinion.verdict, block(expected));
    }
}

#[test]
fn json_cannot_override_exit_2() {
    let allow = json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "allow",
        "updatedInput": {"command": "rm"}}})
    .to_string();
    let opinion = interpret(
        HookEvent::PreToolUse,
        &ended(Ending::Exited(2), &allow, "no"),
    );
    assert_eq!(opinion, Opinion::blocked("no"));
}

#[test]
fn every_other_ending_is_a_failure() {
    let allow = r#"{"decision":"approve"}"#;
    for (ending, part) in [
        (Ending::Exited(1), "code 1"),
        (Ending::Exited(127), "code 127"),
        (Ending::Exited(-1), "code -1"),
        (Ending::Signaled(9), "signal 9"),
        (Ending::TimedOut, "time limit"),
        (Ending::Cancelled, "with the run"),
    ] {
        assert_fails(
            &interpret(HookEvent::PreToolUse, &ended(ending, allow, "")),
            part,
        );
    }
}

#[test]
fn a_failure_shows_what_the_hook_wrote_to_stderr() {
    let opinion = interpret(
        HookEvent::PreToolUse,
        &ended(Ending::Exited(1), "", "jq: not found"),
    );
    assert_fails(&opinion, "jq: not found");
}

#[test]
fn output_that_was_too_large_is_a_failure() {
    let mut finished = ended(Ending::Exited(0), "{}", "");
    finished.stdout.bytes = OUTPUT_LIMIT as u64 + 1;
    assert_fails(
        &interpret(HookEvent::PreToolUse, &finished),
        "at most 1048576",
    );
}

#[test]
fn invalid_json_is_a_failure() {
    for (stdout, part) in [
        ("{", "not valid"),
        ("{} {}", "trailing"),
        (r#"{"decision":"deny"}"#, "unknown variant"),
        (r#"{"decision":null}"#, "not valid"),
        (
            r#"{"decision":"block","decision":"approve"}"#,
            "duplicate field",
        ),
        (r#"{"continue":"no"}"#, "not valid"),
        (r#"{"hookSpecificOutput":"deny"}"#, "not valid"),
        (
            r#"{"hookSpecificOutput":{"permissionDecision":"Deny"}}"#,
            "unknown variant",
        ),
        (
            r#"{"hookSpecificOutput":{"permissionDecision":null}}"#,
            "not valid",
        ),
        (
            r#"{"hookSpecificOutput":{"updatedInput":"ls"}}"#,
            "not valid",
        ),
        (
            r#"{"hookSpecificOutput":{"updatedInput":null}}"#,
            "not valid",
        ),
        (
            r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecision":"allow"}}"#,
            "duplicate field",
        ),
        (
            r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#,
            "for `Stop`",
        ),
    ] {
        assert_fails(&printed(HookEvent::PreToolUse, stdout), part);
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert_fails(&printed(HookEvent::PreToolUse, &deep), "recursion");
}

#[test]
fn deny_blocks_with_its_reason() {
    let opinion = pre(
        &json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
        "permissionDecision": "deny", "permissionDecisionReason": "not on main"}}),
    );
    assert_eq!(opinion, Opinion::blocked("not on main"));
    let old = pre(&json!({"decision": "block", "reason": "not on main"}));
    assert_eq!(old, Opinion::blocked("not on main"));
}

#[test]
fn a_block_without_a_reason_gets_a_default_text() {
    for answer in [
        json!({"decision": "block"}),
        json!({"decision": "block", "reason": " "}),
        json!({"decision": "block", "reason": null}),
        json!({"hookSpecificOutput": {"permissionDecision": "deny"}}),
    ] {
        assert_eq!(
            pre(&answer).verdict,
            block("blocked by a hook that gave no reason")
        );
    }
}

#[test]
fn ask_and_defer_deny_because_nobody_is_here() {
    for word in ["ask", "defer"] {
        let opinion = pre(&json!({"hookSpecificOutput": {"permissionDecision": word,
            "permissionDecisionReason": "touches prod"}}));
        assert_eq!(
            opinion.verdict,
            block("a hook would ask a person, and nobody is here: touches prod")
        );
        let bare = pre(&json!({"hookSpecificOutput": {"permissionDecision": word}}));
        assert_eq!(
            bare.verdict,
            block("a hook would ask a person, and nobody is here")
        );
    }
}

#[test]
fn allow_permits_nothing_and_is_said_to_be_ignored() {
    for answer in [
        json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
        json!({"decision": "approve"}),
    ] {
        let opinion = pre(&answer);
        assert_eq!(opinion.verdict, Verdict::Pass);
        assert_eq!(opinion.notes, [ALLOW_IGNORED]);
    }
}

#[test]
fn deny_beats_approve_in_one_answer() {
    for answer in [
        json!({"decision": "approve", "hookSpecificOutput": {"permissionDecision": "deny"}}),
        json!({"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}}),
        json!({"decision": "block", "hookSpecificOutput": {"permissionDecision": "ask"}}),
    ] {
        assert_eq!(
            pre(&answer).verdict,
            block("blocked by a hook that gave no reason")
        );
    }
}

#[test]
fn a_rewrite_replaces_the_whole_input_also_beside_a_deny() {
    let opinion = pre(&json!({"hookSpecificOutput": {"permissionDecision": "deny",
        "updatedInput": {"command": "ls"}}}));
    assert_eq!(
        Value::from(opinion.updated_input.unwrap()),
        json!({"command": "ls"})
    );
    assert!(matches!(opinion.verdict, Verdict::Block(_)));
}

#[test]
fn a_rewrite_elsewhere_is_ignored_with_a_note() {
    let answer = json!({"hookSpecificOutput": {"updatedInput": {}}}).to_string();
    let opinion = printed(HookEvent::PostToolUse, &answer);
    assert_eq!(opinion.updated_input, None);
    assert!(opinion.notes[0].contains("updatedInput"), "{opinion:?}");
}

#[test]
fn a_permission_decision_outside_pre_tool_use_is_ignored_with_a_note() {
    let answer = json!({"hookSpecificOutput": {"permissionDecision": "deny"}}).to_string();
    let opinion = printed(HookEvent::Stop, &answer);
    assert_eq!(opinion.verdict, Verdict::Pass);
    assert!(
        opinion.notes[0].contains("no meaning for `Stop`"),
        "{opinion:?}"
    );
}

#[test]
fn mode_and_permissions_cannot_be_set() {
    let opinion = pre(
        &json!({"permissionMode": "bypassPermissions", "suppressOutput": true,
        "hookSpecificOutput": {"updatedPermissions": [{"type": "setMode"}]}}),
    );
    assert_eq!(
        opinion,
        Opinion {
            notes: vec![
                "ignored in its answer: `permissionMode`, `hookSpecificOutput.updatedPermissions`"
                    .to_owned()
            ],
            ..Opinion::default()
        }
    );
}

#[test]
fn continue_false_ends_the_task() {
    let opinion = pre(&json!({"continue": false, "stopReason": "budget of the team is spent"}));
    assert_eq!(opinion.stop.as_deref(), Some("budget of the team is spent"));
    assert!(pre(&json!({"continue": false})).stop.is_some());
    assert_eq!(pre(&json!({"continue": true})), Opinion::default());
}

#[test]
fn context_and_system_message_are_handed_on() {
    let answer = json!({"systemMessage": "slow disk",
        "hookSpecificOutput": {"additionalContext": "tabs, not blanks"}})
    .to_string();
    for event in HookEvent::ALL {
        let opinion = printed(event, &answer);
        assert_eq!(opinion.context.as_deref(), Some("tabs, not blanks"));
        assert_eq!(opinion.notes, ["slow disk"]);
    }
}

#[test]
fn texts_are_bounded_on_a_character_boundary() {
    let long = "帶".repeat(TEXT_LIMIT + 1);
    let Verdict::Block(reason) = pre(&json!({"decision": "block", "reason": long})).verdict else {
        unreachable!()
    };
    assert_eq!(
        reason,
        format!("{} [cut at 10000 characters]", "帶".repeat(TEXT_LIMIT))
    );
    assert_eq!(bounded("帶吧"), "帶吧");
}

#[test]
fn an_in_process_answer_is_read_like_a_printed_one() {
    let answer = json!({"decision": "block", "reason": "no"});
    assert_eq!(
        interpret_value(HookEvent::PreToolUse, answer),
        Opinion::blocked("no")
    );
    assert_fails(
        &interpret_value(HookEvent::PreToolUse, json!("no")),
        "not valid",
    );
}

fn json_value() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("continue".to_owned()),
        Just("decision".to_owned()),
        Just("reason".to_owned()),
        Just("hookSpecificOutput".to_owned()),
        Just("permissionDecision".to_owned()),
        Just("updatedInput".to_owned()),
        Just("permissionMode".to_owned()),
        "[a-z]{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            Just("allow"),
            Just("approve"),
            Just("block"),
            Just("deny"),
            Just("ask")
        ]
        .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn event() -> impl Strategy<Value = HookEvent> {
    prop::sample::select(HookEvent::ALL.to_vec())
}

proptest! {
    #[test]
    fn arbitrary_output_never_panics_and_passes_only_on_exit_0(
        event in event(), code in any::<i32>(), stdout in "\\PC*", stderr in "\\PC*"
    ) {
        let opinion = interpret(event, &ended(Ending::Exited(code), &stdout, &stderr));
        match code {
            0 => {}
            2 => prop_assert!(matches!(opinion.verdict, Verdict::Block(_))),
            _ => prop_assert!(matches!(opinion.verdict, Verdict::Fail(_))),
        }
    }

    #[test]
    fn arbitrary_json_only_ever_tightens(event in event(), value in json_value()) {
        let printed = printed(event, &value.to_string());
        if value.is_object() {
            // Both doors lead to the same room; only the words of a syntax error differ.
            let called = interpret_value(event, value.clone());
            prop_assert_eq!(
                std::mem::discriminant(&printed.verdict),
                std::mem::discriminant(&called.verdict)
            );
        }
        if event != HookEvent::PreToolUse {
            prop_assert_eq!(&printed.updated_input, &None);
        }
        if value.pointer("/hookSpecificOutput/permissionDecision") == Some(&json!("deny"))
            && event == HookEvent::PreToolUse
        {
            prop_assert_ne!(&printed.verdict, &Verdict::Pass);
        }
        if value.get("decision") == Some(&json!("block")) {
            prop_assert_ne!(&printed.verdict, &Verdict::Pass);
        }
    }

    #[test]
    fn output_cut_anywhere_is_never_read_as_a_pass(cut in 1usize..100) {
        let whole = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": "deny", "permissionDecisionReason": "no"}}).to_string();
        let part: String = whole.chars().take(cut.min(whole.len() - 1)).collect();
        let opinion = printed(HookEvent::PreToolUse, &part);
        prop_assert!(matches!(opinion.verdict, Verdict::Fail(_)), "{}", part);
    }
}
