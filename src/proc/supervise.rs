//! The supervisor: what `agent-batch supervise` does.
//!
//! It stands between the runner and one command. Its standard input is the control socket, its standard output and
//! error are the pipes of the call, which the command inherits. It becomes the leader of a session (signals for the
//! runner's terminal group do not reach the call) and the subreaper of everything below (a process that was forked
//! twice and left its session still becomes our child when its parents are gone). Therefore "we have no children"
//! means "nothing of the call is left", and the kernel answers that without a race.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::order::{Order, Report};
use super::tree;
use crate::clock::Clock;

/// How long processes may take to end by themselves after the command: `> >(tee log)` is no leak.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the killing may take; what survives it is beyond our rights.
const KILL: Duration = Duration::from_secs(5);
/// Pause between two looks at the process table.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs one order from standard input. Gives the exit code: 0 when a report was delivered or nobody is left to read
/// one, 3 when there was no order.
#[must_use]
pub fn supervise() -> u8 {
    let Ok(control) = io::stdin().as_fd().try_clone_to_owned() else {
        return 3;
    };
    let mut control = UnixStream::from(control);
    tree::lead();
    let Ok(order) = Order::read(&mut control) else {
        return 3;
    };
    let report = carry_out(order, &control);
    let _ = control.write_all(&report.encode());
    0
}

fn carry_out(order: Order, control: &UnixStream) -> Report {
    let child = match start(order) {
        Ok(child) => child,
        Err(report) => return report,
    };
    let watch = Watch::default();
    if let Ok(control) = control.try_clone() {
        let watch = watch.clone();
        thread::spawn(move || watch.stop_when_closed(control, child));
    }
    let status = wait_for(child);
    watch.ended.store(true, Ordering::SeqCst);

    let leaked = if watch.stopped.load(Ordering::SeqCst) {
        end_everything(child);
        watch.strays.load(Ordering::SeqCst)
    } else if settled() {
        0
    } else {
        end_everything(child)
    };
    Report::Ended {
        code: status.and_then(WaitStatus::exit_status),
        signal: status.and_then(WaitStatus::terminating_signal),
        leaked,
    }
}

/// Starts the command with exactly the order's environment and standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "`proc` is the one place that starts processes"
)]
fn start(order: Order) -> Result<Pid, Report> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err(Report::NotStarted {
            os_error: None,
            message: "the command line is empty".to_owned(),
        });
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&order.env)
        .current_dir(&order.cwd)
        .stdin(if order.stdin.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .process_group(0)
        .spawn()
        .map_err(|error| Report::NotStarted {
            os_error: error.raw_os_error(),
            message: format!("could not start `{program}`: {error}"),
        })?;
    if let Some(mut pipe) = child.stdin.take() {
        let stdin = order.stdin;
        // A command that does not read its input must not hold us up; one that closed it gets what it wants.
        thread::spawn(move || {
            let _ = pipe.write_all(&stdin);
        });
    }
    Ok(Pid::from_child(&child))
}

/// Between the thread that waits for the command and the one that listens to the runner.
#[derive(Debug, Clone, Default)]
struct Watch {
    ended: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    /// Processes outside the command's own tree at the moment of the stop.
    strays: Arc<AtomicU32>,
}

impl Watch {
    /// Waits for the end of the control socket, then kills until the command is gone.
    fn stop_when_closed(&self, mut control: UnixStream, child: Pid) {
        let mut byte = [0];
        while matches!(control.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::Interrupted)
        {
        }
        if self.ended.load(Ordering::SeqCst) {
            return;
        }
        self.strays.store(tree::strays(child), Ordering::SeqCst);
        self.stopped.store(true, Ordering::SeqCst);
        while !self.ended.load(Ordering::SeqCst) {
            tree::kill_below_us(child);
            thread::sleep(PAUSE);
        }
    }
}

/// Waits for the command, and takes in every other process that became our child meanwhile.
fn wait_for(child: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Whether everything ended by itself within a moment.
fn settled() -> bool {
    let started = Clock::system().start();
    loop {
        if take_in().childless {
            return true;
        }
        if started.elapsed() >= SETTLE {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// Kills until we have no children; gives the number of processes that had to be killed.
fn end_everything(child: Pid) -> u32 {
    let started = Clock::system().start();
    let mut seen = tree::Killed::default();
    let mut taken = 0_u32;
    loop {
        seen.extend(tree::kill_below_us(child));
        let children = take_in();
        taken = taken.saturating_add(children.killed);
        if children.childless || started.elapsed() >= KILL {
            // A process may be hit without having been seen, and be taken in by its own parent before us.
            return seen.count().max(taken);
        }
        thread::sleep(PAUSE);
    }
}

/// The children that ended, taken in.
struct Children {
    /// There are no others.
    childless: bool,
    /// Ended by SIGKILL.
    killed: u32,
}

fn take_in() -> Children {
    let mut killed = 0;
    let childless = loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((_, status))) => {
                let by = status.terminating_signal();
                killed += u32::from(by == Some(Signal::KILL.as_raw()));
            }
            Err(Errno::INTR) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    Children { childless, killed }
}
