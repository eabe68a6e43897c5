//! Operations shared by commands and the chat. This module contains pinned rules and file transfer; the submodules
//! contain compaction, rewind and undo.

pub(crate) mod compact;
pub(crate) mod rewind;
pub(crate) mod undo;

use std::io;

use agentd_core::error::ErrorKind;
use agentd_proto::client::Client;

use crate::{daemon::Daemon, failure::Failure};

/// Loads the pinned rules of a session.
///
/// # Errors
/// Fails if the session does not exist, or the connection fails.
pub(crate) async fn pins(daemon: &Daemon, session: &str) -> anyhow::Result<Vec<String>> {
    Ok(daemon.client.session(session).await?.session.settings.pins)
}

/// Appends a pinned rule and returns all of them.
///
/// # Errors
/// Fails if the rule is too long, there are too many rules, or the connection fails.
pub(crate) async fn add_pin(daemon: &Daemon, session: &str, rule: &str) -> anyhow::Result<Vec<String>> {
    let mut pins = self::pins(daemon, session).await?;
    pins.push(rule.to_owned());
    daemon.client.set_pins(session, pins.clone()).await?;
    Ok(pins)
}

/// Removes the rule with this number, counted from 1.
///
/// # Errors
/// Fails if no rule has this number, or the connection fails.
pub(crate) async fn remove_pin(daemon: &Daemon, session: &str, number: usize) -> anyhow::Result<String> {
    let mut pins = self::pins(daemon, session).await?;
    let Some(at) = number.checked_sub(1).filter(|at| *at < pins.len()) else {
        let failure = Failure::usage(format!("no pinned rule {number}: the session has {}", pins.len()));
        return Err(failure.hint("`agentctl sessions show SESSION` and /pin list them").into());
    };
    let removed = pins.remove(at);
    daemon.client.set_pins(session, pins).await?;
    Ok(removed)
}

/// Passes a file to `take` piece by piece and returns its size. An empty file is passed as one empty piece. A file that
/// changes while it is read is an error, because the pieces could come from different versions.
///
/// # Errors
/// Fails if the file cannot be read, or was changed while it was read.
pub(crate) async fn each_piece(
    client: &Client,
    session: &str,
    path: &str,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> anyhow::Result<u64> {
    let (mut version, mut offset) = (None, 0);
    loop {
        let piece = client.read_file(session, path, offset).await?;
        let now = (piece.size, piece.modified);
        if *version.get_or_insert(now) != now {
            return Err(Failure::new(ErrorKind::Conflict, format!("{path} was changed while it was being read"))
                .hint("retry")
                .into());
        }
        take(&piece.content)?;
        offset += piece.content.len() as u64;
        if piece.content.is_empty() || offset >= piece.size {
            return Ok(offset);
        }
    }
}
