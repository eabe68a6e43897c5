//! Sessions.

use agentd_core::{files::UploadReceipt, item::Item};
use agentd_engine::{ForkWishes, ForkedSession, SessionHandle};
use agentd_proto::{
    MAX_CHUNK_BYTES,
    client::{ForkReply, NumberedItem, SessionView},
    convert::{WireError, chosen_slot, mode_of, optional_moment, session_filter},
    v1::{self, sessions_server::Sessions},
};
use tonic::{Request, Response, Status, Streaming};

use super::{Context, Refusal};

/// Default number of listed sessions.
const DEFAULT_SESSIONS: usize = 100;

/// Default number of items.
const DEFAULT_ITEMS: usize = 1000;

/// Default number of finds.
const DEFAULT_FINDS: usize = 20;

/// Maximum number of finds.
const MAX_FINDS: usize = 200;

/// Maximum number of items.
const MAX_ITEMS: usize = 10_000;

/// Maximum size of an answer with items, in bytes of text: below what readers take in one message.
const MAX_ITEMS_BYTES: usize = 12 * 1024 * 1024;

#[tonic::async_trait]
impl Sessions for Context {
    async fn create(&self, request: Request<v1::CreateSessionRequest>) -> Result<Response<v1::Session>, Status> {
        let request = request.into_inner();
        let session = self.new_session(request.settings, request.title).await?;
        Ok(Response::new(show(&session).await?))
    }

    async fn list(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let v1::ListSessionsRequest { limit, children, after, filter } = request.into_inner();
        let filter = session_filter(filter).map_err(Refusal::from)?;
        let limit = given(limit).unwrap_or(DEFAULT_SESSIONS);
        let page = self.engine.filtered_page(place(&after)?, limit, children, &filter).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListSessionsResponse {
            sessions: page.sessions.iter().map(Into::into).collect(),
            next: page.next.map(|next| next.to_string()).unwrap_or_default(),
        }))
    }

    async fn get(&self, request: Request<v1::GetSessionRequest>) -> Result<Response<v1::Session>, Status> {
        let session = self.session(&request.into_inner().session).await?;
        Ok(Response::new(show(&session).await?))
    }

    async fn find(
        &self,
        request: Request<v1::FindSessionRequest>,
    ) -> Result<Response<v1::FindSessionResponse>, Status> {
        let session_id = self.session_id(&request.into_inner().prefix).await?.to_string();
        Ok(Response::new(v1::FindSessionResponse { session_id }))
    }

    async fn rename(
        &self,
        request: Request<v1::RenameSessionRequest>,
    ) -> Result<Response<v1::RenameSessionResponse>, Status> {
        let request = request.into_inner();
        self.session(&request.session).await?.rename(request.title).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::RenameSessionResponse {}))
    }

    async fn pin(&self, request: Request<v1::PinSessionRequest>) -> Result<Response<v1::PinSessionResponse>, Status> {
        let v1::PinSessionRequest { session, pinned } = request.into_inner();
        self.session(&session).await?.pin(pinned).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::PinSessionResponse {}))
    }

    async fn reset(
        &self,
        request: Request<v1::ResetSessionRequest>,
    ) -> Result<Response<v1::ResetSessionResponse>, Status> {
        self.session(&request.into_inner().session).await?.reset().await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ResetSessionResponse {}))
    }

    async fn fork(
        &self,
        request: Request<v1::ForkSessionRequest>,
    ) -> Result<Response<v1::ForkSessionResponse>, Status> {
        let v1::ForkSessionRequest { session, at_turn, title, earlier_files } = request.into_inner();
        let from = self.session_id(&session).await?;
        let forked = self.engine.fork_session(from, ForkWishes { at_turn, title, earlier_files }).await;
        let forked = forked.map_err(Refusal::from)?;
        let session = view(&forked.session).await?;
        let ForkedSession { turn, files, earlier, .. } = forked;
        Ok(Response::new((&ForkReply { session, turn, files, earlier }).into()))
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteSessionRequest>,
    ) -> Result<Response<v1::DeleteSessionResponse>, Status> {
        let id = self.session_id(&request.into_inner().session).await?;
        self.engine.delete_session(id).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::DeleteSessionResponse {}))
    }

    async fn prune(
        &self,
        request: Request<v1::PruneSessionsRequest>,
    ) -> Result<Response<v1::PruneSessionsResponse>, Status> {
        let v1::PruneSessionsRequest { filter, unused_since, dry_run } = request.into_inner();
        let filter = session_filter(filter).map_err(Refusal::from)?;
        let unused_since = optional_moment(unused_since, "the last use of sessions").map_err(Refusal::from)?;
        let unused_since = unused_since.ok_or_else(|| {
            Refusal::invalid("it is not said how long sessions were not used").with_hint("give a moment, such as now")
        })?;
        let report = self.retention()?.prune(&filter, unused_since, dry_run, "prune").await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }

    async fn configure(
        &self,
        request: Request<v1::ConfigureSessionRequest>,
    ) -> Result<Response<v1::ConfigureSessionResponse>, Status> {
        let request = request.into_inner();
        let settings = request.settings.ok_or(WireError::Missing("what to configure"))?.try_into()?;
        let session = self.session(&request.session).await?;
        let configured = match request.only_these_folders {
            true => session.configure_with_folders(settings).await,
            false => session.configure(settings).await,
        };
        configured.map_err(Refusal::from)?;
        Ok(Response::new(v1::ConfigureSessionResponse {}))
    }

    async fn set_mode(&self, request: Request<v1::SetModeRequest>) -> Result<Response<v1::SetModeResponse>, Status> {
        let request = request.into_inner();
        let mode = mode_of(&request)?;
        self.session(&request.session).await?.set_mode(mode, request.client).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::SetModeResponse {}))
    }

    async fn set_pins(&self, request: Request<v1::SetPinsRequest>) -> Result<Response<v1::SetPinsResponse>, Status> {
        let request = request.into_inner();
        self.session(&request.session).await?.set_pins(request.pins).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::SetPinsResponse {}))
    }

    async fn set_model(&self, request: Request<v1::SetModelRequest>) -> Result<Response<v1::SetModelResponse>, Status> {
        let request = request.into_inner();
        let slot = chosen_slot(&request)?;
        let session = self.session(&request.session).await?;
        let set = session.set_model(slot, request.model).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::SetModelResponse { slot: Some((&set).into()) }))
    }

    async fn undo(&self, request: Request<v1::UndoRequest>) -> Result<Response<v1::UndoReport>, Status> {
        let request = request.into_inner();
        let session = self.session(&request.session).await?;
        let report = session.undo(request.try_into()?).await.map_err(Refusal::from)?;
        Ok(Response::new((&report).into()))
    }

    async fn context(&self, request: Request<v1::ContextRequest>) -> Result<Response<v1::ContextView>, Status> {
        let session = self.session(&request.into_inner().session).await?;
        let view = session.context().await.map_err(Refusal::from)?;
        Ok(Response::new((&view).into()))
    }

    async fn undo_compaction(
        &self,
        request: Request<v1::UndoCompactionRequest>,
    ) -> Result<Response<v1::UndoCompactionResponse>, Status> {
        let session = self.session(&request.into_inner().session).await?;
        let (window, undone) = session.undo_compaction().await.map_err(Refusal::from)?;
        Ok(Response::new(v1::UndoCompactionResponse { window: Some((&window).into()), undone: Some((&undone).into()) }))
    }

    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        let v1::SearchRequest { query, session, limit } = request.into_inner();
        let session = if session.is_empty() { None } else { Some(self.session_id(&session).await?) };
        let limit = given(limit).unwrap_or(DEFAULT_FINDS).min(MAX_FINDS);
        let found = self.engine.search(&query, session, limit).await.map_err(Refusal::from)?;
        Ok(Response::new((&found).into()))
    }

    async fn items(&self, request: Request<v1::ListItemsRequest>) -> Result<Response<v1::ListItemsResponse>, Status> {
        let request = request.into_inner();
        let limit = given(request.limit).unwrap_or(DEFAULT_ITEMS).min(MAX_ITEMS);
        let session = self.session_id(&request.session).await?;
        let before = Some(request.before_seq).filter(|before| *before > 0);
        let items = self.engine.items(session, request.after_seq, before, limit).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::ListItemsResponse { items: newest_that_fit(items) }))
    }

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadChunk>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let upload = super::upload::receive(request.into_inner()).await?;
        let session = self.session_id(&upload.session).await?;
        let uploaded = match upload.path {
            Some(path) => {
                let written = self.engine.write_file(session, path, upload.content).await;
                written.map(|path| UploadReceipt { path, ..UploadReceipt::default() })
            }
            None => self.engine.upload(session, upload.name, upload.content).await,
        };
        Ok(Response::new((&uploaded.map_err(Refusal::from)?).into()))
    }

    async fn list_files(
        &self,
        request: Request<v1::ListFilesRequest>,
    ) -> Result<Response<v1::ListFilesResponse>, Status> {
        let v1::ListFilesRequest { session, path } = request.into_inner();
        let session = self.session_id(&session).await?;
        let listing = self.engine.list_files(session, path).await.map_err(Refusal::from)?;
        Ok(Response::new((&listing).into()))
    }

    async fn read_file(&self, request: Request<v1::ReadFileRequest>) -> Result<Response<v1::ReadFileResponse>, Status> {
        let v1::ReadFileRequest { session, path, offset } = request.into_inner();
        let session = self.session_id(&session).await?;
        let piece = self.engine.read_file(session, path, offset, MAX_CHUNK_BYTES).await.map_err(Refusal::from)?;
        Ok(Response::new((&piece).into()))
    }
}

async fn show(session: &SessionHandle) -> Result<v1::Session, Refusal> {
    Ok((&view(session).await?).into())
}

async fn view(session: &SessionHandle) -> Result<SessionView, Refusal> {
    let view = session.show().await?;
    Ok(SessionView {
        session: view.session,
        pending: super::interrupts::in_view(view.pending),
        live_turn: view.live_turn,
    })
}

/// A place in the list of sessions, as an answer told it.
fn place(after: &str) -> Result<Option<u64>, Refusal> {
    if after.is_empty() {
        return Ok(None);
    }
    after.parse().map(Some).map_err(|_| {
        Refusal::invalid("`after` is no place in the list of sessions")
            .with_hint("give `next` of the answer before, or nothing for the first ones")
    })
}

/// Zero means "not set" in the protocol's numbers.
fn given(limit: u32) -> Option<usize> {
    (limit > 0).then_some(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// The newest items that one message can carry, oldest first.
fn newest_that_fit(items: Vec<(u64, Item)>) -> Vec<v1::NumberedItem> {
    let mut room = MAX_ITEMS_BYTES;
    let mut kept: Vec<v1::NumberedItem> = items
        .into_iter()
        .rev()
        .map(|(seq, item)| v1::NumberedItem::from(&NumberedItem { seq, item }))
        .map_while(|item| {
            room = room.checked_sub(prost::Message::encoded_len(&item))?;
            Some(item)
        })
        .collect();
    kept.reverse();
    kept
}
