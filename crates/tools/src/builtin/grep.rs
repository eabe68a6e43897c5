//! `grep`: finds lines that match a regular expression, in time linear in the searched bytes.

use std::{
    io::{self, Read},
    ops::ControlFlow,
};

use agentd_core::tool::ToolOutput;
use agentd_workspace::{
    backend::Backend as _,
    encoding::{self, TextReader},
    failure::Failure,
    job::Job,
    limits::Limits,
    path::ToolPath,
    text,
    walk::{Kind, UnreadEntries, Walk},
};
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    call::{Call, SearchNotes, Tool},
    find_files::{PathGlob, UnsearchedFiles},
};

/// Maximum length of a line in bytes. The search of a file stops at the first longer line, which is rarely written by
/// people.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
const MAX_LINE_CHARS: usize = 400;
/// Number of characters shown before a match in a line that is too long.
const BEFORE_MATCH: usize = 200;

/// Searches text files with a regular expression, line by line, and returns hits as path:line: text. Look-around and
/// back-references are unsupported. Hidden files, binary files and files that .gitignore excludes are skipped, with a note
/// in the result.
/// To find files by name use find_files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The regular expression, such as fn \w+_test or error|warning.
    pattern: String,
    /// Folder or file to search. Omit for the whole workspace.
    path: Option<String>,
    /// Search only files that match this glob, such as *.{rs,toml}.
    include: Option<String>,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Treat the pattern as plain text.
    #[serde(default)]
    literal: bool,
    /// Lines of context before and after each hit.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: usize,
    /// Also search files that .gitignore excludes.
    #[serde(default)]
    include_ignored: bool,
}

impl Args {
    /// Returns the arguments for a case-insensitive search of one file, with one line of context.
    pub(super) fn of_file(path: String, pattern: String) -> Self {
        Self { pattern, path: Some(path), ignore_case: true, context: 1, ..Self::default() }
    }
}

impl Tool for Args {
    const NAME: &'static str = "grep";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let notes = call.notes();
        call.work(move |job| run(job, self, &notes)).await
    }
}

pub(super) fn run(job: &Job, args: Args, notes: &SearchNotes) -> Result<ToolOutput, Failure> {
    let matcher = matcher(&args)?;
    let include = args.include.as_deref().map(|glob| PathGlob::new("include", glob)).transpose()?;
    let start = job.files.start(args.path.as_deref())?;
    let searcher = SearcherBuilder::new()
        .line_number(true)
        // Lets `$` match before both kinds of line ends.
        .line_terminator(LineTerminator::crlf())
        .before_context(args.context)
        .after_context(args.context)
        // Binary files are detected before the search. A NUL inside text is treated as an ordinary character.
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false)
        .heap_limit(Some(MAX_LINE_BYTES))
        // Access to a mapped file that was truncated would kill the whole daemon.
        .memory_map(MmapChoice::never())
        .build();
    let hits = Hits { has_context: args.context > 0, ..Hits::default() };
    let is_named = !job.files.is_folder(&start)?;
    let mut search = Search { job, matcher, searcher, hits, buffer: Vec::new(), is_named };
    let mut left = UnreadEntries::default();
    if is_named {
        job.files.open_file(&start)?;
        let _only_file = search.file(&start)?;
    } else {
        for place in job.files.places(&start) {
            Walk::whole(args.include_ignored).run(job, &place, &mut left, &mut |found| {
                let wanted = include.as_ref().is_none_or(|glob| glob.matches(&found.path, &start));
                if found.kind != Kind::File || !wanted {
                    return Ok(ControlFlow::Continue(()));
                }
                // A file that the call did not name and that the rules do not allow to be read is skipped before it is
                // opened. Even a match would reveal part of its contents.
                if job.reading.allow(&found.path.to_string()) {
                    return search.file(&found.path);
                }
                search.hits.withheld += 1;
                Ok(ControlFlow::Continue(()))
            })?;
        }
    }
    job.check()?;
    Ok(ToolOutput::ok(search.hits.render(&args, &left, notes)))
}

fn matcher(args: &Args) -> Result<RegexMatcher, Failure> {
    const MAX_PATTERN: usize = 2000;
    const MAX_PROGRAM: usize = 4 * 1024 * 1024;
    if args.pattern.is_empty() || args.pattern.len() > MAX_PATTERN {
        return Err(Failure::arguments(format!("`pattern` of grep must be 1 to {MAX_PATTERN} bytes long")));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .crlf(true)
        // Without this option, `$` only matches before `\r\n`.
        .multi_line(true)
        .size_limit(MAX_PROGRAM)
        .dfa_size_limit(MAX_PROGRAM)
        .build(&args.pattern)
        .map_err(|error| {
            let reason = error.to_string();
            let reason = text::first_chars(reason.lines().last().unwrap_or(&reason), 300).0.to_owned();
            Failure::arguments(format!(
                "`pattern` of grep is invalid: {reason}; escape special characters with a backslash, or set literal \
                 to true (matching is line by line)"
            ))
        })
}

struct Search<'a> {
    job: &'a Job,
    matcher: RegexMatcher,
    searcher: Searcher,
    hits: Hits,
    /// Scratch space, reused for all files.
    buffer: Vec<u8>,
    /// True if the call named a single file. The kind of that file is then reported.
    is_named: bool,
}

impl Search<'_> {
    fn file(&mut self, path: &ToolPath) -> Result<ControlFlow<()>, Failure> {
        let (limit, buffer) = (self.job.limits.write_bytes, &mut self.buffer);
        let opened = self.job.files.open_file(path).ok();
        // A file that was removed or cannot be read does not end the search.
        let text = match opened.and_then(|file| TextReader::open(file.content, file.size, limit, true, buffer).ok()) {
            Some(Ok(text)) => text,
            unread => {
                let reason = if self.is_named { unread.and_then(Result::err) } else { unread.map(|_| "binary") };
                self.hits.unsearched.add(reason.unwrap_or("unreadable"));
                return Ok(ControlFlow::Continue(()));
            }
        };
        self.hits.path = path.to_string();
        self.hits.files += 1;
        let before = self.hits.count;
        let mut reader = StoppableReader { text, job: self.job, is_cut: false };
        let sink = HitSink { hits: &mut self.hits, matcher: &self.matcher, limits: &self.job.limits };
        let searched = self.searcher.search_reader(&self.matcher, &mut reader, sink);
        self.hits.timed_out = self.job.is_late();
        match searched {
            _ if reader.is_cut => self.hits.unsearched.add("binary after initial text"),
            Err(error) if !self.hits.timed_out => {
                self.job.check()?;
                let is_read = error.raw_os_error().is_none();
                self.hits.unsearched.add(if is_read { "up to a line that is too long" } else { "partly unreadable" });
            }
            _ => {}
        }
        if self.hits.count > before {
            self.hits.files_hit += 1;
        }
        Ok(if self.hits.is_full || self.hits.timed_out { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Reader that ends when the turn is cancelled, when the time is up, or where binary data begins.
struct StoppableReader<'a> {
    text: TextReader<'a>,
    job: &'a Job,
    is_cut: bool,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.job.is_cancelled() || self.job.is_late() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        if self.is_cut {
            return Ok(0);
        }
        let length = self.text.read(buffer)?;
        let read = &buffer[..length];
        if self.text.is_sampled && read.contains(&0) && encoding::detect(read, false).is_err() {
            self.is_cut = true;
            return Ok(read.iter().position(|byte| *byte == 0).unwrap_or(length));
        }
        Ok(length)
    }
}

/// Matches found so far.
#[derive(Default)]
struct Hits {
    shown: String,
    path: String,
    count: usize,
    files: usize,
    files_hit: usize,
    unsearched: UnsearchedFiles,
    /// Number of files that require approval to be read.
    withheld: usize,
    /// True if groups of lines are separated.
    has_context: bool,
    /// True if the next line starts a group.
    needs_separator: bool,
    is_full: bool,
    timed_out: bool,
}

impl Hits {
    fn line(&mut self, mark: char, number: Option<u64>, line: &str) {
        let number = number.unwrap_or_default();
        if std::mem::take(&mut self.needs_separator) && !self.shown.is_empty() {
            self.shown.push_str("--\n");
        }
        self.shown.push_str(&format!("{}{mark}{number}{mark} {line}\n", self.path));
    }

    fn render(mut self, args: &Args, left: &UnreadEntries, notes: &SearchNotes) -> String {
        let scope = format!("{:?} {:?} {}", args.path, args.include, args.include_ignored);
        let searched = text::count(self.files, "file");
        if self.count == 0 {
            self.shown = format!("No line matches {} in {searched}.\n", text::quoted(&args.pattern));
            if left.ignored > 0 {
                self.shown.push_str("[files that .gitignore excludes were skipped; set include_ignored]\n");
            }
        } else if self.is_full {
            self.shown.push_str(&format!(
                "[the first {} are shown; narrow the pattern, the path or include]\n",
                text::count(self.count, "match")
            ));
        } else {
            let (matches, files) = (text::count(self.count, "match"), text::count(self.files_hit, "file"));
            self.shown.push_str(&format!("[{matches} in {files}]\n"));
        }
        if self.timed_out || left.cut.is_some() {
            let cut = left.cut.unwrap_or("it took too long");
            self.shown.push_str(&format!("[the search is not complete: {cut}; search a smaller folder]\n"));
        }
        if let Some(line) = self.unsearched.line(left) {
            self.shown.push_str(&notes.once(&scope, format!("{line}\n")));
        }
        if self.withheld > 0 {
            let withheld = text::count(self.withheld, "file");
            let note =
                format!("[{withheld} skipped: reading requires approval; to request it, set path to one of them]\n");
            self.shown.push_str(&notes.once(&scope, note));
        }
        self.shown.truncate(self.shown.trim_end().len());
        self.shown
    }
}

/// Returns the beginning of a line, shortened if necessary.
fn beginning(line: &str) -> String {
    let (start, more) = text::first_chars(line.trim_end_matches(['\r', '\n']), MAX_LINE_CHARS);
    format!("{start}{}", if more { "…" } else { "" })
}

/// Formats a matching line. If the line is too long, shows the text around the first match, with the columns of the
/// first and the next match.
fn around_match(matcher: &RegexMatcher, bytes: &[u8]) -> String {
    let column = |at: usize| String::from_utf8_lossy(&bytes[..at]).chars().count() + 1;
    let line = String::from_utf8_lossy(bytes);
    let Ok(Some(found)) = matcher.find(bytes) else { return beginning(&line) };
    let skipped = column(found.start()).saturating_sub(1 + BEFORE_MATCH);
    let is_long = line.chars().nth(MAX_LINE_CHARS).is_some();
    if !is_long || skipped == 0 {
        return beginning(&line);
    }
    let rest = line.char_indices().nth(skipped).map_or("", |(at, _)| &line[at..]);
    let next = matcher.find_at(bytes, found.end()).ok().flatten().filter(|next| next.end() > found.end());
    let next = next.map(|next| format!(", the next at {}", column(next.start()))).unwrap_or_default();
    format!("(column {}{next}) …{}", column(found.start()), beginning(rest))
}

/// Collector for the matches of one file, up to the limits.
struct HitSink<'a> {
    hits: &'a mut Hits,
    matcher: &'a RegexMatcher,
    limits: &'a Limits,
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, hit: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.hits.count == self.limits.grep_hits || self.hits.shown.len() >= self.limits.page_chars {
            self.hits.is_full = true;
            return Ok(false);
        }
        self.hits.count += 1;
        self.hits.line(':', hit.line_number(), &around_match(self.matcher, hit.bytes()));
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.hits.shown.len() < self.limits.page_chars {
            self.hits.line('-', context.line_number(), &beginning(&String::from_utf8_lossy(context.bytes())));
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        self.hits.needs_separator = true;
        Ok(true)
    }

    fn begin(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        self.hits.needs_separator = self.hits.has_context;
        Ok(true)
    }
}
