//! A run against an earlier one, and tasks that may fail for now.

use crate::sandbox::{Run, Sandbox};

const DONE: &str = "- text: done\n";
const WRONG: &str = "- text: I could not\n";

/// Tasks that pass when their model says `done`: each with what it says.
fn tasks(sandbox: Sandbox, said: &[(&str, &str)]) -> Sandbox {
    said.iter().fold(sandbox, |sandbox, (name, script)| {
        sandbox
            .named_task(
                name,
                &format!(
                    "model: scripted/{name}.replies\nchecks:\n  - reply: {{ contains: done }}\n"
                ),
            )
            .file(&format!("tasks/{name}.replies"), script)
    })
}

fn classes(run: &Run) -> Vec<String> {
    let summary = run.summary();
    let tasks = summary["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| format!("{} {}", task["name"], task["baseline"]["class"]).replace('"', ""))
        .collect()
}

/// A run in which `kept` and `broken` pass and `fixed` and `failing` do not, in `before/`.
fn with_baseline() -> Sandbox {
    let before = [
        ("kept", DONE),
        ("broken", DONE),
        ("fixed", WRONG),
        ("failing", WRONG),
        ("removed", DONE),
    ];
    let sandbox = tasks(Sandbox::new(), &before);
    sandbox.call(&["tasks", "--out", "before"]).exit(1);
    std::fs::remove_file(sandbox.path().join("tasks/removed.yaml")).unwrap();
    let now = [
        ("kept", DONE),
        ("broken", WRONG),
        ("fixed", DONE),
        ("failing", WRONG),
        ("new", WRONG),
    ];
    tasks(sandbox, &now)
}

#[test]
fn every_task_has_its_class_and_only_a_regression_fails_a_gate_for_it() {
    let sandbox = with_baseline();
    let run = sandbox
        .call(&["tasks", "--baseline", "before", "--gate", "broken"])
        .exit(1);
    assert_eq!(
        classes(&run),
        [
            "broken broken",
            "failing still_failing",
            "fixed fixed",
            "kept passing",
            "new new"
        ]
    );
    let summary = run.summary();
    assert_eq!(summary["baseline"]["removed"]["items"][0], "removed");
    let said = run.stdout();
    let counts = "1 broken, 1 fixed, 1 still failing, 1 new, 0 not evaluated, 1 passing, 1 removed";
    assert!(said.contains(counts), "{said}");
    assert!(
        said.contains("against the baseline: broken (it was completed)"),
        "{said}"
    );

    // Without the regression the same failures fail nothing, and the reports that are made again agree.
    let repaired = tasks(sandbox, &[("broken", DONE)]);
    let args = [
        "tasks",
        "--baseline",
        "before/summary.json",
        "--gate",
        "broken",
    ];
    let live = repaired.call(&args).exit(0).summary();
    let again = repaired.call(&["report", "agent-batch-results"]).exit(0);
    assert_eq!(again.summary(), live);
    repaired.call(&["tasks", "--baseline", "before"]).exit(1);

    // And every report says why: failures beside 0.
    let run = repaired.call(&args).exit(0);
    let reason = "exit 0 by --gate broken: 1 task failed that also failed in the baseline, 1 task failed that the baseline has no verdict of";
    assert_eq!(run.summary()["exit_reason"], reason);
    let read = |name: &str| run.read(&format!("agent-batch-results/{name}"));
    for page in [
        run.stdout(),
        read("summary.md"),
        read("comment.md"),
        read("report.html").replace("Exit 0", "exit 0"),
    ] {
        assert!(page.contains(reason), "{page}");
    }
    for page in ["summary.md", "comment.md"] {
        assert!(!read(page).contains("\n\n\n"), "{}", read(page));
    }
    let junit = run.junit();
    let property = format!("<property name=\"exit_reason\" value=\"{reason}\"/>");
    let message = "message=\"[does not fail the run: a task that also failed in the baseline] ";
    for said in [property.as_str(), message] {
        assert!(junit.contains(said), "{junit}");
    }
    assert!(!junit.contains("agent-batch gate"), "{junit}");
}

#[test]
fn pages_for_reviewers_tell_what_is_new_and_what_does_not_count() {
    let sandbox = with_baseline().file(
        "agent-batch.yaml",
        "quarantine:\n  - { task: failing, until: \"9999-12-31\", reason: \"see issue 12\" }\n",
    );
    let args = ["tasks", "--baseline", "before", "--gitlab", "always"];
    let run = sandbox.call(&args).exit(1);
    for page in ["summary.md", "comment.md"] {
        let page = run.read(&format!("agent-batch-results/{page}"));
        for said in [
            "❌ failed, broken | `broken`",
            "🟨 failed, still failing, quarantined | `failing`",
            "1 broken, 1 fixed, 1 still failing",
            "1 failure in quarantine, which does not count",
        ] {
            assert!(page.contains(said), "{said}\n{page}");
        }
        let place = |text| page.find(text).unwrap();
        assert!(place("| `broken` |") < place("| `failing` |"), "{page}");
    }
    let account = run.stdout();
    let (_, excused) = account.split_once("failed: failing").unwrap();
    assert!(excused.contains("in quarantine until"), "{account}");
    assert!(!excused.contains("transcript:"), "{account}");
    let report = run.read("agent-batch-results/gl-code-quality-report.json");
    let entries: serde_json::Value = serde_json::from_str(&report).unwrap();
    let severities: Vec<String> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {}", entry["severity"], entry["description"]))
        .collect();
    let is_told = |start: &str| severities.iter().any(|entry| entry.starts_with(start));
    for start in [
        "\"critical\" \"broken: check_failed (broken)",
        "\"minor\" \"failing: check_failed (still failing, quarantined)",
    ] {
        assert!(is_told(start), "{start}\n{severities:?}");
    }
    let page = run.read("agent-batch-results/report.html");
    assert!(page.contains("href=\"./gl-code-quality-report.json\""));
}

#[test]
fn a_run_that_goes_on_is_compared_with_what_it_began_with() {
    let fault = [("new", "- fault: { status: 400 }\n")];
    let sandbox = tasks(with_baseline(), &fault);
    let gated = ["tasks", "--baseline", "before", "--gate", "cost"];
    sandbox.call(&gated).exit(3);
    let sandbox = tasks(sandbox, &[("new", DONE)]);
    let resume = [
        "tasks",
        "--resume",
        "agent-batch-results",
        "--resume-changed",
    ];
    let live = sandbox.call(&resume).exit(0);
    assert_eq!(classes(&live)[0], "broken broken");
    let reason = "exit 0 by --gate cost: 1 task failed that passed in the baseline (this gate does not look at that), 1 task failed that also failed";
    assert!(live.stdout().contains(reason), "{}", live.stdout());
    let summary = live.summary();
    let again = sandbox.call(&["report", "agent-batch-results"]).exit(0);
    assert_eq!(again.summary(), summary);
}

#[test]
fn an_infrastructure_error_is_no_regression_and_still_its_own_exit_code() {
    let sandbox = tasks(with_baseline(), &[("broken", "- fault: { status: 400 }\n")]);
    let run = sandbox
        .call(&["tasks", "--baseline", "before", "--gate", "broken"])
        .exit(3);
    assert_eq!(classes(&run)[0], "broken not_evaluated");
}

#[test]
fn what_takes_notably_more_is_told_and_fails_only_when_it_is_asked_for() {
    let priced = |tokens: u32| {
        format!(
            "price: {{ input: 1, output: 1 }}\nreplies:\n  - text: done\n    usage: {{ input_tokens: {tokens}, output_tokens: 1 }}\n"
        )
    };
    let sandbox = tasks(Sandbox::new(), &[("task", &priced(100_000))]);
    sandbox.call(&["tasks", "--out", "before"]).exit(0);
    let sandbox = tasks(sandbox, &[("task", &priced(300_000))]);
    let run = sandbox.call(&["tasks", "--baseline", "before"]).exit(0);
    let said = run.stdout();
    assert!(
        said.contains("task: cost $0.1000 -> $0.3000 (+200 %)"),
        "{said}"
    );
    let run = sandbox
        .call(&["tasks", "--baseline", "before", "--gate", "broken,cost"])
        .exit(1);
    let reason = "exit 1 by --gate broken,cost: 1 task passed that cost or took notably more than in the baseline";
    assert_eq!(run.summary()["exit_reason"], reason);
    // All cases pass and the exit code is 1: a case of the run says why.
    let junit = run.junit();
    assert!(junit.contains("<testsuites name=\"agent-batch\" tests=\"2\" failures=\"1\""));
    for said in ["agent-batch gate", reason, "task: cost $0.1000 -"] {
        assert!(junit.contains(said), "{said}\n{junit}");
    }
    let sandbox = tasks(sandbox, &[("task", &priced(105_000))]);
    let run = sandbox
        .call(&["tasks", "--baseline", "before", "--gate", "cost"])
        .exit(0);
    assert!(!run.stdout().contains("->"), "{}", run.stdout());
}

#[test]
fn a_baseline_that_is_none_is_refused_before_the_first_model_call() {
    let sandbox = tasks(Sandbox::new(), &[("task", DONE)])
        .file("empty.json", "{}")
        .file("folder/readme", "x");
    for baseline in ["nothing", "empty.json", "folder"] {
        let run = sandbox.call(&["tasks", "--baseline", baseline]).exit(2);
        assert!(run.stderr().contains("the baseline"), "{}", run.stderr());
        assert!(!run.path("agent-batch-results").exists());
    }
    let run = sandbox.call(&["tasks", "--gate", "broken"]).exit(2);
    assert!(run.stderr().contains("--baseline"), "{}", run.stderr());
}

#[test]
fn a_task_that_breaks_under_another_name_fails_the_gate_for_new_tasks() {
    let sandbox = tasks(Sandbox::new(), &[("kept", DONE), ("old", DONE)]);
    sandbox.call(&["tasks", "--out", "before"]).exit(0);
    std::fs::remove_file(sandbox.path().join("tasks/old.yaml")).unwrap();
    let sandbox = tasks(sandbox, &[("renamed", WRONG)]);
    let gated = |gate| sandbox.call(&["tasks", "--baseline", "before", "--gate", gate]);
    let told = "lets fail";
    let run = gated("broken").exit(0);
    assert!(run.stderr().contains(told), "{}", run.stderr());
    let run = gated("broken,new").exit(1);
    assert!(!run.stderr().contains(told), "{}", run.stderr());
    let reason = "exit 1 by --gate broken,new: 1 task failed that the baseline has no verdict of";
    assert_eq!(run.summary()["exit_reason"], reason);
    sandbox.call(&["report", "agent-batch-results"]).exit(1);
    // A new task that passes is welcome.
    let sandbox = tasks(sandbox, &[("renamed", DONE)]);
    let args = ["tasks", "--baseline", "before", "--gate", "broken,new"];
    sandbox.call(&args).exit(0);
}

#[test]
fn a_baseline_that_contradicts_itself_is_refused() {
    let sandbox = tasks(Sandbox::new(), &[("kept", DONE), ("failing", WRONG)]);
    let run = sandbox.call(&["tasks", "--out", "before"]).exit(1);
    let text = run.read("before/summary.json");
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut twice, mut unknown, mut contrary) = (whole.clone(), whole.clone(), whole.clone());
    let first = twice["tasks"][0].clone();
    twice["tasks"].as_array_mut().unwrap().push(first);
    unknown["tasks"][1]["verdict"] = "pass".into();
    contrary["tasks"][0]["verdict"] = "passed".into();
    let mut without = whole.clone();
    without["tasks"][0]
        .as_object_mut()
        .unwrap()
        .remove("verdict");
    for (baseline, told) in [
        (twice, "it has two tasks with the name `failing`"),
        (
            unknown,
            "it says of `kept` that its verdict is `pass` and its outcome `completed`, which means `passed`",
        ),
        (
            contrary,
            "its verdict is `passed` and its outcome `check_failed`, which means `failed`",
        ),
        (without, "missing field `verdict`"),
    ] {
        std::fs::write(sandbox.path().join("b.json"), baseline.to_string()).unwrap();
        let run = sandbox.call(&["tasks", "--baseline", "b.json"]).exit(2);
        assert!(run.stderr().contains(told), "{}", run.stderr());
        assert!(!run.path("agent-batch-results").exists());
    }
    // Nor is a directory a baseline whose transcripts are not what its run wrote.
    let path = run.path("before/failing/1/transcript.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("check_failed", "completed")).unwrap();
    let run = sandbox.call(&["tasks", "--baseline", "before"]).exit(2);
    assert!(run.stderr().contains("it is damaged"), "{}", run.stderr());
}

#[test]
fn a_gate_tells_which_tasks_it_lets_fail_and_wants_something_to_compare() {
    let sandbox = with_baseline();
    let gate = ["--baseline", "before", "--gate", "broken"];
    let call = |tasks: &[&str], gate: &[&str]| sandbox.call(&[tasks, gate].concat());
    let told = "warning: the baseline `before` has no verdict of 1 task, which `--gate broken` lets fail (`--gate broken,new` does not): `new`";
    let run = call(&["tasks"], &gate).exit(1);
    assert!(run.stderr().contains(told), "{}", run.stderr());
    let run = call(&["tasks"], &gate[..2]).exit(1);
    assert!(
        !run.stderr().contains("has no verdict of"),
        "{}",
        run.stderr()
    );
    let run = call(&["tasks/new.yaml"], &gate).exit(2);
    let told = "the baseline `before` has a verdict of none of the tasks";
    assert!(run.stderr().contains(told), "{}", run.stderr());
    call(&["tasks/new.yaml"], &gate[..2]).exit(1);
}

#[test]
fn tasks_of_other_shards_are_not_removed() {
    let sandbox = with_baseline();
    for shard in ["1/2", "2/2"] {
        let run = sandbox.call(&["tasks", "--baseline", "before", "--shard", shard]);
        let removed = &run.summary()["baseline"]["removed"];
        assert_eq!(
            removed["items"],
            serde_json::json!(["removed"]),
            "{removed}"
        );
    }
}

/// The names of the baseline's tasks that are gone, and of those that were not asked for.
fn absent(run: &Run) -> [Vec<String>; 2] {
    let summary = run.summary();
    ["removed", "not_selected"].map(|list| {
        let names = summary["baseline"][list]["items"].as_array().unwrap();
        let names = names.iter().map(|name| name.as_str().unwrap().to_owned());
        names.collect()
    })
}

#[test]
fn only_what_is_gone_is_removed_and_what_was_not_asked_for_is_not() {
    let sandbox = with_baseline().file(
        "tasks/many.yaml",
        "model: scripted/kept.replies\nmatrix: { letter: [a, b] }\nprompt: \"{{ matrix.letter }}\"\nworkspace: { isolation: copy }\n",
    );
    let others = ["broken", "failing", "fixed"];
    sandbox.call(&["tasks", "--out", "before"]).exit(1);
    sandbox.call(&["tasks", "--out", "all"]).exit(1);
    // One task of a file that stays, and one with its file.
    let text = std::fs::read_to_string(sandbox.path().join("tasks/many.yaml")).unwrap();
    let sandbox = sandbox.file("tasks/many.yaml", text.replace("[a, b]", "[b]"));
    std::fs::remove_file(sandbox.path().join("tasks/new.yaml")).unwrap();
    let gone = ["many.a", "new"];
    let compared = ["--baseline", "before"];
    let call = |args: &[&str]| sandbox.call(&[args, &compared].concat());

    let run = call(&["tasks", "--filter", "name(kept)"]);
    let mut left: Vec<&str> = others.to_vec();
    left.push("many.b");
    assert_eq!(absent(&run), [gone.to_vec(), left.clone()]);
    let told = "2 removed, 4 not selected";
    assert!(run.stdout().contains(told), "{}", run.stdout());
    let again = sandbox.call(&["report", "agent-batch-results"]);
    assert_eq!(again.summary(), run.summary());

    // Files that were not named are there, or are not.
    let run = call(&["./tasks/kept.yaml"]);
    left.insert(3, "many.a");
    assert_eq!(absent(&run), [vec!["new"], left]);
    let run = call(&["tasks/kept.yaml", "tasks/many.yaml"]);
    assert_eq!(absent(&run), [gone.to_vec(), others.to_vec()]);
    let run = call(&["tasks"]);
    assert_eq!(absent(&run), [gone.to_vec(), Vec::new()]);

    // A merge that names its baseline knows the same; elsewhere nothing is known of files that were not read.
    for (number, shard) in [("one", "1/2"), ("two", "2/2")] {
        let args = ["tasks", "--filter", "name(kept) | name(fixed)"];
        sandbox.call(&[&args[..], &["--shard", shard, "--out", number]].concat());
    }
    let merge = ["report", "one", "two", "--out", "merged"];
    let run = call(&merge);
    let summary = run.read("merged/summary.json");
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let baseline = &summary["baseline"];
    assert_eq!(baseline["removed"]["items"], serde_json::json!(gone));
    let left = serde_json::json!(["broken", "failing", "many.b"]);
    assert_eq!(baseline["not_selected"]["items"], left);
    std::fs::rename(sandbox.path().join("tasks"), sandbox.path().join("moved")).unwrap();
    call(&["report", "merged"]);
    let summary = std::fs::read(sandbox.path().join("merged/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    let baseline = &summary["baseline"];
    assert_eq!(baseline["removed"]["items"], serde_json::json!(["many.a"]));
}

#[test]
fn the_run_directory_itself_may_be_the_baseline() {
    let sandbox = tasks(Sandbox::new(), &[("task", DONE)]);
    sandbox.call(&["tasks"]).exit(0);
    let sandbox = tasks(sandbox, &[("task", WRONG)]);
    let run = sandbox
        .call(&[
            "tasks",
            "--baseline",
            "agent-batch-results",
            "--gate",
            "broken",
        ])
        .exit(1);
    assert_eq!(classes(&run), ["task broken"]);
}

fn quarantine(until: &str) -> String {
    format!("quarantine:\n  - {{ task: \"fla*\", until: \"{until}\", reason: \"see issue 12\" }}\n")
}

#[test]
fn a_task_in_quarantine_is_reported_and_fails_nothing_until_the_day() {
    let sandbox = tasks(Sandbox::new(), &[("flaky", WRONG), ("good", DONE)]);
    let sandbox = sandbox.file("agent-batch.yaml", quarantine("9999-12-31"));
    let run = sandbox.call(&["tasks"]).exit(0);
    assert_eq!(run.outcome("flaky"), "check_failed");
    assert_eq!(
        run.summary()["tasks"][0]["quarantine"]["reason"],
        "see issue 12"
    );
    for said in [run.stdout(), run.junit()] {
        assert!(said.contains("in quarantine until 9999-12-31"), "{said}");
    }
    sandbox.call(&["report", "agent-batch-results"]).exit(0);

    let expired = sandbox.file("agent-batch.yaml", quarantine("2001-01-01"));
    let run = expired.call(&["tasks"]).exit(1);
    let said = run.stderr();
    assert!(
        said.contains("of `flaky` ended on 2001-01-01") && said.contains("agent-batch.yaml:2:"),
        "{said}"
    );
}

#[test]
fn an_entry_of_the_quarantine_that_excuses_no_task_is_told_at_its_line() {
    let list = "quarantine:\n  - { task: \"fla*\", until: \"9999-12-31\", reason: r }\n  - { task: flakey, until: \"9999-12-31\", reason: r }\n  - { task: gone, until: \"2001-01-01\", reason: r }\n";
    let sandbox = tasks(Sandbox::new(), &[("flaky-a", DONE), ("flaky-b", DONE)])
        .file("agent-batch.yaml", list);
    for args in [&["tasks"][..], &["check", "tasks"]] {
        let said = sandbox.call(args).exit(0).stderr();
        for told in [
            "`flakey` matches no task (2 tasks read)\n",
            "agent-batch.yaml:3:",
            "`gone` matches no task (2 tasks read), and ended on 2001-01-01",
            "agent-batch.yaml:4:",
        ] {
            assert!(said.contains(told), "{told}\n{said}");
        }
        assert!(!said.contains("fla*"), "{said}");
    }
    // Of one file nobody can say what the tasks of the others are called.
    let said = sandbox.call(&["check", "tasks/flaky-a.yaml"]).exit(0);
    assert!(
        !said.stderr().contains("matches no task"),
        "{}",
        said.stderr()
    );
    let ended = list.replace("9999-12-31", "2001-01-01");
    let said = sandbox
        .file("agent-batch.yaml", ended)
        .call(&["tasks"])
        .exit(0)
        .stderr();
    let told = "the quarantine of `flaky-a`, `flaky-b` ended on 2001-01-01";
    assert_eq!(said.matches(told).count(), 1, "{said}");
}

#[test]
fn quarantine_excuses_no_infrastructure_error() {
    tasks(Sandbox::new(), &[("flaky", "- fault: { status: 400 }\n")])
        .file("agent-batch.yaml", quarantine("9999-12-31"))
        .call(&["tasks"])
        .exit(3);
}

#[test]
fn an_entry_without_a_date_or_a_reason_is_refused_at_its_line() {
    let run = tasks(Sandbox::new(), &[("task", DONE)])
        .file(
            "agent-batch.yaml",
            "quarantine:\n  - { task: \"a[\", until: soon, reason: \" \" }\n  - { task: b, reason: r }\n",
        )
        .call(&["tasks"])
        .exit(2);
    let said = run.stderr();
    for words in [
        "is not a glob",
        "expected a date",
        "the reason is empty",
        "`until` is missing",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}
