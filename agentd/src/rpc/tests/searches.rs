//! Searches in more documents than there is time for.

use agentd_core::knowledge::{DocumentFinds, DocumentQuery};
use agentd_tools::WorkspaceFolders;

use super::*;

/// As many as are open at once, and some more.
const MANY: usize = 304;

async fn search(patience: Duration, limit: usize) -> DocumentFinds {
    let home = tempfile::tempdir().unwrap();
    let folders = home.path().join("workspaces");
    let workspaces = Arc::new(WorkspaceFolders::new(folders.clone()));
    let daemon = Daemon::start_with([], workspaces, patience).await;
    let client = daemon.client().await;
    let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    client.upload(&id, "0.pdf", &b"%PDF-1.7\n"[..]).await.unwrap();
    for number in 1..MANY {
        std::fs::write(folders.join(&id).join(format!("uploads/{number}.pdf")), format!("%PDF-1.7\n{number}")).unwrap();
    }
    let query = DocumentQuery { text: "zebra".to_owned(), regex: false, limit, neighbours: false, begin_by: None };
    client.search_documents(&id, &[], &query, |_| {}).await.unwrap()
}

#[tokio::test]
async fn a_search_that_has_no_more_time_says_how_many_documents_it_did_not_search() {
    let finds = search(Duration::ZERO, 5).await;
    assert_eq!((finds.broken.len(), finds.not_searched, finds.is_complete()), (0, MANY, false), "{finds:?}");
    let finds = search(Duration::from_secs(600), 5).await;
    assert_eq!((finds.broken.len(), finds.not_searched), (MANY, 0));
}

#[tokio::test]
async fn a_limit_that_is_reduced_is_told() {
    let finds = search(Duration::ZERO, 500).await;
    let is_told = |note: &String| note.contains("200 finds at the most") && note.contains("500");
    assert!(finds.notes.iter().any(is_told), "{finds:?}");
    assert_eq!(search(Duration::ZERO, 200).await.notes, [""; 0]);
}
