//! The table `counted`: deleted sessions whose model calls were counted, so that one that comes back is not counted again. Rows are
//! digests of ids: who has no archive of a session learns nothing from them.

use agentd_core::ids::SessionId;
use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use crate::{
    codec::{id_text, number_from},
    error::Fault,
};

/// Bytes of a digest that are kept.
const DIGEST: usize = 16;

/// Remembers that the calls of a session which goes were counted, up to its last event.
pub(crate) fn remember(connection: &Connection, key: i64) -> Result<(), Fault> {
    let found: Option<(String, i64)> = connection
        .prepare_cached("SELECT id, last_seq FROM sessions WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((id, last)) = found.filter(|(_, last)| *last > 0) else { return Ok(()) };
    connection
        .prepare_cached(
            "INSERT INTO counted (digest, through) VALUES (?1, ?2)
             ON CONFLICT (digest) DO UPDATE SET through = max(through, excluded.through)",
        )?
        .execute(params![digest(&id), last])?;
    Ok(())
}

/// Number of the last event of a session whose calls were counted before it was deleted; 0 where it never was.
pub(crate) fn through(connection: &Connection, id: SessionId) -> Result<u64, Fault> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT through FROM counted WHERE digest = ?1")?
        .query_row([digest(&id_text(id.as_uuid()))], |row| row.get(0))
        .optional()?;
    found.map_or(Ok(0), number_from)
}

fn digest(id: &str) -> Vec<u8> {
    Sha256::digest(id.as_bytes())[..DIGEST].to_vec()
}
