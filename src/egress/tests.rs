//! Whole connections on loopback: a program, the proxy, and a server that answers whatever it gets.

use std::net::SocketAddr;

use tokio::task::JoinHandle;

use super::greeting::made;
use super::*;
use crate::clock::Clock;
use crate::event::{Event, Sink};
use crate::redact::Redactor;

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ConnectionFinished>>>);

impl Sink for Told {
    fn accept(&mut self, event: &Event) -> std::io::Result<()> {
        if let Kind::ConnectionFinished(connection) = &event.kind {
            self.0.lock().unwrap().push((**connection).clone());
        }
        Ok(())
    }
}

/// A proxy that serves, and what it wrote down.
struct Stand {
    egress: Arc<Egress>,
    address: SocketAddr,
    over: CancellationToken,
    served: JoinHandle<()>,
    told: Told,
}

impl Stand {
    async fn new(bounds: Bounds, outside: Outside) -> Self {
        let told = Told::default();
        let emitter = Emitter::new(
            "t",
            1,
            Clock::system(),
            Arc::new(Redactor::default()),
            Box::new(told.clone()),
            Vec::new(),
        );
        let hosts = ["good.example".to_owned(), "inner.example".to_owned()];
        let egress = Arc::new(Egress::new(hosts, outside, bounds, emitter));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let over = CancellationToken::new();
        let served = tokio::spawn(Arc::clone(&egress).serve(listener, over.clone()));
        Self {
            egress,
            address,
            over,
            served,
            told,
        }
    }

    /// Sends, closes its side, and reads everything that comes back.
    async fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut program = TcpStream::connect(self.address).await.unwrap();
        // Whoever is refused may be gone before everything is sent.
        let _ = program.write_all(bytes).await;
        let _ = program.shutdown().await;
        let mut answer = Vec::new();
        let _ = program.read_to_end(&mut answer).await;
        answer
    }

    async fn end(self) -> (Vec<ConnectionFinished>, Vec<String>) {
        self.over.cancel();
        self.served.await.unwrap();
        (self.told.0.lock().unwrap().clone(), self.egress.close())
    }
}

/// A server that answers `seen N` when it got N bytes, and the names that lead to it.
async fn server() -> Outside {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                let answer = format!("seen {}", bytes.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    let private = "10.0.0.7".parse().unwrap();
    let names = [
        ("good.example".to_owned(), vec![address.ip()]),
        ("inner.example".to_owned(), vec![address.ip(), private]),
    ];
    Outside::fixed(names.into(), Some(address))
}

fn connect(host: &str) -> Vec<u8> {
    format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").into_bytes()
}

#[tokio::test]
async fn a_listed_host_is_reached_and_its_bytes_are_counted() {
    let stand = Stand::new(Bounds::default(), server().await).await;
    let greeting = made::greeting("GOOD.example");
    let sent = [
        connect("Good.Example."),
        greeting.clone(),
        b"hello".to_vec(),
    ]
    .concat();
    let answer = String::from_utf8(stand.send(&sent).await).unwrap();
    let count = greeting.len() + 5;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with(&format!("seen {count}")), "{answer}");
    let (told, denied) = stand.end().await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].host, "good.example");
    assert_eq!(told[0].result, ConnectionResult::Allowed);
    assert_eq!(told[0].sent_bytes, count as u64);
    assert_eq!(told[0].received_bytes, format!("seen {count}").len() as u64);
    assert_eq!(denied, Vec::<String>::new());
}

#[tokio::test]
async fn what_must_not_be_reached_is_refused_told_and_counted_once() {
    let stand = Stand::new(Bounds::default(), server().await).await;
    for request in [
        connect("evil.example"),
        connect("evil.example"),
        connect("good.example.evil.example"),
        connect("evil.example\0.good.example"),
        connect("127.0.0.1"),
        connect("2130706433"),
        connect("inner.example"),
        b"CONNECT good.example:80 HTTP/1.1\r\n\r\n".to_vec(),
        b"GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n".to_vec(),
        b"\x05\x01\x00".to_vec(),
    ] {
        let answer = String::from_utf8(stand.send(&request).await).unwrap();
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 403 ") && answer.contains("agent-batch: "),
            "{answer}"
        );
    }
    let (told, denied) = stand.end().await;
    assert!(
        told.iter()
            .all(|one| one.result == ConnectionResult::Refused)
    );
    assert_eq!(told.len(), 10, "{told:?}");
    assert_eq!(denied.len(), 9, "{denied:?}");
    assert_eq!(told.iter().filter(|one| one.is_denial).count(), 9);
    assert!(
        denied.iter().any(|line| line.contains("10.0.0.7")),
        "{denied:?}"
    );
}

#[tokio::test]
async fn a_greeting_for_another_host_or_none_never_reaches_the_server() {
    let hidden = made::message(&[made::name("good.example"), made::extension(0xfe0d, &[0])]);
    for greeting in [
        made::greeting("evil.example"),
        made::greeting("good.example."),
        made::records(&made::message(&[]), 100),
        made::records(&hidden, 100),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let stand = Stand::new(Bounds::default(), server().await).await;
        let sent = [connect("good.example"), greeting].concat();
        let answer = stand.send(&sent).await;
        assert!(answer.ends_with(&ALERT), "{answer:?}");
        let (told, denied) = stand.end().await;
        assert_eq!(told[0].sent_bytes, 0);
        assert_eq!((told.len(), denied.len()), (1, 1), "{told:?}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_a_failure_and_no_denial() {
    let names = [("good.example".to_owned(), Vec::new())].into();
    let stand = Stand::new(Bounds::default(), Outside::fixed(names, None)).await;
    let answer = String::from_utf8(stand.send(&connect("good.example")).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let (told, denied) = stand.end().await;
    assert_eq!(told[0].result, ConnectionResult::Failed);
    assert_eq!(denied, Vec::<String>::new());
}

#[tokio::test]
async fn connections_and_bytes_have_a_ceiling() {
    let bounds = Bounds {
        connections: 1,
        sent: 4,
        ..Bounds::default()
    };
    let stand = Stand::new(bounds, server().await).await;
    let sent = [connect("good.example"), made::greeting("good.example")].concat();
    let answer = stand.send(&sent).await;
    assert!(!answer.ends_with(b"seen 4"), "{answer:?}");
    let again = String::from_utf8(stand.send(&sent).await).unwrap();
    assert!(again.contains("1 connection, which"), "{again}");
    let (told, _) = stand.end().await;
    assert_eq!(told[0].sent_bytes, 0);
    assert!(told[0].reason.contains("which is the most"), "{told:?}");
}

#[tokio::test]
async fn a_connection_ends_with_its_call_and_is_written_down() {
    let stand = Stand::new(Bounds::default(), server().await).await;
    let mut program = TcpStream::connect(stand.address).await.unwrap();
    let greeting = made::greeting("good.example");
    let sent = [connect("good.example"), greeting.clone()].concat();
    program.write_all(&sent).await.unwrap();
    let mut answer = [0; 8];
    program.read_exact(&mut answer).await.unwrap();
    let (told, _) = stand.end().await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].reason, "the call ended");
    let mut rest = Vec::new();
    program.read_to_end(&mut rest).await.unwrap();
}
