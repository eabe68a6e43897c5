//! Memory of an idle daemon, and of a daemon with 500 concurrent turns, each streaming to its own client.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::try_join_all;

use super::*;

const TURNS: usize = 500;
const WORDS: usize = 60;
/// Pause between two words, in milliseconds. All turns together produce 10,000 deltas per second.
const PAUSE_MS: &str = "50";
/// Delay before the first word, in milliseconds, long enough for all turns to start.
const FIRST_PAUSE_MS: &str = "3000";
/// Interval between memory samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let text: String = (0..WORDS).map(|number| format!("word{number} ")).collect();
    let text = text.trim_end();
    let slow = ModelProcess::start(&["--delay-ms", PAUSE_MS, "--first-delay-ms", FIRST_PAUSE_MS, "text", text]).await?;
    let home = Home::new(&slow)?;
    let daemon = home.start().await?;
    let at_start = daemon.memory_at_rest().await?;
    turn::run(&daemon.client, turn::request(None, None), || {}).await?;
    let at_work = daemon.memory()?.resident;
    let idle = daemon.memory_at_rest().await?;

    let (max_live, at_once) = stream_all(&home, &daemon, text).await?;
    let after = daemon.memory()?;
    if at_once < TURNS {
        bail!("only {at_once} turns streamed concurrently");
    }
    let above = max_live.saturating_sub(idle);
    let at_rest = vec![
        Figure::megabytes("at start", at_start).at_most(25.0),
        Figure::megabytes("after a turn", idle).at_most(25.0),
    ];
    let note = format!(
        "{} KB per turn, all bytes correct; at most {:.1} MB resident, {:.1} MB after all turns had ended",
        above / TURNS as u64 / 1000,
        as_f64(after.peak) / 1e6,
        as_f64(after.resident) / 1e6,
    );
    let busy = vec![Figure::megabytes("", above).at_most(60.0)];
    Ok(vec![
        Row::new("memory at rest", at_rest)
            .with_note(format!("{:.1} MB immediately after the turn", as_f64(at_work) / 1e6)),
        Row::new("500 turns at once, memory above rest", busy).over(Figure::megabytes("at rest", idle)).with_note(note),
    ])
}

/// Streams all turns. Returns the daemon's peak memory in bytes, and the maximum number of turns that were streaming
/// text at the same time.
async fn stream_all(home: &Home, daemon: &Daemon, text: &str) -> anyhow::Result<(u64, usize)> {
    let mut clients = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        clients.push(Client::connect(&home.socket()).await?);
    }
    let (live, most_live) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let turns = clients.into_iter().map(|client| {
        let (live, most_live, text) = (live.clone(), most_live.clone(), text.to_owned());
        tokio::spawn(async move {
            let begin = || {
                most_live.fetch_max(live.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            };
            let seen = turn::run(&client, turn::request(None, None), begin).await?;
            live.fetch_sub(1, Ordering::Relaxed);
            if seen.answer != text || seen.words != text {
                bail!("unexpected answer of a turn: {:?}", seen.words);
            }
            Ok(())
        })
    });
    let turns = try_join_all(turns.collect::<Vec<_>>());
    let mut max_live = 0;
    let mut looks = tokio::time::interval(SAMPLE_INTERVAL);
    tokio::pin!(turns);
    loop {
        tokio::select! {
            ended = &mut turns => {
                ended?.into_iter().collect::<anyhow::Result<Vec<()>>>()?;
                return Ok((max_live, most_live.load(Ordering::Relaxed)));
            }
            _ = looks.tick() => max_live = max_live.max(daemon.memory()?.resident),
        }
    }
}
