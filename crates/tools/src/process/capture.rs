//! The head and the tail of a stream. What lies between is counted and dropped.

use std::collections::VecDeque;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::text;

/// What was kept of a stream so far.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// How many bytes the head holds at most, and the tail too.
    half: usize,
    total: u64,
}

/// What a command wrote to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Captured {
    /// The text, with a note where bytes were left out.
    pub(crate) text: String,
    /// How many bytes were written in all.
    pub(crate) total: u64,
}

impl Capture {
    pub(super) fn new(cap: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: cap / 2, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// Reads until the stream ends. It can be dropped between two reads and what came is kept.
    pub(super) async fn drain(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 64 * 1024];
        // A stream that fails has ended as far as we are concerned.
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..read]);
        }
    }

    pub(super) fn finish(self) -> Captured {
        let Self { mut head, tail, total, .. } = self;
        let left_out = total - (head.len() + tail.len()) as u64;
        if left_out == 0 {
            head.extend(tail);
            return Captured { text: String::from_utf8_lossy(&head).into_owned(), total };
        }
        let tail: Vec<u8> = tail.into();
        let text = format!(
            "{}\n[… {} left out …]\n{}",
            String::from_utf8_lossy(whole_end(&head)),
            text::size(left_out),
            String::from_utf8_lossy(whole_start(&tail)),
        );
        Captured { text, total }
    }
}

/// Without a character that was cut at the end.
fn whole_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// Without the rest of a character that was cut at the start.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[continuation..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured(cap: usize, chunks: &[&[u8]]) -> Captured {
        let mut capture = Capture::new(cap);
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture.finish()
    }

    #[test]
    fn head_and_tail_are_kept() {
        assert_eq!(captured(8, &[b"abc", b"defgh"]).text, "abcdefgh");
        assert_eq!(captured(8, &[b"abcdefghijkl"]).text, "abcd\n[… 4 bytes left out …]\nijkl");
        assert_eq!(captured(8, &[b"ab", b"cdef", b"gh", b"ijkl"]).total, 12);
    }

    #[test]
    fn no_character_is_cut() {
        assert_eq!(captured(6, &["aäöüäöüz".as_bytes()]).text, "aä\n[… 8 bytes left out …]\nüz");
    }

    proptest! {
        #[test]
        fn chunking_makes_no_difference(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(captured(32, &[&bytes[..cut], &bytes[cut..]]), captured(32, &[&bytes]));
        }
    }
}
