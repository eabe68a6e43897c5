use std::time::Duration;

use agentd_core::tool::Effect;
use agentd_mcp::config::{LISTING_WAIT, OFFERED_TOOLS};
use secrecy::ExposeSecret as _;

use super::*;
use crate::config::tests::sources;

fn resolved(sources: &Sources) -> Result<McpConfig, ConfigError> {
    Ok(resolve(sources, &mut Origins::default())?.0)
}

fn read(texts: &[&str]) -> Result<McpConfig, ConfigError> {
    let files: Vec<(Subject, &str)> = texts.iter().map(|text| (Subject::Mcp, *text)).collect();
    resolved(&sources(&files, &[("HOME", "/home/me"), ("TOKEN", "hunter2"), ("LONG", "sup3rsecret")]))
}

#[test]
fn variables_of_the_secrets_file_are_secrets() {
    let read = |secrets: &str| {
        let servers = r#"servers: {a: {command: x, args: ["${NOTE}"], env: {T: "${TOKEN}", L: "${LENT}"}}}"#;
        let files = [(Subject::Mcp, servers), (Subject::McpSecrets, secrets)];
        resolved(&sources(&files, &[("HOME", "/home/me"), ("TOKEN", "hunter2")]))
    };
    let config = read("# mine\n\nNOTE= \"a=b\" #c\r\nTOKEN=of-the-file\n").unwrap();
    let ServerAddress::Stdio { args, env, .. } = &config.servers["a"].address else { panic!() };
    assert_eq!((args[0].value.as_str(), args[0].shown.as_str()), (" \"a=b\" #c", "${NOTE}"));
    assert_eq!(env["T"].expose_secret(), "hunter2", "the environment takes precedence");
    assert!(variables::has_mark(env["L"].expose_secret()), "a client may have the variable");
    assert!(config.secrets().any(|secret| secret == " \"a=b\" #c"));
    for invalid in ["A=1\nsup3rsecret", "A B=sup3rsecret", "=sup3rsecret", "export A=sup3rsecret"] {
        let error = read(invalid).unwrap_err().to_string();
        assert!(error.contains("mcp_secrets.env:") && !error.contains("sup3rsecret"), "{error}");
    }
}

#[test]
fn common_mcp_form_is_accepted() {
    let config = read(&[r#"
global:
  lazy_startup: true
servers:
  filesystem:
    command: "npx"
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/allowed"]
    enabled: true
    env:
      DEBUG: "true"
      PORT: 3000
      KEY: "${TOKEN}"
    connection_mode: "stdio"
    tools:
      read_file:
        enabled: true
        always_available: false
        alias: "fs_read"
        description: "Read file contents from allowed directory"
      write_file:
        enabled: false
  remote: {connection_mode: sse, url: "https://example.org/sse", sampling: ask, headers: {Authorization: "Bearer ${TOKEN}"}}
  bare: {url: "http://localhost:1/mcp", idle_stop: never, call_timeout: 5s}
"#])
    .unwrap();
    let files = &config.servers["filesystem"];
    let ServerAddress::Stdio { command, args, env, cwd } = &files.address else { panic!("{files:?}") };
    assert_eq!((command.as_str(), args.len(), cwd.to_str()), ("npx", 3, Some("/conf")));
    assert_eq!(files.place(), "npx -y @modelcontextprotocol/server-filesystem /path/to/allowed");
    assert_eq!((env["PORT"].expose_secret(), env["KEY"].expose_secret()), ("3000", "hunter2"));
    assert_eq!(files.tool("read_file").alias.as_deref(), Some("fs_read"));
    assert_eq!(files.tool("write_file").enabled, Some(false));
    assert!(!files.eager && files.enabled && files.idle_stop.is_some());
    let ServerAddress::Http { wire: HttpWire::Sse, headers, .. } = &config.servers["remote"].address else { panic!() };
    assert_eq!(headers["Authorization"].expose_secret(), "Bearer hunter2");
    assert_eq!((config.servers["remote"].sampling, files.sampling), (Sampling::Ask, Sampling::Never));
    let bare = &config.servers["bare"];
    assert!(matches!(bare.address, ServerAddress::Http { wire: HttpWire::Streamable, .. }));
    assert_eq!((bare.idle_stop, bare.call_timeout), (None, Duration::from_secs(5)));
    assert!(config.secrets().any(|secret| secret == "hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn client_secret_is_never_shown() {
    let config = read(&[
        "servers: {a: {url: 'https://x/', oauth: {client_id: me, client_secret: '${LONG}', issuer: 'https://i/'}}}",
    ])
    .unwrap();
    let ServerAddress::Http { client: Some(client), .. } = &config.servers["a"].address else { panic!() };
    assert_eq!(client.issuer.as_deref(), Some("https://i/"));
    assert_eq!((client.id.as_str(), client.secret.as_ref().unwrap().expose_secret()), ("me", "sup3rsecret"));
    assert!(config.secrets().any(|secret| secret == "sup3rsecret"));
    assert!(!format!("{config:?}").contains("sup3rsecret"));
    let config = read(&["servers: {a: {url: 'https://x/', oauth: {client_id: me}}}"]).unwrap();
    let ServerAddress::Http { client: Some(client), .. } = &config.servers["a"].address else { panic!() };
    assert!(client.secret.is_none() && client.issuer.is_none());
}

#[test]
fn mcp_layer_changes_only_its_keys() {
    let config = read(&[
        "servers: {a: {command: x, args: [1], tools: {t: {alias: one, enabled: true}}}}",
        "servers: {a: {enabled: false, cwd: '~/there', tools: {t: {description: d, effect: read}}}}",
    ])
    .unwrap();
    let server = &config.servers["a"];
    let ServerAddress::Stdio { args, cwd, .. } = &server.address else { panic!("{server:?}") };
    assert_eq!(
        (server.enabled, args.as_slice(), cwd.to_str()),
        (false, &[ConfigText::from("1")][..], Some("/home/me/there"))
    );
    let tool = server.tool("t");
    assert_eq!((tool.alias.as_deref(), tool.enabled, tool.effect), (Some("one"), Some(true), Some(Effect::Read)));
}

#[test]
fn expanded_variables_are_shown_by_name() {
    let config = read(&[r#"
servers:
  a: {command: x, args: ["--key=${LONG}", "${HOME}/x", --password, written-out, "--header", "A: Bearer abc.defghi"]}
  b: {url: "http://x/${LONG}/y?key=also-written&a=b"}
  c:
    command: x
    args:
      - plain ${LONG}
"#])
    .unwrap();
    let place = |name: &str| config.servers[name].place();
    let shown = "x --key=${LONG} ${HOME}/x --password […] --header A: Bearer […]";
    assert_eq!((place("a").as_str(), place("b").as_str()), (shown, "http://x/${LONG}/y"));
    assert_eq!(place("c"), "x plain ${LONG}");
    let ServerAddress::Stdio { args, .. } = &config.servers["a"].address else { panic!() };
    assert_eq!(args[0].value, "--key=sup3rsecret");
    let secrets: Vec<&str> = config.secrets().collect();
    for secret in ["sup3rsecret", "written-out", "abc.defghi", "also-written"] {
        assert!(secrets.contains(&secret), "{secret}: {secrets:?}");
        assert!(!format!("{config:?}").contains(secret), "{secret}");
    }
    assert!(!secrets.iter().any(|secret| secret.contains("/home/me")), "{secrets:?}");
}

#[test]
fn invalid_entry_is_reported_and_others_stay() {
    for (text, parts) in [
        ("{a: {comand: x}}", ["mcp_servers.yaml:1:15", "did you mean `command`?"]),
        ("{a: {command: x, tools: {t: {enable: true}}}}", ["1:39", "did you mean `enabled`?"]),
        ("{a: {connection_mode: htpp, url: 'http://x'}}", ["1:32", "did you mean `http`?"]),
        ("{a: {command: x, sampling: always}}", ["1:37", "unknown value `always`"]),
        ("{a: {url: 'https://x/', oauth: {clientid: x}}}", ["1:42", "did you mean `client_id`?"]),
        ("{a: {command: x, call_timeout: soon}}", ["1:41", "is not a time"]),
        ("{a: {command: x, effect: raed}}", ["1:35", "did you mean `read`?"]),
        ("{a: {command: x, grants: all}}", ["1:27", "a list of tools"]),
        ("{a: {command: x, grant: ['t']}}", ["1:27", "did you mean `grants`?"]),
        ("{a: {command: x, always_available: maybe}}", ["1:45", "bool"]),
        ("{a: [command, x]}", ["1:14", ""]),
    ] {
        let text = format!("servers: {text}").replace("}}}", "} } }");
        let text = format!("{}, b: {{command: y}}}}\n", text.strip_suffix('}').unwrap());
        let config = read(&[&text]).unwrap();
        assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["b"], "{text}");
        for part in parts {
            assert!(config.broken["a"].contains(part), "{text}: {}", config.broken["a"]);
        }
    }
    let named = read(&["servers: {'a b': {command: x}, b: {command: y}}"]).unwrap();
    assert!(named.broken["a b"].contains("1:18") && named.servers.contains_key("b"), "{named:?}");
}

#[test]
fn invalid_top_level_key_rejects_the_file() {
    for (text, parts) in [
        ("server: {a: {command: x}}", ["1:1", "did you mean `servers`?"]),
        ("global: {idle: 1m}\nservers: {a: {comand: x}}", ["1:10", "unknown key `idle`"]),
        ("servers: {a: {command: x", ["mcp_servers.yaml", ""]),
        ("servers: {a: {comand: x}, a: {command: y}}", ["1:", ""]),
        ("servers: [a]", ["1:", ""]),
    ] {
        let error = read(&[text]).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

#[test]
fn client_variable_overrides_a_default() {
    let config = read(&[r#"
global: {listing_wait: 0}
servers:
  a:
    command: x
    args: ["--port=${PORT:-80}", "--again=${PORT:-81}", "${TOKEN:-none}", "$${PORT:-82}", '${PLACE:-~/x}', "${PORT}"]
    env: {K: "${KEY:-}", P: "${PROJECT:-/srv}"}
    cwd: ${WORK:-~/work}
"#])
    .unwrap();
    let ServerAddress::Stdio { args, env, cwd, .. } = &config.servers["a"].address else { panic!() };
    let args: Vec<String> = args.iter().map(|arg| variables::written(&arg.value)).collect();
    let expected =
        ["--port=${PORT:-80}", "--again=${PORT:-81}", "hunter2", "${PORT:-82}", "${PLACE:-/home/me/x}", "${PORT}"];
    assert_eq!(args, expected);
    assert_eq!(variables::written(env["K"].expose_secret()), "${KEY:-}");
    assert_eq!(variables::written(&cwd.to_string_lossy()), "${WORK:-/home/me/work}");
    let variables: Vec<String> = config.servers["a"].variables().into_iter().collect();
    assert_eq!(variables, ["KEY", "PLACE", "PORT", "PROJECT", "WORK"]);
    assert_eq!((config.listing_wait, read(&[]).unwrap().listing_wait), (Duration::ZERO, LISTING_WAIT));
}

#[test]
fn tool_defaults_apply_to_all_tools_of_a_server() {
    let config = read(&[r#"
global: {offered_tools: 12}
servers:
  a: {command: x, always_available: true, effect: read, grants: [t, u], tools: {t: {always_available: false, effect: write}}}
  b: {command: x, grants: "*"}
  c: {command: x, grants: ["*"]}
  d: {command: x, always_available: false}
"#])
    .unwrap();
    let effective = |server: &str, tool: &str| {
        let server = &config.servers[server];
        let setting = server.tool(tool);
        (setting.always_available, setting.effect, server.grants.contains(tool))
    };
    assert_eq!(effective("a", "t"), (Some(false), Some(Effect::Write), true));
    assert_eq!(effective("a", "v"), (Some(true), Some(Effect::Read), false));
    assert_eq!(effective("b", "t"), (None, None, true));
    assert_eq!(effective("c", "t"), (None, None, true));
    assert_eq!(effective("d", "t"), (Some(false), None, false));
    assert_eq!((config.offered_tools, read(&[]).unwrap().offered_tools), (12, OFFERED_TOOLS));
    // A key in a higher layer replaces the value from the lower layer.
    let layered = read(&["servers: {a: {command: x, grants: '*'}}", "servers: {a: {grants: []}}"]).unwrap();
    assert!(!layered.servers["a"].grants.contains("t"));
}

#[test]
fn invalid_server_does_not_affect_the_others() {
    for (entry, parts) in [
        ("{}", ["2:6", "has no command"]),
        ("{connection_mode: sse}", ["2:6", "has no address"]),
        ("{url: 'ftp://x'}", ["2:12", "must start with http"]),
        ("{url: 'https://me:hunter2@x/'}", ["2:12", "user name or password"]),
        ("{url: 'https://x/', oauth: {client_secret: hunter2}}", ["2:6", "no `client_id`"]),
        ("{url: 'https://x/', oauth: {client_id: me, client_secret: hunter2}}", ["2:6", "no `issuer`"]),
        ("{url: 'https://x/', oauth: {issuer: 'https://i/'}}", ["2:6", "no `client_id`"]),
        ("{url: 'https://x/', oauth: {client_id: me, issuer: i}}", ["2:57", "not a URL"]),
        ("{url: 'https://x/', connection_mode: sse, oauth: {client_id: me}}", ["2:6", "does not support login"]),
        ("{url: 'https://x/', oauth: {client_id: ' '}}", ["2:45", "client credential"]),
        ("{command: x, oauth: {client_id: x}}", ["2:6", "needs no login"]),
        ("{command: x, env: {K: \"${TOKEN\"}}", ["2:28", "missing `}`"]),
    ] {
        let config = read(&[&format!("servers:\n  a: {entry}\n  b: {{command: x}}\n")]).unwrap();
        assert_eq!(config.servers.keys().collect::<Vec<_>>(), ["b"], "{entry}");
        for part in parts {
            assert!(config.broken["a"].contains(part), "{entry}: {}", config.broken["a"]);
        }
        assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    }
}

#[test]
fn unset_variables_are_left_to_the_client() {
    let config = read(&[r#"
servers:
  a: {command: x, args: ["--token=${ELSEWHERE}"], env: {K: "${ELSEWHERE}", L: "${ALSO:-none}", M: "${TOKEN}"}}
  b: {url: "https://example.org/${PLACE}/mcp", headers: {Authorization: "Bearer ${ELSEWHERE}"}}
  c: {url: "${ADDRESS}"}
  d: {command: x}
"#])
    .unwrap();
    assert!(config.broken.is_empty(), "{config:?}");
    let variables = |name: &str| config.servers[name].variables().into_iter().collect::<Vec<_>>();
    assert_eq!(variables("a"), ["ALSO", "ELSEWHERE"]);
    assert_eq!(variables("b"), ["ELSEWHERE", "PLACE"]);
    assert_eq!(variables("c"), ["ADDRESS"]);
    assert!(variables("d").is_empty());
    assert_eq!(config.servers["a"].place(), "x --token=${ELSEWHERE}");
    assert_eq!(config.servers["b"].place(), "https://example.org/${PLACE}/mcp");
}
