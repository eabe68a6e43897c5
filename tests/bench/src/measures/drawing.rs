//! Terminal output while a fast model responds: the share of a core used for drawing, and the time from a key press to
//! its echo.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::Child,
    sync::mpsc,
};

use nix::{
    pty::{Winsize, openpty},
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeVal,
    },
};

use crate::world::program;

use super::*;

/// Number of deltas in the response. The model server writes a thousand in one write.
const DELTAS: u64 = 50_000;
/// Pause between two writes, in milliseconds, for ten thousand deltas per second.
const PAUSE: &str = "100";
/// Letters that are typed one by one. None of these letters occurs in the response.
const KEYS: &str = "QXZJKVYGHB";
/// Time between two letters.
const KEY_INTERVAL: Duration = Duration::from_millis(130);
/// Time limit for an echo.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn measure() -> anyhow::Result<Vec<Row>> {
    let model = ModelProcess::start(&["--delay-ms", PAUSE, "fast", &DELTAS.to_string()]).await?;
    let home = Home::new(&model)?;
    let _daemon = home.start().await?;
    tokio::task::block_in_place(|| {
        let (share, _) = draw(&home, "")?;
        let (_, echo) = draw(&home, KEYS)?;
        let keys =
            vec![Figure::millis("median", echo.median()), Figure::millis("p99", echo.percentile(99)).at_most(16.0)];
        Ok(vec![
            Row::new(
                "share of a core for drawing 10,000 deltas/s at a terminal",
                vec![Figure::percent("", share).at_most(20.0)],
            ),
            Row::new("time from a key press to its echo meanwhile", keys).with_note(format!("{} keys", KEYS.len())),
        ])
    })
}

/// Runs a whole turn at a terminal while keys are typed. Returns the share of a core that the client used, in percent,
/// and the time of each echo.
fn draw(home: &Home, keys: &str) -> anyhow::Result<(f64, Samples)> {
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None)?;
    let before = children_cpu_time()?;
    let started = Instant::now();
    let mut client = spawn(home, &pty.slave)?;
    drop(pty.slave);
    let mut typist = File::from(pty.master);
    let screen = watch(typist.try_clone()?)?;
    let (mut seen, mut echo) = (String::new(), Samples::default());
    await_words(&screen, &mut seen, "w002")?;
    for (at, key) in keys.bytes().enumerate() {
        std::thread::sleep(KEY_INTERVAL);
        seen.clear();
        let pressed = Instant::now();
        typist.write_all(&[key])?;
        let shown = await_words(&screen, &mut seen, &keys[..=at])?;
        echo.add(shown.saturating_duration_since(pressed));
    }
    while screen.recv().is_ok() {}
    let status = client.wait()?;
    let share = (children_cpu_time()? - before).as_secs_f64() / started.elapsed().as_secs_f64() * 100.0;
    if !status.success() {
        bail!("agentctl exited with {status}");
    }
    Ok((share, echo))
}

/// Starts the client as a session leader, with this terminal as its controlling terminal.
fn spawn(home: &Home, terminal: &OwnedFd) -> anyhow::Result<Child> {
    let agentctl = home.command("agentctl")?;
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(program("agentctl")?).args(["run", "Hello"]);
    command.env_clear().envs(agentctl.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("TERM", "xterm-256color");
    let end = || terminal.try_clone().map(Stdio::from);
    command.stdin(end()?).stdout(end()?).stderr(end()?).spawn().context("requires setsid (util-linux)")
}

/// Reads the terminal's output in a thread, and sends each piece with its time of arrival.
fn watch(mut terminal: File) -> anyhow::Result<mpsc::Receiver<(Instant, String)>> {
    let (sender, pieces) = mpsc::channel();
    std::thread::Builder::new().name("bench-screen".to_owned()).spawn(move || {
        let mut bytes = [0; 64 * 1024];
        while let Ok(read @ 1..) = terminal.read(&mut bytes) {
            let piece = String::from_utf8_lossy(&bytes[..read]).into_owned();
            if sender.send((Instant::now(), piece)).is_err() {
                break;
            }
        }
    })?;
    Ok(pieces)
}

/// Waits until this text appears on the terminal, and returns the time of arrival.
fn await_words(screen: &mpsc::Receiver<(Instant, String)>, seen: &mut String, text: &str) -> anyhow::Result<Instant> {
    loop {
        let (at, piece) = screen.recv_timeout(PATIENCE).with_context(|| format!("{text:?} did not appear"))?;
        seen.push_str(&piece);
        if seen.contains(text) {
            return Ok(at);
        }
        // The last 64 characters suffice to find text that is split across two pieces.
        let keep = seen.char_indices().rev().nth(64).map_or(0, |(at, _)| at);
        seen.drain(..keep);
    }
}

/// Returns the processor time of all child processes that have ended.
fn children_cpu_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |time: TimeVal| -> anyhow::Result<Duration> {
        Ok(Duration::from_secs(time.tv_sec().try_into()?) + Duration::from_micros(time.tv_usec().try_into()?))
    };
    Ok(time(usage.user_time())? + time(usage.system_time())?)
}
