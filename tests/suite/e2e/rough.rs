//! Adverse conditions other than input: a disk that rejects writes, stopped and continued processes, thousands of
//! vanishing clients, many concurrent starts, and a crash while very many questions are pending.
//!
//! `make test` runs the long tests with small numbers, and `make soak` with the numbers in [`CLIENTS`] and
//! [`QUESTIONS`].

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use agentd_core::{event::EventKind, ids::InterruptId, interrupt::Answer};
use agentd_proto::client::{Client, NewSession, SessionChoice};
use agentd_testkit::{
    daemon::{TempDaemon, TempHome, program, until},
    model_server::{ModelServer, Reply},
};
use futures_util::future::join_all;
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, geteuid},
};
use serde_json::json;

use super::{Events as _, World, tool_texts, turn};

/// Environment variable with the number of vanishing clients.
const CLIENTS: &str = "AGENTD_SOAK_CLIENTS";

/// Environment variable with the number of pending questions.
const QUESTIONS: &str = "AGENTD_SOAK_QUESTIONS";

fn number(name: &str, usual: usize) -> usize {
    std::env::var(name).map_or(usual, |value| value.parse().expect("a number"))
}

/// Files that cannot be changed, even by root, until this value is dropped.
struct Unchangeable(Vec<PathBuf>);

impl Unchangeable {
    /// Makes the files immutable. Returns `None` if the file system or the user's rights do not support this.
    fn make(files: Vec<PathBuf>) -> Option<Self> {
        let made = geteuid().is_root() && chattr("+i", &files);
        if !made {
            eprintln!("skipped: files cannot be made immutable here");
        }
        made.then_some(Self(files))
    }
}

impl Drop for Unchangeable {
    fn drop(&mut self) {
        chattr("-i", &self.0);
    }
}

fn chattr(attribute: &str, files: &[PathBuf]) -> bool {
    let done = Command::new("chattr").arg(attribute).args(files).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// Returns the state of a process, such as `T` for a stopped one.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().chars().next().unwrap()
}

async fn wait_until_stopped(pid: u32) {
    until("the process is stopped", || async { (state(pid) == 'T').then_some(()) }).await;
}

/// Returns the number of stored model answers in all sessions.
async fn answers(client: &Client) -> usize {
    let mut count = 0;
    for session in client.sessions(100).await.unwrap() {
        let items = client.items(&session.id.to_string(), 0, 1000).await.unwrap();
        count += items.iter().filter(|item| format!("{item:?}").contains("It is kept.")).count();
    }
    count
}

#[tokio::test]
async fn unstorable_turns_are_refused_until_the_journal_is_writable() {
    let mut world = World::start().await;
    world.model.default_reply(Reply::text("It is kept."));
    world.daemon.agentctl(["run", "first"]).await.exits(0);
    let files = ["agentd.db", "agentd.db-wal"].map(|name| world.daemon.data().join(name));
    let Some(locked) = Unchangeable::make(files.to_vec()) else { return };
    for _ in 0..3 {
        let failed = world.daemon.agentctl(["run", "second"]).await.exits(1);
        failed.says(&["agentd.db", "hint:"]);
    }
    let doctor = world.daemon.agentctl(["doctor"]).await.exits(2).stdout;
    assert!(doctor.contains("agentd.db") && doctor.contains("store anything"), "{doctor}");
    // Existing data can be read.
    assert_eq!(answers(&world.client().await).await, 1);
    drop(locked);
    world.daemon.agentctl(["run", "third"]).await.exits(0);
    world.daemon.kill9().await;
    world.daemon.restart().await;
    assert_eq!(answers(&world.client().await).await, 2);
    world.daemon.agentctl(["audit", "verify"]).await.exits(0);
    world.still_serves().await;
}

#[tokio::test]
async fn read_only_disk_refuses_the_start_and_loses_nothing() {
    let mut world = World::start().await;
    world.model.default_reply(Reply::text("It is kept."));
    world.daemon.agentctl(["run", "first"]).await.exits(0);
    assert_eq!(world.daemon.sigterm().await, Some(0));
    let flags = if geteuid().is_root() { "-m" } else { "-rm" };
    let mount = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$0""#;
    let read_only = |program: PathBuf| {
        let mut command = world.daemon.command("unshare");
        command.args([flags, "/bin/sh", "-c", mount]).arg(program).arg(world.daemon.data());
        command
    };
    if !read_only("true".into()).output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: mounting is not permitted");
        return;
    }
    let refused = agentd_testkit::daemon::Running::spawn(read_only(program("agentd"))).output(Vec::new()).await;
    refused.exits(1).says(&[world.daemon.data().to_str().unwrap(), "ead-only", "hint:"]);
    world.daemon.restart().await;
    assert_eq!(answers(&world.client().await).await, 1);
    world.still_serves().await;
}

#[tokio::test]
async fn daemon_continues_its_turn_after_sigstop() {
    let world = World::start().await;
    let text = "One two three four five six";
    world.model.reply(Reply::text(text).delay_ms(40).when("Count"));
    let mut running = world.daemon.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    running.event("item_delta").await;
    world.daemon.signal(Signal::SIGSTOP);
    wait_until_stopped(world.daemon.pid()).await;
    // While the daemon is stopped, clients get an error after waiting for some seconds.
    world.daemon.agentctl(["status"]).await.exits(3).says(&["does not answer"]);
    world.daemon.signal(Signal::SIGCONT);
    let (_, before) = running.event("turn_ended").await;
    assert!(format!("{before:?}").contains(text), "{before:#?}");
    running.output(Vec::new()).await.exits(0);
    world.still_serves().await;
}

#[tokio::test]
async fn stopped_client_blocks_no_other_and_catches_up_after_sigcont() {
    let world = World::start().await;
    // The text is much larger than the buffers between daemon and client.
    let text: String = (0..60_000).map(|number| format!("{number} ")).collect();
    world.model.reply(Reply::deltas(["begun. ".to_owned(), text.clone()]).delay_ms(300).when("Count"));
    let mut running = world.daemon.spawn_agentctl(["run", "Count", "--output", "stream-json"]);
    let (delta, _) = running.event("item_delta").await;
    running.signal(Signal::SIGSTOP);
    wait_until_stopped(running.pid()).await;
    world.still_serves().await;
    let session = delta["session_id"].as_str().unwrap();
    let client = world.client().await;
    let seen = client.subscribe(session, 0, true).await.unwrap().to_the_end().await;
    assert!(matches!(seen.last().unwrap().kind, EventKind::TurnEnded { .. }));
    world.still_serves().await;
    running.signal(Signal::SIGCONT);
    let (_, before) = running.event("turn_ended").await;
    assert!(format!("{before:?}").contains(text.trim_end()), "the answer is incomplete");
    running.output(Vec::new()).await.exits(0);
}

/// Returns the number of open descriptors of a process.
fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Returns the memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vanished_clients_leak_no_memory_and_disturb_no_turn() {
    /// Number of concurrent clients, below the process's limit on open files.
    const AT_ONCE: usize = 200;
    /// Permitted memory growth in KiB, for caches that are only filled once.
    const MEMORY_GROWTH: u64 = 24 << 10;
    let count = number(CLIENTS, 1000);
    let world = World::start().await;
    world.daemon.agentctl(["run", "warm up"]).await.exits(0);
    let pid = world.daemon.pid();
    let (open, resident) = (descriptors(pid), memory(pid));
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "May I go on?"})).when("Count"));
    world.model.reply(Reply::text("I was not disturbed.").when("Count"));
    let client = world.client().await;
    let mut turn = client.turn(turn(SessionChoice::New(NewSession::default()), "Count")).await.unwrap();
    let question_events = turn.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
    let Some(EventKind::InterruptRaised { interrupt, .. }) = question_events.last().map(|event| &event.kind) else {
        panic!()
    };
    let beginnings: [&[u8]; 4] = [
        b"",
        b"\x00\xff\x00garbage",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00",
    ];
    for slice in 0..count.div_ceil(AT_ONCE) {
        let sockets: Vec<UnixStream> = (0..AT_ONCE.min(count - slice * AT_ONCE))
            .map(|number| {
                let mut socket = UnixStream::connect(world.daemon.socket()).unwrap();
                // The daemon may already have closed the connection.
                let _ = socket.write_all(beginnings[number % beginnings.len()]);
                socket
            })
            .collect();
        drop(sockets);
    }
    until("the file descriptors are closed", || async { (descriptors(pid) <= open + 4).then_some(()) }).await;
    turn.sender().answer(interrupt.id, &Answer::Text { text: "Go on.".to_owned() }).await.unwrap();
    let rest = turn.to_the_end().await;
    assert!(format!("{rest:?}").contains("I was not disturbed."), "{rest:#?}");
    drop((turn, client));
    until("the memory is released", || async { (memory(pid) <= resident + MEMORY_GROWTH).then_some(()) }).await;
    world.still_serves().await;
}

#[tokio::test]
async fn one_of_many_concurrent_daemon_starts_survives() {
    const STARTS: usize = 50;
    let model = ModelServer::start().await;
    let home = TempHome::with_model(&model.base_url());
    let mut starts: Vec<Child> = (0..STARTS)
        .map(|_| {
            let mut command = home.command(program("agentd"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut refused = Vec::new();
    until("all but one daemon have exited", || {
        let mut at = 0;
        while at < starts.len() {
            if starts[at].try_wait().unwrap().is_some() { refused.push(starts.swap_remove(at)) } else { at += 1 }
        }
        std::future::ready((starts.len() <= 1).then_some(()))
    })
    .await;
    let [daemon] = starts.as_mut_slice() else { panic!("expected one running daemon") };
    let pid = daemon.id().to_string();
    for child in &mut refused {
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{stderr}");
        assert!(stderr.contains("already running") && stderr.contains("hint:"), "{stderr}");
    }
    assert_eq!(home.agentctl(["run", "Hi"]).await.exits(0).stdout, "Hello from the model server.\n");
    assert_eq!(home.agentctl(["status", "--json"]).await.exits(0).json()["pid"].to_string(), pid);
    kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGTERM).unwrap();
    let ended = until("the daemon has exited", || std::future::ready(daemon.try_wait().unwrap())).await;
    assert_eq!(ended.code(), Some(0));
}

/// Returns the IDs of all pending questions.
async fn pending_questions(client: &Client) -> BTreeSet<InterruptId> {
    client.interrupts(None).await.unwrap().iter().map(|interrupt| interrupt.id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_questions_survive_a_kill_and_are_answered_once() {
    const AT_ONCE: usize = 10;
    let count = number(QUESTIONS, 40);
    let model = ModelServer::start().await;
    model.respond_with(|request| match tool_texts(request).as_str() {
        "" => Reply::tool_call("write_file", json!({"path": "outputs/a.txt", "content": "once"})),
        _ => Reply::text("It is written."),
    });
    let mut daemon = TempDaemon::start(&model.base_url()).await;
    let client = Client::connect(&daemon.socket()).await.unwrap();
    let mut sessions = Vec::new();
    while sessions.len() < count {
        let begun = (0..AT_ONCE.min(count - sessions.len())).map(|_| async {
            let request = turn(SessionChoice::New(NewSession::default()), "Write it");
            let mut turn = client.turn(request).await.unwrap();
            turn.stored_until(|kind| matches!(kind, EventKind::InterruptRaised { .. })).await;
            turn.session_id().to_string()
        });
        sessions.extend(join_all(begun).await);
    }
    let before = pending_questions(&client).await;
    assert_eq!(before.len(), count);
    daemon.kill9().await;
    daemon.restart().await;

    let (one, other) =
        (Client::connect(&daemon.socket()).await.unwrap(), Client::connect(&daemon.socket()).await.unwrap());
    assert_eq!(pending_questions(&one).await, before, "the pending questions have changed");
    let all: Vec<InterruptId> = before.into_iter().collect();
    let (first, second) = (&one, &other);
    for some in all.chunks(AT_ONCE) {
        // Two clients answer at the same time, and only one answer is accepted.
        let answered = some.iter().map(|id| async move {
            let (approved, rejected) =
                tokio::join!(first.answer(*id, &Answer::Approve, "one"), second.answer(*id, &Answer::Approve, "other"));
            assert!(approved.is_ok() != rejected.is_ok(), "{id}: {approved:?} {rejected:?}");
            assert!(first.answer(*id, &Answer::Approve, "late").await.is_err(), "{id} is answered");
        });
        join_all(answered).await;
    }
    for session in &sessions {
        let events = one.subscribe(session, 0, true).await.unwrap().to_the_end().await;
        let resolved = events.iter().filter(|event| matches!(event.kind, EventKind::InterruptResolved { .. })).count();
        assert_eq!(resolved, 1, "{session}");
        assert_eq!(daemon.read(&format!("data/workspace/{session}/outputs/a.txt")), "once");
    }
    assert!(pending_questions(&one).await.is_empty());
}
