//! Protocol between daemon and worker: frames with a length prefix and JSON content. The daemon also restricts data
//! from a worker: no more than was requested, valid paths, and sanitised lines.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
};

use agentd_core::code::{
    CodeAnswer, CodeHit, CodeProgress, CodeQuestion, CodeReply, HitSymbol, MapFile, OutlineEntry, SourceLine,
    SymbolLocations, SymbolUse,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    map::BYTES_PER_TOKEN,
    search::MAX_HITS,
    symbols::{MAX_OUTLINE, MAX_SYMBOL_DEFINITIONS, MAX_SYMBOL_REFERENCES},
    text::{MAX_ANSWER, start_of},
    walk::OuterRules,
};

/// Maximum size of a frame in bytes. The longest answer is an outline.
pub(super) const MAX_FRAME: usize = 4 << 20;

/// Job of a worker, passed as its argument.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// Real path of the folder.
    pub(super) root: PathBuf,
    /// Limit on the address space in bytes.
    pub(super) memory: u64,
    /// Files that the worker skips, because a previous worker crashed on them.
    pub(super) excluded: Vec<String>,
    /// Git ignore rules of the parent folders, which the worker has no access to.
    pub(super) outer: Vec<OuterRules>,
    /// True if the worker must announce each file before reading it.
    pub(super) is_careful: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) question: CodeQuestion,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// The worker is about to read a file.
    Reading(String),
    /// Progress of the indexing.
    Progress(CodeProgress),
    /// Reply to the request with this ID.
    Reply(u64, CodeReply),
    /// Error for the request with this ID.
    Failed(u64, String),
    /// The path of the folder now leads to another folder, which this worker cannot access.
    Replaced(u64),
}

/// Encodes a frame.
///
/// # Errors
/// Fails if the frame exceeds the maximum size.
pub(super) fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    agentd_confine::frame(&serde_json::to_vec(frame)?, MAX_FRAME)
}

/// Writes a frame.
///
/// # Errors
/// Fails if the stream is closed or the frame is too long.
pub(super) fn write(out: &mut impl Write, frame: &impl Serialize) -> io::Result<()> {
    out.write_all(&encode(frame)?)
}

/// Reads a frame. Returns `None` at the end of the stream.
///
/// # Errors
/// Fails if the stream ends within a frame or the frame is invalid.
pub(super) fn read<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let body = agentd_confine::read_frame(input, MAX_FRAME)?;
    Ok(body.map(|body| serde_json::from_slice(&body)).transpose()?)
}

/// Maximum length of a path in bytes, as on Linux.
const MAX_PATH: usize = 4096;
/// Maximum length in bytes of a name, a line or an error message.
const MAX_LINE: usize = 300;

/// Restricts a reply to data that the question requested.
pub(super) fn restrict(reply: CodeReply, question: &CodeQuestion) -> CodeReply {
    let (most_hits, most_tokens) = match question {
        CodeQuestion::Search { limit, .. } => ((*limit).min(MAX_HITS), 0),
        CodeQuestion::Map { max_tokens } => (0, *max_tokens),
        CodeQuestion::Chunks { .. } => (MAX_HITS, 0),
        CodeQuestion::Symbol { .. } | CodeQuestion::Outline { .. } => (0, 0),
    };
    let answer = match reply.answer {
        CodeAnswer::Hits(hits) => {
            let hits = hits.into_iter().filter(|hit| is_path(&hit.path)).take(most_hits);
            CodeAnswer::Hits(hits.map(hit).collect())
        }
        CodeAnswer::Symbol(found) => CodeAnswer::Symbol(symbol(found)),
        CodeAnswer::Outline(entries) => CodeAnswer::Outline(check_definitions(entries, MAX_OUTLINE)),
        CodeAnswer::Map(files) => CodeAnswer::Map(map(files, most_tokens.saturating_mul(BYTES_PER_TOKEN))),
    };
    CodeReply { answer, index: reply.index }
}

/// Converts a text to one line without control characters.
pub(super) fn sanitised_line(words: &str) -> String {
    start_of(&words.chars().filter(|letter| !letter.is_control()).collect::<String>(), MAX_LINE).to_owned()
}

fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH && !path.contains('\0') && crate::walk::is_below(path)
}

fn hit(hit: CodeHit) -> CodeHit {
    let symbol = hit.symbol.map(|symbol| HitSymbol { name: sanitised_line(&symbol.name), kind: symbol.kind });
    CodeHit { symbol, text: start_of(&hit.text, MAX_ANSWER).to_owned(), ..hit }
}

fn line(line: SourceLine) -> SourceLine {
    SourceLine { text: sanitised_line(&line.text), ..line }
}

fn check_definitions(entries: Vec<OutlineEntry>, most: usize) -> Vec<OutlineEntry> {
    let entries = entries.into_iter().filter(|entry| is_path(&entry.at.path)).take(most);
    entries.map(|entry| OutlineEntry { name: sanitised_line(&entry.name), at: line(entry.at), ..entry }).collect()
}

fn symbol(found: SymbolLocations) -> SymbolLocations {
    let uses = found.references.into_iter().filter(|found| is_path(&found.at.path)).take(MAX_SYMBOL_REFERENCES);
    let checked = |SymbolUse { at, within }| SymbolUse { at: line(at), within: within.as_deref().map(sanitised_line) };
    SymbolLocations {
        definitions: check_definitions(found.definitions, MAX_SYMBOL_DEFINITIONS),
        references: uses.map(checked).collect(),
        is_truncated: found.is_truncated,
    }
}

fn map(files: Vec<MapFile>, most: usize) -> Vec<MapFile> {
    let mut remaining = most;
    let mut fitting_files = Vec::new();
    for file in files.into_iter().filter(|file| is_path(&file.path)) {
        let lines = file.lines.into_iter().map(|(line, row)| (line, sanitised_line(&row))).collect();
        let file = MapFile { path: file.path, lines };
        let Some(rest) = remaining.checked_sub(MapFile::render(std::slice::from_ref(&file)).len()) else { break };
        remaining = rest;
        fitting_files.push(file);
    }
    fitting_files
}

#[cfg(test)]
mod tests {
    use agentd_core::code::{CodeIndexState, SymbolKind};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_round_trip(id: u64, query: String, below: String, limit: usize, similar: Vec<u64>, rest: Vec<u8>) {
            let request = Request { id, question: CodeQuestion::Search { query, below, limit, similar } };
            let mut bytes = encode(&request).unwrap();
            bytes.extend(&rest);
            let mut stream = bytes.as_slice();
            prop_assert_eq!(read::<Request>(&mut stream).unwrap(), Some(request));
            prop_assert_eq!(stream, rest.as_slice());
        }

        #[test]
        fn random_frames_are_rejected_without_allocation(bytes: Vec<u8>) {
            let _ = read::<Request>(&mut bytes.as_slice());
        }
    }

    #[test]
    fn stream_may_end_only_between_frames() {
        assert_eq!(read::<Request>(&mut &b""[..]).unwrap(), None);
        assert!(read::<Request>(&mut &b"\x05\0\0\0{}"[..]).is_err());
        assert!(read::<Request>(&mut &b"\xff\xff\xff\xff"[..]).is_err());
    }

    fn reply(answer: CodeAnswer) -> CodeReply {
        CodeReply { answer, index: CodeIndexState::default() }
    }

    #[test]
    fn worker_answers_are_sanitised_and_bounded() {
        let row = "x".repeat(100_000);
        let file = |path: &str| MapFile {
            path: path.to_owned(),
            lines: vec![(u32::MAX, row.clone()), (0, "a\u{1b}[2Jb".into())],
        };
        let paths = ["a.rs", "../b.rs", "/etc/passwd", "c\0d", "", "e/./f", "g.rs"];
        let files: Vec<MapFile> = paths.map(file).into_iter().cycle().take(10_000).collect();
        let question = CodeQuestion::Map { max_tokens: 200 };
        let CodeAnswer::Map(map) = restrict(reply(CodeAnswer::Map(files)), &question).answer else { panic!("a map") };
        assert!(MapFile::render(&map).len() <= 800 && !map.is_empty());
        assert!(map.iter().all(|file| ["a.rs", "g.rs"].contains(&file.path.as_str())));
        assert_eq!(map[0].lines[1].1, "a[2Jb");

        let hit = |path: &str| CodeHit {
            path: path.to_owned(),
            first_line: 1,
            last_line: u32::MAX,
            symbol: Some(HitSymbol { name: row.clone(), kind: SymbolKind::Function }),
            score: f32::NAN,
            text: row.clone(),
            is_stale: false,
        };
        let hits = reply(CodeAnswer::Hits(vec![hit("a/../../b"), hit("a.rs"), hit("b.rs"), hit("c.rs")]));
        let question =
            CodeQuestion::Search { query: String::new(), below: String::new(), limit: 2, similar: Vec::new() };
        let CodeAnswer::Hits(hits) = restrict(hits, &question).answer else { panic!("hits") };
        assert_eq!(hits.iter().map(|hit| hit.path.as_str()).collect::<Vec<_>>(), ["a.rs", "b.rs"]);
        assert!(hits[0].text.len() <= MAX_ANSWER && hits[0].symbol.as_ref().unwrap().name.len() <= MAX_LINE);
        // A reply of a different type than the question is dropped.
        let other =
            restrict(reply(CodeAnswer::Hits(vec![hit("a.rs")])), &CodeQuestion::Outline { path: String::new() });
        assert_eq!(other.answer, CodeAnswer::Hits(Vec::new()));
    }
}
