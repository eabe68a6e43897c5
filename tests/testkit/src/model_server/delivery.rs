//! Sends the bytes of a reply with pauses, cuts or hangs.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use axum::{body::Body, http::StatusCode, response::Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Counts, Recorded, Reply, render, respond};

/// A step in sending a body.
enum Step {
    Write(Bytes),
    /// Flushes the written bytes to the network.
    Flush,
    Wait(Duration),
    Cut,
    Hang,
    /// Waits until the test releases the reply.
    Hold,
}

/// Counts how a response ends, even if it is dropped.
struct Ending {
    counts: watch::Sender<Counts>,
    finished: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let finished = self.finished;
        self.counts.send_modify(|counts| {
            if finished {
                counts.finished += 1;
            } else {
                counts.dropped += 1;
            }
        });
    }
}

struct Delivery {
    steps: VecDeque<Step>,
    stop: CancellationToken,
    release_held_reply: Arc<Notify>,
    ending: Ending,
}

pub(super) async fn deliver(
    reply: Reply,
    request: &Recorded,
    counts: watch::Sender<Counts>,
    stop: CancellationToken,
    release_held_reply: Arc<Notify>,
) -> Response {
    let ending = Ending { counts, finished: false };
    if reply.never {
        stop.cancelled().await;
    }
    if reply.first_delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(reply.first_delay_ms)).await;
    }
    let (writes, content_type) = render::render(&reply, request);
    let delivery = Delivery { steps: steps(&reply, writes), stop, release_held_reply, ending };
    let body = Body::from_stream(stream::unfold(delivery, |mut delivery| async move {
        let step = delivery.steps.pop_front();
        delivery.ending.finished |= matches!(step, None | Some(Step::Cut));
        let written = run(step?, &delivery.stop, &delivery.release_held_reply).await;
        Some((written, delivery))
    }));
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let mut response = respond(status, content_type, body);
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<axum::http::HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn run(step: Step, stop: &CancellationToken, release_held_reply: &Notify) -> io::Result<Bytes> {
    match step {
        Step::Write(bytes) => return Ok(bytes),
        // The connection flushes its buffer when no body data is ready.
        Step::Flush => tokio::task::yield_now().await,
        Step::Wait(wait) => tokio::time::sleep(wait).await,
        Step::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
        Step::Hang => stop.cancelled().await,
        Step::Hold => tokio::select! {
            () = release_held_reply.notified() => {}
            () = stop.cancelled() => {}
        },
    }
    Ok(Bytes::new())
}

fn steps(reply: &Reply, writes: Vec<Bytes>) -> VecDeque<Step> {
    let is_cut = reply.cut_after.is_some() || reply.cut_after_text.is_some();
    let mark = reply.cut_after_text.as_ref().or(reply.hang_after_text.as_ref());
    let limit = reply.cut_after.or(reply.hang_after).or_else(|| offset_after(&writes, mark?));
    let hold_at = reply.hold_after_text.as_ref().and_then(|mark| offset_after(&writes, mark));
    let (mut left, mut sent) = (limit.unwrap_or(usize::MAX), 0);
    let mut steps = VecDeque::new();
    for write in split(writes, reply.bytes_per_write) {
        let write = write.slice(..write.len().min(left));
        left -= write.len();
        if write.is_empty() {
            break;
        }
        if reply.delay_ms > 0 && !steps.is_empty() {
            steps.push_back(Step::Wait(Duration::from_millis(reply.delay_ms)));
        } else if reply.fast.is_none() {
            steps.push_back(Step::Flush);
        }
        let was_before = hold_at.is_some_and(|at| sent < at);
        sent += write.len();
        steps.push_back(Step::Write(write));
        if was_before && hold_at.is_some_and(|at| sent >= at) {
            steps.extend([Step::Flush, Step::Flush, Step::Hold]);
        }
    }
    if limit.is_some() {
        steps.extend([Step::Flush, Step::Flush]);
        steps.push_back(if is_cut { Step::Cut } else { Step::Hang });
    }
    steps
}

/// Returns the offset after the first write that contains this text.
fn offset_after(writes: &[Bytes], mark: &str) -> Option<usize> {
    let has_words = |write: &Bytes| String::from_utf8_lossy(write).contains(mark);
    let at = writes.iter().position(has_words)?;
    Some(writes[..=at].iter().map(Bytes::len).sum())
}

fn split(writes: Vec<Bytes>, bytes_per_write: Option<usize>) -> Vec<Bytes> {
    let Some(size) = bytes_per_write else { return writes };
    let whole = Bytes::from(writes.concat());
    (0..whole.len()).step_by(size.max(1)).map(|at| whole.slice(at..whole.len().min(at + size.max(1)))).collect()
}
