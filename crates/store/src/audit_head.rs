//! The table `audit_head`: how far the audit log was when the journal was last told.

use agentd_core::audit::AuditHead;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    codec::{number, number_from},
    error::Fault,
};

pub(crate) fn note(connection: &Connection, head: &AuditHead) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO audit_head (one, n, hash) VALUES (1, ?1, ?2)
             ON CONFLICT DO UPDATE SET n = excluded.n, hash = excluded.hash",
        )?
        .execute(params![number(head.n)?, head.hash])?;
    Ok(())
}

pub(crate) fn noted(connection: &Connection) -> Result<Option<AuditHead>, Fault> {
    let row = connection
        .prepare_cached("SELECT n, hash FROM audit_head")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    row.map(|(n, hash)| Ok(AuditHead { n: number_from(n)?, hash })).transpose()
}
