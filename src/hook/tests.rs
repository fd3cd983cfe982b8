use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::json;

use super::command::Start;
use super::*;
use crate::event::HookResult;
use crate::proc::{Captured, Ending, Finished, Spec};

#[cfg(unix)]
mod shipped;

/// Gives recorded endings in order, and keeps what it was asked to start.
#[derive(Clone, Default)]
struct Recorded {
    endings: Arc<Mutex<VecDeque<Finished>>>,
    started: Arc<Mutex<Vec<Started>>>,
}

struct Started {
    spec: Spec,
    cancelled: bool,
}

#[async_trait::async_trait]
impl Start for Recorded {
    async fn start(
        &self,
        spec: Spec,
        _redactor: Arc<Redactor>,
        cancel: &CancellationToken,
    ) -> std::io::Result<Finished> {
        let cancelled = cancel.is_cancelled();
        self.started
            .lock()
            .unwrap()
            .push(Started { spec, cancelled });
        let recorded = self.endings.lock().unwrap().pop_front();
        Ok(recorded.unwrap_or_else(|| exited(0, "", "")))
    }
}

impl Recorded {
    fn new(endings: impl IntoIterator<Item = Finished>) -> Self {
        Self {
            endings: Arc::new(Mutex::new(endings.into_iter().collect())),
            started: Arc::default(),
        }
    }

    fn count(&self) -> usize {
        self.started.lock().unwrap().len()
    }

    /// What the hook number `index` read on stdin.
    fn stdin(&self, index: usize) -> Value {
        serde_json::from_slice(&self.started.lock().unwrap()[index].spec.stdin).unwrap()
    }
}

fn exited(code: i32, stdout: &str, stderr: &str) -> Finished {
    let captured = |text: &str| Captured {
        text: text.to_owned(),
        bytes: text.len() as u64,
        spilled: None,
    };
    Finished {
        ending: Ending::Exited(code),
        stdout: captured(stdout),
        stderr: captured(stderr),
        leaked: 0,
        left: Vec::new(),
    }
}

fn says(answer: &Value) -> Finished {
    exited(0, &answer.to_string(), "")
}

fn rewrite(input: &Value) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": input}})
}

fn surroundings(starter: impl Start + 'static, workspace: &Path) -> Surroundings {
    Surroundings {
        starter: Box::new(starter),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        workspace: workspace.to_path_buf(),
        redactor: Arc::default(),
        cancel: CancellationToken::new(),
    }
}

fn spec(event: HookEvent, matcher: &str, command: &[&str]) -> HookSpec {
    HookSpec {
        event,
        matcher: matcher.to_owned(),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        timeout: DEFAULT_TIMEOUT,
    }
}

/// Hooks `sh -c N`, numbered so that they can be told apart, with recorded endings.
fn recorded(event: HookEvent, count: usize, recorded: &Recorded) -> Hooks {
    let specs: Vec<HookSpec> = (1..=count)
        .map(|number| spec(event, "Bash|Write", &["sh", "-c", &number.to_string()]))
        .collect();
    Hooks::build_in(&specs, &[], surroundings(recorded.clone(), Path::new("/"))).unwrap()
}

fn call_fields(input: &Value) -> Map<String, Value> {
    let fields = json!({"tool_name": "Bash", "tool_input": input, "tool_use_id": "toolu_1"});
    fields.as_object().unwrap().clone()
}

async fn asked(hooks: &Hooks, event: HookEvent) -> HookAnswer {
    let fields = call_fields(&json!({"command": "ls"}));
    hooks
        .run(event, "Bash", fields, &HookContext::default())
        .await
}

async fn pre(endings: Vec<Finished>) -> (HookAnswer, Recorded) {
    let starter = Recorded::new(endings);
    let count = starter.endings.lock().unwrap().len();
    let hooks = recorded(HookEvent::PreToolUse, count, &starter);
    (asked(&hooks, HookEvent::PreToolUse).await, starter)
}

fn results(answer: &HookAnswer) -> Vec<HookResult> {
    answer.records.iter().map(|record| record.result).collect()
}

#[tokio::test]
async fn a_hook_is_started_without_a_shell_in_the_workspace_with_a_built_environment() {
    let workspace = tempfile::tempdir().unwrap();
    let starter = Recorded::default();
    let specs = [HookSpec {
        timeout: Duration::from_secs(7),
        ..spec(HookEvent::PreToolUse, "", &["sh", "-c", "exit 0; $(x)"])
    }];
    let hooks =
        Hooks::build_in(&specs, &[], surroundings(starter.clone(), workspace.path())).unwrap();
    asked(&hooks, HookEvent::PreToolUse).await;
    let seen = starter.started.lock().unwrap();
    let spec = &seen[0].spec;
    assert!(Path::new(&spec.argv[0]).is_absolute(), "{:?}", spec.argv);
    assert_eq!(spec.argv[1..], ["-c", "exit 0; $(x)"]);
    assert_eq!(spec.cwd, workspace.path());
    assert_eq!(spec.time_limit, Duration::from_secs(7));
    assert_eq!(
        spec.env,
        BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            (
                "CLAUDE_PROJECT_DIR".to_owned(),
                workspace.path().to_str().unwrap().to_owned()
            ),
        ])
    );
}

#[tokio::test]
async fn without_hooks_nothing_is_said() {
    let answer = asked(&Hooks::default(), HookEvent::PreToolUse).await;
    assert!(answer.blocked.is_none() && answer.records.is_empty());
    assert_eq!(Hooks::default().digest().len(), 64);
}

#[tokio::test]
async fn hooks_run_in_order_and_each_sees_the_input_as_rewritten_before() {
    let (answer, starter) = pre(vec![
        says(&rewrite(&json!({"command": "ls -l"}))),
        says(&rewrite(&json!({"command": "ls -la"}))),
        exited(0, "", ""),
    ])
    .await;
    for (index, command) in ["ls", "ls -l", "ls -la"].into_iter().enumerate() {
        assert_eq!(
            starter.stdin(index)["tool_input"],
            json!({"command": command})
        );
        assert_eq!(starter.stdin(index)["hook_event_name"], "PreToolUse");
    }
    assert_eq!(answer.updated_input, Some(json!({"command": "ls -la"})));
    assert!(answer.blocked.is_none());
    let second = answer.records[1].rewrite.as_ref().unwrap();
    assert_eq!(second.before, json!({"command": "ls -l"}));
    assert_eq!(second.after, json!({"command": "ls -la"}));
    assert_eq!(answer.records[1].tool_use_id.as_deref(), Some("toolu_1"));
}

#[tokio::test]
async fn the_first_block_ends_the_row() {
    let (answer, starter) = pre(vec![
        exited(0, "", ""),
        exited(2, "", "no"),
        exited(0, r#"{"decision":"approve"}"#, ""),
    ])
    .await;
    assert_eq!(starter.count(), 2);
    let block = answer.blocked.clone().unwrap();
    assert_eq!((block.reason.as_str(), block.failure), ("no", false));
    assert_eq!(results(&answer), [HookResult::Passed, HookResult::Blocked]);
}

#[tokio::test]
async fn a_rewrite_beside_a_deny_is_applied_before_the_deny() {
    let (answer, _) = pre(vec![says(&json!({"hookSpecificOutput": {
        "permissionDecision": "deny", "permissionDecisionReason": "no",
        "updatedInput": {"command": "echo"}}}))])
    .await;
    assert_eq!(answer.updated_input, Some(json!({"command": "echo"})));
    assert_eq!(answer.blocked.unwrap().reason, "no");
    assert!(answer.records[0].rewrite.is_some());
}

#[tokio::test]
async fn a_hook_that_does_not_work_blocks_and_is_told_apart() {
    let mut timed_out = exited(0, "", "");
    timed_out.ending = Ending::TimedOut;
    let mut killed = exited(0, "", "");
    killed.ending = Ending::Signaled(11);
    for ending in [
        exited(1, "", ""),
        exited(127, "", ""),
        exited(0, "{", ""),
        timed_out,
        killed,
    ] {
        let (answer, starter) = pre(vec![ending, exited(0, "", "")]).await;
        let block = answer.blocked.clone().unwrap();
        assert!(
            block.failure && block.reason.starts_with("hook `sh` failed: "),
            "{block:?}"
        );
        assert_eq!(results(&answer), [HookResult::Failed]);
        assert_eq!(starter.count(), 1);
    }
}

#[tokio::test]
async fn processes_that_hooks_left_behind_are_counted() {
    let mut left_two = exited(0, "", "");
    left_two.leaked = 2;
    let mut left_one = exited(1, "", "");
    left_one.leaked = 1;
    let (answer, _) = pre(vec![left_two, left_one]).await;
    assert_eq!(answer.leaked, 3);
}

struct Unstartable;

#[async_trait::async_trait]
impl Start for Unstartable {
    async fn start(
        &self,
        _spec: Spec,
        _redactor: Arc<Redactor>,
        _cancel: &CancellationToken,
    ) -> std::io::Result<Finished> {
        Err(std::io::Error::other("no such file"))
    }
}

#[tokio::test]
async fn a_hook_that_cannot_be_started_blocks() {
    let specs = [spec(HookEvent::PreToolUse, "", &["sh"])];
    let hooks = Hooks::build_in(&specs, &[], surroundings(Unstartable, Path::new("/"))).unwrap();
    let block = asked(&hooks, HookEvent::PreToolUse).await.blocked.unwrap();
    assert_eq!(
        (block.reason.as_str(), block.failure),
        (
            "hook `sh` failed: it could not be started: no such file",
            true
        )
    );
}

#[tokio::test]
async fn an_allow_is_no_word_for_the_gate() {
    let (answer, _) = pre(vec![says(
        &json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
    )])
    .await;
    assert!(answer.blocked.is_none() && answer.updated_input.is_none());
    assert!(
        answer.warnings[0].contains("hook allow ignored"),
        "{:?}",
        answer.warnings
    );
}

#[tokio::test]
async fn continue_false_holds_the_call_up_and_ends_the_row() {
    let stop = json!({"continue": false, "stopReason": "enough"});
    let (answer, starter) = pre(vec![says(&stop), exited(0, "", "")]).await;
    assert_eq!(answer.stopped.as_deref(), Some("enough"));
    assert!(answer.blocked.is_some());
    assert_eq!(results(&answer), [HookResult::Blocked]);
    assert_eq!(starter.count(), 1);
}

#[tokio::test]
async fn a_stop_hook_can_make_the_turn_go_on_but_not_while_it_ends_the_task() {
    let goes_on = json!({"decision": "block", "reason": "run the tests first"});
    let ends = json!({"decision": "block", "reason": "more", "continue": false});
    let starter = Recorded::new([says(&goes_on), says(&ends)]);
    let hooks = recorded(HookEvent::Stop, 1, &starter);
    let fields = json!({"stop_hook_active": true, "last_assistant_message": "done"});
    let fields = fields.as_object().unwrap();
    let cx = HookContext::default();

    let answer = hooks.run(HookEvent::Stop, "", fields.clone(), &cx).await;
    assert_eq!(answer.blocked.unwrap().reason, "run the tests first");
    assert_eq!(starter.stdin(0)["stop_hook_active"], true);
    assert_eq!(starter.stdin(0)["last_assistant_message"], "done");

    let answer = hooks.run(HookEvent::Stop, "", fields.clone(), &cx).await;
    assert!(answer.blocked.is_none() && answer.stopped.is_some());
}

#[tokio::test]
async fn observers_all_run_and_their_block_is_feedback() {
    for event in [HookEvent::PostToolUse, HookEvent::PostToolUseFailure] {
        let starter = Recorded::new([
            says(&json!({"decision": "block", "reason": "not formatted"})),
            exited(2, "", "line too long"),
            exited(1, "", ""),
            says(&json!({"hookSpecificOutput": {"additionalContext": "see docs/style.md"}})),
        ]);
        let answer = asked(&recorded(event, 4, &starter), event).await;
        assert_eq!(starter.count(), 4);
        assert!(answer.blocked.is_none());
        assert_eq!(
            answer.context,
            ["not formatted", "line too long", "see docs/style.md"]
        );
        assert_eq!(answer.warnings.len(), 1);
        assert_eq!(
            results(&answer),
            [
                HookResult::Blocked,
                HookResult::Blocked,
                HookResult::Failed,
                HookResult::Passed
            ]
        );
    }
}

#[tokio::test]
async fn a_session_hook_gives_context_and_cannot_block() {
    let starter = Recorded::new([exited(0, "branch: main", ""), exited(2, "", "no")]);
    let specs = [
        spec(HookEvent::SessionStart, "startup", &["sh"]),
        spec(HookEvent::SessionStart, "", &["sh"]),
        spec(HookEvent::SessionStart, "resume", &["sh"]),
    ];
    let hooks =
        Hooks::build_in(&specs, &[], surroundings(starter.clone(), Path::new("/"))).unwrap();
    let answer = hooks
        .run(
            HookEvent::SessionStart,
            "startup",
            Map::new(),
            &HookContext::default(),
        )
        .await;
    assert_eq!(answer.context, ["branch: main"]);
    assert!(answer.blocked.is_none());
    assert!(
        answer.warnings[0].contains("cannot block"),
        "{:?}",
        answer.warnings
    );
    assert_eq!(starter.count(), 2, "the third is for another source");
}

#[tokio::test]
async fn only_hooks_of_the_event_and_the_tool_run() {
    let starter = Recorded::default();
    let specs = [
        spec(HookEvent::PreToolUse, "Write", &["sh"]),
        spec(HookEvent::PostToolUse, "Bash", &["sh"]),
        spec(HookEvent::Stop, "never looked at", &["sh"]),
    ];
    let hooks =
        Hooks::build_in(&specs, &[], surroundings(starter.clone(), Path::new("/"))).unwrap();
    asked(&hooks, HookEvent::PreToolUse).await;
    assert_eq!(starter.count(), 0);
    asked(&hooks, HookEvent::Stop).await;
    assert_eq!(starter.count(), 1);
}

#[tokio::test]
async fn an_interrupted_task_still_has_a_moment_for_its_last_hook() {
    let starter = Recorded::default();
    let specs = [
        spec(HookEvent::SessionEnd, "", &["sh"]),
        spec(HookEvent::PreToolUse, "", &["sh"]),
    ];
    let surroundings = surroundings(starter.clone(), Path::new("/"));
    let cancel = surroundings.cancel.clone();
    let hooks = Hooks::build_in(&specs, &[], surroundings).unwrap();
    cancel.cancel();
    asked(&hooks, HookEvent::SessionEnd).await;
    asked(&hooks, HookEvent::PreToolUse).await;
    let seen = starter.started.lock().unwrap();
    assert_eq!(
        (seen[0].cancelled, seen[0].spec.time_limit),
        (false, Duration::from_millis(1_500))
    );
    assert_eq!(
        (seen[1].cancelled, seen[1].spec.time_limit),
        (true, DEFAULT_TIMEOUT)
    );
}

#[tokio::test]
async fn a_hook_whose_script_was_rewritten_does_not_run_and_blocks() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("guard.sh"), "exit 2").unwrap();
    let starter = Recorded::default();
    let specs = [spec(HookEvent::PreToolUse, "", &["sh", "guard.sh"])];
    let hooks =
        Hooks::build_in(&specs, &[], surroundings(starter.clone(), workspace.path())).unwrap();
    let digest = hooks.digest();
    assert!(hooks.tampered().is_empty());

    std::fs::write(workspace.path().join("guard.sh"), "exit 0").unwrap();
    let answer = asked(&hooks, HookEvent::PreToolUse).await;
    let block = answer.blocked.unwrap();
    assert!(
        block.failure && block.reason.contains("changed since the start"),
        "{block:?}"
    );
    assert_eq!(starter.count(), 0);
    assert_eq!(hooks.tampered(), ["sh guard.sh"]);
    assert_eq!(hooks.digest(), digest, "the digest is of the start");
}

#[test]
fn the_digest_tells_sets_apart() {
    let workspace = tempfile::tempdir().unwrap();
    let script = workspace.path().join("a.sh");
    std::fs::write(&script, "exit 0").unwrap();
    let digest = |specs: &[HookSpec]| {
        Hooks::build_in(
            specs,
            &[],
            surroundings(Recorded::default(), workspace.path()),
        )
        .unwrap()
        .digest()
    };
    let base = spec(HookEvent::PreToolUse, "Bash", &["sh", "a.sh"]);
    let other = spec(HookEvent::Stop, "", &["sh"]);
    let mut all = vec![
        digest(&[]),
        digest(std::slice::from_ref(&base)),
        digest(&[base.clone(), other.clone()]),
        digest(&[other, base.clone()]),
        digest(&[HookSpec {
            matcher: "Edit".into(),
            ..base.clone()
        }]),
        digest(&[HookSpec {
            timeout: Duration::from_secs(1),
            ..base.clone()
        }]),
        digest(&[HookSpec {
            command: vec!["sh".into(), "b.sh".into()],
            ..base.clone()
        }]),
    ];
    assert_eq!(digest(std::slice::from_ref(&base)), all[1], "it is stable");
    std::fs::write(&script, "exit 2").unwrap();
    all.push(digest(&[base]));
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn a_set_that_cannot_work_is_refused_at_the_start() {
    let base = spec(HookEvent::PreToolUse, "", &["sh"]);
    for (bad, part) in [
        (
            HookSpec {
                matcher: "Bash(".into(),
                ..base.clone()
            },
            "matcher `Bash(`",
        ),
        (
            HookSpec {
                command: vec!["/no/such".into()],
                ..base.clone()
            },
            "`/no/such` is not a file",
        ),
        (
            HookSpec {
                command: vec!["no-such-hook".into()],
                ..base.clone()
            },
            "no program `no-such-hook`",
        ),
        (
            HookSpec {
                command: vec!["./x.sh".into()],
                ..base.clone()
            },
            "is relative",
        ),
        (
            HookSpec {
                command: Vec::new(),
                ..base.clone()
            },
            "command is empty",
        ),
        (
            HookSpec {
                timeout: Duration::ZERO,
                ..base.clone()
            },
            "`0s`: expected",
        ),
        (
            HookSpec {
                timeout: MAX_TIMEOUT + Duration::from_secs(1),
                ..base.clone()
            },
            "at most `1h`",
        ),
    ] {
        let specs = [base.clone(), bad];
        let built = Hooks::build_in(
            &specs,
            &[],
            surroundings(Recorded::default(), Path::new("/")),
        );
        let error = built.err().unwrap().to_string();
        assert!(
            error.starts_with("hook 2 of `PreToolUse`: ") && error.contains(part),
            "{error}"
        );
    }
}

enum Canned {
    Says(Value),
    Silent,
    Panics,
    Hangs,
}

#[async_trait::async_trait]
impl HookCallback for Canned {
    fn name(&self) -> &'static str {
        "canned"
    }

    async fn call(&self, _event: HookEvent, input: &Value) -> Option<Value> {
        assert_eq!(input["hook_event_name"], "PreToolUse");
        match self {
            Self::Says(value) => Some(value.clone()),
            Self::Silent => None,
            Self::Panics => panic!("a callback's bug"),
            Self::Hangs => std::future::pending().await,
        }
    }
}

fn called(callbacks: Vec<Canned>, starter: &Recorded) -> Hooks {
    let callbacks: Vec<CallbackSpec> = callbacks
        .into_iter()
        .map(|canned| CallbackSpec {
            event: HookEvent::PreToolUse,
            matcher: String::new(),
            callback: Arc::new(canned),
            timeout: Duration::from_millis(1),
        })
        .collect();
    let specs = [spec(HookEvent::PreToolUse, "", &["sh"])];
    Hooks::build_in(
        &specs,
        &callbacks,
        surroundings(starter.clone(), Path::new("/")),
    )
    .unwrap()
}

#[tokio::test]
async fn callbacks_run_after_commands_and_speak_the_same_json() {
    let starter = Recorded::default();
    let hooks = called(
        vec![
            Canned::Silent,
            Canned::Says(rewrite(&json!({"command": "true"}))),
            Canned::Says(json!({"decision": "block", "reason": "no"})),
            Canned::Panics,
        ],
        &starter,
    );
    let answer = asked(&hooks, HookEvent::PreToolUse).await;
    let names: Vec<&str> = answer
        .records
        .iter()
        .map(|record| record.hook.as_str())
        .collect();
    assert_eq!(names, ["sh", "canned", "canned", "canned"]);
    assert_eq!(answer.updated_input, Some(json!({"command": "true"})));
    assert_eq!(answer.blocked.unwrap().reason, "no");
}

#[tokio::test]
async fn a_callback_that_does_not_work_blocks() {
    for (canned, part) in [
        (Canned::Panics, "panicked"),
        (Canned::Hangs, "time limit"),
        (Canned::Says(json!([])), "not valid"),
    ] {
        let answer = asked(
            &called(vec![canned], &Recorded::default()),
            HookEvent::PreToolUse,
        )
        .await;
        let block = answer.blocked.unwrap();
        assert!(block.failure && block.reason.contains(part), "{block:?}");
    }
}

fn ending() -> impl Strategy<Value = (i32, String)> {
    let stdout = prop_oneof![
        Just(String::new()),
        Just(r#"{"decision":"approve"}"#.to_owned()),
        Just(r#"{"decision":"block"}"#.to_owned()),
        Just(r#"{"hookSpecificOutput":{"permissionDecision":"allow"}}"#.to_owned()),
        Just(r#"{"hookSpecificOutput":{"permissionDecision":"ask"}}"#.to_owned()),
        Just(r#"{"hookSpecificOutput":{"updatedInput":{"command":"x"}}}"#.to_owned()),
        "\\PC{0,12}",
    ];
    (prop_oneof![4 => Just(0), 1 => Just(2), 1 => 0..256], stdout)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_row_of_hooks_is_blocked_when_any_of_them_would_block_alone(
        endings in prop::collection::vec(ending(), 0..5)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = |endings: &[(i32, String)]| {
            let endings = endings.iter().map(|(code, stdout)| exited(*code, stdout, "")).collect();
            runtime.block_on(pre(endings)).0.blocked.is_some()
        };
        let alone = endings.iter().any(|ending| run(std::slice::from_ref(ending)));
        prop_assert_eq!(run(&endings), alone);
    }
}
