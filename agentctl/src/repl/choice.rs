//! Lists from which the user chooses a row during a conversation, and the list of sessions.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use agentd_core::{Timestamp, ids::SessionId, search::SearchHit, session::SessionSummary};
use agentd_proto::client::Client;
use tokio::sync::{mpsc, watch};

use super::{
    chat::Chat,
    picker::{self, Choice, FoundRows, TextSearch},
};
use crate::{
    mount::shown_mount,
    report::{ago, count, title, waits},
};

/// Maximum number of hits of a search in texts, several of which may be in one session.
const MAX_HITS: usize = 200;
/// Minimum length of a text to search for, in bytes. A letter occurs in every text, but not a Chinese character.
const MIN_BYTES: usize = 3;
/// Number of characters shown before the first match of a passage.
const LEAD: usize = 12;

impl Chat {
    /// Asks the user to choose a row, starting at row `at`, with an optional search in longer texts. Returns `None` if the
    /// user chooses none.
    pub(super) async fn choose(
        &mut self,
        title: &str,
        choices: Vec<Choice>,
        at: usize,
        texts: Option<TextSearch>,
    ) -> anyhow::Result<Option<usize>> {
        let stop = Arc::new(AtomicBool::new(false));
        self.signals.forget();
        let keyboard = self.keyboard.clone();
        let mut picking = Box::pin(picker::pick(&keyboard, title, choices, at, texts, Arc::clone(&stop)));
        tokio::select! {
            biased;
            signal = self.signals.next() => {
                stop.store(true, Ordering::Relaxed);
                picking.await?;
                self.left(signal).map(|()| None)
            }
            picked = &mut picking => Ok(picked?),
        }
    }

    /// Asks the user to choose a session by its title, its folder or the texts in it.
    pub(super) async fn choose_session(&mut self, sessions: &[SessionSummary]) -> anyhow::Result<Option<usize>> {
        let choices = sessions.iter().map(|session| session_choice(session, Timestamp::now())).collect();
        let (wanted, requests) = watch::channel(String::new());
        let (results, found) = mpsc::channel(1);
        let ids = sessions.iter().map(|session| session.id).collect();
        let searching = search_texts(self.daemon.client.clone(), ids, requests, results);
        let texts = TextSearch { wanted, found };
        let mut choosing = Box::pin(self.choose("Sessions", choices, 0, Some(texts)));
        tokio::select! {
            biased;
            chosen = &mut choosing => chosen,
            // The list is closed.
            () = searching => choosing.await,
        }
    }
}

/// Runs the searches of a list in the texts of these sessions, until the list is closed.
async fn search_texts(
    client: Client,
    sessions: Vec<SessionId>,
    mut wanted: watch::Receiver<String>,
    results: mpsc::Sender<FoundRows>,
) {
    while wanted.changed().await.is_ok() {
        let search = wanted.borrow_and_update().clone();
        let hits = match search.trim().len() {
            0..MIN_BYTES => Vec::new(),
            // If the search fails, the titles can still be searched.
            _ => client.search(&search, "", MAX_HITS).await.map(|result| result.hits).unwrap_or_default(),
        };
        let index = |hit: &SearchHit| sessions.iter().position(|id| *id == hit.session_id);
        let rows = hits.iter().filter_map(|hit| Some((index(hit)?, passage(hit)))).collect();
        if results.send((search, rows)).await.is_err() {
            return;
        }
    }
}

/// Returns the excerpt from just before its first match.
fn passage(hit: &SearchHit) -> String {
    let first = hit.marks.first().map_or(0, |mark| mark.start);
    let before = hit.excerpt.get(..first).unwrap_or_default();
    let start = before.char_indices().rev().nth(LEAD).map_or(0, |(at, _)| at);
    hit.excerpt.get(start..).unwrap_or_default().to_owned()
}

fn session_choice(session: &SessionSummary, now: Timestamp) -> Choice {
    let folder = session.project.as_ref().map_or_else(|| "no folder".to_owned(), shown_mount);
    let used = ago(session.updated_at, now);
    let facts = [Some(folder), Some(used), waits(session).map(str::to_owned), Some(count(session.turns, "turn"))];
    Choice::new(&title(session), &facts.into_iter().flatten().collect::<Vec<_>>().join(" · "))
}
