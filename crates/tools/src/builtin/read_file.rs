//! `read_file`: reads a text file as a whole or by pages of lines, or parts of a document.

mod save;

use std::io::{self, BufRead, BufReader};

use agentd_core::{
    knowledge::{OpenDocument, PartCursor, PartRange},
    ports::Knowledge,
    tool::{READ_TOOL, ToolData, ToolOutput},
};
use agentd_workspace::{
    backend::{Backend as _, OpenFile},
    encoding::{Charset, TextReader},
    failure::Failure,
    jail::OpenPurpose,
    job::Job,
    path::ToolPath,
    text,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    call::{Call, PathsOf, Tool},
    documents::{self, PreparedFile},
};

/// Reads a text file or a document (PDF, Word, Excel, PowerPoint, OpenDocument, EPUB, mail etc.; for an archive, returns
/// its file list). Text under 100 KB is returned whole; larger files and documents in parts, with the offset of the next.
/// Locate content in large files first: grep for text, search_file for documents. For PNG, JPEG, WebP and GIF, shows you
/// the picture, or its recognised text if you cannot see pictures.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, such as uploads/notes.txt or /project/src/main.rs (or src/main.rs, in the project).
    path: String,
    /// First line to read, from 1; for a document, the first page, section, sheet or slide.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    #[schemars(range(min = 1), description = "Number of lines, pages, sections, sheets or slides to read.")]
    limit: Option<u64>,
    /// First row to read of a partly shown sheet.
    #[schemars(range(min = 1))]
    row: Option<u64>,
    /// First character to read of a too long line or page, from 1.
    #[schemars(range(min = 1))]
    column: Option<u64>,
    #[schemars(description = "page: shows a page of a PDF as a picture. text: the text of a picture.", extend("enum" = [AS_PAGE, AS_TEXT]))]
    view: Option<String>,
    /// New file that gets the content instead, for commands: a sheet (offset) as CSV, another document as text, such as
    /// temp/orders.csv.
    save_to: Option<String>,
}

/// Values of `view`: the picture of a page, and the text in a picture.
const AS_PAGE: &str = "page";
const AS_TEXT: &str = "text";

impl Tool for Args {
    const NAME: &'static str = READ_TOOL;
    const PATHS: Option<PathsOf<Self>> =
        Some(|jail, args| args.save_to.iter().map(|path| jail.resolve_path(path, OpenPurpose::Write)).collect());

    async fn preview(self, call: Call<'_>) -> Result<Option<String>, Failure> {
        if self.save_to.is_some() { save::preview(self, call).await.map(Some) } else { Ok(None) }
    }

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        if self.save_to.is_some() {
            return save::run(self, call).await;
        }
        let knowledge = call.services.config.knowledge.clone();
        let (document, range, picture) = match call.work(move |job| open(job, self, knowledge.as_deref())).await? {
            PreparedFile::Text(output) => return Ok(output),
            PreparedFile::Document(document, (range, picture)) => (document, range, picture),
        };
        let (knowledge, context, name) = (call.knowledge()?, call.context, document.name.clone());
        if let Some(data) = picture {
            if context.sight.sees().await {
                return Ok(ToolOutput { data: vec![data], ..ToolOutput::default() });
            }
            if data.page.is_some() {
                return Err(Failure::tool("you cannot see pictures; omit view to read the text of the page"));
            }
        }
        let read = |document: OpenDocument| {
            knowledge.read(
                document,
                range,
                documents::progress_reporter(&context.progress, "reading"),
                context.cancel.clone(),
            )
        };
        let reading =
            documents::unlock(context, &call.services.passwords, document, &format!("read {name}"), read).await?;
        documents::show(&name, range, &reading)
    }
}

/// A requested part of a document, and the picture that may be shown instead.
type WantedView = (PartRange, Option<ToolData>);

fn open(job: &Job, args: Args, knowledge: Option<&dyn Knowledge>) -> Result<PreparedFile<WantedView>, Failure> {
    if let Some(other) = args.view.as_deref().filter(|view| ![AS_PAGE, AS_TEXT].contains(view)) {
        let message = format!("`view` of read_file must be {AS_PAGE} or {AS_TEXT}, not {}", text::quoted(other));
        return Err(Failure::arguments(message));
    }
    let (path, inner) = documents::locate(job, &args.path)?;
    let opened = match job.files.open_file(&path) {
        Ok(opened) => opened,
        Err(failure) => {
            let opened = job.files.open_unsaved(&path)?.ok_or(failure)?;
            return text(job, &args, &path, opened).map(PreparedFile::Text);
        }
    };
    let document = match knowledge {
        Some(knowledge) => documents::document(knowledge, &path, opened)?,
        None => Err(opened),
    };
    match document {
        Ok(document) => {
            let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            let page = (args.view.as_deref() == Some(AS_PAGE)).then(|| args.offset.map_or(1, number));
            let shows_text = args.view.as_deref() == Some(AS_TEXT) || inner.is_some();
            let picture = if shows_text { None } else { documents::picture(&document, page)? };
            if page.is_some() && picture.is_none() {
                return Err(Failure::arguments(format!("view={AS_PAGE} shows pages of PDF files of up to 64 MB only")));
            }
            let document = documents::with_inner(document, inner);
            let from = PartCursor {
                row: args.row.map_or(0, number),
                column: args.column.filter(|column| *column > 1).map_or(0, number),
            };
            let range = PartRange { first: args.offset.map_or(1, number), count: args.limit.map(number), from };
            Ok(PreparedFile::Document(document, (range, picture)))
        }
        Err(opened) => {
            let opened = job.files.present(&path, opened)?;
            text(job, &args, &path, opened).map(PreparedFile::Text)
        }
    }
}

fn text(job: &Job, args: &Args, path: &ToolPath, opened: OpenFile) -> Result<ToolOutput, Failure> {
    let failed = |error: io::Error| Failure::io(&format!("read {path}"), &error);
    let mut buffer = Vec::new();
    let read =
        TextReader::open(opened.content, opened.size, job.limits.write_bytes, false, &mut buffer).map_err(failed)?;
    let decoded = read.map_err(|kind| {
        Failure::tool(format!(
            "{path} is {kind} ({}) and cannot be read; supported: text, PDF, Word, Excel, PowerPoint, OpenDocument, RTF, EPUB, \
             mail and notebooks; convert it first, such as with run_bash_command",
            text::size(opened.size)
        ))
    })?;
    let charset = decoded.charset;
    let small = opened.size <= job.limits.whole_file_bytes;
    let wanted = LineRange {
        offset: args.offset.unwrap_or(1),
        limit: if args.column.is_some() { 1 } else { args.limit.unwrap_or(u64::MAX) },
        column: args.column,
        max_chars: match (args.column, small) {
            (Some(_), _) => PART_CHARS.min(job.limits.page_chars),
            (None, true) => usize::MAX,
            (None, false) => job.limits.page_chars,
        },
    };
    let lines = BufReader::with_capacity(64 * 1024, decoded);
    let page = Page::read(job, lines, wanted);
    job.check()?;
    let page = page.map_err(failed)?;
    let paged = args.offset.is_some() || args.limit.is_some() || args.column.is_some() || page.next.is_some();
    page.render(path, opened.size, wanted, paged, charset).map(ToolOutput::ok)
}

/// Maximum number of characters of a long line in one result.
const PART_CHARS: usize = 4000;

/// Number of bytes after a page within which lines are still counted, so that the header can show the total.
const MAX_COUNTED: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
struct LineRange {
    offset: u64,
    limit: u64,
    /// First character to return of the first line.
    column: Option<u64>,
    max_chars: usize,
}

/// Page of lines of a file.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// Number of the last line in `text`, or 0 if `text` is empty.
    last: u64,
    /// Column at which the last line was truncated, if it did not fit.
    cut_column: Option<u64>,
    /// Offset of the next page, if there is one.
    next: Option<u64>,
    /// Number of lines of the file, if all were counted.
    total: Option<u64>,
}

impl Page {
    fn read(job: &Job, mut lines: impl BufRead, wanted: LineRange) -> io::Result<Self> {
        let mut page = Self::default();
        let (mut chars_left, mut counted_after, mut full) = (wanted.max_chars, 0_u64, false);
        let cap = wanted.max_chars.saturating_mul(4);
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let is_first = number + 1 == wanted.offset;
            let mut skipped = wanted.column.filter(|_| is_first).map(|column| column - 1);
            let mut stop = || job.is_cancelled() || job.is_late();
            let length = next_line(&mut lines, &mut line, &mut skipped, cap, &mut stop)?;
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
                counted_after += length;
                if counted_after > MAX_COUNTED || job.is_late() || job.is_cancelled() {
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
            let chars = start.chars().count();
            chars_left -= chars;
            if more {
                let first = wanted.column.filter(|_| is_first).unwrap_or(1);
                page.cut_column = Some(first.saturating_add(chars as u64));
                full = true;
            }
        }
    }

    fn render(
        self,
        path: &ToolPath,
        size: u64,
        wanted: LineRange,
        paged: bool,
        charset: Charset,
    ) -> Result<String, Failure> {
        let offset = wanted.offset;
        let total = self.total.map_or("many".to_owned(), |total| total.to_string());
        if self.last == 0 {
            return match self.total {
                Some(0) => Ok(format!("[{path} is empty]")),
                _ => Err(Failure::arguments(format!("{path} has {total} lines; offset {offset} is past the end"))),
            };
        }
        if let Some(column) = wanted.column
            && self.text.trim_end_matches(['\r', '\n']).is_empty()
        {
            return Err(Failure::arguments(format!("line {offset} of {path} ends before column {column}")));
        }
        let mut notes = Vec::new();
        if paged || self.cut_column.is_some() {
            let which = match wanted.column {
                Some(column) => format!("line {offset} from column {column}"),
                None => format!("lines {offset}-{}", self.last),
            };
            notes.push(format!("{which} of {total}, {} in all", text::size(size)));
        }
        if let Some(name) = charset.name() {
            notes.push(format!("decoded from {name}"));
        }
        let notes = if notes.is_empty() { String::new() } else { format!("[{path}: {}]\n", notes.join("; ")) };
        let mut shown = format!("{notes}{}", self.text);
        if let Some(column) = self.cut_column {
            let (problem, line) =
                (if wanted.column.is_some() { "continues" } else { "is longer than a page" }, self.last);
            shown.push_str(&format!(
                "\n[line {line} {problem}: continue with offset={line} and column={column}; grep shows the column of a hit]"
            ));
        }
        if let Some(next) = self.next {
            if !shown.ends_with('\n') {
                shown.push('\n');
            }
            shown.push_str(&format!("[more follows: continue with offset={next}, or use grep]"));
        }
        Ok(shown)
    }
}

/// Reads a line, after the characters to skip. Stores at most `cap` bytes of the line and returns its length without
/// the skipped part, or `None` at the end of the file. Returns an error if `stop` returns true.
fn next_line(
    lines: &mut impl BufRead,
    line: &mut Vec<u8>,
    skipped: &mut Option<u64>,
    cap: usize,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<u64>> {
    let (mut length, mut is_any) = (0_u64, false);
    loop {
        let buffer = lines.fill_buf()?;
        if buffer.is_empty() {
            return Ok(is_any.then_some(length));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|newline| newline + 1);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let used = part.len();
        is_any = true;
        let part = after_skipped(part, skipped);
        line.extend_from_slice(&part[..part.len().min(cap.saturating_sub(line.len()))]);
        length += part.len() as u64;
        lines.consume(used);
        if end.is_some() {
            return Ok(Some(length));
        }
        if stop() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        }
    }
}

/// Returns the remainder of a part after the characters to skip. Nothing is skipped once a character has been returned.
fn after_skipped<'a>(part: &'a [u8], skipped: &mut Option<u64>) -> &'a [u8] {
    let Some(mut left) = *skipped else { return part };
    for (index, byte) in part.iter().enumerate() {
        // Continuation bytes of UTF-8 start with the bits 10.
        if byte & 0xc0 == 0x80 {
            continue;
        }
        if left == 0 {
            *skipped = None;
            return &part[index..];
        }
        left -= 1;
    }
    *skipped = Some(left);
    &[]
}
