//! Calls to start, control and watch turns.

use std::collections::HashMap;

use agentd_core::{
    client_file::{ClientFileAnswer, ClientFileRequest},
    client_tool::ClientToolCall,
    event::Event,
    ids::{InterruptId, SessionId, TurnId},
    input::{InputPart, PictureData},
    interrupt::Answer,
    ports::ClientFileAccess,
    turn::StartTurn,
};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, metadata::MetadataMap};

use super::{Client, ClientError, ClientErrorKind, NewSession, next_known, sessions::check_paths};
use crate::{
    MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES, SESSION_ID_HEADER, TURN_ID_HEADER,
    convert::{self, Wire as _, WireError},
    v1::{
        self,
        event::Kind,
        turn_request::{AnswerInterrupt, Cancel, Command, Start, Steer, ToolAnswer, tool_answer::Outcome},
    },
};

/// Upper bound on the overhead of a message around a command's content, in bytes.
const FRAME_BYTES: usize = 64;

/// Maximum number of frames waiting to be sent. A small number suffices, because users type the commands.
const COMMAND_QUEUE: usize = 8;

/// Session selected for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// A session to be created.
    New(NewSession),
    /// The session with this ID or unique prefix.
    Existing(String),
}

/// Request for a new turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRequest {
    /// Session of the turn.
    pub session: SessionChoice,
    /// Options of the turn.
    pub start: StartTurn,
}

calls! {
    /// Cancels the running turn of a session; if `turn_id` is given, only that turn. `TurnEnded` follows when the turn
    /// ends.
    ///
    /// # Errors
    /// Fails if no such turn is running, or the connection fails.
    fn cancel_turn(session: &str, turn_id: Option<TurnId>) -> () = turns_client.cancel_turn(CancelTurnRequest) nothing;
}

impl Client {
    /// Starts a turn. The turn is running or queued when this function returns.
    ///
    /// # Errors
    /// Fails if the daemon rejects the turn, or the connection fails.
    pub async fn turn(&self, request: StartRequest) -> Result<TurnStream, ClientError> {
        self.turn_with_parts(request, Vec::new(), HashMap::new()).await
    }

    /// Starts a turn with attachments to its input, and sends the values of the variables that
    /// [`Hello::variables`](crate::view::Hello::variables) lists.
    ///
    /// # Errors
    /// As for [`Self::turn`].
    pub async fn turn_with_parts(
        &self,
        request: StartRequest,
        parts: Vec<InputPart>,
        variables: HashMap<String, String>,
    ) -> Result<TurnStream, ClientError> {
        let parts = parts.into_iter().map(Into::into).collect();
        self.begin(Start { parts, variables, ..start_frame(request)? }).await
    }

    /// Starts a turn, or joins the running one, as a client that provides project files. Requests for these files
    /// arrive as [`TurnFrame::FileRequested`].
    ///
    /// # Errors
    /// As for [`Self::turn`].
    pub async fn turn_holding_files(
        &self,
        request: StartRequest,
        access: ClientFileAccess,
        variables: HashMap<String, String>,
    ) -> Result<TurnStream, ClientError> {
        let client_files = Some(v1::ClientFiles { writes: access == ClientFileAccess::ReadWrite });
        self.begin(Start { client_files, variables, ..start_frame(request)? }).await
    }

    async fn begin(&self, start: Start) -> Result<TurnStream, ClientError> {
        let (commands, queue) = mpsc::channel(COMMAND_QUEUE);
        let sender = TurnSender { commands };
        sender.send(Command::Start(start)).await?;
        let response = self.turns_client().turn(ReceiverStream::new(queue)).await?;
        let session_id = header_id(response.metadata(), SESSION_ID_HEADER)?;
        let turn_id = header_id(response.metadata(), TURN_ID_HEADER)?;
        Ok(TurnStream { session_id, turn_id, sender, events: EventStream { stream: response.into_inner() } })
    }

    /// Streams a session's events above `after_seq`: first the stored events, then live events. With `until_idle`, the
    /// stream ends with the running turn, or immediately if no turn is running. Otherwise the stream does not end by
    /// itself.
    ///
    /// # Errors
    /// Fails if there is no such session, or the connection fails.
    pub async fn subscribe(&self, session: &str, after_seq: u64, until_idle: bool) -> Result<EventStream, ClientError> {
        let request = v1::SubscribeRequest { session: session.to_owned(), after_seq, until_idle };
        Ok(EventStream { stream: self.turns_client().subscribe(request).await?.into_inner() })
    }

    /// Adds input to the running turn of a session; if `turn_id` is given, only to that turn.
    ///
    /// # Errors
    /// Fails if no such turn is running, or the connection fails.
    pub async fn steer_turn(&self, session: &str, turn: Option<TurnId>, text: &str) -> Result<(), ClientError> {
        check_length(text)?;
        let request =
            v1::SteerTurnRequest { session: session.to_owned(), turn_id: turn.to_wire(), text: text.to_owned() };
        self.turns_client().steer_turn(request).await?;
        Ok(())
    }
}

/// A turn started by this client. Dropping this value does not stop the turn.
#[derive(Debug)]
pub struct TurnStream {
    session_id: SessionId,
    turn_id: TurnId,
    sender: TurnSender,
    events: EventStream,
}

impl TurnStream {
    /// Returns the ID of the turn's session, which may have been created for the turn.
    pub fn session_id(&self) -> SessionId {
        self.session_id
    }

    /// Returns the ID of the turn, which is the running turn if the input was added to that turn.
    pub fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    /// Returns the sending half, for use while [`TurnStream::next`] is waiting.
    pub fn sender(&self) -> TurnSender {
        self.sender.clone()
    }

    /// Returns the next event, or `None` after the turn's `TurnEnded`.
    ///
    /// # Errors
    /// Fails with [`ClientErrorKind::Lost`], or with `ShuttingDown` if the daemon stops before the turn has ended.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        self.events.next().await
    }

    /// Returns the next event, tool call or file request for this client, or `None` after the turn's `TurnEnded`.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub async fn next_frame(&mut self) -> Result<Option<TurnFrame>, ClientError> {
        self.events.next_frame().await
    }
}

/// A frame received on the stream of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnFrame {
    /// An event of the session.
    Event(Box<Event>),
    /// The model calls a tool of this client. The answer is sent with [`TurnSender::answer_tool`].
    ToolRequested(ClientToolCall),
    /// A tool requests a file that this client provides. The answer is sent with [`TurnSender::answer_file`].
    FileRequested(ClientFileRequest),
}

/// The sending half of a [`TurnStream`].
#[derive(Debug, Clone)]
pub struct TurnSender {
    commands: mpsc::Sender<v1::TurnRequest>,
}

impl TurnSender {
    /// Answers an interrupt. A rejection arrives as a warning event with the code `command_refused`.
    ///
    /// # Errors
    /// Fails if the stream has ended.
    pub async fn answer(&self, id: InterruptId, answer: &Answer) -> Result<(), ClientError> {
        let answer = AnswerInterrupt { interrupt_id: id.to_string(), answer: Some(answer.into()) };
        self.send(Command::Answer(answer)).await
    }

    /// Adds input to the turn.
    ///
    /// # Errors
    /// Fails if the stream has ended, or the text is too long.
    pub async fn steer(&self, text: &str) -> Result<(), ClientError> {
        check_length(text)?;
        self.send(Command::Steer(Steer { text: text.to_owned() })).await
    }

    /// Cancels the turn; its `TurnEnded` follows.
    ///
    /// # Errors
    /// Fails if the stream has ended.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        self.send(Command::Cancel(Cancel {})).await
    }

    /// Answers a call to a tool of this client, with text for the model or the reason for a failure. A rejection
    /// arrives as a warning event with the code `command_refused`.
    ///
    /// # Errors
    /// Fails if the answer is too large for one message, or the stream has ended.
    pub async fn answer_tool(
        &self,
        call_id: &str,
        outcome: Result<String, String>,
        picture: Option<PictureData>,
    ) -> Result<(), ClientError> {
        let outcome = Some(outcome.map_or_else(Outcome::Error, Outcome::Text));
        let answer = ToolAnswer { call_id: call_id.to_owned(), outcome, picture: picture.to_wire() };
        // The daemon cannot continue to read the stream after a message that is too large.
        let bytes = answer.encoded_len();
        if bytes > MAX_MESSAGE_BYTES - FRAME_BYTES {
            let limit = MAX_MESSAGE_BYTES >> 20;
            let message = format!("the answer has {bytes} bytes; the limit of a message is {limit} MiB");
            return Err(
                ClientError::invalid(message).with_hint("shorten it, or store it in a file for the tools to read")
            );
        }
        self.send(Command::ToolAnswer(answer)).await
    }

    /// Answers a request for a file that this client provides. A rejection arrives as a warning event with the code
    /// `command_refused`.
    ///
    /// # Errors
    /// Fails if the stream has ended.
    pub async fn answer_file(&self, id: &str, answer: ClientFileAnswer) -> Result<(), ClientError> {
        self.send(Command::FileAnswer(convert::file_answer(id, answer))).await
    }

    async fn send(&self, command: Command) -> Result<(), ClientError> {
        let frame = v1::TurnRequest { command: Some(command) };
        self.commands
            .send(frame)
            .await
            .map_err(|_| ClientError::new(ClientErrorKind::Lost, "could not send to the turn: its stream has ended"))
    }
}

/// A stream of a session's events.
#[derive(Debug)]
pub struct EventStream {
    stream: Streaming<v1::Event>,
}

impl EventStream {
    /// Returns the next event, or `None` after the last. Events of unknown kinds are skipped.
    ///
    /// # Errors
    /// Fails with [`ClientErrorKind::Lost`], or with `ShuttingDown` when the daemon stops.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            match self.next_frame().await? {
                Some(TurnFrame::Event(event)) => return Ok(Some(*event)),
                Some(TurnFrame::FileRequested(asked)) => tracing::debug!(asked.path, "left a file request unanswered"),
                Some(TurnFrame::ToolRequested(call)) => tracing::debug!(call.name, "left a tool call unanswered"),
                None => return Ok(None),
            }
        }
    }

    async fn next_frame(&mut self) -> Result<Option<TurnFrame>, ClientError> {
        next_known(&mut self.stream, |event| {
            Ok(match event.kind {
                Some(Kind::ToolRequested(requested)) => TurnFrame::ToolRequested(requested.try_into()?),
                Some(Kind::FileRequested(requested)) => TurnFrame::FileRequested(requested.try_into()?),
                _ => TurnFrame::Event(Box::new(event.try_into()?)),
            })
        })
        .await
    }
}

fn start_frame(request: StartRequest) -> Result<Start, ClientError> {
    if let Some(text) = &request.start.text {
        check_length(text)?;
    }
    let mut frame = Start::from(&request.start);
    match request.session {
        SessionChoice::New(new) => {
            check_paths(new.project.iter().chain(&new.folders))?;
            frame.settings = Some((&new).into());
            frame.title = new.title;
        }
        SessionChoice::Existing(session) => frame.session = session,
    }
    Ok(frame)
}

/// Rejects text that is too long. The daemon would reject it only after receiving all of it.
fn check_length(text: &str) -> Result<(), ClientError> {
    if text.len() <= MAX_PROMPT_BYTES {
        return Ok(());
    }
    let (bytes, limit) = (text.len(), MAX_PROMPT_BYTES / 1024 / 1024);
    Err(ClientError::invalid(format!("the input has {bytes} bytes; the limit of a turn is {limit} MiB"))
        .with_hint("upload it with --file PATH and let the tools read it"))
}

fn header_id<T>(headers: &MetadataMap, name: &'static str) -> Result<T, ClientError>
where
    T: std::str::FromStr<Err = agentd_core::ids::InvalidId>,
{
    let text = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(text.parse().map_err(WireError::from)?)
}
