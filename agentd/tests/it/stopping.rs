//! Tests for stopping a daemon while a turn runs.

use std::net::TcpListener;

use agentd_core::{
    error::ErrorKind,
    event::{Event, EventKind},
    turn::{StartTurn, StopReason},
};
use agentd_proto::client::{Client, NewSession, SessionChoice, StartRequest, TurnStream};
use nix::sys::signal::Signal;

use crate::daemon::{Daemon, ExitOutput, Home, wait_until};

/// Daemon whose turns never end: its model accepts connections and never answers.
pub(crate) struct StuckDaemon {
    pub(crate) home: Home,
    daemon: Daemon,
    _model: TcpListener,
    pub(crate) runtime: tokio::runtime::Runtime,
}

impl StuckDaemon {
    pub(crate) fn new(drain_deadline: &str) -> Self {
        let model = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = Home::new();
        home.configure("agentd.yaml", &format!("service: {{drain_deadline: {drain_deadline}}}\n"));
        let mut command = home.command();
        let address = format!("http://{}/v1", model.local_addr().unwrap());
        let daemon = home.start_with(
            command.env("MODEL_BASIC_BASE_URL", address).env("MODEL_BASIC_ID", "silent").env("AGENTD_LOG", "trace"),
        );
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { home, daemon, _model: model, runtime }
    }

    /// Starts a turn and reads the stream until the turn has started.
    fn start_turn(&self) -> TurnStream {
        self.runtime.block_on(async {
            let client = Client::connect(&self.home.socket()).await.unwrap();
            let mut turn = client.turn(request()).await.unwrap();
            while !matches!(next(&mut turn).await.kind, EventKind::TurnStarted { .. }) {}
            turn
        })
    }

    fn read_end(&self, turn: &mut TurnStream) -> StopReason {
        self.runtime.block_on(async {
            loop {
                if let EventKind::TurnEnded { result } = next(turn).await.kind {
                    return result.stop_reason;
                }
            }
        })
    }

    fn wait(self) -> (Home, ExitOutput) {
        (self.home, self.daemon.wait())
    }
}

async fn next(turn: &mut TurnStream) -> Event {
    turn.next().await.unwrap().expect("the stream ended before its turn")
}

fn request() -> StartRequest {
    StartRequest {
        session: SessionChoice::New(NewSession::default()),
        start: StartTurn { text: Some("Hello".to_owned()), client: "test".to_owned(), ..StartTurn::default() },
    }
}

#[test]
fn turn_exceeding_the_drain_time_is_suspended() {
    let stuck_daemon = StuckDaemon::new("100ms");
    let mut turn = stuck_daemon.start_turn();
    let session = turn.session_id().to_string();
    let mut events = stuck_daemon.runtime.block_on(async {
        let client = Client::connect(&stuck_daemon.home.socket()).await.unwrap();
        client.subscribe(&session, 0, false).await.unwrap()
    });
    stuck_daemon.daemon.signal(Signal::SIGTERM);
    assert_eq!(stuck_daemon.read_end(&mut turn), StopReason::Suspended);
    let closed = stuck_daemon.runtime.block_on(async {
        let mut has_ended = false;
        loop {
            match events.next().await {
                Ok(Some(event)) => has_ended |= matches!(event.kind, EventKind::TurnEnded { .. }),
                Ok(None) => break None,
                Err(error) => break has_ended.then_some(error),
            }
        }
    });
    assert_eq!(closed.and_then(|error| error.answered()), Some(ErrorKind::ShuttingDown));
    let (home, output) = stuck_daemon.wait();
    output.assert_exit(0, &[]);
    assert!(!home.socket().exists());
    assert!(home.log().contains("turn") && !home.log().contains('\u{1b}'), "the log contains no colour codes");
    // The next daemon has nothing to recover, because the end of the turn was stored.
    let next = home.start();
    assert!(!home.log().contains("when the daemon last stopped"), "{}", home.log());
    assert_eq!(next.stop().status.code(), Some(0));
}

#[test]
fn second_signal_stops_immediately_and_new_turns_are_rejected_before() {
    let stuck_daemon = StuckDaemon::new("1h");
    let _turn = stuck_daemon.start_turn();
    stuck_daemon.daemon.signal(Signal::SIGTERM);
    wait_until("the stop has begun", || stuck_daemon.home.log().contains("stopping"));
    let answered = stuck_daemon.runtime.block_on(async {
        let client = Client::connect(&stuck_daemon.home.socket()).await.unwrap();
        client.turn(request()).await.err().and_then(|error| error.answered())
    });
    assert_eq!(answered, Some(ErrorKind::ShuttingDown));
    stuck_daemon.daemon.signal(Signal::SIGINT);
    let (home, output) = stuck_daemon.wait();
    output.assert_exit(1, &["stopped immediately by a second signal", "hint: "]);
    // The next daemon reports the turn that was interrupted by the stop.
    let next = home.start();
    wait_until("the interrupted turn is reported", || home.log().contains("when the daemon last stopped"));
    assert_eq!(next.stop().status.code(), Some(0));
}
