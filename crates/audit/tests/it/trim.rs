//! Tests for removing old files by age and size. The log stays verifiable.

use std::sync::{Arc, Mutex};

use agentd_audit::{AuditConfig, AuditLog, TrimLimits, TrimReport};
use agentd_core::{
    Timestamp,
    audit::{AuditEntry, AuditFact, AuditProblem},
    ports::{Audit as _, AuditReader as _, Clock},
};

use crate::world::{World, newest, problems};

const DAY: i64 = 24 * 60 * 60;

/// Clock that tests set by hand, in days.
struct Days(Mutex<i64>);

impl Days {
    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + day * DAY).unwrap()
    }

    fn set(&self, day: i64) {
        *self.0.lock().unwrap() = day;
    }
}

impl Clock for Days {
    fn now(&self) -> Timestamp {
        Self::at(*self.0.lock().unwrap())
    }
}

/// Writes a log over `count` days, with one file per day.
async fn days(world: &World, count: i64) -> (AuditLog, Arc<Days>) {
    let clock = Arc::new(Days(Mutex::new(0)));
    let log = AuditLog::open(AuditConfig { rotate_at: 1, clock: clock.clone(), ..world.config() }).unwrap();
    for day in 0..count {
        clock.set(day);
        log.record(started(day)).await.unwrap();
    }
    (log, clock)
}

fn started(day: i64) -> AuditEntry {
    let fact = AuditFact::DaemonStarted { version: "1".to_owned(), pid: u32::try_from(day).unwrap() };
    AuditEntry::general(Days::at(day), fact)
}

fn files(world: &World) -> usize {
    let names = std::fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".jsonl")).count()
}

/// Returns the paths of the rotated files, oldest first.
fn rotated(world: &World) -> Vec<std::path::PathBuf> {
    let names = std::fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut rotated: Vec<_> = names.filter(|path| path.to_str().unwrap().contains("audit-")).collect();
    rotated.sort();
    rotated
}

fn since(day: i64) -> TrimLimits {
    TrimLimits { before: Some(Days::at(day)), ..TrimLimits::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_during_rotation_returns_every_line() {
    let world = World::new();
    // A few lines per file.
    let log = Arc::new(AuditLog::open(AuditConfig { rotate_at: 2_000, ..world.config() }).unwrap());
    let writes = tokio::spawn({
        let log = log.clone();
        async move {
            for day in 0..400 {
                log.record(started(day)).await.unwrap();
            }
        }
    });
    let mut reads = 0;
    while !writes.is_finished() {
        let report = log.verify(None).await.unwrap();
        assert!(report.findings.is_empty(), "read {reads}: {report:?}");
        let all = newest(&log, 1_000).await;
        let rows: Vec<u64> = all.iter().map(|line| line.n).collect();
        assert_eq!(rows, (1..=rows.len() as u64).collect::<Vec<_>>());
        reads += 1;
    }
    writes.await.unwrap();
    assert!(reads > 1, "no read happened during the writes");
}

#[tokio::test]
async fn trimming_by_age_keeps_the_log_valid() {
    let world = World::new();
    let (log, clock) = days(&world, 10).await;
    assert_eq!((files(&world), world.problems()), (10, vec![]));
    let trial = log.trim(TrimLimits { trial: true, ..since(5) }).await.unwrap();
    assert_eq!((trial.files, files(&world), world.problems()), (4, 10, vec![]), "a trial removed files");

    let trimmed = log.trim(since(5)).await.unwrap();
    assert_eq!(trimmed, trial);
    let report = world.verify();
    assert!(report.is_intact(), "{report:?}");
    assert_eq!(problems(&report), [AuditProblem::Recorded]);
    assert_eq!(log.trim(since(5)).await.unwrap(), TrimReport::default());

    // The log continues, is trimmed again and still verifies, also when it is opened by the next daemon.
    clock.set(30);
    log.record(started(30)).await.unwrap();
    log.trim(since(31)).await.unwrap();
    assert!(world.verify().is_intact());
    log.close().await;
    world.add(2).await;
    assert!(world.verify().is_intact(), "{:?}", world.verify());
}

#[tokio::test]
async fn trimming_keeps_total_size_below_the_limit() {
    let world = World::new();
    let (log, _) = days(&world, 20).await;
    let limits = TrimLimits { max_bytes: Some(2000), ..TrimLimits::default() };
    let trimmed = log.trim(limits).await.unwrap();
    // The records of the removals add a few lines.
    assert!((14..19).contains(&trimmed.files), "{trimmed:?}");
    assert!(world.verify().is_intact());
    assert!(world.text().contains("log_trimmed"));
}

#[tokio::test]
async fn removed_beginning_is_reported() {
    let world = World::new();
    let (log, _) = days(&world, 6).await;
    log.trim(since(2)).await.unwrap();
    assert!(world.verify().is_intact());
    let rotated = rotated(&world);
    std::fs::remove_file(&rotated[0]).unwrap();
    assert_eq!(world.problems(), [AuditProblem::BeginningMissing]);
}

#[tokio::test]
async fn crash_during_trimming_leaves_a_valid_log() {
    let world = World::new();
    let (log, _) = days(&world, 6).await;
    let names = || std::fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().path());
    let before: Vec<_> = names().map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    log.trim(since(3)).await.unwrap();
    // Simulates a stop between record and removal: the newest removed file still exists.
    let mut removed: Vec<_> = before.into_iter().filter(|(path, _)| !path.exists()).collect();
    removed.sort();
    let (path, content) = removed.pop().unwrap();
    std::fs::write(path, content).unwrap();
    assert!(world.verify().is_intact(), "{:?}", world.verify());
    log.trim(since(3)).await.unwrap();
    assert!(world.verify().is_intact());
}

#[tokio::test]
async fn tampered_file_is_not_trimmed() {
    let world = World::new();
    let (log, _) = days(&world, 5).await;
    let rotated = rotated(&world);
    let changed = std::fs::read_to_string(&rotated[0]).unwrap().replace("\"pid\":0", "\"pid\":9");
    std::fs::write(&rotated[0], changed).unwrap();
    assert_eq!(log.trim(since(9)).await.unwrap(), TrimReport::default());
    assert!(world.problems().contains(&AuditProblem::Changed));
}
