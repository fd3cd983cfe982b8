//! Many tasks and one purse, one rate limit, one end: what the batch does with all of them together.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};

use agent_batch::agent::Shutdown;
use agent_batch::event::{Event, Kind};
use agent_batch::model::{Listener, Model, ModelError, Reply, Request};
use agent_batch::outcome::{Outcome, Stop};
use agent_batch::proc::Launcher;
use agent_batch::redact::Redactor;
use agent_batch::usage::ModelFacts;
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::batch;
use crate::endings::{signal, until};
use crate::model::server::{Break, KEY, Play, Received, Server, message, status};
use crate::sandbox::{Run, Sandbox};

fn text(said: &str) -> Value {
    json!([{"type": "text", "text": said}])
}

/// How many tool results the request holds: the steps that are done.
fn steps(request: &Received) -> usize {
    request.body.to_string().matches("\"tool_result\"").count()
}

/// Reads a file in every step but the last, the `last`-th from 0.
fn reply(request: &Received, last: usize) -> Value {
    let done = steps(request);
    if done >= last {
        return message(text("done"), "end_turn");
    }
    let input = json!({"file_path": "a.txt", "offset": done + 1});
    let call =
        json!({"type": "tool_use", "id": format!("t{done}"), "name": "Read", "input": input});
    message(json!([call]), "tool_use")
}

/// A sandbox with so many tasks against a server; none of them writes, so nothing stands in the way of their running together.
fn tasks(server: &Server, count: usize, yaml: &str) -> Sandbox {
    let sandbox = Sandbox::new()
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", &server.address)
        .file("repo/a.txt", "alpha\nbeta\ngamma\ndelta\nepsilon\n");
    (0..count).fold(sandbox, |sandbox, n| {
        let yaml = format!("model: anthropic/claude-haiku-4-5\ntools: [Read]\n{yaml}");
        sandbox.named_task(&format!("t{n:03}"), &yaml)
    })
}

fn outcomes(run: &Run) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for task in run.summary()["tasks"].as_array().unwrap() {
        *found
            .entry(task["outcome"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    found
}

/// Numbers that look random and are the same each time.
fn dice(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A server that counts each call as it likes, within what the call allows: no more input than it has bytes, no more output
/// than was asked for. Returns the tokens that it has counted, too.
fn moody(seed: u64) -> (Server, Arc<AtomicU64>) {
    let (calls, spent) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let total = Arc::clone(&spent);
    let server = Server::answering(move |request| {
        let roll = dice(seed * 100_000 + calls.fetch_add(1, Ordering::SeqCst));
        let bytes = request.body.to_string().len() as u64;
        let most = request.body["max_tokens"].as_u64().unwrap();
        let usage = json!({
            "input_tokens": bytes / 8 + roll % (bytes / 4),
            "cache_read_input_tokens": (roll >> 16) % (bytes / 4),
            "cache_creation_input_tokens": (roll >> 32) % (bytes / 4),
            "output_tokens": (roll >> 8) % (most + 1),
        });
        let sum: u64 = usage
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_u64)
            .sum();
        total.fetch_add(sum, Ordering::SeqCst);
        let mut reply = reply(request, 3);
        reply["usage"] = usage;
        Play::Say(reply)
    });
    (server, spent)
}

fn no_seed_overspends(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let most = 60_000 + seed * 5_000;
        let (server, spent) = moody(seed);
        let limit = most.to_string();
        let sandbox = tasks(&server, 50, "limits: { max_output_tokens: 3000 }\n");
        let run = sandbox.call(&[
            "tasks",
            "--jobs",
            "12",
            "--max-tokens",
            &limit,
            "--no-stream",
        ]);
        assert_ne!(
            run.output.status.code(),
            Some(0),
            "what was not measured is not green"
        );
        let spent = spent.load(Ordering::SeqCst);
        assert!(
            spent <= most,
            "seed {seed}: {spent} of {most}\n{}",
            run.stderr()
        );
        assert!(
            spent * 2 > most,
            "seed {seed}: only {spent} of {most}\n{}",
            run.stderr()
        );
        assert_eq!(run.summary()["totals"]["tokens"]["total"], spent);
        let outcomes = outcomes(&run);
        assert!(outcomes["not_run"] > 0, "{outcomes:?}");
        assert_eq!(outcomes.values().sum::<usize>(), 50);
    }
}

#[test]
fn a_purse_is_never_overspent_seeds_0_to_4() {
    no_seed_overspends(0..5);
}

#[test]
fn a_purse_is_never_overspent_seeds_5_to_9() {
    no_seed_overspends(5..10);
}

#[test]
fn a_purse_is_never_overspent_seeds_10_to_14() {
    no_seed_overspends(10..15);
}

#[test]
fn a_purse_is_never_overspent_seeds_15_to_19() {
    no_seed_overspends(15..20);
}

#[test]
fn a_provider_that_counts_what_cannot_be_ends_the_batch() {
    let server = Server::answering(|request| {
        let mut reply = reply(request, 3);
        reply["usage"] = json!({"input_tokens": u64::MAX, "output_tokens": u64::MAX});
        Play::Say(reply)
    });
    let run = tasks(&server, 6, "")
        .call(&[
            "tasks",
            "--jobs",
            "2",
            "--max-tokens",
            "100000",
            "--no-stream",
        ])
        .exit(1);
    let outcomes = outcomes(&run);
    assert!(outcomes["not_run"] >= 4, "{outcomes:?}");
    assert!(!outcomes.contains_key("completed"), "{outcomes:?}");
}

#[test]
fn near_the_end_of_the_purse_the_running_are_told_and_the_others_are_not_started() {
    let run = Sandbox::new()
        .file("repo/a.txt", "alpha\n")
        .named_task("first", "")
        .named_task("second", "")
        .script(
            "- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n  usage: { input_tokens: 10, output_tokens: 181000 }\n\
             - text: done\n  expect: [alpha, \"181010 of 200000 tokens\"]\n  usage: { input_tokens: 10, output_tokens: 10 }\n",
        )
        .call(&["tasks/first.yaml", "tasks/second.yaml", "--jobs", "1", "--max-tokens", "200000"])
        .exit(3);
    assert_eq!(run.outcome("first"), "completed");
    let note = run.events_of("first", "note_appended").remove(0);
    assert_eq!(note["origin"], "wind_down");
    let reason = "the batch has spent 181030 of 200000 tokens (`--max-tokens`), and from 90 % on no task is started";
    for report in ["summary.json", "junit.xml", "summary.md"] {
        let report = run.read(&format!("agent-batch-results/{report}"));
        let plain = report.replace("&#96;", "`");
        assert!(plain.contains("from 90 % on no task is started"), "{plain}");
    }
    let second = &run.summary()["tasks"][1];
    assert_eq!(
        (second["outcome"].as_str(), second["message"].as_str()),
        (Some("not_run"), Some(reason))
    );
    assert!(run.stderr().contains(reason), "{}", run.stderr());
}

#[test]
fn the_reports_are_the_same_when_they_are_made_again() {
    let sandbox = Sandbox::new()
        .named_task("first", "")
        .named_task("second", "")
        .script("- text: done\n  usage: { input_tokens: 10, output_tokens: 9500 }\n");
    let run = sandbox
        .call(&[
            "tasks/first.yaml",
            "tasks/second.yaml",
            "--jobs",
            "1",
            "--max-tokens",
            "10000",
        ])
        .exit(3);
    let before = run.read("agent-batch-results/summary.json");
    let again = sandbox.call(&["report", "agent-batch-results"]).exit(3);
    assert_eq!(before, again.read("agent-batch-results/summary.json"));
}

#[test]
fn a_first_call_that_cannot_be_paid_is_a_task_that_was_not_run() {
    let run = Sandbox::new()
        .task("")
        .script("- text: never\n")
        .call(&["tasks/task.yaml", "--max-tokens", "300"])
        .exit(3);
    assert_eq!(run.outcome("task"), "not_run");
    assert!(run.events_of("task", "step_started").is_empty());
    assert!(run.junit().contains("<skipped"), "{}", run.junit());
}

#[test]
fn money_is_a_purse_too_and_the_project_may_hold_it() {
    let sandbox = Sandbox::new()
        .named_task("first", "")
        .named_task("second", "")
        .script("price: { input: 1, output: 10 }\nreplies:\n  - text: done\n    usage: { input_tokens: 1, output_tokens: 100000 }\n")
        .file("agent-batch.yaml", "batch: { max_cost_usd: 1.05, wind_down: 80 }\n");
    let both = ["tasks/first.yaml", "tasks/second.yaml", "--jobs", "1"];
    let run = sandbox.call(&both).exit(3);
    assert_eq!(
        (run.outcome("first"), run.outcome("second")),
        ("completed".into(), "not_run".into())
    );
    let run = sandbox
        .call(&[&both[..], &["--max-cost", "1000"]].concat())
        .exit(3);
    assert_eq!(
        run.outcome("second"),
        "not_run",
        "the command line loosens nothing"
    );
}

/// What a server with a limit has seen.
#[derive(Default)]
struct Load {
    state: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    active: usize,
    requests: usize,
    refused: usize,
    refused_later: usize,
    peak_later: usize,
}

const WARM_UP: usize = 100;
const LIMIT: usize = 8;

/// Refuses what is above the limit. What is taken is answered when a few more have come or a moment has passed.
fn limited(load: &Arc<Load>, headers: Vec<(&'static str, String)>) -> Server {
    let load = Arc::clone(load);
    Server::answering(move |request| {
        let mut seen = load.state.lock().unwrap();
        seen.requests += 1;
        seen.active += 1;
        let is_later = seen.requests > WARM_UP;
        if is_later {
            seen.peak_later = seen.peak_later.max(seen.active);
        }
        if seen.active > LIMIT {
            seen.active -= 1;
            seen.refused += 1;
            seen.refused_later += usize::from(is_later);
            let Play::Status(status, _, body) = status(429, "rate_limit_error", "too many") else {
                unreachable!()
            };
            return Play::Status(status, headers.clone(), body);
        }
        let moment = std::time::Duration::from_millis(10);
        let (mut seen, _) = load.changed.wait_timeout(seen, moment).unwrap();
        seen.active -= 1;
        Play::Say(reply(request, 4))
    })
}

#[test]
fn a_server_that_bears_eight_calls_is_not_hammered_and_all_tasks_pass() {
    let load = Arc::new(Load::default());
    let server = limited(&load, vec![("retry-after", "0.02".into())]);
    let run = tasks(&server, 100, "")
        .call(&["tasks", "--jobs", "40", "--no-stream"])
        .exit(0);
    assert_eq!(
        outcomes(&run),
        BTreeMap::from([("completed".to_owned(), 100)])
    );
    let seen = load.state.lock().unwrap();
    let later = seen.requests - WARM_UP;
    assert_eq!(seen.requests - seen.refused, 500);
    assert!(
        seen.refused_later * 20 < later,
        "{} of {later} refused",
        seen.refused_later
    );
    assert!(seen.refused < 40 + later / 20, "{} refused", seen.refused);
    assert!(seen.peak_later <= LIMIT + 1, "{} at once", seen.peak_later);
}

#[test]
fn waiting_for_the_rate_limit_is_not_the_tasks_time() {
    // Two waits of 1.5 s in a task of 2 s, which would end it if they counted.
    let run = Sandbox::new()
        .task("limits: { timeout: 2s }\n")
        .script("- text: done\n  fault: { status: 429, retry_after: 1.5, times: 2 }\n")
        .run()
        .exit(0);
    assert_eq!(run.outcome("task"), "completed");
    assert_eq!(run.events_of("task", "model_retried").len(), 2);
}

/// What a task spent whose every answer is cut, and the events of that.
fn cut_off(play: Break, yaml: &str, args: &[&str]) -> (Run, Vec<Value>, usize) {
    let server =
        Server::answering(move |_| Play::Break(play, message(text("half of it"), "end_turn")));
    let run = tasks(&server, 1, yaml).call(&[&["tasks/t000.yaml"], args].concat());
    let cuts = run.events_of("t000", "call_cut");
    (run, cuts, server.received())
}

#[test]
fn answers_that_are_cut_are_paid_for_until_the_tasks_budget_is_used_up() {
    let yaml = "limits: { max_tokens: 20000 }\n";
    for play in [Break::Cut, Break::Truncate] {
        let (run, cuts, requests) = cut_off(play, yaml, &[]);
        let run = run.exit(1);
        assert_eq!(run.outcome("t000"), "token_budget");
        assert_eq!(cuts.len(), requests, "each of them began to answer");
        let totals = &run.summary()["totals"];
        let spent = totals["tokens"]["total"].as_u64().unwrap();
        assert!((19_000..=20_500).contains(&spent), "{spent}");
        assert_eq!(
            cuts.last().unwrap()["total_usage"]["output_tokens"],
            totals["tokens"]["output_tokens"]
        );
        assert_eq!(totals["has_estimates"], true);
        assert!(totals["cost_usd"].as_f64().unwrap() > 0.0);
        assert!(run.summary().to_string().contains("cut off in the middle"));
    }
}

#[test]
fn answers_that_are_cut_are_paid_from_the_batchs_purse() {
    let (run, cuts, _) = cut_off(Break::Cut, "", &["--max-tokens", "20000"]);
    let run = run.exit(1);
    assert_eq!(run.outcome("t000"), "token_budget");
    let spent = run.summary()["totals"]["tokens"]["total"].as_u64().unwrap();
    assert!((16_000..=20_000).contains(&spent), "{spent}");
    assert!(cuts.iter().all(|cut| cut["is_estimate"] == true));
}

#[test]
fn a_call_that_a_time_limit_cuts_is_in_the_sums() {
    let (run, cuts, _) = cut_off(
        Break::Stall,
        "limits: { timeout: 1s }\n",
        &["--max-tokens", "50000"],
    );
    let run = run.exit(1);
    assert_eq!(run.outcome("t000"), "timeout");
    assert_eq!(cuts.len(), 1);
    let spent = run.summary()["totals"]["tokens"]["total"].as_u64().unwrap();
    assert!(spent >= 16_000, "{spent}");
}

#[test]
fn answers_that_never_begin_cost_nothing() {
    let server = Server::start([
        Play::Break(Break::BeforeAnswer, json!({})),
        status(529, "overloaded_error", "played"),
        Play::Stream("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"played\"}}\n\n".into()),
        Play::Say(message(text("done"), "end_turn")),
    ]);
    let run = tasks(&server, 1, "").call(&["tasks/t000.yaml"]).exit(0);
    assert!(run.events_of("t000", "call_cut").is_empty());
    assert_eq!(run.summary()["totals"]["has_estimates"], false);
}

#[test]
fn a_group_has_its_own_limit_on_tasks_at_the_same_time() {
    let (now, peak) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let most = Arc::clone(&peak);
    let server = Server::answering(move |request| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::park_timeout(std::time::Duration::from_millis(2));
        now.fetch_sub(1, Ordering::SeqCst);
        Play::Say(reply(request, 1))
    });
    tasks(&server, 12, "group: api\n")
        .file("agent-batch.yaml", "groups: { api: { jobs: 2 } }\n")
        .call(&["tasks", "--jobs", "12"])
        .exit(0);
    assert!(peak.load(Ordering::SeqCst) <= 2);
}

#[test]
fn a_group_of_no_tasks_and_a_share_of_more_than_all_are_told_with_their_lines() {
    let refused = Sandbox::new()
        .task("")
        .script("- text: never\n")
        .file(
            "agent-batch.yaml",
            "batch:\n  wind_down: 101\ngroups:\n  api: { jobs: 0 }\n",
        )
        .run()
        .exit(2);
    let said = refused.stderr();
    assert!(
        said.contains("agent-batch.yaml:2") && said.contains("1 to 100 percent"),
        "{said}"
    );
    assert!(
        said.contains("agent-batch.yaml:4") && said.contains("1 or more tasks"),
        "{said}"
    );
}

#[test]
fn after_the_first_failure_no_other_task_is_started() {
    let sandbox = Sandbox::new()
        .named_task("a", "")
        .named_task("b", "checks:\n  - reply: { contains: nowhere }\n")
        .named_task("c", "")
        .script("- text: done\n");
    let run = sandbox
        .call(&["tasks/[abc].yaml", "--jobs", "1", "--fail-fast"])
        .exit(1);
    assert_eq!(run.outcome("a"), "completed");
    assert_eq!(run.outcome("c"), "not_run");
    assert!(run.junit().contains("--max-failures"), "{}", run.junit());
    let run = sandbox
        .call(&["tasks/[abc].yaml", "--jobs", "1", "--max-failures", "2"])
        .exit(1);
    assert_eq!(run.outcome("c"), "completed");
}

/// A task whose calls answer with these texts, one call for each trial.
fn trials(said: &[&str], yaml: &str, args: &[&str]) -> (Run, usize) {
    let plays = said.iter().map(|said| match *said {
        "broken" => status(400, "invalid_request_error", "played"),
        said => Play::Say(message(text(said), "end_turn")),
    });
    let server = Server::start(plays);
    let yaml = format!("checks:\n  - reply: {{ contains: right }}\n{yaml}");
    let sandbox = tasks(&server, 1, &yaml);
    let run = sandbox.call(&[&["tasks/t000.yaml"], args].concat());
    (run, server.received())
}

#[test]
fn trials_pass_with_enough_of_them_and_end_when_that_is_decided() {
    let said = ["right", "wrong", "right", "right", "right"];
    let (run, calls) = trials(&said, "trials: { count: 5, pass: 3 }\n", &[]);
    let run = run.exit(0);
    assert_eq!(calls, 4, "the fifth trial can change nothing");
    let task = &run.summary()["tasks"][0];
    assert_eq!(
        (task["outcome"].as_str(), task["flaky"].as_bool()),
        (Some("completed"), Some(true))
    );
    assert_eq!(task["trials"]["passed"], 3);
    assert_eq!(task["trials"]["failed"], 1);
    assert_eq!(task["trials"]["pass_rate"], 0.75);
    let interval = task["trials"]["pass_rate_interval"].as_array().unwrap();
    assert!(interval[0].as_f64().unwrap() < 0.75 && interval[1].as_f64().unwrap() > 0.75);
    assert_eq!(task["trials"]["pass_all"][1], 0.5);
    let message = task["message"].as_str().unwrap();
    assert!(
        message.ends_with("; the last one was not run, as it cannot change the verdict"),
        "{message}"
    );
    for attempt in 1..=4 {
        run.read(&format!(
            "agent-batch-results/t000/{attempt}/transcript.jsonl"
        ));
    }
    let (run, calls) = trials(&said, "trials: { count: 5, pass: 3 }\n", &["--all-trials"]);
    assert_eq!(calls, 5);
    let run = run.exit(0);
    assert_eq!(run.summary()["tasks"][0]["trials"]["passed"], 4);
    assert!(!run.stdout().contains("not run"), "{}", run.stdout());
}

#[test]
fn the_row_of_a_task_with_trials_is_the_sum_of_its_attempts_in_every_report() {
    let said = ["right", "wrong", "right"];
    let (run, _) = trials(&said, "trials: { count: 3, pass: 2 }\n", &[]);
    let run = run.exit(0);
    let summary = run.summary();
    let (task, totals) = (&summary["tasks"][0], &summary["totals"]);
    assert_eq!(
        (task["steps"].as_u64(), totals["steps"].as_u64()),
        (Some(1), Some(3))
    );
    let tokens = totals["tokens"]["total"].as_u64().unwrap();
    assert!(tokens > task["tokens"]["total"].as_u64().unwrap());
    assert!(tokens < 1000, "{tokens}: rounded in the reports");
    let console = run.stdout();
    let row = console
        .lines()
        .find(|line| line.starts_with("passed") && line.contains("t000"))
        .unwrap();
    assert!(row.contains("3 steps"), "{row}");
    assert!(row.contains(&format!("{tokens} tokens")), "{row}");
    let page = run.read("agent-batch-results/summary.md");
    let row = page
        .lines()
        .find(|line| line.contains("| `t000` |"))
        .unwrap();
    assert!(row.contains(&format!("| 3 | 0 | {tokens} |")), "{row}");
    let html = run.read("agent-batch-results/report.html");
    assert!(html.contains("data-value=\"3\">3<span class=\"unit\"> steps<"));
    assert!(html.contains(&format!("data-value=\"{tokens}\">{tokens}<")));
    assert!(html.contains("in attempt 3 alone"));
}

#[test]
fn every_report_tells_of_trials_and_calls_only_those_that_did_not_pass_a_rerun() {
    let said = ["right", "wrong", "right", "right", "wrong"];
    let yaml = "trials: { count: 5, pass: 3 }\n";
    let (run, _) = trials(&said, yaml, &["--all-trials"]);
    let run = run.exit(0);
    let junit = run.junit();
    assert_eq!(junit.matches("<testcase").count(), 1, "{junit}");
    assert_eq!(junit.matches("<flakyFailure").count(), 2, "{junit}");
    assert!(junit.contains("[[PROPERTY|flaky=true]]"), "{junit}");
    let told = "3 of 5 trials passed, 3 of 5 have to";
    assert_eq!(run.summary()["tasks"][0]["trials"]["passed"], 3);
    for report in ["summary.md", "comment.md", "report.html", "junit.xml"] {
        let text = run.read(&format!("agent-batch-results/{report}"));
        assert!(text.contains(told), "{report}\n{text}");
        assert!(text.contains("flaky"), "{report}\n{text}");
    }
    assert!(run.stdout().contains(told), "{}", run.stdout());
    let page = run.read("agent-batch-results/report.html");
    assert!(page.contains("href=\"./comment.md\""));
    assert!(!page.contains("gl-code-quality"));

    // Of a case that failed, an earlier trial that passed is none, and the last one is the case itself.
    let yaml = "trials: { count: 3, pass: 3 }\n";
    let (run, _) = trials(&["right", "wrong", "wrong"], yaml, &["--all-trials"]);
    let junit = run.exit(1).junit();
    assert_eq!(junit.matches("<rerunFailure").count(), 1, "{junit}");
    assert!(junit.contains("1 of 3 trials passed"), "{junit}");
}

#[test]
fn a_run_that_goes_on_repeats_no_trial_and_runs_the_missing_ones() {
    let plays = ["right", "broken", "right", "right", "wrong"];
    let plays = plays.iter().map(|said| match *said {
        "broken" => status(400, "invalid_request_error", "played"),
        said => Play::Say(message(text(said), "end_turn")),
    });
    let server = Server::start(plays);
    let yaml = "checks:\n  - reply: { contains: right }\ntrials: { count: 4, pass: 3 }\n";
    let sandbox = tasks(&server, 1, yaml);
    let resume = [
        "tasks/t000.yaml",
        "--resume",
        "agent-batch-results",
        "--all-trials",
    ];
    let run = sandbox.call(&["tasks/t000.yaml", "--all-trials"]).exit(0);
    assert_eq!(run.summary()["tasks"][0]["trials"]["errored"], 1);
    assert_eq!(server.received(), 4);
    let run = sandbox.call(&resume).exit(0);
    let task = &run.summary()["tasks"][0];
    assert_eq!(task["trials"]["passed"], 3, "{task}");
    assert_eq!(task["trials"]["failed"], 1);
    assert_eq!(task["trials"]["errored"], 0);
    assert_eq!(
        server.received(),
        5,
        "one for each trial, and the broken one"
    );
    let again = sandbox.call(&["report", "agent-batch-results"]).exit(0);
    assert_eq!(again.summary()["tasks"][0], *task);
    let run = sandbox.call(&resume).exit(0);
    assert!(
        run.stderr().contains("0 of 1 tasks left"),
        "{}",
        run.stderr()
    );
    assert_eq!(server.received(), 5);
}

#[test]
fn trials_of_which_too_many_fail_end_the_task_early() {
    let (run, calls) = trials(
        &["wrong", "wrong", "right"],
        "trials: { count: 5, pass: 4 }\n",
        &[],
    );
    let run = run.exit(1);
    assert_eq!(calls, 2);
    assert_eq!(run.outcome("t000"), "check_failed");
    let message = run.summary()["tasks"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("0 of 2 trials passed, 4 of 5 have to"),
        "{message}"
    );
    assert!(
        message.contains("; the last 3 were not run, as they cannot change the verdict; "),
        "{message}"
    );
}

#[test]
fn trials_that_the_batch_cannot_pay_for_are_not_run_and_say_why_alone() {
    let yaml = "trials: { count: 3, pass: 3 }\n";
    let (run, calls) = trials(&["right"], yaml, &["--max-tokens", "10"]);
    assert_eq!(calls, 0);
    let run = run.exit(3);
    assert_eq!(run.outcome("t000"), "not_run");
    let message = run.summary()["tasks"][0]["message"].clone();
    let why = "the batch has spent 0 of 10 tokens";
    assert!(message.as_str().unwrap().starts_with(why), "{message}");

    // One trial was paid for, and the next one cannot be.
    let script = "- text: right\n  usage: { input_tokens: 7000, output_tokens: 100 }\n";
    let yaml = format!("tools: []\n{yaml}");
    let run = Sandbox::new()
        .task(&yaml)
        .script(script)
        .call(&["tasks/task.yaml", "--max-tokens", "8000"])
        .exit(3);
    assert_eq!(run.outcome("task"), "not_run");
    let message = run.summary()["tasks"][0]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(
        message.starts_with("1 of 1 trials passed, 3 of 3 have to"),
        "{message}"
    );
    assert!(
        message.contains("; the batch has spent 7100 of 8000 tokens"),
        "{message}"
    );
}

#[test]
fn an_infrastructure_error_is_retried_in_an_attempt_of_its_own_and_a_failure_is_not() {
    let (run, calls) = trials(&["broken", "right"], "retries: 2\n", &[]);
    let run = run.exit(0);
    assert_eq!(calls, 2);
    let task = &run.summary()["tasks"][0];
    assert_eq!(
        (task["attempt"].as_u64(), task["flaky"].as_bool()),
        (Some(2), Some(true))
    );
    assert_eq!(task["earlier_attempts"][0]["outcome"], "api_error");
    let (run, calls) = trials(&["wrong", "right"], "retries: 2\n", &[]);
    assert_eq!(calls, 1);
    assert_eq!(run.exit(1).outcome("t000"), "check_failed");
    let (run, calls) = trials(&["broken", "broken", "right"], "retries: 1\n", &[]);
    assert_eq!(calls, 2);
    assert_eq!(run.exit(3).outcome("t000"), "api_error");
}

#[test]
fn a_script_that_has_run_out_is_not_tried_again() {
    for script in [
        "- text: x\n  expect: [nowhere]\n",
        "- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n",
    ] {
        let run = Sandbox::new()
            .file("repo/a.txt", "alpha\n")
            .task("tools: [Read]\nretries: 3\n")
            .script(script)
            .run()
            .exit(3);
        assert_eq!(run.outcome("task"), "api_error");
        assert_eq!(run.summary()["tasks"][0]["attempt"], 1);
    }
}

#[test]
fn a_server_that_wants_to_be_left_alone_for_long_ends_the_call_and_is_not_called_again() {
    let Play::Status(code, _, body) = status(429, "rate_limit_error", "later") else {
        unreachable!()
    };
    let server = Server::start([Play::Status(
        code,
        vec![("retry-after", "9999".into())],
        body,
    )]);
    let run = tasks(&server, 1, "limits: { timeout: 3s }\n")
        .call(&["tasks/t000.yaml"])
        .exit(3);
    assert_eq!(run.outcome("t000"), "api_error");
    assert!(
        run.summary().to_string().contains("again in 2h 46m"),
        "{}",
        run.summary()
    );
    assert_eq!(server.received(), 1);
}

#[test]
fn a_directory_with_the_highest_number_is_no_attempt() {
    let sandbox = Sandbox::new().task("").script("- fault: { status: 400 }\n");
    let run = sandbox.run().exit(3);
    fs::create_dir(run.path("agent-batch-results/task/4294967295")).unwrap();
    let run = sandbox
        .call(&["tasks/task.yaml", "--resume", "agent-batch-results"])
        .exit(3);
    assert_eq!(run.summary()["tasks"][0]["attempt"], 2);
    assert_eq!(run.outcome("task"), "api_error");
}

#[test]
fn at_the_step_limit_the_model_hands_over_what_it_has_without_tools() {
    let sandbox = |limits: &str| {
        Sandbox::new()
            .file("repo/a.txt", "alpha\n")
            .task(&format!("limits: {{ max_steps: 1{limits} }}\n"))
            .script(
                "- tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n\
                 - text: half is done\n  expect: [alpha, \"Hand over now\"]\n  tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n",
            )
    };
    let run = sandbox("").run().exit(1);
    assert_eq!(run.outcome("task"), "step_limit");
    let task = &run.summary()["tasks"][0];
    assert_eq!(
        (task["reply"].as_str(), task["steps"].as_u64()),
        (Some("half is done"), Some(2))
    );
    let results: Vec<Value> = run
        .events_of("task", "tool_finished")
        .iter()
        .map(|event| event["result"].clone())
        .collect();
    assert_eq!(results, ["ok", "not_run"]);
    assert_eq!(
        run.events_of("task", "assistant_replied")[1]["route"],
        "wrap_up"
    );
    assert_eq!(
        task["message"],
        "the step limit of 1 (`max_steps`) was reached; one more step was the hand-over"
    );
    let run = sandbox(", wrap_up: false").run().exit(1);
    assert_eq!(run.events_of("task", "assistant_replied").len(), 1);
}

#[test]
fn a_hand_over_without_text_is_none_and_every_report_says_so() {
    let call = "- tool_calls: [{ name: Glob, input: { pattern: a } }]\n";
    let run = Sandbox::new()
        .task("tools: [Glob]\nlimits: { max_steps: 1 }\n")
        .script(&call.repeat(2))
        .run()
        .exit(1);
    let told = "one more step was to be the hand-over, and none came: the reply called tools and had no text";
    for report in ["summary.md", "report.html", "junit.xml"] {
        let text = run.read(&format!("agent-batch-results/{report}"));
        assert!(text.contains(told), "{report}\n{text}");
    }
    assert!(run.stdout().contains(told), "{}", run.stdout());
}

#[test]
fn a_hand_over_that_does_not_work_changes_nothing_and_is_told() {
    let run = Sandbox::new()
        .task("tools: [Glob]\nlimits: { max_steps: 1 }\n")
        .script("- tool_calls: [{ name: Glob, input: { pattern: a } }]\n")
        .run()
        .exit(1);
    assert_eq!(run.outcome("task"), "step_limit");
    assert_eq!(run.events_of("task", "warned")[0]["code"], "wrap_up");
    let message = run.summary()["tasks"][0]["message"].clone();
    assert!(
        message
            .as_str()
            .unwrap()
            .ends_with("; one more step was to be the hand-over, and failed"),
        "{message}"
    );
}

#[test]
fn every_request_begins_like_the_one_before_it_also_with_a_note() {
    let server = Server::start((0..3).map(|n| {
        let call = json!({"type": "tool_use", "id": format!("t{n}"), "name": "Read", "input": {"file_path": "a.txt", "offset": n + 1}});
        if n < 2 {
            Play::Say(message(json!([call]), "tool_use"))
        } else {
            Play::Say(message(text("so far"), "end_turn"))
        }
    }));
    let run = tasks(&server, 1, "limits: { max_steps: 2 }\n")
        .call(&["tasks/t000.yaml"])
        .exit(1);
    // The server checks that prefixes, tools and roles stay what they were.
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    let last = requests[2].body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let kinds: Vec<&str> = last["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["tool_result", "text"]);
    assert_eq!(run.summary()["tasks"][0]["reply"], "so far");
}

/// Holds every answer back until it is let go.
fn held() -> (Server, Arc<(Mutex<bool>, Condvar)>) {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let inner = Arc::clone(&gate);
    let server = Server::answering(move |request| {
        let (open, changed) = &*inner;
        drop(
            changed
                .wait_while(open.lock().unwrap(), |open| !*open)
                .unwrap(),
        );
        Play::Say(reply(request, 1))
    });
    (server, gate)
}

#[test]
fn a_call_under_way_may_finish_after_a_signal_and_nothing_new_begins() {
    let (server, gate) = held();
    let sandbox = tasks(&server, 3, "");
    let mut child = sandbox
        .command(&["tasks", "--jobs", "1", "--grace", "1h", "--no-stream"])
        .spawn()
        .unwrap();
    until(|| server.received() == 1);
    signal(&child, rustix::process::Signal::TERM);
    let journal = sandbox.path().join("agent-batch-results/batch.jsonl");
    until(|| fs::read_to_string(&journal).is_ok_and(|text| text.contains("run_interrupted")));
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let transcript = fs::read_to_string(
        sandbox
            .path()
            .join("agent-batch-results/t000/1/transcript.jsonl"),
    )
    .unwrap();
    assert!(
        transcript.contains("assistant_replied"),
        "the answer was paid for and is kept"
    );
    assert!(
        transcript.contains("\"not_run\"") && transcript.contains("\"cancelled\""),
        "{transcript}"
    );
    assert_eq!(server.received(), 1);
    let again = sandbox
        .without_args()
        .call(&["report", "agent-batch-results"]);
    assert_eq!(again.output.status.code(), Some(143));
    assert_eq!(outcomes(&again)["not_run"], 2);
}

#[test]
fn a_second_signal_ends_what_is_under_way_at_once() {
    let (server, _gate) = held();
    let sandbox = tasks(&server, 2, "");
    let mut child = sandbox
        .command(&["tasks", "--jobs", "1", "--grace", "1h"])
        .spawn()
        .unwrap();
    until(|| server.received() == 1);
    signal(&child, rustix::process::Signal::INT);
    let journal = sandbox.path().join("agent-batch-results/batch.jsonl");
    until(|| fs::read_to_string(&journal).is_ok_and(|text| text.contains("run_interrupted")));
    signal(&child, rustix::process::Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let junit = fs::read_to_string(sandbox.path().join("agent-batch-results/junit.xml")).unwrap();
    assert!(junit.contains("type=\"cancelled\""), "{junit}");
}

#[test]
fn the_clock_of_the_run_cuts_what_hangs_and_names_itself() {
    let (server, _gate) = held();
    let run = tasks(&server, 3, "")
        .call(&["tasks", "--jobs", "1", "--timeout", "500ms"])
        .exit(1);
    assert_eq!(run.outcome("t000"), "timeout");
    assert_eq!(run.outcome("t002"), "not_run");
    assert!(run.junit().contains("--timeout"), "{}", run.junit());
}

/// A model that takes the runner with it.
struct Bomb;

#[async_trait]
impl Model for Bomb {
    fn name(&self) -> &str {
        "bomb/1"
    }
    fn facts(&self) -> Option<ModelFacts> {
        None
    }
    async fn reply(&self, _: Request<'_>, _: &dyn Listener) -> Result<Reply, ModelError> {
        panic!("the model is a bomb")
    }
}

/// A model that answers once, and counts who holds the batch's redactor meanwhile: transcript, hooks and checks of every
/// attempt do.
struct Census {
    redactor: Mutex<Weak<Redactor>>,
    holders: Mutex<Vec<usize>>,
    answer: Arc<dyn Model>,
}

#[async_trait]
impl Model for Census {
    fn name(&self) -> &str {
        "census/1"
    }
    fn facts(&self) -> Option<ModelFacts> {
        None
    }
    async fn reply(
        &self,
        request: Request<'_>,
        listener: &dyn Listener,
    ) -> Result<Reply, ModelError> {
        let holders = self.redactor.lock().unwrap().strong_count();
        self.holders.lock().unwrap().push(holders);
        self.answer.reply(request, listener).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_finished_task_nothing_is_left_when_the_next_one_begins() {
    let (_dir, root) = batch::place();
    let census = Arc::new(Census {
        redactor: Mutex::default(),
        holders: Mutex::default(),
        answer: batch::done(),
    });
    let model = Arc::clone(&census) as Arc<dyn Model>;
    let job = |n| {
        let yaml = "tools: [Read]\n";
        batch::job(&root, &format!("t{n}"), yaml, Arc::clone(&model))
    };
    let launcher = Launcher::new("/nowhere".into());
    let (batch, _) = batch::build(&root, launcher, BTreeMap::new());
    let batch = Arc::new(batch);
    *census.redactor.lock().unwrap() = Arc::downgrade(&batch.redactor);
    batch
        .run((0..20).map(job).collect(), &Shutdown::default())
        .await;
    let holders = census.holders.lock().unwrap();
    assert_eq!(holders.len(), 20);
    assert!(holders[0] > 1, "an attempt holds it: {holders:?}");
    assert!(
        holders.iter().all(|count| *count == holders[0]),
        "{holders:?}"
    );
    assert_eq!(Arc::strong_count(&batch.redactor), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_one_task_is_its_result_and_the_others_go_on() {
    let (_dir, root) = batch::place();
    let bomb: Arc<dyn Model> = Arc::new(Bomb);
    let jobs = [("crashes", bomb), ("works", batch::done())]
        .map(|(name, model)| batch::job(&root, name, "tools: [Read]\n", model));
    let launcher = Launcher::new("/nowhere".into());
    let events = batch::run(&root, jobs.to_vec(), launcher, BTreeMap::new()).await;
    let ended = |name: &str| {
        let of = events
            .iter()
            .rev()
            .find(|event: &&Event| event.task == name);
        match of.map(|event| &event.kind) {
            Some(Kind::TaskFinished(finished)) => (**finished).clone(),
            other => unreachable!("{other:?}"),
        }
    };
    assert_eq!(ended("works").outcome, Outcome::Completed);
    let crashed = ended("crashes");
    assert_eq!(
        (crashed.outcome, crashed.stop),
        (Outcome::IoError, Stop::IoError)
    );
    assert!(
        crashed.message.contains("the model is a bomb"),
        "{}",
        crashed.message
    );
}
