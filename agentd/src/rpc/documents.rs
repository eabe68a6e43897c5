//! Documents of sessions: indexed, listed, read and searched for a person.

use std::{collections::HashSet, sync::Arc};

use agentd_core::knowledge::{DocumentFinds, DocumentProgress, DocumentQuery, OpenDocument, PartRange};
use agentd_proto::v1::{self, documents_server::Documents, index_documents_response::Part};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;
use tonic::{Request, Response, Status};

use super::{Context, Refusal};

/// Steps that a client has not taken yet; more are left out, as the next one says more.
const STEPS: usize = 32;
/// Paths of one request.
const MOST_PATHS: usize = 300;
/// Finds of one request.
const MOST_FINDS: usize = 200;
/// Bytes of a query.
const MOST_QUERY: usize = 2000;

#[tonic::async_trait]
impl Documents for Context {
    type IndexStream = BoxStream<'static, Result<v1::IndexDocumentsResponse, Status>>;

    async fn index(&self, request: Request<v1::IndexDocumentsRequest>) -> Result<Response<Self::IndexStream>, Status> {
        let v1::IndexDocumentsRequest { session, paths, again } = request.into_inner();
        let documents = self.documents(&session, paths).await?;
        let (steps, told) = mpsc::channel(STEPS);
        // Whoever goes away ends the reading; what was read whole by then stays.
        let cancel = self.shutdown.child_token();
        let guard = cancel.clone().drop_guard();
        let knowledge = Arc::clone(&self.knowledge);
        tokio::spawn(async move {
            let sender = steps.clone();
            let progress = Arc::new(move |step: DocumentProgress| {
                drop(sender.try_send(Ok(part(Part::Progress((&step).into())))));
            });
            let done = knowledge.take_in(documents, again, progress, cancel).await;
            let last = done.map(|states| part(Part::Done(states.as_slice().into())));
            // Nobody waits for it when the client is gone.
            let _ = steps.send(last.map_err(|error| Status::from(Refusal::from(error)))).await;
        });
        let next = |(mut told, guard): (mpsc::Receiver<_>, DropGuard)| async {
            told.recv().await.map(|step| (step, (told, guard)))
        };
        Ok(Response::new(stream::unfold((told, guard), next).boxed()))
    }

    async fn list(
        &self,
        request: Request<v1::ListDocumentsRequest>,
    ) -> Result<Response<v1::ListDocumentsResponse>, Status> {
        let v1::ListDocumentsRequest { session, path } = request.into_inner();
        let documents = self.documents(&session, vec![path]).await?;
        let states = self.knowledge.states(documents).await.map_err(Refusal::from)?;
        Ok(Response::new(states.as_slice().into()))
    }

    async fn read(
        &self,
        request: Request<v1::ReadDocumentRequest>,
    ) -> Result<Response<v1::ReadDocumentResponse>, Status> {
        let request = request.into_inner();
        let range = PartRange::from(&request);
        if request.path.is_empty() {
            return Err(Refusal::invalid("the request names no document").into());
        }
        let documents = self.documents(&request.session, vec![request.path.clone()]).await?;
        let one: Result<[OpenDocument; 1], _> = documents.try_into();
        let [document] = one.map_err(|_| {
            Refusal::invalid(format!("{} is a folder", request.path)).with_hint("name one document in it")
        })?;
        let cancel = self.shutdown.child_token();
        let _guard = cancel.clone().drop_guard();
        let reading = self.knowledge.read(document, range, cancel).await.map_err(Refusal::from)?;
        Ok(Response::new(reading.into()))
    }

    async fn search(
        &self,
        request: Request<v1::SearchDocumentsRequest>,
    ) -> Result<Response<v1::SearchDocumentsResponse>, Status> {
        let request = request.into_inner();
        let mut query = DocumentQuery::from(&request);
        query.limit = query.limit.min(MOST_FINDS);
        if query.text.trim().is_empty() || query.text.len() > MOST_QUERY {
            let why = format!("could not search: a query has from 1 to {MOST_QUERY} bytes and says something");
            return Err(Refusal::invalid(why).into());
        }
        let documents = self.documents(&request.session, request.paths).await?;
        let finds = if documents.is_empty() {
            DocumentFinds::default()
        } else {
            let cancel = self.shutdown.child_token();
            let _guard = cancel.clone().drop_guard();
            self.knowledge.search(documents, query, Arc::new(|_| {}), cancel).await.map_err(Refusal::from)?
        };
        Ok(Response::new((&finds).into()))
    }

    async fn stats(&self, _: Request<v1::DocumentStatsRequest>) -> Result<Response<v1::DocumentStatsResponse>, Status> {
        let stats = self.knowledge.stats().await.map_err(Refusal::from)?;
        Ok(Response::new((&stats).into()))
    }
}

impl Context {
    /// The documents at these paths, each once; all of the session where there are none.
    async fn documents(&self, session: &str, paths: Vec<String>) -> Result<Vec<OpenDocument>, Refusal> {
        let session = self.session_id(session).await?;
        if paths.len() > MOST_PATHS {
            return Err(Refusal::invalid(format!("could not take more than {MOST_PATHS} paths at once")));
        }
        let (mut documents, mut names) = (Vec::new(), HashSet::new());
        for path in if paths.is_empty() { vec![String::new()] } else { paths } {
            for document in self.engine.open_documents(session, path).await? {
                if names.insert(document.name.clone()) {
                    documents.push(document);
                }
            }
        }
        if documents.len() > MOST_PATHS {
            return Err(Refusal::invalid(format!("could not take more than {MOST_PATHS} documents at once"))
                .with_hint("name the folders one by one"));
        }
        Ok(documents)
    }
}

fn part(part: Part) -> v1::IndexDocumentsResponse {
    v1::IndexDocumentsResponse { part: Some(part) }
}
