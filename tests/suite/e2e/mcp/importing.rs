//! Servers imported from VS Code's `mcp.json`: its variables are translated, and their values are requested from the
//! user.

use super::*;

const SECRET: &str = "ghp_NobodyMayReadThis0123456789";

/// Returns a typical file that contains the fake server.
fn of_vs_code() -> String {
    let fake = serde_json::to_string(&fake()).unwrap();
    format!(
        r#"{{
  // The user is prompted for inputs once, when a server starts.
  "inputs": [
    {{"type": "promptString", "id": "github_token", "description": "GitHub Personal Access Token", "password": true}},
    {{"type": "promptString", "id": "db-name", "description": "Database", "default": "notes"}},
    {{"type": "pickString", "id": "region", "description": "Region", "options": ["eu-west", "us-east"], "default": "eu-west"}},
    {{"type": "command", "id": "picked", "command": "extension.pickFile"}},
  ],
  "servers": {{
    "github": {{
      "type": "stdio",
      "command": "python3",
      "args": [{fake}, "talks", "--token=${{input:github_token}}", "${{input:db-name}}"],
      "env": {{"KEY": "${{input:github_token}}", "REGION": "${{input:region}}", "HOMES": "${{userHome}}:${{env:PATH}}"}},
    }},
    "root": {{"command": "${{workspaceFolder}}/bin/server", "args": ["--root", "${{workspaceFolder}}"]}},
    "remote": {{"type": "http", "url": "https://example.org/${{input:db-name}}/mcp",
               "headers": {{"Authorization": "Bearer ${{input:github_token}}"}}}},
    "picks": {{"command": "x", "args": ["${{input:picked}}"]}},
    "forgets": {{"command": "x", "args": ["${{input:nowhere}}"]}}
  }}
}}
"#
    )
}

fn left_out(imported: &Value) -> Vec<(&str, &str)> {
    let left = imported["left"].as_array().unwrap().iter();
    let mut left: Vec<_> = left.map(|left| (left["what"].as_str().unwrap(), left["why"].as_str().unwrap())).collect();
    left.sort_unstable();
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_asks_once_per_value_and_never_shows_a_password() {
    let world = world(json!({})).await;
    world.write("config/mcp_servers.yaml", "# mine\n");
    let file = world.write("my project/.vscode/mcp.json", of_vs_code());
    let project = file.parent().unwrap().parent().unwrap().canonicalize().unwrap();
    let args = ["mcp", "import", file.to_str().unwrap()];
    let mut terminal = Terminal::around(&world.daemon, "\"$@\"; echo ended with $?; stty -a", &args);
    terminal.answers("Database, for github, remote [notes]: ", "a ${b}\r");
    terminal.sees("GitHub Personal Access Token, for github, remote (not shown): ");
    // A typo is corrected with backspace, and the secret is not echoed.
    terminal.presses(&format!("{SECRET}é\u{7f}\r"));
    let before = terminal.sees("1  eu-west");
    assert!(!before.contains("ghp_"), "{before}");
    terminal.answers("Region, for github [eu-west]: ", "3\r");
    terminal.sees_all(&["`3` is not one of the choices", "[eu-west]: "]);
    terminal.presses("2\r");
    let rest = terminal.ends();
    has_all(&rest, &["imported github, root, remote", "skipped forgets", "skipped picks", "ended with 0", " echo "]);
    assert!(!rest.contains("ghp_"), "{rest}");

    let written = fs::read_to_string(world.config().join("mcp_servers.yaml")).unwrap();
    assert!(!written.contains(SECRET), "{written}");
    for part in [
        "\"a $${b}\"",
        "KEY: \"${INPUT_GITHUB_TOKEN}\"",
        "REGION: \"us-east\"",
        "HOMES: \"${HOME}:${PATH}\"",
        "Authorization: \"Bearer ${INPUT_GITHUB_TOKEN}\"",
        &format!("command: \"{}/bin/server\"", project.display()),
        &format!("args: [\"--root\", \"{}\"]", project.display()),
    ] {
        assert!(written.contains(part), "{part:?} is missing in {written}");
    }
    let secrets = world.config().join("mcp_secrets.env");
    assert_eq!(fs::read_to_string(&secrets).unwrap(), format!("INPUT_GITHUB_TOKEN={SECRET}\n"));
    assert_eq!(secrets.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    // The server receives the secret. The secret is redacted in the server's log.
    world.agentctl(["mcp", "test", "github"]).await.exits(1);
    let logs = world.ok(["mcp", "logs", "github"]).await.stdout;
    assert!(logs.contains("the key is") && !logs.contains("ghp_"), "{logs}");
    let listed = world.ok(["mcp", "list", "--json"]).await.stdout;
    assert!(listed.contains("--token=${INPUT_GITHUB_TOKEN}") && !listed.contains("ghp_"), "{listed}");
    world.assert_all_exit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_import_changes_nothing() {
    let world = world(json!({})).await;
    world.write("config/mcp_servers.yaml", "# mine\n");
    let file = world.write("project/.vscode/mcp.json", of_vs_code());
    let args = ["mcp", "import", file.to_str().unwrap()];
    let mut terminal = Terminal::around(&world.daemon, "\"$@\"; echo ended with $?; stty -a", &args);
    terminal.answers("[notes]: ", "\r");
    terminal.answers("(not shown): ", "ghp_half");
    terminal.control('c');
    let rest = terminal.ends();
    has_all(&rest, &["nothing was imported", "ended with 130", " echo "]);
    assert!(!rest.contains("ghp_"), "{rest}");
    assert_eq!(fs::read_to_string(world.config().join("mcp_servers.yaml")).unwrap(), "# mine\n");
    assert!(!world.config().join("mcp_secrets.env").exists());
    world.assert_all_exit().await;
}

#[tokio::test]
async fn import_without_a_terminal_takes_servers_without_questions() {
    let world = world(json!({})).await;
    world.write("config/mcp_servers.yaml", "# mine\n");
    let file = world.write("project/.vscode/mcp.json", of_vs_code());
    let import = ["mcp", "import", file.to_str().unwrap(), "--json"];
    let looked = world.ok(import.iter().chain(&["--dry-run"])).await.json();
    assert_eq!(looked["asks"], json!(["db-name", "github_token", "nowhere", "picked", "region"]), "{looked:#}");
    let imported = world.ok(import).await.json();
    assert_eq!(imported["taken"], json!(["root"]), "{imported:#}");
    let left = left_out(&imported);
    assert_eq!(left.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["forgets", "github", "picks", "remote"]);
    assert!(left[0].1.contains("not among the `inputs`") && left[2].1.contains("an editor command"), "{left:#?}");
    assert!(left[1].1.contains("import it in a terminal") && left[1].1.contains("${INPUT_"), "{left:#?}");
    assert!(!world.config().join("mcp_secrets.env").exists());
    world.assert_all_exit().await;
}
