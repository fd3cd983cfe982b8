//! The plan as its users meet it: filters, lists, shards on several processes, their merge, and runs that go on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::endings::{is_left, until};
use crate::isolation::worktree::{commit, repository, state};
use crate::sandbox::{Run, Sandbox};

/// The task files, and not the script beside them.
const TASKS: &str = "tasks/{t?,slow}.yaml";

/// Eight tasks, of which `t7` fails its check.
fn eight() -> Sandbox {
    let mut sandbox = Sandbox::new().script("- text: done\n");
    for number in 0..8 {
        let tag = if number % 2 == 0 { "even" } else { "odd" };
        let check = if number == 7 { "never" } else { "done" };
        let yaml =
            format!("tags: [{tag}]\ntools: []\nchecks: [{{ reply: {{ contains: {check} }} }}]\n");
        sandbox = sandbox.named_task(&format!("t{number}"), &yaml);
    }
    sandbox
}

fn json(run: &Run, path: &str) -> Value {
    serde_json::from_str(&run.read(path)).unwrap()
}

/// Every task with its outcome.
fn outcomes(summary: &Value) -> BTreeMap<String, String> {
    let tasks = summary["tasks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    tasks
        .iter()
        .map(|task| (text(&task["name"]), text(&task["outcome"])))
        .collect()
}

fn shards(sandbox: &Sandbox, numbers: &[u32]) {
    let started: Vec<_> = numbers
        .iter()
        .map(|number| {
            let (shard, out) = (format!("{number}/4"), format!("shard-{number}"));
            let mut command = sandbox.command(&[TASKS, "--shard", &shard, "--out", &out]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in started {
        child.wait().unwrap();
    }
}

#[test]
fn a_filter_chooses_and_a_mistake_in_it_is_told_before_any_call() {
    let sandbox = eight();
    let listed = |filter: &str| sandbox.call(&[TASKS, "--list", "--filter", filter]);
    let run = listed("tag(even) & !name(t{0,2})").exit(0);
    let names: Vec<String> = run
        .stdout()
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["t4", "t6"]);
    let run = listed("tag(even").exit(2);
    assert!(run.stderr().contains("--filter:1:4"), "{}", run.stderr());
    let run = listed("tag(nightly)").exit(2);
    assert!(
        run.stderr().contains("`tag(nightly)` is true of no task"),
        "{}",
        run.stderr()
    );
    assert!(
        run.stderr().contains("their tags are `even`, `odd`"),
        "{}",
        run.stderr()
    );
    assert!(!run.path("agent-batch-results").exists());
}

#[test]
fn the_list_shows_which_shard_runs_what() {
    let sandbox = eight();
    let run = sandbox
        .call(&[TASKS, "--list", "--list-format", "json", "--shard", "2/4"])
        .exit(0);
    let plan: Value = serde_json::from_str(&run.stdout()).unwrap();
    assert_eq!(plan["shard"]["index"], 2);
    let tasks = plan["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 8);
    assert!(
        tasks
            .iter()
            .all(|task| (1..=4).contains(&task["shard"].as_u64().unwrap()))
    );
    let own = tasks.iter().filter(|task| task["shard"] == 2).count();
    let text = sandbox.call(&[TASKS, "--list", "--shard", "2/4"]).exit(0);
    assert!(
        text.stderr()
            .contains(&format!("8 tasks, {own} of them in shard 2/4")),
        "{}",
        text.stderr()
    );
    assert_eq!(
        text.stdout()
            .lines()
            .filter(|line| line.starts_with("2/4  "))
            .count(),
        own
    );
}

#[test]
fn four_shards_merge_into_what_one_run_would_have_said() {
    let sandbox = eight();
    let whole = sandbox.call(&[TASKS, "--out", "whole"]).exit(1);
    shards(&sandbox, &[1, 2, 3, 4]);
    let merged = sandbox
        .call(&["report", "shard-*", "--out", "merged"])
        .exit(1);
    let (one, other) = (
        json(&whole, "whole/summary.json"),
        json(&merged, "merged/summary.json"),
    );
    assert_eq!(outcomes(&one), outcomes(&other));
    assert_eq!(one["plan_sha256"], other["plan_sha256"]);
    assert_eq!(other["merge"]["faults"].as_array().unwrap().len(), 0);
    for count in [
        TASKS, "passed", "failed", "errors", "skipped", "denials", "steps", "tokens",
    ] {
        assert_eq!(one["totals"][count], other["totals"][count], "{count}");
    }
    let head = |run: &Run, path: &str| {
        let xml = run.read(path);
        let start = xml.find("<testsuites").unwrap();
        xml[start..].split(" time=").next().unwrap().to_owned()
    };
    assert_eq!(
        head(&whole, "whole/junit.xml"),
        head(&merged, "merged/junit.xml")
    );
    // The merged directory is one like every other.
    let again = sandbox.call(&["report", "merged"]).exit(1);
    assert_eq!(
        outcomes(&json(&again, "merged/summary.json")),
        outcomes(&one)
    );
}

#[test]
fn a_merge_keeps_why_tasks_were_not_run_and_what_they_are_compared_with() {
    let sandbox = eight().named_task(
        "t0",
        "tools: []\nchecks: [{ reply: { contains: never } }]\n",
    );
    sandbox.call(&[TASKS, "--out", "before"]).exit(1);
    let run = sandbox
        .call(&[
            TASKS,
            "--shard",
            "1/1",
            "--jobs",
            "1",
            "--fail-fast",
            "--baseline",
            "before",
            "--gate",
            "broken",
            "--out",
            "shard-1",
        ])
        .exit(3);
    let shard = json(&run, "shard-1/summary.json");
    // Another process wrote the end of its journal as it was killed.
    let journal = run.path("shard-1/batch.jsonl");
    let torn = fs::read_to_string(&journal).unwrap() + "{\"v\":";
    fs::write(&journal, torn).unwrap();
    let merged = sandbox
        .call(&["report", "shard-*", "--out", "merged"])
        .exit(3);
    let joined = json(&merged, "merged/summary.json");
    let told = |summary: &Value| -> Vec<(Value, Value)> {
        let tasks = summary["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| (task["message"].clone(), task["baseline"].clone()))
            .collect()
    };
    assert_eq!(told(&joined), told(&shard));
    assert_eq!(joined["baseline"], shard["baseline"]);
    let reason = joined["tasks"][7]["message"].as_str().unwrap();
    assert!(reason.contains("fail"), "{reason}");
    assert!(
        merged.stderr().contains("batch.jsonl"),
        "{}",
        merged.stderr()
    );
    let again = sandbox.call(&["report", "merged"]).exit(3);
    assert_eq!(json(&again, "merged/summary.json"), joined);

    // What is named counts more, and is kept as well.
    let named = ["report", "shard-1", "--out", "named", "--baseline"];
    let named = sandbox.call(&[&named[..], &["before/summary.json"]].concat());
    let named = json(&named, "named/summary.json");
    assert_eq!(named["baseline"]["source"], "before/summary.json");
    let again = sandbox.call(&["report", "named"]);
    assert_eq!(json(&again, "named/summary.json"), named);
}

#[test]
fn a_merge_empties_no_directory_but_that_of_a_merge() {
    let sandbox = eight();
    for (shard, out) in [("1/2", "a"), ("2/2", "b")] {
        sandbox.call(&[TASKS, "--shard", shard, "--out", out]);
    }
    let run = sandbox.call(&[TASKS, "--out", "precious"]);
    let refused = sandbox
        .call(&["report", "a", "b", "--out", "precious"])
        .exit(2)
        .stderr();
    assert!(
        refused.contains("`precious` holds a run of its own"),
        "{refused}"
    );
    assert!(run.path("precious/t0/1/transcript.jsonl").exists());
    // An empty one, and its own result, are what it is for.
    fs::create_dir(run.path("merged")).unwrap();
    let merge = || sandbox.call(&["report", "a", "b", "--out", "merged"]);
    let first = merge().stdout();
    assert_eq!(merge().stdout(), first);
}

#[test]
fn a_merge_without_one_shard_names_what_is_missing_and_has_no_verdict() {
    let sandbox = eight();
    shards(&sandbox, &[1, 2, 4]);
    let run = sandbox
        .call(&["report", "shard-*", "--out", "merged"])
        .exit(3);
    assert!(
        run.stderr().contains("the merge is incomplete"),
        "{}",
        run.stderr()
    );
    let told = "incomplete: shard 3/4 is missing: its tasks were";
    assert!(run.stdout().contains(told), "{}", run.stdout());
    assert!(!run.stderr().contains("shard 3/4"), "{}", run.stderr());
    let junit = run.read("merged/junit.xml");
    assert!(junit.contains("type=\"merge_incomplete\""), "{junit}");
    assert!(junit.contains("shard 3/4 is missing"), "{junit}");
    assert!(
        run.read("merged/summary.md")
            .contains("shard 3/4 is missing")
    );
    // The reports made again say the same.
    sandbox.call(&["report", "merged"]).exit(3);
    // Once more with the same shard twice, another plan, and a directory of something else.
    shards(&sandbox, &[3]);
    sandbox
        .call(&[
            TASKS,
            "--filter",
            "tag(odd)",
            "--out",
            "shard-5",
            "--progress",
            "never",
        ])
        .exit(1);
    fs::create_dir(sandbox.path().join("shard-6")).unwrap();
    std::os::unix::fs::symlink("/etc", sandbox.path().join("shard-6/run.json")).unwrap();
    let copy = "cp -r shard-1 shard-1b";
    assert!(sandbox.shell(copy).output.status.success());
    let run = sandbox
        .call(&["report", "shard-*/", "--out", "merged"])
        .exit(3);
    for fault in [
        "shard 1/4 is there 2 times",
        "`shard-5` is of another plan",
        "`shard-6` is no run directory",
    ] {
        assert!(run.stdout().contains(fault), "{fault}: {}", run.stdout());
    }
    assert!(!run.stdout().contains("is missing"), "{}", run.stdout());
    assert_eq!(outcomes(&json(&run, "merged/summary.json")).len(), 8);
}

#[test]
fn a_shard_that_was_killed_makes_the_merge_incomplete_and_can_go_on() {
    // Whoever reads a pipe waits until somebody writes.
    let sandbox = eight()
        .file(
            "slow-script.yaml",
            "- tool_calls: [{ name: Bash, input: { command: cat gate } }]\n- text: done\n",
        )
        .file("apart/a.txt", "")
        .named_task(
            "slow",
            "model: scripted/../slow-script.yaml\nworkspace: { path: ../apart }\ntools: [Bash]\n\
             permissions: { allow: [\"Bash(cat gate)\"] }\nchecks: [{ reply: { contains: done } }]\n",
        );
    let gate = sandbox.path().join("apart/gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::RWXU).unwrap();
    let run = sandbox
        .call(&[TASKS, "--list", "--list-format", "json", "--shard", "1/4"])
        .exit(0);
    let plan: Value = serde_json::from_str(&run.stdout()).unwrap();
    let tasks = plan["tasks"].as_array().unwrap();
    let slow = tasks.iter().find(|task| task["name"] == "slow").unwrap()["shard"]
        .as_u64()
        .unwrap();
    let others: Vec<u32> = (1..=4)
        .filter(|number| u64::from(*number) != slow)
        .collect();
    shards(&sandbox, &others);
    let (shard, out) = (format!("{slow}/4"), format!("shard-{slow}"));
    let mut child = sandbox
        .command(&[TASKS, "--shard", &shard, "--out", &out])
        .spawn()
        .unwrap();
    let transcript = sandbox.path().join(&out).join("slow/1/transcript.jsonl");
    until(|| fs::read_to_string(&transcript).is_ok_and(|text| text.contains("tool_decided")));
    child.kill().unwrap();
    child.wait().unwrap();
    let run = sandbox
        .call(&["report", "shard-*", "--out", "merged"])
        .exit(3);
    let told = format!("shard {slow}/4 (`{out}`) did not come to its end");
    assert!(run.stdout().contains(&told), "{}", run.stdout());
    let told = "not finished: `slow`";
    assert!(run.stdout().contains(told), "{}", run.stdout());
    fs::remove_file(&gate).unwrap();
    let sandbox = sandbox.file("apart/gate", "open\n");
    let resumed = sandbox.call(&[TASKS, "--resume", &out]);
    assert!(
        resumed.stderr().contains("left to run"),
        "{}",
        resumed.stderr()
    );
    let run = sandbox
        .call(&["report", "shard-*", "--out", "merged"])
        .exit(1);
    let outcomes = outcomes(&json(&run, "merged/summary.json"));
    assert_eq!(outcomes["slow"], "completed");
    assert_eq!(outcomes.len(), 9);
}

#[test]
fn an_empty_shard_is_a_success_that_says_so_and_merges() {
    let sandbox = Sandbox::new().script("- text: done\n").task("tools: []\n");
    let plan = sandbox
        .call(&["tasks/task.yaml", "--list", "--shard", "1/2"])
        .exit(0);
    let own = if plan.stdout().starts_with("1/2") {
        1
    } else {
        2
    };
    for number in [1, 2] {
        let (shard, out) = (format!("{number}/2"), format!("s{number}"));
        let run = sandbox
            .call(&["tasks/task.yaml", "--shard", &shard, "--out", &out])
            .exit(0);
        let told = format!(
            "shard {shard}: {} of the plan's 1 task",
            u32::from(number == own)
        );
        assert!(run.stdout().contains(&told), "{}", run.stdout());
    }
    sandbox
        .call(&["report", "s1", "s2", "--out", "merged"])
        .exit(0);
}

#[test]
fn a_task_is_another_one_when_a_file_is_that_it_names() {
    let hook = |code| format!("#!/bin/sh\nexit {code}\n");
    let begun = || {
        let sandbox = Sandbox::new()
            .program("hooks/h.sh", &hook(0))
            .script("- text: done\n")
            .named_task("plain", "model: scripted/other.yaml\n")
            .file("tasks/other.yaml", "- text: done\n")
            .named_task(
                "hooked",
                "hooks:\n  Stop:\n    - { command: [../hooks/h.sh] }\n    - { command: [sh, -c, \"exit 0\"] }\n",
            );
        let tasks = ["tasks/plain.yaml", "tasks/hooked.yaml"];
        sandbox
            .call(&[&tasks[..], &["--out", "run"]].concat())
            .exit(0);
        (sandbox, [&tasks[..], &["--resume", "run"]].concat())
    };
    let (sandbox, resume) = begun();
    sandbox.call(&resume).exit(0);
    for (path, content, changed) in [
        ("hooks/h.sh", hook(1), "`hooked`"),
        (
            "tasks/script.yaml",
            "- text: other\n".to_owned(),
            "`hooked`",
        ),
        ("tasks/other.yaml", "- text: other\n".to_owned(), "`plain`"),
    ] {
        let (sandbox, resume) = begun();
        let sandbox = sandbox.file(path, content);
        let run = sandbox.call(&resume).exit(2);
        let told = format!("changed: {changed}");
        assert!(run.stderr().contains(&told), "{path}: {}", run.stderr());
    }
}

#[test]
fn the_ci_system_says_which_shard_this_is_only_when_it_is_asked() {
    let sandbox = eight().env("CI_NODE_INDEX", "2").env("CI_NODE_TOTAL", "4");
    let run = sandbox.call(&[TASKS, "--list"]).exit(0);
    assert!(!run.stdout().starts_with("2/4"), "{}", run.stdout());
    let run = sandbox.call(&[TASKS, "--list", "--shard", "auto"]).exit(0);
    assert!(
        run.stderr()
            .contains("shard 2/4 (GitLab `parallel`, CI_NODE_INDEX=2, CI_NODE_TOTAL=4)"),
        "{}",
        run.stderr()
    );
    let run = eight().call(&[TASKS, "--list", "--shard", "auto"]).exit(2);
    assert!(
        run.stderr()
            .contains("`JOB_COMPLETION_INDEX` (Kubernetes Indexed Job)"),
        "{}",
        run.stderr()
    );
}

#[test]
fn a_run_goes_on_only_with_the_tasks_it_was_begun_with() {
    let sandbox = eight();
    sandbox.call(&[TASKS, "--out", "run"]).exit(1);
    let before = fs::read_to_string(sandbox.path().join("run/t0/1/transcript.jsonl")).unwrap();
    let run = sandbox.call(&[TASKS, "--resume", "run"]).exit(1);
    assert!(
        run.stderr().contains("0 of 8 tasks left to run"),
        "{}",
        run.stderr()
    );
    assert_eq!(
        fs::read_to_string(sandbox.path().join("run/t0/1/transcript.jsonl")).unwrap(),
        before
    );
    // t7 is repaired, so it is another task now.
    let sandbox = sandbox.named_task("t7", "tags: [odd]\ntools: []\n");
    let run = sandbox.call(&[TASKS, "--resume", "run"]).exit(2);
    assert!(run.stderr().contains("changed: `t7`"), "{}", run.stderr());
    let run = sandbox
        .call(&[TASKS, "--resume", "run", "--resume-changed"])
        .exit(0);
    assert!(
        run.stderr().contains("1 of 8 tasks left to run"),
        "{}",
        run.stderr()
    );
    let summary = json(&run, "run/summary.json");
    assert_eq!(summary["tasks"][7]["attempt"], 2);
    assert_eq!(summary["tasks"][0]["attempt"], 1);
    assert!(run.path("run/t7/1/transcript.jsonl").exists());
    sandbox.call(&["report", "run"]).exit(0);
    // Another shard is another run.
    let run = sandbox
        .call(&[TASKS, "--resume", "run", "--shard", "1/4"])
        .exit(2);
    assert!(
        run.stderr().contains("worked on the whole plan"),
        "{}",
        run.stderr()
    );
}

#[test]
fn nothing_begun_means_that_everything_is_left_and_a_foreign_directory_is_refused() {
    let sandbox = eight().file("mine/notes.txt", "keep me");
    let sandbox = sandbox.file("empty/.keep", "").file("file", "");
    fs::remove_file(sandbox.path().join("empty/.keep")).unwrap();
    for (name, what) in [
        ("mine", "is no run directory"),
        ("empty", "is no run directory"),
        ("file", "is no directory"),
        ("nowhere", "does not exist"),
    ] {
        let run = sandbox.call(&[TASKS, "--resume", name]).exit(2);
        let told = format!("--resume: `{name}` {what}, so there is no run to go on with");
        assert!(run.stderr().contains(&told), "{}", run.stderr());
    }
    assert!(sandbox.path().join("mine/notes.txt").exists());
    assert!(!sandbox.path().join("nowhere").exists());
    let sandbox = sandbox
        .file("begun/run.lock", "")
        .file("begun/.gitignore", "*\n")
        .file("begun/.writing-x", "{");
    let run = sandbox.call(&[TASKS, "--resume", "begun"]).exit(1);
    assert!(
        run.stderr().contains("nothing was begun"),
        "{}",
        run.stderr()
    );
    assert_eq!(outcomes(&json(&run, "begun/summary.json")).len(), 8);
}

#[test]
fn what_cannot_be_read_of_an_earlier_run_is_told_and_run_again_and_the_pause_is_not_its_time() {
    let sandbox = eight();
    sandbox.call(&[TASKS, "--out", "run"]).exit(1);
    let transcript = |task: &str| {
        let path = format!("run/{task}/1/transcript.jsonl");
        sandbox.path().join(path)
    };
    let later = fs::read_to_string(transcript("t0")).unwrap();
    fs::write(transcript("t0"), later.replace("{\"v\":1,", "{\"v\":99,")).unwrap();
    fs::write(transcript("t1"), "no transcript at all\n").unwrap();
    // All of it happened an hour ago.
    let plan = fs::read_to_string(sandbox.path().join("run/run.json")).unwrap();
    let mut plan: Value = serde_json::from_str(&plan).unwrap();
    plan["started_at"] = "2020-01-01T00:00:00Z".into();
    fs::write(sandbox.path().join("run/run.json"), plan.to_string()).unwrap();
    let mut spent = Vec::new();
    for task in 2..8 {
        let path = transcript(&format!("t{task}"));
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            event["at"] = "2020-01-01T00:00:07Z".into();
            event.as_object_mut().unwrap().remove("chain");
            event.to_string()
        });
        let lines: Vec<String> = lines.collect();
        fs::write(&path, crate::report::chained(&lines)).unwrap();
    }
    // What was changed and is whole is refused, as long as there is a report that tells how it was.
    let refused = sandbox.call(&[TASKS, "--resume", "run"]).exit(2).stderr();
    assert!(
        refused.contains("`t2/1/transcript.jsonl` is not"),
        "{refused}"
    );
    assert!(!refused.contains("t1/1"), "{refused}");
    fs::remove_file(sandbox.path().join("run/summary.json")).unwrap();
    let run = sandbox.call(&[TASKS, "--resume", "run"]).exit(1);
    for told in [
        "attempt 1 of `t0` does not count and is made up for: its transcript could not be read: line 1: written in format version 99",
        "attempt 1 of `t1` does not count and is made up for: its transcript could not be read: line 1: not an event",
        "2 of 8 tasks left to run",
    ] {
        assert!(run.stderr().contains(told), "{}", run.stderr());
    }
    let mut accounts = vec![json(&run, "run/summary.json")];
    sandbox.call(&["report", "run"]).exit(1);
    accounts.push(json(&run, "run/summary.json"));
    for summary in accounts {
        let earlier = &summary["tasks"][0]["earlier_attempts"][0];
        let message = earlier["message"].as_str().unwrap();
        assert!(message.contains("format version 99"), "{summary:#}");
        assert_eq!(summary["tasks"][1]["flaky"], false);
        spent.push(summary["duration_ms"].as_u64().unwrap());
    }
    assert!(
        spent.iter().all(|spent| (7_000..3_600_000).contains(spent)),
        "{spent:?}"
    );
}

/// How many lines all transcripts of a run directory have together.
fn lines(run: &Path) -> usize {
    let tasks = fs::read_dir(run).into_iter().flatten().flatten();
    let attempts = tasks.flat_map(|task| fs::read_dir(task.path()).into_iter().flatten().flatten());
    attempts
        .filter_map(|attempt| fs::read(attempt.path().join("transcript.jsonl")).ok())
        .map(|text| text.split(|byte| *byte == b'\n').count() - 1)
        .sum()
}

#[test]
fn killed_at_any_moment_a_run_goes_on_until_every_task_is_finished_once() {
    let ways = [
        ("copy", "off"),
        ("worktree", "auto"),
        ("copy", "auto"),
        ("worktree", "off"),
    ];
    let mut cut_off_in_all = 0;
    for (seed, (isolation, mode)) in (0..20_u32).zip(ways.into_iter().cycle()) {
        // A sleep that is known by its length, and long enough to be caught in; and one that would stay for ever.
        let asleep = format!("sleep 0.05{seed:02}731");
        let stays = format!("sleep 8{seed:02}731");
        let mut sandbox = repository()
            .program("repo/work.sh", &format!("#!/bin/sh\n{stays} &\n{asleep}\n"))
            .script(
                "- tool_calls: [{ name: Bash, input: { command: ./work.sh } }]\n\
                 - tool_calls: [{ name: Read, input: { file_path: a.txt } }]\n- text: done\n",
            );
        commit(&sandbox.path().join("repo"));
        for number in 0..4 {
            let yaml = format!(
                "tools: [Read, Bash]\nworkspace: {{ path: ../repo, isolation: {isolation} }}\nsandbox: {mode}\n\
                 permissions: {{ allow: [\"Bash(./work.sh)\"] }}\n"
            );
            sandbox = sandbox.named_task(&format!("t{number}"), &yaml);
        }
        let repo = sandbox.path().join("repo");
        let before = state(&repo);
        let run = sandbox.path().join("run");
        // Four tasks have about 60 lines; a multiplicative hash spreads the moments over them, the same in every run.
        let moment = (seed.wrapping_mul(2_654_435_761) >> 16) as usize % 56;
        let mut child = sandbox
            .command(&[TASKS, "--out", "run", "--jobs", "2"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let is_begun = || run.join("run.lock").exists();
        until(|| (is_begun() && lines(&run) >= moment) || run.join("junit.xml").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let finished = |attempt: &Path| {
            fs::read_to_string(attempt.join("transcript.jsonl"))
                .is_ok_and(|text| text.contains("\"task_finished\""))
        };
        let done: Vec<String> = (0..4)
            .map(|number| format!("t{number}"))
            .filter(|task| finished(&run.join(task).join("1")))
            .collect();
        let resumed = sandbox
            .call(&[TASKS, "--resume", "run", "--jobs", "2"])
            .exit(0);
        for number in 0..4 {
            let task = format!("t{number}");
            let attempts: Vec<_> = fs::read_dir(run.join(&task)).unwrap().flatten().collect();
            let ends = attempts
                .iter()
                .filter(|attempt| finished(&attempt.path()))
                .count();
            assert_eq!(ends, 1, "seed {seed}, moment {moment}: {task}");
            if done.contains(&task) {
                assert_eq!(attempts.len(), 1, "seed {seed}: {task} was repeated");
            }
        }
        let junit = resumed.read("run/junit.xml");
        assert!(
            junit.contains("tests=\"4\" failures=\"0\" errors=\"0\""),
            "seed {seed}: {junit}"
        );
        // What was cut off says nothing of the task, and is told all the same.
        assert!(!junit.contains("flaky"), "seed {seed}: {junit}");
        assert!(!junit.contains("<rerun"), "seed {seed}: {junit}");
        let summary = json(&resumed, "run/summary.json");
        let tasks = summary["tasks"].as_array().unwrap();
        assert!(tasks.iter().all(|task| task["flaky"] == false));
        let cut_off = tasks.iter().map(|task| &task["earlier_attempts"]);
        let cut_off: usize = cut_off.filter_map(Value::as_array).map(Vec::len).sum();
        assert_eq!(junit.matches("cut_off_attempts=").count(), cut_off);
        assert_eq!(junit.matches("attempt 1: unfinished: ").count(), cut_off);
        cut_off_in_all += cut_off;
        sandbox.call(&["report", "run"]).exit(0);
        until(|| !is_left(&asleep) && !is_left(&stays));
        assert_eq!(state(&repo), before, "seed {seed}");
        let left: Vec<_> = fs::read_dir(sandbox.path().join("tmp"))
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
    assert!(cut_off_in_all > 0, "no run was killed while a task ran");
}
