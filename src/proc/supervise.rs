//! The supervisor: what `agent-batch supervise` does.
//!
//! It stands between the runner and one command. Its standard input is the control socket, its standard output and
//! error are the pipes of the call, which the command inherits. It becomes the leader of a session (signals for the
//! runner's terminal group do not reach the call) and the subreaper of everything below (a process that was forked
//! twice and left its session still becomes our child when its parents are gone). Therefore "we have no children"
//! means "nothing of the call is left", and the kernel answers that without a race.
//!
//! A command that is confined has a second supervisor, `agent-batch confine`, inside of the sandbox: this program again,
//! with the same order on a socket of its own. It knows how the command itself ended and what it left, and it is not
//! restricted, so that nothing inside can end it or look into it; only the thread that starts the command is. It is
//! started by the open file that this process runs from, never by a path: a call may have put another program there.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::ceilings::{self, Looks, Preference};
use super::cgroup::Group;
use super::handover::{self, First};
use super::left;
use super::order::{Order, Report};
use super::tree;
use crate::clock::Clock;
use crate::sandbox::{Confinement, Held, Network};

/// How long processes may take to end by themselves after the command: `> >(tee log)` is no leak.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the killing goes on without hitting anything new; what survives that is beyond our rights.
const KILL: Duration = Duration::from_secs(5);
/// How long it goes on at all. Long: on a machine that is taken up by what is being killed, little happens in a second.
const KILL_AT_MOST: Duration = Duration::from_secs(120);
/// Most bytes of a report from inside.
const REPORT_LIMIT: u64 = 64 * 1024;
/// Pause between two looks at the process table.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// Runs one order from standard input; `program` is this program. Gives the exit code: 0 when a report was delivered or
/// nobody is left to read one, 3 when there was no order.
#[must_use]
pub fn supervise(program: &Path) -> u8 {
    // What whoever started the runner has left open is nothing for a task. Our own end of the control socket is stdin.
    close_fds::set_fds_cloexec(3, &[]);
    let preference = Preference::open();
    close_memory();
    serve(|order, watch, control| {
        watch.look(&order);
        let wanted = !order.ceilings.only_watched;
        let group = wanted.then(|| Group::new(order.ceilings.processes, &order.nonce));
        let start = || match order.confinement.clone() {
            Some(confinement) => Started::confined(confinement, order, program, control),
            None => start(order, &preference).map(Started::plain),
        };
        match group.flatten() {
            Some(group) => group.with(start).map(|started| started.within(group)),
            None => start(),
        }
    })
}

/// The same inside of a sandbox, whose outer part is there already: restricts the command by the order's confinement.
#[must_use]
pub fn confine() -> u8 {
    // The file that we were started from was left open for that, and is nothing for the command.
    close_fds::set_fds_cloexec(3, &[]);
    let preference = Preference::open();
    close_memory();
    serve(|order, _, control| {
        let Some(confinement) = order.confinement.clone() else {
            return Err(not_started("the order names no confinement"));
        };
        if confinement.plan.network == Network::Hosts {
            let handed = handover::listen().and_then(|listener| handover::send(control, listener));
            handed.map_err(|error| {
                not_started(&format!(
                    "the network's proxy has no place to listen: {error}"
                ))
            })?;
        }
        // Only this thread gives up its rights, and the command with it.
        let starting = thread::spawn(move || {
            let restricted = order
                .pins
                .verify()
                .and_then(|()| confinement.restrict(&order.ceilings));
            restricted.map_err(|error| {
                not_started(&format!(
                    "the sandbox could not be set up from inside: {error}"
                ))
            })?;
            start(order, &preference)
        });
        let started = starting
            .join()
            .map_err(|_| not_started("the sandbox could not be set up: a crash"))?;
        started.map(Started::plain)
    })
}

/// Nothing that the command starts may look into this process, whatever layers there are.
fn close_memory() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

fn serve(start: impl FnOnce(Order, &Watch, &UnixStream) -> Result<Started, Report>) -> u8 {
    let Some(mut control) = control() else {
        return 3;
    };
    tree::lead();
    let Ok(order) = Order::read(&mut control) else {
        return 3;
    };
    let (nonce, watch) = (order.nonce.clone(), Watch::default());
    let report = match start(order, &watch, &control) {
        Ok(started) => carry_out(started, &watch, &control),
        Err(report) => report,
    };
    let _ = control.write_all(&report.encode(&nonce));
    0
}

/// The control socket, which no program that is started from here gets: neither as its standard input nor otherwise.
fn control() -> Option<UnixStream> {
    let control = io::stdin().as_fd().try_clone_to_owned().ok()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null").ok()?).ok()?;
    Some(UnixStream::from(control))
}

/// A process of the call: the command, or the sandbox that the command is in.
struct Started {
    child: Pid,
    /// The sandbox around it.
    around: Option<Around>,
    /// Bounds the number of its processes.
    group: Option<Group>,
}

/// What is outside of the sandbox.
struct Around {
    /// From here comes the report of the supervisor inside.
    inside: UnixStream,
    /// What came from there before a report.
    first: mpsc::Receiver<First>,
    nonce: String,
    confinement: Confinement,
    /// Goes when nothing of the call is left.
    held: Option<Held>,
}

impl Started {
    fn plain(child: Pid) -> Self {
        Self {
            child,
            around: None,
            group: None,
        }
    }

    fn within(self, group: Group) -> Self {
        Self {
            group: Some(group),
            ..self
        }
    }

    /// Starts a sandbox, and in it the supervisor that gets the order.
    #[expect(
        clippy::disallowed_methods,
        reason = "`proc` is the one place that starts processes"
    )]
    fn confined(
        confinement: Confinement,
        mut order: Order,
        program: &Path,
        control: &UnixStream,
    ) -> Result<Self, Report> {
        let failed =
            |error: io::Error| not_started(&format!("the sandbox could not be started: {error}"));
        let held = confinement.hold().map_err(failed)?;
        let line = confinement.outer(&order.cwd).map_err(failed)?;
        order.pins = confinement.pins();
        let (program, _open) = inherited(program).map_err(failed)?;
        let mut words = line.into_iter().chain([program.into(), "confine".into()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        let (inside, remote) = UnixStream::pair().map_err(failed)?;
        let child = command
            .args(words)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(remote))
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let bytes = order.encode().map_err(failed)?;
        let mut writer = inside.try_clone().map_err(failed)?;
        let runner = control.try_clone().map_err(failed)?;
        let (tell, first) = mpsc::channel();
        let has_proxy = confinement.plan.network == Network::Hosts;
        // A sandbox that fails does not read; its end closes the socket.
        thread::spawn(move || {
            let _ = writer.write_all(&bytes);
            if has_proxy {
                let _ = tell.send(hand_on(&writer, &runner));
            }
        });
        Ok(Self {
            child: Pid::from_child(&child),
            around: Some(Around {
                inside,
                first,
                nonce: order.nonce,
                confinement,
                held,
            }),
            group: None,
        })
    }
}

/// This program by a descriptor that a program started from here has too, and the descriptor.
#[cfg(target_os = "linux")]
fn inherited(_program: &Path) -> io::Result<(PathBuf, File)> {
    use std::os::fd::AsRawFd as _;
    let file = File::open("/proc/self/exe")?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok((path.into(), file))
}

#[cfg(not(target_os = "linux"))]
fn inherited(program: &Path) -> io::Result<(PathBuf, File)> {
    Ok((program.to_path_buf(), File::open(program)?))
}

fn not_started(message: &str) -> Report {
    Report::NotStarted {
        os_error: None,
        message: message.to_owned(),
    }
}

fn carry_out(started: Started, watch: &Watch, control: &UnixStream) -> Report {
    let Started {
        child,
        around,
        group,
    } = started;
    // From here on nothing is started that would have it too.
    ceilings::run_first();
    if around.is_some() {
        ceilings::run_session_first();
    }
    if let Ok(control) = control.try_clone() {
        let watch = watch.clone();
        thread::spawn(move || watch.stop_when_closed(control, child));
    }
    watch.look_on(child);
    let status = wait_for(child);
    watch.ended.store(true, Ordering::SeqCst);

    let (leaked, left) = if watch.stopped.load(Ordering::SeqCst) {
        end_everything(child);
        (watch.strays.load(Ordering::SeqCst), Vec::new())
    } else if settled() {
        (0, Vec::new())
    } else {
        let left = left::tell(&tree::living_below_us());
        (end_everything(child), left)
    };
    drop(group);
    let (code, signal) = (
        status.and_then(WaitStatus::exit_status),
        status.and_then(WaitStatus::terminating_signal),
    );
    let ended = |code, signal, leaked, left, breaches| Report::Ended {
        code,
        signal,
        leaked,
        left,
        breaches,
    };
    let told = match around {
        None => ended(code, signal, leaked, left, Vec::new()),
        Some(around) => {
            // Nothing of the call is left.
            let breaches = around.confinement.restore_links();
            drop(around.held);
            match report_from(around.inside, &around.first, &around.nonce) {
                Some(Report::Ended {
                    code,
                    signal,
                    leaked: more,
                    left: inside,
                    ..
                }) => {
                    let left = inside.into_iter().chain(left).collect();
                    ended(code, signal, leaked.saturating_add(more), left, breaches)
                }
                Some(other) => other,
                None if watch.stopped.load(Ordering::SeqCst) || signal.is_some() => {
                    ended(code, signal, leaked, left, breaches)
                }
                // The sandbox tells the signal that ended the supervisor inside by its exit code.
                None if code.is_some_and(|code| code > 128) => {
                    ended(None, code.map(|code| code - 128), leaked, left, breaches)
                }
                None => not_started(&format!(
                    "the sandbox ended with exit code {} before the command was started",
                    code.unwrap_or(-1)
                )),
            }
        }
    };
    match watch.exceeded.get() {
        Some(message) => Report::Stopped {
            message: message.clone(),
        },
        None => told,
    }
}

/// Takes the proxy's listener from the supervisor inside and hands it to the runner.
fn hand_on(inside: &UnixStream, runner: &UnixStream) -> First {
    match handover::receive(inside) {
        Ok(First::Listener(listener)) => {
            let _ = handover::send(runner, &listener);
            First::Listener(listener)
        }
        Ok(other) => other,
        Err(_) => First::End,
    }
}

/// The report of the supervisor inside, which is gone.
fn report_from(inside: UnixStream, first: &mpsc::Receiver<First>, nonce: &str) -> Option<Report> {
    let _ = inside.shutdown(Shutdown::Write);
    // Everything that could hold the other end is gone; a moment is enough for what may have survived.
    inside.set_read_timeout(Some(SETTLE)).ok()?;
    let mut bytes = Vec::new();
    // Without a proxy the other end of the channel is gone, and nobody waits.
    if let Ok(First::Byte(byte)) = first.recv_timeout(SETTLE) {
        bytes.push(byte);
    }
    let _ = inside.take(REPORT_LIMIT).read_to_end(&mut bytes);
    Report::decode(&bytes, nonce)
}

/// Starts the command with exactly the order's environment and standard input.
#[expect(
    clippy::disallowed_methods,
    reason = "`proc` is the one place that starts processes"
)]
fn start(order: Order, preference: &Preference) -> Result<Pid, Report> {
    let Some((program, arguments)) = order.argv.split_first() else {
        return Err(Report::NotStarted {
            os_error: None,
            message: "the command line is empty".to_owned(),
        });
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&order.env)
        .current_dir(&order.cwd)
        .stdin(if order.stdin.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .process_group(0);
    let mut child = preference
        .first(|| command.spawn())
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
#[derive(Clone, Default)]
struct Watch {
    ended: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    /// Processes outside the command's own tree at the moment of the stop.
    strays: Arc<AtomicU32>,
    looks: Arc<OnceLock<Looks>>,
    /// What was too much.
    exceeded: Arc<OnceLock<String>>,
}

impl Watch {
    /// Takes in what is there before the call begins.
    fn look(&self, order: &Order) {
        let private = ["HOME", "TMPDIR"].map(|name| order.env.get(name).map(PathBuf::from));
        let written = private.into_iter().flatten().chain([order.cwd.clone()]);
        let _ = self.looks.set(Looks::new(order.ceilings.clone(), written));
    }

    /// Ends the call when it takes too much, if that is looked at here.
    fn look_on(&self, child: Pid) {
        if self.looks.get().is_none() {
            return;
        }
        let watch = self.clone();
        thread::spawn(move || {
            while !watch.ended.load(Ordering::SeqCst) {
                thread::sleep(ceilings::EVERY);
                if let Some(message) = watch.looks.get().and_then(Looks::exceeded) {
                    let _ = watch.exceeded.set(message);
                    return watch.stop(child);
                }
            }
        });
    }

    /// Waits for the end of the control socket, then kills until the command is gone.
    fn stop_when_closed(&self, mut control: UnixStream, child: Pid) {
        let mut byte = [0];
        while matches!(control.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::Interrupted)
        {
        }
        if self.ended.load(Ordering::SeqCst) {
            return;
        }
        self.stop(child);
    }

    /// Kills until the command is gone.
    fn stop(&self, child: Pid) {
        tree::stop_below_us();
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
    let (mut taken, mut last_hit) = (0_u32, Duration::ZERO);
    loop {
        let before = seen.count();
        seen.extend(tree::kill_below_us(child));
        let now = started.elapsed();
        if seen.count() > before {
            last_hit = now;
        }
        let children = take_in();
        taken = taken.saturating_add(children.killed);
        if children.childless || now >= last_hit + KILL || now >= KILL_AT_MOST {
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
