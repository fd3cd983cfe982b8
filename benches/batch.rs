//! What many tasks at once cost: whole processes of the release binary against a fake Messages API on loopback that takes
//! its time. Prints wall-clock time, processor time and peak memory.
//!
//! `cargo bench --bench batch` runs it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench measures, starts processes and prints, and may fail loudly"
)]

mod fake;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fake::{Measured, measure, serve};

/// How long the model takes to answer.
const LATENCY: Duration = Duration::from_millis(200);
/// Tool calls of a long task; one more answer ends it.
const STEPS: usize = 20;
const LONG_TASKS: usize = 64;
/// Tasks of the two batches whose peaks are compared.
const FEW: usize = 200;
const MANY: usize = 1000;
/// How often the memory of a run is looked at.
const LOOK: Duration = Duration::from_millis(2);

fn main() {
    let address = serve(LATENCY, STEPS);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("repo")).unwrap();
    fs::write(dir.path().join("repo/a.txt"), "alpha\n".repeat(20)).unwrap();
    println!(
        "{:<44} {:>9} {:>9} {:>6} {:>9} {:>9}",
        "", "wall, s", "ideal, s", "ratio", "CPU, s", "peak, MB"
    );
    let calls = u32::try_from(STEPS + 1).unwrap();
    write(dir.path(), "long", LONG_TASKS, "read");
    run(
        dir.path(),
        address,
        "long",
        LONG_TASKS,
        "64",
        LATENCY * calls,
    );
    let (mut loaded, mut finished) = (Vec::new(), Vec::new());
    for (name, count) in [("few", FEW), ("many", MANY)] {
        write(dir.path(), name, count, "one");
        loaded.push(measure(dir.path(), address, &["check", name], Some(LOOK)).peak);
        let ideal = LATENCY * u32::try_from(count / 100).unwrap();
        finished.push(run(dir.path(), address, name, count, "100", ideal).peak);
    }
    let each = |peaks: &[f64]| {
        (peaks[1] - peaks[0]) * 1024.0 / f64::from(u32::try_from(MANY - FEW).unwrap())
    };
    println!(
        "\neach further task adds {:.1} kB to the peak where it is only loaded (`check`), {:.1} kB where it is run",
        each(&loaded),
        each(&finished)
    );
}

/// Writes so many tasks into a directory of their own.
fn write(dir: &Path, name: &str, count: usize, model: &str) {
    fs::create_dir(dir.join(name)).unwrap();
    for n in 0..count {
        let yaml = format!(
            "model: anthropic/bench-{model}\nprompt: go\nworkspace: {{ path: ../repo }}\ntools: [Read]\n\
             limits: {{ max_steps: 40, max_tokens: 100000000 }}\n"
        );
        fs::write(dir.join(name).join(format!("{name}-{n:04}.yaml")), yaml).unwrap();
    }
}

fn run(
    dir: &Path,
    address: SocketAddr,
    name: &str,
    count: usize,
    jobs: &str,
    ideal: Duration,
) -> Measured {
    let took = measure(dir, address, &[name, "--jobs", jobs], Some(LOOK));
    let (wall, ideal) = (took.wall.as_secs_f64(), ideal.as_secs_f64());
    println!(
        "{:<44} {wall:>9.2} {ideal:>9.2} {:>6.2} {:>9.2} {:>9.1}",
        format!("{count} tasks ({name}), --jobs {jobs}"),
        wall / ideal,
        took.cpu.as_secs_f64(),
        took.peak
    );
    took
}
