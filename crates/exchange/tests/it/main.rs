//! Tests of the exchange log through its port: what was written is read back.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use agentd_core::{
    Timestamp,
    exchange::{ExchangeOutcome, ExchangePurpose, ExchangeSource, ReceivedAnswer, SentRequest, StoredExchanges},
    ids::SessionId,
    ports::{Clock, Exchanges as _},
};
use agentd_exchange::{ExchangeLog, ExchangeLogConfig, ReadFailure, SecretFilter};
use proptest::prelude::*;
use tempfile::TempDir;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

struct World {
    folder: TempDir,
    config: ExchangeLogConfig,
    log: ExchangeLog,
    session: SessionId,
}

impl World {
    fn new(max_file_bytes: u64, max_files: u32) -> Self {
        Self::cleaned_by(max_file_bytes, max_files, Arc::new(str::to_owned))
    }

    fn cleaned_by(max_file_bytes: u64, max_files: u32, clean: SecretFilter) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = ExchangeLogConfig {
            folder: folder.path().to_owned(),
            is_on: true,
            max_file_bytes,
            max_files,
            clean,
            clock: Arc::new(StoppedClock),
        };
        Self { folder, log: ExchangeLog::new(config.clone()), config, session: SessionId::generate() }
    }

    /// Records one exchange with this body.
    fn exchange(&self, body: &str) {
        let source = || ExchangeSource {
            owner: self.session,
            session_id: self.session,
            turn_id: None,
            trace_id: None,
            step: 1,
            purpose: ExchangePurpose::Turn,
            agent: "main".to_owned(),
        };
        let tap = self.log.tap(&source, None);
        let recorder = tap.recorder().unwrap();
        let sent = SentRequest { wire: "openai", model: "m", url: "http://h/v1", headers: &[], attempt: 1, body };
        let key = recorder.sent(&sent);
        let answer = ReceivedAnswer {
            status: Some(200),
            body: b"yes".to_vec(),
            bytes: 3,
            duration: Duration::from_millis(2),
            outcome: ExchangeOutcome::Whole,
            ..ReceivedAnswer::default()
        };
        recorder.ended(key, answer);
    }

    async fn read(&self, numbers: &[u64]) -> Result<StoredExchanges, ReadFailure> {
        self.log.read(self.session, numbers.to_vec()).await
    }

    async fn body(&self, number: u64) -> String {
        self.read(&[number]).await.unwrap().exchanges.remove(0).request.body.unwrap()
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(self.session.to_string()).join("trace.jsonl")
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn bodies_are_read_in_order_despite_rotation(
        parts in proptest::collection::vec("[a-z é漢\"\\\\\n]{0,600}", 1..30),
        max_file_bytes in 1000u64..20_000,
    ) {
        runtime().block_on(async {
            let world = World::new(max_file_bytes, 3);
            let mut bodies = Vec::new();
            let mut history = String::new();
            for part in &parts {
                history.push_str(part);
                let body = serde_json::json!({"messages": history, "tools": "t".repeat(300)}).to_string();
                world.exchange(&body);
                bodies.push(body);
            }
            let stored = world.read(&[]).await.unwrap().exchanges;
            assert_eq!(stored.last().unwrap().number, bodies.len() as u64);
            for exchange in &stored {
                assert_eq!(world.body(exchange.number).await, bodies[usize::try_from(exchange.number).unwrap() - 1]);
                assert_eq!(exchange.before, Some(exchange.number - 1).filter(|before| *before >= stored[0].number));
            }
        });
    }
}

#[tokio::test]
async fn damaged_lines_are_skipped_with_a_remark() {
    let world = World::new(1 << 20, 2);
    for body in ["{\"a\":1}", "{\"b\":2}"] {
        world.exchange(body);
    }
    world.log.flush().await;
    let mut text = fs::read_to_string(world.path()).unwrap();
    text.push_str("nonsense\n{\"type\":\"later\"}\n{\"type\":\"request\",\"numb");
    fs::write(world.path(), text).unwrap();
    let world = World { log: ExchangeLog::new(world.config.clone()), ..world };
    world.exchange("{\"c\":3}");
    let stored = world.read(&[]).await.unwrap();
    assert_eq!(stored.exchanges.iter().map(|exchange| exchange.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((stored.remarks.len(), world.body(3).await.as_str()), (2, "{\"c\":3}"), "{:?}", stored.remarks);
    assert!(stored.remarks[0].contains("1 line of the trace: truncated"), "{:?}", stored.remarks);
    assert!(stored.remarks[1].contains("2 lines"), "{:?}", stored.remarks);
}

/// Creates a filter that blocks the writer thread until the gate is opened.
fn blocked_by(gate: Receiver<()>) -> SecretFilter {
    let gate = Mutex::new(gate);
    Arc::new(move |text| {
        // An error means that the gate was dropped.
        let _ = gate.lock().unwrap().recv();
        text.to_owned()
    })
}

#[tokio::test]
async fn dropped_exchanges_are_counted_without_blocking() {
    let (open, gate) = mpsc::channel();
    let world = World::cleaned_by(64 << 20, 2, blocked_by(gate));
    // The thread is blocked, and its queue has room for 1024 commands.
    for number in 0..1000 {
        world.exchange(&format!("{{\"n\":{number}}}"));
    }
    drop(open);
    let stored = world.read(&[]).await.unwrap();
    let lines: u64 = stored.exchanges.iter().map(|exchange| 1 + u64::from(exchange.answer.is_some())).sum();
    let lost: u64 = stored.remarks[0].split(' ').next().unwrap().parse().unwrap();
    assert!((1024..1100).contains(&lines) && lost > 400, "{lines} {lost}");
}
