//! Tests for cleanups over 30 days of use. [`schedule_task`] tests the schedule.

mod schedule_task;

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use agentd_audit::AuditConfig;
use agentd_core::{
    ids::{CallId, TurnId},
    ports::{AuditReader as _, Snapshots as _, ToolContext, Workspace},
    session::SessionSettings,
    storage::StoragePart,
    turn::StartTurn,
};
use agentd_engine::{EngineConfig, Ports};
use agentd_store::StoreConfig;
use agentd_testkit::{
    daemon::until,
    scripted::{OneModel, ScriptedModel, ScriptedTools, says},
};
use agentd_tools::WorkspaceFolders;
use agentd_workspace::snapshots::{FileSnapshots, SnapshotConfig};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::yaml::{Limit, Span};

const DAY: u64 = 24 * 60 * 60;
/// Size of each file that a session creates, in bytes.
const RESULT: usize = 50_000;

/// Clock that tests advance by whole days.
struct DayClock {
    start: Timestamp,
    day: AtomicI64,
}

impl Clock for DayClock {
    fn now(&self) -> Timestamp {
        let days = Duration::from_secs(DAY) * u32::try_from(self.day.load(Ordering::Relaxed)).unwrap();
        self.start.checked_add(days).unwrap()
    }
}

fn days(days: u64) -> Limit<Span> {
    Limit(Some(Span(Duration::from_secs(days * DAY))))
}

fn settings() -> RetentionSettings {
    RetentionSettings {
        every: days(1),
        workspaces: days(3),
        outputs: days(5),
        results: days(4),
        undo: days(4),
        sessions: days(8),
        journal_bytes: Limit(None),
        audit: days(5),
        audit_bytes: Limit(None),
        logs: days(5),
    }
}

struct World {
    folder: tempfile::TempDir,
    clock: Arc<DayClock>,
    engine: Engine,
    store: Arc<SqliteStore>,
    snapshots: Arc<FileSnapshots>,
    audit: Arc<AuditLog>,
    retention: Arc<Retention>,
}

impl World {
    fn new(settings: RetentionSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_path_buf();
        let clock = Arc::new(DayClock { start: Timestamp::now(), day: AtomicI64::new(0) });
        let model = ScriptedModel::new([]);
        model.respond_with(|_| says(&"What was said that day. ".repeat(4000)));
        let store = Arc::new(SqliteStore::open(StoreConfig::at(data.join("agentd.db"))).unwrap());
        let mut log = AuditConfig::new(&data, str::to_owned, clock.clone());
        // Few lines per file, so that a trim can remove whole files. The trim itself adds a line.
        log.rotate_at = 2_000;
        let audit = Arc::new(AuditLog::open(log).unwrap());
        let snapshots = Arc::new(FileSnapshots::new(data.join("undo"), SnapshotConfig::default()));
        let engine = Engine::new(
            Ports {
                models: Arc::new(OneModel(model)),
                toolbox: ScriptedTools::new(),
                store: store.clone(),
                workspaces: Arc::new(WorkspaceFolders::new(data.join("workspace"))),
                pictures: None,
                snapshots: snapshots.clone(),
                languages: Arc::new(agentd_core::ports::NoLanguages),
                exchanges: agentd_core::ports::NoExchanges::port(),
                audit: audit.clone(),
                clock: clock.clone(),
            },
            EngineConfig { idle_unload: Duration::from_millis(100), ..EngineConfig::default() },
        );
        let retention = Retention::new(engine.clone(), store.clone(), audit.clone(), clock.clone(), data, settings);
        Self { folder, clock, engine, store, snapshots, audit, retention: Arc::new(retention) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Creates a session that was used today and has files of every kind.
    async fn session(&self) -> SessionId {
        let text = Some("What is to be done today?".to_owned());
        let start = StartTurn { text, client: "a test".to_owned(), ..StartTurn::default() };
        let (session, _) =
            self.engine.start_session_with(SessionSettings::default(), start, Default::default()).await.unwrap();
        let id = session.id();
        // An idle session is unloaded immediately, so the test looks it up again each time.
        drop(session);
        until("the turn has ended", async || {
            let view = self.engine.session(id).await.ok()?.show().await.ok()?;
            view.live_turn.is_none().then_some(())
        })
        .await;
        self.engine.upload(id, "notes.txt".to_owned(), vec![b'n'; 50_000]).await.unwrap();
        let call = self.call(id);
        let before = self.snapshots.before(&call, None).await.unwrap();
        // The content differs between sessions and does not compress.
        let word = |number: usize| {
            let mut hasher = DefaultHasher::new();
            (id.to_string(), number).hash(&mut hasher);
            hasher.finish().to_le_bytes()
        };
        let incompressible_bytes: Vec<u8> = (0..RESULT / 8).flat_map(word).collect();
        for file in ["outputs/report.txt", "temp/x", "large_tool_results/y.txt", "conversation_history/h.md"] {
            fs::write(self.path(&format!("workspace/{id}/{file}")), &incompressible_bytes).unwrap();
        }
        let changes = before.after.await.unwrap();
        assert!(!changes.files.is_empty(), "{changes:?}");
        self.unloaded(id).await;
        id
    }

    /// Returns the context for a call that may change anything.
    fn call(&self, session_id: SessionId) -> ToolContext {
        ToolContext {
            session_id,
            turn_id: TurnId::generate(),
            call_id: CallId::generate(),
            workspace: Arc::new(Workspace {
                root: self.path(&format!("workspace/{session_id}")),
                project: None,
                folders: Vec::new(),
                memories: None,
                worktree: None,
            }),
            state_files: Arc::default(),
            client_files: None,
            reading: Default::default(),
            environment: Arc::default(),
            progress: Default::default(),
            person: Default::default(),
            sampler: Default::default(),
            sight: Default::default(),
            stands_for: None,
            confinement: agentd_core::policy::Confinement::Usual,
            guarded: Default::default(),
            closed: Default::default(),
            now: self.clock.now(),
            cancel: CancellationToken::new(),
        }
    }

    async fn unloaded(&self, id: SessionId) {
        until("the session is unloaded", async || self.engine.live_session(id).await.unwrap().is_none().then_some(()))
            .await;
    }

    async fn clean(&self) -> CleanReport {
        let report = self.retention.clean(SCHEDULE, false).await.unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        until("removed sessions are overwritten", async || {
            (self.store.size().await.unwrap().removed_sessions == 0).then_some(())
        })
        .await;
        report
    }

    fn set_day(&self, day: i64) {
        self.clock.day.store(day, Ordering::Relaxed);
    }

    fn folders(&self, parent: &str) -> usize {
        fs::read_dir(self.path(parent)).map_or(0, Iterator::count)
    }

    fn has_file(&self, id: SessionId, file: &str) -> bool {
        self.path(&format!("workspace/{id}/{file}")).exists()
    }

    /// Returns the notices about removed files in the history.
    async fn notices(&self, id: SessionId) -> Vec<String> {
        let items = self.engine.ports().store.items_between(id, 0, None, 100).await.unwrap();
        let notice = |item: agentd_core::item::Item| match item.body {
            agentd_core::item::ItemBody::Notice { text, .. } => Some(text),
            _ => None,
        };
        items.into_iter().filter_map(|(_, item)| notice(item)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_folder_stops_growing_within_thirty_days() {
    let world = World::new(settings());
    let mut sizes = Vec::new();
    let mut pinned = None;
    for day in 0..30 {
        world.set_day(day);
        let id = world.session().await;
        if day == 0 {
            world.engine.session(id).await.unwrap().pin(true).await.unwrap();
            world.unloaded(id).await;
            pinned = Some(id);
        }
        world.clean().await;
        sizes.push(world.retention.storage().await.unwrap());
    }
    let bytes = |day: usize, part: StoragePart| {
        sizes[day].parts.iter().find(|size| size.part == part).map_or(0, |size| size.bytes)
    };
    for part in [StoragePart::Workspaces, StoragePart::Audit] {
        let (before, now) = (bytes(14, part), bytes(29, part));
        // A difference of one file is not growth.
        assert!(now <= before + before / 4 + 8_192, "{part:?} has grown from {before} to {now}");
        assert!(now > 0, "{part:?}");
    }
    // The journal reuses the space of removed sessions.
    assert!(bytes(29, StoragePart::Journal) < 2 * bytes(14, StoragePart::Journal), "{sizes:#?}");
    // Nine days of sessions, and the pinned session.
    assert_eq!(world.engine.sessions(100).await.unwrap().len(), 10);
    assert!(world.folders("workspace") <= 11 && world.folders("undo") <= 8);
    until("contents that no session needs are removed", async || {
        let bytes = world.snapshots.bytes_on_disk().await.unwrap();
        (bytes <= 10 * RESULT as u64).then_some(())
    })
    .await;
    assert!(world.has_file(pinned.unwrap(), "outputs/report.txt"), "the files of a pinned session stay");
    let report = world.audit.verify(None).await.unwrap();
    assert!(report.is_intact(), "{report:?}");
    // The newest log file may have been rotated just now.
    let files = fs::read_dir(world.folder.path()).unwrap().map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("audit");
    let log: String = files.filter(is_log).map(|path| fs::read_to_string(path).unwrap()).collect();
    assert!(log.contains("log_trimmed") || log.contains("\"cleaned\""), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn areas_expire_by_age_and_history_stays() {
    let world = World::new(RetentionSettings { sessions: Limit(None), ..settings() });
    let id = world.session().await;
    world.set_day(2);
    assert_eq!(world.clean().await.parts, []);

    world.set_day(4);
    let trial = world.retention.clean("a test", true).await.unwrap();
    assert!(world.has_file(id, "uploads/notes.txt") && world.notices(id).await.is_empty(), "a trial removes nothing");
    assert_eq!(world.clean().await.parts, trial.parts);
    assert!(!world.has_file(id, "uploads/notes.txt") && !world.has_file(id, "temp/x"));
    assert!(world.has_file(id, "outputs/report.txt") && world.has_file(id, "large_tool_results/y.txt"));

    world.set_day(9);
    world.clean().await;
    assert!(!world.has_file(id, "outputs/report.txt") && !world.has_file(id, "large_tool_results/y.txt"));
    assert!(world.has_file(id, "conversation_history/h.md"), "the compacted history stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_in_use_are_not_cleaned() {
    let world = World::new(settings());
    let used = world.session().await;
    let handle = world.engine.session(used).await.unwrap();
    let _reader = handle.subscribe(0).await.unwrap();
    world.set_day(29);
    let report = world.clean().await;
    assert!(report.kept_sessions > 0 && world.has_file(used, "uploads/notes.txt"), "{report:?}");
    assert_eq!(world.engine.sessions(10).await.unwrap().len(), 1);
}

/// A cleanup does not count as a use of the session, even though it adds a notice to the history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cleaning_does_not_count_as_use() {
    let world = World::new(settings());
    let id = world.session().await;
    let last_used = async || {
        let listed = world.engine.sessions(10).await.unwrap();
        listed.into_iter().map(|session| session.updated_at).next()
    };
    let used = last_used().await;
    for (day, expected) in [(4, 1), (6, 2)] {
        world.set_day(day);
        world.clean().await;
        assert_eq!(world.notices(id).await.len(), expected);
        assert_eq!(last_used().await, used, "day {day}");
        world.unloaded(id).await;
    }
    world.set_day(9);
    world.clean().await;
    assert_eq!(last_used().await, None, "the session expired on time");
    for folder in ["workspace", "undo"] {
        assert!(!world.path(&format!("{folder}/{id}")).exists(), "{folder}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oldest_sessions_are_removed_from_oversized_journal() {
    let world = World::new(RetentionSettings { sessions: Limit(None), ..settings() });
    let mut ids = Vec::new();
    for day in 0..6 {
        world.set_day(day);
        ids.push(world.session().await);
    }
    world.engine.session(ids[0]).await.unwrap().pin(true).await.unwrap();
    world.unloaded(ids[0]).await;
    let size = world.store.size().await.unwrap();
    let used = size.bytes - size.spare_bytes;
    world.retention.follow_settings(RetentionSettings {
        sessions: Limit(None),
        journal_bytes: Limit(Some(used / 2)),
        ..settings()
    });
    world.clean().await;
    let left: Vec<_> = world.engine.sessions(10).await.unwrap().into_iter().map(|session| session.id).collect();
    assert!(left.contains(&ids[5]) && left.contains(&ids[0]) && !left.contains(&ids[1]), "{left:?} of {ids:?}");
}
