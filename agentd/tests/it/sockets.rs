//! The socket: whose it is, and what stands in its place.

use std::{
    fs,
    os::unix::net::{UnixListener, UnixStream},
};

use crate::daemon::Home;

#[test]
fn a_dead_socket_is_replaced() {
    let home = Home::new();
    fs::create_dir(home.path().join("run")).unwrap();
    drop(UnixListener::bind(home.socket()).unwrap());
    assert!(UnixStream::connect(home.socket()).is_err());
    let daemon = home.start();
    UnixStream::connect(home.socket()).unwrap();
    assert_eq!(daemon.stop().status.code(), Some(0));
}

#[test]
fn a_live_socket_is_left_alone() {
    let home = Home::new();
    fs::create_dir(home.path().join("run")).unwrap();
    let other = UnixListener::bind(home.socket()).unwrap();
    home.fails(&mut home.command()).says(1, &["already listening", "hint: "]);
    drop(UnixStream::connect(home.socket()).unwrap());
    drop(other);
}

#[test]
fn a_file_in_the_way_is_left_alone() {
    let home = Home::new();
    fs::create_dir(home.path().join("run")).unwrap();
    fs::write(home.socket(), "mine").unwrap();
    home.fails(&mut home.command()).says(2, &["is not a socket", "hint: "]);
    assert_eq!(fs::read_to_string(home.socket()).unwrap(), "mine");
}

#[test]
fn a_path_that_is_too_long_is_said() {
    let home = Home::new();
    let long = home.path().join("x".repeat(120));
    home.fails(home.command().env("AGENTD_SOCKET", long)).says(2, &["the limit is 107", "hint: "]);
    assert!(!home.data().exists());
}

#[test]
fn a_successors_socket_is_not_taken_away() {
    let home = Home::new();
    let daemon = home.start();
    fs::remove_file(home.socket()).unwrap();
    let _successor = UnixListener::bind(home.socket()).unwrap();
    assert_eq!(daemon.stop().status.code(), Some(0));
    assert!(home.socket().exists());
}
