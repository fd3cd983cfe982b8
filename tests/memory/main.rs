//! What a task takes on the heap and leaves there when it has ended, and what the reports of many tasks take, counted by the
//! allocator: bytes, not time and not the resident size, which other things change, too.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

#[path = "../it/batch.rs"]
#[expect(dead_code, reason = "the other tests use the rest of it")]
mod batch;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent_batch::agent::Shutdown;
use agent_batch::batch::{Batch, Job};
use agent_batch::clock::Clock;
use agent_batch::event::{Event, Sink};
use agent_batch::proc::Launcher;
use agent_batch::report::plan::{PlannedTask, RunPlan};
use agent_batch::report::{Forms, Summary, files};
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// What the program itself does with events: it folds them into what the reports are made of.
struct Fold(Summary);

impl Sink for Fold {
    fn accept(&mut self, event: &Event) -> io::Result<()> {
        self.0.fold(event);
        Ok(())
    }
}

/// Bytes on the heap.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    /// Before the first task began, when all were loaded.
    loaded: usize,
    /// When all had ended.
    finished: usize,
    /// More while the reports were written than before that.
    reports: usize,
}

/// Runs so many tasks in a run of their own.
fn run(count: usize) -> Bytes {
    let (_dir, root) = batch::place();
    let model = batch::done();
    let jobs: Vec<_> = (0..count)
        .map(|n| batch::job(&root, &format!("task-{n:04}"), "", Arc::clone(&model)))
        .collect();
    let tasks = jobs.iter().map(|job| planned(&job.task.name)).collect();
    let plan = RunPlan::new("0", Clock::system().now(), 1, tasks);
    let fold = Arc::new(Mutex::new(Fold(Summary::new(plan, "out"))));
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_agent-batch").into());
    let (mut batch, _) = batch::build(&root, launcher, BTreeMap::new());
    batch.watchers = vec![Arc::clone(&fold) as _];
    batch.parallel = 4;
    let batch = Arc::new(batch);

    let loaded = HEAP.current_usage();
    execute(&batch, jobs);
    let finished = HEAP.current_usage();

    let fold = fold.lock().unwrap();
    assert_eq!(fold.0.totals().passed, count as u64);
    let reports = written(&fold.0, &root.join("out"));
    Bytes {
        loaded,
        finished,
        reports,
    }
}

fn planned(name: &str) -> PlannedTask {
    PlannedTask {
        name: name.to_owned(),
        file: format!("{name}.yaml"),
        line: 1,
        ..PlannedTask::default()
    }
}

/// The runtime is gone with all that it held when this returns.
fn execute(batch: &Arc<Batch>, jobs: Vec<Job>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(batch.run(jobs, &Shutdown::default()));
}

fn written(summary: &Summary, out: &Path) -> usize {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    files::write_all(out, summary, Forms::default()).unwrap();
    HEAP.peak_usage().saturating_sub(before)
}

#[test]
fn a_batch_takes_no_more_when_its_tasks_have_ended_and_no_report_holds_all_tasks() {
    const FEW: usize = 50;
    const MANY: usize = 450;
    // What is made once for the process.
    run(1);
    let (few, many) = (run(FEW), run(MANY));
    let each = |of: fn(&Bytes) -> usize| of(&many).saturating_sub(of(&few)) / (MANY - FEW);
    let (loaded, finished) = (each(|bytes| bytes.loaded), each(|bytes| bytes.finished));
    assert!(
        finished <= loaded,
        "a task takes {loaded} bytes and leaves {finished}: {few:?}, {many:?}"
    );
    let reports = each(|bytes| bytes.reports);
    assert!(
        reports < 1024,
        "the reports take {reports} bytes for each task: {few:?}, {many:?}"
    );
}
