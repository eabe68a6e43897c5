//! The contract of every [`Workspaces`] for the daemon's own texts, which runs against both the real workspaces and the
//! fake.

#![expect(clippy::unwrap_used, reason = "a suite fails by panicking")]

use agentd_core::{
    error::ErrorKind,
    ids::SessionId,
    ports::{Artifact, ArtifactDir, Workspaces},
};

/// Checks the contract. `read` returns the text that a tool in that session would read at a path.
///
/// # Panics
/// Panics if the contract is violated.
pub async fn check_kept_texts(workspaces: &dyn Workspaces, read: impl Fn(SessionId, &str) -> Option<Vec<u8>>) {
    let (session, other) = (SessionId::generate(), SessionId::generate());
    let keep = |session, area, name: &str, content: &[u8]| {
        let (name, content) = (name.to_owned(), content.to_vec());
        async move { workspaces.keep(session, area, name, content).await }
    };

    let path = keep(session, ArtifactDir::LargeToolResults, "a.txt", b"a long one").await.unwrap();
    assert_eq!(path, "large_tool_results/a.txt");
    assert_eq!(keep(session, ArtifactDir::LargeToolResults, "a.txt", b"short").await.unwrap(), path);
    assert_eq!(read(session, &path).unwrap(), b"short", "an existing file is replaced");

    let add = |from, content: &[u8]| {
        let content = content.to_vec();
        async move {
            workspaces
                .append_artifact(session, ArtifactDir::ConversationHistory, "h.md".to_owned(), from, content)
                .await
        }
    };
    let Artifact { path: history, bytes } = add(Some(0), b"one\n").await.unwrap();
    assert_eq!((history.as_str(), bytes), ("conversation_history/h.md", 4));
    assert_eq!(add(Some(4), b"").await.unwrap().bytes, 4);
    assert_eq!(add(Some(4), b"two\xff\n").await.unwrap().bytes, 9);
    assert_eq!(read(session, &history).unwrap(), b"one\ntwo\xff\n", "the file is appended to");
    assert_eq!(add(Some(4), b"three\n").await.unwrap().bytes, 10);
    assert_eq!(read(session, &history).unwrap(), b"one\nthree\n", "bytes after the known size are truncated");
    assert_eq!(add(Some(99), b"four\n").await.unwrap().bytes, 15, "a file shorter than the known size is appended to");
    assert_eq!(add(None, b"five\n").await.unwrap().bytes, 20, "without a known size, nothing is truncated");

    assert_eq!(read(other, &history), None, "the file is not visible to another session");
    let long = "x".repeat(201);
    for name in ["", ".", "..", ".hidden", "a/b", "/a", "../a", "a\\b", "a\nb", "a\0b", long.as_str()] {
        for area in [ArtifactDir::LargeToolResults, ArtifactDir::ConversationHistory] {
            let error = keep(session, area, name, b"x").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
            assert!(error.hint().is_some());
            let error =
                workspaces.append_artifact(session, area, name.to_owned(), None, b"x".to_vec()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name:?}");
        }
    }
    for name in ["报告 1.txt", "~a", "a..b", &long[..200]] {
        let path = keep(session, ArtifactDir::LargeToolResults, name, name.as_bytes()).await.unwrap();
        assert_eq!(read(session, &path).unwrap(), name.as_bytes());
    }

    workspaces.clear_temp(session).await.unwrap();
    assert_eq!(read(session, &path).unwrap(), b"short", "a reset keeps the file");
    workspaces.remove(session).await.unwrap();
    assert_eq!(read(session, &path), None, "the file is deleted with the session");
    add(None, b"new").await.unwrap();
    assert_eq!(read(session, &history).unwrap(), b"new");
}
