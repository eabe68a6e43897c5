//! Text for models: bounded in length, without NUL, with readable sizes and counts.

use std::fmt::Write as _;

/// Returns the candidate most similar to `wanted`, if one is similar enough.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR_ENOUGH: f64 = 0.75;
    // Longer names are not typos, and the cost of the comparison grows with the length.
    if wanted.len() > 300 {
        return None;
    }
    let wanted = wanted.to_lowercase();
    candidates
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= NEAR_ENOUGH)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}

/// Formats a number of bytes, such as `1.2 KB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") };
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a count, such as `1 file`, `2 matches` or `3 entries`.
pub fn count(number: usize, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ if noun.ends_with("ch") => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

/// Returns the first `max` characters, and true if there were more.
pub fn first_chars(text: &str, max: usize) -> (&str, bool) {
    match text.char_indices().nth(max) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// Quotes a model's text, shortened to 120 characters.
pub fn quoted(text: &str) -> String {
    let (start, more) = first_chars(text, 120);
    format!("{start:?}{}", if more { "…" } else { "" })
}

/// Replaces NUL characters, which several providers reject.
pub fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_human_readable() {
        for (bytes, expected) in
            [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KB"), (1_572_864, "1.5 MB")]
        {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(size(u64::MAX), "16777216.0 TB");
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["read_file", "write_file", "grep"];
        assert_eq!(nearest("raed_file", known), Some("read_file"));
        assert_eq!(nearest("READ_FILES", known), Some("read_file"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest(&"read_file".repeat(1000), known), None);
    }
}
