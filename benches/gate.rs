//! How long the gate takes, on everyday and on hostile input.
//!
//! `cargo bench --bench gate` prints the least, the median and the most time of a decision, and fails where the median
//! is over the budget: 50 microseconds for an everyday command, 50 milliseconds for a mebibyte of openers.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints times that it took itself"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_batch::policy::{
    Action, Call, Effect, Facts, Mode, PathFacts, Policy, Roots, Rule, Source, decide, queries,
};
use serde_json::Value;

const MEBIBYTE: usize = 1 << 20;
/// The most that a line may hold, so that everything is read.
const LONGEST: usize = 16_384;

struct Measured {
    name: String,
    times: Vec<Duration>,
    budget: Duration,
}

fn policy() -> Arc<Policy> {
    let rules = |texts: &[&str], effect| {
        let source = Source {
            layer: "task".into(),
            file: "task.yaml".into(),
        };
        let parsed = texts
            .iter()
            .map(|text| Rule::parse(text, effect, source.clone()));
        parsed.flatten().collect::<Vec<Rule>>()
    };
    Arc::new(Policy {
        mode: Mode::Default,
        allow: rules(
            &[
                "Bash(cargo test:*)",
                "Bash(cargo build:*)",
                "Bash(git diff:*)",
                "Bash(git log:*)",
                "Bash(head:*)",
                "Edit(src/**)",
                "Edit(out/**)",
            ],
            Effect::Allow,
        ),
        deny: rules(
            &["Bash(git push:*)", "Bash(rm:*)", "Read(secrets/**)"],
            Effect::Deny,
        ),
        roots: Roots {
            workspace: "/srv/ci/repo".into(),
            ..Roots::default()
        },
    })
}

fn measure(name: &str, line: &str, rounds: usize, budget: Duration) -> Measured {
    let policy = policy();
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let action = Action::Bash {
                command: line.to_owned(),
            };
            let start = Instant::now();
            // What the caller does between the two is I/O, and not the gate's.
            let facts: Facts = queries(&action, &policy)
                .into_iter()
                .map(|query| {
                    let path = std::path::Path::new("/srv/ci/repo").join(&query);
                    let facts = PathFacts {
                        lexical: path.clone(),
                        physical: path,
                        kind: agent_batch::policy::FileKind::File,
                        links: 1,
                        dotdot_after_link: false,
                        dangling: false,
                    };
                    (query, facts)
                })
                .collect();
            let call = Call {
                tool: "Bash",
                input: &Value::Null,
                action,
                read_only: false,
            };
            let answer = decide(&call, &facts, &policy);
            let taken = start.elapsed();
            drop(std::hint::black_box(answer));
            taken
        })
        .collect();
    times.sort_unstable();
    Measured {
        name: name.to_owned(),
        times,
        budget,
    }
}

fn main() -> ExitCode {
    let everyday = Duration::from_micros(50);
    let hostile = Duration::from_millis(50);
    let mut all = vec![
        measure(
            "cargo test --offline",
            "cargo test --offline",
            2000,
            everyday,
        ),
        measure(
            "git log --oneline -20 | head -5",
            "git log --oneline -20 | head -5",
            2000,
            everyday,
        ),
        measure(
            "cargo build 2>&1 > out/log.txt && git diff --stat",
            "cargo build 2>&1 > out/log.txt && git diff --stat",
            2000,
            everyday,
        ),
    ];
    for opener in [
        "( ", "{ ", "$(", "`", "${", "\"$(", "'", "<<E\n", "a;", "a\\\n", "*", "sudo ", "sh -c '",
    ] {
        for (size, shown) in [(MEBIBYTE, "1 MiB"), (LONGEST - 8, "16 KiB")] {
            let line = opener.repeat(size / opener.len());
            let name = format!("{shown} of {opener:?}");
            all.push(measure(&name, &line, 20, hostile));
        }
    }
    let mut within = true;
    println!(
        "{:52} {:>11} {:>11} {:>11}",
        "line", "least", "median", "most"
    );
    for measured in &all {
        let at = |index: usize| measured.times.get(index).copied().unwrap_or_default();
        let (least, median, most) = (
            at(0),
            at(measured.times.len() / 2),
            at(measured.times.len() - 1),
        );
        let over = median > measured.budget;
        within &= !over;
        println!(
            "{:52} {least:>11.1?} {median:>11.1?} {most:>11.1?}{}",
            measured.name,
            if over { "  over its budget" } else { "" }
        );
    }
    if within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
