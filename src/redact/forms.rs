//! The forms in which a secret travels.

/// The characters of base64 that stand for 62 and 63: the standard alphabet and the one for URLs.
const ALPHABETS: [[u8; 2]; 2] = [*b"+/", *b"-_"];

/// Characters that a text is spread with to get past a filter (`s-e-c-r-e-t`).
const SPREAD: [&str; 6] = [" ", "-", "_", ".", ",", "\n"];

/// The shortest line of a secret of several lines that is looked for by itself.
const SHORTEST_LINE: usize = 16;

/// All forms of a value: itself, its long lines, JSON-escaped (once and twice), URL-encoded, hex,
/// base64 at each of the three alignments in both alphabets, reversed, and spread.
pub(super) fn of(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.as_bytes().to_vec()];
    // A tool that numbers lines takes a key of several lines apart.
    if value.contains('\n') {
        let lines = value.lines().map(str::trim);
        forms.extend(
            lines
                .filter(|line| line.len() >= SHORTEST_LINE)
                .map(|line| line.as_bytes().to_vec()),
        );
    }
    let once = json_escaped(value);
    forms.push(json_escaped(&once).into_bytes());
    forms.push(once.into_bytes());
    for upper in [true, false] {
        forms.push(url_encoded(value, "%20", upper).into_bytes());
        forms.push(url_encoded(value, "+", upper).into_bytes());
        forms.push(hex(value.as_bytes(), upper).into_bytes());
    }
    for alphabet in ALPHABETS {
        forms.extend((0..3).map(|alignment| base64_inside(value.as_bytes(), alignment, alphabet)));
        let whole = base64(value.as_bytes(), alphabet);
        let padding = (4 - whole.len() % 4) % 4;
        forms.push([whole.as_slice(), &b"=="[..padding.min(2)]].concat());
        forms.push(whole);
    }
    forms.push(value.chars().rev().collect::<String>().into_bytes());
    for mark in SPREAD {
        let characters: Vec<String> = value.chars().map(String::from).collect();
        forms.push(characters.join(mark).into_bytes());
    }
    forms
}

/// The value as it stands inside a JSON string.
fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(value)
        .to_owned()
}

fn url_encoded(value: &str, blank: &str, upper: bool) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push_str(blank),
            _ => {
                out.push('%');
                out.push_str(&hex(&[byte], upper));
            }
        }
    }
    out
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let lower = crate::text::hex(bytes);
    if upper {
        lower.to_ascii_uppercase()
    } else {
        lower
    }
}

/// Base64 without padding.
fn base64(bytes: &[u8], alphabet: [u8; 2]) -> Vec<u8> {
    let digit = |six: u8| match six {
        0..=25 => b'A' + six,
        26..=51 => b'a' + six - 26,
        52..=61 => b'0' + six - 52,
        62 => alphabet[0],
        _ => alphabet[1],
    };
    let mut out = Vec::with_capacity(bytes.len() * 4 / 3 + 2);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| chunk.get(index).copied().unwrap_or_default();
        let sixes = [
            byte(0) >> 2,
            (byte(0) & 0b11) << 4 | byte(1) >> 4,
            (byte(1) & 0b1111) << 2 | byte(2) >> 6,
            byte(2) & 0b11_1111,
        ];
        out.extend(sixes.iter().take(chunk.len() + 1).map(|six| digit(*six)));
    }
    out
}

/// The characters that the value alone decides when `alignment` other bytes stand before it.
fn base64_inside(value: &[u8], alignment: usize, alphabet: [u8; 2]) -> Vec<u8> {
    let padded = [vec![0; alignment], value.to_vec()].concat();
    let encoded = base64(&padded, alphabet);
    let first = (alignment * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded.get(first..end).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn base64_is_the_known_one() {
        for (raw, encoded) in [
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(raw.as_bytes(), *b"+/"), encoded.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff], *b"-_"), b"-_8");
    }

    #[test]
    fn encodings_are_the_known_ones() {
        assert_eq!(url_encoded("a b/ü", "%20", true), "a%20b%2F%C3%BC");
        assert_eq!(hex(b"\x01\xab", false), "01ab");
        assert_eq!(json_escaped("a\"\n"), "a\\\"\\n");
    }

    proptest! {
        #[test]
        fn a_value_is_found_in_the_base64_of_any_text_around_it(before in "[ -~]{0,7}", value in "[ -~]{8,40}", after in "[ -~]{0,7}") {
            let encoded = base64(format!("{before}{value}{after}").as_bytes(), *b"+/");
            let inside = base64_inside(value.as_bytes(), before.len() % 3, *b"+/");
            prop_assert!(inside.len() >= 10);
            prop_assert!(encoded.windows(inside.len()).any(|window| window == inside));
        }
    }
}
