//! `search_file`: what one file says about something, with the place: documents by the index, text line by line.

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, KnowledgeError},
    knowledge::{DocumentFinds, DocumentQuery, OpenDocument},
    ports::Knowledge,
    search::SearchQuery,
    tool::ToolOutput,
};
use agentd_workspace::{backend::Backend as _, failure::Failure, job::Job};
use futures_util::FutureExt as _;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    call::{Call, Tool},
    documents::{self, PreparedFile},
    grep, passwords,
};

/// Finds where no number is given.
const USUAL: usize = 8;
/// Maximum number of hits.
pub(super) const MOST: usize = 50;

/// Searches one file and returns the places to cite: the page of a PDF, the slide, the sheet and its cells, the
/// line of a text. Query with a few words in the language of the file; put a phrase into double quotes. Use it
/// before read_file on long documents.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The file, such as uploads/report.pdf.
    path: String,
    /// Words, or a "phrase in quotes".
    query: String,
    /// Treat the query as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MOST))]
    max_results: Option<usize>,
}

impl Tool for Args {
    const NAME: &'static str = "search_file";

    async fn run(self, call: Call<'_>) -> Result<ToolOutput, Failure> {
        let knowledge = call.knowledge()?;
        let by = Arc::clone(knowledge);
        let (document, query) = match call.work_with(move |job| prepare(job, self, &*by)).await? {
            PreparedFile::Text(output) => return Ok(output),
            PreparedFile::Document(document, query) => (document, query),
        };
        let (context, name) = (call.context, document.name.clone());
        let search = |document: OpenDocument| {
            let progress = documents::telling(&context.progress, "indexing");
            let found = knowledge.search(vec![document], query.clone(), progress, context.cancel.clone());
            let judge = |finds: DocumentFinds| match (finds.locked.is_empty(), finds.broken.first()) {
                (false, Some((_, why))) => {
                    Err(KnowledgeError::new(ErrorKind::Rejected, why.clone()).needing_password(true))
                }
                _ => Ok(finds),
            };
            found.map(move |found| found.and_then(judge)).boxed()
        };
        let finds =
            passwords::unlocked(context, &call.services.passwords, document, &format!("search {name}"), search).await?;
        match (finds.broken.first(), finds.searched) {
            (Some((_, why)), 0) => Err(Failure::tool(format!("{name} could not be searched: {why}"))),
            _ => Ok(ToolOutput::ok(documents::show_finds(&query.text, &finds))),
        }
    }
}

fn prepare(job: &Job, args: Args, knowledge: &dyn Knowledge) -> Result<PreparedFile<DocumentQuery>, Failure> {
    let Args { path: written, query: text, regex, max_results } = args;
    check(&text)?;
    let (path, inner) = documents::located(job, &written)?;
    let opened = job.files.open_file(&path)?;
    let (document, limit) = match documents::document(knowledge, &path, opened)? {
        Ok(document) => (documents::within(document, inner), max_results.unwrap_or(USUAL).clamp(1, MOST)),
        Err(opened) => match documents::searchable(knowledge, &path, opened)? {
            Some(document) => (document, USUAL),
            None => return grep::run(job, grep::Args::of_file(written, pattern(&text, regex))).map(PreparedFile::Text),
        },
    };
    // One file is read however long that takes.
    Ok(PreparedFile::Document(document, DocumentQuery { text, regex, limit, neighbours: true, begin_by: None }))
}

pub(super) fn check(query: &str) -> Result<(), Failure> {
    const MAX_QUERY: usize = 2000;
    if query.trim().is_empty() || query.len() > MAX_QUERY {
        return Err(Failure::arguments(format!("`query` must have from 1 to {MAX_QUERY} bytes and say something")));
    }
    Ok(())
}

/// The lines of a text that hold any of the words or phrases.
fn pattern(query: &str, regex: bool) -> String {
    if regex {
        return query.to_owned();
    }
    let terms = SearchQuery::parse(query).map(|query| query.terms().to_vec());
    let terms = terms.unwrap_or_else(|| vec![query.trim().to_owned()]);
    terms.iter().map(|term| regex_syntax::escape(term)).collect::<Vec<_>>().join("|")
}
