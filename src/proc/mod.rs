//! The only place that starts processes.
//!
//! Every call runs under a supervisor of its own: this program again, with the hidden subcommand `supervise`
//! ([`supervise`]). The supervisor is the parent that every process of the call falls back to, so that it can end
//! all of them when the command ends, when it is told to stop, and when the runner itself is gone. There is one way
//! to stop a call, for every reason: the runner closes its side of the control socket, as the kernel does when the
//! runner dies.
//!
//! The supervisor gets its orders over that socket. Nothing that is secret or that a model wrote stands in its own
//! arguments or environment.

mod capture;
mod ceilings;
mod cgroup;
mod environment;
mod handover;
mod left;
mod order;
mod self_test;
mod supervise;
mod tree;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use self::capture::Capture;
use self::handover::First;
use self::order::{Order, Report};
use self::tree::Supervisors;
use crate::egress::Egress;
use crate::redact::Redactor;
use crate::sandbox::{Ceilings, Confinement, Layers, Network, Pins, Plan};

pub use self::environment::{child_environment, trust_repository};
pub use self::self_test::{Enforced, probe_sandbox};
pub use self::supervise::{confine, supervise};

/// The variable that marks every process of a call, so that they are found when their supervisor is gone.
pub const CALL_MARKER: &str = "AGENT_BATCH_CALL";

/// How long a supervisor may take to end a call after it was told to.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// How long output is waited for when every process is gone.
const DRAIN: Duration = Duration::from_secs(2);
/// Most bytes of a supervisor's report.
const REPORT_LIMIT: u64 = 64 * 1024;
/// Bytes read from a pipe at once.
const CHUNK: usize = 64 * 1024;

/// Starts processes under supervision. Each call gets a supervisor (`agent-batch supervise`, hidden), which is the
/// subreaper of everything that the call starts and kills all of it at the end, whatever happened to us.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program that has the `supervise` subcommand: our own binary.
    supervisor: PathBuf,
    /// The same as it was at the start: it is run by this file, whatever comes to stand at its path.
    opened: Option<Arc<File>>,
    /// What the processes of a call may take together.
    ceilings: Ceilings,
    /// What this machine has; tests take layers away.
    layers: Layers,
    /// What was found to work, once for all clones.
    tested: Arc<self_test::Tested>,
    /// What every process is held to.
    confined: Option<Arc<Confined>>,
    /// The way out of their network, where there is one.
    egress: Option<Arc<Egress>>,
}

/// A confinement and what its processes share.
#[derive(Debug)]
struct Confined {
    confinement: Confinement,
    /// What calls did to protected links, in words.
    breaches: Mutex<Vec<String>>,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Program and arguments; no shell is added.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The whole environment of the child; only [`CALL_MARKER`] is added.
    pub env: BTreeMap<String, String>,
    /// Given on standard input, then end of file.
    pub stdin: Vec<u8>,
    /// Everything is killed after this time.
    pub time_limit: Duration,
    /// Most bytes of output kept in memory (head and tail) per stream; the rest only in `spill`.
    pub keep: usize,
    /// Where the whole output goes when it is larger than `keep` (redacted), if anywhere. The file must not exist
    /// yet; a separate stderr goes beside it, with `.stderr` added to the name.
    pub spill: Option<PathBuf>,
    /// Whether stderr is captured apart (hooks) or interleaved with stdout (Bash).
    pub stderr: Stderr,
}

/// Where standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// Into the same stream as stdout, in order.
    Merged,
    /// Into a stream of its own.
    Separate,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Killed at its time limit.
    TimedOut,
    /// Killed because the task was cancelled.
    Cancelled,
}

/// What a process left.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Standard output (with stderr when merged).
    pub stdout: Captured,
    /// Standard error when separate.
    pub stderr: Captured,
    /// Processes that were still there when it ended, and were killed.
    pub leaked: u32,
    /// Some of them: number, command line and the ports that they listened on, in words and redacted. Empty where that is not
    /// known.
    pub left: Vec<String>,
}

/// Redacted output, bounded in memory.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// The whole text, or its head and tail with a line between that says how much is missing.
    pub text: String,
    /// Size of the whole in bytes.
    pub bytes: u64,
    /// The whole, when it was larger than what is kept in memory.
    pub spilled: Option<PathBuf>,
}

impl Launcher {
    /// A launcher whose supervisor is this program. Its processes are not confined.
    #[must_use]
    pub fn new(supervisor: PathBuf) -> Self {
        Self {
            opened: File::open(&supervisor).ok().map(Arc::new),
            supervisor,
            ceilings: Ceilings::default(),
            layers: Layers::found(),
            tested: Arc::default(),
            confined: None,
            egress: None,
        }
    }

    /// Our own program.
    #[must_use]
    pub fn program(&self) -> &std::path::Path {
        &self.supervisor
    }

    /// The same with other layers than the machine's. For tests and for machines that are to be treated as weaker ones.
    #[must_use]
    pub fn with_layers(self, layers: Layers) -> Self {
        Self {
            layers,
            tested: Arc::default(),
            ..self
        }
    }

    /// The same with other ceilings.
    #[must_use]
    pub fn with_ceilings(self, ceilings: Ceilings) -> Self {
        Self { ceilings, ..self }
    }

    /// What calls did to protected links since this was asked last, in words.
    #[must_use]
    pub fn breaches(&self) -> Vec<String> {
        self.confined.as_ref().map_or_else(Vec::new, |confined| {
            std::mem::take(&mut *lock(&confined.breaches))
        })
    }

    /// What is run as the supervisor.
    fn executable(&self) -> PathBuf {
        #[cfg(target_os = "linux")]
        if let Some(opened) = &self.opened {
            use std::os::fd::AsRawFd as _;
            let path = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            if path.exists() {
                return path;
            }
        }
        self.supervisor.clone()
    }

    /// The same, with every process held to `plan` by `layers`.
    #[must_use]
    pub fn confined(&self, layers: Layers, plan: Plan) -> Self {
        let confined = (!layers.is_empty()).then(|| {
            Arc::new(Confined {
                confinement: Confinement {
                    layers,
                    plan: plan.settled(),
                },
                breaches: Mutex::default(),
            })
        });
        Self {
            confined,
            ..self.clone()
        }
    }

    /// The same, with this way out for processes whose plan names hosts.
    #[must_use]
    pub fn through(self, egress: Arc<Egress>) -> Self {
        Self {
            egress: Some(egress),
            ..self
        }
    }

    /// How a call is held, and its way out. A plan that names hosts without a way to them is one that names none.
    fn held(&self) -> (Option<Confinement>, Option<Arc<Egress>>) {
        let Some(confined) = &self.confined else {
            return (None, None);
        };
        let mut confinement = confined.confinement.clone();
        let egress = self.egress.clone().filter(|_| {
            confinement.plan.network == Network::Hosts && confinement.layers.bubblewrap.is_some()
        });
        if confinement.plan.network == Network::Hosts && egress.is_none() {
            confinement.plan.network = Network::Deny;
        }
        (Some(confinement), egress)
    }

    /// Runs to the end: of the command, of its time, or of the task. Nothing that the command started is alive when
    /// this returns. When the future is dropped, the supervisor ends the call all the same.
    ///
    /// # Errors
    /// The process could not be started, or its supervisor failed.
    pub async fn run(
        &self,
        spec: Spec,
        redactor: Arc<Redactor>,
        cancel: &CancellationToken,
    ) -> io::Result<Finished> {
        let mut stdout = Capture::new(spec.keep, spec.spill.clone(), &redactor);
        let mut stderr = Capture::new(
            spec.keep,
            spec.spill.clone().map(beside_for_stderr),
            &redactor,
        );
        if cancel.is_cancelled() {
            return Ok(Finished {
                ending: Ending::Cancelled,
                stdout: stdout.finish(),
                stderr: stderr.finish(),
                leaked: 0,
                left: Vec::new(),
            });
        }

        let (control, remote) = UnixStream::pair()?;
        let (out_reader, out_writer) = io::pipe()?;
        let (err_reader, err_writer) = match spec.stderr {
            Stderr::Merged => (None, out_writer.try_clone()?),
            Stderr::Separate => {
                let (reader, writer) = io::pipe()?;
                (Some(receiver(reader)?), writer)
            }
        };
        let out_reader = Some(receiver(out_reader)?);
        let mut call = Call::start(
            self,
            remote.into(),
            out_writer.into(),
            err_writer.into(),
            control,
        )?;

        // The future ends when no process of the call is left; until then both pipes are read, so that nobody
        // blocks on a full one.
        let mut pumped = false;
        let outcome = {
            let pump = async {
                tokio::join!(pump(out_reader, &mut stdout), pump(err_reader, &mut stderr));
            };
            let steer = call.steer(spec, self.held(), self.ceilings.clone(), cancel);
            tokio::pin!(pump);
            tokio::pin!(steer);
            let outcome = loop {
                tokio::select! {
                    outcome = &mut steer => break outcome,
                    () = &mut pump, if !pumped => pumped = true,
                }
            };
            if !pumped {
                // A process that got away may hold a pipe open for ever; nothing waits for it.
                let _ = tokio::time::timeout(DRAIN, &mut pump).await;
            }
            outcome
        };
        let Told {
            ending,
            leaked,
            left,
            breaches,
        } = match outcome {
            // A sandbox says why it fails where the command's output would have been.
            Err(error) if self.confined.is_some() => {
                return Err(with_output(&error, stdout, stderr));
            }
            outcome => outcome?,
        };
        if let Some(confined) = &self.confined {
            lock(&confined.breaches).extend(breaches);
        }
        let (stdout, stderr) = (stdout.finish(), stderr.finish());
        let left = left.iter().map(|line| redactor.redact(line)).collect();
        Ok(Finished {
            ending,
            stdout,
            stderr,
            leaked,
            left,
        })
    }
}

fn lock(breaches: &Mutex<Vec<String>>) -> std::sync::MutexGuard<'_, Vec<String>> {
    breaches.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a supervisor told of a call.
struct Told {
    ending: Ending,
    leaked: u32,
    left: Vec<String>,
    breaches: Vec<String>,
}

/// What a report says of a call that was stopped, or of one that was not.
fn told(report: Report, stopped: Option<Ending>) -> io::Result<Told> {
    match report {
        Report::Ended {
            code,
            signal,
            leaked,
            left,
            breaches,
        } => Ok(Told {
            ending: stopped
                .or(code.map(Ending::Exited))
                .or(signal.map(Ending::Signaled))
                .unwrap_or(Ending::Signaled(0)),
            leaked,
            left,
            breaches,
        }),
        Report::Stopped { message } => Err(io::Error::other(format!("it was ended: {message}"))),
        Report::NotStarted { os_error, message } => {
            let kind = os_error.map_or(io::ErrorKind::Other, |code| {
                io::Error::from_raw_os_error(code).kind()
            });
            Err(io::Error::new(kind, message))
        }
    }
}

fn with_output(error: &io::Error, stdout: Capture, stderr: Capture) -> io::Error {
    let said = [stdout.finish().text, stderr.finish().text].concat();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    if said.is_empty() {
        return io::Error::new(error.kind(), error.to_string());
    }
    io::Error::new(
        error.kind(),
        format!("{error}: {}", crate::text::head(&said, 500)),
    )
}

/// The listener that comes out of the sandbox; else what came in its place.
async fn listener(
    control: &tokio::net::UnixStream,
) -> io::Result<Result<tokio::net::TcpListener, Option<u8>>> {
    let first = control.async_io(Interest::READABLE, || handover::receive(control));
    Ok(match first.await? {
        First::Listener(listener) => {
            let listener = std::net::TcpListener::from(listener);
            listener.set_nonblocking(true)?;
            Ok(tokio::net::TcpListener::from_std(listener)?)
        }
        First::Byte(byte) => Err(Some(byte)),
        First::End => Err(None),
    })
}

fn beside_for_stderr(path: PathBuf) -> PathBuf {
    let mut name = path.into_os_string();
    name.push(".stderr");
    name.into()
}

fn receiver(reader: io::PipeReader) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(reader.into())
}

/// Reads a pipe to its end. A read error ends the stream as the end of file does: what was read is what there is.
async fn pump(reader: Option<pipe::Receiver>, capture: &mut Capture) {
    let Some(mut reader) = reader else { return };
    let mut buffer = vec![0; CHUNK];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            // Written to disk in place: a slow disk slows the command down instead of filling memory.
            Ok(count) => capture.push(buffer.get(..count).unwrap_or_default()),
        }
    }
}

/// One call in flight: its supervisor and our end of the control socket.
struct Call {
    supervisor: Child,
    control: UnixStream,
    marker: String,
    /// Keeps the supervisor out of the sweep for orphans while the call runs.
    _registered: tree::Registered,
}

impl Call {
    #[expect(
        clippy::disallowed_methods,
        reason = "`proc` is the one place that starts processes"
    )]
    fn start(
        launcher: &Launcher,
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
        control: UnixStream,
    ) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        control.set_nonblocking(true)?;
        let mut command = Command::new(launcher.executable());
        command
            .arg0(&launcher.supervisor)
            .arg("supervise")
            .env_clear()
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr);
        let (supervisor, registered) = Supervisors::spawn(|| {
            let child = command.spawn()?;
            let id = child.id();
            Ok((child, id))
        })
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!(
                    "could not start the supervisor `{}`: {error}",
                    launcher.supervisor.display()
                ),
            )
        })?;
        Ok(Self {
            supervisor,
            control,
            marker: format!(
                "{}-{}",
                std::process::id(),
                NUMBER.fetch_add(1, Ordering::Relaxed)
            ),
            _registered: registered,
        })
    }

    /// Gives the order and waits for the report, the time limit or the cancellation. No process of the call is
    /// left when this returns.
    async fn steer(
        &mut self,
        spec: Spec,
        (confinement, egress): (Option<Confinement>, Option<Arc<Egress>>),
        ceilings: Ceilings,
        cancel: &CancellationToken,
    ) -> io::Result<Told> {
        let mut env = spec.env;
        env.insert(CALL_MARKER.to_owned(), self.marker.clone());
        let nonce = order::nonce()?;
        let order = Order {
            argv: spec.argv,
            env,
            cwd: spec.cwd,
            confinement,
            pins: Pins::default(),
            ceilings,
            nonce: nonce.clone(),
            stdin: spec.stdin,
        }
        .encode()?;
        let stop = self.control.try_clone()?;
        let control = tokio::net::UnixStream::from_std(self.control.try_clone()?)?;
        let exchange = async move {
            let (reader, mut writer) = control.into_split();
            writer.write_all(&order).await?;
            drop(order);
            let mut line = Vec::new();
            let (over, mut serving) = (CancellationToken::new(), None);
            // The proxy ends with the call, whatever becomes of it.
            let _over = over.clone().drop_guard();
            if let Some(egress) = egress {
                match listener(reader.as_ref()).await? {
                    Ok(listener) => {
                        serving = Some(tokio::spawn(egress.serve(listener, over.clone())));
                    }
                    Err(first) => line.extend(first),
                }
            }
            reader.take(REPORT_LIMIT).read_to_end(&mut line).await?;
            over.cancel();
            if let Some(serving) = serving {
                let _ = serving.await;
            }
            // Dropped only now: a dropped write half tells the supervisor to stop.
            drop(writer);
            Ok::<_, io::Error>(line)
        };
        tokio::pin!(exchange);

        let mut stopped = None;
        let answer = tokio::select! {
            biased;
            answer = &mut exchange => Some(answer),
            () = cancel.cancelled() => { stopped = Some(Ending::Cancelled); None }
            () = tokio::time::sleep(spec.time_limit) => { stopped = Some(Ending::TimedOut); None }
        };
        let answer = if answer.is_some() {
            answer
        } else {
            let _ = stop.shutdown(Shutdown::Write);
            tokio::time::timeout(STOP_GRACE, &mut exchange).await.ok()
        };
        // An exchange that failed is a supervisor that is gone: told from its exit status below.
        let report = answer
            .and_then(Result::ok)
            .and_then(|line| Report::decode(&line, &nonce));
        let status = self.bury(report.is_some()).await?;

        if let Some(report) = report {
            return told(report, stopped);
        }
        let leaked = self.sweep().await?;
        let ending = stopped.or(status.signal().map(Ending::Signaled));
        let ending = ending.ok_or_else(|| {
            io::Error::other(format!(
                "the supervisor of the call ended without a report ({status})"
            ))
        })?;
        Ok(Told {
            ending,
            leaked,
            left: Vec::new(),
            breaches: Vec::new(),
        })
    }

    /// Waits until the supervisor is gone; one that reported has nothing left to do, any other is killed.
    async fn bury(&mut self, reported: bool) -> io::Result<ExitStatus> {
        if reported && let Ok(status) = tokio::time::timeout(DRAIN, self.supervisor.wait()).await {
            return status;
        }
        // It may have ended by itself already; then its own status is what counts.
        if let Some(status) = self.supervisor.try_wait()? {
            return Ok(status);
        }
        self.supervisor.start_kill()?;
        self.supervisor.wait().await
    }

    /// Ends what a dead supervisor left behind.
    async fn sweep(&self) -> io::Result<u32> {
        let marker = format!("{CALL_MARKER}={}", self.marker);
        tokio::task::spawn_blocking(move || Supervisors::sweep(&marker))
            .await
            .map_err(|error| {
                io::Error::other(format!("what the call left could not be ended: {error}"))
            })
    }
}
