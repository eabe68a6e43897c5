//! Format of a log line: number, hash of the previous line, entry, and hash of the line. Pure.
//!
//! A line is `{"n":7,"prev":"…","at":…,"hash":"…"}`. The hash is the SHA-256 of all bytes before `,"hash"`, which
//! include the hash of the previous line. Lines are verified as stored, without parsing and reserializing them, so no
//! other encoding of a line has the same hash.

use agentd_core::audit::AuditHead;
use sha2::{Digest as _, Sha256};

/// Previous hash in the first line of a log.
pub const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Number of hexadecimal digits in a hash.
const HASH_DIGITS: usize = 64;

const BEFORE_NUMBER: &str = "{\"n\":";
const BEFORE_PREVIOUS: &str = ",\"prev\":\"";
const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}";

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the head of an empty log.
pub fn beginning() -> AuditHead {
    AuditHead { n: 0, hash: NO_HASH.to_owned() }
}

/// Returns the line that follows `head`, with its newline, and the new head. `entry` must be a JSON object.
pub fn seal(head: &AuditHead, entry: &str) -> (String, AuditHead) {
    let n = head.n + 1;
    let fields = entry.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    let comma = if fields.is_empty() { "" } else { "," };
    let mut line = format!("{BEFORE_NUMBER}{n}{BEFORE_PREVIOUS}{}\"{comma}{fields}", head.hash);
    let hash = sha256(line.as_bytes());
    line.push_str(BEFORE_HASH);
    line.push_str(&hash);
    line.push_str(AFTER_HASH);
    line.push('\n');
    (line, AuditHead { n, hash })
}

/// Well-formed line. [`SealedLine::hash_matches`] verifies its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedLine<'a> {
    /// Number of the line, from 1.
    pub n: u64,
    /// Hash of the previous line, as recorded in this line.
    pub previous: &'a str,
    /// Hash of this line, as recorded.
    pub hash: &'a str,
    /// Bytes that the hash covers.
    body: &'a [u8],
}

impl<'a> SealedLine<'a> {
    /// Parses a line without its newline. Returns `None` if it is malformed.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_suffix(AFTER_HASH.as_bytes())?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(HASH_DIGITS)?)?;
        let body = rest.strip_suffix(BEFORE_HASH.as_bytes())?;
        let text = body.strip_prefix(BEFORE_NUMBER.as_bytes())?;
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, text) = text.split_at_checked(digits)?;
        let (previous, text) = text.strip_prefix(BEFORE_PREVIOUS.as_bytes())?.split_at_checked(HASH_DIGITS)?;
        text.strip_prefix(b"\"")?;
        let n = std::str::from_utf8(number).ok()?.parse().ok()?;
        Some(Self { n, previous: digits_of(previous)?, hash: digits_of(hash)?, body })
    }

    /// Returns true if the recorded hash matches the line.
    pub fn hash_matches(&self) -> bool {
        sha256(self.body) == self.hash
    }

    /// Returns the head of a log that ends with this line.
    pub fn head(&self) -> AuditHead {
        AuditHead { n: self.n, hash: self.hash.to_owned() }
    }
}

fn digits_of(hash: &[u8]) -> Option<&str> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    hash.iter().all(is_digit).then(|| std::str::from_utf8(hash).ok())?
}

/// Formats the content of the witness file for `head`.
pub(crate) fn write_witness(head: &AuditHead) -> String {
    // Fixed length, so that a new witness overwrites the old one completely.
    format!("{:020} {}\n", head.n, head.hash)
}

/// Parses the content of a witness file. Returns `None` if it is invalid.
pub(crate) fn read_witness(text: &str) -> Option<AuditHead> {
    let (n, hash) = text.strip_suffix('\n')?.split_once(' ')?;
    let hash = digits_of(hash.as_bytes()).filter(|hash| hash.len() == HASH_DIGITS)?;
    Some(AuditHead { n: n.parse().ok()?, hash: hash.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_matches_the_test_vector() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn malformed_lines_are_rejected() {
        let (line, _) = seal(&beginning(), "{}");
        let line = line.trim_end();
        for bad in ["", "{}", &line[1..], &line[..line.len() - 1], &line.replace("\"n\":1", "\"n\":x"), "\"}"] {
            assert_eq!(SealedLine::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn witness_round_trips_with_fixed_length() {
        let head = AuditHead { n: 7, hash: sha256(b"x") };
        assert_eq!(read_witness(&write_witness(&head)), Some(head.clone()));
        let later = AuditHead { n: u64::MAX, ..head };
        assert_eq!(write_witness(&later).len(), write_witness(&beginning()).len());
        assert_eq!(read_witness("1 abc\n"), None);
        assert_eq!(read_witness(""), None);
    }
}
