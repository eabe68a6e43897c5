//! What commands and the chat do alike: pinned rules and files of a session; in files of their own compaction, rewind and undo.

pub(crate) mod compact;
pub(crate) mod rewind;
pub(crate) mod undo;

use std::io;

use agentd_core::error::ErrorKind;
use agentd_proto::client::Client;

use crate::{daemon::Daemon, failure::Failure};

/// The pinned rules of a session.
///
/// # Errors
/// When there is no such session, or the connection fails.
pub(crate) async fn pins(daemon: &Daemon, session: &str) -> anyhow::Result<Vec<String>> {
    Ok(daemon.client.session(session).await?.session.settings.pins)
}

/// Pins a rule behind those that there are.
///
/// # Errors
/// When it is too long, they are too many, or the connection fails.
pub(crate) async fn add_pin(daemon: &Daemon, session: &str, rule: &str) -> anyhow::Result<Vec<String>> {
    let mut pins = self::pins(daemon, session).await?;
    pins.push(rule.to_owned());
    daemon.client.set_pins(session, pins.clone()).await?;
    Ok(pins)
}

/// Removes the rule of that number, counted from 1.
///
/// # Errors
/// When there is none of that number, or the connection fails.
pub(crate) async fn remove_pin(daemon: &Daemon, session: &str, number: usize) -> anyhow::Result<String> {
    let mut pins = self::pins(daemon, session).await?;
    let Some(at) = number.checked_sub(1).filter(|at| *at < pins.len()) else {
        let failure = Failure::usage(format!("there is no pinned rule {number}: the session has {}", pins.len()));
        return Err(failure.hint("`agentctl sessions show SESSION` and /pin list them").into());
    };
    let removed = pins.remove(at);
    daemon.client.set_pins(session, pins).await?;
    Ok(removed)
}

/// Hands the pieces of a file on, one after the other; of an empty file `take` gets one empty piece. A file that
/// changes meanwhile is none that anybody wrote.
///
/// # Errors
/// When it cannot be read, or was changed meanwhile.
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
                .hint("get it again")
                .into());
        }
        take(&piece.content)?;
        offset += piece.content.len() as u64;
        if piece.content.is_empty() || offset >= piece.size {
            return Ok(offset);
        }
    }
}
