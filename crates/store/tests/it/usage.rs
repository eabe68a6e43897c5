//! Usage of model calls across restarts, by local day, and on disk.

use agentd_core::{
    Timestamp,
    event::EventKind,
    model::Slot,
    ports::Store,
    spending::{UsageGrouping, UsageQuery, UsageReport},
    usage::Usage,
};
use agentd_store::{SqliteStore, StoreConfig};
use agentd_testkit::store_contract::EventScript;
use jiff::tz::{Offset, TimeZone};

use crate::{file, new_session, open, opened, overwritten};

fn paid(script: &mut EventScript, cost: u64) -> std::sync::Arc<agentd_core::event::Event> {
    let usage = Usage::of_call(Some(Usage { prompt_tokens: 9, cost_microusd: Some(cost), ..Usage::default() }));
    let (model, turn, prompt) = ("m".to_owned(), usage, None);
    script.next(EventKind::UsageUpdated {
        step: 1,
        slot: Slot::Base,
        model,
        usage,
        turn,
        prompt,
        delegated: false,
        timing: None,
    })
}

async fn by(store: &SqliteStore, by: UsageGrouping) -> UsageReport {
    let query = UsageQuery { last_days: None, since: None, until: None, by };
    store.usage(query, Timestamp::now()).await.unwrap()
}

#[tokio::test]
async fn usage_days_follow_the_time_zone_of_the_call() {
    fn late() -> TimeZone {
        TimeZone::fixed(Offset::constant(-3))
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let store = SqliteStore::open(StoreConfig { time_zone: late, ..StoreConfig::at(&path) }).unwrap();
    let mut script = new_session(&store).await;
    store.append(vec![paid(&mut script, 1)]).await.unwrap();
    let report = by(&store, UsageGrouping::Day).await;
    assert_eq!(report.groups[0].name, "1969-12-31", "the call was made just after midnight UTC");
    store.close().await.unwrap();
    let store = open(folder.path());
    assert_eq!(by(&store, UsageGrouping::Day).await.groups, report.groups, "stored days do not change");
    store.close().await.unwrap();
}

#[tokio::test]
async fn deleted_session_leaves_no_trace_on_disk() {
    let (folder, store) = opened();
    for cost in [1, 2] {
        let mut script = new_session(&store).await;
        store.append(vec![paid(&mut script, cost), paid(&mut script, cost)]).await.unwrap();
        store.delete_session(script.session).await.unwrap();
        overwritten(&store).await;
    }
    let report = by(&store, UsageGrouping::Session).await;
    assert_eq!((report.groups.len(), report.groups[0].name.as_str()), (1, ""));
    assert_eq!((report.total.calls, report.total.cost_microusd), (4, Some(6)));
    store.close().await.unwrap();
    let rows = "SELECT count(*), max(session) FROM usage";
    let rows = file(folder.path()).query_row(rows, [], |row| Ok((row.get(0)?, row.get(1)?)));
    assert_eq!(rows, Ok((1, 0)), "all deleted calls share one row");
}
