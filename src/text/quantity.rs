//! Numbers in sentences.

use std::fmt::Write as _;
use std::time::Duration;

/// `1 step`, `2 steps`, `2 retries`, `2 processes`.
#[must_use]
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 {
        return format!("1 {word}");
    }
    match word.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{count} {stem}ies"),
        _ if word.ends_with('s') => format!("{count} {word}es"),
        _ => format!("{count} {word}s"),
    }
}

/// `0.4s`, `12.3s`, `3m 05s`, `1h 02m`.
#[must_use]
pub fn duration(span: Duration) -> String {
    let tenths = span.as_millis().saturating_add(50) / 100;
    if tenths < 600 {
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    let seconds = span.as_secs();
    if seconds < 3600 {
        format!("{}m {:02}s", seconds / 60, seconds % 60)
    } else {
        format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60)
    }
}

/// `950`, `12.3k`, `1.2M`: token counts, rounded to nothing that is not there.
#[must_use]
pub fn tokens(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G"])
}

/// `950 B`, `12.3 KiB`, `1.2 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    scaled(count, 1024, &[" B", " KiB", " MiB", " GiB"])
}

/// Bytes as lower-case hex digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Names in backticks, the first `most` of them, and how many more there are.
#[must_use]
pub fn some(names: &[&str], most: usize) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(most)
        .map(|name| format!("`{}`", super::one_line(name, 120)))
        .collect();
    let mut text = shown.join(", ");
    if names.len() > most {
        let _ = write!(text, " and {} more", names.len() - most);
    }
    text
}

/// A count in the largest unit that it reaches, with one decimal, cut and not rounded up.
fn scaled(count: u64, base: u64, units: &[&str]) -> String {
    let (mut scale, mut unit) = (1_u64, 0);
    while unit + 1 < units.len() && count / scale >= base {
        scale *= base;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 {
        return format!("{count}{name}");
    }
    format!("{}.{}{name}", count / scale, count % scale * 10 / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_agree_with_their_word() {
        assert_eq!(plural(1, "denial"), "1 denial");
        assert_eq!(plural(0, "step"), "0 steps");
        assert_eq!(plural(2, "retry"), "2 retries");
        assert_eq!(plural(2, "day"), "2 days");
        assert_eq!(plural(2, "process"), "2 processes");
    }

    #[test]
    fn spans_and_amounts_are_short_at_every_size() {
        let spans = [0, 440, 59_940, 59_960, 185_000, 3_720_000];
        assert_eq!(
            spans.map(|ms| duration(Duration::from_millis(ms))),
            ["0.0s", "0.4s", "59.9s", "0m 59s", "3m 05s", "1h 02m"]
        );
        assert_eq!(
            [950, 12_345, 1_250_000].map(tokens),
            ["950", "12.3k", "1.2M"]
        );
        assert_eq!([12, 2048].map(bytes), ["12 B", "2.0 KiB"]);
        assert_eq!(hex(&[0, 0xab]), "00ab");
        assert_eq!(tokens(u64::MAX), "18446744073.7G");
    }
}
