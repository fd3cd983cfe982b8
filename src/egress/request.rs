//! What a program asks the proxy for, read strictly: a `CONNECT` to port 443 of a host with a name. Whatever two readers could
//! take for different hosts is refused, so that the name in the list, the name that is resolved and the name in the TLS
//! greeting are one.

use super::Refusal;
use crate::policy::url;
use crate::text;

/// Most bytes of a request with its header lines.
pub(super) const LIMIT: usize = 8 * 1024;
/// Most bytes of a host that are shown of a request that was not understood.
const SHOWN: usize = 300;

/// Where the request ends, if it is whole.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    let found = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(found + 4)
}

/// The canonical host that a whole request names.
pub(super) fn host(request: &[u8]) -> Result<String, Refusal> {
    let refused = |reason: &str| Refusal {
        host: shown(request),
        reason: reason.to_owned(),
    };
    let text = std::str::from_utf8(request)
        .ok()
        .filter(|text| text.bytes().all(is_expected))
        .and_then(|text| text.strip_suffix("\r\n\r\n"))
        .ok_or_else(|| refused("the request holds bytes that no request has"))?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    if text.replace("\r\n", "").contains(['\r', '\n']) {
        return Err(refused("the request has half a line break"));
    }
    if !lines.all(is_header) {
        return Err(refused("a header line of the request has no name"));
    }
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(refused("the request line has not three words"));
    };
    if method != "CONNECT" {
        return Err(refused(
            "only `CONNECT` is served: what is not encrypted does not leave the sandbox, use `https`",
        ));
    }
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(refused("the request is not HTTP/1"));
    }
    let Some((host, port)) = target.rsplit_once(':') else {
        return Err(refused("the request names no port"));
    };
    if host.contains([':', '[', ']']) {
        return Err(refused(
            "an address is no host: only hosts with a name are reached",
        ));
    }
    if port != "443" {
        return Err(refused("only port 443 is reached"));
    }
    url::host_name(host).map_err(|why| refused(&format!("the host {why}")))
}

fn is_expected(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n' | b'\t' | b' '..=b'~')
}

fn is_header(line: &str) -> bool {
    let name = line.split_once(':').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What the request is about, for whoever reads of it.
fn shown(request: &[u8]) -> String {
    let line = request.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let target = line.split(' ').nth(1).unwrap_or_default();
    text::visible_line(&text::head(target, SHOWN))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn connect(target: &str) -> Result<String, String> {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        host(request.as_bytes()).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_host_is_read_in_its_one_canonical_form() {
        for target in ["example.org:443", "EXAMPLE.org:443", "example.org.:443"] {
            assert_eq!(connect(target).as_deref(), Ok("example.org"), "{target}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for target in [
            "example.org",
            "example.org:80",
            "example.org:0443",
            "example.org:443:443",
            "example.org:+443",
            "example.org:",
            "example.org..:443",
            ".example.org:443",
            "evil.example\0.example.org:443",
            "evil.example%00.example.org:443",
            "evil.example/example.org:443",
            "user@example.org:443",
            "https://example.org:443",
            "exa mple.org:443",
            "example.org\t:443",
            "ex\u{430}mple.org:443",
            "example\u{3002}org:443",
            "127.0.0.1:443",
            "93.184.215.14:443",
            "2130706433:443",
            "0x7f000001:443",
            "0x7f.1:443",
            "017700000001:443",
            "127.1:443",
            "[::1]:443",
            "[::ffff:127.0.0.1]:443",
            "::ffff:127.0.0.1:443",
            "[2606:4700::1]:443",
            "localhost:443",
            "metadata.google.internal:443",
            "host.docker.internal:443",
            "printer:443",
            ":443",
            "",
        ] {
            assert!(connect(target).is_err(), "{target:?}");
        }
    }

    #[test]
    fn a_request_is_a_connect_of_http_1_with_whole_lines() {
        for request in [
            "GET http://example.org/ HTTP/1.1\r\n\r\n",
            "connect example.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT  example.org:443 HTTP/1.1\r\n\r\n",
            "CONNECT example.org:443 HTTP/2.0\r\n\r\n",
            "CONNECT example.org:443\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\nHost: x\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\n folded\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\nname\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\n",
        ] {
            assert!(host(request.as_bytes()).is_err(), "{request:?}");
        }
        let refusal = host(b"GET http://example.org/ HTTP/1.1\r\n\r\n").unwrap_err();
        assert_eq!(refusal.host, "http://example.org/");
        assert!(refusal.reason.contains("use `https`"));
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_answered_and_what_is_accepted_is_a_plain_name(bytes: Vec<u8>, name in "\\PC{0,30}") {
            let _ = host(&bytes);
            let request = format!("CONNECT {name}:443 HTTP/1.1\r\n\r\n");
            if let Ok(host) = host(request.as_bytes()) {
                prop_assert!(host.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte)));
                let named = name.strip_suffix('.').unwrap_or(&name);
                prop_assert!(named.eq_ignore_ascii_case(&host));
            }
        }
    }
}
