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

/// `950`, `12.3k`, `1.2M`: token counts, rounded.
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
    let (mut scale, mut unit) = (1_u128, 0);
    // In tenths of the unit, and rounded: 999,960 are `1.0M` and not `1000.0k`.
    let tenths = |scale: u128| (u128::from(count) * 10 + scale / 2) / scale;
    while unit + 1 < units.len() && tenths(scale) >= u128::from(base) * 10 {
        scale *= u128::from(base);
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 {
        return format!("{count}{name}");
    }
    let tenths = tenths(scale);
    format!("{}.{}{name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_and_not_cut() {
        let counts = [999, 1_000, 1_949, 1_950, 1_999, 999_949, 999_950, 1_000_000];
        assert_eq!(
            counts.map(tokens),
            [
                "999", "1.0k", "1.9k", "2.0k", "2.0k", "999.9k", "1.0M", "1.0M"
            ]
        );
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(1023), "1023 B");
    }

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
            ["950", "12.3k", "1.3M"]
        );
        assert_eq!([12, 2048].map(bytes), ["12 B", "2.0 KiB"]);
        assert_eq!(hex(&[0, 0xab]), "00ab");
        assert_eq!(tokens(u64::MAX), "18446744073.7G");
    }
}
