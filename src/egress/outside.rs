//! The way out of the runner: a host is resolved here, its addresses are looked at, and exactly one of these addresses is
//! called.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::policy::url;

/// How long the resolver may take, and one address.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many addresses of a host are tried.
const TRIED: usize = 6;
/// The only port that is reached.
const PORT: u16 = 443;

/// Resolves hosts and connects to them.
#[derive(Debug, Clone, Default)]
pub struct Outside {
    /// Instead of the machine's resolver.
    names: Option<BTreeMap<String, Vec<IpAddr>>>,
    /// Counts as public, and is called at its own port.
    exception: Option<SocketAddr>,
}

/// Why there is no connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It must not be.
    Refused(String),
    /// It could not be made.
    Failed(String),
}

impl Outside {
    /// By the machine's resolver, to public addresses alone.
    #[must_use]
    pub fn system() -> Self {
        Self::default()
    }

    /// With these names and no others, and with one address that counts as public and is called at its own port: a server of a
    /// test. No configuration leads here.
    #[must_use]
    pub fn fixed(names: BTreeMap<String, Vec<IpAddr>>, exception: Option<SocketAddr>) -> Self {
        Self {
            names: Some(names),
            exception,
        }
    }

    /// A connection to the canonical host.
    pub(super) async fn connect(&self, host: &str) -> Result<TcpStream, Trouble> {
        let failed = |error: io::Error| Trouble::Failed(format!("`{host}`: {error}"));
        let resolved = timeout(PATIENCE, self.resolve(host)).await;
        let addresses = resolved
            .map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
            .map_err(failed)?;
        self.check(host, &addresses)?;
        let mut last = io::Error::other("it has no address");
        for address in addresses.into_iter().take(TRIED) {
            let called = TcpStream::connect(self.socket(address));
            match timeout(PATIENCE, called).await {
                Ok(Ok(stream)) => return self.look_at(host, stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed(last))
    }

    /// All addresses of a host. The final dot keeps the resolver from putting a domain of its own behind the name.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Some(names) = &self.names {
            let found = names.get(host).cloned();
            return found.ok_or_else(|| io::Error::other("the name does not exist"));
        }
        let found = tokio::net::lookup_host((format!("{host}."), PORT)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }

    /// One address that is not public, and none is called: whoever answers for the name is not to be trusted.
    fn check(&self, host: &str, addresses: &[IpAddr]) -> Result<(), Trouble> {
        let closed = |address: &&IpAddr| !url::is_public(**address) && !self.is_excepted(**address);
        match addresses.iter().find(closed) {
            Some(address) => Err(Trouble::Refused(format!(
                "`{host}` resolves to {address}, which is no public address"
            ))),
            None => Ok(()),
        }
    }

    /// A public address of this machine leads to its own services all the same.
    fn look_at(&self, host: &str, stream: TcpStream) -> Result<TcpStream, Trouble> {
        let ends = stream
            .local_addr()
            .and_then(|own| Ok((own, stream.peer_addr()?)));
        let (own, peer) = ends.map_err(|error| Trouble::Failed(format!("`{host}`: {error}")))?;
        if own.ip() == peer.ip() && !self.is_excepted(peer.ip()) {
            return Err(Trouble::Refused(format!(
                "`{host}` resolves to {}, which is this machine",
                peer.ip()
            )));
        }
        Ok(stream)
    }

    fn is_excepted(&self, address: IpAddr) -> bool {
        self.exception.is_some_and(|known| known.ip() == address)
    }

    fn socket(&self, address: IpAddr) -> SocketAddr {
        let excepted = self.exception.filter(|known| known.ip() == address);
        excepted.unwrap_or_else(|| SocketAddr::new(address, PORT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(addresses: &[&str]) -> Outside {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        Outside::fixed([("a.example".to_owned(), addresses.collect())].into(), None)
    }

    #[tokio::test]
    async fn one_address_that_is_not_public_closes_the_host() {
        for closed in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::7f00:1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "2001:db8::1",
            "100::1",
        ] {
            // A public one beside it does not help.
            let answer = outside(&["93.184.215.14", closed])
                .connect("a.example")
                .await;
            assert!(
                matches!(answer, Err(Trouble::Refused(_))),
                "{closed}: {answer:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_host_without_an_address_and_one_that_is_unknown_are_failures() {
        for (host, outside) in [("a.example", outside(&[])), ("b.example", outside(&[]))] {
            let answer = outside.connect(host).await;
            assert!(matches!(answer, Err(Trouble::Failed(_))), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn a_server_of_a_test_is_reached_only_as_the_exception() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let names = BTreeMap::from([("a.example".to_owned(), vec![address.ip()])]);
        let open = Outside::fixed(names.clone(), Some(address));
        assert!(open.connect("a.example").await.is_ok());
        assert!(
            Outside::fixed(names, None)
                .connect("a.example")
                .await
                .is_err()
        );
    }
}
