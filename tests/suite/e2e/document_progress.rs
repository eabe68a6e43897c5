//! Progress of documents that are read for whoever waits.

use agentd_core::knowledge::DocumentQuery;
use agentd_proto::client::NewSession;

use super::{World, documents::fixture};

#[tokio::test]
async fn a_search_tells_how_far_the_documents_are_that_it_reads_first() {
    let world = World::start().await;
    let client = world.client().await;
    let id = client.create_session(&NewSession::default()).await.unwrap().session.summary.id.to_string();
    let content = std::fs::read(fixture("latin.pdf")).unwrap();
    client.upload(&id, "latin.pdf", &content[..]).await.unwrap();
    let text = "QUARTZ-2".to_owned();
    let query = DocumentQuery { text, regex: false, limit: 5, neighbours: false, begin_by: None };
    let search = async || {
        let mut steps = Vec::new();
        let show = |step: agentd_core::knowledge::DocumentProgress| steps.push((step.document, step.parts, step.total));
        let finds = client.search_documents(&id, &[], &query, show).await.unwrap();
        assert!(!finds.hits.is_empty(), "{finds:?}");
        steps
    };
    let steps = search().await;
    assert_eq!(steps.last(), Some(&("uploads/latin.pdf".to_owned(), 3, Some(3))), "{steps:?}");
    // It is indexed: nothing is read.
    assert_eq!(search().await, []);
}
