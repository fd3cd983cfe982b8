//! How long it takes until a workspace of 10,000 files is ready: from the start of the run to the first event of its task, in
//! place, as a copy and as a worktree, beside what `cp -a` takes for the same files in the same round.
//!
//! `cargo bench --bench workspace` runs it; `TMPDIR` names where the workspaces are made.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures, starts processes and prints, and may fail loudly"
)]

mod fake;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fake::{measure, serve};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const FILES: usize = 10_000;
const ROUNDS: usize = 5;
const ISOLATIONS: [&str; 3] = ["none", "copy", "worktree"];

fn main() {
    let address = serve(Duration::ZERO, 0);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    repository(&dir.join("repo"));
    for isolation in ISOLATIONS {
        let yaml = format!(
            "model: anthropic/bench-one\nprompt: go\ntools: [Read]\nworkspace: {{ path: repo, isolation: {isolation} }}\n"
        );
        fs::write(dir.join(format!("{isolation}.yaml")), yaml).unwrap();
    }
    let mut figures = vec![Vec::new(); ISOLATIONS.len() + 1];
    for _ in 0..ROUNDS {
        for (isolation, times) in ISOLATIONS.iter().zip(&mut figures) {
            measure(dir, address, &[&format!("{isolation}.yaml")], None);
            times.push(ready(&dir.join("agent-batch-results"), isolation));
        }
        figures[ISOLATIONS.len()].push(copied(dir));
    }
    println!(
        "{ROUNDS} rounds, {FILES} files\n\n{:<30} {:>8} {:>8} {:>8}",
        "", "min", "median", "max"
    );
    for (name, times) in ISOLATIONS.iter().chain(&["`cp -a`"]).zip(&mut figures) {
        times.sort_by(f64::total_cmp);
        println!(
            "{:<30} {:>8.2} {:>8.2} {:>8.2}",
            format!("{name}, s"),
            times[0],
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
}

/// A committed tree: a hundred directories of a hundred files of half a kilobyte.
fn repository(at: &Path) {
    for number in 0..FILES {
        let directory = at.join(format!("d{}", number / 100));
        fs::create_dir_all(&directory).unwrap();
        let text = format!("file {number}\n").repeat(50);
        fs::write(directory.join(format!("f{number}.txt")), text).unwrap();
    }
    let identity = ["-c", "user.name=b", "-c", "user.email=b@example.org"];
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "1"]] {
        let mut git = Command::new("git");
        git.args(identity).args(arguments).current_dir(at);
        assert!(git.status().unwrap().success());
    }
}

/// From the start of the run to the first event of its task, in seconds.
fn ready(results: &Path, task: &str) -> f64 {
    let plan = fs::read_to_string(results.join("run.json")).unwrap();
    let transcript = fs::read_to_string(results.join(task).join("1/transcript.jsonl")).unwrap();
    let first = transcript.lines().next().unwrap();
    (moment(first, "at") - moment(&plan, "started_at")).as_seconds_f64()
}

fn moment(json: &str, key: &str) -> OffsetDateTime {
    let value: Value = serde_json::from_str(json).unwrap();
    OffsetDateTime::parse(value[key].as_str().unwrap(), &Rfc3339).unwrap()
}

fn copied(dir: &Path) -> f64 {
    let target = dir.join("copied");
    let began = Instant::now();
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(dir.join("repo")).arg(&target);
    assert!(copy.status().unwrap().success());
    let took = began.elapsed().as_secs_f64();
    fs::remove_dir_all(target).unwrap();
    took
}
