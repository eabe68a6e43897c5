//! Files that go with words: those of the session's folders are named as tools see them, lines are quoted, and all other
//! files are copied.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use agentd_core::{
    folder::Mounts,
    input::{LineRange, MAX_INPUT_PARTS, MAX_SELECTION_BYTES, MAX_SELECTION_URI, Selection},
    path,
};

use super::{
    Mention, MentionTarget, of_tools,
    target::{self, MatchedFiles},
};

/// Files of one folder or pattern that are copied. A session that works with more of them sees the folder.
const MAX_COPIES: usize = 20;

/// Size of a file at the most of which lines are quoted, in bytes.
const MAX_QUOTED: u64 = 64 << 20;

/// The place where words with mentions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MentionSource {
    /// A chat.
    Chat,
    /// An editor.
    Editor,
    /// A command line of a person.
    Terminal,
    /// A command line of a program. The words may be somebody else's, so only files of the project go with them.
    Program,
}

impl MentionSource {
    /// The way to hand over a file that a mention does not.
    fn way(self, written: &str) -> String {
        match self {
            Self::Chat => format!("; /upload {written} hands it over all the same"),
            Self::Editor => String::new(),
            Self::Terminal | Self::Program => format!("; --file {written} hands it over all the same"),
        }
    }
}

/// Files and lines that go with words.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Bundle {
    /// Lines for the model: mentions, and their paths for tools.
    pub(crate) named: Vec<String>,
    /// Files to copy into the session.
    pub(crate) copies: Vec<PathBuf>,
    /// Lines that are quoted.
    pub(crate) selections: Vec<Selection>,
    /// Remarks for the person.
    pub(crate) notes: Vec<String>,
}

impl Bundle {
    /// Collects what mentions bring to a session that sees these folders.
    pub(crate) fn collect(mentions: Vec<Mention>, mounts: &Mounts, source: MentionSource) -> Self {
        let mut bundle = Self::default();
        let collector = Collector { mounts, source };
        for mention in mentions {
            collector.add(&mention, &mut bundle);
        }
        if bundle.selections.len() > MAX_INPUT_PARTS {
            let left_out = bundle.selections.len() - MAX_INPUT_PARTS;
            bundle.note(format!(
                "{left_out} of the mentioned ranges of lines are left out: a message takes {MAX_INPUT_PARTS}"
            ));
            bundle.selections.truncate(MAX_INPUT_PARTS);
        }
        bundle
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

struct Collector<'a> {
    mounts: &'a Mounts,
    source: MentionSource,
}

impl Collector<'_> {
    fn add(&self, mention: &Mention, bundle: &mut Bundle) {
        let written = path::shown(&mention.written);
        match &mention.target {
            MentionTarget::File(path) => self.file(&written, path, bundle),
            MentionTarget::Lines { path, lines } => self.lines(&written, path, *lines, bundle),
            MentionTarget::Folder(path) => match self.of_tools(path) {
                Some(named) => bundle.named.push(format!("#{written} is the folder {named}")),
                None => self.copies(&written, &target::below(path), bundle),
            },
            MentionTarget::Pattern(matched) => self.matched(&written, matched, bundle),
            // A file of the project is seen as it is, hidden or not: approvals guard it there.
            MentionTarget::Hidden(path) => match self.of_tools(path) {
                Some(named) => bundle.named.push(format!("#{written} is {named}")),
                None => bundle.note(format!("#{written} is hidden and stays here{}", self.source.way(&written))),
            },
        }
    }

    fn file(&self, written: &str, path: &Path, bundle: &mut Bundle) {
        match self.of_tools(path) {
            // It is there already, and what is done with it is done to the file itself.
            Some(named) => bundle.named.push(format!("#{written} is {named}")),
            None if self.reaches_out() => bundle.copies.push(path.to_owned()),
            None => bundle.note(self.out_of_reach(written)),
        }
    }

    fn lines(&self, written: &str, path: &Path, lines: LineRange, bundle: &mut Bundle) {
        let named = of_tools(path, self.mounts);
        if named.is_none() && !self.reaches_out() {
            return bundle.note(self.out_of_reach(written));
        }
        let uri = named.unwrap_or_else(|| path.display().to_string());
        match quote(path, lines) {
            Ok(Quote { lines, text, is_cut }) if uri.len() <= MAX_SELECTION_URI => {
                if is_cut {
                    bundle.note(format!("#{written} is longer than {} KiB and is cut", MAX_SELECTION_BYTES >> 10));
                }
                bundle.selections.push(Selection { uri, lines: Some(lines), text });
            }
            Ok(_) => bundle.note(format!("the path of #{written} is too long")),
            Err(problem) => {
                bundle.note(format!("#{written}: {problem}"));
                self.file(written, path, bundle);
            }
        }
    }

    fn matched(&self, written: &str, matched: &MatchedFiles, bundle: &mut Bundle) {
        let named: Option<Vec<String>> = matched.files.iter().map(|file| self.of_tools(file)).collect();
        match named {
            Some(named) => {
                let more = if matched.is_cut { " and more" } else { "" };
                bundle.named.push(format!("#{written} is {}{more}", named.join(", ")));
            }
            None => self.copies(written, matched, bundle),
        }
    }

    /// Files from elsewhere, if they are few.
    fn copies(&self, written: &str, matched: &MatchedFiles, bundle: &mut Bundle) {
        let MatchedFiles { files, is_cut } = matched;
        if *is_cut || files.len() > MAX_COPIES {
            let note = format!(
                "#{written} are more than {MAX_COPIES} files, which are not copied; -C DIR shows the model a whole folder"
            );
            return bundle.note(note);
        }
        if files.is_empty() {
            return bundle.note(format!("#{written} has no files to hand over"));
        }
        if !self.reaches_out() {
            return bundle.note(self.out_of_reach(written));
        }
        bundle.copies.extend(files.iter().cloned());
    }

    fn of_tools(&self, path: &Path) -> Option<String> {
        of_tools(path, self.mounts).map(|named| path::shown(&named).into_owned())
    }

    /// Returns whether files from elsewhere go with these words.
    fn reaches_out(&self) -> bool {
        self.source != MentionSource::Program
    }

    fn out_of_reach(&self, written: &str) -> String {
        format!("#{written} is no file of the project and stays here{}", self.source.way(written))
    }
}

/// Lines of a file.
struct Quote {
    /// The lines that it is, up to the end of the file.
    lines: LineRange,
    text: String,
    is_cut: bool,
}

fn quote(path: &Path, lines: LineRange) -> Result<Quote, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MAX_QUOTED {
        return Err(format!("has more than {} MiB, so no lines of it are quoted", MAX_QUOTED >> 20));
    }
    let mut quote = Quote { lines: LineRange { first: lines.first, last: 0 }, text: String::new(), is_cut: false };
    let mut seen = 0;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(failed)?;
        seen += 1;
        if seen > lines.last || quote.is_cut {
            break;
        }
        if seen >= lines.first {
            quote.add(&String::from_utf8_lossy(&line), seen);
        }
    }
    if quote.lines.last == 0 {
        return Err(format!("the file has only {seen} lines"));
    }
    Ok(quote)
}

impl Quote {
    fn add(&mut self, line: &str, number: u32) {
        if self.text.len() + line.len() >= MAX_SELECTION_BYTES {
            let room = MAX_SELECTION_BYTES - 1 - self.text.len();
            self.text.push_str(&line[..line.floor_char_boundary(room.min(line.len()))]);
            self.is_cut = true;
        } else {
            self.text.push_str(line.strip_suffix('\r').unwrap_or(line));
        }
        self.text.push('\n');
        self.lines.last = number;
    }
}
