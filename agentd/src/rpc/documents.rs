//! Session documents: indexing, listing, reading and searching for users. Also embeddings of documents and code.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use agentd_core::{
    code::{CodeAnswer, CodeQuestion},
    embedding::{EmbeddingReport, TextGroup, digest, group_name},
    error::ErrorKind,
    ids::SessionId,
    knowledge::{DocumentFinds, DocumentProgress, DocumentQuery, DocumentState, OpenDocument, PartRange, Password},
    ports::{Embeddings, Knowledge, OnProgress},
};
use agentd_engine::Engine;
use agentd_policy::holds_secrets;
use agentd_proto::v1::{self, documents_server::Documents, index_documents_response::Part, search_documents_step};
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;

use super::{Context, Refusal, ReplyStream};

/// Capacity for unread progress messages to the client. Further messages are dropped, because later messages supersede
/// them.
const PROGRESS_QUEUE: usize = 32;
/// Maximum number of paths in one request.
const MAX_PATHS: usize = 10_000;
/// Maximum number of open documents for one request.
const MAX_OPEN_DOCUMENTS: usize = 300;
/// Time limit of a search, after which no further documents are searched.
const SEARCH_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum number of results for one request.
const MAX_RESULTS: usize = 200;
/// Maximum number of embedded chunks of code in a folder.
const MAX_CHUNKS: usize = 200_000;
/// Maximum size of a query in bytes.
const MAX_QUERY_BYTES: usize = 2000;

service! { Documents:
    type IndexStream = ReplyStream<v1::IndexDocumentsResponse>;
    type SearchWithProgressStream = ReplyStream<v1::SearchDocumentsStep>;

    async fn index(&self, request: v1::IndexDocumentsRequest) -> Self::IndexStream {
        let mut pages = self.documents(&request.session, request.paths).await?;
        // Errors of the first page are reported before the stream starts.
        let mut page = pages.next(&self.engine).await?;
        let progress = |step: DocumentProgress| part(Part::Progress((&step).into()));
        // Documents that were read completely stay indexed if the client disconnects.
        Ok(self.stream_progress(progress, async move |context, progress, cancel| {
            let mut states = Vec::new();
            while let Some(documents) = page.take() {
                let ingested = context.knowledge().ingest(documents, request.again, Arc::clone(&progress), cancel.clone());
                states.extend(ingested.await?);
                page = pages.next(&context.engine).await?;
            }
            Ok(part(Part::Done(list_response(&states, pages.notes))))
        }))
    }

    async fn list(&self, request: v1::ListDocumentsRequest) -> v1::ListDocumentsResponse {
        let mut pages = self.documents(&request.session, vec![request.path]).await?;
        let mut states = Vec::new();
        while let Some(documents) = pages.next(&self.engine).await? {
            states.extend(self.knowledge().states(documents).await?);
        }
        Ok(list_response(&states, pages.notes))
    }

    async fn read(&self, request: v1::ReadDocumentRequest) -> v1::ReadDocumentResponse {
        let range = PartRange::from(&request);
        if request.path.is_empty() {
            return Err(Refusal::invalid("missing document path").into());
        }
        let mut pages = self.documents(&request.session, vec![request.path.clone()]).await?;
        let documents = pages.next(&self.engine).await?.unwrap_or_default();
        let one: Result<[OpenDocument; 1], _> = documents.try_into();
        let [document] = one.map_err(|_| {
            Refusal::invalid(format!("{} is a folder", request.path)).with_hint("name one document in it")
        })?;
        let cancel = self.shutdown.child_token();
        let _guard = cancel.clone().drop_guard();
        let document = OpenDocument { password: request.password.map(Password::new), ..document };
        Ok(match self.knowledge().read(document, range, Arc::new(|_| {}), cancel).await {
            Err(error) if error.needs_password() => {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                v1::ReadDocumentResponse {
                    parts_are: v1::PartKind::Page.into(),
                    broken: Some(format!("{error}{hint}")),
                    locked: true,
                    ..v1::ReadDocumentResponse::default()
                }
            }
            read => (&read?).into(),
        })
    }

    async fn search(&self, request: v1::SearchDocumentsRequest) -> v1::SearchDocumentsResponse {
        let (pages, query) = self.parse_search(request).await?;
        let cancel = self.shutdown.child_token();
        let _guard = cancel.clone().drop_guard();
        let progress: OnProgress = Arc::new(|_| {});
        Ok((&search_all(&self.engine, self.knowledge(), pages, query, &progress, &cancel).await?).into())
    }

    async fn search_with_progress(&self, request: v1::SearchDocumentsRequest) -> Self::SearchWithProgressStream {
        let (pages, query) = self.parse_search(request).await?;
        let step = |part| v1::SearchDocumentsStep { part: Some(part) };
        let progress = move |read: DocumentProgress| step(search_documents_step::Part::Progress((&read).into()));
        Ok(self.stream_progress(progress, async move |context, progress, cancel| {
            let finds = search_all(&context.engine, context.knowledge(), pages, query, &progress, &cancel).await?;
            Ok(step(search_documents_step::Part::Done((&finds).into())))
        }))
    }

    async fn embed(&self, request: v1::EmbedRequest) -> v1::EmbeddingReport {
        let embeddings = self.engine.ports().models.embeddings().ok_or_else(|| {
            Refusal::new(ErrorKind::Configuration, "no server for embeddings is configured")
                .with_hint("set `embeddings` in models.yaml")
        })?;
        let pages = self.documents(&request.session, Vec::new()).await?;
        let report = EmbeddingReport { sent: request.send, ..EmbeddingReport::default() };
        let cancel = self.shutdown.child_token();
        let _guard = cancel.clone().drop_guard();
        let work = embed(self, &*embeddings, pages, report, &cancel);
        Ok((&cancel.run_until_cancelled(work).await.ok_or_else(Refusal::stopping)??).into())
    }

    async fn stats(&self, _: v1::DocumentStatsRequest) -> v1::DocumentStatsResponse {
        Ok((&self.knowledge().stats().await?).into())
    }
}

impl Context {
    fn knowledge(&self) -> &dyn Knowledge {
        &*self.parts().library
    }

    /// Runs work that reports progress, and streams the progress and the result. The work is cancelled when the client
    /// disconnects.
    fn stream_progress<T: Send + 'static, F: Future<Output = Result<T, Refusal>> + Send + 'static>(
        &self,
        step: impl Fn(DocumentProgress) -> T + Send + Sync + 'static,
        work: impl FnOnce(Self, OnProgress, CancellationToken) -> F,
    ) -> ReplyStream<T> {
        let (steps, received) = mpsc::channel(PROGRESS_QUEUE);
        let cancel = self.shutdown.child_token();
        let guard = cancel.clone().drop_guard();
        let sender = steps.clone();
        let progress: OnProgress = Arc::new(move |read| drop(sender.try_send(Ok(step(read)))));
        let work = work(self.clone(), progress, cancel);
        tokio::spawn(async move {
            let last = work.await.map_err(Status::from);
            // The send fails if the client has disconnected.
            let _ = steps.send(last).await;
        });
        let next = |(mut received, guard): (mpsc::Receiver<_>, DropGuard)| async {
            received.recv().await.map(|step| (step, (received, guard)))
        };
        stream::unfold((received, guard), next).boxed()
    }

    /// Returns the documents at these paths without duplicates, or all documents of the session if `paths` is empty.
    async fn documents(&self, session: &str, paths: Vec<String>) -> Result<Pages, Refusal> {
        let session = self.session_id(session).await?;
        if paths.len() > MAX_PATHS {
            return Err(Refusal::invalid(format!("too many paths (at most {MAX_PATHS} at once)")));
        }
        let paths = if paths.is_empty() { vec![String::new()] } else { paths };
        Ok(Pages { session, paths: paths.into(), offset: 0, names: HashSet::new(), notes: Vec::new() })
    }

    /// Reads the documents and the query of a search request.
    async fn parse_search(&self, request: v1::SearchDocumentsRequest) -> Result<(Pages, DocumentQuery), Refusal> {
        let query = DocumentQuery::from(&request);
        if query.text.trim().is_empty() || query.text.len() > MAX_QUERY_BYTES {
            let message = format!("invalid query: it must have 1 to {MAX_QUERY_BYTES} bytes and must not be blank");
            return Err(Refusal::invalid(message));
        }
        let mut pages = self.documents(&request.session, request.paths).await?;
        if query.limit > MAX_RESULTS {
            let requested = query.limit;
            pages.notes.push(format!("a search returns at most {MAX_RESULTS} results, and {requested} were requested"));
        }
        let limit = query.limit.min(MAX_RESULTS);
        Ok((pages, DocumentQuery { limit, ..query }))
    }
}

/// The documents at the requested paths, loaded page by page to limit the number of open files.
struct Pages {
    session: SessionId,
    paths: VecDeque<String>,
    /// Number of documents already returned for the first remaining path.
    offset: usize,
    /// Names of all returned documents, as two paths may lead to the same one.
    names: HashSet<String>,
    /// Reasons for missing documents, by path.
    notes: Vec<String>,
}

impl Pages {
    /// Returns the next page, or `None` at the end.
    async fn next(&mut self, engine: &Engine) -> Result<Option<Vec<OpenDocument>>, Refusal> {
        let mut documents = Vec::new();
        while documents.len() < MAX_OPEN_DOCUMENTS
            && let Some(path) = self.paths.front()
        {
            let limit = MAX_OPEN_DOCUMENTS - documents.len();
            let tree = engine.tree(self.session).await?;
            let page = engine.ports().workspaces.open_documents(tree, path.clone(), self.offset, limit).await?;
            if let (Some(cut), 0) = (&page.cut, self.offset) {
                let below = if path.is_empty() { String::new() } else { format!(" below {path}") };
                self.notes.push(format!("not all documents{below} were found: {cut}"));
            }
            // Some documents may have disappeared since they were counted.
            self.offset += limit;
            if page.found <= limit {
                self.paths.pop_front();
                self.offset = 0;
            }
            let names = &mut self.names;
            documents.extend(page.documents.into_iter().filter(|document| names.insert(document.name.clone())));
        }
        Ok(Some(documents).filter(|documents| !documents.is_empty()))
    }

    /// Returns the number of remaining documents.
    async fn count_remaining(&mut self, engine: &Engine) -> Result<usize, Refusal> {
        let mut count = 0;
        while let Some(path) = self.paths.pop_front() {
            let tree = engine.tree(self.session).await?;
            count += engine.ports().workspaces.open_documents(tree, path, self.offset, 0).await?.found;
            self.offset = 0;
        }
        Ok(count)
    }
}

/// Searches page by page until the time limit. Remaining documents are only counted.
async fn search_all(
    engine: &Engine,
    knowledge: &dyn Knowledge,
    mut pages: Pages,
    query: DocumentQuery,
    progress: &OnProgress,
    cancel: &CancellationToken,
) -> Result<DocumentFinds, Refusal> {
    let begin_by = query.begin_by.unwrap_or_else(|| Instant::now() + SEARCH_TIME_LIMIT);
    let query = DocumentQuery { begin_by: Some(begin_by), ..query };
    let (mut finds, mut is_first) = (DocumentFinds::default(), true);
    while let Some(documents) = pages.next(engine).await? {
        let found = knowledge.search(documents, query.clone(), Arc::clone(progress), cancel.clone());
        let found = found.await.map_err(Refusal::from)?;
        if is_first {
            finds = found;
        } else {
            finds.add(found, query.limit);
        }
        is_first = false;
        if Instant::now() > begin_by {
            finds.not_searched += pages.count_remaining(engine).await?;
            break;
        }
    }
    finds.notes.append(&mut pages.notes);
    Ok(finds)
}

/// Embeds the documents of a session, then the code of its project and added folders, or counts their texts.
async fn embed(
    context: &Context,
    embeddings: &dyn Embeddings,
    mut pages: Pages,
    mut report: EmbeddingReport,
    cancel: &CancellationToken,
) -> Result<EmbeddingReport, Refusal> {
    let workspace = context.engine.tree(pages.session).await?.workspace;
    while let Some(documents) = pages.next(&context.engine).await? {
        for document in documents.into_iter().filter(|document| !holds_secrets(&document.name)) {
            let group = context.knowledge().texts(document, cancel.clone()).await?;
            embeddings.add(&group, &mut report).await?;
        }
    }
    let folders = workspace.project.iter().map(|it| &it.path).chain(workspace.folders.iter().map(|it| &it.path));
    for folder in folders.filter(|folder| embeddings.covers(folder)) {
        let Some(code) = &context.parts().code else { break };
        let mut group = TextGroup { name: group_name("code", &folder.to_string_lossy()), texts: Vec::new() };
        while group.texts.len() < MAX_CHUNKS {
            let question = CodeQuestion::Chunks { from: group.texts.len() };
            let reply = code.ask(folder.clone(), question, Arc::new(|_| {}), cancel.clone()).await?;
            let CodeAnswer::Hits(hits) = reply.answer else { break };
            if hits.is_empty() {
                break;
            }
            group.texts.extend(hits.into_iter().map(|hit| (digest(&hit.text), hit.text)));
        }
        embeddings.add(&group, &mut report).await?;
    }
    Ok(report)
}

fn list_response(states: &[DocumentState], notes: Vec<String>) -> v1::ListDocumentsResponse {
    v1::ListDocumentsResponse { notes, documents: states.iter().map(Into::into).collect() }
}

fn part(part: Part) -> v1::IndexDocumentsResponse {
    v1::IndexDocumentsResponse { part: Some(part) }
}
