//! Recordings on the client side: the client reads and writes the file, and the daemon plays it. `agentctl sessions
//! record` creates a recording. `agentctl test` plays a folder of recordings, checks expectations, and can write a
//! JUnit XML report for CI.
//!
//! - `case`: finds the tests in a folder, and checks their expectations.

mod case;

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use agentd_core::{error::ErrorKind, event::Event};
use agentd_proto::client::{ClientError, ClientErrorKind, PlayProblem, PlayReport, PlayRequest, PlayStep};
use anstream::eprintln;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use self::case::{LivePermissions, PlayedTurns, TestCase};
use super::own_file;
use crate::{
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    report,
    terminal::{clean, note},
};

/// Maximum bytes of a recording that the daemon reads.
const MAX_RECORDING_BYTES: u64 = 64 << 20;

/// Plays a recording and passes each event to `on_event`.
///
/// # Errors
/// Fails if the file cannot be read or is invalid, `on_event` fails, or the connection is lost.
pub(crate) async fn play(
    daemon: &Daemon,
    path: &Path,
    play_request: PlayRequest,
    on_event: &mut (dyn FnMut(&Event) -> anyhow::Result<()> + Send),
) -> anyhow::Result<PlayReport> {
    let update = play_request.update;
    let mut steps = daemon.client.play(PlayRequest { text: read(path)?, ..play_request }).await?;
    let mut updated = Vec::new();
    while let Some(step) = steps.next().await? {
        match step {
            PlayStep::Event(event) => on_event(&event)?,
            PlayStep::Data(piece) => updated.extend_from_slice(&piece),
            PlayStep::Outcome(report) => {
                if update && !updated.is_empty() {
                    write(path, &updated)?;
                }
                return Ok(report);
            }
        }
    }
    Err(Failure::new(ErrorKind::Internal, "the replay ended without a result").into())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = Failure::of_file("read", path);
    let refuse = |error| failed(error).hint("name a recording: `agentctl sessions record last -o FILE` makes one");
    let file = fs::File::open(path).map_err(refuse)?;
    let mut text = Vec::new();
    file.take(MAX_RECORDING_BYTES + 1).read_to_end(&mut text).map_err(refuse)?;
    if text.len() as u64 > MAX_RECORDING_BYTES {
        return Err(Failure::usage(format!("{} is larger than {} MiB", path.display(), MAX_RECORDING_BYTES >> 20)));
    }
    Ok(text)
}

/// Replaces a recording atomically.
///
/// # Errors
/// Fails if the file cannot be written.
pub(crate) fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let text =
        std::str::from_utf8(text).map_err(|_| Failure::new(ErrorKind::Internal, "the recording is not UTF-8"))?;
    let failed = Failure::of_file("write", path);
    Ok(own_file::replace(path, text).map_err(|error| failed(error).hint("name another file"))?)
}

/// Prints deviations from the recording to standard error.
pub(crate) fn print_problems(problems: &[PlayProblem]) {
    for problem in problems {
        eprintln!("{}", shown(problem));
    }
}

/// Formats a deviation for people.
pub(crate) fn shown(problem: &PlayProblem) -> String {
    let PlayProblem { turn, step, message, diff, .. } = problem;
    let mut shown = clean(&format!("turn {turn}, answer {step}: {message}"));
    if !diff.is_empty() {
        let diff = clean(diff);
        shown.push_str("\n  - recorded, + now");
        shown.extend(diff.lines().map(|line| format!("\n  {line}")));
    }
    shown
}

/// The arguments of `sessions record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl sessions record last -o greeting.jsonl
  agentctl run --replay greeting.jsonl        play it: no model, no network
  agentctl sessions record 0193a5b2 | jq -r 'select(.fact == \"result\").tool'

A recording contains all external input: prompts, model answers, tool results and user answers. Secrets are removed. \
The recording contains the requests that the session produces with the current configuration: a replay must produce \
the same requests. `agentctl test` plays a folder of recordings.")]
pub(crate) struct RecordArgs {
    /// Session: id, title, number in `sessions list`, or `last`
    session: String,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs the command `agentctl sessions record`.
pub(crate) async fn record(daemon: &Daemon, args: RecordArgs, json: bool) -> anyhow::Result<Exit> {
    if let Some(path) = args.output.as_ref().filter(|path| !args.force && path.exists()) {
        anyhow::bail!(Failure::usage(format!("{} already exists", path.display())).hint("--force replaces it"));
    }
    let id = daemon.client.find_session(&args.session).await?.to_string();
    let text = daemon.client.record(&id).await?;
    let Some(path) = args.output else {
        io::stdout().write_all(&text)?;
        return Ok(Exit::Done);
    };
    write(&path, &text)?;
    let value = json!({ "session_id": id, "file": path, "bytes": text.len() });
    report::show(json, &value, || report::lines([path.display()]))
}

/// The arguments of `test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl test tests/agent                  all recordings and tests of a folder
  agentctl test tests/agent greeting         those with greeting in their name
  agentctl test tests/agent --junit out.xml  a report for CI
  agentctl test tests/agent --live --approve live tests, with the approvals in their files
  agentctl test tests/agent --update         after a change of a prompt: record the current requests

A test is a recording NAME.jsonl, a file NAME.yaml with expectations, or both. No model is called and no tool runs: \
tests with mode: live-tools or mode: live-model are skipped without --live, and the permissions in their files apply \
only with --approve or --writable. A request that differs from the recorded one fails the test and shows the \
difference. docs/testing.md describes the files.

Exit codes: 0 all passed, 1 some failed, 2 no tests or an invalid file.")]
pub(crate) struct TestArgs {
    /// Folder of tests, or one file
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::AnyPath)]
    folder: PathBuf,
    /// Only run tests with one of these words in their name
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Update the recordings with the current requests
    #[arg(long)]
    update: bool,
    /// Also run live-tools and live-model tests, which run tools or call a paid model
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    permitted: LivePermissions,
    /// Write a JUnit report to this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    junit: Option<PathBuf>,
}

/// Result of one test.
#[derive(Debug, Serialize)]
struct TestResult {
    name: String,
    passed: bool,
    turns: u32,
    duration_ms: u64,
    /// Reasons for the failure.
    failures: Vec<String>,
    /// All deviations from the recording.
    problems: Vec<PlayProblem>,
}

/// Runs the command `agentctl test`.
pub(crate) async fn handle(global: &Global, args: TestArgs) -> anyhow::Result<Exit> {
    // Tests name projects beside their files.
    daemon::refuse_host(global, "test")?;
    let (live, cases): (Vec<_>, Vec<_>) =
        case::find(&args.folder, &args.names)?.into_iter().partition(|case| case.is_live() && !args.live);
    for case in &live {
        note(&clean(&format!("skipped: {} is live; --live runs it", case.name)));
    }
    // All tests are checked first: if one of them exceeds its permissions, none is run.
    let play_request: Vec<PlayRequest> =
        cases.iter().map(|case| case.play_request(args.update, args.permitted)).collect::<Result<_, _>>()?;
    let daemon = daemon::connect(global).await?;
    let started_at = Instant::now();
    let mut results = Vec::new();
    for (case, play_request) in cases.iter().zip(play_request) {
        let result = run(&daemon, case, play_request).await?;
        if !global.json {
            show(&result)?;
        }
        results.push(result);
    }
    if let Some(path) = &args.junit {
        let text = junit(&args.folder.display().to_string(), &results, started_at.elapsed());
        write(path, text.as_bytes())?;
    }
    let failed = results.iter().filter(|result| !result.passed).count();
    let passed = results.len() - failed;
    let exit = if failed > 0 { Exit::Failed } else { Exit::Done };
    if global.json {
        report::json(&serde_json::json!({ "passed": passed, "failed": failed, "tests": results }))?;
    } else {
        let took = report::span(report::millis(started_at.elapsed()));
        report::lines([format!("{passed} passed, {failed} failed in {took}")])?;
    }
    Ok(exit)
}

async fn run(daemon: &Daemon, case: &TestCase, play_request: PlayRequest) -> anyhow::Result<TestResult> {
    let started_at = Instant::now();
    let mut turns = PlayedTurns::default();
    let played = play(daemon, &case.recording, play_request, &mut |event| {
        turns.take(event);
        Ok(())
    })
    .await;
    let (PlayReport { problems, turns: count }, failures) = match played {
        Ok(report) => (report, case.file.expect.failures(&turns)?),
        // An invalid recording does not affect the other tests, but a lost daemon ends the run.
        Err(error) => {
            let kind = error.downcast_ref::<ClientError>().map(|error| error.kind);
            if !matches!(kind, Some(ClientErrorKind::Answered(_))) && !error.is::<Failure>() {
                return Err(error);
            }
            (PlayReport::default(), vec![Failure::from_any(&error).message])
        }
    };
    Ok(TestResult {
        name: case.name.clone(),
        passed: failures.is_empty() && problems.is_empty(),
        turns: count,
        duration_ms: report::millis(started_at.elapsed()),
        failures,
        problems,
    })
}

fn show(result: &TestResult) -> anyhow::Result<()> {
    let TestResult { name, passed, turns, duration_ms, failures, problems } = result;
    let mark = if *passed { "ok    " } else { "FAILED" };
    let turns = report::count(*turns, "turn");
    let mut lines = vec![format!("{mark} {name} ({turns}, {})", report::span(*duration_ms))];
    for text in failures.iter().map(|failure| clean(failure)).chain(problems.iter().map(shown)) {
        lines.extend(text.lines().map(|line| format!("    {line}")));
    }
    report::lines(lines)
}

/// Returns the JUnit report of all tests.
fn junit(suite: &str, results: &[TestResult], took: Duration) -> String {
    let failed = results.iter().filter(|result| !result.passed).count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = escaped(suite);
    xml.push_str(&format!(
        "<testsuites tests=\"{}\" failures=\"{failed}\" time=\"{:.3}\">\n  <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{failed}\" time=\"{:.3}\">\n",
        results.len(), took.as_secs_f64(), results.len(), took.as_secs_f64(),
    ));
    for result in results {
        let (name, time) = (escaped(&result.name), Duration::from_millis(result.duration_ms).as_secs_f64());
        xml.push_str(&format!("    <testcase classname=\"{suite}\" name=\"{name}\" time=\"{time:.3}\""));
        if result.passed {
            xml.push_str("/>\n");
            continue;
        }
        let reasons: Vec<String> = result.failures.iter().cloned().chain(result.problems.iter().map(shown)).collect();
        let first = reasons.first().and_then(|reason| reason.lines().next()).unwrap_or("failed");
        let (first, all) = (escaped(first), escaped(&reasons.join("\n")));
        xml.push_str(&format!(">\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>\n"));
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

/// Escapes a text for XML 1.0, which does not allow most control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_report_escapes_hostile_text() {
        let result = TestResult {
            name: "a\"><b>".to_owned(),
            passed: false,
            turns: 1,
            duration_ms: 1500,
            failures: vec!["]]> & \u{1b}[31m".to_owned()],
            problems: Vec::new(),
        };
        let xml = junit("s&t", &[result], Duration::from_secs(2));
        assert!(xml.contains("name=\"a&quot;&gt;&lt;b&gt;\" time=\"1.500\""), "{xml}");
        assert!(xml.contains("]]&gt; &amp; \u{fffd}[31m"), "{xml}");
    }
}
