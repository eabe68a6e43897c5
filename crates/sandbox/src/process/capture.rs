//! Captures the head and the tail of a stream. The bytes in between are counted and dropped. The last lines are
//! reported while the command runs.

use std::{collections::VecDeque, future::pending, time::Duration};

use agentd_core::ports::CallProgress;
use agentd_workspace::{encoding, text};
use encoding_rs::{Encoding, UTF_8};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::{Instant, sleep_until},
};

/// Part of a stream captured so far.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Maximum size of the head and of the tail, in bytes each.
    half: usize,
    total: u64,
    live: LiveTail,
}

/// Captured output from a command's stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// Output as text, with a note where bytes were left out; empty if the output is not text.
    pub text: String,
    /// Kind of the output, if it is not text.
    pub binary: Option<Binary>,
    /// Unchanged head of the output, if bytes were requested instead of text.
    pub bytes: Vec<u8>,
    /// Total number of bytes.
    pub total: u64,
}

/// Form in which output is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputForm {
    /// Decoded text, in the detected encoding.
    Text,
    /// Unchanged bytes, for use by a program. No format is detected.
    Bytes,
}

/// Output that is not text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Description of the format, such as `a PNG image`.
    pub what: &'static str,
    /// File extension of the format; empty if unknown.
    pub ending: &'static str,
    /// Whole content, or `None` if it exceeds the capture limit.
    pub content: Option<Vec<u8>>,
}

impl Capture {
    /// Creates a capture of at most `cap` bytes, which reports lines to `progress`.
    pub(super) fn new(cap: usize, progress: CallProgress) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: cap / 2, total: 0, live: LiveTail::new(progress) }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.live.push(bytes);
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// Reads until the stream ends. Cancel safe: bytes that have been read stay captured.
    pub(super) async fn drain(&mut self, mut stream: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 64 * 1024];
        // A read error is treated as the end of the stream.
        loop {
            tokio::select! {
                read = stream.read(&mut buffer) => match read {
                    Ok(read @ 1..) => self.push(&buffer[..read]),
                    _ => return,
                },
                () = self.live.report_due() => {}
            }
        }
    }

    pub(super) fn finish(self, form: OutputForm) -> CapturedOutput {
        let Self { mut head, tail, total, .. } = self;
        let omitted = total - (head.len() + tail.len()) as u64;
        let mut tail: Vec<u8> = tail.into();
        if omitted == 0 {
            head.append(&mut tail);
        }
        if form == OutputForm::Bytes {
            return CapturedOutput { bytes: head, total, ..CapturedOutput::default() };
        }
        let charset = match charset(&head, omitted == 0) {
            Ok(charset) => charset,
            Err(what) => {
                let ending = encoding::ending(&head);
                let binary = Binary { what, ending, content: (omitted == 0).then_some(head) };
                return CapturedOutput { binary: Some(binary), total, ..CapturedOutput::default() };
            }
        };
        let text = if omitted == 0 {
            decoded(charset, &head)
        } else {
            // Drops truncated characters.
            let whole = match std::str::from_utf8(&head) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => head.len(),
            };
            let rest = tail.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            let (start, end) = (decoded(charset, &head[..whole]), decoded(charset, &tail[rest..]));
            format!("{start}\n[… {} left out …]\n{end}", text::size(omitted))
        };
        CapturedOutput { text, total, ..CapturedOutput::default() }
    }
}

/// Returns the encoding of a command's output, or its format if it is not text. Programs write UTF-8 with an occasional
/// invalid byte, so other encodings are only considered if there are many invalid bytes.
fn charset(bytes: &[u8], whole: bool) -> Result<&'static Encoding, &'static str> {
    /// Number of invalid or control bytes that text of any length may contain. Long text may contain up to one in
    /// `PART` bytes.
    const MAX_INVALID: usize = 16;
    const PART: usize = 20;
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        let is_control = |byte: &&u8| matches!(byte, 0..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
        invalid += chunk.valid().as_bytes().iter().filter(is_control).count() + chunk.invalid().len();
    }
    // Accepts lists written by git, find and sort with `-z`, in which each name ends in NUL.
    let nuls = bytes.iter().filter(|byte| **byte == 0).count();
    if invalid == nuls && nuls * 4 < bytes.len() {
        return Ok(UTF_8);
    }
    let is_known = invalid > 0 && !encoding::ending(bytes).is_empty();
    if !is_known && (invalid < MAX_INVALID || invalid * PART < bytes.len()) {
        return Ok(UTF_8);
    }
    encoding::detect(bytes, whole).map(|charset| charset.encoding)
}

fn decoded(encoding: &'static Encoding, bytes: &[u8]) -> String {
    if encoding == UTF_8 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    encoding.decode_with_bom_removal(bytes).0.into_owned()
}

/// Maximum number of lines per report. Earlier lines would be replaced too quickly to be read.
const MAX_LINES: usize = 3;
/// Maximum length of a reported line, in bytes.
const MAX_LINE_LENGTH: usize = 300;
/// Minimum interval between two reports, which bounds the cost of a command with endless output.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Last lines that have not been reported yet.
#[derive(Debug)]
pub(super) struct LiveTail {
    progress: CallProgress,
    /// Line that is still incomplete.
    line: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    /// Earliest time of the next report.
    due: Instant,
}

impl LiveTail {
    pub(super) fn new(progress: CallProgress) -> Self {
        Self { progress, line: Vec::new(), lines: VecDeque::new(), due: Instant::now() }
    }

    /// Adds output and reports its lines if a report is due.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if !self.progress.has_receiver() {
            return;
        }
        // A carriage return also ends a line, as in progress bars.
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, is_whole) = match piece.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (piece, false),
            };
            let capacity = MAX_LINE_LENGTH.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(capacity)]);
            if is_whole {
                let line = std::mem::take(&mut self.line);
                if !line.trim_ascii().is_empty() {
                    self.lines.push_back(line);
                }
                if self.lines.len() > MAX_LINES {
                    self.lines.pop_front();
                }
            }
        }
        if Instant::now() >= self.due {
            self.flush();
        }
    }

    /// Waits until pending lines may be reported, and reports them. Does not complete if no lines are pending. Cancel
    /// safe.
    pub(super) async fn report_due(&mut self) {
        if self.lines.is_empty() {
            return pending().await;
        }
        sleep_until(self.due).await;
        self.flush();
    }

    fn flush(&mut self) {
        for line in self.lines.drain(..) {
            self.progress.report(&String::from_utf8_lossy(&line));
            self.due = Instant::now() + REPORT_INTERVAL;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use proptest::prelude::*;

    fn captured(cap: usize, chunks: &[&[u8]]) -> CapturedOutput {
        let mut capture = Capture::new(cap, CallProgress::default());
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture.finish(OutputForm::Text)
    }

    #[test]
    fn nul_separated_lists_are_not_taken_for_utf16() {
        for names in ["src/ab.rs\0", "a.rs\0bc.rs\0", "zürich/straße.md\0x\0"] {
            let list = names.repeat(40);
            for skipped in 0..2 {
                assert_eq!(captured(1 << 20, &[&list.as_bytes()[skipped..]]).text, &list[skipped..]);
            }
        }
        let wide: Vec<u8> = "name of a file\n".repeat(20).encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(captured(1 << 20, &[&wide]).text, "name of a file\n".repeat(20));
    }

    #[test]
    fn head_and_tail_are_captured() {
        assert_eq!(captured(8, &[b"abc", b"defgh"]).text, "abcdefgh");
        assert_eq!(captured(8, &[b"abcdefghijkl"]).text, "abcd\n[… 4 bytes left out …]\nijkl");
        assert_eq!(captured(8, &[b"ab", b"cdef", b"gh", b"ijkl"]).total, 12);
    }

    #[test]
    fn captured_text_is_cut_between_characters() {
        assert_eq!(captured(6, &["aäöüäöüz".as_bytes()]).text, "aä\n[… 8 bytes left out …]\nüz");
    }

    #[test]
    fn binary_output_is_identified_by_type() {
        let check = |bytes: &[u8], expected: Result<&str, &str>| {
            let found = captured(1 << 20, &[bytes]);
            match expected {
                Ok(text) => assert_eq!((found.text.as_str(), found.binary), (text, None)),
                Err(what) => {
                    let binary = found.binary.unwrap();
                    assert_eq!((found.text.as_str(), binary.what), ("", what));
                    assert_eq!(binary.content.as_deref(), Some(bytes));
                }
            }
        };
        check(b"\x89PNG\r\n\x1a\n\0\0\0", Err("a PNG image"));
        check(b"%PDF-1.7 \xe2\xe3", Err("a PDF document"));
        check(b"GIF8 is how such files begin", Ok("GIF8 is how such files begin"));
        check(&[0, 1, 2, 3].repeat(8), Err("binary data"));
        check(b"a\xffb\0c", Ok("a\u{fffd}b\0c"));
        let names = "src/a/file/of/some/length.rs\0".repeat(40);
        check(names.as_bytes(), Ok(&names));
        let wide: Vec<u8> = "one line\r\n".repeat(4).encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&wide, Ok(&"one line\r\n".repeat(4)));
        let (latin, _, _) = encoding_rs::WINDOWS_1252.encode("déjà vu à l\u{2019}été, é è ê à ç ô ù î, é è ê à ç ô");
        assert_eq!(captured(1 << 20, &[&*latin]).binary, None);
    }

    #[test]
    fn oversized_binary_output_is_dropped() {
        let found = captured(64, &[b"\x89PNG\r\n", &[0; 100]]);
        let binary = found.binary.unwrap();
        assert_eq!((binary.what, binary.ending, binary.content, found.total), ("a PNG image", "png", None, 106));
    }

    proptest! {
        #[test]
        fn capture_is_independent_of_chunking(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(captured(32, &[&bytes[..cut], &bytes[cut..]]), captured(32, &[&bytes]));
        }
    }

    fn recorder() -> (LiveTail, Arc<Mutex<String>>) {
        let recorder = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&recorder);
        let tail = LiveTail::new(CallProgress::new(move |line| sink.lock().unwrap().push_str(&line)));
        (tail, recorder)
    }

    #[tokio::test(start_paused = true)]
    async fn live_tail_is_sent_at_once_then_at_intervals() {
        let (mut tail, recorder) = recorder();
        let reported = || std::mem::take(&mut *recorder.lock().unwrap());
        tail.push(b"one\ntw");
        assert_eq!(reported(), "one\n");
        tail.push(b"o\n\nthree\nfour\nfive\n 10%\r 20%\r");
        assert_eq!(reported(), "", "too soon");
        let start = Instant::now();
        tail.report_due().await;
        assert_eq!((reported().as_str(), start.elapsed() <= REPORT_INTERVAL), ("five\n 10%\n 20%\n", true));
        tail.push("x".repeat(2 * MAX_LINE_LENGTH).as_bytes());
        tail.push(b"\n");
        tail.report_due().await;
        assert_eq!(reported().len(), MAX_LINE_LENGTH + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_output_is_reported_five_times_a_second() {
        let (mut tail, recorder) = recorder();
        for _ in 0..1000 {
            tail.push(&b"line\n".repeat(1000));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(recorder.lock().unwrap().lines().count() <= MAX_LINES * 6);
    }
}
