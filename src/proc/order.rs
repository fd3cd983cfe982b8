//! What runner and supervisor say to each other over the control socket.
//!
//! The runner sends one order: a length and a JSON header, then the bytes for standard input. The supervisor answers
//! with one report, a JSON line, and exits. Between the two, the runner says nothing; that its side of the socket
//! is closed is the word to stop.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::{Ceilings, Confinement, Pins};

/// Most bytes of a header: more than any environment that the kernel accepts.
const HEADER_LIMIT: u64 = 64 * 1024 * 1024;
/// Most bytes of standard input.
const STDIN_LIMIT: u64 = 1024 * 1024 * 1024;

/// What a supervisor has to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: PathBuf,
    /// What the command is held to.
    #[serde(default)]
    pub(super) confinement: Option<Confinement>,
    /// What has to be found at the mounted paths, before the command is started.
    #[serde(default)]
    pub(super) pins: Pins,
    /// What all processes of the call may take together.
    #[serde(default)]
    pub(super) ceilings: Ceilings,
    /// Stands in the report: only who got the order can have written it.
    pub(super) nonce: String,
    /// Follows the header as raw bytes.
    #[serde(skip)]
    pub(super) stdin: Vec<u8>,
}

/// What a supervisor has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The command ran, and nothing of it is left.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        /// Processes that outlived the command.
        leaked: u32,
        /// Some of them, each in words.
        #[serde(default)]
        left: Vec<String>,
        /// What the command did to protected links, in words.
        #[serde(default)]
        breaches: Vec<String>,
    },
    /// The call took too much, and nothing of it is left.
    Stopped {
        /// In words, after `it was ended:`.
        message: String,
    },
    /// The command could not be started.
    NotStarted {
        os_error: Option<i32>,
        message: String,
    },
}

impl Order {
    /// The bytes for the socket.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let header = serde_json::to_vec(self)?;
        let mut bytes = Vec::with_capacity(header.len() + self.stdin.len() + 16);
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        bytes.extend((self.stdin.len() as u64).to_le_bytes());
        bytes.extend(&self.stdin);
        Ok(bytes)
    }

    /// Reads a whole order. A runner that dies in the middle of it gives an error, and nothing is started.
    pub(super) fn read(source: &mut impl Read) -> io::Result<Self> {
        let header = read_counted(source, HEADER_LIMIT)?;
        let mut order: Self = serde_json::from_slice(&header)?;
        order.stdin = read_counted(source, STDIN_LIMIT)?;
        Ok(order)
    }
}

/// A report as it is sent.
#[derive(Serialize, Deserialize)]
struct Signed<R> {
    nonce: String,
    report: R,
}

impl Report {
    /// The bytes for the socket, with the nonce of the order.
    pub(super) fn encode(&self, nonce: &str) -> Vec<u8> {
        let signed = Signed {
            nonce: nonce.to_owned(),
            report: self,
        };
        serde_json::to_vec(&signed).unwrap_or_default()
    }

    /// The report, if these bytes are a whole one by whoever got the order with this nonce.
    pub(super) fn decode(bytes: &[u8], nonce: &str) -> Option<Self> {
        let signed: Signed<Self> = serde_json::from_slice(bytes).ok()?;
        (signed.nonce == nonce).then_some(signed.report)
    }
}

/// A word that nobody can guess.
pub(super) fn nonce() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled < bytes.len() {
        return Err(io::Error::other("the kernel gave no random bytes"));
    }
    Ok(crate::text::hex(&bytes))
}

fn read_counted(source: &mut impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut count = [0; 8];
    source.read_exact(&mut count)?;
    let count = u64::from_le_bytes(count);
    if count > limit {
        return Err(io::Error::other("an order is larger than its limit"));
    }
    let mut bytes = Vec::new();
    // Grows as bytes arrive: a wrong count reserves nothing.
    source.take(count).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(argv: Vec<String>, stdin: Vec<u8>) -> Order {
        Order {
            argv,
            env: BTreeMap::from([("A".to_owned(), "ä\n".to_owned())]),
            cwd: "/".into(),
            confinement: None,
            pins: Pins::default(),
            ceilings: Ceilings::default(),
            nonce: "n".to_owned(),
            stdin,
        }
    }

    proptest! {
        #[test]
        fn an_order_arrives_as_it_was_given(
            argv in proptest::collection::vec(".*", 0..4),
            stdin in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let order = order(argv, stdin);
            prop_assert_eq!(Order::read(&mut order.encode().unwrap().as_slice()).unwrap(), order);
        }

        #[test]
        fn a_cut_order_is_an_error(cut in 0_usize..40) {
            let bytes = order(vec!["true".into()], vec![1, 2, 3]).encode().unwrap();
            prop_assert!(Order::read(&mut &bytes[..bytes.len() - 1 - cut]).is_err());
        }
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_read() {
        let bytes = u64::MAX.to_le_bytes();
        assert!(Order::read(&mut bytes.as_slice()).is_err());
    }

    #[test]
    fn half_a_report_is_none_and_one_without_the_nonce_is_forged() {
        let report = Report::Ended {
            code: Some(0),
            signal: None,
            leaked: 0,
            left: Vec::new(),
            breaches: Vec::new(),
        };
        let (nonce, other) = (nonce().unwrap(), nonce().unwrap());
        let bytes = report.encode(&nonce);
        assert_eq!(Report::decode(&bytes, &nonce), Some(report.clone()));
        assert_eq!(Report::decode(&bytes[..bytes.len() - 1], &nonce), None);
        assert_eq!(Report::decode(&bytes, &other), None);
        let forged = serde_json::to_vec(&report).unwrap();
        assert_eq!(Report::decode(&forged, &nonce), None);
        assert_eq!(Report::decode(&[forged, bytes].concat(), &nonce), None);
    }
}
