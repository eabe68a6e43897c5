//! `/rewind`: goes back to before a turn, whose message returns to the input.

use agentd_core::{event::EventKind, ids::SessionId, item::ItemBody, visible};

use super::{chat::Chat, conversation::ChatBackend as _, picker::Choice};
use crate::{
    daemon::Daemon,
    exit::Exit,
    failure::Failure,
    ops::{
        rewind::{self, RewindPoint},
        undo,
    },
    report::{ago, count, cut},
};

/// Columns of an input in the list.
const INPUT: usize = 60;

/// Parts of a session that go back.
const PARTS: [(&str, &str); 3] = [
    ("Files and talk", "files as they were, and the talk goes on in a copy"),
    ("Only the talk", "files stay as they are now"),
    ("Only the files", "the talk stays"),
];

/// A turn of the session.
struct PastTurn {
    number: u64,
    /// Message as it was typed; empty if the turn continued another one.
    message: String,
    when: String,
}

impl Chat {
    /// Goes back to before a turn, or lets the user choose one. If the conversation goes back, the input gets the message of
    /// the turn.
    pub(super) async fn rewind(&mut self, point: Option<RewindPoint>) -> anyhow::Result<Exit> {
        let id = self.session()?;
        let view = self.daemon.client.session(&id.to_string()).await?;
        let turns = past_turns(&self.daemon, id).await?;
        let turn = match point {
            Some(point) => point.turn(view.session.summary.turns)?,
            None if !self.present => {
                return Err(Failure::usage("/rewind needs a terminal to choose at")
                    .hint("/rewind N goes back to before turn N")
                    .into());
            }
            None => match self.choose_turn(&turns).await? {
                Some(turn) => turn,
                None => return Ok(Exit::Done),
            },
        };
        let foreseen = rewind::files(&self.daemon, id, turn, false, true).await?;
        let changes = !foreseen.files.is_empty();
        let (files, talk) = match (changes, self.present) {
            (true, true) => {
                undo::print_above_question(&foreseen)?;
                let parts = PARTS.map(|(name, about)| Choice::new(name, about)).to_vec();
                match self.choose("Rewind", parts, 0, None).await? {
                    Some(0) => (true, true),
                    Some(1) => (false, true),
                    Some(_) => (true, false),
                    None => return Ok(Exit::Done),
                }
            }
            (changes, _) => (changes, true),
        };
        let mut exit = Exit::Done;
        if files {
            let report = rewind::files(&self.daemon, id, turn, false, false).await?;
            self.note(&undo::summary(&report));
            exit = undo::exit(&report);
        }
        if talk {
            let new = rewind::talk(&self.daemon, &view, turn).await?;
            self.note(&format!("back to before turn {turn}; all of it is kept: /load {}", crate::report::short_id(id)));
            self.load(new.to_string()).await?;
            let dropped = turns.into_iter().find(|past| past.number == turn);
            dropped.into_iter().for_each(|past| self.keep(past.message));
        }
        Ok(exit)
    }

    async fn choose_turn(&mut self, turns: &[PastTurn]) -> anyhow::Result<Option<u64>> {
        if turns.is_empty() {
            self.note("the session has no turn yet");
            return Ok(None);
        }
        // The last turn comes first, because it is chosen most often.
        let shown = |turn: &PastTurn| Choice::new(&format!("{}. {}", turn.number, turn.title()), &turn.when);
        let choices = turns.iter().rev().map(shown).collect();
        let chosen = self.choose("Rewind to before", choices, 0, None).await?;
        Ok(chosen.and_then(|index| turns.iter().rev().nth(index)).map(|turn| turn.number))
    }
}

impl PastTurn {
    /// Returns the first line of the message, for the list.
    fn title(&self) -> String {
        match self.message.lines().next() {
            Some(line) => cut(&visible::line(line), INPUT),
            None => "(goes on)".to_owned(),
        }
    }
}

/// Returns the turns of the session, each with its message.
async fn past_turns(daemon: &Daemon, id: SessionId) -> anyhow::Result<Vec<PastTurn>> {
    let mut events = daemon.client.subscribe(&id.to_string(), 0, true).await?;
    let now = agentd_core::Timestamp::now();
    let mut turns: Vec<PastTurn> = Vec::new();
    while let Some(event) = events.next().await? {
        match &event.kind {
            EventKind::TurnStarted { .. } => {
                let number = turns.len() as u64 + 1;
                let when = ago(event.at, now);
                turns.push(PastTurn { number, message: String::new(), when });
            }
            EventKind::ItemCompleted { item, .. } => {
                if let (ItemBody::UserMessage { text, steered: false, typed_bytes, .. }, Some(turn)) =
                    (&item.body, turns.last_mut())
                {
                    let typed = typed_bytes.and_then(|bytes| text.get(..usize::try_from(bytes).ok()?));
                    let typed = typed.filter(|typed| !typed.trim().is_empty());
                    turn.message = typed.unwrap_or(text).trim_end().to_owned();
                }
            }
            EventKind::TurnEnded { result } if !result.files.is_empty() => {
                if let Some(turn) = turns.last_mut() {
                    turn.when.push_str(&format!(" · {}", count(result.files.len() as u64, "file")));
                }
            }
            _ => {}
        }
    }
    Ok(turns)
}
