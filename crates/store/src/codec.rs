//! Ids, times, numbers and JSON as columns hold them, and the statements that are run with them.
//!
//! Ids are text, the 32 digits without hyphens: a prefix that a person types is then a range of the index, and a
//! journal that somebody must repair by hand can be read. What repeats in every event is the session's integer key.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::{Connection, Params, Row, types::Type};
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::error::Fault;

pub(crate) fn id_text(id: Uuid) -> String {
    id.simple().to_string()
}

pub(crate) fn id_from<T: FromStr>(text: &str) -> Result<T, Fault> {
    text.parse().map_err(|_| Fault::Damaged(format!("a stored id has {} characters that are none", text.len())))
}

/// A count or number for a column; SQLite's integers have a sign.
pub(crate) fn number(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| Fault::invalid(format!("{value} is too large for the journal")))
}

pub(crate) fn number_from(value: i64) -> Result<u64, Fault> {
    u64::try_from(value).map_err(|_| Fault::Damaged(format!("a stored count is negative ({value})")))
}

/// A limit or bound for a query: what is beyond the largest integer bounds nothing.
pub(crate) fn bound(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// As [`bound`], for the limits of the port.
pub(crate) fn limit(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Nanoseconds, so that a stored event equals the published one. They reach from 1677 to 2262.
pub(crate) fn time(at: Timestamp) -> Result<i64, Fault> {
    i64::try_from(at.as_nanosecond()).map_err(|_| Fault::invalid(format!("the journal cannot hold the time {at}")))
}

pub(crate) fn time_from(nanoseconds: i64) -> Result<Timestamp, Fault> {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_err(|_| Fault::Damaged(format!("a stored time is out of range ({nanoseconds})")))
}

pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::invalid(format!("a value cannot be written as JSON: {error}")))
}

/// Reads what [`json`] wrote. The error says where, not what: stored text may be private.
pub(crate) fn json_from<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::Damaged(format!("a stored value cannot be read at its character {}", error.column())))
}

/// The text of a column, without a copy.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: &str) -> Result<&'a str, Fault> {
    let value = row.get_ref(column)?;
    value.as_str().map_err(|_| {
        let error = rusqlite::Error::InvalidColumnType(0, column.into(), Type::Text);
        Fault::from(error)
    })
}

/// Runs a statement and returns the number of rows that it changed.
pub(crate) fn run(connection: &Connection, sql: &str, params: impl Params) -> Result<usize, Fault> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// The rows of a query.
pub(crate) fn rows<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}

/// The first row of a query, if there is one.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_out_of_range_are_refused_not_wrapped() {
        assert_eq!(number(i64::MAX as u64).unwrap(), i64::MAX);
        assert!(matches!(number(u64::MAX), Err(Fault::Refused(..))));
        assert!(matches!(number_from(-1), Err(Fault::Damaged(_))));
        assert_eq!(bound(u64::MAX), i64::MAX);
        assert!(matches!(time(Timestamp::MAX), Err(Fault::Refused(..))));
        let at: Timestamp = "2026-02-03T04:05:06.789012345Z".parse().unwrap();
        assert_eq!(time_from(time(at).unwrap()).unwrap(), at);
    }

    #[test]
    fn unreadable_values_are_not_quoted() {
        let Err(Fault::Damaged(message)) = json_from::<u64>("\"secret\"") else { panic!("this is no number") };
        assert!(!message.contains("secret"), "{message}");
    }
}
