//! The database of OpenCode, as far as a history is read of it: `session`, `message` and `part`, each with its content as JSON. A
//! session is handed on in the form of `opencode export`, which the daemon knows how to distrust.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags, params};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::{failure::Failure, report, terminal::sanitize::clean_line};

/// First bytes of such a file.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of a history at the most, as the daemon reads them.
const MAX_BYTES: usize = 256 << 20;
/// Time limit for reading.
const PATIENCE: Duration = Duration::from_secs(60);
/// Steps of the database between two looks at the clock.
const STEPS: i32 = 100_000;
/// Sessions that are named where none was chosen.
const NAMED: usize = 20;

/// A session of the database.
struct KnownSession {
    id: String,
    title: String,
    directory: String,
    created: i64,
}

/// Returns whether the file is a database.
pub(super) fn is_database(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == MAGIC
}

/// Reads a session, chosen by its id or as the `last` that was used; none is needed where there is one only.
///
/// # Errors
/// When it is no database of OpenCode, has no such session, or several where none is chosen.
pub(super) fn read(path: &Path, chosen: Option<&str>) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: rusqlite::Error| {
        Failure::usage(format!("could not read {}: {error}", path.display()))
            .hint("`opencode export SESSION` writes a file that can be imported, too")
    };
    let database = open(path).map_err(unreadable)?;
    let session = choose(sessions(&database, chosen).map_err(unreadable)?, chosen)?;
    let history = history(&database, &session).map_err(unreadable)?;
    history.ok_or_else(|| Failure::usage(format!("the session has more than {} MiB", MAX_BYTES >> 20)))
}

/// The database, for reading. Nothing that it defines is run but its tables, and nothing runs for long.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let database =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    database.busy_timeout(Duration::from_secs(5))?;
    database.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON;")?;
    let began = Instant::now();
    database.progress_handler(STEPS, Some(move || began.elapsed() > PATIENCE))?;
    Ok(database)
}

/// Sessions that may be meant, the last used first.
fn sessions(database: &Connection, chosen: Option<&str>) -> rusqlite::Result<Vec<KnownSession>> {
    let id = chosen.filter(|chosen| *chosen != "last");
    // Those of subagents are meant only by name.
    let mut statement = database.prepare(
        "SELECT id, title, directory, time_created FROM session
         WHERE CASE WHEN ?1 IS NULL THEN parent_id IS NULL ELSE id = ?1 END ORDER BY time_updated DESC LIMIT ?2",
    )?;
    let found = statement.query_map(params![id, i64::try_from(NAMED + 1).unwrap_or(i64::MAX)], |row| {
        Ok(KnownSession { id: row.get(0)?, title: row.get(1)?, directory: row.get(2)?, created: row.get(3)? })
    })?;
    found.collect()
}

fn choose(sessions: Vec<KnownSession>, chosen: Option<&str>) -> Result<KnownSession, Failure> {
    let count = sessions.len();
    let lines: Vec<String> =
        sessions.iter().take(NAMED).map(|session| clean_line(&format!("{}  {}", session.id, session.title))).collect();
    let first = sessions.into_iter().next().ok_or_else(|| {
        let which = chosen.filter(|chosen| *chosen != "last").map(|id| format!(" {}", clean_line(id)));
        Failure::usage(format!("there is no session{} in this database", which.unwrap_or_default()))
            .hint("`opencode session list` lists them")
    })?;
    if count > 1 && chosen.is_none() {
        let more = if count > NAMED { "\n  …" } else { "" };
        let known = report::count(count.min(NAMED) as u64, "session");
        return Err(Failure::usage(format!("this database holds {known}:\n  {}{more}", lines.join("\n  ")))
            .hint("choose one with --pick ID, or the last used with --pick last"));
    }
    Ok(first)
}

/// The session in the form of `opencode export`; none where it is too large.
fn history(database: &Connection, session: &KnownSession) -> rusqlite::Result<Option<Vec<u8>>> {
    let KnownSession { id, title, directory, created } = session;
    let bytes: i64 = database.query_row(
        "SELECT coalesce((SELECT sum(octet_length(data)) FROM message WHERE session_id = ?1), 0)
              + coalesce((SELECT sum(octet_length(data)) FROM part WHERE session_id = ?1), 0)",
        [id],
        |row| row.get(0),
    )?;
    if usize::try_from(bytes).unwrap_or_default() > MAX_BYTES {
        return Ok(None);
    }
    let info = json!({ "id": id, "title": title, "directory": directory, "time": { "created": created } });
    let mut text = format!("{{\"info\":{info},\"messages\":[");
    let mut messages =
        database.prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts = database.prepare("SELECT data FROM part WHERE message_id = ?1 AND session_id = ?2 ORDER BY id")?;
    let mut rows = messages.query([id])?;
    let mut is_first = true;
    while let Some(row) = rows.next()? {
        let (message, data): (String, String) = (row.get(0)?, row.get(1)?);
        let parts = parts.query_map(params![message, id], |row| row.get::<_, String>(0))?;
        let parts: Vec<String> = parts.map(|part| Ok(sound(part?))).collect::<rusqlite::Result<_>>()?;
        let comma = if is_first { "" } else { "," };
        text.push_str(&format!("{comma}{{\"info\":{},\"parts\":[{}]}}", sound(data), parts.join(",")));
        is_first = false;
    }
    text.push_str("]}");
    Ok(Some(text.into_bytes()))
}

/// The content of a row; `null` where it is no JSON.
fn sound(data: String) -> String {
    if serde_json::from_str::<IgnoredAny>(&data).is_ok() { data } else { "null".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables as OpenCode 1.18 makes them, without columns that are not read.
    const TABLES: &str = "
        CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL);
        CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
            time_updated integer NOT NULL, data text NOT NULL);
        CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
            time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
        INSERT INTO session VALUES ('ses_1', NULL, '/home/me/app', 'Door', 5, 9), ('ses_2', 'ses_1', '/', 'Sub', 6, 20);
        INSERT INTO message VALUES ('msg_2', 'ses_1', 7, 7, '{\"role\":\"assistant\"}'),
            ('msg_1', 'ses_1', 6, 6, '{\"role\":\"user\"}'), ('msg_3', 'ses_1', 8, 8, 'no JSON');
        INSERT INTO part VALUES ('prt_2', 'msg_1', 'ses_1', 1, 1, '{\"type\":\"text\",\"text\":\"b\"}'),
            ('prt_1', 'msg_1', 'ses_1', 2, 2, '{\"type\":\"text\",\"text\":\"a\"}');";

    fn database(more: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        Connection::open(&path).unwrap().execute_batch(&format!("{TABLES}{more}")).unwrap();
        (folder, path)
    }

    #[test]
    fn a_session_has_the_form_of_an_export() {
        let (_folder, path) = database("");
        assert!(is_database(&path));
        let found: serde_json::Value = serde_json::from_slice(&read(&path, None).unwrap()).unwrap();
        assert_eq!(
            found,
            json!({
                "info": {"id": "ses_1", "title": "Door", "directory": "/home/me/app", "time": {"created": 5}},
                "messages": [
                    {"info": {"role": "user"}, "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"info": {"role": "assistant"}, "parts": []},
                    {"info": null, "parts": []},
                ],
            })
        );
    }

    #[test]
    fn one_of_several_is_chosen() {
        let (_folder, path) = database("INSERT INTO session VALUES ('ses_3', NULL, '/', 'New', 7, 30);");
        let several = read(&path, None).unwrap_err().to_string();
        assert!(several.contains("ses_1") && several.contains("ses_3") && !several.contains("ses_2"), "{several}");
        let id = |chosen| {
            let found: serde_json::Value = serde_json::from_slice(&read(&path, Some(chosen)).unwrap()).unwrap();
            found["info"]["id"].as_str().unwrap().to_owned()
        };
        assert_eq!([id("last"), id("ses_2")], ["ses_3", "ses_2"]);
        assert!(read(&path, Some("ses_9")).unwrap_err().to_string().contains("no session ses_9"));
    }

    #[test]
    fn what_is_no_such_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        std::fs::write(&path, "text").unwrap();
        assert!(!is_database(&path));
        std::fs::write(&path, [MAGIC, &[0xff; 4000]].concat()).unwrap();
        assert!(is_database(&path) && read(&path, None).is_err());
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE session (id text)").unwrap();
        assert!(read(&path, None).is_err());
        // A view that never ends is given up by the size of what it makes, or by the clock; here it is no table with those columns.
        let (_folder, path) = database("DROP TABLE part; CREATE VIEW part AS SELECT 1 AS data;");
        assert!(read(&path, None).is_err());
    }
}
