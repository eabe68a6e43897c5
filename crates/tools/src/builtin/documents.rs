//! Common code of the document tools: detects documents, formats results for models, and asks the user for passwords.
//! Passwords are only stored in memory, and only for the session.

use std::{
    collections::VecDeque,
    io::{Read as _, Seek as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    ids::SessionId,
    input::is_picture,
    interrupt::{Answer, Ask},
    knowledge::{
        DocumentFinds, DocumentProgress, Extent, OpenDocument, PartCursor, PartRange, Password, Reading, SearchedBy,
        split_archive_path,
    },
    ports::{CallProgress, Knowledge, OnProgress, ToolContext},
    tool::{ToolData, ToolOutput},
};
use agentd_workspace::{
    backend::{Backend as _, OpenFile},
    encoding,
    failure::Failure,
    job::Job,
    path::ToolPath,
    text,
};
use futures_util::future::BoxFuture;

use super::call::SearchNotes;

/// Number of bytes at the beginning of a file that are checked to detect its kind.
const HEAD: u64 = 8 * 1024;
/// Maximum number of listed documents that could not be searched.
const MAX_NAMED: usize = 5;

/// File that a call reads or searches.
pub(super) enum PreparedFile<Q> {
    /// Result of reading or searching the text.
    Text(ToolOutput),
    /// Document, and the requested part or query.
    Document(OpenDocument, Q),
}

/// Opens a file as a document if the file must be parsed to be read.
pub(super) fn document(
    knowledge: &dyn Knowledge,
    path: &ToolPath,
    mut opened: OpenFile,
) -> Result<Result<OpenDocument, OpenFile>, Failure> {
    let (name, head) = (path.to_string(), head(path, &mut opened)?);
    if !knowledge.is_document(&name, &head) {
        return Ok(Err(opened));
    }
    match opened.content.into_file() {
        Some(file) => Ok(Ok(OpenDocument::new(name, file))),
        None => Err(Failure::tool(format!("{path} is stored as text and cannot be read as a document"))),
    }
}

/// Finds the file at a path. If the path leads into an archive, such as `uploads/all.zip!/report.pdf`, also returns the
/// path inside the archive. An existing file with exactly this name takes precedence.
pub(super) fn locate(job: &Job, written: &str) -> Result<(ToolPath, Option<String>), Failure> {
    let Some((archive, inner)) = split_archive_path(written) else {
        return Ok((job.files.resolve_path(written)?, None));
    };
    if let Ok(path) = job.files.resolve_path(written)
        && job.files.open_file(&path).is_ok()
    {
        return Ok((path, None));
    }
    Ok((job.files.resolve_path(archive)?, Some(inner.to_owned())))
}

/// Selects a document inside an archive, if a path inside the archive is given.
pub(super) fn with_inner(document: OpenDocument, inner: Option<String>) -> OpenDocument {
    match inner {
        Some(inner) => OpenDocument { name: format!("{}!/{inner}", document.name), inner: Some(inner), ..document },
        None => document,
    }
}

/// Reads the first bytes of a file, then rewinds it.
fn head(path: &ToolPath, opened: &mut OpenFile) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::io(&format!("read {path}"), &error);
    let mut head = Vec::new();
    (&mut opened.content).take(HEAD).read_to_end(&mut head).map_err(failed)?;
    opened.content.rewind().map_err(failed)?;
    Ok(head)
}

/// Maximum size of a picture or a document that is shown, in bytes.
const MAX_PICTURE: u64 = 64 << 20;

/// Reads a picture that models accept, or a PDF document of which `page` is wanted, and rewinds the file. `None` for
/// other files and larger ones.
pub(super) fn picture(document: &OpenDocument, page: Option<u32>) -> Result<Option<ToolData>, Failure> {
    let failed = |error| Failure::io(&format!("read {}", document.name), &error);
    let (mut file, mut content) = (&document.file, Vec::new());
    file.take(HEAD).read_to_end(&mut content).map_err(failed)?;
    let is_wanted = match page {
        Some(_) => content.windows(5).any(|start| start == b"%PDF-"),
        None => is_picture(&content),
    };
    let is_shown = is_wanted && file.metadata().map_err(failed)?.len() <= MAX_PICTURE;
    if is_shown {
        file.take(MAX_PICTURE).read_to_end(&mut content).map_err(failed)?;
    }
    file.rewind().map_err(failed)?;
    Ok(is_shown.then(|| ToolData { content, path: Some(document.name.clone()), page, ..ToolData::default() }))
}

/// Checks that a file can be searched line by line. A file that is neither text nor a known document is rejected with
/// its kind, since the result "nothing found" would be misleading. A file that can only be identified by its whole
/// content is returned as a document, so that the reader rejects it.
pub(super) fn searchable(
    knowledge: &dyn Knowledge,
    path: &ToolPath,
    mut opened: OpenFile,
) -> Result<Option<OpenDocument>, Failure> {
    const ARCHIVES: [&[u8]; 2] = [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"];
    let (name, head) = (path.to_string(), head(path, &mut opened)?);
    // The file may have been replaced by a document since the last check.
    let may_be_document = ARCHIVES.iter().any(|begin| head.starts_with(begin)) || knowledge.is_document(&name, &head);
    if may_be_document && let Some(file) = opened.content.into_file() {
        return Ok(Some(OpenDocument::new(name, file)));
    }
    let reason = match encoding::detect(&head, (head.len() as u64) < HEAD) {
        Err(kind) => knowledge.refusal(&name, &head).unwrap_or_else(|| format!("it is {kind}, not text")),
        Ok(_) => return Ok(None),
    };
    Err(Failure::tool(format!("{name} cannot be searched: {reason}")))
}

/// Returns a function that reports reading progress: immediately at first, then at most once a second, and less often
/// the longer reading takes.
pub(super) fn progress_reporter(progress: &CallProgress, doing: &'static str) -> OnProgress {
    const AT_LEAST: Duration = Duration::from_secs(1);
    let (progress, begun) = (progress.clone(), Instant::now());
    let last: Mutex<Option<Instant>> = Mutex::default();
    Arc::new(move |DocumentProgress { document, parts, total }| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = AT_LEAST.max(begun.elapsed() / 10);
        if last.is_none_or(|last| last.elapsed() >= pause) {
            *last = Some(Instant::now());
            // The format is `indexing uploads/report.pdf: 12 of 300`.
            let of = total.filter(|total| *total > 0).map_or("so far".to_owned(), |total| format!("of {total}"));
            progress.report(&format!("{doing} {document}: {parts} {of}"));
        }
    })
}

/// Formats parts of a document for a model.
pub(super) fn show(name: &str, range: PartRange, reading: &Reading) -> Result<ToolOutput, Failure> {
    let Reading { format, title, parts_are, total, parts, broken, .. } = reading;
    let (first, noun) = (range.first, parts_are.as_str());
    if parts.is_empty() {
        return Err(match broken {
            Some(reason) => Failure::tool(format!("{name} could not be read: {reason}")),
            None if *total > 0 && first <= *total && range.from != PartCursor::default() => {
                Failure::arguments(format!(
                    "{name}: {noun} {first} ends before that row or column; omit row and column to start at its beginning"
                ))
            }
            None if *total > 0 && first > *total => Failure::arguments(format!(
                "{name} has {}; offset {first} is past the end",
                text::count(*total as usize, noun)
            )),
            None => return Ok(ToolOutput::ok(format!("[{name}: {format}, no text]"))),
        });
    }
    let last = parts.last().map_or(first, |part| part.number);
    let mut shown = format!("[{name}: {format}");
    if let Some(title) = title {
        shown.push_str(&format!(", {title:?}"));
    }
    let which = if first == last { format!(" {first}") } else { format!("s {first}-{last}") };
    shown.push_str(&format!("; {noun}{which} of {total}]\n"));
    for part in parts {
        let text = part.text.trim_end();
        let text = if text.is_empty() { format!("[this {noun} has no text]") } else { text.to_owned() };
        shown.push_str(&format!("\n--- {} ---\n{text}\n", part.label));
        if let Some(extent) = &part.shown {
            shown.push_str(&format!("[{}]\n", extent_line(noun, part.number, extent, part.next)));
        }
    }
    if last < *total {
        let next = last + 1;
        shown.push_str(&format!("\n[more follows: continue with offset={next}, or use search_file]"));
    }
    if let Some(reason) = broken {
        shown.push_str(&format!("\n[the rest could not be read: {reason}]"));
    }
    Ok(ToolOutput::ok(shown))
}

/// Formats the range of a part that is shown: `rows 2-412 of 5000 of this sheet; continue with offset=1 and row=413, or
/// use search_file`.
fn extent_line(noun: &str, number: u32, extent: &Extent, next: Option<PartCursor>) -> String {
    let shown = format!("{extent} of this {noun}");
    let Some(PartCursor { row, column }) = next else { return shown };
    let row = if row > 0 { format!(" and row={row}") } else { String::new() };
    let column = if column > 0 { format!(" and column={column}") } else { String::new() };
    format!("{shown}; continue with offset={number}{row}{column}, or use search_file")
}

/// Formats search hits for a model.
pub(super) fn show_finds(query: &str, finds: &DocumentFinds, notes: &SearchNotes) -> String {
    let mut shown = String::new();
    for (number, hit) in finds.hits.iter().enumerate() {
        shown.push_str(&format!("{}. {}\n", number + 1, hit.behind(&hit.document, " ")));
        for part in [hit.before.as_deref(), Some(&*hit.marked("**", "**")), hit.after.as_deref()].into_iter().flatten()
        {
            shown.push_str(&format!("   {}\n", part.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    let searched = text::count(finds.searched, "document");
    if finds.hits.is_empty() {
        shown.push_str(&format!("No match for {} in {searched}", text::quoted(query)));
        shown.push_str("; try synonyms, fewer words, or the language of the document.\n");
    } else {
        let method = match finds.by {
            SearchedBy::Words => "by words",
            SearchedBy::Phrase => "by phrase",
            SearchedBy::NarrowedRegex | SearchedBy::Scan => "by pattern",
        };
        let finds = text::count(finds.hits.len(), "hit");
        shown.push_str(&format!("[{finds} in {searched}, {method}; cite a hit by its file and place]\n"));
    }
    for note in &finds.notes {
        shown.push_str(&format!("[{note}]\n"));
    }
    for (name, reason) in finds.broken.iter().take(MAX_NAMED) {
        // The hint follows the semicolon. It is shown for a single document, but not repeated for many.
        let reason =
            if finds.broken.len() == 1 { reason.as_str() } else { reason.split("; ").next().unwrap_or(reason) };
        shown.push_str(&notes.once("", format!("[{name} could not be searched completely: {reason}]\n")));
    }
    if finds.broken.len() > MAX_NAMED {
        let more = text::count(finds.broken.len() - MAX_NAMED, "more document");
        shown.push_str(&format!("[{more} could not be searched completely; search_file reports why]\n"));
    }
    if !finds.locked.is_empty() && finds.searched + finds.locked.len() > 1 {
        let locked = text::count(finds.locked.len(), "document");
        shown.push_str(&format!("[{locked} need a password; search_file and read_file ask the user for it]\n"));
    }
    if finds.not_searched > 0 {
        let left = text::count(finds.not_searched, "document");
        shown.push_str(&format!("[{left} not searched: time limit; search again to continue where it stopped]\n"));
    }
    if finds.late {
        shown.push_str("[the search is incomplete: time limit; search one file]\n");
    }
    shown.truncate(shown.trim_end().len());
    shown
}

/// Converts an error to a failure for the model.
pub(super) fn failed(doing: &str, error: &KnowledgeError) -> Failure {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidInput => Failure::arguments(format!("{error}{hint}")),
        _ => Failure::tool(format!("could not {doing}: {error}{hint}")),
    }
}

/// Maximum number of password prompts for one document in one call.
const MAX_ATTEMPTS: usize = 3;
/// Maximum number of stored passwords per session. The oldest is dropped first.
const MAX_PASSWORDS: usize = 32;

/// Passwords entered by users, by session.
#[derive(Debug, Default)]
pub(crate) struct Passwords(Mutex<VecDeque<(SessionId, Password)>>);

impl Passwords {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(SessionId, Password)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passwords of a session, newest first.
    fn of(&self, session: SessionId) -> Vec<Password> {
        self.lock().iter().rev().filter(|(owner, _)| *owner == session).map(|(_, password)| password.clone()).collect()
    }

    fn store(&self, session: SessionId, password: Password) {
        let mut stored = self.lock();
        stored.retain(|entry| *entry != (session, password.clone()));
        if stored.iter().filter(|(owner, _)| *owner == session).count() >= MAX_PASSWORDS
            && let Some(oldest) = stored.iter().position(|(owner, _)| *owner == session)
        {
            stored.remove(oldest);
        }
        stored.push_back((session, password));
    }

    /// Removes the passwords of a session.
    pub(crate) fn forget(&self, session: SessionId) {
        self.lock().retain(|(owner, _)| *owner != session);
    }
}

/// Runs `act` on a document. If the document requires a password, tries the session's stored passwords, then asks the
/// user.
pub(super) async fn unlock<'a, T>(
    context: &ToolContext,
    passwords: &Passwords,
    document: OpenDocument,
    doing: &str,
    act: impl Fn(OpenDocument) -> BoxFuture<'a, Result<T, KnowledgeError>> + Send + Sync,
) -> Result<T, Failure> {
    let name = document.name.clone();
    let again =
        |password: Option<Password>| document.with_password(password).map_err(|error| Failure::io(doing, &error));
    let failed = |error: &KnowledgeError| self::failed(doing, error);
    let mut stored = passwords.of(context.session_id).into_iter();
    let (mut password, mut tried) = (None, 0);
    loop {
        let last = match act(again(password.clone())?).await {
            Err(error) if error.needs_password() => error,
            // After any other error, it is unknown whether the password was correct.
            done => {
                if let (Ok(_), Some(typed)) = (&done, password.filter(|_| tried > 0)) {
                    passwords.store(context.session_id, typed);
                }
                return done.map_err(|error| failed(&error));
            }
        };
        password = stored.next();
        if password.is_some() {
            continue;
        }
        if tried == MAX_ATTEMPTS {
            return Err(Failure::tool(format!(
                "could not {doing}: it needs a password, and all {MAX_ATTEMPTS} from the user were wrong; ask the user before retrying"
            )));
        }
        password = match context.person.ask(question(&name, tried)).await {
            Some(Answer::Text { text }) => Some(Password::new(text)),
            Some(_) => return Err(Failure::tool(format!("could not {doing}: the user gave no password"))),
            None => return Err(failed(&last)),
        };
        tried += 1;
    }
}

/// Returns the password prompt. Each attempt has a different text, so that an answer belongs to exactly one prompt.
fn question(name: &str, tried: usize) -> Ask {
    let wrong = match tried {
        0 => String::new(),
        tried => format!("Wrong password (attempt {} of {MAX_ATTEMPTS}).\n", tried + 1),
    };
    Ask::Question {
        question: format!("What is the password of {name}?"),
        context: Some(format!(
            "{wrong}The document is encrypted. The password is kept in memory for this session only; the model does not see \
             it, and it is not stored."
        )),
        default: None,
        required: true,
        choices: Vec::new(),
        secret: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_belong_to_one_session_and_end_with_it() {
        let passwords = Passwords::default();
        let (one, other) = (SessionId::generate(), SessionId::generate());
        for number in 0..40 {
            passwords.store(one, Password::new(number.to_string()));
        }
        passwords.store(other, Password::new("secret".to_owned()));
        passwords.store(one, Password::new("39".to_owned()));
        let stored = passwords.of(one);
        assert_eq!((stored.len(), stored[0].reveal(), stored[31].reveal()), (MAX_PASSWORDS, "39", "8"));
        passwords.forget(one);
        assert_eq!((passwords.of(one).len(), passwords.of(other).len()), (0, 1));
        assert!(!format!("{passwords:?}").contains("secret"));
    }
}
