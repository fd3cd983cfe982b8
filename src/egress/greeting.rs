//! The host that a TLS client asks for: `server_name` in the first message of the handshake (RFC 8446 section 4.1.2, RFC 6066
//! section 3). It is not encrypted, and a server that several sites share chooses the site by it.

/// Most bytes of a greeting. Real ones have less than a quarter of it.
pub(super) const LIMIT: usize = 16 * 1024;

/// The record type of a handshake.
const HANDSHAKE: u8 = 22;
/// The largest record without encryption.
const RECORD: usize = 16 * 1024;
/// The handshake message with which a client begins.
const CLIENT_HELLO: u8 = 1;
/// The extension with the host.
const SERVER_NAME: u16 = 0;
/// The kind of a name that is a host, the only one there is.
const HOST_NAME: u8 = 0;
/// Extensions that hold another, encrypted greeting or name: Encrypted Client Hello and what came before it.
const ENCRYPTED: [u16; 2] = [0xfe0d, 0xffce];

/// What is wrong with a greeting.
pub(super) type Fault = &'static str;

const NOT_TLS: Fault = "what the program sends is not TLS";
const BROKEN: Fault = "the TLS greeting is malformed";
const LARGE: Fault = "the TLS greeting is larger than any real one";
const NAMELESS: Fault = "the TLS greeting names no host";
const HIDDEN: Fault = "the TLS greeting holds an encrypted one (ECH), whose host cannot be seen";

/// The host that the greeting at the beginning of `bytes` names; `None` while it is not whole.
pub(super) fn server_name(bytes: &[u8]) -> Result<Option<String>, Fault> {
    let Some(message) = first_message(bytes)? else {
        return if bytes.len() < LIMIT {
            Ok(None)
        } else {
            Err(LARGE)
        };
    };
    let mut hello = Reader(&message);
    let _version = hello.take(2)?;
    let _random = hello.take(32)?;
    let _session = hello.counted_by_one()?;
    let _suites = hello.counted_by_two()?;
    let _compressions = hello.counted_by_one()?;
    let mut extensions = Reader(hello.counted_by_two()?);
    hello.end()?;

    let (mut seen, mut name) = (Vec::new(), None);
    while !extensions.0.is_empty() {
        let kind = extensions.two()?;
        let data = extensions.counted_by_two()?;
        if ENCRYPTED.contains(&kind) {
            return Err(HIDDEN);
        }
        if seen.contains(&kind) {
            return Err(BROKEN);
        }
        seen.push(kind);
        if kind == SERVER_NAME {
            name = Some(only_host(data)?);
        }
    }
    name.map(Some).ok_or(NAMELESS)
}

/// The only host of the extension.
fn only_host(data: &[u8]) -> Result<String, Fault> {
    let mut data = Reader(data);
    let mut names = Reader(data.counted_by_two()?);
    data.end()?;
    if names.take(1)? != [HOST_NAME] {
        return Err(BROKEN);
    }
    let host = names.counted_by_two()?;
    names.end()?;
    String::from_utf8(host.to_vec()).map_err(|_| BROKEN)
}

/// The body of the `ClientHello`, which may come in several records.
fn first_message(bytes: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let mut rest = bytes;
    let mut message = Vec::new();
    loop {
        if let Some((header, body)) = message.split_first_chunk::<4>() {
            let [kind, high, middle, low] = *header;
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind != CLIENT_HELLO {
                return Err(BROKEN);
            }
            if length > LIMIT {
                return Err(LARGE);
            }
            if body.len() > length {
                // Something else in the record of the greeting: no client does that.
                return Err(BROKEN);
            }
            if body.len() == length {
                return Ok(Some(body.to_vec()));
            }
        }
        let is_tls = rest
            .iter()
            .zip([HANDSHAKE, 3])
            .all(|(is, must)| *is == must);
        if !is_tls {
            return Err(NOT_TLS);
        }
        let Some(([_, _, _, high, low], after)) = rest.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > RECORD {
            return Err(BROKEN);
        }
        let Some((fragment, after)) = after.split_at_checked(length) else {
            return Ok(None);
        };
        message.extend_from_slice(fragment);
        rest = after;
    }
}

/// Bytes from front to back.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(BROKEN)?;
        self.0 = rest;
        Ok(taken)
    }

    fn two(&mut self) -> Result<u16, Fault> {
        let bytes = self.take(2)?.try_into().map_err(|_| BROKEN)?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn counted_by_one(&mut self) -> Result<&'a [u8], Fault> {
        let count = self.take(1)?.first().copied().ok_or(BROKEN)?;
        self.take(count.into())
    }

    fn counted_by_two(&mut self) -> Result<&'a [u8], Fault> {
        let count = self.two()?;
        self.take(count.into())
    }

    fn end(&self) -> Result<(), Fault> {
        self.0.is_empty().then_some(()).ok_or(BROKEN)
    }
}

/// Greetings for tests.
#[cfg(test)]
pub(super) mod made {
    fn counted(bytes: &[u8]) -> Vec<u8> {
        let count = u16::try_from(bytes.len()).unwrap();
        [&count.to_be_bytes(), bytes].concat()
    }

    pub(in super::super) fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &counted(data)].concat()
    }

    pub(in super::super) fn name(host: &str) -> Vec<u8> {
        let entry = [&[0][..], &counted(host.as_bytes())].concat();
        extension(0, &counted(&entry))
    }

    pub(in super::super) fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend(counted(&[0x13, 1]));
        body.extend([1, 0]);
        body.extend(counted(&extensions.concat()));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1][..], &length[1..], &body].concat()
    }

    pub(in super::super) fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |fragment: &[u8]| [&[22, 3, 1][..], &counted(fragment)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    /// A plain greeting in one record.
    pub(in super::super) fn greeting(host: &str) -> Vec<u8> {
        records(
            &message(&[extension(10, &[0, 2, 0, 29]), name(host)]),
            16384,
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::made::{extension, greeting, message, name, records};
    use super::*;

    #[test]
    fn a_greeting_without_exactly_one_visible_host_is_refused() {
        let whole = |extensions: &[Vec<u8>]| server_name(&records(&message(extensions), 16384));
        assert_eq!(whole(&[name("a.example")]), Ok(Some("a.example".into())));
        assert_eq!(whole(&[]), Err(NAMELESS));
        assert_eq!(whole(&[name("a.example"), name("a.example")]), Err(BROKEN));
        for hidden in ENCRYPTED {
            let extensions = [name("a.example"), extension(hidden, &[0, 1])];
            assert_eq!(whole(&extensions), Err(HIDDEN));
        }
        let two_names = [0, 10, 0, 0, 2, b'a', b'b', 0, 0, 2, b'c', b'd'];
        assert_eq!(whole(&[extension(0, &two_names)]), Err(BROKEN));
        let other_kind = [0, 4, 1, 0, 1, b'a'];
        assert_eq!(whole(&[extension(0, &other_kind)]), Err(BROKEN));
        assert_eq!(whole(&[extension(0, &[])]), Err(BROKEN));
    }

    #[test]
    fn what_is_no_greeting_is_refused_at_its_first_byte() {
        assert_eq!(server_name(b"G"), Err(NOT_TLS));
        assert_eq!(server_name(b"SSH-2.0-x\r\n"), Err(NOT_TLS));
        assert_eq!(server_name(&[22, 2]), Err(NOT_TLS));
        assert_eq!(server_name(&[22, 3, 1, 0, 0]), Err(BROKEN));
        assert_eq!(server_name(&[22, 3, 1, 0xff, 0xff]), Err(BROKEN));
        assert_eq!(server_name(&records(&[2, 0, 0, 0], 9)), Err(BROKEN));
        assert_eq!(server_name(&records(&[1, 1, 0, 0], 9)), Err(LARGE));
        let twice = [message(&[name("a.example")]), message(&[name("b.example")])].concat();
        assert_eq!(server_name(&records(&twice, 16384)), Err(BROKEN));
    }

    #[test]
    fn an_endless_greeting_is_given_up() {
        let part = &message(&[name("a.example"), extension(21, &[0; 16_300])]);
        let endless = records(part, 1);
        assert_eq!(server_name(&endless[..LIMIT]), Err(LARGE));
    }

    proptest! {
        #[test]
        fn a_host_is_found_however_the_greeting_is_cut(host in "[a-z]{1,20}\\.[a-z]{2,9}", size in 1_usize..200) {
            let bytes = records(&message(&[extension(43, &[2, 3, 4]), name(&host)]), size);
            for end in 0..bytes.len() {
                prop_assert_eq!(server_name(&bytes[..end]), Ok(None));
            }
            prop_assert_eq!(server_name(&bytes), Ok(Some(host.clone())));
            // What follows in records of its own is not looked at.
            let more = [bytes, vec![23, 3, 3, 0, 1, 0]].concat();
            prop_assert_eq!(server_name(&more), Ok(Some(host)));
        }

        #[test]
        fn whatever_arrives_is_answered(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
            let _ = server_name(&bytes);
            let mut changed = greeting("a.example");
            let at = at.index(changed.len());
            changed[at] = byte;
            let _ = server_name(&changed);
        }
    }
}
