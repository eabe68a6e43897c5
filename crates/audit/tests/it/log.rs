//! Tests for writing, reading, continuing after a restart, and rotation.

use std::{os::unix::fs::PermissionsExt as _, sync::Arc};

use agentd_audit::AuditLog;
use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::{Audit as _, AuditReader as _},
};

use crate::world::{World, decided, newest, problems, started};

#[tokio::test]
async fn acknowledged_records_are_in_the_file_and_verify() {
    let world = World::new();
    let log = world.open();
    log.record(started(1)).await.unwrap();
    assert_eq!(world.text().lines().count(), 1);
    log.note(started(2)).await;
    assert_eq!(log.synced_head().await.unwrap().n, 2);
    let report = log.verify(None).await.unwrap();
    assert_eq!((report.lines, report.findings), (2, Vec::new()));
    log.close().await;
    world.assert_valid(2);
    for name in ["audit.jsonl", "audit.head"] {
        let mode = std::fs::metadata(world.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn closed_log_returns_an_error() {
    let world = World::new();
    let log = world.open();
    log.close().await;
    log.close().await;
    assert_eq!(log.record(started(1)).await.unwrap_err().kind(), ErrorKind::ShuttingDown);
    assert_eq!(log.verify(None).await.unwrap_err().kind(), ErrorKind::ShuttingDown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_one_hash_chain() {
    let world = World::new();
    let log = Arc::new(world.open());
    let writers: Vec<_> = (0..20)
        .map(|writer| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                for n in 0..25 {
                    if n % 3 == 0 {
                        log.note(started(writer)).await
                    } else {
                        log.record(started(writer)).await.unwrap()
                    }
                }
            })
        })
        .collect();
    // Verification while entries are written reports no findings.
    for _ in 0..5 {
        assert_eq!(log.verify(None).await.unwrap().findings, []);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    log.close().await;
    world.assert_valid(500);
}

#[tokio::test]
async fn crash_during_rotation_loses_nothing() {
    let world = World::with(3).await;
    std::fs::rename(world.path("audit.jsonl"), world.path("audit-20260101T000000Z.jsonl")).unwrap();
    world.add(1).await;
    world.assert_valid(4);
}

#[tokio::test]
async fn query_answer_fits_one_message() {
    let world = World::new();
    let log = world.open();
    let session = SessionId::generate();
    for _ in 0..250 {
        log.note(decided(session, serde_json::json!(vec!["x".repeat(4000); 12]))).await;
    }
    let lines = newest(&log, 10_000).await;
    assert!((100..250).contains(&lines.len()), "{}", lines.len());
    assert_eq!(lines.last().unwrap().n, 250);
}

#[tokio::test]
async fn noted_hash_is_searched_in_the_log() {
    let world = World::new();
    let log = world.open();
    log.record(started(1)).await.unwrap();
    let noted = log.synced_head().await.unwrap().hash;
    log.record(started(2)).await.unwrap();
    assert_eq!(log.verify(Some(noted)).await.unwrap().findings, []);
    let report = log.verify(Some("ab".repeat(32))).await.unwrap();
    assert_eq!(problems(&report), [agentd_core::audit::AuditProblem::NotedHashMissing]);
}

#[tokio::test]
async fn log_that_is_not_a_plain_file_is_rejected() {
    let world = World::new();
    std::os::unix::fs::symlink("/dev/null", world.path("audit.jsonl")).unwrap();
    let error = AuditLog::open(world.config()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.hint().is_some());
}
