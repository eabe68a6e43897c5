//! The daemon is repeatedly killed at random while several clients are active. After each kill, everything that the
//! daemon had acknowledged is checked: events, effects of commands, files, forks, compactions, undo data, questions and
//! deletions.
//! - [`work`]: the clients and their model. [`ledger`]: the acknowledgements, and their check. [`holdings`]: data
//!   stored outside the events that has to match the events.
//!
//! `make test` kills a few times. `make soak` kills [`KILLS`] times; [`SEED`] repeats a run as far as scheduling
//! allows.

mod holdings;
mod ledger;
mod work;

use std::time::Duration;

use agentd_proto::client::Client;
use agentd_testkit::{
    daemon::{TempDaemon, TempHome},
    model_server::ModelServer,
};
use fastrand::Rng;
use futures_util::future::join_all;

use self::ledger::{At, Ledger};

/// Environment variable with the number of kills.
const KILLS: &str = "AGENTD_SOAK_KILLS";

/// Environment variable with the seed.
const SEED: &str = "AGENTD_SOAK_SEED";

/// Number of concurrent clients.
const CLIENTS: usize = 4;

/// Maximum lifetime of the daemon, in milliseconds.
const LONGEST_LIFE: u64 = 1_500;

/// Number of sessions from earlier rounds that are checked again after each kill.
const CHECKED_AGAIN: usize = 3;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[tokio::test]
async fn acknowledged_data_survives_random_kills() {
    let kills = number(KILLS).unwrap_or(4);
    let seed = number(SEED).unwrap_or(20_261_123);
    let mut random = Rng::with_seed(seed);
    let model = ModelServer::start().await;
    work::answer(&model);
    let home = TempHome::with_model(&model.base_url());
    home.write("project/notes.txt", "the notes say so\n");
    let mut daemon = TempDaemon::start_in(home).await;
    let mut ledger = Ledger::default();
    for round in 1..=kills {
        let life = Duration::from_millis(random.u64(30..LONGEST_LIFE));
        let clients = (0..CLIENTS).map(|number| {
            let seed = random.u64(..);
            work::client(&daemon, format!("r{round}c{number}"), seed, ledger.known_sessions())
        });
        let (acknowledged, ()) = tokio::join!(join_all(clients), async {
            tokio::time::sleep(life).await;
            daemon.signal(nix::sys::signal::Signal::SIGKILL);
        });
        daemon.ended().await;
        let touched = ledger.merge(acknowledged);
        daemon.restart().await;
        let context = format!("seed {seed}, kill {round} of {kills}, after {life:?}");
        holdings::check_database(&daemon, &context);
        let client = Client::connect(&daemon.socket()).await.expect("the daemon answers");
        let at = At { daemon: &daemon, client: &client };
        let rechecked = ledger.some_of(&mut random, CHECKED_AGAIN);
        for session in touched.into_iter().chain(rechecked) {
            ledger.check(at, &session, &mut random, &context).await;
        }
        ledger.check_files(&client, &daemon, &context).await;
        let verified = daemon.agentctl(["audit", "verify"]).await;
        assert_eq!(verified.code, Some(0), "{context}: {}{}", verified.stdout, verified.stderr);
    }
    let client = Client::connect(&daemon.socket()).await.expect("the daemon answers");
    let at = At { daemon: &daemon, client: &client };
    for session in ledger.known_sessions() {
        ledger.check(at, &session, &mut random, &format!("seed {seed}, at the end")).await;
    }
    println!("seed {seed}: {kills} kills, {:?}", ledger.counts);
    assert!(ledger.is_meaningful(kills), "too little was acknowledged for a meaningful run: {:?}", ledger.counts);
    assert_eq!(daemon.sigterm().await, Some(0));
}
