//! What is written ahead of what follows it.

use std::sync::Arc;

use agentd_core::{
    error::{ErrorKind, StoreError},
    event::Event,
    ids::SessionId,
    ports::{Newborn, Store},
    session::SessionSettings,
};
use futures_util::future::BoxFuture;

use super::{EventScript, start};

/// A store may be too busy for a moment.
async fn ahead(
    store: &impl Store,
    id: SessionId,
    newborn: Option<Newborn>,
    events: Vec<Arc<Event>>,
) -> BoxFuture<'static, Result<(), StoreError>> {
    loop {
        match store.append_ahead(id, newborn.clone(), events.clone()) {
            Some(stored) => return stored,
            None => tokio::task::yield_now().await,
        }
    }
}

pub(super) async fn what_is_written_ahead_is_stored_with_what_follows(store: &impl Store) {
    let mut script = EventScript::new(SessionId::generate(), start());
    let (id, newborn) = (script.session, Newborn { at: start(), settings: SessionSettings::default() });
    let mut all = vec![script.turn_started(), script.input("Hello")];
    let begun = ahead(store, id, Some(newborn), all.clone()).await;
    let behind = script.input("there");
    store.append(vec![behind.clone()]).await.unwrap();
    all.push(behind);
    assert_eq!(store.events(id, 0, 10).await.unwrap(), all, "what follows brings what was written ahead with it");
    begun.await.unwrap();

    // Where nothing follows, it is stored once somebody waits for it, and also where nobody does.
    let alone = script.input("alone");
    ahead(store, id, None, vec![alone.clone()]).await.await.unwrap();
    all.push(alone);
    assert_eq!(store.events(id, 0, 10).await.unwrap(), all);
    let let_go = script.input("let go");
    drop(ahead(store, id, None, vec![let_go.clone()]).await);
    let last = script.input("last");
    store.append(vec![last.clone()]).await.unwrap();
    all.extend([let_go, last]);
    assert_eq!(store.events(id, 0, 10).await.unwrap(), all);
}

pub(super) async fn what_cannot_be_written_ahead_is_refused_with_what_follows(store: &impl Store) {
    let mut script = EventScript::new(SessionId::generate(), start());
    let id = script.session;
    store.create_session(id, start(), SessionSettings::default(), vec![script.turn_started()]).await.unwrap();
    let mut gap = EventScript { seq: 5, ..script.clone() };
    let begun = ahead(store, id, None, vec![gap.input("too far")]).await;
    let behind = store.append(vec![gap.input("as far")]).await;
    assert_eq!(behind.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(begun.await.unwrap_err().kind(), ErrorKind::Conflict);
    let unknown = EventScript::new(SessionId::generate(), start()).turn_started();
    ahead(store, unknown.session_id, None, vec![unknown]).await.await.unwrap_err();
    // The session goes on as if nothing had been tried.
    store.append(vec![script.input("next")]).await.unwrap();
    assert_eq!(store.events(id, 0, 10).await.unwrap().len(), 2);
}
