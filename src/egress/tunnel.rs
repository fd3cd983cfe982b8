//! The bytes of a connection that is open, both ways, counted and bounded.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Contact, Egress};
use crate::text;

/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// Why no more bytes pass in a direction.
enum Stop {
    /// One of the two is gone.
    Gone,
    /// The task has had all that it may have.
    Spent(u64),
}

/// One direction: its own count and the task's.
struct Meter<'a> {
    own: &'a AtomicU64,
    all: &'a AtomicU64,
    most: u64,
}

/// Carries bytes until both ends are done, or it is enough. Gives why it was ended here; nothing when it ended by itself.
pub(super) async fn run(
    egress: &Egress,
    program: &mut TcpStream,
    mut server: TcpStream,
    greeting: &[u8],
    contact: &Contact,
) -> String {
    let up = Meter {
        own: &contact.sent,
        all: &egress.sent,
        most: egress.bounds.sent,
    };
    let down = Meter {
        own: &contact.received,
        all: &egress.received,
        most: egress.bounds.received,
    };
    let (mut from_program, mut to_program) = program.split();
    let (mut from_server, mut to_server) = server.split();
    let there = async {
        up.pass(greeting, &mut to_server).await?;
        up.carry(&mut from_program, &mut to_server).await
    };
    let back = down.carry(&mut from_server, &mut to_program);
    let both = async { tokio::try_join!(there, back) };
    let ended = tokio::select! {
        ended = both => ended,
        () = silence(contact, egress.bounds.idle) => {
            return format!("nothing was sent for {}", text::duration(egress.bounds.idle));
        }
    };
    match ended {
        Ok(_) | Err(Stop::Gone) => String::new(),
        Err(Stop::Spent(most)) => format!(
            "ended, because the task's connections carried {}, which is the most",
            text::bytes(most)
        ),
    }
}

impl Meter<'_> {
    /// Carries everything to its end, and tells the other side of the end.
    async fn carry(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Stop> {
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = from.read(&mut chunk).await?;
            if count == 0 {
                to.shutdown().await?;
                return Ok(());
            }
            self.pass(chunk.get(..count).unwrap_or_default(), to)
                .await?;
        }
    }

    /// Passes these bytes on, if that is not too much.
    async fn pass(&self, bytes: &[u8], to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Stop> {
        let count = bytes.len() as u64;
        let before = self.all.fetch_add(count, Ordering::SeqCst);
        if before.saturating_add(count) > self.most {
            return Err(Stop::Spent(self.most));
        }
        to.write_all(bytes).await?;
        self.own.fetch_add(count, Ordering::SeqCst);
        Ok(())
    }
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Ends when nothing has passed for so long.
async fn silence(contact: &Contact, idle: Duration) {
    let passed = || {
        let sent = contact.sent.load(Ordering::SeqCst);
        sent.saturating_add(contact.received.load(Ordering::SeqCst))
    };
    let mut before = passed();
    loop {
        tokio::time::sleep(idle).await;
        let now = passed();
        if now == before {
            return;
        }
        before = now;
    }
}
