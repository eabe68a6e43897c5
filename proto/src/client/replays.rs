//! Recordings: made of sessions, and played.

use std::path::PathBuf;

use agentd_core::event::Event;
use futures_util::stream;
use serde::Serialize;
use tonic::Streaming;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES,
    convert::WireError,
    v1::{self, play_event::Kind, play_request::Part, replays_client::ReplaysClient},
};

/// Bytes of a recording in one message.
const PIECE: usize = 256 << 10;

/// A recording with the way to play it.
#[derive(Debug, Clone, Default)]
pub struct PlayRequest {
    /// Text of the recording.
    pub text: Vec<u8>,
    /// Parts that are real.
    pub mode: PlayMode,
    /// Absolute path of the project, where the session has one.
    pub project: Option<PathBuf>,
    /// Set if tools that run may change the project.
    pub writable: bool,
    /// Set if calls that need an approval run, where tools run.
    pub approve: bool,
    /// Set if the recording is wanted back, with the requests as they were now. They are not compared then.
    pub update: bool,
}

/// Parts of a play that are real.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlayMode {
    /// None. Each request has to be the recorded one.
    #[default]
    Strict,
    /// Tools.
    LiveTools,
    /// The model.
    LiveModel,
}

/// End of a play.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlayReport {
    /// Everything that did not go as recorded.
    pub problems: Vec<PlayProblem>,
    /// Turns that were played.
    pub turns: u32,
}

/// Something that did not go as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlayProblem {
    /// Number of the turn, from 1.
    pub turn: u32,
    /// Number of the model's answer in the turn, from 1.
    pub step: u32,
    /// The problem, in a sentence.
    pub message: String,
    /// First place in the request that differs; empty where it is about no request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Difference there, as a unified diff.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

impl From<v1::PlayOutcome> for PlayReport {
    fn from(outcome: v1::PlayOutcome) -> Self {
        let problem =
            |v1::PlayProblem { turn, step, message, place, diff }| PlayProblem { turn, step, message, place, diff };
        Self { problems: outcome.problems.into_iter().map(problem).collect(), turns: outcome.turns }
    }
}

/// Something that happens while a recording is played.
#[derive(Debug)]
pub enum PlayStep {
    /// An event of the session that is played.
    Event(Box<Event>),
    /// A piece of the updated recording.
    Piece(Vec<u8>),
    /// The end of it, last.
    Over(PlayReport),
}

/// The steps of a play.
pub struct PlayStream(Streaming<v1::PlayEvent>);

impl PlayStream {
    /// The next step; none behind the last.
    ///
    /// # Errors
    /// When the recording cannot be played, or the connection fails.
    pub async fn next(&mut self) -> Result<Option<PlayStep>, ClientError> {
        while let Some(event) = self.0.message().await? {
            match event.kind {
                Some(Kind::Event(event)) => match event.try_into() {
                    Ok(event) => return Ok(Some(PlayStep::Event(Box::new(event)))),
                    // Of a newer daemon.
                    Err(WireError::Unknown(_)) => {}
                    Err(error) => return Err(error.into()),
                },
                Some(Kind::Data(data)) => return Ok(Some(PlayStep::Piece(data))),
                Some(Kind::Outcome(outcome)) => return Ok(Some(PlayStep::Over(outcome.into()))),
                // Of a newer daemon.
                None => {}
            }
        }
        Ok(None)
    }
}

fn parts(start: v1::PlayStart, text: &[u8]) -> Vec<v1::PlayRequest> {
    let pieces = text.chunks(PIECE).map(|piece| Part::Data(piece.to_vec()));
    std::iter::once(Part::Start(start)).chain(pieces).map(|part| v1::PlayRequest { part: Some(part) }).collect()
}

impl Client {
    fn replays(&self) -> ReplaysClient<tonic::transport::Channel> {
        ReplaysClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// The text of a recording of a session.
    ///
    /// # Errors
    /// When there is no such session, or the connection fails.
    pub async fn record(&self, session: &str) -> Result<Vec<u8>, ClientError> {
        let request = v1::RecordRequest { session: session.to_owned() };
        let mut pieces = self.replays().record(request).await?.into_inner();
        let mut text = Vec::new();
        while let Some(piece) = pieces.message().await? {
            text.extend_from_slice(&piece.data);
        }
        Ok(text)
    }

    /// Plays a recording.
    ///
    /// # Errors
    /// When the daemon refuses it, or the connection fails.
    pub async fn play(&self, request: PlayRequest) -> Result<PlayStream, ClientError> {
        let PlayRequest { text, mode, project, writable, approve, update } = request;
        let mode = match mode {
            PlayMode::Strict => v1::PlayMode::Unspecified,
            PlayMode::LiveTools => v1::PlayMode::LiveTools,
            PlayMode::LiveModel => v1::PlayMode::LiveModel,
        };
        let project = project.map(|path| path.to_string_lossy().into_owned());
        let start = v1::PlayStart { mode: mode.into(), project, writable, approve, update };
        let parts = parts(start, &text);
        Ok(PlayStream(self.replays().play(stream::iter(parts)).await?.into_inner()))
    }
}
