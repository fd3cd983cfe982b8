//! The way out of the sandbox, for tasks that name hosts: a proxy in the runner, outside of the sandbox's network, that lets
//! through TLS to exactly these hosts and writes down every connection.
//!
//! A program asks for a host with `CONNECT` (`request`), the host is compared with the list, resolved and called here
//! (`outside`), and what the program sends then has to be a TLS greeting for the very same host (`greeting`) before
//! anything passes (`tunnel`). Inside there is neither a resolver nor a route; the only thing to reach is the socket that
//! an [`Egress`] serves, and it serves it only as long as the call lasts.
//!
//! Everything that arrives is hostile: requests and greetings are bounded in size and time, connections in number, the bytes
//! of a task in sum. What a host does with what it gets is not looked into: it is encrypted, and a host that serves several
//! customers can be told inside of it whom to serve.

mod greeting;
mod outside;
mod request;
mod tunnel;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::outside::Outside;
use self::outside::Trouble;
use crate::event::{ConnectionFinished, ConnectionResult, Emitter, Kind};
use crate::text;

/// Where the proxy listens, in a network that a call has for itself.
pub const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128);
/// Variables by which programs find a proxy for HTTP and HTTPS. Some tools know only their own.
const URL_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "npm_config_proxy",
    "npm_config_https_proxy",
];
/// What is reached without the proxy: the loopback device of the call's own network.
const WITHOUT: &str = "localhost,127.0.0.1,::1";

/// How long a program may take for its request, and for its greeting.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a program may take to read why it was refused.
const LINGER: Duration = Duration::from_secs(1);
/// Pause after a connection that could not be accepted, which is a lack that may pass.
const PAUSE: Duration = Duration::from_millis(50);
/// How many in a row that may be.
const LACKS: u32 = 100;
/// The TLS alert `unrecognized_name`, fatal.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// The environment by which programs find the proxy.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    let url = URL_VARIABLES.map(|name| (name, format!("http://{ADDRESS}")));
    let other = [
        ("CARGO_HTTP_PROXY", ADDRESS.to_string()),
        ("NODE_USE_ENV_PROXY", "1".to_owned()),
        ("NO_PROXY", WITHOUT.to_owned()),
        ("no_proxy", WITHOUT.to_owned()),
    ];
    let all = url.into_iter().chain(other);
    all.map(|(name, value)| (name.to_owned(), value))
}

/// What connections may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at the same time in one call; others wait.
    pub at_once: usize,
    /// Connections of a task in all, and refusals that are written down.
    pub connections: u64,
    /// Bytes that a task sends in all: what leaves the sandbox this way is not looked into.
    pub sent: u64,
    /// Bytes that a task receives in all.
    pub received: u64,
    /// How long a connection may be silent.
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            at_once: 64,
            connections: 4096,
            sent: 256 << 20,
            received: 8 << 30,
            idle: Duration::from_secs(120),
        }
    }
}

/// The proxy of one attempt.
pub struct Egress {
    hosts: BTreeSet<String>,
    outside: Outside,
    bounds: Bounds,
    emitter: Emitter,
    connections: AtomicU64,
    refusals: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    /// Refusals, each once: the host and why.
    refused: Mutex<BTreeSet<(String, String)>>,
    closed: AtomicBool,
}

/// A request that is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// What was asked for.
    host: String,
    /// Why it is refused, in one sentence.
    reason: String,
}

/// One connection in the making.
#[derive(Default)]
struct Contact {
    host: OnceLock<String>,
    /// Whether bytes pass.
    is_open: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
}

/// How a connection ended.
struct End {
    result: ConnectionResult,
    reason: String,
}

impl Egress {
    /// A proxy to these hosts, in canonical form, that writes down what it does with `emitter`.
    pub fn new(
        hosts: impl IntoIterator<Item = String>,
        outside: Outside,
        bounds: Bounds,
        emitter: Emitter,
    ) -> Self {
        Self {
            hosts: hosts.into_iter().collect(),
            outside,
            bounds,
            emitter,
            connections: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            refused: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    /// Serves the connections that arrive until `over`; when this returns, none is left and all are written down.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, over: CancellationToken) {
        let mut open = JoinSet::new();
        let mut lacks = 0;
        while lacks < LACKS {
            tokio::select! {
                () = over.cancelled() => break,
                Some(_) = open.join_next(), if !open.is_empty() => {}
                accepted = listener.accept(), if open.len() < self.bounds.at_once => {
                    if let Ok((program, _)) = accepted {
                        lacks = 0;
                        open.spawn(Arc::clone(&self).connection(program, over.clone()));
                    } else {
                        lacks += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        drop(listener);
        while open.join_next().await.is_some() {}
    }

    /// Ends the attempt for the proxy: nothing is written down any more, nothing is let through. Gives the refusals that count
    /// as denied actions, in words.
    pub fn close(&self) -> Vec<String> {
        self.closed.store(true, Ordering::SeqCst);
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let in_words = |(host, reason): &(String, String)| {
            format!("the network was refused to `{host}`: {reason}")
        };
        refused.iter().map(in_words).collect()
    }

    async fn connection(self: Arc<Self>, mut program: TcpStream, over: CancellationToken) {
        let began = self.emitter.clock().start();
        let contact = Contact::default();
        let end = tokio::select! {
            biased;
            end = self.carry(&mut program, &contact) => end,
            () = over.cancelled() => contact.cut(),
        };
        let Some(end) = end else { return };
        self.write_down(&contact, end, began.elapsed_millis());
    }

    /// From the request to the last byte. `None` for a connection on which nothing was asked for.
    async fn carry(&self, program: &mut TcpStream, contact: &Contact) -> Option<End> {
        let end = match self.open(program, contact).await {
            Ok(None) => return None,
            Ok(Some((server, greeting))) => {
                contact.is_open.store(true, Ordering::SeqCst);
                let reason = tunnel::run(self, program, server, &greeting, contact).await;
                End::new(ConnectionResult::Allowed, reason)
            }
            Err(end) => end,
        };
        Some(end)
    }

    /// The server and the greeting to send first, once everything is as it must be.
    async fn open(
        &self,
        program: &mut TcpStream,
        contact: &Contact,
    ) -> Result<Option<(TcpStream, Vec<u8>)>, End> {
        let Some((request, mut rest)) = read_request(program).await? else {
            return Ok(None);
        };
        let asked = self.asked(&request);
        let host = match &asked {
            Ok(host) => host,
            Err(refusal) => &refusal.host,
        };
        let host = contact.host.get_or_init(|| host.clone());
        if let Err(refusal) = asked {
            answer(program, "403 Forbidden", &refusal.reason).await;
            return Err(End::new(ConnectionResult::Refused, refusal.reason));
        }
        let server = match self.outside.connect(host).await {
            Ok(server) => server,
            Err(Trouble::Refused(reason)) => {
                answer(program, "403 Forbidden", &reason).await;
                return Err(End::new(ConnectionResult::Refused, reason));
            }
            Err(Trouble::Failed(reason)) => {
                answer(program, "502 Bad Gateway", &reason).await;
                return Err(End::new(ConnectionResult::Failed, reason));
            }
        };
        let granted = b"HTTP/1.1 200 Connection established\r\n\r\n";
        program.write_all(granted).await.map_err(|_| End::gone())?;
        if let Err(reason) = read_greeting(program, &mut rest, host).await? {
            let _ = timeout(LINGER, program.write_all(&ALERT)).await;
            linger(program).await;
            return Err(End::new(ConnectionResult::Refused, reason));
        }
        Ok(Some((server, rest)))
    }

    /// The host that a request names, if it is one of the list.
    fn asked(&self, request: &[u8]) -> Result<String, Refusal> {
        let host = request::host(request)?;
        let refused = |reason: String| Refusal {
            host: host.clone(),
            reason,
        };
        if !self.hosts.contains(&host) {
            return Err(refused(
                "the host is not in the task's list (`network.hosts`)".to_owned(),
            ));
        }
        if self.closed.load(Ordering::SeqCst) {
            return Err(refused("the task is over".to_owned()));
        }
        let most = self.bounds.connections;
        if self.connections.fetch_add(1, Ordering::SeqCst) >= most {
            return Err(refused(format!(
                "the task has made {}, which are the most",
                text::plural(most, "connection")
            )));
        }
        Ok(host)
    }

    fn write_down(&self, contact: &Contact, end: End, duration_ms: u64) {
        if self.closed.load(Ordering::SeqCst) {
            return;
        }
        let host = contact.host.get().cloned().unwrap_or_default();
        let is_denial = end.result == ConnectionResult::Refused && {
            // What asks for ever does not fill the transcript.
            if self.refusals.fetch_add(1, Ordering::SeqCst) >= self.bounds.connections {
                return;
            }
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.insert((host.clone(), end.reason.clone()))
        };
        let told = self
            .emitter
            .emit(Kind::ConnectionFinished(Box::new(ConnectionFinished {
                host,
                result: end.result,
                reason: end.reason,
                is_denial,
                sent_bytes: contact.sent.load(Ordering::SeqCst),
                received_bytes: contact.received.load(Ordering::SeqCst),
                duration_ms,
            })));
        if let Err(error) = told {
            // What cannot be written down is not let through.
            self.closed.store(true, Ordering::SeqCst);
            tracing::error!(%error, "a connection could not be written down");
        }
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl Contact {
    /// How a connection ended that did not end before its call.
    fn cut(&self) -> Option<End> {
        self.host.get()?;
        let result = if self.is_open.load(Ordering::SeqCst) {
            ConnectionResult::Allowed
        } else {
            ConnectionResult::Failed
        };
        Some(End::new(result, "the call ended".to_owned()))
    }
}

impl End {
    fn new(result: ConnectionResult, reason: String) -> Self {
        Self { result, reason }
    }

    fn gone() -> Self {
        Self::new(
            ConnectionResult::Failed,
            "the program ended the connection".to_owned(),
        )
    }
}

/// The request, and what came behind it. `None` when nothing came.
async fn read_request(program: &mut TcpStream) -> Result<Option<(Vec<u8>, Vec<u8>)>, End> {
    let refused = |reason: &str| Err(End::new(ConnectionResult::Refused, reason.to_owned()));
    let mut bytes = Vec::new();
    let reading = async {
        loop {
            if let Some(end) = request::end(&bytes) {
                return Some(end);
            }
            if bytes.len() >= request::LIMIT || !more(program, &mut bytes).await {
                return None;
            }
        }
    };
    match timeout(PATIENCE, reading).await {
        Ok(Some(end)) => {
            let rest = bytes.split_off(end);
            Ok(Some((bytes, rest)))
        }
        _ if bytes.is_empty() => Ok(None),
        Ok(None) => refused("the request is not whole, or longer than any real one"),
        Err(_) => refused("the request did not come in time"),
    }
}

/// Reads the greeting behind what is there; the inner error says why it does not fit.
async fn read_greeting(
    program: &mut TcpStream,
    bytes: &mut Vec<u8>,
    host: &str,
) -> Result<Result<(), String>, End> {
    let reading = async {
        loop {
            match greeting::server_name(bytes) {
                Ok(Some(name)) => return Ok(Ok(name)),
                Err(fault) => return Ok(Err(fault.to_owned())),
                Ok(None) if more(program, bytes).await => {}
                Ok(None) => return Err(End::gone()),
            }
        }
    };
    let late = |_| Ok(Err("the TLS greeting did not come in time".to_owned()));
    let name = timeout(PATIENCE, reading).await.unwrap_or_else(late)?;
    Ok(match name {
        Ok(name) if name.eq_ignore_ascii_case(host) => Ok(()),
        Ok(name) => Err(format!(
            "the TLS greeting names another host, `{}`",
            text::visible_line(&text::head(&name, 300))
        )),
        Err(fault) => Err(fault),
    })
}

/// Reads once, and says whether anything came.
async fn more(program: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 4096];
    match program.read(&mut chunk).await {
        Ok(count) => {
            bytes.extend(chunk.iter().take(count));
            count > 0
        }
        Err(_) => false,
    }
}

/// Says why not, in words that programs show or log.
async fn answer(program: &mut TcpStream, status: &str, reason: &str) {
    let body = format!("agent-batch: {reason}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = timeout(LINGER, program.write_all(answer.as_bytes())).await;
    linger(program).await;
}

/// Reads what still comes: closed with something unread, the answer would be lost with the connection.
async fn linger(program: &mut TcpStream) {
    let rest = async {
        program.shutdown().await.ok()?;
        let mut chunk = [0; 4096];
        for _ in 0..16 {
            let count = program.read(&mut chunk).await.ok()?;
            (count > 0).then_some(())?;
        }
        Some(())
    };
    let _ = timeout(LINGER, rest).await;
}

#[cfg(test)]
mod tests;
