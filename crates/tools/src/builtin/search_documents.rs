//! `search_documents`: searches a session's documents, and returns matches with the positions to cite. `search_file`:
//! searches one file, using the index for documents, and line by line for text.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentFinds, DocumentQuery, OpenDocument},
    ports::Knowledge,
    search::SearchQuery,
    tool::ToolOutput,
};
use agentd_workspace::{
    backend::Backend as _,
    documents::{MAX_OPEN, is_attached, left_out},
    failure::Failure,
    job::Job,
    path::ToolPath,
    text,
    walk::{Kind, UnreadEntries, Walk},
};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    call::{Call, SearchNotes, Tool},
    documents::{self, PreparedFile},
    find_files::UnsearchedFiles,
    grep,
};

/// Default number of hits per search.
const DEFAULT_HITS: usize = 10;
/// Time after which a search starts no further documents.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Searches the documents of this session (PDF, Word, Excel, PowerPoint etc.; Markdown, HTML and other text, archives) and
/// returns file and place of each hit, to cite. Query with a few words in the language of the documents; put phrases in
/// double quotes. Use grep for code.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SearchDocuments {
    /// Words, or a "phrase in quotes".
    query: String,
    /// Folder to search. Omit for all documents.
    path: Option<String>,
    /// Treat the query as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Number of documents to skip, if a result says that not all were searched.
    #[serde(default)]
    offset: usize,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MAX_HITS))]
    max_results: Option<usize>,
}

impl Tool for SearchDocuments {
    const NAME: &'static str = "search_documents";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let Self { query: text, path, regex, offset, max_results } = self;
        check_query(&text)?;
        let (knowledge, context, begun) = (call.knowledge()?, call.context, Instant::now());
        let limit = max_results.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let query = DocumentQuery { text, regex, limit, neighbours: false, begin_by: Some(begun + TIME_LIMIT) };
        let (mut all, notes) = (Search { next: offset, ..Search::default() }, call.notes());
        let scope = path.clone().unwrap_or_default();
        // Searches at most `MAX_OPEN` documents at a time, until all are searched or the time limit is reached.
        loop {
            let (by, path, offset) = (Arc::clone(knowledge), path.clone(), all.next);
            let opened = call.work(move |job| open(job, path.as_deref(), offset, &*by)).await?;
            let Search { documents, cut, withheld, .. } = opened;
            all = Search {
                documents: Vec::new(),
                cut: cut.or(all.cut),
                withheld: all.withheld + withheld,
                searched: all.searched + documents.len(),
                finds: all.finds,
                ..opened
            };
            let finds = if documents.is_empty() {
                DocumentFinds::default()
            } else {
                let count = text::count(documents.len(), "document");
                let progress = documents::progress_reporter(&context.progress, "indexing");
                let found = knowledge.search(documents, query.clone(), progress, context.cancel.clone()).await;
                found.map_err(|error| documents::failed(&format!("search {count}"), &error))?
            };
            match &mut all.finds {
                Some(previous) => previous.add(finds, limit),
                None => all.finds = Some(finds),
            }
            if all.beyond == 0 || begun.elapsed() >= TIME_LIMIT {
                return Ok(ToolOutput::ok(all.render(&query.text, &scope, &notes)));
            }
        }
    }
}

/// State of a search.
#[derive(Default)]
struct Search {
    /// Open documents to be searched next.
    documents: Vec<OpenDocument>,
    finds: Option<DocumentFinds>,
    /// Number of documents before `documents`.
    next: usize,
    /// Number of documents that remain after `documents`.
    beyond: usize,
    /// Number of documents that require approval to be read.
    withheld: usize,
    /// Reason why there may be more documents.
    cut: Option<&'static str>,
    /// Number of documents that were searched.
    searched: usize,
    /// Note about files that only other tools can search.
    unsearched: Option<String>,
}

impl Search {
    /// Formats the result for the model.
    fn render(self, query: &str, scope: &str, notes: &SearchNotes) -> String {
        let Self { finds, next, beyond, withheld, cut, searched, unsearched, .. } = self;
        let unsearched = unsearched.map(|line| notes.once(scope, format!("\n{line}"))).unwrap_or_default();
        if searched == 0 && withheld == 0 && next > 0 {
            return format!("There are only {} here.", text::count(next, "document"));
        }
        if searched == 0 && withheld == 0 {
            let nothing = "No documents here. list_workspace_files lists all files; grep searches text files.";
            return format!("{nothing}{unsearched}");
        }
        let mut shown = documents::show_finds(query, &finds.unwrap_or_default(), notes);
        if beyond > 0 {
            let beyond = text::count(beyond, "document");
            shown.push_str(&format!(
                "\n[{beyond} not searched: time limit; continue with offset={next}, or set path to a smaller folder]"
            ));
        }
        if let Some(cut) = cut {
            shown.push_str(&format!("\n[not all documents were searched: {cut}; set path to a folder]"));
        }
        if withheld > 0 {
            let withheld = text::count(withheld, "document");
            let note =
                format!("\n[{withheld} skipped: reading requires approval; to request it, set path to one of them]");
            shown.push_str(&notes.once(scope, note));
        }
        shown.push_str(&unsearched);
        shown
    }
}

fn open(job: &Job, path: Option<&str>, offset: usize, knowledge: &dyn Knowledge) -> Result<Search, Failure> {
    let start = job.files.start(path)?;
    let (mut documents, mut left, mut unsearched) = (Vec::new(), UnreadEntries::default(), UnsearchedFiles::default());
    let mut take = |path: &ToolPath| {
        // A file that was removed or cannot be read does not end the search.
        let Ok(opened) = job.files.open_file(path) else { return Ok(()) };
        match documents::document(knowledge, path, opened)? {
            Ok(document) => documents.push(document),
            // The file is not a document, despite its name. The reader reports the mismatch.
            Err(opened) if left_out(&path.to_string()).is_none() => {
                let named = |file| OpenDocument::new(path.to_string(), file);
                documents.extend(opened.content.into_file().map(named));
            }
            Err(_) => {}
        }
        Ok::<_, Failure>(())
    };
    let (mut seen, mut beyond, mut withheld) = (0, 0, 0);
    if job.files.is_folder(&start)? {
        for place in job.files.places(&start) {
            Walk::whole(false).run(job, &place, &mut left, &mut |found| {
                let name = found.path.to_string();
                if found.kind != Kind::File {
                    return Ok(ControlFlow::Continue(()));
                }
                if let Some(reason) = left_out(&name) {
                    if is_attached(&name) {
                        unsearched.add(reason);
                    }
                } else {
                    seen += 1;
                    if seen > offset.saturating_add(MAX_OPEN) {
                        beyond += 1;
                    } else if seen > offset {
                        // Even a match would reveal part of the file's contents.
                        if job.reading.allow(&name) { take(&found.path)? } else { withheld += 1 }
                    }
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
    } else {
        take(&start)?;
    }
    job.check()?;
    let (unsearched, next) = (unsearched.line(&left), seen - beyond);
    Ok(Search { documents, cut: left.cut, beyond, next, withheld, unsearched, ..Search::default() })
}

/// Default number of hits in one file.
const DEFAULT_HITS_IN_FILE: usize = 8;
/// Maximum number of returned hits.
const MAX_HITS: usize = 50;

/// Searches one file and returns the places to cite: the page of a PDF, the slide, the sheet and its cells, the
/// line of a text. Query with a few words in the language of the file; put phrases in double quotes. Use it before
/// read_file on long documents.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SearchFile {
    /// The file, such as uploads/report.pdf.
    path: String,
    /// Words, or a "phrase in quotes".
    query: String,
    /// Treat the query as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MAX_HITS))]
    max_results: Option<usize>,
}

impl Tool for SearchFile {
    const NAME: &'static str = "search_file";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let knowledge = call.knowledge()?;
        let (by, notes) = (Arc::clone(knowledge), call.notes());
        let (document, query) = match call.work(move |job| prepare(job, self, &*by, &notes)).await? {
            PreparedFile::Text(output) => return Ok(output),
            PreparedFile::Document(document, query) => (document, query),
        };
        let (context, name) = (call.context, document.name.clone());
        let search = |document: OpenDocument| {
            let progress = documents::progress_reporter(&context.progress, "indexing");
            let found = knowledge.search(vec![document], query.clone(), progress, context.cancel.clone());
            let reject_locked = |finds: DocumentFinds| match (finds.locked.is_empty(), finds.broken.first()) {
                (false, Some((_, reason))) => {
                    Err(KnowledgeError::new(ErrorKind::Rejected, reason.clone()).with_password_needed(true))
                }
                _ => Ok(finds),
            };
            found.map(move |found| found.and_then(reject_locked)).boxed()
        };
        let finds =
            documents::unlock(context, &call.services.passwords, document, &format!("search {name}"), search).await?;
        match (finds.broken.first(), finds.searched) {
            (Some((_, reason)), 0) => Err(Failure::tool(format!("{name} could not be searched: {reason}"))),
            _ => Ok(ToolOutput::ok(documents::show_finds(&query.text, &finds, &call.notes()))),
        }
    }
}

fn prepare(
    job: &Job,
    args: SearchFile,
    knowledge: &dyn Knowledge,
    notes: &SearchNotes,
) -> Result<PreparedFile<DocumentQuery>, Failure> {
    let SearchFile { path: written, query: text, regex, max_results } = args;
    check_query(&text)?;
    let (path, inner) = documents::locate(job, &written)?;
    let opened = job.files.open_file(&path)?;
    let (document, limit) = match documents::document(knowledge, &path, opened)? {
        Ok(document) => {
            (documents::with_inner(document, inner), max_results.unwrap_or(DEFAULT_HITS_IN_FILE).clamp(1, MAX_HITS))
        }
        Err(opened) => match documents::searchable(knowledge, &path, opened)? {
            Some(document) => (document, DEFAULT_HITS_IN_FILE),
            None => {
                let args = grep::Args::of_file(written, pattern(&text, regex));
                return grep::run(job, args, notes).map(PreparedFile::Text);
            }
        },
    };
    // A single file is read without a time limit.
    Ok(PreparedFile::Document(document, DocumentQuery { text, regex, limit, neighbours: true, begin_by: None }))
}

fn check_query(query: &str) -> Result<(), Failure> {
    const MAX_QUERY: usize = 2000;
    if query.trim().is_empty() || query.len() > MAX_QUERY {
        return Err(Failure::arguments(format!("`query` must be 1 to {MAX_QUERY} bytes long and not blank")));
    }
    Ok(())
}

/// Returns a regular expression that matches lines with any of the words or phrases.
fn pattern(query: &str, regex: bool) -> String {
    if regex {
        return query.to_owned();
    }
    let terms = SearchQuery::parse(query).map(|query| query.terms().to_vec());
    let terms = terms.unwrap_or_else(|| vec![query.trim().to_owned()]);
    terms.iter().map(|term| regex_syntax::escape(term)).collect::<Vec<_>>().join("|")
}
