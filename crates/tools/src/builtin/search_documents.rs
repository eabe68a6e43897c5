//! `search_documents`: what the documents of a session say about something, each find with the place to cite.

use std::{ops::ControlFlow, sync::Arc};

use agentd_core::{
    knowledge::{DocumentQuery, OpenDocument},
    ports::{CallProgress, Knowledge},
    tool::ToolOutput,
};
use serde::Deserialize;
use serde_json::{Value, json};
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
        walk::{Kind, Left, Walk},
    },
};

pub(crate) const DESCRIPTION: &str = "Finds what the documents of this session say about something (PDF, Word, Excel, \
    PowerPoint and the like, in the workspace and the project) and tells file and place of each find, to be cited. Ask \
    with a few words in the language of the documents; put a phrase into double quotes. Text files and code are \
    searched by grep.";

/// Finds where no number is given.
const USUAL: usize = 10;

pub(crate) fn parameters() -> Value {
    super::object(
        json!({
            "query": {"type": "string", "description": "Words, or a \"phrase in quotes\"."},
            "path": {"type": "string", "description": "A folder to look in. Leave it out for all documents."},
            "regex": {"type": "boolean", "description": "Take the query as a regular expression."},
            "max_results": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "How many finds to show."}
        }),
        &["query"],
    )
}

#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    query: String,
    path: Option<String>,
    #[serde(default)]
    regex: bool,
    max_results: Option<usize>,
}

/// The documents, open.
pub(crate) struct Prepared {
    documents: Vec<OpenDocument>,
    query: DocumentQuery,
    /// Why there may be more.
    cut: Option<&'static str>,
    /// Those that the rules do not let be read without asking.
    withheld: usize,
}

pub(crate) fn prepare(job: &Job, args: Args, knowledge: &Arc<dyn Knowledge>) -> Result<Prepared, Failure> {
    let Args { query: text, path, regex, max_results } = args;
    check(&text)?;
    let start = job.files.locate(path.as_deref().unwrap_or("."))?;
    let (mut documents, mut left) = (Vec::new(), Left::default());
    let mut take = |path: &ToolPath| {
        // One that went away or may not be read is no reason to end the search.
        let Ok(opened) = job.files.open_file(path) else { return Ok(()) };
        if let Ok(document) = documents::document(&**knowledge, path, opened)? {
            documents.push(document);
        }
        Ok::<_, Failure>(())
    };
    let (mut full, mut withheld) = (false, 0);
    if job.files.is_folder(&start)? {
        let mut count = 0;
        for place in job.files.places(&start) {
            Walk::whole(false).run(job, &place, &mut left, &mut |found| {
                let name = found.path.to_string();
                if found.kind == Kind::File && has_document_name(&name) {
                    // That it has a hit would tell something of it, too.
                    if job.reading.allow(&name) {
                        take(&found.path)?;
                        count += 1;
                    } else {
                        withheld += 1;
                    }
                }
                full = count >= MAX_OPEN;
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
    } else {
        take(&start)?;
    }
    job.check()?;
    let cut = if full { Some("there are too many documents") } else { left.cut };
    let limit = max_results.unwrap_or(USUAL).clamp(1, MOST);
    Ok(Prepared { documents, query: DocumentQuery { text, regex, limit, neighbours: false }, cut, withheld })
}

pub(crate) async fn search(
    knowledge: &dyn Knowledge,
    prepared: Prepared,
    progress: &CallProgress,
    cancel: CancellationToken,
) -> Result<ToolOutput, Failure> {
    let Prepared { documents, query, cut, withheld } = prepared;
    if documents.is_empty() && withheld == 0 {
        let nothing = "There is no document here. list_workspace_files shows what is; grep searches text files.";
        return Ok(ToolOutput::ok(nothing));
    }
    let (asked, count) = (query.text.clone(), documents.len());
    let finds = knowledge.search(documents, query, documents::telling(progress), cancel).await;
    let doing = || format!("search {}", text::count(count, "document"));
    let finds = finds.map_err(|error| documents::failed(&doing(), &error))?;
    let mut shown = documents::show_finds(&asked, &finds);
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
