//! `read_file`: a text file, whole or a page of its lines.

use std::io::{self, BufRead, BufReader, Read as _};

use agentd_core::tool::ToolOutput;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};
use encoding_rs_io::DecodeReaderBytesBuilder;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    job::Job,
    text,
    workspace::{jail::OpenFile, path::ToolPath},
};

pub(crate) const DESCRIPTION: &str = "Reads a text file. Files under 100 KB come whole; of larger ones the first part \
    comes, with the offset to read on from. Use grep to find a place in a large file first. Files that are not text, \
    such as images or PDF, are refused.";

pub(crate) fn parameters() -> Value {
    super::object(
        json!({
            "path": {"type": "string", "description": "The file, such as uploads/notes.txt or /project/src/main.rs."},
            "offset": {"type": "integer", "minimum": 1, "description": "The first line to read, counted from 1."},
            "limit": {"type": "integer", "minimum": 1, "description": "How many lines to read."}
        }),
        &["path"],
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

pub(crate) fn run(job: &Job, args: Args) -> Result<ToolOutput, Failure> {
    let path = job.jail.locate(&args.path)?;
    let mut opened = job.jail.open_file(&path)?;
    let failed = |error: io::Error| Failure::io(&format!("read {path}"), &error);
    let mut sample = Vec::new();
    (&mut opened.file).take(SAMPLE).read_to_end(&mut sample).map_err(failed)?;
    let encoding = match sniff(&sample) {
        Ok(encoding) => encoding,
        Err(what) => return Err(not_text(&path, &opened, what)),
    };
    let decoded = DecodeReaderBytesBuilder::new()
        .encoding(Some(encoding))
        .bom_override(true)
        .strip_bom(true)
        .build(io::Cursor::new(sample).chain(opened.file));
    let small = opened.size <= job.limits.whole_file_bytes;
    let wanted = Wanted {
        offset: args.offset.unwrap_or(1),
        limit: args.limit.unwrap_or(u64::MAX),
        max_chars: if small { usize::MAX } else { job.limits.page_chars },
    };
    let page = Page::read(job, BufReader::with_capacity(64 * 1024, decoded), wanted);
    job.check()?;
    let page = page.map_err(failed)?;
    let paged = args.offset.is_some() || args.limit.is_some() || page.next.is_some();
    page.render(&path, opened.size, wanted.offset, paged, encoding).map(ToolOutput::ok)
}

/// How much of a file decides what it is.
const SAMPLE: u64 = 64 * 1024;

/// How far behind a page lines are still counted, so that its header can tell the whole.
const MAX_COUNTED: u64 = 64 * 1024 * 1024;

/// The encoding of a text, or what it is instead.
fn sniff(sample: &[u8]) -> Result<&'static Encoding, &'static str> {
    if let Some((encoding, _)) = Encoding::for_bom(sample) {
        return Ok(encoding);
    }
    if let Some((_, what)) = MAGIC.iter().find(|(magic, _)| sample.starts_with(magic)) {
        return Err(what);
    }
    let odd = |byte: &&u8| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    if sample.contains(&0) || sample.iter().filter(odd).count() * 20 > sample.len() {
        return Err("binary data");
    }
    match std::str::from_utf8(sample) {
        Ok(_) => Ok(UTF_8),
        // The sample may end within a character.
        Err(error) if error.error_len().is_none() && sample.len() as u64 == SAMPLE => Ok(UTF_8),
        Err(_) => {
            let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
            detector.feed(sample, true);
            Ok(detector.guess(None, Utf8Detection::Allow))
        }
    }
}

/// How well-known formats that are not text begin.
const MAGIC: [(&[u8], &str); 12] = [
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "an image, sound or video"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x00\x00\x01\x00", "an icon"),
];

fn not_text(path: &ToolPath, opened: &OpenFile, what: &str) -> Failure {
    Failure::tool(format!(
        "{path} is {what} ({}), not text; read_file reads text only, so convert it first, for example with \
         run_bash_command",
        text::size(opened.size)
    ))
}

#[derive(Debug, Clone, Copy)]
struct Wanted {
    offset: u64,
    limit: u64,
    max_chars: usize,
}

/// Lines of a file.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// The last line in `text`, 0 if there is none.
    last: u64,
    /// Whether the last line was longer than a page.
    cut_line: bool,
    /// Where to read on, if there is more.
    next: Option<u64>,
    /// How many lines the file has, if they were all counted.
    total: Option<u64>,
}

impl Page {
    fn read(job: &Job, mut lines: impl BufRead, wanted: Wanted) -> io::Result<Self> {
        let mut page = Self::default();
        let (mut chars_left, mut counted_behind, mut full) = (wanted.max_chars, 0_u64, false);
        let cap = wanted.max_chars.saturating_mul(4);
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let length = next_line(&mut lines, &mut line, cap, &mut || job.is_cancelled() || job.is_late())?;
            let Some(length) = length else {
                page.total = Some(number);
                return Ok(page);
            };
            number += 1;
            if number < wanted.offset {
                continue;
            }
            if full || number - wanted.offset >= wanted.limit {
                full = true;
                page.next.get_or_insert(number);
                counted_behind += length;
                if counted_behind > MAX_COUNTED || job.is_late() || job.is_cancelled() {
                    return Ok(page);
                }
                continue;
            }
            let decoded = String::from_utf8_lossy(&line);
            let shown = decoded.strip_suffix("\r\n").map(|text| format!("{text}\n"));
            let shown = shown.as_deref().unwrap_or(&decoded);
            let (start, more) = text::first_chars(shown, chars_left);
            let more = more || length > line.len() as u64;
            if more && page.last > 0 {
                full = true;
                page.next.get_or_insert(number);
                continue;
            }
            page.text.push_str(start);
            page.last = number;
            chars_left -= start.chars().count();
            if more {
                page.cut_line = true;
                full = true;
            }
        }
    }

    fn render(
        self,
        path: &ToolPath,
        size: u64,
        offset: u64,
        paged: bool,
        encoding: &'static Encoding,
    ) -> Result<String, Failure> {
        let total = match self.total {
            Some(total) => total.to_string(),
            None => "many".to_owned(),
        };
        if self.last == 0 {
            return match self.total {
                Some(0) => Ok(format!("[{path} is empty]")),
                _ => {
                    Err(Failure::arguments(format!("{path} has {total} lines; offset {offset} is behind the last one")))
                }
            };
        }
        let mut notes = Vec::new();
        if paged || self.cut_line {
            notes.push(format!("lines {offset}-{} of {total}, {} in all", self.last, text::size(size)));
        }
        if encoding != UTF_8 {
            notes.push(format!("decoded from {}", encoding.name()));
        }
        let mut shown = String::new();
        if !notes.is_empty() {
            shown = format!("[{path}: {}]\n", notes.join("; "));
        }
        shown.push_str(&self.text);
        if self.cut_line {
            shown.push_str(&format!(
                "\n[line {} is longer than a page and was cut here; grep finds text in it]",
                self.last
            ));
        }
        if let Some(next) = self.next {
            if !shown.ends_with('\n') {
                shown.push('\n');
            }
            shown.push_str(&format!("[there is more: read on with offset={next}, or find the place with grep]"));
        }
        Ok(shown)
    }
}

/// Reads a line, keeping at most `cap` of its bytes, and returns its length, or nothing at the end of the file. Fails
/// when `stop` says so.
fn next_line(
    lines: &mut impl BufRead,
    line: &mut Vec<u8>,
    cap: usize,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<u64>> {
    let mut length = 0_u64;
    loop {
        let buffer = lines.fill_buf()?;
        if buffer.is_empty() {
            return Ok((length > 0).then_some(length));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.extend_from_slice(&part[..part.len().min(cap.saturating_sub(line.len()))]);
        length += part.len() as u64;
        let used = part.len();
        lines.consume(used);
        if end.is_some() {
            return Ok(Some(length));
        }
        if stop() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        }
    }
}
