//! The conformance suite of the protocol, against our client.

use agentd_testkit::daemon::program;

use super::installed;

/// What the suite has for clients, but for what [docs/mcp.md] names with the reason.
const SCENARIOS: [&str; 22] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
];

/// The scenarios that may be tried again: their servers do not wait for the stream that a client opens once it was greeted.
/// The first asks on that stream during a call; where it asks before it is open, nobody hears it. The second takes the
/// opening for the return to the stream of a call, where it comes behind the call.
const RACES: [&str; 2] = ["elicitation-sep1034-client-defaults", "sse-retry"];
/// How often those are tried.
const TRIES: usize = 3;

#[tokio::test]
async fn our_client_keeps_to_the_protocol() {
    for scenario in SCENARIOS {
        let tries = if RACES.contains(&scenario) { TRIES } else { 1 };
        let failures: Vec<String> = (0..tries).map_while(|_| run(scenario).err()).collect();
        assert!(failures.len() < tries, "{scenario}:\n{}", failures.join("\n"));
        for failure in failures {
            println!("{scenario} was tried again after:\n{failure}");
        }
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
