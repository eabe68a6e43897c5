//! Data that callers may read: document pages, and the session's folders.

use crate::e2e::documents::fixture;

use super::*;

/// Creates a session with a document of three pages.
async fn session_with_document(world: &World) -> Value {
    let added = world.json(["docs", "add", &fixture("latin.pdf")]).await;
    added["session_id"].clone()
}

#[tokio::test]
async fn a_caller_finds_the_page_of_a_document() {
    let world = World::start().await;
    let session = session_with_document(&world).await;
    let caller = Caller::start(&world, &["--sessions", "all"]).await;
    let found = caller.gives("search_documents", json!({"session_id": session, "query": "report"})).await;
    let hit = &found["hits"][0];
    assert_eq!(hit["document"], "uploads/latin.pdf", "{found:#}");
    let citation = format!("latin.pdf {}", hit["place"].as_str().unwrap());
    assert!(citation.starts_with("latin.pdf p. ") && hit["citation"] == citation.as_str(), "{found:#}");
    holds(&found, json!({"searched": 1, "complete": true}));
    assert_eq!(found["session_id"], session);

    let broken = caller.gives("search_documents", json!({"session_id": session, "query": "(", "regex": true})).await;
    assert!(broken["notes"].to_string().contains("not a supported regular expression"), "{broken:#}");
    let nowhere = json!({"session_id": session, "query": "x", "paths": ["uploads/none.pdf"]});
    assert!(caller.fails("search_documents", nowhere).await.contains("none.pdf"));
}

#[tokio::test]
async fn caller_search_respects_the_read_rules() {
    let world = World::start().await;
    let session = session_with_document(&world).await;
    let caller = Caller::start(&world, &["--sessions", "all"]).await;
    let search = json!({"session_id": session, "query": "report"});
    assert!(!caller.gives("search_documents", search.clone()).await["hits"].as_array().unwrap().is_empty());

    world.write(
        "config/hitl_rules.yaml",
        "tools: {read_file: {patterns: {medium_risk: [latin]}, actions: {medium_risk: require_approval}}}",
    );
    world.ok(["reload"]).await;
    let found = caller.gives("search_documents", search.clone()).await;
    assert_eq!(found["hits"], json!([]), "{found:#}");
    assert!(found["notes"].to_string().contains("omitted"), "{found:#}");

    world.write(
        "config/hitl_rules.yaml",
        "tools: {search_documents: {patterns: {critical: [report]}, actions: {critical: deny}}}",
    );
    world.ok(["reload"]).await;
    has_all(&caller.fails("search_documents", search).await, &["search denied by the rules"]);
}

#[tokio::test]
async fn callers_see_the_given_folder_and_its_subfolders() {
    let world = World::start().await;
    world.write("given/inner/note.txt", "in the inner folder");
    world.write("given/note.txt", "in the folder");
    world.write("other/note.txt", "elsewhere");
    let given = world.path().join("given").display().to_string();
    let caller = Caller::start(&world, &["-C", &given]).await;
    world.model.respond_with(|request| match crate::e2e::tool_texts(request) {
        result if result.is_empty() => Reply::tool_call("read_file", json!({"path": "/project/note.txt"})),
        result => Reply::text(result),
    });
    let read = async |arguments: Value| caller.gives("ask", arguments).await["text"].to_string();
    assert!(read(json!({"prompt": "Read it"})).await.contains("in the folder"));
    assert!(read(json!({"prompt": "Read it", "folder": "inner"})).await.contains("in the inner folder"));
    has_all(&caller.fails("ask", json!({"prompt": "Read it", "folder": "../other"})).await, &["no folder ../other"]);
}
