//! Starting, controlling and following turns.

use agentd_core::{
    ids::{SessionId, TurnId},
    turn::StartTurn,
};
use agentd_engine::{ClientLines, Engine, SessionHandle, StartedTurn, TurnStart};
use agentd_proto::{
    MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES, SESSION_ID_HEADER, TURN_ID_HEADER,
    convert::{WireError, all, input_parts, settings_over},
    v1::{
        self,
        turn_request::{AnswerInterrupt, Command, Start},
        turns_server::Turns,
    },
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Streaming, metadata::MetadataValue};

use crate::rpc::{
    Context, Refusal, Reply,
    feed::{ClientCalls, ClientNotice, EventStream, Feed, FeedEnd},
};

/// Capacity for notices to a client. Further notices are dropped, because a client with this many unread notices has
/// stopped reading.
const NOTICE_QUEUE: usize = 64;

#[tonic::async_trait]
impl Turns for Context {
    type TurnStream = EventStream;
    type SubscribeStream = EventStream;

    async fn turn(&self, request: Request<Streaming<v1::TurnRequest>>) -> Reply<EventStream> {
        let mut frames = request.into_inner();
        let first = tokio::select! {
            frame = frames.message() => frame?,
            () = self.shutdown.cancelled() => return Err(Refusal::stopping().into()),
        };
        let start = parse_start(first)?;
        let (client, while_connected) = (start.client.clone(), start.while_connected);
        let (calls, lines) = ClientCalls::of(&start);
        let (session, started) = self.start_turn(start, lines).await?;

        let (session_id, turn_id) = (session.id(), started.turn_id);
        let (notices, notice_receiver) = mpsc::channel(NOTICE_QUEUE);
        let disconnected = CancellationToken::new();
        // If a client joined another client's turn, its disconnect does not affect the turn.
        let reports_disconnect = while_connected && !started.joined;
        let reader =
            CommandReader { engine: self.engine.clone(), session, turn_id, client, reports_disconnect, notices };
        tokio::spawn(reader.run(frames, calls, disconnected.clone()));
        let feed = Feed {
            subscription: started.events,
            feed_end: FeedEnd::TurnEnd(turn_id),
            turn_id: Some(turn_id),
            notices: notice_receiver,
            shutdown: self.shutdown.clone(),
            _reader: Some(disconnected.drop_guard()),
            seen: 0,
        };
        // The IDs are sent in headers before the first event, because a queued turn may have no events for a long time.
        let mut response = Response::new(feed.into_stream());
        for (header, id) in [(SESSION_ID_HEADER, session_id.to_string()), (TURN_ID_HEADER, turn_id.to_string())] {
            // IDs consist of hexadecimal digits and hyphens, which are valid in headers.
            if let Ok(value) = MetadataValue::try_from(id) {
                response.metadata_mut().insert(header, value);
            }
        }
        Ok(response)
    }

    async fn subscribe(&self, request: Request<v1::SubscribeRequest>) -> Reply<EventStream> {
        let request = request.into_inner();
        let session = self.session(&request.session).await?;
        let subscription = session.subscribe(request.after_seq).await.map_err(Refusal::from)?;
        let feed_end = match (request.until_idle, subscription.live_turn()) {
            (false, _) => FeedEnd::Disconnect,
            (true, Some(turn)) => FeedEnd::TurnEnd(turn),
            (true, None) => FeedEnd::CaughtUp,
        };
        tracing::debug!(session = %session.id(), after = request.after_seq, "a client follows a session");
        let feed = Feed::of_reader(subscription, feed_end, request.after_seq, self.shutdown.clone());
        Ok(Response::new(feed.into_stream()))
    }

    async fn steer_turn(&self, request: Request<v1::SteerTurnRequest>) -> Reply<v1::SteerTurnResponse> {
        let request = request.into_inner();
        check_length(&request.text)?;
        let turn = optional_turn(request.turn_id)?;
        self.session(&request.session).await?.steer(turn, request.text).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::SteerTurnResponse {}))
    }

    async fn cancel_turn(&self, request: Request<v1::CancelTurnRequest>) -> Reply<v1::CancelTurnResponse> {
        let request = request.into_inner();
        let turn = optional_turn(request.turn_id)?;
        self.session(&request.session).await?.cancel(turn).await.map_err(Refusal::from)?;
        Ok(Response::new(v1::CancelTurnResponse {}))
    }
}

impl Context {
    /// Returns the session with this ID or unique prefix.
    pub(super) async fn session(&self, id_or_prefix: &str) -> Result<SessionHandle, Refusal> {
        if let Ok(id) = id_or_prefix.parse()
            && let Some(session) = self.engine.live_session(id).await?
        {
            return Ok(session);
        }
        let id = self.session_id(id_or_prefix).await?;
        Ok(self.engine.session(id).await?)
    }

    /// Returns the ID of the session with this ID or unique prefix.
    pub(super) async fn session_id(&self, id_or_prefix: &str) -> Result<SessionId, Refusal> {
        if id_or_prefix.is_empty() {
            return Err(Refusal::invalid("missing session")
                .with_hint("pass its id or the start of it, see `agentctl sessions list`"));
        }
        Ok(self.engine.find_session(id_or_prefix).await?)
    }

    /// Returns the ID of the named session, or `None` if the name is empty.
    pub(super) async fn named_session(&self, id_or_prefix: &str) -> Result<Option<SessionId>, Refusal> {
        match id_or_prefix {
            "" => Ok(None),
            named => self.session_id(named).await.map(Some),
        }
    }

    /// Starts a turn in the named session, or in a new session.
    async fn start_turn(&self, mut start: Start, lines: ClientLines) -> Result<(SessionHandle, StartedTurn), Refusal> {
        let variables = std::mem::take(&mut start.variables);
        if variables.is_empty() {
            return self.start_turn_here(start, lines).await;
        }
        // The turn may call a server before the turn's session is registered. In that case it uses the values set most
        // recently, which are `variables`.
        self.control.set_client_values(None, variables.clone());
        let started = self.start_turn_here(start, lines).await?;
        self.control.set_client_values(Some(started.0.id()), variables);
        Ok(started)
    }

    async fn start_turn_here(
        &self,
        mut start: Start,
        lines: ClientLines,
    ) -> Result<(SessionHandle, StartedTurn), Refusal> {
        let (texts, parts) = input_parts(std::mem::take(&mut start.parts))?;
        if !texts.is_empty() {
            // Each text becomes one line.
            let lines: Vec<String> = start.text.take().into_iter().chain(texts).collect();
            check_length(start.text.insert(lines.join("\n")))?;
        }
        let (id, mut settings, title) = (std::mem::take(&mut start.session), start.settings.take(), start.title.take());
        let folders = std::mem::take(&mut start.folders);
        if id.is_empty() && !folders.is_empty() {
            let unnamed =
                |v1::Mount { path, writable }: v1::Mount| v1::AddedFolder { at: String::new(), path, writable };
            settings.get_or_insert_default().folders.extend(folders.iter().cloned().map(unnamed));
        }
        let mut start = StartTurn::try_from(start)?;
        // The daemon decides which variables are passed, regardless of the variables that a client sends.
        start.environment = start.environment.allowed(&self.control.passed_variables());
        if start.text.is_none() && !parts.is_empty() {
            return Err(Refusal::invalid("the input has parts but no text")
                .with_hint("describe the task in `text` or in a text part"));
        }
        let parts = self.engine.check_parts(parts).await?;
        let session = match (id.is_empty(), title) {
            (false, title) if settings.is_some() || title.is_some() => {
                return Err(Refusal::invalid("settings and a title require a new session, but this start names one")
                    .with_hint("leave `session` empty, or call Sessions.Configure and Sessions.Rename"));
            }
            (false, _) => {
                let session = self.session(&id).await?;
                if !folders.is_empty() {
                    session.add_folders(all(folders)?).await?;
                }
                session
            }
            (true, _) if start.text.as_ref().is_none_or(|text| text.trim().is_empty()) => {
                return Err(Refusal::invalid("a new session requires an input, but this start has none")
                    .with_hint("pass a prompt, or the session to resume"));
            }
            (true, None) => {
                let settings = settings_over(self.engine.session_defaults(), settings.unwrap_or_default())?;
                return Ok(self.engine.start_session_with(settings, TurnStart { start, lines }, parts).await?);
            }
            (true, title) => self.new_session(settings, title).await?,
        };
        let started = self.engine.start_turn_with(&session, TurnStart { start, lines }, parts).await?;
        Ok((session, started))
    }

    /// Creates a session. Settings that the client does not specify use the daemon's defaults.
    pub(super) async fn new_session(
        &self,
        settings: Option<v1::SessionSettings>,
        title: Option<String>,
    ) -> Result<SessionHandle, Refusal> {
        let settings = settings_over(self.engine.session_defaults(), settings.unwrap_or_default())?;
        Ok(self.engine.create_session(settings, title).await?)
    }
}

/// Executes the commands that a client sends to its turn. Ends when the client closes its half of the stream or
/// disconnects. A command that has started always completes.
struct CommandReader {
    engine: Engine,
    session: SessionHandle,
    turn_id: TurnId,
    client: String,
    /// True if the turn is notified when the client disconnects.
    reports_disconnect: bool,
    notices: mpsc::Sender<ClientNotice>,
}

impl CommandReader {
    async fn run(self, mut frames: Streaming<v1::TurnRequest>, calls: ClientCalls, disconnected: CancellationToken) {
        self.read(&mut frames, calls, &disconnected).await;
        if self.reports_disconnect {
            // A client that only reads events closes its half of the stream but is still connected.
            disconnected.cancelled().await;
            if let Err(error) = self.session.client_left(self.turn_id).await {
                tracing::debug!(turn = %self.turn_id, "could not notify the turn that its client disconnected: {error}");
            }
        }
    }

    /// Reads and executes commands. Closing the client's half of the stream ends pending calls and questions, because
    /// no answers can follow.
    async fn read(
        &self,
        frames: &mut Streaming<v1::TurnRequest>,
        mut calls: ClientCalls,
        disconnected: &CancellationToken,
    ) {
        loop {
            let frame = tokio::select! {
                frame = frames.message() => frame,
                question = calls.next() => {
                    calls.offer(self.turn_id, question, &self.notices);
                    continue;
                }
                () = disconnected.cancelled() => return,
            };
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Err(status) if status.code() == Code::OutOfRange => {
                    let _ = self.notices.try_send(ClientNotice::Refused(Box::new(too_large())));
                    return;
                }
                // Any other error means that the connection was lost, which cancels nothing.
                _ => return,
            };
            // Boxed, because most clients never send commands and should not pay for the memory.
            let Err(notice) = Box::pin(self.execute(frame.command, &mut calls)).await else { continue };
            let broken = matches!(notice, ClientNotice::Broken(_));
            if self.notices.try_send(notice).is_err() {
                tracing::debug!(turn = %self.turn_id, "could not report a refused command to its client");
            }
            if broken {
                return;
            }
        }
    }

    async fn execute(&self, command: Option<Command>, calls: &mut ClientCalls) -> Result<(), ClientNotice> {
        let result = match command {
            Some(Command::ToolAnswer(answer)) => calls.answer_tool(&self.engine, answer).await,
            Some(Command::FileAnswer(answer)) => calls.answer_file(answer),
            Some(Command::Answer(answer)) => self.answer(answer).await,
            Some(Command::Steer(steer)) => self.steer(steer.text).await,
            Some(Command::Cancel(_)) => self.session.cancel(Some(self.turn_id)).await.map_err(Refusal::from),
            Some(Command::Start(_)) => {
                let refusal = Refusal::invalid("a turn stream accepts only one start")
                    .with_hint("open another stream for another turn");
                return Err(ClientNotice::Broken(Box::new(refusal)));
            }
            None => return Err(ClientNotice::Broken(Box::new(unknown_command()))),
        };
        result.map_err(|refusal| ClientNotice::Refused(Box::new(refusal)))
    }

    async fn answer(&self, command: AnswerInterrupt) -> Result<(), Refusal> {
        let (id, answer) = super::policy::read_answer(&command.interrupt_id, command.answer)?;
        Ok(self.engine.answer(id, answer, self.client.clone()).await?)
    }

    async fn steer(&self, text: String) -> Result<(), Refusal> {
        check_length(&text)?;
        Ok(self.session.steer(Some(self.turn_id), text).await?)
    }
}

fn parse_start(first: Option<v1::TurnRequest>) -> Result<Start, Refusal> {
    let first = first.ok_or_else(|| Refusal::invalid("the turn stream ended before its start"))?;
    let start = match first.command {
        Some(Command::Start(start)) => start,
        Some(_) => {
            return Err(Refusal::invalid("the first frame of a turn stream must be a start")
                .with_hint("answer, steer or cancel a turn of another stream with Interrupts.Answer, Turns.SteerTurn or Turns.CancelTurn"));
        }
        None => return Err(unknown_command()),
    };
    if let Some(text) = &start.text {
        check_length(text)?;
    }
    Ok(start)
}

/// Creates the refusal for a frame that is too large. The stream is unreadable after such a frame.
fn too_large() -> Refusal {
    let limit = MAX_MESSAGE_BYTES >> 20;
    let message = format!(
        "a frame of this turn stream is larger than {limit} MiB: no more frames are accepted, and this client's tool calls fail"
    );
    Refusal::invalid(message)
        .with_hint("answer, steer and cancel with separate calls; put long tool results into a file")
}

fn unknown_command() -> Refusal {
    Refusal::invalid("unknown command in a frame of the turn stream")
        .with_hint("the commands are start, answer, steer, cancel, tool_answer and file_answer")
}

fn check_length(text: &str) -> Result<(), Refusal> {
    if text.len() <= MAX_PROMPT_BYTES {
        return Ok(());
    }
    let limit = MAX_PROMPT_BYTES / 1024 / 1024;
    Err(Refusal::invalid(format!("the input has {} bytes; the limit is {limit} MiB", text.len()))
        .with_hint("upload it with Sessions.Upload and let the tools read it"))
}

fn optional_turn(turn: Option<String>) -> Result<Option<TurnId>, Refusal> {
    turn.map(|turn| turn.parse()).transpose().map_err(|error| Refusal::from(WireError::Id(error)))
}
