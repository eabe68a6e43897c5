//! Tests the socket on a real disk.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use agentd_proto::socket::{SocketError, bind, connect};
use futures_util::StreamExt as _;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn socket_path() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("run/agentd.sock");
    (home, path)
}

async fn refused_bind(path: &Path) -> SocketError {
    let error = bind(path).await.map(|_| ()).unwrap_err();
    assert!(!error.hint().is_empty());
    error
}

#[tokio::test]
async fn bound_socket_is_private_to_its_owner() {
    let (_home, path) = socket_path();
    let (incoming, file) = bind(&path).await.unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);

    let mut accepted = Box::pin(incoming.into_stream());
    let (caller, server) = tokio::join!(connect(&path), accepted.next());
    let (mut caller, mut server) = (caller.unwrap(), server.unwrap().unwrap());
    assert_eq!(server.peer().uid, fs::metadata(&path).unwrap().uid());
    caller.write_all(b"hello").await.unwrap();
    drop(caller);
    let mut received = String::new();
    server.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "hello");

    file.remove().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn stale_socket_is_replaced() {
    let (_home, path) = socket_path();
    let (incoming, file) = bind(&path).await.unwrap();
    drop(incoming);
    assert!(path.exists(), "closing the listener does not remove the socket file");
    assert!(matches!(connect(&path).await, Err(SocketError::NotListening { .. })));
    let (_incoming, successor) = bind(&path).await.unwrap();
    file.remove().unwrap();
    assert!(path.exists(), "the socket of a successor is not removed");
    successor.remove().unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn non_socket_file_is_left_alone() {
    let (_home, path) = socket_path();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&path, "mine").unwrap();
    assert!(matches!(refused_bind(&path).await, SocketError::NotASocket { .. }));
    assert!(matches!(connect(&path).await, Err(SocketError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    fs::remove_file(&path).unwrap();
    symlink("/nowhere", &path).unwrap();
    assert!(matches!(refused_bind(&path).await, SocketError::NotASocket { .. }));
}

#[tokio::test]
async fn socket_folder_writable_by_others_is_rejected() {
    let (_home, path) = socket_path();
    let folder = path.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    for (mode, safe) in [(0o777, false), (0o1777, false), (0o770, false), (0o755, true), (0o700, true)] {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        let bound = bind(&path).await;
        assert_eq!(bound.is_ok(), safe, "{mode:o}");
        match bound {
            Ok((_, file)) => file.remove().unwrap(),
            Err(error) => assert!(matches!(error, SocketError::UnsafeFolder { .. }), "{error}"),
        }
    }
}

#[tokio::test]
async fn absent_daemon_is_distinguished_from_unusable_socket() {
    let (_home, path) = socket_path();
    assert!(matches!(connect(&path).await, Err(SocketError::NotListening { .. })));
    let long = PathBuf::from(format!("/{}", "x".repeat(200)));
    assert!(matches!(connect(&long).await, Err(SocketError::TooLong { .. })));
    assert!(matches!(refused_bind(&long).await, SocketError::TooLong { .. }));
}
