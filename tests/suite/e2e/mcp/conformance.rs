//! The conformance suite of the protocol, against our client.

use agentd_testkit::daemon::program;

use super::installed;

/// What the suite has for clients, but for what [docs/mcp.md] names with the reason.
const SCENARIOS: [&str; 16] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
];

/// How often a scenario is tried: its server may ask before our client listens, and then nobody hears it.
const TRIES: usize = 3;

#[tokio::test]
async fn our_client_keeps_to_the_protocol() {
    for scenario in SCENARIOS {
        let outcomes = (0..TRIES).map(|_| run(scenario));
        let failure = outcomes.take_while(Result::is_err).collect::<Vec<_>>();
        assert!(failure.len() < TRIES, "{scenario}:\n{:#?}", failure.last());
    }
}

/// Runs a scenario. An error is what the suite said.
fn run(scenario: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(installed("bin/node"))
        .arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--scenario", scenario, "--command"])
        .arg(program("examples/conformance-client"))
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{}\n{}", said(&output.stdout), said(&output.stderr))) }
}
