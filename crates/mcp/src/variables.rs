//! Variables in `mcp_servers.yaml` that the daemon's own environment lacks.
//!
//! In a server's texts, each variable is represented by a mark. Clients provide the values when they start turns. The
//! pool stores the values in memory, and only the server that uses a variable gets its value. Sessions without values
//! use the most recent ones, since a daemon has a single user.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use agentd_core::ids::SessionId;

/// Delimiters of a mark, from the private use area: they do not occur in paths, URLs or headers.
const OPEN: char = '\u{f0a91}';
const CLOSE: char = '\u{f0a92}';

/// Names of the session's project folder, as used by several systems.
const PROJECT: [&str; 4] = ["PROJECT", "CLAUDE_PROJECT_DIR", "workspaceFolder", "workspaceRoot"];
/// Name of the client's folder, or of the project if the client has none.
const FOLDER: &str = "PWD";

/// Returns true if a variable is the project of the caller.
pub(crate) fn is_project(name: &str) -> bool {
    PROJECT.contains(&name)
}

/// Returns true if a variable is a folder of the caller. Clients do not provide it, and the daemon's own value is not
/// used.
pub fn is_place(name: &str) -> bool {
    name == FOLDER || is_project(name)
}

/// Maximum number of sessions whose values are stored. The least recently updated one is dropped first.
const SESSIONS: usize = 256;

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 32 * 1024;

/// Returns the mark of a variable, written as `NAME` or as `NAME:-default`.
pub fn mark(written: &str) -> String {
    format!("{OPEN}{written}{CLOSE}")
}

/// Splits the content of a mark, or of braces in the file, into the name and the default.
pub fn parts(written: &str) -> (&str, Option<&str>) {
    written.split_once(":-").map_or((written, None), |(name, default)| (name, Some(default)))
}

/// Returns true if the text contains a variable.
pub fn has_mark(text: &str) -> bool {
    text.contains(OPEN)
}

/// Restores the text as the user wrote it.
pub fn written(text: &str) -> String {
    text.replace(OPEN, "${").replace(CLOSE, "}")
}

/// Returns the variables in a text, each with its default.
pub(crate) fn names(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    text.split(OPEN).skip(1).filter_map(|rest| Some(parts(rest.split_once(CLOSE)?.0)))
}

/// Replaces the marks with values. The error is the name of a variable without a value.
pub(crate) fn filled(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut pieces = text.split(OPEN);
    expanded.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (written, rest) = piece.split_once(CLOSE).unwrap_or((piece, ""));
        let (name, default) = parts(written);
        let value = values.get(name).filter(|value| default.is_none() || !value.is_empty());
        expanded.push_str(value.map(String::as_str).or(default).ok_or_else(|| name.to_owned())?);
        expanded.push_str(rest);
    }
    Ok(expanded)
}

/// Values provided by clients.
// No `Debug`, because the values are secrets.
#[derive(Default)]
pub(crate) struct ClientValues {
    /// Values by session, least recently updated first.
    by_session: VecDeque<(SessionId, BTreeMap<String, String>)>,
    last: BTreeMap<String, String>,
}

impl ClientValues {
    /// Stores values from a client, for its session if that is known. They replace previous values.
    pub(crate) fn set_client_values(
        &mut self,
        session: Option<SessionId>,
        values: impl IntoIterator<Item = (String, String)>,
    ) {
        let fits = |value: &str| value.len() <= MAX_VALUE && !value.contains(['\0', '\n', '\r', OPEN, CLOSE]);
        let values: BTreeMap<String, String> = values.into_iter().filter(|(_, value)| fits(value)).collect();
        self.last.extend(values.clone());
        let Some(session) = session else { return };
        self.by_session.retain(|(known, _)| *known != session);
        self.by_session.push_back((session, values));
        if self.by_session.len() > SESSIONS {
            self.by_session.pop_front();
        }
    }

    /// Returns the values of these variables for a session, or without one. Variables without a value are missing.
    pub(crate) fn values(&self, session: Option<SessionId>, names: &BTreeSet<String>) -> BTreeMap<String, String> {
        let of_session = |session| self.by_session.iter().find(|(known, _)| *known == session);
        let known = session.and_then(of_session).map_or(&self.last, |(_, values)| values);
        names.iter().filter_map(|name| Some((name.clone(), known.get(name)?.clone()))).collect()
    }

    /// Returns all values, so that they can be hidden in texts.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let by_session = self.by_session.iter().map(|(_, values)| values);
        by_session.chain([&self.last]).flat_map(|values| values.values().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn placeholders_are_filled_or_reported() {
        let text = format!("Bearer {}, {}!", mark("A"), mark("B"));
        assert!(has_mark(&text) && !has_mark("plain"));
        assert_eq!(names(&text).collect::<Vec<_>>(), [("A", None), ("B", None)]);
        assert_eq!(written(&text), "Bearer ${A}, ${B}!");
        assert_eq!(filled(&text, &values(&[("A", "1"), ("B", "${A}")])).unwrap(), "Bearer 1, ${A}!");
        assert_eq!(filled(&text, &values(&[("A", "1")])).unwrap_err(), "B");
        assert_eq!(filled("plain", &values(&[])).unwrap(), "plain");
        let text = format!("in {}", mark("A:-~/x"));
        assert_eq!((names(&text).next(), written(&text)), (Some(("A", Some("~/x"))), "in ${A:-~/x}".to_owned()));
        for (client_values, expected) in [(&[][..], "in ~/x"), (&[("A", "")], "in ~/x"), (&[("A", "1")], "in 1")] {
            assert_eq!(filled(&text, &values(client_values)).unwrap(), expected);
        }
    }

    #[test]
    fn session_uses_variables_of_its_own_client() {
        let (one, other, unknown) = (SessionId::generate(), SessionId::generate(), SessionId::generate());
        let names: BTreeSet<String> = ["TOKEN".to_owned()].into();
        let mut stored = ClientValues::default();
        stored.set_client_values(
            Some(one),
            values(&[("TOKEN", "first"), ("LONG", &"x".repeat(MAX_VALUE + 1)), ("LINES", "a\nb")]),
        );
        stored.set_client_values(Some(other), values(&[("TOKEN", "second")]));
        assert_eq!(stored.values(Some(one), &names)["TOKEN"], "first");
        assert_eq!(stored.values(Some(other), &names)["TOKEN"], "second");
        assert_eq!(stored.values(Some(unknown), &names)["TOKEN"], "second", "the most recent value is not used");
        stored.set_client_values(Some(one), values(&[]));
        assert_eq!(stored.values(Some(one), &names), values(&[]), "values of an earlier turn are used");
        for _ in 0..SESSIONS {
            stored.set_client_values(Some(SessionId::generate()), values(&[]));
        }
        assert!(stored.by_session.len() == SESSIONS && stored.by_session.iter().all(|(known, _)| *known != other));
    }
}
