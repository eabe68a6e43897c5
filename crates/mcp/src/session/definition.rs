//! A server as a client describes it, checked before anything of it is kept. Its texts are taken literally: there are no
//! variables in them.

use std::path::Path;

use secrecy::SecretString;

use crate::{
    config::{McpConfig, ServerAddress, ServerConfig},
    schema, variables,
};

/// Servers of one session.
pub const MAX_SESSION_SERVERS: usize = 16;
/// Bytes of all texts of a session's servers.
pub const MAX_SESSION_SERVER_BYTES: usize = 128 * 1024;
/// Characters of a server's name.
pub const MAX_SERVER_NAME: usize = 100;

/// Characters of a server's name that the names of its tools begin with.
const PART_OF_NAME: usize = 24;

/// A server that a client brings for one session.
#[derive(Debug, Clone)]
pub struct SessionServer {
    /// The client's name for it.
    pub name: String,
    /// The way to reach it. An empty working folder stands for that of the client.
    pub address: ServerAddress,
}

/// Refusal of servers: the problem, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRefusal {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

impl ServerRefusal {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// The servers as a configuration, and the names that they have in it, in the order of the list. One whose definition makes no
/// sense is broken and does not touch the others. Programs run in `folder` where they name none.
pub(super) fn config(servers: &[SessionServer], folder: &Path) -> Result<(McpConfig, Vec<String>), ServerRefusal> {
    if servers.len() > MAX_SESSION_SERVERS {
        return Err(ServerRefusal::new(
            format!("{} MCP servers are brought for the session; {MAX_SESSION_SERVERS} are allowed", servers.len()),
            "bring those that the session needs",
        ));
    }
    let bytes: usize = servers.iter().flat_map(texts).map(str::len).sum();
    if bytes > MAX_SESSION_SERVER_BYTES {
        return Err(ServerRefusal::new(
            format!("the MCP servers have {bytes} bytes of text; {MAX_SESSION_SERVER_BYTES} are allowed"),
            "put what is long into a file that the server reads",
        ));
    }
    let mut config = McpConfig::default();
    let mut names = Vec::new();
    for server in servers {
        let known = server_config(server, folder);
        let name = inner_name(&server.name, &known.fingerprint());
        match check(server) {
            Ok(()) => drop(config.servers.insert(name.clone(), known)),
            Err(why) => drop(config.broken.insert(name.clone(), why)),
        }
        names.push(name);
    }
    Ok((config, names))
}

/// The name of a server inside of agentd: the client's, with a mark of what it is. No server of the configuration has its tools,
/// and what a person allows it stays with this command or address.
fn inner_name(name: &str, fingerprint: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let begun: String = letters.take(PART_OF_NAME).collect();
    let begun = begun.trim_matches('-');
    let begun = if begun.is_empty() { "server" } else { begun };
    format!("{begun}-{}", schema::mark(&format!("{name}\n{fingerprint}")))
}

/// Returns whether a tool's name is one of a tool of a server that some client brought.
pub fn is_of_session_server(tool: &str) -> bool {
    let Some((server, _)) = tool.strip_prefix(schema::PREFIX).and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let mark = server.rsplit_once('-').map(|(_, mark)| mark);
    mark.is_some_and(|mark| mark.len() == schema::MARK && mark.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn check(server: &SessionServer) -> Result<(), String> {
    let SessionServer { name, address } = server;
    if name.trim().is_empty() || name.chars().count() > MAX_SERVER_NAME {
        return Err(format!("a name of an MCP server has 1 to {MAX_SERVER_NAME} characters"));
    }
    let wrong = |why: &str, hint: &str| Err(format!("it {why}; {hint}"));
    if texts(server).any(|text| text.contains('\0') || variables::has_mark(text)) {
        return wrong("has a text with characters that no program takes", "leave them out");
    }
    match address {
        ServerAddress::Stdio { command, env, cwd, .. } => {
            if command.trim().is_empty() {
                return wrong("has no command", "name a program, or the address of a server that has one");
            }
            if env.keys().any(|name| name.is_empty() || name.contains('=')) {
                return wrong("has a variable without a name", "name variables as a shell does");
            }
            if !cwd.as_os_str().is_empty() && !cwd.is_absolute() {
                return wrong("has a folder that is no absolute path", "begin it with `/`, or leave it out");
            }
        }
        ServerAddress::Http { url, headers, .. } => {
            let parsed = reqwest::Url::parse(&url.value).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            match parsed {
                None => return wrong("has no address of http or https", "write one such as https://example.org/mcp"),
                Some(url) if !url.username().is_empty() || url.password().is_some() => {
                    return wrong("has a name or a password in its address", "put a key into its headers");
                }
                Some(_) => {}
            }
            let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
            let named = |name: &String| !name.is_empty() && name.chars().all(is_token);
            if !headers.keys().all(named) || headers.values().any(|value| plain(value).contains(['\n', '\r'])) {
                return wrong("has a header that cannot be sent", "write headers as HTTP has them, each on one line");
            }
        }
    }
    Ok(())
}

fn server_config(server: &SessionServer, folder: &Path) -> ServerConfig {
    let mut reached = server.address.clone();
    if let ServerAddress::Stdio { cwd, .. } = &mut reached
        && cwd.as_os_str().is_empty()
    {
        folder.clone_into(cwd);
    }
    ServerConfig::new(reached)
}

/// Everything that the client wrote of a server.
fn texts(server: &SessionServer) -> impl Iterator<Item = &str> {
    let (word, args, pairs, cwd) = match &server.address {
        ServerAddress::Stdio { command, args, env, cwd } => (command, args.as_slice(), env, cwd.to_str()),
        ServerAddress::Http { url, headers, .. } => (&url.value, [].as_slice(), headers, None),
    };
    let words = std::iter::once(word.as_str()).chain(args.iter().map(|arg| arg.value.as_str()));
    let pairs = pairs.iter().flat_map(|(name, value)| [name.as_str(), plain(value)]);
    std::iter::once(server.name.as_str()).chain(words).chain(pairs).chain(cwd)
}

fn plain(secret: &SecretString) -> &str {
    secrecy::ExposeSecret::expose_secret(secret)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, path::PathBuf};

    use proptest::prelude::*;

    use super::*;
    use crate::config::HttpWire;

    fn program(name: &str, command: &str, env: &[(&str, &str)]) -> SessionServer {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect();
        let (command, args) = (command.to_owned(), vec!["-v".into()]);
        let address = ServerAddress::Stdio { command, args, env, cwd: PathBuf::new() };
        SessionServer { name: name.to_owned(), address }
    }

    fn http(url: &str, headers: &[(&str, &str)]) -> SessionServer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), SecretString::from(*value))).collect();
        let address = ServerAddress::Http { url: url.into(), headers, wire: HttpWire::Streamable, client: None };
        SessionServer { name: "web".to_owned(), address }
    }

    fn names(servers: &[SessionServer]) -> Vec<String> {
        config(servers, Path::new("/tmp")).unwrap().1
    }

    #[test]
    fn a_name_says_what_the_server_is_and_no_secret() {
        let one = names(&[program("files", "/bin/a", &[("KEY", "one")])]).remove(0);
        let check = |server: SessionServer, same: bool| {
            let other = names(&[server]).remove(0);
            assert_eq!(one == other, same, "{one} {other}");
        };
        check(program("files", "/bin/a", &[("KEY", "other")]), true);
        check(program("files", "/bin/b", &[("KEY", "one")]), false);
        check(program("Files", "/bin/a", &[("KEY", "one")]), false);
        check(program("files", "/bin/a", &[("TOKEN", "one")]), false);
        assert!(one.starts_with("files-") && one.len() == "files-".len() + 8, "{one}");
    }

    #[test]
    fn what_no_server_could_be_is_broken_and_says_why() {
        let check = |servers: &[SessionServer], words: &str| {
            let (config, names) = config(servers, Path::new("/tmp")).unwrap();
            assert!(config.servers.is_empty() && config.broken.len() == 1, "{config:?}");
            let why = &config.broken[&names[0]];
            assert!(why.contains(words) && !why.contains("s3cret"), "{why}");
        };
        check(&[program(" ", "/bin/a", &[])], "name");
        check(&[program(&"x".repeat(101), "/bin/a", &[])], "name");
        check(&[program("a", " ", &[])], "no command");
        check(&[program("a", "/bin/a\0b", &[])], "no program takes");
        check(&[program("a", &variables::mark("HOME"), &[])], "no program takes");
        check(&[program("a", "/bin/a", &[("", "s3cret")])], "without a name");
        check(&[program("a", "/bin/a", &[("A=B", "s3cret")])], "without a name");
        let relative = ServerAddress::Stdio {
            command: "a".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: "up/../down".into(),
        };
        check(&[SessionServer { name: "a".to_owned(), address: relative }], "no absolute path");
        check(&[http("file:///etc/passwd", &[])], "no address");
        check(&[http("nonsense", &[])], "no address");
        check(&[http("https://me:s3cret@example.org/", &[])], "password");
        check(&[http("https://example.org/", &[("Bad Name", "s3cret")])], "header");
        check(&[http("https://example.org/", &[("X-Key", "s3cret\r\nX-Other: a")])], "header");
    }

    #[test]
    fn too_much_is_refused_with_a_hint() {
        let check = |servers: &[SessionServer], words: &str| {
            let refusal = config(servers, Path::new("/tmp")).unwrap_err();
            assert!(refusal.message.contains(words) && !refusal.hint.is_empty(), "{refusal:?}");
        };
        check(&vec![program("a", "/bin/a", &[]); MAX_SESSION_SERVERS + 1], "17 MCP servers");
        check(&[program("a", &"x".repeat(MAX_SESSION_SERVER_BYTES), &[])], "bytes of text");
    }

    proptest! {
        #[test]
        fn every_name_gives_tools_that_are_known_again(name in ".{1,100}", tool in "[a-zA-Z_][a-zA-Z0-9_./-]{0,80}") {
            prop_assume!(!name.trim().is_empty() && !name.contains('\0') && !variables::has_mark(&name));
            prop_assume!(name.chars().count() <= MAX_SERVER_NAME);
            let inner = names(&[program(&name, "/bin/a", &[])]).remove(0);
            let tool = schema::name(&inner, &tool);
            prop_assert!(is_of_session_server(&tool), "{tool}");
            prop_assert!(tool.starts_with(&format!("mcp_{inner}_")), "{tool} {inner}");
        }
    }

    #[test]
    fn tools_of_the_configuration_are_not_taken_for_those_of_a_session() {
        for tool in ["mcp_files_read", "mcp_my-files_read", "read_file", "mcp_", "mcp_a-1234567_b"] {
            assert!(!is_of_session_server(tool), "{tool}");
        }
    }
}
