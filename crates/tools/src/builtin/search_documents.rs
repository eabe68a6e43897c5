//! `search_documents`: what the documents of a session say about something, each find with the place to cite.

use std::{ops::ControlFlow, sync::Arc};

use agentd_core::{
    knowledge::{DocumentQuery, OpenDocument},
    ports::{CallProgress, Knowledge},
    tool::ToolOutput,
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    documents,
    search_file::{MOST, check},
};
use crate::{
    failure::Failure,
    job::Job,
    text,
    workspace::{
        backend::Backend as _,
        documents::{MAX_OPEN, has_document_name},
        path::ToolPath,
        walk::{Kind, UnreadEntries, Walk},
    },
};

/// Finds where no number is given.
const USUAL: usize = 10;

/// Searches the documents of this session (PDF, Word, Excel, PowerPoint and the like, in the workspace and the project) and
/// returns file and place of each hit, to be cited. Query with a few words in the language of the documents; put a phrase
/// into double quotes. Use grep for text files and code.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// Words, or a "phrase in quotes".
    query: String,
    /// A folder to look in. Leave it out for all documents.
    path: Option<String>,
    /// Treat the query as a regular expression.
    #[serde(default)]
    regex: bool,
    /// Number of documents to skip, if a result says that not all were searched.
    #[serde(default)]
    offset: usize,
    /// Maximum number of hits.
    #[schemars(range(min = 1, max = MOST))]
    max_results: Option<usize>,
}

/// The documents, open.
pub(crate) struct PreparedSearch {
    documents: Vec<OpenDocument>,
    query: DocumentQuery,
    /// Reason why there may be more.
    cut: Option<&'static str>,
    /// Those after the ones that are open.
    beyond: usize,
    /// The number of documents before those.
    next: usize,
    /// Those that the rules do not let be read without asking.
    withheld: usize,
}

pub(crate) fn prepare(job: &Job, args: Args, knowledge: &Arc<dyn Knowledge>) -> Result<PreparedSearch, Failure> {
    let Args { query: text, path, regex, offset, max_results } = args;
    check(&text)?;
    let start = job.files.start(path.as_deref())?;
    let (mut documents, mut left) = (Vec::new(), UnreadEntries::default());
    let mut take = |path: &ToolPath| {
        // One that went away or may not be read is no reason to end the search.
        let Ok(opened) = job.files.open_file(path) else { return Ok(()) };
        match documents::document(&**knowledge, path, opened)? {
            Ok(document) => documents.push(document),
            // Named as one and something else by its bytes: whoever reads it says so.
            Err(opened) if has_document_name(&path.to_string()) => {
                let named = |file| OpenDocument { name: path.to_string(), file };
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
                if found.kind == Kind::File && has_document_name(&name) {
                    seen += 1;
                    if seen > offset.saturating_add(MAX_OPEN) {
                        beyond += 1;
                    } else if seen > offset {
                        // That it has a hit would tell something of it, too.
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
    let (cut, next) = (left.cut, seen - beyond);
    let limit = max_results.unwrap_or(USUAL).clamp(1, MOST);
    Ok(PreparedSearch {
        documents,
        query: DocumentQuery { text, regex, limit, neighbours: false },
        cut,
        beyond,
        next,
        withheld,
    })
}

pub(crate) async fn search(
    knowledge: &dyn Knowledge,
    prepared: PreparedSearch,
    progress: &CallProgress,
    cancel: CancellationToken,
) -> Result<ToolOutput, Failure> {
    let PreparedSearch { documents, query, cut, beyond, next, withheld } = prepared;
    if documents.is_empty() && withheld == 0 && next > 0 {
        return Ok(ToolOutput::ok(format!("There are {} here, and no more.", text::count(next, "document"))));
    }
    if documents.is_empty() && withheld == 0 {
        let nothing = "There is no document here. list_workspace_files shows what is; grep searches text files.";
        return Ok(ToolOutput::ok(nothing));
    }
    let (asked, count) = (query.text.clone(), documents.len());
    let finds = knowledge.search(documents, query, documents::telling(progress), cancel).await;
    let doing = || format!("search {}", text::count(count, "document"));
    let finds = finds.map_err(|error| documents::failed(&doing(), &error))?;
    let mut shown = documents::show_finds(&asked, &finds);
    if beyond > 0 {
        let beyond = text::count(beyond, "document");
        shown.push_str(&format!(
            "\n[{beyond} not searched, because there are too many; continue with offset={next}, or name a smaller folder with path]"
        ));
    }
    if let Some(cut) = cut {
        shown.push_str(&format!("\n[not all documents were searched: {cut}; name a folder with path]"));
    }
    if withheld > 0 {
        let withheld = text::count(withheld, "document");
        shown.push_str(&format!(
            "\n[{withheld} left out, which the rules do not let you read without asking; of one that you name as path they \
             decide]"
        ));
    }
    Ok(ToolOutput::ok(shown))
}
