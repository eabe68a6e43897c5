//! What every [`Workspaces`] keeps to about the daemon's own texts; run against the real one and the fake.

#![expect(clippy::unwrap_used, reason = "a suite fails by panicking")]

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::{KeptArea, Workspaces},
};

/// Checks it. `read` reads what a tool of that session would find under a path.
///
/// # Panics
/// When it is not kept.
pub async fn check_kept_texts(workspaces: &dyn Workspaces, read: impl Fn(SessionId, &str) -> Option<Vec<u8>>) {
    let (session, other) = (SessionId::generate(), SessionId::generate());
    let keep = |session, area, name: &str, content: &[u8]| {
        let (name, content) = (name.to_owned(), content.to_vec());
        async move { workspaces.keep(session, area, name, content).await }
    };

    let path = keep(session, KeptArea::LargeToolResults, "a.txt", b"a long one").await.unwrap();
    assert_eq!(path, "large_tool_results/a.txt");
    assert_eq!(keep(session, KeptArea::LargeToolResults, "a.txt", b"short").await.unwrap(), path);
    assert_eq!(read(session, &path).unwrap(), b"short", "a name that is taken is replaced");

    let history = keep(session, KeptArea::ConversationHistory, "h.md", b"one\n").await.unwrap();
    assert_eq!(history, "conversation_history/h.md");
    keep(session, KeptArea::ConversationHistory, "h.md", b"").await.unwrap();
    keep(session, KeptArea::ConversationHistory, "h.md", b"two\xff\n").await.unwrap();
    assert_eq!(read(session, &history).unwrap(), b"one\ntwo\xff\n", "history only grows");

    assert_eq!(read(other, &history), None, "what is kept of one session is no other's");
    let long = "x".repeat(201);
    for name in ["", ".", "..", ".hidden", "a/b", "/a", "../a", "a\\b", "a\nb", "a\0b", long.as_str()] {
        for area in [KeptArea::LargeToolResults, KeptArea::ConversationHistory] {
            let error = keep(session, area, name, b"x").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
            assert!(error.hint().is_some());
        }
    }
    for name in ["报告 1.txt", "~a", "a..b", &long[..200]] {
        let path = keep(session, KeptArea::LargeToolResults, name, name.as_bytes()).await.unwrap();
        assert_eq!(read(session, &path).unwrap(), name.as_bytes());
    }

    workspaces.clear_temp(session).await.unwrap();
    assert_eq!(read(session, &path).unwrap(), b"short", "a reset leaves it alone");
    workspaces.remove(session).await.unwrap();
    assert_eq!(read(session, &path), None, "it goes with the session");
    keep(session, KeptArea::ConversationHistory, "h.md", b"new").await.unwrap();
    assert_eq!(read(session, &history).unwrap(), b"new");
}
