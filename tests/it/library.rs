//! A new tool, a new hook and a new model come in through the public API; no line of the loop knows them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_batch::agent::{Agent, Interrupt, Shutdown, Surroundings};
use agent_batch::budget::Limits;
use agent_batch::clock::Clock;
use agent_batch::event::{Emitter, Event, Kind, Recording, Sink, ToolResultKind};
use agent_batch::hook::{CallbackSpec, HookCallback, HookContext, HookEvent, HookRuntime, Hooks};
use agent_batch::message::{Block, Message, ToolCall, check_well_formed};
use agent_batch::model::{Listener, Model, ModelError, Reply, Request};
use agent_batch::outcome::Stop;
use agent_batch::policy::{Action, Effect, Mode, Permit, Policy, Roots, Rule, Source};
use agent_batch::proc::Launcher;
use agent_batch::redact::Redactor;
use agent_batch::tool::{Registry, Tool, ToolContext, ToolOutput};
use agent_batch::usage::{ModelFacts, Usage};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

/// Counts apples; panics when asked for pears.
struct Apples {
    meet: Option<Arc<Barrier>>,
}

#[async_trait]
impl Tool for Apples {
    fn name(&self) -> &str {
        "Apples"
    }
    fn description(&self) -> &str {
        "Counts apples."
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"fruit": {"type": "string"}}, "required": ["fruit"], "additionalProperties": false})
    }
    fn action(&self, _input: &Value) -> Action {
        Action::Other
    }
    fn is_concurrency_safe(&self, _input: &Value) -> bool {
        true
    }
    async fn call(&self, permit: Permit, _context: &ToolContext) -> ToolOutput {
        let fruit = permit.input()["fruit"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_ne!(fruit, "pears", "no pears here");
        if let Some(meet) = &self.meet {
            meet.wait().await;
        }
        ToolOutput {
            text: format!("7 {fruit}"),
            ..ToolOutput::default()
        }
    }
}

/// Plays replies and keeps every request.
struct Parrot {
    replies: Vec<Reply>,
    heard: Mutex<Vec<Vec<Message>>>,
}

#[async_trait]
impl Model for Parrot {
    fn name(&self) -> &str {
        "parrot/1"
    }
    fn facts(&self) -> Option<ModelFacts> {
        None
    }
    async fn reply(
        &self,
        request: Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ModelError> {
        let mut heard = self.heard.lock().unwrap();
        heard.push(request.messages.to_vec());
        for piece in ["pol", "ly"] {
            listener.text(piece);
        }
        Ok(self.replies[heard.len() - 1].clone())
    }
}

/// Denies oranges and turns plums into apples.
struct Fruiterer;

#[async_trait]
impl HookCallback for Fruiterer {
    fn name(&self) -> &str {
        "fruiterer"
    }
    async fn call(&self, event: HookEvent, input: &Value) -> Option<Value> {
        assert_eq!(event, HookEvent::PreToolUse);
        match input["tool_input"]["fruit"].as_str()? {
            "oranges" => Some(json!({"decision": "block", "reason": "no oranges"})),
            "plums" => Some(
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"fruit": "apples"}}}),
            ),
            "nothing" => Some(
                json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {}}}),
            ),
            _ => None,
        }
    }
}

struct Shared(Arc<Mutex<Recording>>);

impl Sink for Shared {
    fn accept(&mut self, event: &Event) -> std::io::Result<()> {
        self.0.lock().unwrap().accept(event)
    }
}

struct World {
    _dir: tempfile::TempDir,
    model: Arc<Parrot>,
    agent: Agent,
    events: Arc<Mutex<Recording>>,
    seen: Arc<Mutex<Recording>>,
}

fn asks(fruits: &[&str]) -> Reply {
    let calls = fruits.iter().enumerate().map(|(n, fruit)| {
        Block::tool_use(&ToolCall {
            id: format!("{fruit}{n}"),
            name: "Apples".into(),
            input: json!({"fruit": fruit}),
        })
    });
    Reply {
        content: calls.collect(),
        stop_reason: Some("tool_use".into()),
        ..Reply::default()
    }
}

fn says(text: &str) -> Reply {
    let usage = Usage {
        output_tokens: 5,
        ..Usage::default()
    };
    Reply {
        content: vec![Block::text(text)],
        stop_reason: Some("end_turn".into()),
        usage,
        ..Reply::default()
    }
}

fn world(replies: Vec<Reply>, allow: &[&str], meet: Option<Arc<Barrier>>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let mut registry = Registry::default();
    registry.register(Arc::new(Apples { meet })).unwrap();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into());
    let callback = CallbackSpec {
        event: HookEvent::PreToolUse,
        matcher: String::new(),
        callback: Arc::new(Fruiterer),
        timeout: Duration::from_secs(10),
    };
    let runtime = HookRuntime {
        launcher: launcher.clone(),
        environment: std::collections::BTreeMap::default(),
        workspace: root.clone(),
        redactor: Arc::new(Redactor::default()),
        cancel: CancellationToken::new(),
    };
    let source = Source {
        layer: "task".into(),
        file: "test".into(),
    };
    let rules = allow
        .iter()
        .map(|rule| Rule::parse_with(rule, Effect::Allow, source.clone(), &["Apples"]).unwrap());
    let model = Arc::new(Parrot {
        replies,
        heard: Mutex::default(),
    });
    let agent = Agent {
        purse: None,
        model: Arc::clone(&model) as Arc<dyn Model>,
        registry,
        hooks: Hooks::build(&[], &[callback], runtime).unwrap(),
        hook_context: HookContext::default(),
        policy: Arc::new(Policy {
            mode: Mode::Default,
            allow: rules.collect(),
            deny: Vec::new(),
            roots: Roots {
                workspace: root.clone(),
                ..Roots::default()
            },
        }),
        limits: Limits::default(),
        system: "system".into(),
        surroundings: Surroundings {
            launcher,
            environment: std::collections::BTreeMap::default(),
            output_dir: root.join("output"),
            output_name: "output".into(),
            output_limit: 2_000,
        },
    };
    World {
        _dir: dir,
        model,
        agent,
        events: Arc::default(),
        seen: Arc::default(),
    }
}

impl World {
    async fn run(&self) -> agent_batch::agent::Ended {
        let emitter = Emitter::new(
            "task",
            1,
            Clock::system(),
            Arc::new(Redactor::default()),
            Box::new(Shared(Arc::clone(&self.events))),
            vec![Arc::clone(&self.seen) as agent_batch::event::SharedSink],
        );
        let (interrupt, _clock) = Interrupt::start(&Shutdown::default(), Duration::from_secs(60));
        let ended = self
            .agent
            .run(&["count".to_owned()], &emitter, &interrupt)
            .await;
        assert_eq!(check_well_formed(&ended.messages), Ok(()));
        ended
    }

    fn results(&self) -> Vec<(String, ToolResultKind, String)> {
        let events = self.events.lock().unwrap();
        let finished = events
            .events()
            .iter()
            .filter_map(|event| match &event.kind {
                Kind::ToolFinished(one) => {
                    Some((one.tool_use_id.clone(), one.result, one.content.clone()))
                }
                _ => None,
            });
        finished.collect()
    }
}

#[tokio::test]
async fn a_tool_a_hook_and_a_model_of_ones_own() {
    let world = world(
        vec![
            asks(&["apples", "oranges", "plums", "nothing"]),
            says("done"),
        ],
        &["Apples"],
        None,
    );
    let ended = world.run().await;
    assert_eq!(
        (ended.stop, ended.reply.as_str(), ended.denials),
        (Stop::Completed, "done", 1)
    );
    let results = world.results();
    let find = |id: &str| {
        results
            .iter()
            .find(|(found, ..)| found == id)
            .unwrap()
            .clone()
    };
    assert_eq!(find("apples0").2, "7 apples");
    assert_eq!(find("oranges1").1, ToolResultKind::Denied);
    assert!(find("oranges1").2.contains("no oranges"));
    assert_eq!(
        find("plums2").2,
        "7 apples",
        "the rewritten input is what runs"
    );
    assert_eq!(
        find("nothing3").1,
        ToolResultKind::InvalidInput,
        "a rewrite is validated again"
    );
    let heard = world.model.heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    assert_eq!(
        heard[1][..1],
        heard[0][..],
        "requests are prefix extensions of one another"
    );
    let ids: Vec<_> = heard[1][2]
        .blocks()
        .iter()
        .filter_map(Block::answers)
        .collect();
    assert_eq!(ids, ["apples0", "oranges1", "plums2", "nothing3"]);
}

#[tokio::test]
async fn without_a_rule_the_new_tool_is_denied() {
    let world = world(vec![asks(&["apples"]), says("done")], &[], None);
    let ended = world.run().await;
    assert_eq!((ended.stop, ended.denials), (Stop::Completed, 1));
    assert_eq!(world.results()[0].1, ToolResultKind::Denied);
}

#[tokio::test]
async fn a_tool_that_panics_gives_a_result_and_its_siblings_run() {
    let world = world(
        vec![asks(&["apples", "pears", "apples"]), says("done")],
        &["Apples"],
        None,
    );
    let ended = world.run().await;
    assert_eq!(ended.stop, Stop::Completed);
    let kinds: Vec<_> = ended.messages[2]
        .blocks()
        .iter()
        .map(|block| block.value()["is_error"].as_bool())
        .collect();
    assert_eq!(kinds, [None, Some(true), None]);
    assert!(
        ended.messages[2].blocks()[1].value()["content"]
            .as_str()
            .unwrap()
            .contains("no pears here")
    );
}

#[tokio::test]
async fn safe_calls_of_one_reply_really_overlap() {
    // Each call waits for the other two: run one after the other, they would never end.
    let meet = Arc::new(Barrier::new(3));
    let world = world(
        vec![asks(&["apples", "apples", "apples"]), says("done")],
        &["Apples"],
        Some(meet),
    );
    assert_eq!(world.run().await.stop, Stop::Completed);
    assert_eq!(world.results().len(), 3);
}

#[tokio::test]
async fn text_is_seen_as_it_comes_and_not_stored_in_pieces() {
    let world = world(vec![says("polly")], &[], None);
    world.run().await;
    let pieces = |recording: &Arc<Mutex<Recording>>| {
        let recording = recording.lock().unwrap();
        let texts = recording
            .events()
            .iter()
            .filter_map(|event| match &event.kind {
                Kind::TextStreamed { text, .. } => Some(text.clone()),
                _ => None,
            });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(pieces(&world.seen).concat(), "polly");
    assert!(pieces(&world.events).is_empty());
}

#[tokio::test]
async fn two_calls_with_one_id_end_the_task_and_leave_the_conversation_well_formed() {
    let call = ToolCall {
        id: "same".into(),
        name: "Apples".into(),
        input: json!({"fruit": "apples"}),
    };
    let twice = Reply {
        content: vec![Block::tool_use(&call), Block::tool_use(&call)],
        stop_reason: Some("tool_use".into()),
        ..Reply::default()
    };
    let world = world(vec![twice], &["Apples"], None);
    assert_eq!(world.run().await.stop, Stop::UnexpectedStop);
    assert!(world.results().is_empty());
}
