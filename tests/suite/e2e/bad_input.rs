//! Invalid input from users, scripts and other clients: a clear error with a hint, and no loss of data.

use std::os::unix::fs::chown;

use agentd_proto::{
    MAX_MESSAGE_BYTES,
    v1::{
        AnswerRequest, TurnRequest,
        interrupts_client::InterruptsClient,
        turn_request::{Command as Frame, Start},
        turns_client::TurnsClient,
    },
};
use hyper_util::rt::TokioIo;
use nix::unistd::geteuid;
use tokio::net::UnixStream;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::*;

/// Connects a raw client, which has no checks of its own.
async fn raw(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connect = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://local").connect_with_connector(connect).await.unwrap()
}

fn start(text: &str) -> TurnRequest {
    let start = Start { text: Some(text.to_owned()), ..Start::default() };
    TurnRequest { command: Some(Frame::Start(start)) }
}

/// Sends these frames, and keeps the stream open as a real client does.
pub(super) async fn frames(world: &World, frames: Vec<TurnRequest>) -> Result<Vec<agentd_proto::v1::Event>, Status> {
    use futures_util::StreamExt as _;
    let mut client = TurnsClient::new(raw(&world.daemon.socket()).await).max_encoding_message_size(usize::MAX);
    let frames = futures_util::stream::iter(frames).chain(futures_util::stream::pending());
    let mut events = client.turn(frames).await?.into_inner();
    let mut seen = Vec::new();
    while let Some(event) = events.message().await? {
        seen.push(event);
    }
    Ok(seen)
}

#[tokio::test]
async fn invalid_frames_are_refused() {
    let world = World::start().await;
    world.model.reply(Reply::text("One two three").hang_after_text("two"));
    let refused = frames(&world, vec![start("one"), start("two")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("start"), "{refused}");
    // The running turn is unaffected.
    assert_eq!(world.json(["status"]).await["running_turns"], 1);
    let check = async |bad: Vec<TurnRequest>, code: Code| {
        let refused = frames(&world, bad).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
        assert!(!refused.message().is_empty());
    };
    check(vec![TurnRequest::default()], Code::InvalidArgument).await;
    check(vec![TurnRequest { command: Some(Frame::Cancel(Default::default())) }], Code::InvalidArgument).await;
    let with = |start: Start| vec![TurnRequest { command: Some(Frame::Start(start)) }];
    let text = || Some("Hi".to_owned());
    check(with(Start { text: text(), slot: 77, ..Start::default() }), Code::InvalidArgument).await;
    check(with(Start { text: text(), session: "ffff".into(), ..Start::default() }), Code::NotFound).await;
    check(with(Start { text: text(), session: "' OR 1=1".into(), ..Start::default() }), Code::NotFound).await;
    check(with(Start { text: None, ..Start::default() }), Code::InvalidArgument).await;
    let mut interrupts = InterruptsClient::new(raw(&world.daemon.socket()).await);
    let answer = AnswerRequest { interrupt_id: "no id".into(), ..AnswerRequest::default() };
    assert_eq!(interrupts.answer(answer).await.unwrap_err().code(), Code::InvalidArgument);
    world.still_serves().await;
}

#[tokio::test]
async fn oversized_prompt_is_refused() {
    let world = World::start().await;
    let huge = "all work and no play ".repeat(5_000_000);
    // The client stops reading input once the limit is exceeded.
    world.agentctl_with(["run", "-"], huge.clone()).await.exits(2).says(&["8 MiB", "--file", "hint:"]);
    // The daemon rejects the input of a raw client, even if the frame cannot be decoded.
    let refused = frames(&world, vec![start(&huge)]).await.unwrap_err();
    assert_ne!(refused.code(), Code::Ok);
    let large = "x".repeat(MAX_MESSAGE_BYTES - 1024);
    let refused = frames(&world, vec![start(&large)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(world.model.requests().is_empty());
    // Input up to the limit is accepted.
    let longest = "y".repeat(8 * 1024 * 1024 - 1);
    world.agentctl_with(["run", "-"], longest).await;
    world.still_serves().await;
}

#[tokio::test]
async fn non_utf8_input_is_refused() {
    let world = World::start().await;
    world
        .daemon
        .agentctl_with(["run", "Say:"], b"good \xff\xfe bad".to_vec())
        .await
        .exits(2)
        .says(&["UTF-8", "byte 6", "hint:"]);
    world.agentctl_with(["chat"], b"good\n\xff\xfe\nbad\n".to_vec()).await.exits(2);
    world.still_serves().await;
}

#[tokio::test]
async fn config_typo_is_reported_with_place_and_nearest_key() {
    let (_model, home) = TempHome::with_server().await;
    home.write("config/agentd.yaml", "sessions:\n  confirm_wrte: true\n");
    let position = "agentd.yaml:2:3";
    let output =
        home.agentctl(["run", "Hi"]).await.exits(2).says(&[position, "confirm_wrte", "confirm_write", "hint:"]);
    assert_eq!(output.stdout, "");
    let output = Running::spawn(home.command(program("agentd"))).output(Vec::new()).await;
    output.exits(2).says(&[position, "confirm_write"]);
    home.write("config/agentd.yaml", "sessions:\n  confirm_write: [\n");
    home.agentctl(["run", "Hi"]).await.exits(2).says(&["agentd.yaml:"]);
    home.write("config/agentd.yaml", "sessions: {confirm_write: false}\n");
    home.ok(["run", "Hi"]).await;
}

#[tokio::test]
async fn unwritable_data_folder_is_an_error() {
    let home = TempHome::new();
    fs::create_dir(home.data()).unwrap();
    let nobody = 65534;
    let mut command = home.command(program("agentd"));
    if geteuid().is_root() {
        // Root can write anywhere, so the daemon runs as another user, who needs access to the folder.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        chown(home.data(), Some(nobody), None).unwrap();
        let copy = home.path().join("agentd");
        fs::copy(program("agentd"), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        command = home.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(copy);
    }
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o555)).unwrap();
    let output = Running::spawn(command).output(Vec::new()).await;
    output.exits(1).says(&[home.data().to_str().unwrap(), "denied", "hint:"]);
    fs::set_permissions(home.data(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn overlong_socket_path_is_refused() {
    let mut home = TempHome::new();
    let long = format!("/tmp/{}/agentd.sock", "long".repeat(30));
    home.set("AGENTD_SOCKET", &long);
    home.agentctl(["run", "Hi"]).await.exits(2).says(&["the limit is 107", "hint:"]);
    let output = Running::spawn(home.command(program("agentd"))).output(Vec::new()).await;
    output.exits(2).says(&["the limit is 107", "hint:"]);
}

#[tokio::test]
async fn socket_of_another_user_is_not_used() {
    if !geteuid().is_root() {
        return;
    }
    let home = TempHome::new();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(home.path().join("run")).unwrap();
    chown(home.path().join("run"), Some(65534), None).unwrap();
    let listen = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); \
                  print(1, flush=True); time.sleep(60)";
    let mut command: Command = home.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "/usr/bin/python3", "-c", listen]);
    command.arg(home.socket());
    let mut listener = Running::spawn(command);
    assert!(listener.json_line().await.is_some());
    home.agentctl(["run", "a secret"]).await.exits(3).says(&["another user", "hint:"]);
}
