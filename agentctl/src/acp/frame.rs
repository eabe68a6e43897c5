//! Lines of the protocol as they come in: bounded, and whatever they hold.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Longest line that is read whole, in bytes: a picture of 24 MB in Base64, and words beside it.
const LONGEST: usize = 32 * 1024 * 1024;
/// Bytes kept of a longer line; its id is looked for among them.
const HEAD: usize = 64 * 1024;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A line that is not empty.
    Line(Vec<u8>),
    /// The beginning of a line that is too long.
    TooLong(Vec<u8>),
}

/// The next line that is not empty; none at the end. A line that the end cuts is one.
///
/// # Errors
/// When nothing can be read any more.
pub(super) async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    next_within(input, LONGEST).await
}

async fn next_within(input: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<Frame>> {
    loop {
        let (mut line, mut is_long) = (Vec::new(), false);
        let has_ended = loop {
            let piece = input.fill_buf().await?;
            if piece.is_empty() {
                break true;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let part = &piece[..end.unwrap_or(piece.len())];
            if !is_long {
                line.extend_from_slice(part);
            }
            if line.len() > longest {
                is_long = true;
                line.truncate(HEAD.min(longest));
                line.shrink_to_fit();
            }
            let taken = part.len() + usize::from(end.is_some());
            input.consume(taken);
            if end.is_some() {
                break false;
            }
        };
        match (is_long, line.trim_ascii().is_empty()) {
            (true, _) => return Ok(Some(Frame::TooLong(line))),
            (false, false) => return Ok(Some(Frame::Line(line))),
            (false, true) if has_ended => return Ok(None),
            (false, true) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn all(input: &[u8], longest: usize) -> Vec<Frame> {
        // Pieces of a few bytes, so that lines come in several.
        let mut reader = BufReader::with_capacity(3, input);
        let mut frames = Vec::new();
        while let Some(frame) = next_within(&mut reader, longest).await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn lines_come_whole_and_empty_ones_not_at_all() {
        let line = |text: &str| Frame::Line(text.as_bytes().to_vec());
        assert_eq!(all(b"one\n\n  \r\ntwo three\nfour", 100).await, [line("one"), line("two three"), line("four")]);
        assert_eq!(all(b"", 100).await, []);
        assert_eq!(all(b"\n\n", 100).await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_and_the_next_one_read() {
        let frames = all(b"0123456789abcdef\nnext\n", 8).await;
        assert_eq!(frames, [Frame::TooLong(b"01234567".to_vec()), Frame::Line(b"next".to_vec())]);
        assert_eq!(all(b"0123456789", 8).await, [Frame::TooLong(b"01234567".to_vec())]);
    }
}
