//! What callers hear while a turn is under way, where they said that they want to.

use std::{
    convert::Infallible,
    io,
    time::{Duration, Instant},
};

use agentd_core::{
    event::{Event, EventKind},
    ids::TurnId,
    item::{Item, ItemBody},
    turn::TurnResult,
};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::sync::mpsc;

use crate::{terminal::sanitize::clean_line, turn::Renderer};

/// Messages that may wait to be sent; more are dropped, for the next says more.
const QUEUE: usize = 16;
/// Between two words about text that is being written.
const PAUSE: Duration = Duration::from_millis(250);
/// A sign of life is given after this long at the latest, so that nobody gives a slow model up.
const BEAT: Duration = Duration::from_secs(10);
/// Characters that are shown of a text that is being written.
const TAIL: usize = 100;

/// Follows the events of a turn: what there is to tell is told, and its end is kept.
#[derive(Debug)]
pub(super) struct Progress {
    tell: mpsc::Sender<String>,
    turn: TurnId,
    /// The number of the last event that came.
    pub(super) seen: u64,
    /// Result of the turn.
    pub(super) result: Option<TurnResult>,
    /// The end of the text that is being written.
    tail: String,
    told_at: Option<Instant>,
    /// Set once the turn is left to wait: what is said then is for a person at a terminal.
    left: bool,
}

impl Progress {
    /// Of a turn, and what of it is to be sent.
    pub(super) fn of(turn: TurnId, seen: u64) -> (Self, mpsc::Receiver<String>) {
        let (tell, told) = mpsc::channel(QUEUE);
        (Self { tell, turn, seen, result: None, tail: String::new(), told_at: None, left: false }, told)
    }

    fn tell(&mut self, message: String) {
        // Of a caller that takes nothing nobody waits to be heard.
        let _ = self.tell.try_send(message);
        self.told_at = Some(Instant::now());
    }

    fn text(&mut self, text: &str) {
        self.tail.push_str(text);
        let cut = self.tail.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
        self.tail.drain(..cut);
        if self.told_at.is_none_or(|at| at.elapsed() >= PAUSE) {
            let line = clean_line(&self.tail);
            if !line.is_empty() {
                self.tell(line);
            }
        }
    }
}

impl Renderer for Progress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        (self.seen, self.left) = (self.seen.max(event.seq), false);
        match &event.kind {
            EventKind::ItemStarted { item: Item { body: ItemBody::ToolResult(result), .. } } => {
                self.tell(format!("runs {}", clean_line(&result.name)));
            }
            EventKind::ItemStarted { .. } => self.tail.clear(),
            EventKind::ItemDelta { text, .. } => self.text(text),
            EventKind::InterruptRaised { .. } => self.tell("waits for a person".to_owned()),
            EventKind::Warning { message, .. } => self.tell(clean_line(message)),
            EventKind::TurnEnded { result } if result.turn_id == self.turn => self.result = Some((**result).clone()),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, _: &TurnResult) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        self.left = true;
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        if !self.left {
            self.tell(clean_line(text));
        }
        Ok(())
    }
}

/// Sends what there is to tell, and a sign of life where there is nothing. It has no end of its own: it ends with the call.
pub(super) async fn send(
    peer: &Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut told: mpsc::Receiver<String>,
) -> Infallible {
    let Some(token) = token else { return std::future::pending().await };
    let begun = Instant::now();
    let mut beat = tokio::time::interval(BEAT);
    let mut number = 0_u32;
    loop {
        let message = tokio::select! {
            message = told.recv() => match message {
                Some(message) => message,
                None => return std::future::pending().await,
            },
            _ = beat.tick() => match begun.elapsed().as_secs() {
                0 => "the turn begins".to_owned(),
                seconds => format!("at work for {seconds} s"),
            },
        };
        number = number.saturating_add(1);
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(number)).with_message(message);
        // Where it cannot be sent, the answer cannot either, and the protocol's loop finds that out.
        let _ = peer.notify_progress(progress).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_by_its_end_now_and_then() {
        let (mut progress, mut told) = Progress::of(TurnId::generate(), 0);
        progress.text("one\u{1b}[2J ");
        progress.text("two");
        assert_eq!(told.try_recv().unwrap(), "one");
        assert!(told.try_recv().is_err(), "the next word comes later");
        progress.told_at = None;
        progress.text(&"é".repeat(TAIL + 5));
        assert_eq!(told.try_recv().unwrap(), "é".repeat(TAIL));
    }

    #[test]
    fn a_caller_that_takes_nothing_holds_nothing_up() {
        let (mut progress, mut told) = Progress::of(TurnId::generate(), 0);
        for number in 0..QUEUE + 10 {
            progress.tell(number.to_string());
        }
        let mut heard = 0;
        while told.try_recv().is_ok() {
            heard += 1;
        }
        assert_eq!(heard, QUEUE);
    }
}
