//! Terminal output while a fast model responds: the share of a core used for drawing, and the time from a key press to
//! its echo.

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

use super::{terminal::Terminal, *};

/// Number of deltas in the response. The model server writes a thousand in one write.
const DELTAS: u64 = 50_000;
/// Pause between two writes, in milliseconds, for ten thousand deltas per second.
const PAUSE: &str = "100";
/// Letters that are typed one by one. None of these letters occurs in the response.
const KEYS: &str = "QXZJKVYGHB";
/// Time between two letters.
const KEY_INTERVAL: Duration = Duration::from_millis(130);
/// Sequence that marks the start of a prompt.
const PROMPT_START: &str = "\x1b]133;A\x07";
/// Ctrl-D, which leaves a chat.
const LEAVE: &str = "\x04";

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["--delay-ms", PAUSE, "fast", &DELTAS.to_string()]).await?;
    let home = Home::new(&model)?;
    let _daemon = home.start().await?;
    tokio::task::block_in_place(|| {
        let (share, _) = draw(&home, "run", "")?;
        let (chat_share, _) = draw(&home, "chat", "")?;
        let (_, echo) = draw(&home, "run", KEYS)?;
        let keys =
            vec![Figure::millis("median", echo.median()), Figure::millis("p99", echo.percentile(99)).at_most(16.0)];
        let share_row = |label: &str, share| Row::new(label, vec![Figure::percent("", share).at_most(20.0)]);
        Ok(vec![
            share_row("share of a core for drawing 10,000 deltas/s at a terminal", share),
            share_row("share of a core for drawing 10,000 deltas/s in a chat", chat_share),
            Row::new("time from a key press to its echo meanwhile", keys).with_note(format!("{} keys", KEYS.len())),
        ])
    })
}

/// Runs a whole turn of `agentctl run` or `agentctl chat` at a terminal while keys are typed. Returns the share of a
/// core that the client used, in percent, and the time of each echo.
fn draw(home: &Home, command: &str, keys: &str) -> anyhow::Result<(f64, Samples)> {
    let before = children_cpu_time()?;
    let mut terminal = Terminal::agentctl(home, &[command, "Hello"])?;
    let mut echo = Samples::default();
    terminal.sees("w002")?;
    for (at, key) in keys.char_indices() {
        std::thread::sleep(KEY_INTERVAL);
        let pressed = terminal.types(key.encode_utf8(&mut [0; 4]))?;
        let shown = terminal.sees(&keys[..at + key.len_utf8()])?;
        echo.add(shown.saturating_duration_since(pressed));
    }
    if command == "chat" {
        terminal.sees(PROMPT_START)?;
        terminal.types(LEAVE)?;
    }
    let duration = terminal.ends()?;
    let share = (children_cpu_time()? - before).as_secs_f64() / duration.as_secs_f64() * 100.0;
    Ok((share, echo))
}

/// Returns the processor time of all child processes that have ended.
fn children_cpu_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |time: TimeVal| -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(time.tv_sec().try_into()?) + Duration::from_micros(time.tv_usec().try_into()?))
    };
    Ok(time(usage.user_time())? + time(usage.system_time())?)
}
