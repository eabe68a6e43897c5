//! Recordings: made of sessions, and played.

use std::{path::PathBuf, sync::Arc};

use agentd_core::error::ErrorKind;
use agentd_proto::{
    MAX_CHUNK_BYTES,
    v1::{self, play_event, play_request::Part, replays_server::Replays},
};
use agentd_replay::{MAX_RECORDING, Play, PlayProblem, Recording};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::{Refusal, ReplyStream, absolute};
use crate::replay::{PlayError, PlayNews, PlayOptions, PlayOutcome, Player};

/// Events of a play that may wait for its client.
const QUEUE: usize = 64;

/// Bytes of a recording in one message.
const PIECE: usize = if MAX_CHUNK_BYTES < 256 << 10 { MAX_CHUNK_BYTES } else { 256 << 10 };

service! { Replays:
    type RecordStream = ReplyStream<v1::RecordingPiece>;
    type PlayStream = ReplyStream<v1::PlayEvent>;

    async fn record(&self, request: v1::RecordRequest) -> Self::RecordStream {
        let id = self.session_id(&request.session).await?;
        let recording = self.parts()?.player.record(&self.engine, id).await?;
        let pieces: Vec<_> = pieces(&recording)?.into_iter().map(|data| Ok(v1::RecordingPiece { data })).collect();
        Ok(stream::iter(pieces).boxed())
    }

    async fn play(&self, request: Streaming<v1::PlayRequest>) -> Self::PlayStream {
        let player = Arc::clone(&self.parts()?.player);
        let (start, recording) = receive(request).await?;
        let update = start.update;
        let options = options(start)?;
        let (sender, events) = mpsc::channel(QUEUE);
        let engine = self.engine.clone();
        let shutdown = self.shutdown.clone();
        // Ends with the play, which ends where its client is gone or the daemon stops.
        tokio::spawn(async move {
            let stop = shutdown.child_token();
            let told = tell(player, engine, recording, options, update, sender.clone(), stop.clone());
            tokio::pin!(told);
            let status = tokio::select! {
                told = &mut told => told.err(),
                () = sender.closed() => {
                    // What runs is ended in order before its folder goes.
                    stop.cancel();
                    told.await.err()
                }
            };
            if let Some(status) = status {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(ReceiverStream::new(events).boxed())
    }
}

/// Plays, and hands on what happens.
async fn tell(
    player: Arc<Player>,
    engine: agentd_engine::Engine,
    recording: Recording,
    options: PlayOptions,
    update: bool,
    client: mpsc::Sender<Result<v1::PlayEvent, Status>>,
    stop: CancellationToken,
) -> Result<(), Status> {
    let (news, mut heard) = mpsc::channel(QUEUE);
    let hand_on = async {
        while let Some(PlayNews(event)) = heard.recv().await {
            let event = v1::PlayEvent { kind: Some(play_event::Kind::Event((&*event).into())) };
            if client.send(Ok(event)).await.is_err() {
                break;
            }
        }
        // Whoever plays notices that nobody listens.
        drop(heard);
    };
    let (outcome, ()) = tokio::join!(player.play(&engine, recording, options, news, &stop), hand_on);
    let PlayOutcome { problems, turns, learned } = outcome.map_err(Refusal::from)?;
    let learned = learned.filter(|_| update).map(|recording| pieces(&recording)).transpose()?;
    for data in learned.into_iter().flatten() {
        let _ = client.send(Ok(v1::PlayEvent { kind: Some(play_event::Kind::Data(data)) })).await;
    }
    let outcome = v1::PlayOutcome {
        problems: problems.into_iter().map(problem).collect(),
        turns: u32::try_from(turns).unwrap_or(u32::MAX),
    };
    let _ = client.send(Ok(v1::PlayEvent { kind: Some(play_event::Kind::Outcome(outcome)) })).await;
    Ok(())
}

fn options(start: v1::PlayStart) -> Result<PlayOptions, Status> {
    let play = match (start.mode(), start.update) {
        (v1::PlayMode::Unspecified, false) => Play::Strict,
        (v1::PlayMode::Unspecified, true) => Play::Learn,
        (_, true) => return Err(Refusal::invalid("only a play with recorded answers and results is updated").into()),
        (v1::PlayMode::LiveTools, false) => Play::LiveTools,
        (v1::PlayMode::LiveModel, false) => Play::LiveModel,
    };
    let project: Option<PathBuf> = start.project.map(absolute).transpose()?;
    Ok(PlayOptions { play, project, writable: start.writable, approve: start.approve })
}

/// Receives a recording. Nothing is played unless all of it came.
async fn receive(
    mut parts: impl Stream<Item = Result<v1::PlayRequest, Status>> + Unpin,
) -> Result<(v1::PlayStart, Recording), Status> {
    let first = parts.next().await.transpose()?.and_then(|request| request.part);
    let Some(Part::Start(start)) = first else {
        return Err(Refusal::invalid("the first message of a play must be its start").into());
    };
    let mut text = Vec::new();
    while let Some(request) = parts.next().await {
        let Some(Part::Data(data)) = request?.part else {
            return Err(Refusal::invalid("behind the start of a play only pieces of the recording follow").into());
        };
        if text.len() + data.len() > MAX_RECORDING {
            let message = format!("the recording is larger than {} MiB", MAX_RECORDING >> 20);
            return Err(Refusal::invalid(message).into());
        }
        text.extend_from_slice(&data);
    }
    let text = String::from_utf8(text).map_err(|_| Refusal::invalid("the recording is not UTF-8"))?;
    let read = tokio::task::spawn_blocking(move || agentd_replay::read(&text)).await;
    let read = read.map_err(|_| Refusal::stopping())?;
    let recording = read.map_err(|error| {
        Refusal::invalid(error.to_string()).with_hint("`agentctl sessions record SESSION` makes a recording")
    })?;
    Ok((start, recording))
}

fn pieces(recording: &Recording) -> Result<Vec<Vec<u8>>, Status> {
    let text = agentd_replay::write(recording)
        .map_err(|error| Status::internal(format!("could not write the recording: {error}")))?;
    Ok(text.as_bytes().chunks(PIECE).map(<[u8]>::to_vec).collect())
}

fn problem(problem: PlayProblem) -> v1::PlayProblem {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let PlayProblem { turn, step, message, difference } = problem;
    let (place, diff) = difference.map(|difference| (difference.place, difference.diff)).unwrap_or_default();
    v1::PlayProblem { turn: number(turn), step: number(step), message, place, diff }
}

impl From<PlayError> for Refusal {
    fn from(error: PlayError) -> Self {
        let message = error.to_string();
        match error {
            PlayError::Store(_) | PlayError::Folder(_) => Self::new(ErrorKind::Storage, message),
            PlayError::Recording(_) => Self::invalid(message).with_hint("record a shorter session"),
            PlayError::NoProject => Self::invalid(message).with_hint("name one: -C DIR"),
            PlayError::Stopping => Self::stopping(),
            PlayError::Engine(engine) => engine.into(),
        }
    }
}
