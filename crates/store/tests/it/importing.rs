//! Imported sessions are hidden until they are complete, and removed if they are never completed.

use std::sync::Arc;

use agentd_core::{
    Timestamp,
    archive::{DraftId, SessionDraft},
    error::ErrorKind,
    event::Event,
    ids::SessionId,
    ports::{JournalImports, Store},
    session::{SessionSettings, SessionStatus},
};
use agentd_store::SqliteStore;
use agentd_testkit::store_contract::EventScript;

use crate::{new_session, opened, overwritten, rows};

fn draft() -> DraftId {
    DraftId(SessionId::generate())
}

fn made_of(draft: DraftId, script: &EventScript) -> SessionDraft {
    SessionDraft {
        draft,
        id: script.session,
        created_at: Timestamp::UNIX_EPOCH,
        at: "2026-01-31T12:00:00Z".parse().unwrap(),
        settings: SessionSettings::default(),
        counts_usage: true,
    }
}

fn imports(store: &SqliteStore) -> &dyn JournalImports {
    store.imports().unwrap()
}

fn ids(sessions: Vec<agentd_core::session::SessionSummary>) -> Vec<SessionId> {
    sessions.into_iter().map(|session| session.id).collect()
}

#[tokio::test]
async fn imported_draft_is_invisible_until_published() {
    let (_folder, store) = opened();
    let mut other = new_session(&store).await;
    store.append(vec![other.input("the green door")]).await.unwrap();
    let mut script = EventScript::new(SessionId::generate(), Timestamp::UNIX_EPOCH);
    let events: Vec<Arc<Event>> = (0..40).map(|_| script.input("the blue door")).collect();
    let draft = draft();
    imports(&store).begin(draft).await.unwrap();
    imports(&store).add(draft, events[..25].to_vec()).await.unwrap();
    assert_eq!(ids(store.sessions(10).await.unwrap()), [other.session]);
    assert_eq!(store.session(script.session).await.unwrap(), None);
    assert!(store.find_sessions(String::new(), 10).await.unwrap() == [other.session]);
    assert!(store.damaged().await.unwrap().is_empty());
    assert_eq!(store.size().await.unwrap().removed_sessions, 0);
    // Events with a gap or a repeated number are rejected and leave the draft unchanged.
    for wrong in [&events[26..27], &events[10..12]] {
        let error = imports(&store).add(draft, wrong.to_vec()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    // A concurrent removal of another session does not affect the draft.
    store.delete_session(other.session).await.unwrap();
    overwritten(&store).await;
    imports(&store).add(draft, events[25..].to_vec()).await.unwrap();
    imports(&store).finish(vec![made_of(draft, &script)]).await.unwrap();

    assert_eq!(store.events(script.session, 0, 100).await.unwrap(), events);
    let stored = store.session(script.session).await.unwrap().unwrap();
    assert_eq!((stored.summary.last_seq, stored.summary.status), (40, SessionStatus::Idle));
    assert_eq!(stored.summary.title, "the blue door");
    assert_eq!(stored.summary.updated_at, "2026-01-31T12:00:00Z".parse().unwrap());
    let query = agentd_core::search::SearchQuery::parse("blue").unwrap();
    assert!(!store.search(query, None, 10).await.unwrap().hits.is_empty());
    // The imported session can be continued, and a second session with its ID is rejected.
    store.append(vec![script.input("and on")]).await.unwrap();
    let second = self::draft();
    imports(&store).begin(second).await.unwrap();
    let error = imports(&store).finish(vec![made_of(second, &script)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let error = imports(&store).add(draft, events).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "a published draft accepts no more events");
}

#[tokio::test]
async fn drafts_of_an_import_are_published_atomically() {
    let (folder, store) = opened();
    let existing = new_session(&store).await;
    let script = EventScript::new(SessionId::generate(), Timestamp::UNIX_EPOCH);
    let (first, second) = (draft(), draft());
    imports(&store).begin(first).await.unwrap();
    imports(&store).begin(second).await.unwrap();
    let both_drafts = vec![made_of(first, &script), made_of(second, &existing)];
    assert_eq!(imports(&store).finish(both_drafts).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(ids(store.sessions(10).await.unwrap()), [existing.session]);
    imports(&store).abandon(vec![first, second, draft()]).await.unwrap();
    overwritten(&store).await;
    store.close().await.unwrap();
    assert_eq!((rows(folder.path(), "sessions"), rows(folder.path(), "events")), (1, 0));
}
