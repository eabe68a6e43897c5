//! Queries from tools about positions in source code.

use std::{
    path::{Component, Path},
    time::Duration,
};

use agentd_core::language::{
    Diagnostic, LanguageError, LinePosition, SourceEdit, SourceFile, SourceLocation, SourcePosition, SourceRewrite,
    WirePosition,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    edits::diagnostic,
    pool::ServerOfFile,
    protocol::{DocumentChange, Range, TextEdit, WorkspaceEdit, WrittenLocations, one_line, uri_to_path},
    server::{CheckPurpose, MAX_OPEN, OpenText, Question, ServerAnswer, ServerError},
    source,
};

/// Maximum number of locations in an answer.
const MAX_LOCATIONS: usize = 1000;
/// Limits for a rename: number of files, number of edits, and bytes of new text.
const MAX_FILES: usize = 200;
const MAX_EDITS: usize = 5000;
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of characters in a path outside the project.
const MAX_PATH: usize = 300;

impl From<ServerError> for LanguageError {
    fn from(error: ServerError) -> Self {
        Self::new(error.message)
    }
}

pub(crate) async fn diagnostics(of: ServerOfFile) -> Result<Vec<Diagnostic>, LanguageError> {
    let open = open(&of.file).await?;
    let findings = of.server.check(vec![open], CheckPurpose::Question).await?;
    Ok(findings.iter().flat_map(|list| list.iter()).map(|finding| diagnostic(&of.file, finding)).collect())
}

pub(crate) async fn definition(of: ServerOfFile, at: SourcePosition) -> Result<Vec<SourceLocation>, LanguageError> {
    locations(&of.file, ask(&of, &at, "textDocument/definition", Vec::new()).await?)
}

pub(crate) async fn references(of: ServerOfFile, at: SourcePosition) -> Result<Vec<SourceLocation>, LanguageError> {
    let more = vec![("context", json!({"includeDeclaration": true}))];
    locations(&of.file, ask(&of, &at, "textDocument/references", more).await?)
}

/// Returns the edits for a rename. Also checks the affected files for at most `wait`, so that their earlier findings
/// are known.
pub(crate) async fn rename(
    of: ServerOfFile,
    at: SourcePosition,
    name: String,
    wait: Duration,
) -> Result<Vec<SourceRewrite>, LanguageError> {
    let answer = ask(&of, &at, "textDocument/rename", vec![("newName", name.into())]).await?;
    let folder = answer.folder.clone();
    let edit: Option<WorkspaceEdit> = read(&answer)?;
    let rewrites = rewrites(&of.file, &folder, edit.unwrap_or_default())?;
    let mut texts = Vec::new();
    for rewrite in rewrites.iter().take(MAX_OPEN) {
        let below = rewrite.file.strip_prefix(&of.file.mount).unwrap_or_default().trim_start_matches('/');
        texts.extend(open(&SourceFile { below: below.into(), ..of.file.clone() }).await.ok());
    }
    let _ = tokio::time::timeout(wait, of.server.check(texts, CheckPurpose::Comparison)).await;
    Ok(rewrites)
}

/// Reads the current content of the file.
async fn open(file: &SourceFile) -> Result<OpenText, LanguageError> {
    let SourceFile { folder, below, .. } = file.clone();
    let content = tokio::task::spawn_blocking(move || source::read(&folder, &below)).await;
    content.ok().and_then(|content| OpenText::of(&file.below, &content)).ok_or_else(|| {
        let name = file.name();
        LanguageError::new(format!("{name} is missing, reached through a link, or not UTF-8 text of at most 1 MiB"))
    })
}

async fn ask(
    of: &ServerOfFile,
    at: &SourcePosition,
    method: &'static str,
    more: Vec<(&'static str, Value)>,
) -> Result<ServerAnswer, LanguageError> {
    let open = open(&of.file).await?;
    let position = position(&open.text, at)?;
    Ok(of.server.ask(open, Question { method, position, more }).await?)
}

/// Converts a position to the protocol's UTF-16 columns.
fn position(text: &str, at: &SourcePosition) -> Result<WirePosition, LanguageError> {
    let name = at.file.name();
    let line = at.line.checked_sub(1).and_then(|line| text.lines().nth(usize::try_from(line).ok()?));
    let line = line.ok_or_else(|| {
        LanguageError::new(format!("{name} has lines 1 to {}; there is no line {}", text.lines().count(), at.line))
    })?;
    let before = match &at.at {
        LinePosition::Column(column) => {
            return Ok(WirePosition { line: at.line - 1, character: column.saturating_sub(1) });
        }
        LinePosition::Symbol(symbol) => {
            let start = word(line, symbol).ok_or_else(|| {
                LanguageError::new(format!("`{symbol}` is not in line {} of {name}: {}", at.line, one_line(line, 120)))
            })?;
            &line[..start]
        }
    };
    let units = before.encode_utf16().count();
    Ok(WirePosition { line: at.line - 1, character: u32::try_from(units).unwrap_or(u32::MAX) })
}

/// Returns the start of a symbol in a line, preferably as a whole word.
fn word(line: &str, symbol: &str) -> Option<usize> {
    if symbol.is_empty() {
        return None;
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_whole = |start: &usize| {
        let after = line[start + symbol.len()..].chars().next();
        !line[..*start].chars().next_back().is_some_and(is_part) && !after.is_some_and(is_part)
    };
    let starts = || line.match_indices(symbol).map(|(start, _)| start);
    starts().find(is_whole).or_else(|| starts().next())
}

fn read<T: DeserializeOwned>(answer: &ServerAnswer) -> Result<T, LanguageError> {
    let text = answer.result.as_deref().map_or("null", serde_json::value::RawValue::get);
    serde_json::from_str(text).map_err(|_| LanguageError::new("invalid answer from the language server; use grep"))
}

fn locations(file: &SourceFile, answer: ServerAnswer) -> Result<Vec<SourceLocation>, LanguageError> {
    let written: WrittenLocations = read(&answer)?;
    let location = |(address, range): (String, Range)| {
        let path = uri_to_path(&address)?;
        let below = path.strip_prefix(&answer.folder).ok();
        let own = below.map(|below| SourceFile { below: below.to_path_buf(), ..file.clone() });
        Some(SourceLocation {
            is_own: own.is_some(),
            file: one_line(&own.map_or_else(|| path.display().to_string(), |own| own.name()), MAX_PATH),
            line: range.start.line.saturating_add(1),
            column: range.start.character.saturating_add(1),
        })
    };
    let mut places: Vec<SourceLocation> =
        written.into_list().into_iter().take(MAX_LOCATIONS).filter_map(location).collect();
    places.sort();
    places.dedup();
    Ok(places)
}

fn rewrites(file: &SourceFile, folder: &Path, edit: WorkspaceEdit) -> Result<Vec<SourceRewrite>, LanguageError> {
    let refused =
        |reason: &str| LanguageError::new(format!("the rename {reason}; nothing was changed. Edit the files yourself"));
    let mut of_files: Vec<(String, Vec<TextEdit>)> = Vec::new();
    match edit.document_changes {
        Some(changes) => {
            for change in changes {
                match change {
                    DocumentChange::Edits { text_document, edits } => of_files.push((text_document.uri, edits)),
                    DocumentChange::OfFiles(_) => return Err(refused("would create, move or remove files")),
                }
            }
        }
        None => of_files.extend(edit.changes.unwrap_or_default()),
    }
    of_files.retain(|(_, edits)| !edits.is_empty());
    let texts = of_files.iter().flat_map(|(_, edits)| edits).map(|edit| edit.new_text.len());
    let (count, bytes) = texts.fold((0, 0usize), |(count, sum), size| (count + 1, sum.saturating_add(size)));
    if of_files.len() > MAX_FILES || count > MAX_EDITS || bytes > MAX_TEXT {
        return Err(refused("would change too much at once"));
    }
    let mut rewrites: Vec<SourceRewrite> = Vec::new();
    for (address, edits) in of_files {
        let path = uri_to_path(&address);
        let below = path.as_deref().and_then(|path| path.strip_prefix(folder).ok());
        let is_plain = |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
        let below = below.filter(is_plain).ok_or_else(|| refused("would change files outside the project"))?;
        let own = SourceFile { below: below.to_path_buf(), ..file.clone() };
        let edit = |TextEdit { range: Range { start, end }, new_text: text }| SourceEdit { start, end, text };
        let edits = edits.into_iter().map(edit);
        match rewrites.iter_mut().find(|rewrite| rewrite.file == own.name()) {
            Some(rewrite) => rewrite.edits.extend(edits),
            None => rewrites.push(SourceRewrite { file: own.name(), edits: edits.collect() }),
        }
    }
    for rewrite in &mut rewrites {
        rewrite.edits.sort();
        rewrite.edits.dedup();
        let has_overlap = rewrite.edits.windows(2).any(|pair| pair[1].start < pair[0].end);
        if has_overlap || rewrite.edits.iter().any(|edit| edit.end < edit.start) {
            return Err(refused("is invalid: its edits overlap"));
        }
    }
    rewrites.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(rewrites)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SourceFile {
        SourceFile { folder: "/home/p/code".into(), mount: "/project".to_owned(), below: "a.py".into() }
    }

    #[test]
    fn positions_are_found_by_symbol_or_column() {
        let text = "x = 1\n\u{1f600} = xy + x\n";
        let check = |line, at: LinePosition, expected: Result<u32, &str>| {
            let found = position(text, &SourcePosition { file: file(), line, at: at.clone() });
            match expected {
                Ok(character) => assert_eq!(found.unwrap(), WirePosition { line: line - 1, character }, "{at:?}"),
                Err(part) => assert!(found.unwrap_err().message.contains(part), "{at:?}"),
            }
        };
        let symbol = |symbol: &str| LinePosition::Symbol(symbol.to_owned());
        check(2, symbol("x"), Ok(10));
        check(2, symbol("xy"), Ok(5));
        check(2, symbol("y"), Ok(6));
        check(2, symbol("z"), Err("`z` is not in line 2"));
        check(2, symbol(""), Err("not in line"));
        check(2, LinePosition::Column(3), Ok(2));
        check(2, LinePosition::Column(0), Ok(0));
        check(3, LinePosition::Column(1), Err("has lines 1 to 2"));
        check(0, LinePosition::Column(1), Err("has lines 1 to 2"));
    }

    #[test]
    fn rename_is_limited_to_text_edits_in_the_folder() {
        let range =
            |from: u32, to: u32| json!({"start": {"line": 0, "character": from}, "end": {"line": 0, "character": to}});
        let check = |edit: Value, expected: Result<usize, &str>| {
            let shown = edit.to_string();
            let found = rewrites(&file(), Path::new("/project"), serde_json::from_value(edit).unwrap());
            match expected {
                Ok(files) => assert_eq!(found.unwrap().len(), files, "{shown}"),
                Err(part) => assert!(found.unwrap_err().message.contains(part), "{shown}"),
            }
        };
        let edit = |from, to| json!({"range": range(from, to), "newText": "b"});
        check(json!({"changes": {"file:///project/a.py": [edit(0, 1)], "file:///project/b.py": [edit(0, 1)]}}), Ok(2));
        check(json!({"changes": {"file:///etc/a.py": [edit(0, 1)]}}), Err("outside the project"));
        check(json!({"changes": {"file:///project/../a.py": [edit(0, 1)]}}), Err("outside the project"));
        check(json!({"changes": {"file:///project/a.py": [edit(0, 2), edit(1, 3)]}}), Err("overlap"));
        check(json!({"changes": {"file:///project/a.py": vec![edit(0, 1); 6000]}}), Err("too much"));
        check(json!({"documentChanges": [{"kind": "delete", "uri": "file:///project/a.py"}]}), Err("remove files"));
        check(json!({}), Ok(0));
    }
}
