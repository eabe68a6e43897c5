//! MCP servers that an editor names for a session. The daemon's servers are those of its configuration, so a server that it
//! does not have is told of, with the way to add it, and harms nothing.

use agent_client_protocol_schema::v1::McpServer;
use agentd_proto::client::Client;

use crate::terminal::sanitize::clean_line;

/// The words about servers that the daemon does not have; none where it has all of them.
pub(super) async fn missing(client: &Client, named: &[McpServer]) -> Option<String> {
    if named.is_empty() {
        return None;
    }
    // Where they cannot be listed, none is known.
    let known = client.mcp_servers().await.unwrap_or_default();
    let missing: Vec<&McpServer> =
        named.iter().filter(|server| known.iter().all(|known| known.name != name(server))).collect();
    if missing.is_empty() {
        return None;
    }
    let ways: Vec<String> = missing.into_iter().filter_map(way).collect();
    let what = "MCP servers of the editor are not used in this session; agentd has its own.";
    Some(format!("{what} To add them: {}", ways.join(" · ")))
}

fn name(server: &McpServer) -> &str {
    match server {
        McpServer::Http(server) => &server.name,
        McpServer::Sse(server) => &server.name,
        McpServer::Stdio(server) => &server.name,
        _ => "",
    }
}

/// The command that adds a server. Its variables may be secrets and are not repeated.
fn way(server: &McpServer) -> Option<String> {
    let plain = |text: &str| {
        let is_plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+=:@,%".contains(c));
        if is_plain { text.to_owned() } else { format!("'{}'", clean_line(text).replace('\'', r"'\''")) }
    };
    let name = plain(name(server));
    match server {
        McpServer::Http(server) => Some(format!("`agentctl mcp add {name} --url {}`", plain(&server.url))),
        McpServer::Sse(server) => Some(format!("`agentctl mcp add {name} --url {}`", plain(&server.url))),
        McpServer::Stdio(server) => {
            let command = server.command.display().to_string();
            let words: Vec<String> = std::iter::once(&command).chain(&server.args).map(|word| plain(word)).collect();
            Some(format!("`agentctl mcp add {name} -- {}`", words.join(" ")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol_schema::v1::{EnvVariable, McpServerHttp, McpServerStdio};

    use super::*;

    #[test]
    fn a_server_is_added_by_a_command_without_its_secrets() {
        let stdio = McpServerStdio::new("files", "/bin/server")
            .args(vec!["--root".to_owned(), "/my docs".to_owned()])
            .env(vec![EnvVariable::new("KEY", "secret")]);
        let way_of = |server| way(&server).unwrap();
        assert_eq!(way_of(McpServer::Stdio(stdio)), "`agentctl mcp add files -- /bin/server --root '/my docs'`");
        let http = McpServerHttp::new("web one", "https://example.org/mcp");
        assert_eq!(way_of(McpServer::Http(http)), "`agentctl mcp add 'web one' --url https://example.org/mcp`");
    }
}
