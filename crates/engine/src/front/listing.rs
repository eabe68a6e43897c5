//! Lists of sessions, filtered; and the session that a person means: by its id, the start or the end of it, its title, or its
//! place in the list.

use agentd_core::{
    Timestamp,
    error::ErrorKind,
    ids::SessionId,
    session::{SessionFilter, SessionPage, SessionSummary, StoredSession},
    visible,
};

use crate::{error::EngineError, front::Engine};

impl Engine {
    /// A page of the sessions that fit a filter, as [`Self::session_page`] has one of all.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn filtered_page(
        &self,
        before: Option<u64>,
        limit: usize,
        children: bool,
        filter: &SessionFilter,
    ) -> Result<SessionPage, EngineError> {
        let store = &self.shared.ports.store;
        let mut fitting = SessionPage { sessions: Vec::new(), next: before };
        // No more is read than still fits, so that the next page begins where this one ends.
        while fitting.sessions.len() < limit {
            let page = store.session_page(fitting.next, limit - fitting.sessions.len()).await?;
            // Those that follow were used before.
            let is_over = filter.since.is_some_and(|since| page.sessions.iter().any(|found| found.updated_at < since));
            fitting.sessions.extend(page.sessions.into_iter().filter(|session| filter.fits(session)));
            fitting.next = page.next.filter(|_| !is_over);
            if fitting.next.is_none() {
                break;
            }
        }
        if children {
            for session in std::mem::take(&mut fitting.sessions) {
                let id = session.id;
                fitting.sessions.push(session);
                fitting.sessions.extend(store.children(id).await?);
            }
        }
        Ok(fitting)
    }
}

/// The session that was used last.
const LAST: &str = "last";
/// Digits of a place in the list at the most. An end of an id is longer.
const PLACE_DIGITS: usize = 4;
/// The sessions that are named where several could be meant.
const NAMED: usize = 4;
/// Characters of an id that people are shown: its end, for the start is the time at which it was made.
const SHORT: usize = 8;
/// Characters of a title there.
const TITLE: usize = 40;

impl Engine {
    /// The session that a name means: its id, the unique start or end of it, its title, its place in the list of those used
    /// last (from 1), or `last`.
    ///
    /// # Errors
    /// When none or several are meant.
    pub async fn find_session(&self, name: &str) -> Result<SessionId, EngineError> {
        let store = &self.shared.ports.store;
        let shown: String = name.chars().take(80).collect();
        if let Some(place) = place(name) {
            let found = store.sessions(place).await?.into_iter().nth(place - 1);
            return found.map(|session| session.id).ok_or_else(|| none(&shown));
        }
        let found = store.find_sessions(name.to_owned(), NAMED + 1).await?;
        match found.as_slice() {
            [id] => Ok(*id),
            [] => Err(none(&shown)),
            several => {
                let mut candidates = Vec::new();
                for id in several.iter().take(NAMED) {
                    candidates.extend(store.session(*id).await?);
                }
                let more = if several.len() > NAMED { "; …" } else { "" };
                let candidates = told(&candidates, self.shared.ports.clock.now());
                Err(EngineError::new(ErrorKind::InvalidInput, format!("{shown:?} could mean several sessions"))
                    .with_hint(format!("name one by the end of its id: {candidates}{more}")))
            }
        }
    }
}

fn none(shown: &str) -> EngineError {
    EngineError::not_found(format!("there is no session {shown:?}"), "agentctl sessions list shows all")
}

/// The place in the list that a name is, from 1. Ids start with a zero, and their ends are longer.
fn place(name: &str) -> Option<usize> {
    let name = name.trim();
    if name.eq_ignore_ascii_case(LAST) {
        return Some(1);
    }
    let is_place = name.len() <= PLACE_DIGITS && !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| is_place)
}

/// Title, age and short id of each.
fn told(candidates: &[StoredSession], now: Timestamp) -> String {
    let one = |SessionSummary { id, title, updated_at, .. }: &SessionSummary| {
        let title: String = visible::line(title).chars().take(TITLE).collect();
        let title = if title.is_empty() { "(untitled)".to_owned() } else { title };
        let id = id.to_string();
        let end = id.get(id.len().saturating_sub(SHORT)..).unwrap_or(&id);
        format!("{title} · {} · {end}", age(*updated_at, now))
    };
    candidates.iter().map(|session| one(&session.summary)).collect::<Vec<_>>().join("; ")
}

fn age(at: Timestamp, now: Timestamp) -> String {
    match now.duration_since(at).as_secs() {
        ..60 => "just now".to_owned(),
        seconds @ ..3_600 => format!("{} min ago", seconds / 60),
        seconds @ ..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_from_an_id_and_a_title() {
        let check = |name: &str, expected: Option<usize>| assert_eq!(place(name), expected, "{name}");
        check("1", Some(1));
        check(" 12 ", Some(12));
        check("9999", Some(9999));
        check("last", Some(1));
        check("Last", Some(1));
        check("0", None);
        check("01900000", None);
        check("12345678", None);
        check("1a", None);
        check("", None);
        check("last one", None);
        check("+1", None);
    }
}
