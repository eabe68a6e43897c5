//! How the file is made, checked and brought to the newest schema.
//!
//! A clean close moves the write-ahead log into the database and removes it. So a log that is there at the next open
//! tells of an unclean stop; that there is none is no proof of a clean one, and for that there is a [`Mark`]. SQLite repairs
//! such a stop by itself; what it cannot know is whether the disk kept its promises, and for that the file is checked: whole up
//! to [`StoreConfig::full_check_up_to`], beyond it only the small tables that everything else depends on, so that a
//! start stays quick however long the journal is. Damage in those tables is an error; elsewhere it costs what is damaged.
//!
//! Where the journal is and how it is kept.

use std::{
    fs::{DirBuilder, OpenOptions, Permissions},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_core::counters::CounterKind;
use jiff::tz::TimeZone;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use rusqlite_migration::{M, Migrations};

use crate::{
    codec::Fault,
    draft,
    mark::{self, LOG_LIMIT, Loss, Mark, ShortLog},
    upkeep,
    usage::{self, CountedEvent},
};

/// Every version of the schema. Append only: a file that was released never changes.
const MIGRATIONS: &[M<'static>] = &[
    M::up(include_str!("../migrations/0001_journal.sql")),
    M::up(include_str!("../migrations/0002_queue.sql")),
    M::up(include_str!("../migrations/0003_grants.sql")),
    M::up(include_str!("../migrations/0004_state_files.sql")),
    M::up(include_str!("../migrations/0005_window.sql")),
    M::up(include_str!("../migrations/0006_search.sql")),
    M::up(include_str!("../migrations/0007_state_file_changes.sql")),
    M::up(include_str!("../migrations/0008_held.sql")),
    M::up(include_str!("../migrations/0009_handed_over.sql")),
    M::up(include_str!("../migrations/0010_children.sql")),
    M::up(include_str!("../migrations/0011_agents.sql")),
    M::up(include_str!("../migrations/0012_removed.sql")),
    M::up(include_str!("../migrations/0013_audit_head.sql")),
    M::up(include_str!("../migrations/0014_damaged.sql")),
    M::up(include_str!("../migrations/0015_files_left.sql")),
    M::up(include_str!("../migrations/0016_order_of_use.sql")),
    M::up(include_str!("../migrations/0017_surroundings.sql")),
    M::up(include_str!("../migrations/0018_usage.sql")),
    M::up(include_str!("../migrations/0019_counters.sql")),
    M::up(include_str!("../migrations/0020_imported.sql")),
    M::up(include_str!("../migrations/0021_counted.sql")),
    M::up(include_str!("../migrations/0022_origin.sql")),
    M::up(include_str!("../migrations/0023_withdrawn.sql")),
];

/// "agnt", which the first migration writes into the file's header.
const APPLICATION_ID: i64 = 0x6167_6e74;

/// Statements that a connection keeps prepared; more than there are.
const CACHED_STATEMENTS: usize = 56;

/// Pages in the log before it is moved into the database, 16 MB: larger than SQLite's own 4 MB, because every move
/// waits for the disk twice and one commit waits for the move.
const CHECKPOINT_PAGES: i64 = 4000;

/// The connection that writes and those that read.
pub(crate) struct Connections {
    pub(crate) writer: Connection,
    pub(crate) readers: Vec<Connection>,
    /// Set if there was no journal before.
    pub(crate) is_new: bool,
    /// Set if a log was there, which may hold what was removed.
    pub(crate) has_old_log: bool,
    pub(crate) mark: Mark,
    pub(crate) loss: Loss,
}

pub(crate) fn open(config: &StoreConfig) -> Result<Connections, Fault> {
    let unclean = mark::log_length(&config.path).is_some_and(|bytes| bytes > 0);
    if unclean {
        refuse_without_database(&config.path)?;
    }
    make_file(&config.path)?;
    let short = ShortLog::look_for(&config.path);
    let mut writer = connect(config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let is_new = identify(&writer)?;
    if is_new {
        // Before anything is written: afterwards it takes writing the whole file anew.
        upkeep::allow_shrinking(&writer)?;
    }
    set_up_writing(&writer, config)?;
    if unclean || short.is_some() {
        check(&writer, config)?;
    }
    migrate(&mut writer)?;
    draft::abandon_all(&writer)?;
    count_start(&writer, config, unclean || short.is_some())?;
    let newest = mark::newest(&writer);
    let loss = Loss::of(&config.path, short, newest);
    let pages = upkeep::pages(&writer)?;
    if !upkeep::can_shrink(&writer)? && pages.count.saturating_mul(pages.size) <= upkeep::SMALL {
        // It goes on as it was where there is no room for that.
        upkeep::rewrite(&writer).unwrap_or_else(|fault| tracing::warn!(?fault, "the journal cannot shrink yet"));
    }
    let readers = (0..config.readers.max(1))
        .map(|_| connect(config, OpenFlags::SQLITE_OPEN_READ_ONLY))
        .collect::<Result<_, _>>()?;
    let mark = Mark::set(&config.path, newest);
    Ok(Connections { writer, readers, is_new, has_old_log: unclean, mark, loss })
}

/// Counts a start of the daemon.
fn count_start(connection: &Connection, config: &StoreConfig, unclean: bool) -> Result<(), Fault> {
    let outcome = if unclean { "unclean" } else { "clean" };
    let counted = CountedEvent { kind: CounterKind::Start, name: "", outcome, milliseconds: 0 };
    match usage::add_event(connection, &(config.time_zone)(), jiff::Timestamp::now(), &counted) {
        // A start on a full disk is one all the same.
        Err(fault) if fault.is_disk_full() => Ok(()),
        counted => counted,
    }
}

/// SQLite throws away the log of a database that is empty, and that may be all that there is.
fn refuse_without_database(path: &Path) -> Result<(), Fault> {
    let what = match std::fs::metadata(path) {
        Ok(database) if database.len() == 0 => "is empty",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is gone",
        _ => return Ok(()),
    };
    let log = mark::log_of(path);
    Err(Fault::Corrupt(format!(
        "the file {what}, and {} beside it, which cannot be read without it, holds what was stored last",
        log.file_name().unwrap_or_default().display()
    )))
}

/// Makes the file and its folder for the owner alone. SQLite gives the files beside it the same mode.
fn make_file(path: &Path) -> Result<(), Fault> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn connect(config: &StoreConfig, access: OpenFlags) -> Result<Connection, Fault> {
    // Each connection is used by one thread at a time, so that SQLite needs no lock of its own.
    let connection = Connection::open_with_flags(&config.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(config.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // The log goes with a close of ours, which takes the mark away, and with nothing else.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Refuses what is no journal, or one of a newer program, before anything is changed in it. Says whether it is empty.
fn identify(connection: &Connection) -> Result<bool, Fault> {
    let header = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = header("user_version")?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let is_new = version == 0 && tables == 0;
    if !is_new && header("application_id")? != APPLICATION_ID {
        return Err(Fault::Foreign);
    }
    if usize::try_from(version).is_ok_and(|version| version > MIGRATIONS.len()) {
        return Err(Fault::Newer(version));
    }
    Ok(is_new)
}

fn set_up_writing(connection: &Connection, config: &StoreConfig) -> Result<(), Fault> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Fault::Io(std::sync::Arc::new(std::io::Error::other(
            "the file system has no shared memory for a write-ahead log",
        ))));
    }
    connection.pragma_update(None, "synchronous", if config.durable { "FULL" } else { "OFF" })?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // What a person deletes is overwritten, not only forgotten.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    // What a burst made large is given back at the next move of the log.
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT.cast_signed())?;
    if let Some(pages) = config.max_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

/// Tables that everything else depends on: where one of them is damaged, the journal is not opened.
const VITAL: [&str; 4] = ["sessions", "session_state", "interrupts", "grants"];

/// Looks for damage after a stop that was not clean. What is damaged elsewhere, as in `events`, costs what stands there when it
/// is read, and keeps nobody from the rest.
fn check(connection: &Connection, config: &StoreConfig) -> Result<(), Fault> {
    let size = std::fs::metadata(&config.path)?.len();
    let is_whole = size <= config.full_check_up_to;
    tracing::info!(bytes = size, whole = is_whole, "the last stop was not clean; checking the journal");
    // The first table of the file is checked with the list of its free pages.
    let found = problems(connection, if is_whole { "1000" } else { "sqlite_schema" })?;
    if found.is_empty() && is_whole {
        return Ok(());
    }
    if let Some(problem) = found.iter().find(|problem| UNSAFE.iter().any(|part| problem.contains(part))) {
        return Err(Fault::Corrupt(format!("the file is damaged: {problem}")));
    }
    for table in VITAL {
        if connection.table_exists(None, table)?
            && let Some(problem) = problems(connection, table)?.first()
        {
            return Err(Fault::Corrupt(format!("the file is damaged: {problem}")));
        }
    }
    if let Some(problem) = found.first() {
        tracing::error!(problem, "the journal is damaged; what cannot be read is left out: see `agentctl doctor`");
        // Where only an index is damaged, that is all it takes. Else it is read around.
        if let Err(fault) = connection.execute_batch("REINDEX events") {
            tracing::warn!(fault = %fault, "the indexes of events could not be built again");
        }
    }
    Ok(())
}

/// Parts of what SQLite says of a page that belongs to two things, or to none that it should: a write to such a file could
/// overwrite what is sound.
const UNSAFE: [&str; 4] = ["reelist", "2nd reference", "ointer map", "ptr map"];

/// Problems that SQLite finds in a table, or this many of all of them.
fn problems(connection: &Connection, target: &str) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({target})"))?;
    let mut told: Vec<String> = Vec::new();
    for problem in statement.query_map([], |row| row.get(0))? {
        match problem.map_err(Fault::from) {
            Ok(problem) => told.push(problem),
            // After the pages it reads the rows.
            Err(fault) if fault.is_corrupt() => {
                told.push("a part of it cannot be read".to_owned());
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    let lines = told.iter().flat_map(|told| told.lines()).map(str::trim);
    Ok(lines.filter(|line| !matches!(*line, "ok" | "") && !line.starts_with("***")).map(str::to_owned).collect())
}

fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    Migrations::from_slice(MIGRATIONS).to_latest(connection).map_err(|error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
        other => Fault::Corrupt(format!("its schema cannot be brought up to date: {other}")),
    })
}

/// Where the journal is and how it is kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The database file. Its folder is made, for the owner alone, where it is missing.
    pub path: PathBuf,
    /// Number of reading threads, at least one.
    pub readers: usize,
    /// Maximum number of changes that wait for the writer before callers wait to hand theirs over.
    pub max_waiting: usize,
    /// Time limit for a lock that another process holds.
    pub busy_timeout: Duration,
    /// Up to this size in bytes, the whole file is checked after an unclean stop; of larger files only the tables
    /// that everything else hangs on. A check reads every page, about a second for a gigabyte, and nobody can use
    /// the daemon meanwhile.
    pub full_check_up_to: u64,
    /// The time zone whose days usage is counted by.
    pub time_zone: fn() -> TimeZone,
    /// Set if what was acknowledged survives a loss of power. Without it nothing waits for the disk: for journals that are
    /// thrown away.
    pub durable: bool,
    /// The file may not grow beyond this many pages: a disk that is full, for tests.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
}

impl StoreConfig {
    /// A journal at `path`, kept as is right for one person's daemon. Its days are those of UTC.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            readers: 2,
            max_waiting: 256,
            busy_timeout: Duration::from_secs(5),
            full_check_up_to: 64 * 1024 * 1024,
            time_zone: || TimeZone::UTC,
            durable: true,
            max_pages: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_whole() {
        Migrations::from_slice(MIGRATIONS).validate().unwrap();
    }
}
