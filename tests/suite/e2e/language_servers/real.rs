//! The published pyright in place of the fake server.

use super::super::mcp::installed;

use super::*;

const PROGRAM: &str = "def double(number: int) -> int:\n    return number * 2\n\n\nprint(double(4))\n";

async fn with_pyright() -> World {
    let (node, script) = (installed("bin/node"), installed("node_modules/pyright/langserver.index.js"));
    let server = json!({"enabled": true, "command": node, "args": [script, "--stdio"]});
    // The host may be slow while it runs other tests.
    let global = json!({"wait": "60s", "cold_wait": "60s"});
    world(global, json!({"pyright": server}), &installed("")).await
}

#[tokio::test]
async fn type_error_of_an_edit_is_reported_and_its_fix_is_silent() {
    let world = with_pyright().await;
    world.write("project/pyproject.toml", "");
    world.write("project/app.py", PROGRAM);
    let edit_with_error = edit("app.py", "double(4)", "double(\"four\")");
    let mends = edit("app.py", "\"four\"", "4");
    let requests = world.works(vec![edit_with_error, mends, Reply::text("Done.")]).await;
    assert_eq!(requests.len(), 3, "{}", world.log());
    let result = words(&requests[1]);
    assert!(
        result.contains(DIAGNOSTICS_HEADING) && result.contains("/project/app.py:5:14: error: "),
        "{result}\n{}",
        world.log()
    );
    assert!(result.contains("reportArgumentType"), "{result}");
    assert_eq!(words(&requests[2]).matches(DIAGNOSTICS_HEADING).count(), 1, "the second edit fixes the error");
    // Earlier messages are unchanged in later requests.
    let (before, after) = (requests[1].messages(), requests[2].messages());
    assert_eq!(before, &after[..before.len()]);
    world.still_serves().await;
}
