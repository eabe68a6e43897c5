//! The protocol's conformance suite for agentd's client and for `agentctl mcp serve`. Each revision's requirements are
//! tested with the protocol version of that revision.

use std::process::{Child, Output};

use super::*;

/// The tested revisions, one from each era.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Client scenarios that no revision requires any more, but that older servers still depend on.
const OLDER_SCENARIOS: [&str; 2] =
    ["auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"];

/// Required client scenarios that are not run, with reasons. They are also listed in [docs/mcp.md].
const SKIPPED: [(&str, &str); 1] =
    [("auth/basic-cimd", "agentd has no published client metadata document, and registers with each server instead")];

/// Scenarios that may be retried, because their servers do not wait for the stream that a client opens after
/// initialisation. The first scenario sends a request on that stream during a call, and the request is lost if the
/// stream is not open yet. The second scenario mistakes the new stream for a resumed one if the stream is opened after
/// the call.
const RACES: [&str; 2] = ["elicitation-sep1034-client-defaults", "sse-retry"];
/// Maximum number of attempts for the scenarios in [`RACES`].
const MAX_ATTEMPTS: usize = 3;

/// Server scenarios that require no special tools, resources or prompts.
const GENERAL_SCENARIOS: [&str; 5] =
    ["server-initialize", "ping", "tools-list", "server-stateless", "input-required-result-unsupported-methods"];
/// Scenarios for servers over HTTP. `agentctl mcp serve` does not use HTTP, so tests/mcp/http_bridge.py translates.
const HTTP_SCENARIOS: [&str; 2] = ["server-sse-multiple-streams", "dns-rebinding-protection"];
/// Prefixes of server scenarios for features that agentd's server does not offer: tools, resources and prompts that the
/// suite prescribes, completions, logs.
const UNSUPPORTED_PREFIXES: [&str; 9] = [
    "caching",
    "completion-complete",
    "elicitation-",
    "input-required-result-",
    "logging-set-level",
    "prompts-",
    "resources-",
    "sep-2164-resource-not-found",
    "tools-call-",
];
/// Checks in a scenario that require special tools.
const UNSUPPORTED_CHECKS: [&str; 4] = [
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
];

/// Returns the scenarios that a revision requires for clients or servers.
fn required(of: &str, revision: &str) -> Vec<String> {
    let file = format!("node_modules/@modelcontextprotocol/conformance/requirements/{revision}.yaml");
    let text = fs::read_to_string(installed(&file)).unwrap();
    let part = text.split_once(&format!("\n{of}:\n")).unwrap().1;
    let names = part.lines().take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    let names: Vec<String> = names.filter_map(|line| line.trim().strip_prefix("- ")).map(str::to_owned).collect();
    assert!(names.len() >= 18, "{of} {revision}: {names:?}");
    names
}

#[tokio::test]
async fn client_passes_the_conformance_suite() {
    let older = OLDER_SCENARIOS.map(|name| ("2025-03-26", name.to_owned()));
    let all =
        REVISIONS.iter().flat_map(|revision| required("client", revision).into_iter().map(|name| (*revision, name)));
    let all: Vec<_> = older.into_iter().chain(all).collect();
    for (name, _) in SKIPPED {
        assert!(all.iter().any(|(_, required)| required == name), "{name} is not required");
    }
    for (revision, scenario) in all.iter().filter(|(_, name)| SKIPPED.iter().all(|(skipped, _)| name != skipped)) {
        let tries = if RACES.contains(&scenario.as_str()) { MAX_ATTEMPTS } else { 1 };
        let client = program("examples/conformance-client");
        let args = ["client", "--command", client.to_str().unwrap()];
        let failures: Vec<String> = (0..tries).map_while(|_| run(revision, scenario, &args).err()).collect();
        assert!(failures.len() < tries, "{scenario} of {revision}:\n{}", failures.join("\n"));
        for failure in failures {
            println!("{scenario} was tried again after:\n{failure}");
        }
    }
}

#[tokio::test]
async fn server_passes_the_conformance_suite() {
    let home = TempHome::with_model("http://127.0.0.1:9");
    let served = Served::start(&home).await;
    let expected = home.write("expected.yaml", expected());
    for revision in REVISIONS {
        for scenario in required("server", revision) {
            if GENERAL_SCENARIOS.contains(&scenario.as_str()) {
                let mut args = vec!["server", "--url", served.url.as_str()];
                if scenario == "server-stateless" {
                    args.extend(["--expected-failures", expected.to_str().unwrap()]);
                }
                run(revision, &scenario, &args).unwrap_or_else(|reason| panic!("{scenario} of {revision}:\n{reason}"));
                continue;
            }
            let is_known = UNSUPPORTED_PREFIXES.iter().any(|name| scenario.starts_with(name))
                || HTTP_SCENARIOS.contains(&scenario.as_str());
            assert!(is_known, "{scenario} of {revision} is neither run nor skipped with a reason");
        }
    }
}

/// Returns the list of checks that may fail, in the suite's format. The suite reports a listed check that passes as a
/// failure.
fn expected() -> String {
    let checks = UNSUPPORTED_CHECKS.map(|check| format!("  - server-stateless:{check}\n"));
    format!("server:\n{}", checks.concat())
}

/// Runs a scenario. On failure, the error contains the suite's output.
fn run(revision: &str, scenario: &str, args: &[&str]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let Output { status, stdout, stderr } = Command::new(installed("bin/node"))
        .arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(args)
        .args(["--scenario", scenario, "--spec-version", revision])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if status.success() { Ok(()) } else { Err(format!("{}\n{}", text(&stdout), text(&stderr))) }
}

/// A running `agentctl mcp serve` with an HTTP bridge.
struct Served {
    bridge: Child,
    url: String,
}

impl Served {
    async fn start(home: &TempHome) -> Self {
        let agentctl = home.agentctl_command(["mcp", "serve"]);
        let mut command = Command::new("python3");
        command.arg(super::fake().with_file_name("http_bridge.py")).arg(home.path().join("port"));
        command.arg(agentctl.get_program()).args(agentctl.get_args());
        command.envs(agentctl.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let bridge = command.stdin(Stdio::null()).spawn().unwrap();
        let mut served = Self { bridge, url: String::new() };
        let port =
            until("the server is listening", || async { Some(home.read("port")).filter(|port| port.ends_with('\n')) })
                .await;
        served.url = format!("http://127.0.0.1:{}/mcp", port.trim());
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.bridge.kill();
        let _ = self.bridge.wait();
    }
}
