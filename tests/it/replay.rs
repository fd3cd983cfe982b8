//! The transcript is the truth: what is read back from it says what was said live, however the file ends.

use std::collections::BTreeMap;
use std::fs;

use agent_batch::event::Event;
use agent_batch::outcome::Outcome;
use agent_batch::report::junit::{self, Dialect};
use agent_batch::report::{files, run_dir};
use proptest::prelude::*;

use crate::report::{chained, fold, hostile, readable, record};
use crate::sandbox::Sandbox;

/// Deletes the reports of `agent-batch-results`, makes them again from the transcripts, and compares every byte.
pub(crate) fn assert_reports_can_be_made_again(sandbox: &Sandbox, code: i32) {
    let directory = sandbox.path().join("agent-batch-results");
    let names = [files::JUNIT, files::JSON, files::MARKDOWN, files::COMMENT];
    let live = names.map(|name| fs::read_to_string(directory.join(name)).unwrap());
    for name in names {
        fs::remove_file(directory.join(name)).unwrap();
    }
    sandbox.call(&["report", "agent-batch-results"]).exit(code);
    for (name, live) in names.into_iter().zip(live) {
        let again = fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(again, live, "{name}");
    }
}

/// A run that fails in `run`, and another one of the same name that passes in `other`.
fn failed_and_passed() -> Sandbox {
    let sandbox = Sandbox::new()
        .task("checks:\n  - reply: { contains: Done }")
        .script("replies:\n  - text: I could not.\n");
    sandbox.call(&["tasks/task.yaml", "--out", "run"]).exit(1);
    let sandbox = sandbox.script("replies:\n  - text: Done.\n");
    sandbox.call(&["tasks/task.yaml", "--out", "other"]).exit(0);
    sandbox
}

#[test]
fn a_directory_that_no_run_wrote_is_told_with_what_is_expected() {
    let sandbox = Sandbox::new()
        .task("")
        .script("- text: Done.\n")
        .file("file", "");
    for (path, why) in [
        ("nothere", "there is nothing of that name"),
        ("tasks", "there is no `run.json` in it"),
        ("file", "it is a file"),
    ] {
        let said = sandbox.call(&["report", path]).exit(2).stderr();
        assert!(said.contains("is no run directory: "), "{said}");
        assert!(said.contains(why) && said.contains("`--out`"), "{said}");
    }
}

#[test]
fn a_task_that_passed_tells_its_denials_too_and_each_denial_is_told_once() {
    let script = "replies:\n  - tool_calls: [{ name: Bash, input: { command: git push } }]\n  - text: Done.\n";
    let sandbox = Sandbox::new()
        .task("permissions: { on_denied: ignore }\ntools: [Read, Bash]")
        .script(script);
    let run = sandbox.run().exit(0);
    let told = "task: passed with 1 denial, `Bash git push` in step 1 first";
    for said in [run.stdout(), run.read("agent-batch-results/summary.md")] {
        assert!(said.contains(told), "{said}");
    }
    let sandbox = sandbox.task("tools: [Read, Bash]");
    let said = sandbox.run().exit(1).stdout();
    assert!(said.contains("  denied: 1 call not allowed\n"), "{said}");
    assert_eq!(said.matches("no allow rule covers").count(), 1, "{said}");
    assert_eq!(said.matches("Bash(git push)").count(), 1, "{said}");
}

#[test]
fn a_transcript_that_was_replaced_as_a_whole_never_passes() {
    let sandbox = failed_and_passed();
    let place = |run: &str| {
        sandbox
            .path()
            .join(run)
            .join(run_dir::transcript("task", 1))
    };
    let failed = fs::read(place("run")).unwrap();
    let summary = |run: &str| {
        let text = fs::read(sandbox.path().join(run).join("summary.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
    };
    let sealed = summary("run")["chains"].clone();
    assert_eq!(sealed.as_object().unwrap().len(), 1, "{sealed}");
    // As it is, a report that is made again says the same.
    sandbox.call(&["report", "run"]).exit(1);
    assert_eq!(summary("run")["chains"], sealed);

    fs::copy(place("other"), place("run")).unwrap();
    let told = "`task/1/transcript.jsonl` is not the transcript of which `summary.json` tells: it was replaced";
    for _ in 0..2 {
        let again = sandbox.call(&["report", "run"]).exit(3);
        assert!(again.stdout().contains(told), "{}", again.stdout());
        assert_eq!(summary("run")["chains"], sealed);
    }
    let resumed = sandbox
        .call(&["tasks/task.yaml", "--resume", "run"])
        .exit(2);
    assert!(resumed.stderr().contains(told), "{}", resumed.stderr());
    let merged = sandbox.call(&["report", "run", "--out", "merged"]).exit(3);
    assert!(merged.stdout().contains(told), "{}", merged.stdout());

    fs::write(place("run"), &failed).unwrap();
    sandbox.call(&["report", "run"]).exit(1);
    fs::remove_dir_all(place("run").parent().unwrap()).unwrap();
    let gone = sandbox.call(&["report", "run"]).exit(3);
    let told = "`task/1/transcript.jsonl` is gone, a transcript of which `summary.json` tells";
    assert!(gone.stdout().contains(told), "{}", gone.stdout());
    fs::write(sandbox.path().join("other/summary.json"), "{").unwrap();
    let unread = sandbox.call(&["report", "other"]).exit(3);
    let told = "`summary.json` cannot be read";
    assert!(unread.stdout().contains(told), "{}", unread.stdout());
}

#[test]
fn a_transcript_that_was_changed_afterwards_never_passes() {
    let sandbox = Sandbox::new()
        .task("permissions: { on_denied: warn }\ntools: [Read, Bash]")
        .script(
            "replies:\n  - tool_calls: [{ name: Bash, input: { command: ls } }]\n  - text: Done.\n",
        );
    sandbox.run().exit(0);
    let path = sandbox
        .path()
        .join("agent-batch-results")
        .join(run_dir::transcript("task", 1));
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let edited = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let (mut dropped, mut moved, mut twice) = (lines.clone(), lines.clone(), lines.clone());
    dropped.remove(4);
    moved.swap(3, 4);
    twice.insert(4, lines[3]);
    let unchained: Vec<String> = lines
        .iter()
        .map(|line| line.split(",\"chain\"").next().unwrap().to_owned() + "}")
        .collect();
    let unchained: Vec<&str> = unchained.iter().map(String::as_str).collect();
    let mixed = [&unchained[..5], &lines[5..]].concat();
    // The last line too: nothing follows that could tell.
    let verdict = edited("\"outcome\":\"completed\"", "\"outcome\":\"failed\"");
    let denial = edited("\"allowed\":false", "\"allowed\":true");
    // Nothing of it continues a chain, the verdict neither.
    let stripped = joined(&unchained);
    let changed = [
        verdict,
        denial,
        stripped,
        joined(&dropped),
        joined(&moved),
        joined(&twice),
        joined(&mixed),
    ];
    for text in changed {
        fs::write(&path, &text).unwrap();
        let report = sandbox.call(&["report", "agent-batch-results"]).exit(3);
        assert!(report.everything().contains("chain"));
        for arguments in [&["show"][..], &["export", "--format", "stream-json"]] {
            let shown = [arguments, &["agent-batch-results/task/1"]].concat();
            let shown = sandbox.call(&shown).exit(3);
            let told = "warning: this is not what the run wrote: ";
            assert!(shown.stderr().contains(told), "{}", shown.stderr());
            assert!(
                shown.stderr().contains("damaged line"),
                "{}",
                shown.stderr()
            );
        }
    }
    // As it was. There is no report then that tells how it ended.
    fs::write(&path, whole).unwrap();
    fs::remove_file(sandbox.path().join("agent-batch-results/summary.json")).unwrap();
    sandbox.call(&["report", "agent-batch-results"]).exit(0);
    sandbox
        .call(&["show", "agent-batch-results/task/1"])
        .exit(0);
}

#[test]
fn a_run_whose_junit_report_cannot_be_written_says_so_first_and_does_not_pass() {
    let sandbox = Sandbox::new()
        .task("tools: []")
        .script("replies:\n  - text: Done.\n");
    let run = sandbox.run().exit(0);
    let path = run.path("agent-batch-results/junit.xml");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    for (github, start) in [
        ("never", "error: this run is not complete"),
        (
            "always",
            "::error title=agent-batch::this run is not complete",
        ),
    ] {
        let arguments = ["report", "agent-batch-results", "--github", github];
        let report = sandbox.call(&arguments).exit(3);
        let said = report.stdout();
        assert!(said.starts_with(start), "{said}");
        assert!(said.lines().next().unwrap().contains("junit.xml"), "{said}");
        // The others are there.
        assert!(report.path("agent-batch-results/report.html").exists());
    }
}

#[test]
fn a_failure_that_is_made_a_pass_never_passes_with_or_without_a_chain() {
    let sandbox = Sandbox::new()
        .task("checks: [{ reply: { contains: never } }]")
        .script("replies:\n  - text: Done.\n");
    sandbox.run().exit(1);
    let directory = sandbox.path().join("agent-batch-results");
    let path = directory.join(run_dir::transcript("task", 1));
    let forged = fs::read_to_string(&path)
        .unwrap()
        .replace("check_failed", "completed");
    let lines = forged.lines();
    let stripped: Vec<String> = lines
        .map(|line| line.split(",\"chain\"").next().unwrap().to_owned() + "}")
        .collect();
    // Nobody else tells how it was.
    let remove_summary = || {
        let _ = fs::remove_file(directory.join("summary.json"));
    };
    let anew = chained(&stripped);
    for (text, told) in [
        (stripped.join("\n") + "\n", "it has no `chain`"),
        (
            anew,
            "it says `completed`, and the events before it come to `check_failed`",
        ),
    ] {
        fs::write(&path, text).unwrap();
        remove_summary();
        let report = sandbox.call(&["report", "agent-batch-results"]).exit(3);
        assert!(
            report.everything().contains(told),
            "{}",
            report.everything()
        );
        for arguments in [&["show"][..], &["export", "--format", "stream-json"]] {
            let shown = [arguments, &["agent-batch-results/task/1"]].concat();
            sandbox.call(&shown).exit(3);
        }
        remove_summary();
        // The verdict is no verdict, so the task is run again.
        let resumed = sandbox.call(&["tasks/task.yaml", "--resume", "agent-batch-results"]);
        let resumed = resumed.exit(1);
        assert!(resumed.stderr().contains(told), "{}", resumed.stderr());
        fs::remove_dir_all(directory.join("task/2")).unwrap();
    }
}

#[test]
fn a_real_transcript_cut_at_any_byte_of_its_last_line_gives_a_report() {
    let sandbox = Sandbox::new()
        .task("permissions: { on_denied: warn }\ntools: [Read, Bash]")
        .script(
            "replies:\n  - tool_calls: [{ name: Bash, input: { command: ls } }]\n  - text: Done.\n",
        );
    sandbox.run().exit(0);
    let directory = sandbox.path().join("agent-batch-results");
    let path = directory.join(run_dir::transcript("task", 1));
    let text = fs::read(&path).unwrap();
    let whole = text.len() - 1;
    let last = text[..whole]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for end in last..=text.len() {
        fs::write(&path, &text[..end]).unwrap();
        let summary = run_dir::load(&directory).unwrap().summary;
        let task = summary.task("task").unwrap();
        // Only the line feed may be missing from a line that counts.
        let outcome = if end >= whole {
            Outcome::Completed
        } else {
            Outcome::Unfinished
        };
        assert_eq!((task.outcome, task.denials.total), (outcome, 1), "{end}");
        let xml = junit::render(&summary, Dialect::Common).unwrap();
        assert!(xml.contains("tests=\"1\""));
    }
}

/// The events of each task in their order, and the tasks in an order that `picks` says.
fn interleaved(events: Vec<Event>, shares: &[f64], picks: &[usize]) -> Vec<Event> {
    let mut by_task: BTreeMap<String, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_task.entry(event.task.clone()).or_default().push(event);
    }
    let mut queues: Vec<Vec<Event>> = by_task.into_values().collect();
    for (queue, share) in queues.iter_mut().zip(shares.iter().cycle()) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a short list"
        )]
        queue.truncate((share * (queue.len() + 1) as f64) as usize);
        queue.reverse();
    }
    let mut all = Vec::new();
    for pick in picks.iter().cycle() {
        queues.retain(|queue| !queue.is_empty());
        if queues.is_empty() {
            break;
        }
        let place = pick % queues.len();
        all.extend(queues[place].pop());
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_read_back_is_what_was_folded_live(
        is_hostile: bool,
        shares in proptest::collection::vec(0.0_f64..=1.0, 1..24),
        picks in proptest::collection::vec(0_usize..64, 1..64),
    ) {
        let (plan, events) = if is_hostile { hostile() } else { readable() };
        let events = interleaved(events, &shares, &picks);
        let directory = tempfile::tempdir().unwrap();
        record(directory.path(), &plan, &events);
        let mut replayed = run_dir::load(directory.path()).unwrap().summary;
        replayed.dir = "agent-batch-results".into();
        prop_assert_eq!(replayed, fold(plan, &events));
    }
}
