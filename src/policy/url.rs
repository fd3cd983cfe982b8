//! Hosts of URLs: which may be fetched at all, and which a `WebFetch` rule means.
//!
//! The host is read strictly and never mapped: what is not plain ASCII `https://host[:443]` is refused, so two readers
//! of the URL cannot disagree about its host. Addresses of this machine, of private networks and of metadata services
//! are refused whatever the rules say; whoever connects has to ask [`is_public`] again after resolution, on every hop.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::fold::is_invisible;

/// Longest URL, in bytes.
const MAX_BYTES: usize = 8192;

/// What a `WebFetch(domain:..)` rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Domain {
    /// This host; as a deny rule its sub-domains too.
    Exact(String),
    /// Every host below it, not itself.
    Below(String),
}

impl Domain {
    /// Parses `domain:host` or `domain:*.host`.
    pub(super) fn parse(specifier: &str) -> Result<Self, String> {
        let Some(domain) = specifier.strip_prefix("domain:") else {
            return Err(format!("expected `domain:HOST`, found `{specifier}`"));
        };
        let (below, host) = match domain.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, domain),
        };
        let host = canonical(host).map_err(|why| format!("the host `{domain}` {why}"))?;
        Ok(if below {
            Self::Below(host)
        } else {
            Self::Exact(host)
        })
    }

    /// The host that somebody meant who wrote a URL, or a host without `domain:`.
    pub(super) fn meant_by(specifier: &str) -> Option<String> {
        let text = specifier.strip_prefix("domain:").unwrap_or(specifier);
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let text = text.strip_prefix("*.").unwrap_or(text);
        let authority = text.split(['/', '?', '#', ':']).next()?;
        canonical(authority).ok().filter(|host| host.contains('.'))
    }

    /// Whether an allow rule means the canonical host.
    pub(super) fn allows(&self, host: &str) -> bool {
        match self {
            Self::Exact(own) => host == own,
            Self::Below(own) => is_below(host, own),
        }
    }

    /// Whether a deny rule means the canonical host.
    pub(super) fn denies(&self, host: &str) -> bool {
        match self {
            Self::Exact(own) => host == own || is_below(host, own),
            Self::Below(own) => is_below(host, own),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => write!(f, "domain:{host}"),
            Self::Below(host) => write!(f, "domain:*.{host}"),
        }
    }
}

fn is_below(host: &str, apex: &str) -> bool {
    host.strip_suffix(apex)
        .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Lower case, no final dot, nothing but labels.
fn canonical(host: &str) -> Result<String, &'static str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() {
        return Err("is empty");
    }
    if host.len() > 253 {
        return Err("is longer than 253 bytes");
    }
    for label in host.split('.') {
        let fits = (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-');
        if !fits {
            return Err("is not made of ASCII letters, digits, hyphens and dots");
        }
    }
    Ok(host.to_ascii_lowercase())
}

/// The canonical host of a URL that may be fetched; the error completes "the URL ..".
pub(super) fn host(url: &str) -> Result<String, String> {
    if url.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    if url
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || is_invisible(c) || c == '\\')
    {
        return Err("holds a blank, an invisible character or a backslash".into());
    }
    let scheme = url.get(..8).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("https://") {
        return Err("does not begin with `https://`".into());
    }
    let rest = &url[8..];
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("holds user information before its host".into());
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port),
        None => (authority, "443"),
    };
    if authority.starts_with('[') {
        return Err("names an IPv6 address, which no rule can cover".into());
    }
    let host = canonical(host).map_err(|why| format!("has a host that {why}"))?;
    if port != "443" {
        return Err("names a port other than 443".into());
    }
    check_public(&host)?;
    Ok(host)
}

/// The canonical form of a host with a name, which may be one on the public internet; the error completes "the host ..". An
/// address is no name.
///
/// # Errors
/// Whatever is not plain ASCII labels, is an address in any form, or means this machine, its network or its cloud.
pub fn host_name(host: &str) -> Result<String, String> {
    let host = canonical(host)?;
    let last = host.rsplit('.').next().unwrap_or_default();
    if is_number(last) || host.starts_with("0x") {
        return Err("is an address: only hosts with a name are reached".into());
    }
    check_public(&host).map_err(|_| "is not public".to_owned())?;
    Ok(host)
}

/// Whether a resolver could take the last label of a host, and with it the host, for an address.
fn is_number(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit()) || label.starts_with("0x")
}

/// Refuses names and addresses that mean this machine, its network or its cloud.
fn check_public(host: &str) -> Result<(), String> {
    let last = host.rsplit('.').next().unwrap_or_default();
    if is_number(last) || host.starts_with("0x") {
        let address: Ipv4Addr = host
            .parse()
            .map_err(|_| "names an address in an unusual form".to_owned())?;
        if !is_public(IpAddr::V4(address)) {
            return Err("names an address that is not public".into());
        }
        return Ok(());
    }
    let private = matches!(
        last,
        "localhost"
            | "local"
            | "internal"
            | "localdomain"
            | "lan"
            | "home"
            | "corp"
            | "intranet"
            | "private"
            | "svc"
    ) || !host.contains('.')
        || host.ends_with(".home.arpa")
        || matches!(host, "instance-data.ec2.amazonaws.com" | "metadata.goog");
    if private {
        return Err("names a host that is not public".into());
    }
    Ok(())
}

/// Whether an address belongs to the public internet: not this machine, no private or shared network, no link-local or
/// metadata address, no multicast, nothing reserved. Addresses that carry an IPv4 address are judged by it.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let special = v4.is_loopback()
        || v4.is_private()
        || v4.is_link_local()
        || v4.is_broadcast()
        || v4.is_documentation()
        || v4.is_multicast()
        || a == 0
        || a >= 240
        || a == 100 && (64..128).contains(&b)
        || a == 192 && b == 0 && c == 0
        || a == 198 && (b == 18 || b == 19)
        || v4.octets() == [168, 63, 129, 16]; // the platform address of one large cloud
    !special
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    if let Some(v4) = v6.to_ipv4() {
        return is_public_v4(v4);
    }
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Only global unicast (2000::/3), without documentation and Teredo.
        [first, second, ..] => {
            first & 0xe000 == 0x2000 && !(first == 0x2001 && (second == 0xdb8 || second < 0x200))
        }
    }
}

/// Whether a program that takes addresses loosely (`curl`) could understand a word as the metadata service of a cloud or
/// another link-local address, in whatever spelling. Those hand out credentials to whoever asks from this machine.
pub(super) fn names_metadata(word: &str) -> bool {
    let word = word.trim().to_ascii_lowercase();
    let rest = word
        .split_once("://")
        .map_or(word.as_str(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let inner = host.strip_prefix('[').and_then(|host| host.split_once(']'));
    if let Some((inner, _)) = inner {
        let inner = inner.split('%').next().unwrap_or_default();
        return inner.parse::<Ipv6Addr>().map_or(true, is_metadata_v6);
    }
    let host = host.split(':').next().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host);
    // A web address whose host is put together from pieces could be any.
    let composed = |c: char| matches!(c, '{' | '[' | '%') || !c.is_ascii();
    if word.contains("://") && host.contains(composed) {
        return true;
    }
    loose_v4(host).is_some_and(is_metadata_v4)
        || matches!(
            host,
            "metadata"
                | "metadata.goog"
                | "metadata.google.internal"
                | "instance-data"
                | "instance-data.ec2.internal"
                | "instance-data.ec2.amazonaws.com"
        )
        || ["169.254.169.254", "169-254-169-254"]
            .iter()
            .any(|address| host.contains(address))
}

/// One to four numbers, decimal, octal or hexadecimal, of which the last fills what is left: as the C library reads it.
fn loose_v4(host: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(if digits.is_empty() { "0" } else { digits }, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let numbers: Vec<u32> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = numbers.split_last()?;
    if first.len() > 3 || first.iter().any(|number| *number > 255) {
        return None;
    }
    let mut bits = *last;
    for (place, number) in first.iter().enumerate() {
        bits |= number << (24 - 8 * place);
    }
    Some(Ipv4Addr::from(bits))
}

fn is_metadata_v4(v4: Ipv4Addr) -> bool {
    // Beside link-local, three clouds have chosen addresses of their own.
    v4.is_link_local()
        || [[168, 63, 129, 16], [100, 100, 100, 200], [192, 0, 0, 192]].contains(&v4.octets())
}

fn is_metadata_v6(v6: Ipv6Addr) -> bool {
    let mapped = v6.to_ipv4().is_some_and(is_metadata_v4);
    mapped || v6.segments()[0] & 0xffc0 == 0xfe80 || v6.segments()[..2] == [0xfd00, 0xec2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_https_hosts_are_read() {
        assert_eq!(
            host("https://Example.ORG./a?x#y").as_deref(),
            Ok("example.org")
        );
        assert_eq!(
            host("https://example.org:443/").as_deref(),
            Ok("example.org")
        );
        for url in [
            "http://example.org/",
            "https://user@example.org/",
            "https://example.org:80/",
            "https://[::1]/",
            "https://127.0.0.1/",
            "https://10.1.2.3/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://017700000001/",
            "https://localhost/",
            "https://a.localhost/",
            "https://exa%6dple.org/",
            "https://a\\.example.org/",
            "https://",
            "https:///x",
            "https://é.example/",
            "htt",
            "https:/é",
        ] {
            assert!(host(url).is_err(), "{url}");
        }
    }

    #[test]
    fn addresses_inside_addresses_are_seen() {
        for text in [
            "::ffff:127.0.0.1",
            "::1",
            "fe80::1",
            "fd00::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "169.254.169.254",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in ["93.184.215.14", "2606:4700::1"] {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_starred_domain_means_what_is_below_it() {
        let domain = Domain::parse("domain:*.example.org").unwrap();
        assert!(domain.allows("a.b.example.org"));
        assert!(!domain.allows("example.org"));
        assert!(!domain.allows("aexample.org"));
        for text in [
            "domain:",
            "domain:*",
            "domain:ex*.org",
            "host:x",
            "*",
            "domain:*.*.x",
        ] {
            assert!(Domain::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn metadata_services_are_known_in_every_spelling() {
        for word in [
            "http://169.254.169.254/latest",
            "169.254.169.254",
            "http://a@169.254.169.254:80/",
            "http://2852039166/",
            "http://0xa9fea9fe",
            "http://0251.0376.0251.0376/",
            "http://169.254.43518/",
            "http://169.254.169.254.",
            "http://[::ffff:169.254.169.254]/",
            "http://[fd00:ec2::254]/",
            "http://[fe80::1%25eth0]/",
            "HTTP://Metadata.Google.Internal/x",
            "http://169.254.169.{254,1}/",
            "http://169.254.169.25%34/",
            "http://169.254.169.254.nip.io/",
            "http://100.100.100.200/",
        ] {
            assert!(names_metadata(word), "{word}");
        }
        for word in [
            "https://example.org/169",
            "localhost:8080/health",
            "http://127.0.0.1:3000/{a,b}",
            "http://[::1]:80/",
            "http://10.0.0.1/",
            "5",
            "-s",
            "",
        ] {
            assert!(!names_metadata(word), "{word}");
        }
    }
}
