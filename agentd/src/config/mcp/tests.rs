use secrecy::ExposeSecret as _;

use super::*;
use crate::config::{Flags, layers};

fn read(texts: &[&str]) -> Result<McpConfig, ConfigError> {
    let mut files = layers::built_in();
    files.extend(texts.iter().map(|text| SourceFile {
        subject: Subject::Mcp,
        origin: Origin::User("/conf/mcp_servers.yaml".into()),
        text: (*text).to_owned(),
    }));
    let env = [("HOME", "/home/me"), ("TOKEN", "hunter2"), ("LONG", "sup3rsecret")].into_iter().collect();
    resolve(&Sources { files, env, flags: Flags::default() }, &mut Origins::default())
}

#[test]
fn the_usual_form_is_read_as_it_is() {
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
    let Reached::Stdio { command, args, env, cwd } = &files.reached else { panic!("{files:?}") };
    assert_eq!((command.as_str(), args.len(), cwd.to_str()), ("npx", 3, Some("/conf")));
    assert_eq!(files.place(), "npx -y @modelcontextprotocol/server-filesystem /path/to/allowed");
    assert_eq!((env["PORT"].expose_secret(), env["KEY"].expose_secret()), ("3000", "hunter2"));
    assert_eq!(files.tool("read_file").alias.as_deref(), Some("fs_read"));
    assert_eq!(files.tool("write_file").enabled, Some(false));
    assert!(!files.eager && files.enabled && files.idle_stop.is_some());
    let Reached::Http { wire: HttpWire::Sse, headers, .. } = &config.servers["remote"].reached else { panic!() };
    assert_eq!(headers["Authorization"].expose_secret(), "Bearer hunter2");
    assert_eq!((config.servers["remote"].sampling, files.sampling), (Sampling::Ask, Sampling::Never));
    let bare = &config.servers["bare"];
    assert!(matches!(bare.reached, Reached::Http { wire: HttpWire::Streamable, .. }));
    assert_eq!((bare.idle_stop, bare.call_timeout), (None, Duration::from_secs(5)));
    assert!(config.secrets().any(|secret| secret == "hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_client_that_was_registered_by_hand_has_a_secret_that_is_shown_to_nobody() {
    let config = read(&[
        "servers: {a: {url: 'https://x/', oauth: {client_id: me, client_secret: '${LONG}', issuer: 'https://i/'}}}",
    ])
    .unwrap();
    let Reached::Http { client: Some(client), .. } = &config.servers["a"].reached else { panic!() };
    assert_eq!(client.issuer.as_deref(), Some("https://i/"));
    assert_eq!((client.id.as_str(), client.secret.as_ref().unwrap().expose_secret()), ("me", "sup3rsecret"));
    assert!(config.secrets().any(|secret| secret == "sup3rsecret"));
    assert!(!format!("{config:?}").contains("sup3rsecret"));
    let config = read(&["servers: {a: {url: 'https://x/', oauth: {client_id: me}}}"]).unwrap();
    let Reached::Http { client: Some(client), .. } = &config.servers["a"].reached else { panic!() };
    assert!(client.secret.is_none() && client.issuer.is_none());
}

#[test]
fn a_layer_changes_only_what_it_names() {
    let config = read(&[
        "servers: {a: {command: x, args: [1], tools: {t: {alias: one, enabled: true}}}}",
        "servers: {a: {enabled: false, cwd: '~/there', tools: {t: {description: d, effect: read}}}}",
    ])
    .unwrap();
    let server = &config.servers["a"];
    let Reached::Stdio { args, cwd, .. } = &server.reached else { panic!("{server:?}") };
    assert_eq!(
        (server.enabled, args.as_slice(), cwd.to_str()),
        (false, &[Written::from("1")][..], Some("/home/me/there"))
    );
    let tool = server.tool("t");
    assert_eq!((tool.alias.as_deref(), tool.enabled, tool.effect), (Some("one"), Some(true), Some(Effect::Read)));
}

#[test]
fn what_a_variable_puts_into_a_text_is_shown_by_its_name() {
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
    let Reached::Stdio { args, .. } = &config.servers["a"].reached else { panic!() };
    assert_eq!(args[0].value, "--key=sup3rsecret");
    let secrets: Vec<&str> = config.secrets().collect();
    for secret in ["sup3rsecret", "written-out", "abc.defghi", "also-written"] {
        assert!(secrets.contains(&secret), "{secret}: {secrets:?}");
        assert!(!format!("{config:?}").contains(secret), "{secret}");
    }
    assert!(!secrets.iter().any(|secret| secret.contains("/home/me")), "{secrets:?}");
}

#[test]
fn what_makes_no_sense_is_named() {
    for (text, parts) in [
        ("servers: {a: {comand: x}}", ["mcp_servers.yaml:1:15", "did you mean `command`?"]),
        ("servers: {a: {command: x, tools: {t: {enable: true}}}}", ["1:39", "did you mean `enabled`?"]),
        ("servers: {a: {}}", ["1:14", "has no command"]),
        ("servers: {a: {connection_mode: sse}}", ["1:14", "has no address"]),
        ("servers: {a: {connection_mode: htpp, url: 'http://x'}}", ["1:32", "did you mean `http`?"]),
        ("servers: {a: {url: 'ftp://x'}}", ["1:20", "begins with http"]),
        ("servers: {a: {url: 'https://me:hunter2@x/'}}", ["1:20", "password before the @"]),
        ("servers: {a: {command: x, sampling: always}}", ["1:37", "unknown value `always`"]),
        ("servers: {a: {url: 'https://x/', oauth: {clientid: x}}}", ["1:42", "did you mean `client_id`?"]),
        ("servers: {a: {url: 'https://x/', oauth: {client_secret: hunter2}}}", ["1:14", "no `client_id`"]),
        ("servers: {a: {url: 'https://x/', oauth: {client_id: me, client_secret: hunter2}}}", ["1:14", "no `issuer`"]),
        ("servers: {a: {url: 'https://x/', oauth: {issuer: 'https://i/'}}}", ["1:14", "no `client_id`"]),
        ("servers: {a: {url: 'https://x/', oauth: {client_id: me, issuer: i}}}", ["1:65", "not an address"]),
        (
            "servers: {a: {url: 'https://x/', connection_mode: sse, oauth: {client_id: me}}}",
            ["1:14", "in which nobody logs in"],
        ),
        ("servers: {a: {url: 'https://x/', oauth: {client_id: ' '}}}", ["1:53", "registered as"]),
        ("servers: {a: {command: x, oauth: {client_id: x}}}", ["1:14", "nobody logs in to"]),
        ("servers: {'a b': {command: x}}", ["1:18", "cannot be the name"]),
        ("servers: {a: {command: x, call_timeout: soon}}", ["1:41", "is not a time"]),
        ("servers: {a: {command: x, env: {K: '${NOT_SET}'}}}", ["1:36", "NOT_SET is not set"]),
    ] {
        let error = read(&[text]).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    }
}
