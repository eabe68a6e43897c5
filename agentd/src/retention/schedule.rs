//! The cleanup schedule, the selection of data that is too old or exceeds a limit, and the disk usage of the data
//! folder.
//!
//! The selection is pure: it performs no I/O.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agentd_core::{
    Timestamp,
    ids::SessionId,
    ports::WorkspaceArea,
    session::{SessionStatus, SessionSummary},
    storage::{PartSize, StoragePart},
};
use agentd_engine::Activity;
use tokio::{sync::watch, time::sleep};

use crate::{
    config::{
        RetentionSettings,
        yaml::{Limit, Span},
    },
    retention::{Retention, SCHEDULE},
};

/// Start of the retention period for each kind of data. Data that has not been used since then is expired.
pub(super) struct KeepSince {
    now: Timestamp,
    areas: Vec<(WorkspaceArea, Timestamp)>,
    undo: Option<Timestamp>,
    sessions: Option<Timestamp>,
}

impl KeepSince {
    pub(super) fn new(settings: &RetentionSettings, now: Timestamp) -> Self {
        let limits = [
            (WorkspaceArea::Uploads, settings.workspaces),
            (WorkspaceArea::Outputs, settings.outputs),
            (WorkspaceArea::Temp, settings.workspaces),
            (WorkspaceArea::Skills, settings.workspaces),
            (WorkspaceArea::LargeToolResults, settings.results),
        ];
        Self {
            now,
            areas: limits.into_iter().filter_map(|(area, limit)| Some((area, period_start(now, limit)?))).collect(),
            undo: period_start(now, settings.undo),
            sessions: period_start(now, settings.sessions),
        }
    }

    /// Returns the start of the retention period `limit`, or `None` if the data never expires.
    pub(super) fn before(&self, limit: Limit<Span>) -> Option<Timestamp> {
        period_start(self.now, limit)
    }

    /// Returns the folders of a session whose files may be cleaned, with the start of their retention period. The
    /// session and its subagents share these files; all of them must be inactive and unused since then.
    pub(super) fn areas(
        &self,
        session: &SessionSummary,
        children: &[&SessionSummary],
    ) -> Vec<(WorkspaceArea, Timestamp)> {
        let users = || children.iter().copied().chain([session]);
        let is_due = |(_, since): &&(WorkspaceArea, Timestamp)| {
            users().all(|session| is_inactive(session) && session.updated_at < *since)
        };
        self.areas.iter().filter(is_due).copied().collect()
    }

    /// Returns true if the contents needed to undo the session's changes are expired.
    pub(super) fn undo(&self, session: &SessionSummary) -> bool {
        is_inactive(session) && self.undo.is_some_and(|since| session.updated_at < since)
    }

    /// Returns the sessions that may be removed, least recently used first. `used` is the used size of the journal in
    /// bytes.
    pub(super) fn sessions(&self, sessions: &[SessionSummary], used: u64) -> Vec<Candidate> {
        let events: u64 = sessions.iter().map(|session| session.last_seq).sum();
        let share = |events_of: u64| {
            let bytes = u128::from(used) * u128::from(events_of) / u128::from(events.max(1));
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let candidate = |session: &SessionSummary| {
            let children = || sessions.iter().filter(|child| child.parent == Some(session.id));
            // Users can also send messages directly to subagents.
            let last_used = children().map(|child| child.updated_at).fold(session.updated_at, Timestamp::max);
            Candidate {
                id: session.id,
                last_used,
                bytes: share(session.last_seq + children().map(|child| child.last_seq).sum::<u64>()),
                is_old: self.sessions.is_some_and(|since| last_used < since),
            }
        };
        let mut oldest: Vec<Candidate> =
            sessions.iter().filter(|session| session.parent.is_none() && is_inactive(session)).map(candidate).collect();
        oldest.sort_by_key(|candidate| candidate.last_used);
        oldest
    }
}

/// Session that may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) id: SessionId,
    /// Last use of the session or one of its subagents.
    pub(super) last_used: Timestamp,
    /// Size in the journal in bytes, estimated from the session's share of the events.
    pub(super) bytes: u64,
    /// True if the session is expired, regardless of the journal's size.
    pub(super) is_old: bool,
}

/// Returns true if no turn of the session is running or waiting. Does not check for connected clients, which only the
/// session itself knows.
fn is_inactive(session: &SessionSummary) -> bool {
    matches!(session.status, SessionStatus::Idle | SessionStatus::Interrupted)
}

fn period_start(now: Timestamp, limit: Limit<Span>) -> Option<Timestamp> {
    // If the period starts before the earliest timestamp, nothing expires.
    now.checked_sub(limit.0?.0).ok()
}

/// Delay of the first cleanup after the start, so that the cleanup does not slow down a user's first turns.
const FIRST_DELAY: Duration = Duration::from_secs(5 * 60);
/// Interval between checks. Due times follow the wall clock instead of elapsed sleeps, because the host may be
/// suspended.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Time that a due cleanup waits for the daemon to become idle.
const MAX_DELAY: Duration = Duration::from_secs(60 * 60);

/// Runs scheduled cleanups, preferably while no turn runs. Never returns.
pub async fn follow(retention: Arc<Retention>, activity: watch::Receiver<Activity>) {
    let mut next = NextCleanup::first(retention.clock.now());
    loop {
        sleep(CHECK_INTERVAL).await;
        let every = retention.settings.borrow().every.0.map(|span| span.0);
        let is_quiet = activity.borrow().is_quiet();
        if next.advance_if_due(retention.clock.now(), every, is_quiet) {
            match retention.clean(SCHEDULE, false).await {
                Ok(report) => {
                    tracing::debug!(parts = ?report.parts, "scheduled cleanup finished")
                }
                Err(error) => tracing::warn!("could not clean up unused data: {error}"),
            }
        }
    }
}

/// Due time of the next cleanup.
struct NextCleanup(Timestamp);

impl NextCleanup {
    fn first(now: Timestamp) -> Self {
        Self(now.saturating_add(FIRST_DELAY).unwrap_or(now))
    }

    /// Returns true if a cleanup is due, and schedules the next one.
    fn advance_if_due(&mut self, now: Timestamp, every: Option<Duration>, is_quiet: bool) -> bool {
        let Some(every) = every else { return false };
        let following = now.saturating_add(every).unwrap_or(now);
        // The clock may have been set back.
        self.0 = self.0.min(following.max(Self::first(now).0));
        let overdue = self.0.saturating_add(MAX_DELAY).unwrap_or(self.0);
        let is_due = if is_quiet { now >= self.0 } else { now >= overdue };
        if is_due {
            self.0 = following;
        }
        is_due
    }
}

/// Unit of the system's block counts, in bytes.
const BLOCK: u64 = 512;

/// Size of a folder or a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) files: u64,
    /// Size on disk in bytes.
    pub(super) bytes: u64,
}

/// Returns the size of each part of the data folder.
pub(super) fn disk_usage(data: &Path) -> io::Result<Vec<PartSize>> {
    let mut parts: Vec<PartSize> =
        StoragePart::ALL.into_iter().map(|part| PartSize { part, bytes: 0, files: 0 }).collect();
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let part = part(&entry.file_name().to_string_lossy());
        let content = measure(entry.path());
        if let Some(size) = parts.iter_mut().find(|size| size.part == part) {
            size.bytes += content.bytes;
            size.files += content.files;
        }
    }
    Ok(parts)
}

/// Returns the size of a folder, or `None` if the folder does not exist.
pub(super) async fn content(folder: PathBuf) -> Option<Content> {
    let measured = tokio::task::spawn_blocking(move || folder.is_dir().then(|| measure(folder))).await;
    measured.ok().flatten()
}

fn part(name: &str) -> StoragePart {
    match name {
        "agentd.db" => StoragePart::Journal,
        "agentd.db-wal" | "agentd.db-shm" => StoragePart::JournalLog,
        "index" => StoragePart::Index,
        "workspace" => StoragePart::Workspaces,
        "undo" => StoragePart::Undo,
        "memories" => StoragePart::Memories,
        "models" => StoragePart::Models,
        "skills" => StoragePart::Skills,
        "skill_environments" => StoragePart::SkillEnvironments,
        "logs" => StoragePart::Logs,
        "traces" => StoragePart::Traces,
        name if name.starts_with("audit.") || name.starts_with("audit-") => StoragePart::Audit,
        _ => StoragePart::Other,
    }
}

/// Measures a folder or a file without following links. Counts files that disappear meanwhile or are not accessible as
/// empty.
fn measure(path: PathBuf) -> Content {
    let mut content = Content::default();
    let mut stack = vec![path];
    while let Some(path) = stack.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        content.bytes += metadata.blocks() * BLOCK;
        if !metadata.is_dir() {
            content.files += 1;
            continue;
        }
        if let Ok(entries) = fs::read_dir(&path) {
            stack.extend(entries.flatten().map(|entry| entry.path()));
        }
    }
    content
}

/// Returns the free space for this user on the disk that contains `folder`, in bytes, or 0 if unknown.
pub(super) fn free_bytes(folder: &Path) -> u64 {
    nix::sys::statvfs::statvfs(folder).map_or(0, |disk| {
        let free: u64 = disk.blocks_available();
        free.saturating_mul(disk.fragment_size())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    fn days(days: u64) -> Limit<Span> {
        Limit(Some(Span(Duration::from_secs(days * DAY))))
    }

    fn day(day: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + day * DAY.cast_signed()).unwrap()
    }

    fn session(used: i64, events: u64) -> SessionSummary {
        SessionSummary {
            id: SessionId::generate(),
            title: String::new(),
            created_at: day(0),
            updated_at: day(used),
            turns: 1,
            last_seq: events,
            status: SessionStatus::Idle,
            usage: agentd_core::usage::Usage::default(),
            parent: None,
            project: None,
            folders: Vec::new(),
            worktree: None,
        }
    }

    fn settings() -> RetentionSettings {
        let never = Limit(None);
        RetentionSettings {
            every: never,
            workspaces: days(7),
            outputs: days(30),
            results: never,
            undo: days(30),
            sessions: never,
            journal_bytes: Limit(None),
            audit: never,
            audit_bytes: Limit(None),
            logs: never,
        }
    }

    #[test]
    fn areas_expire_independently() {
        use WorkspaceArea::{Outputs, Skills, Temp, Uploads};
        let due = KeepSince::new(&settings(), day(100));
        let check = |used, expected: &[WorkspaceArea], undo| {
            let session = session(used, 1);
            let areas: Vec<_> = due.areas(&session, &[]).into_iter().map(|(area, _)| area).collect();
            assert_eq!((areas.as_slice(), due.undo(&session)), (expected, undo), "used on day {used}");
        };
        check(100, &[], false);
        check(93, &[], false);
        check(92, &[Uploads, Temp, Skills], false);
        check(69, &[Uploads, Outputs, Temp, Skills], true);
        // The clock was set back.
        check(200, &[], false);
        // A subagent uses the files of its parent.
        let (parent, child) = (session(0, 1), session(80, 1));
        let areas: Vec<_> = due.areas(&parent, &[&child]).into_iter().map(|(area, _)| area).collect();
        assert_eq!(areas, [Uploads, Temp, Skills]);
        let child = SessionSummary { status: SessionStatus::Waiting, ..session(0, 1) };
        assert!(due.areas(&parent, &[&child]).is_empty());
    }

    #[test]
    fn running_or_waiting_session_is_never_due() {
        let due = KeepSince::new(&RetentionSettings { sessions: days(1), ..settings() }, day(100));
        for status in [SessionStatus::Running, SessionStatus::Waiting] {
            let session = SessionSummary { status, ..session(0, 1) };
            assert!(due.areas(&session, &[]).is_empty() && !due.undo(&session));
            assert!(due.sessions(&[session], 1000).is_empty());
        }
    }

    #[test]
    fn oldest_sessions_expire_first() {
        let all = [session(90, 10), session(10, 30), session(50, 60)];
        let check = |age, expected: &[(usize, u64, bool)]| {
            let settings = RetentionSettings { sessions: age, ..settings() };
            let candidates = KeepSince::new(&settings, day(100)).sessions(&all, 1000);
            let expected = expected.iter().map(|(at, bytes, is_old)| Candidate {
                id: all[*at].id,
                last_used: all[*at].updated_at,
                bytes: *bytes,
                is_old: *is_old,
            });
            assert_eq!(candidates, expected.collect::<Vec<_>>());
        };
        check(Limit(None), &[(1, 300, false), (2, 600, false), (0, 100, false)]);
        check(days(60), &[(1, 300, true), (2, 600, false), (0, 100, false)]);
        check(days(5), &[(1, 300, true), (2, 600, true), (0, 100, true)]);
    }

    #[test]
    fn subagent_sessions_expire_with_their_parent() {
        let parent = session(10, 30);
        let check = |used, is_old| {
            let child = SessionSummary { parent: Some(parent.id), ..session(used, 70) };
            let settings = RetentionSettings { sessions: days(60), ..settings() };
            let candidates = KeepSince::new(&settings, day(100)).sessions(&[parent.clone(), child], 1000);
            assert_eq!(candidates, [Candidate { id: parent.id, last_used: day(used), bytes: 1000, is_old }]);
        };
        check(10, true);
        // A session is retained while one of its subagents is in use.
        check(90, false);
    }

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
    }

    #[test]
    fn next_cleanup_time_follows_the_clock() {
        let hour = Some(Duration::from_secs(3600));
        let mut next = NextCleanup::first(minute(0));
        let mut check = |at: i64, every, is_quiet, expected| {
            assert_eq!(next.advance_if_due(minute(at), every, is_quiet), expected, "minute {at}");
        };
        check(1, hour, true, false);
        check(6, hour, true, true);
        check(7, hour, true, false);
        check(66, hour, true, true);
        // A due cleanup waits for the daemon to become idle, up to the time limit.
        check(130, hour, false, false);
        check(185, hour, false, false);
        check(186, hour, false, true);
        check(400, None, true, false);
        check(401, hour, true, true);
        // The host was suspended, and then its clock was set back.
        check(9000, hour, true, true);
        check(100, hour, true, false);
        check(161, hour, true, true);
    }

    #[test]
    fn every_file_in_the_data_folder_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![7; bytes]).unwrap();
        };
        write("agentd.db", 100_000);
        write("agentd.db-wal", 10_000);
        write("audit.jsonl", 5000);
        write("audit-20260101T000000.000000Z.jsonl", 5000);
        write("workspace/a/outputs/x", 50_000);
        write("agentd.lock", 5);
        std::os::unix::fs::symlink("/usr", folder.path().join("workspace/a/outputs/usr")).unwrap();
        let parts = disk_usage(folder.path()).unwrap();
        let find = |part| parts.iter().find(|size| size.part == part).unwrap();
        assert_eq!(parts.len(), StoragePart::ALL.len());
        assert!((100_000..120_000).contains(&find(StoragePart::Journal).bytes));
        assert_eq!(find(StoragePart::Audit).files, 2);
        assert_eq!(find(StoragePart::Other).files, 1);
        let workspaces = find(StoragePart::Workspaces);
        assert!(workspaces.files == 2 && workspaces.bytes < 100_000, "{workspaces:?}");
        assert!(free_bytes(folder.path()) > 0);
    }
}
