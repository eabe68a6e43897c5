//! Creates, checks and migrates the journal's file.
//!
//! A clean close moves the write-ahead log into the database and removes the log. A log at the next open therefore
//! means that the last stop was unclean. A missing log does not prove a clean stop, so the journal also has a [`Mark`].
//! SQLite recovers from an unclean stop automatically, but cannot detect that the disk lost acknowledged writes. Files
//! up to [`StoreConfig::full_check_up_to`] are therefore checked completely. In larger files, only the small tables on
//! which all other data depends are checked, so that the daemon starts quickly regardless of the journal's size. Damage
//! in those tables is an error; damage elsewhere only affects the damaged data.

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

/// All versions of the schema. Append-only, because released migrations never change.
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

/// Application ID "agnt", which the first migration writes into the file's header.
const APPLICATION_ID: i64 = 0x6167_6e74;

/// Number of prepared statements cached per connection. Larger than the number of statements.
const CACHED_STATEMENTS: usize = 56;

/// Number of log pages (16 MB) from which the log is moved into the database. Larger than SQLite's default of 4 MB,
/// because each move waits for the disk twice and delays one commit.
const CHECKPOINT_PAGES: i64 = 4000;

/// Connection of the writer and connections of the readers.
pub(crate) struct Connections {
    pub(crate) writer: Connection,
    pub(crate) readers: Vec<Connection>,
    /// True if there was no journal before.
    pub(crate) is_new: bool,
    /// True if there was a log, which may contain removed data.
    pub(crate) has_old_log: bool,
    pub(crate) mark: Mark,
    pub(crate) loss: Loss,
}

pub(crate) fn open(config: &StoreConfig) -> Result<Connections, Fault> {
    let unclean = mark::log_length(&config.path).is_some_and(|bytes| bytes > 0);
    if unclean {
        refuse_without_database(&config.path)?;
    }
    create_file(&config.path)?;
    let short = ShortLog::detect(&config.path);
    let mut writer = connect(config, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let is_new = identify(&writer)?;
    if is_new {
        // Must precede the first write. After a write, this setting would require rewriting the whole file.
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
    if !upkeep::can_shrink(&writer)? && pages.count.saturating_mul(pages.size) <= upkeep::SMALL_FILE {
        // Without enough space for the rewrite, the file stays unchanged.
        upkeep::rewrite(&writer).unwrap_or_else(|fault| tracing::warn!(?fault, "could not shrink the journal yet"));
    }
    let readers = (0..config.readers.max(1))
        .map(|_| connect(config, OpenFlags::SQLITE_OPEN_READ_ONLY))
        .collect::<Result<_, _>>()?;
    let mark = Mark::set(&config.path, newest);
    Ok(Connections { writer, readers, is_new, has_old_log: unclean, mark, loss })
}

/// Records a start of the daemon.
fn count_start(connection: &Connection, config: &StoreConfig, unclean: bool) -> Result<(), Fault> {
    let outcome = if unclean { "unclean" } else { "clean" };
    let counted = CountedEvent { kind: CounterKind::Start, name: "", outcome, milliseconds: 0 };
    match usage::add_event(connection, &(config.time_zone)(), jiff::Timestamp::now(), &counted) {
        // A full disk must not prevent the daemon from starting.
        Err(fault) if fault.is_disk_full() => Ok(()),
        counted => counted,
    }
}

/// Refuses to open a missing or empty database that has a log. SQLite would delete the log, which may contain the only
/// copy of the data.
fn refuse_without_database(path: &Path) -> Result<(), Fault> {
    let state = match std::fs::metadata(path) {
        Ok(database) if database.len() == 0 => "is empty",
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is missing",
        _ => return Ok(()),
    };
    let log = mark::log_of(path);
    Err(Fault::Corrupt(format!(
        "the file {state}, so the latest data, in {} next to it, cannot be read",
        log.file_name().unwrap_or_default().display()
    )))
}

/// Creates the file and its folder with access for the owner only. SQLite creates its other files with the same mode.
fn create_file(path: &Path) -> Result<(), Fault> {
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
    // Each connection is used by one thread at a time, so SQLite needs no mutex.
    let connection = Connection::open_with_flags(&config.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(config.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Only a clean close may remove the log, because a clean close also removes the mark.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

/// Rejects another program's database or a newer version, before the database is changed. Returns true if the database
/// is empty.
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
    // Overwrites deleted data.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    // After a burst of writes, the next move shrinks the log to this size.
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT.cast_signed())?;
    if let Some(pages) = config.max_pages {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

/// Tables on which all other data depends. If one of them is damaged, the journal is not opened.
const VITAL_TABLES: [&str; 4] = ["sessions", "session_state", "interrupts", "grants"];

/// Checks for damage after an unclean stop. Damage in other tables, such as `events`, only affects the damaged rows
/// when they are read.
fn check(connection: &Connection, config: &StoreConfig) -> Result<(), Fault> {
    let size = std::fs::metadata(&config.path)?.len();
    let is_whole = size <= config.full_check_up_to;
    tracing::info!(bytes = size, whole = is_whole, "the last shutdown was not clean; checking the journal");
    // Checking the first table of the file includes the list of free pages.
    let found = problems(connection, if is_whole { "1000" } else { "sqlite_schema" })?;
    if found.is_empty() && is_whole {
        return Ok(());
    }
    if let Some(problem) = found.iter().find(|problem| UNSAFE_PROBLEMS.iter().any(|part| problem.contains(part))) {
        return Err(Fault::Corrupt(format!("the file is damaged: {problem}")));
    }
    for table in VITAL_TABLES {
        if connection.table_exists(None, table)?
            && let Some(problem) = problems(connection, table)?.first()
        {
            return Err(Fault::Corrupt(format!("the file is damaged: {problem}")));
        }
    }
    if let Some(problem) = found.first() {
        tracing::error!(problem, "the journal is damaged; unreadable data is skipped, see `agentctl doctor`");
        // `REINDEX` repairs damage that is limited to an index. Reads skip other damage.
        if let Err(fault) = connection.execute_batch("REINDEX events") {
            tracing::warn!(fault = %fault, "could not rebuild the indexes of events");
        }
    }
    Ok(())
}

/// Fragments of SQLite's messages about pages that are used twice or in the wrong way. Writes to such a file could
/// overwrite intact data.
const UNSAFE_PROBLEMS: [&str; 4] = ["reelist", "2nd reference", "ointer map", "ptr map"];

/// Returns the problems that SQLite finds in a table, or at most `target` problems if `target` is a number.
fn problems(connection: &Connection, target: &str) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({target})"))?;
    let mut problems: Vec<String> = Vec::new();
    for problem in statement.query_map([], |row| row.get(0))? {
        match problem.map_err(Fault::from) {
            Ok(problem) => problems.push(problem),
            // SQLite checks the pages before it reads the rows, so this read can fail after problems were reported.
            Err(fault) if fault.is_corrupt() => {
                problems.push("a part of it cannot be read".to_owned());
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    let lines = problems.iter().flat_map(|problems| problems.lines()).map(str::trim);
    Ok(lines.filter(|line| !matches!(*line, "ok" | "") && !line.starts_with("***")).map(str::to_owned).collect())
}

fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    Migrations::from_slice(MIGRATIONS).to_latest(connection).map_err(|error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => err.into(),
        other => Fault::Corrupt(format!("could not migrate its schema: {other}")),
    })
}

/// Path and settings of the journal.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Path of the database file. A missing folder is created with access for the owner only.
    pub path: PathBuf,
    /// Number of reading threads, at least one.
    pub readers: usize,
    /// Maximum number of changes in the writer's queue. Callers wait while the queue is full.
    pub max_waiting: usize,
    /// Time limit for waiting until another process releases its lock.
    pub busy_timeout: Duration,
    /// Size in bytes up to which the whole file is checked after an unclean stop. In larger files, only the tables on
    /// which all other data depends are checked. A check reads every page, which takes about a second per gigabyte. The
    /// daemon is unavailable during the check.
    pub full_check_up_to: u64,
    /// Time zone for counting usage by day.
    pub time_zone: fn() -> TimeZone,
    /// True if acknowledged events must survive a power loss. If false, no write waits for the disk; only for temporary
    /// journals.
    pub durable: bool,
    /// Maximum number of pages in the file, to simulate a full disk in tests.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
}

impl StoreConfig {
    /// Returns settings for a journal at `path`, suitable for a single user's daemon. Days are in UTC.
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
