//! Sessions, their files and their git worktrees.

use agentd_core::{Timestamp, files::UploadReceipt, item::Item, session::SessionFilter};
use agentd_engine::{ForkOptions, ForkedSession, SessionHandle, SidePart};
use agentd_proto::{
    MAX_CHUNK_BYTES, MAX_UPLOAD_BYTES,
    client::{ForkReply, NumberedItem, SessionView},
    convert::{Wire, WireError},
    v1::{self, ask_response, sessions_server::Sessions, upload_chunk::Part, worktrees_server::Worktrees},
};
use futures_util::{Stream, StreamExt as _, stream};
use tonic::{Status, Streaming};

use super::{Refusal, ReplyStream};

/// Default number of listed sessions.
const DEFAULT_SESSIONS: usize = 100;

const DEFAULT_ITEMS: usize = 1000;

/// Default number of search results.
const DEFAULT_RESULTS: usize = 20;

/// Maximum number of search results.
const MAX_RESULTS: usize = 200;

/// Maximum number of items in an answer.
const MAX_ITEMS: usize = 10_000;

/// Maximum size of the items in an answer in bytes. Below the message size limit of clients.
const MAX_ITEMS_BYTES: usize = 12 * 1024 * 1024;

service! { Sessions:
    type AskStream = ReplyStream<v1::AskResponse>;

    async fn create(&self, request: v1::CreateSessionRequest) -> v1::Session {
        let session = self.new_session(request.settings, request.title).await?;
        Ok(show(&session).await?)
    }

    async fn list(&self, request: v1::ListSessionsRequest) -> v1::ListSessionsResponse {
        let after = parse_cursor(&request.after)?;
        let filter: SessionFilter = request.filter.unwrap_or_default().try_into()?;
        let limit = nonzero(request.limit).unwrap_or(DEFAULT_SESSIONS);
        let page = self.engine.filtered_page(after, limit, request.children, &filter).await?;
        Ok(v1::ListSessionsResponse {
            sessions: page.sessions.iter().map(Into::into).collect(),
            next: page.next.map(|next| next.to_string()).unwrap_or_default(),
        })
    }

    async fn get(&self, request: v1::GetSessionRequest) -> v1::Session {
        Ok(show(&self.session(&request.session).await?).await?)
    }

    async fn find(&self, request: v1::FindSessionRequest) -> v1::FindSessionResponse {
        let session_id = self.session_id(&request.prefix).await?.to_string();
        Ok(v1::FindSessionResponse { session_id })
    }

    async fn rename(&self, request: v1::RenameSessionRequest) -> v1::RenameSessionResponse {
        self.session(&request.session).await?.rename(request.title).await?;
        Ok(v1::RenameSessionResponse {})
    }

    async fn pin(&self, request: v1::PinSessionRequest) -> v1::PinSessionResponse {
        self.session(&request.session).await?.pin(request.pinned).await?;
        Ok(v1::PinSessionResponse {})
    }

    async fn reset(&self, request: v1::ResetSessionRequest) -> v1::ResetSessionResponse {
        self.session(&request.session).await?.reset().await?;
        Ok(v1::ResetSessionResponse {})
    }

    async fn fork(&self, request: v1::ForkSessionRequest) -> v1::ForkSessionResponse {
        let v1::ForkSessionRequest { session, at_turn, title, earlier_files } = request;
        let from = self.session_id(&session).await?;
        let forked = self.engine.fork_session(from, ForkOptions { at_turn, title, earlier_files }).await?;
        let ForkedSession { session, turn, files, earlier, .. } = forked;
        let session = view(&session).await?;
        Ok((&ForkReply { session, turn, files, earlier }).into())
    }

    async fn delete(&self, request: v1::DeleteSessionRequest) -> v1::DeleteSessionResponse {
        self.engine.delete_session(self.session_id(&request.session).await?).await?;
        Ok(v1::DeleteSessionResponse {})
    }

    async fn prune(&self, request: v1::PruneSessionsRequest) -> v1::PruneSessionsResponse {
        let filter: SessionFilter = request.filter.unwrap_or_default().try_into()?;
        let unused_since: Option<Timestamp> = Wire::from_wire(request.unused_since, "the last use of the sessions")?;
        let unused_since = unused_since.ok_or_else(|| {
            Refusal::invalid("missing `unused_since`").with_hint("set a time, such as now")
        })?;
        Ok((&self.parts().retention.prune(&filter, unused_since, request.dry_run, "prune").await?).into())
    }

    async fn configure(&self, request: v1::ConfigureSessionRequest) -> v1::ConfigureSessionResponse {
        let settings = request.settings.ok_or(WireError::Missing("the settings"))?.try_into()?;
        let session = self.session(&request.session).await?;
        match request.only_these_folders {
            true => session.configure_with_folders(settings).await?,
            false => session.configure(settings).await?,
        };
        Ok(v1::ConfigureSessionResponse {})
    }

    async fn set_mode(&self, request: v1::SetModeRequest) -> v1::SetModeResponse {
        let mode = Wire::from_wire(request.mode, "the mode of a session")?;
        self.session(&request.session).await?.set_mode(mode, request.client).await?;
        Ok(v1::SetModeResponse {})
    }

    async fn set_pins(&self, request: v1::SetPinsRequest) -> v1::SetPinsResponse {
        self.session(&request.session).await?.set_pins(request.pins).await?;
        Ok(v1::SetPinsResponse {})
    }

    async fn set_model(&self, request: v1::SetModelRequest) -> v1::SetModelResponse {
        let slot = Wire::from_wire(request.slot, "the model slot")?;
        let set = self.session(&request.session).await?.set_model(slot, request.model).await?;
        Ok(v1::SetModelResponse { slot: Some((&set).into()) })
    }

    async fn undo(&self, request: v1::UndoRequest) -> v1::UndoReport {
        let session = self.session(&request.session).await?;
        Ok((&session.undo(request.try_into()?).await?).into())
    }

    async fn ask(&self, request: v1::AskRequest) -> Self::AskStream {
        let session = self.session(&request.session).await?;
        let answer = session.ask_aside(request.question, request.client).await?;
        let parts = stream::unfold(answer, |mut answer| async move { Some((answer.recv().await?, answer)) });
        let parts = parts.map(|part| part.map(side_part).map_err(|error| Status::from(Refusal::from(error))));
        // A client that does not read must not delay the daemon's shutdown.
        Ok(parts.take_until(self.shutdown.clone().cancelled_owned()).boxed())
    }

    async fn context(&self, request: v1::ContextRequest) -> v1::ContextView {
        Ok((&self.session(&request.session).await?.context().await?).into())
    }

    async fn undo_compaction(&self, request: v1::UndoCompactionRequest) -> v1::UndoCompactionResponse {
        let (window, undone) = self.session(&request.session).await?.undo_compaction().await?;
        Ok(v1::UndoCompactionResponse { window: Some((&window).into()), undone: Some((&undone).into()) })
    }

    async fn search(&self, request: v1::SearchRequest) -> v1::SearchResponse {
        let session = self.named_session(&request.session).await?;
        let limit = nonzero(request.limit).unwrap_or(DEFAULT_RESULTS).min(MAX_RESULTS);
        Ok((&self.engine.search(&request.query, session, limit).await?).into())
    }

    async fn items(&self, request: v1::ListItemsRequest) -> v1::ListItemsResponse {
        let limit = nonzero(request.limit).unwrap_or(DEFAULT_ITEMS).min(MAX_ITEMS);
        let session = self.session_id(&request.session).await?;
        let before = Some(request.before_seq).filter(|before| *before > 0);
        let items = self.engine.ports().store.items_between(session, request.after_seq, before, limit).await?;
        Ok(v1::ListItemsResponse { items: newest_that_fit(items) })
    }

    async fn upload(&self, request: Streaming<v1::UploadChunk>) -> v1::UploadResponse {
        let (header, content) = receive(request).await?;
        let session = self.session_id(&header.session).await?;
        let uploaded = match header.path {
            Some(path) => {
                let written = self.engine.write_file(session, path, content).await;
                written.map(|path| UploadReceipt { path, ..UploadReceipt::default() })
            }
            None => self.engine.upload(session, header.name, content).await,
        };
        Ok((&uploaded?).into())
    }

    async fn list_files(&self, request: v1::ListFilesRequest) -> v1::ListFilesResponse {
        let tree = self.engine.tree(self.session_id(&request.session).await?).await?;
        Ok((&self.engine.ports().workspaces.list_files(tree, request.path).await?).into())
    }

    async fn read_file(&self, request: v1::ReadFileRequest) -> v1::ReadFileResponse {
        let tree = self.engine.tree(self.session_id(&request.session).await?).await?;
        let read = self.engine.ports().workspaces.read_file(tree, request.path, request.offset, MAX_CHUNK_BYTES);
        Ok((&read.await?).into())
    }
}

service! { Worktrees:
    async fn list(&self, _: v1::ListWorktreesRequest) -> v1::ListWorktreesResponse {
        let all = self.engine.worktrees().await?;
        Ok(v1::ListWorktreesResponse { worktrees: all.iter().map(Into::into).collect() })
    }

    async fn diff(&self, request: v1::DiffWorktreeRequest) -> v1::WorktreeDiff {
        Ok((&self.engine.diff_worktree(&request.worktree).await?).into())
    }

    async fn apply(&self, request: v1::ApplyWorktreeRequest) -> v1::AppliedWorktree {
        let engine = self.engine.clone();
        // Spawned, so that the operation completes even if the client disconnects.
        let applied = tokio::spawn(async move { engine.apply_worktree(&request.worktree).await }).await;
        Ok((&applied.map_err(|error| Status::internal(error.to_string()))??).into())
    }

    async fn remove(&self, request: v1::RemoveWorktreeRequest) -> v1::RemoveWorktreeResponse {
        let engine = self.engine.clone();
        let removed = tokio::spawn(async move { engine.remove_worktree(&request.worktree, request.force).await }).await;
        let name = removed.map_err(|error| Status::internal(error.to_string()))??;
        Ok(v1::RemoveWorktreeResponse { name })
    }
}

/// Receives a file. Discards an incomplete file.
async fn receive(
    mut chunks: impl Stream<Item = Result<v1::UploadChunk, Status>> + Unpin,
) -> Result<(v1::UploadHeader, Vec<u8>), Status> {
    let first = chunks.next().await.transpose()?.and_then(|chunk| chunk.part);
    let Some(Part::Header(header)) = first else {
        return Err(Refusal::invalid("the first chunk of an upload must be its header").into());
    };
    let mut content = Vec::new();
    while let Some(chunk) = chunks.next().await {
        match chunk?.part {
            Some(Part::Data(data)) => add(&mut content, &data)?,
            Some(Part::Abort(_)) => return Err(Refusal::invalid("the client aborted the upload").into()),
            Some(Part::Header(_)) => {
                return Err(Refusal::invalid("an upload must have only one header").into());
            }
            None => return Err(Refusal::invalid("unknown kind of chunk in the upload").into()),
        }
    }
    Ok((header, content))
}

fn add(content: &mut Vec<u8>, data: &[u8]) -> Result<(), Refusal> {
    let too_large =
        |subject: &str, limit: usize| Refusal::invalid(format!("{subject} is larger than {} MiB", limit / 1024 / 1024));
    if data.len() > MAX_CHUNK_BYTES {
        return Err(too_large("a chunk of the upload", MAX_CHUNK_BYTES).with_hint("send the file in smaller chunks"));
    }
    if content.len() + data.len() > MAX_UPLOAD_BYTES {
        return Err(too_large("the upload", MAX_UPLOAD_BYTES)
            .with_hint("give the session access to the folder with the file instead"));
    }
    content.extend_from_slice(data);
    Ok(())
}

fn side_part(part: SidePart) -> v1::AskResponse {
    let part = match part {
        SidePart::Text(text) => ask_response::Part::Text(text),
        SidePart::Retracted => ask_response::Part::Retracted(ask_response::Retracted {}),
        SidePart::Done { model, usage, truncated } => {
            ask_response::Part::Done(ask_response::Done { model, usage: Some((&usage).into()), truncated })
        }
    };
    v1::AskResponse { part: Some(part) }
}

async fn show(session: &SessionHandle) -> Result<v1::Session, Refusal> {
    Ok((&view(session).await?).into())
}

async fn view(session: &SessionHandle) -> Result<SessionView, Refusal> {
    let view = session.show().await?;
    Ok(SessionView {
        session: view.session,
        pending: super::policy::limit_previews(view.pending),
        live_turn: view.live_turn,
    })
}

/// Parses a cursor in the list of sessions, taken from `next` in an earlier answer.
fn parse_cursor(after: &str) -> Result<Option<u64>, Refusal> {
    if after.is_empty() {
        return Ok(None);
    }
    after.parse().map(Some).map_err(|_| {
        Refusal::invalid("invalid `after`: not a cursor of the session list")
            .with_hint("use `next` of the previous answer, or nothing for the first page")
    })
}

/// Converts a number from the protocol, in which zero means "not set".
fn nonzero(limit: u32) -> Option<usize> {
    (limit > 0).then_some(usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Returns the newest items that fit into one message, oldest first.
fn newest_that_fit(items: Vec<(u64, Item)>) -> Vec<v1::NumberedItem> {
    let mut remaining = MAX_ITEMS_BYTES;
    let mut newest: Vec<v1::NumberedItem> = items
        .into_iter()
        .rev()
        .map(|(seq, item)| v1::NumberedItem::from(&NumberedItem { seq, item }))
        .map_while(|item| {
            remaining = remaining.checked_sub(prost::Message::encoded_len(&item))?;
            Some(item)
        })
        .collect();
    newest.reverse();
    newest
}
