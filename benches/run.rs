//! What the runner itself costs: whole processes of the release binary against a fake Messages API on loopback that
//! answers at once. Prints minimum, median and maximum of each figure, and for the ratio a process that does nothing.
//!
//! `cargo bench` runs it; `cargo bench -- --rounds 50` takes more rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures, starts processes and prints, and may fail loudly"
)]

mod fake;

use std::fs;
use std::time::Duration;

use fake::{measure, serve};

const STEPS: u32 = 100;
/// How often the memory of a run is looked at that is there for it.
const LOOK: Duration = Duration::from_micros(200);

fn main() {
    let rounds = std::env::args()
        .skip_while(|arg| arg != "--rounds")
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(15);
    let address = serve(Duration::ZERO, STEPS as usize);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("repo")).unwrap();
    fs::write(dir.path().join("repo/a.txt"), "alpha\n".repeat(20)).unwrap();
    let task = |name: &str, tools: &str| {
        let yaml = format!(
            "model: anthropic/bench-{name}\nprompt: go\nworkspace: {{ path: repo }}\n{tools}\n\
             limits: {{ max_steps: 200, max_tokens: 100000000 }}\n"
        );
        fs::write(dir.path().join(format!("{name}.yaml")), yaml).unwrap();
    };
    task("one", "tools: [Read]");
    task("read", "tools: [Read]");
    task(
        "bash",
        "tools: [Bash]\npermissions: { allow: [\"Bash(true:*)\"] }",
    );

    let mut figures: [(&str, Vec<f64>); 6] = [
        ("a process that does nothing (`--version`), ms", vec![]),
        ("one-step task, whole process, ms", vec![]),
        ("added by each further step with Read, ms", vec![]),
        ("added by each further step with Bash(true), ms", vec![]),
        ("peak memory of a one-step task, MB", vec![]),
        ("peak memory at 100 steps, MB", vec![]),
    ];
    for _ in 0..rounds {
        let timed = |what| measure(dir.path(), address, &[what], None);
        let watched = |what| measure(dir.path(), address, &[what], Some(LOOK)).peak;
        let nothing = timed("--version");
        let one = timed("one.yaml");
        let read = timed("read.yaml");
        let bash = timed("bash.yaml");
        let added =
            |many: Duration| (many.as_secs_f64() - one.wall.as_secs_f64()) * 1e3 / f64::from(STEPS);
        let values = [
            nothing.wall.as_secs_f64() * 1e3,
            one.wall.as_secs_f64() * 1e3,
            added(read.wall),
            added(bash.wall),
            watched("one.yaml"),
            watched("read.yaml"),
        ];
        for ((_, all), value) in figures.iter_mut().zip(values) {
            all.push(value);
        }
    }
    println!(
        "{rounds} rounds, {STEPS} steps\n\n{:<50} {:>8} {:>8} {:>8}",
        "", "min", "median", "max"
    );
    for (name, values) in &mut figures {
        values.sort_by(f64::total_cmp);
        println!(
            "{name:<50} {:>8.2} {:>8.2} {:>8.2}",
            values[0],
            values[values.len() / 2],
            values[values.len() - 1]
        );
    }
}
