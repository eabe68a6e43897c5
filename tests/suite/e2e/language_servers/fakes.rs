//! Scripted servers, both well-behaved and misbehaving.

use super::*;

/// A valid file in the fake language.
const VALID_SOURCE: &str = "one\ntwo\nthree\n";

/// Returns the configuration of the fake server with this behaviour.
fn fake_server(mode: &str) -> Value {
    let script = folder().join("fake_server.py");
    json!({"fake": {"command": "python3", "args": [script, mode], "languages": {"fake": ["fk"]}}})
}

/// Returns timeouts that are long enough even on a busy host.
pub(super) fn long_timeouts() -> Value {
    json!({"wait": "60s", "cold_wait": "60s", "request_timeout": "50s"})
}

pub(super) async fn with(mode: &str, global: Value) -> World {
    let world = world(global, fake_server(mode), &folder()).await;
    world.write("project/a.fk", VALID_SOURCE);
    world
}

pub(super) fn edit_with_error() -> Reply {
    edit("a.fk", "two", "BROKEN two")
}

impl World {
    /// Returns the process IDs of the fake server.
    fn fakes(&self) -> Vec<u32> {
        let is_fake = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut args = line.split(|byte| *byte == 0);
            args.next().is_some_and(|word| word.ends_with(b"python3"))
                && args.any(|word| word.ends_with(b"fake_server.py"))
        };
        self.daemon.processes().into_iter().filter(is_fake).collect()
    }
}

pub(super) fn count(request: &Recorded) -> usize {
    words(request).matches(DIAGNOSTICS_HEADING).count()
}

#[tokio::test]
async fn pushed_and_pulled_errors_are_reported_once() {
    for mode in ["works", "pulled", "unversioned", "slow"] {
        let world = with(mode, long_timeouts()).await;
        world.write("project/a.fk", "one\ntwo\nBROKEN before\nODD\n");
        let moves = edit("a.fk", "one", "zero\none");
        let mends = edit("a.fk", "BROKEN two", "two");
        let requests = world.works(vec![edit_with_error(), moves, mends, Reply::text("Done.")]).await;
        let text = words(&requests[1]);
        assert!(text.contains("/project/a.fk:2:1: error: this is broken: [31m BROKEN two (fake E1)"), "{mode}: {text}");
        assert!(!text.contains("BROKEN before (fake") && !text.contains("this is odd"), "{mode}: {text}");
        assert_eq!(
            [1, 2, 3].map(|at| count(&requests[at])),
            [1, 1, 1],
            "{mode}: an error is reported once, and fixing it is not reported"
        );
    }
}

#[tokio::test]
async fn server_cannot_read_secret_files_even_if_created_later() {
    let world = with("reads", long_timeouts()).await;
    let write = |path: &str, text: &str| world.write(&format!("project/{path}"), text);
    write("plain.txt", "plain words");
    for (number, path) in [".env", "deep/er/.env.local", "deep/server.pem", ".aws/config"].iter().enumerate() {
        write(path, &format!("TOKEN={number}"));
    }
    let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    let result = words(&requests[1]);
    assert!(
        result.contains("plain.txt=plain words") && result.contains("a.fk:2:1") && !result.contains("TOKEN"),
        "{result}"
    );
    // Editors save by replacing the old file with a new one.
    let saved = world.write("saved", "TOKEN=5");
    fs::rename(saved, world.path().join("project/.env")).unwrap();
    write("deep/late/.env", "TOKEN=6");
    let requests = world.works(vec![edit("a.fk", "three", "BROKEN three"), Reply::text("Done.")]).await;
    let result = words(&requests[1]);
    assert!(
        result.contains("plain.txt=plain words") && result.contains("a.fk:3:1") && !result.contains("TOKEN"),
        "{result}"
    );
}

#[tokio::test]
async fn new_and_command_changed_files_are_checked() {
    let world = with("works", long_timeouts()).await;
    let made = Reply::tool_call("write_file", json!({"path": "/project/new.fk", "content": "BROKEN new\n"}));
    let other = Reply::tool_call("write_file", json!({"path": "/project/new.txt", "content": "BROKEN text\n"}));
    let command = Reply::tool_call("run_bash_command", json!({"command": "echo BROKEN by command >> /project/a.fk"}));
    let requests = world.works(vec![other, made, command, Reply::text("Done.")]).await;
    assert_eq!(count(&requests[1]), 0, "no server handles this file type");
    assert!(words(&requests[2]).contains("/project/new.fk:1:1: error"), "{}", words(&requests[2]));
    assert!(words(&requests[3]).contains("/project/a.fk:4:1: error"), "{}", words(&requests[3]));
    assert_eq!(world.fakes().len(), 1);
}

#[tokio::test]
async fn diagnostics_of_a_cold_server_arrive_before_the_turn_ends() {
    let world = with("slow", json!({"wait": "60s", "cold_wait": "1ms"})).await;
    let requests = world.works(vec![edit_with_error(), Reply::text("Done."), Reply::text("I saw it.")]).await;
    assert_eq!(count(&requests[1]), 0, "the edit does not wait for the server");
    assert_eq!(requests.len(), 3, "the diagnostics cause one more request");
    assert_eq!(count(&requests[2]), 1);
}

#[tokio::test]
async fn misbehaving_server_causes_only_a_bounded_wait() {
    let cases = [
        ("hangs", ""),
        ("mute", "it was not ready in time"),
        ("crashes", "exit code 3"),
        ("dies", "exit code 7"),
        // The slow reader blocks the server before it can write too much.
        ("floods", "ANYTHING"),
        ("nonsense", "it sent an invalid message"),
        ("huge", "it sent a message over 8 MiB"),
        ("memory", "exit code 1"),
        ("deaf", ""),
        ("missing", ""),
    ];
    for (mode, reason) in cases {
        // On a busy host, starting an interpreter may take seconds.
        let start = if mode == "mute" { "1s" } else { "60s" };
        let global = json!({
            "wait": "2s", "cold_wait": "2s", "request_timeout": "1s", "start_timeout": start, "memory_mib": 256
        });
        let mut servers = fake_server(mode);
        if mode == "missing" {
            servers["fake"]["command"] = json!("no-such-language-server");
        }
        let world = world(global, servers, &folder()).await;
        world.write("project/a.fk", VALID_SOURCE);
        let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
        assert_eq!(requests.len(), 2, "{mode}");
        assert_eq!(count(&requests[1]), 0, "{mode}: {}", words(&requests[1]));
        assert!(words(&requests[1]).contains("Edited /project/a.fk"), "{mode}");
        world.still_serves().await;
        let log = || world.log();
        if reason == "ANYTHING" {
            assert!(!log().contains("panicked"), "{mode}: {}", log());
        } else if reason.is_empty() {
            assert!(!log().contains("a language server failed"), "{mode}: {}", log());
        } else {
            let failed =
                || async { log().lines().any(|line| line.contains("failed") && line.contains(reason)).then_some(()) };
            until(&format!("the log contains the failure of {mode}"), failed).await;
        }
        assert_eq!(log().contains("a language server was started"), mode != "missing", "{mode}");
        assert_eq!(world.daemon.sigterm().await, Some(0), "{mode}: {}", world.log());
        until_true("no process is left", || world.processes().is_empty()).await;
    }
}

#[tokio::test]
async fn crashing_server_is_given_up_until_a_reload() {
    let global = json!({"wait": "30s", "cold_wait": "30s"});
    let world = with("crashes", global.clone()).await;
    let log_says = |phrase: &str| world.log().matches(phrase).count();
    // The server is restarted after each backoff while it is needed.
    let mut turns = 0;
    while !world.log().contains("is disabled") && turns < 60 {
        let (old, new) = if turns % 2 == 0 { ("two", "BROKEN two") } else { ("BROKEN two", "two") };
        world.works(vec![edit("a.fk", old, new), Reply::text("Done.")]).await;
        turns += 1;
        // The server is not restarted before its backoff has passed.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(log_says("a language server failed"), 4, "{}", world.log());
    world.write("project/a.fk", VALID_SOURCE);
    world.write("config/languages.yaml", languages(long_timeouts(), fake_server("works")));
    world.ok(["reload"]).await;
    let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    assert_eq!(count(&requests[1]), 1, "{}", world.log());
}

#[tokio::test]
async fn shared_server_stops_when_idle_and_with_the_daemon() {
    let mut global = long_timeouts();
    global["idle_stop"] = json!("15s");
    let mut world = with("works", global).await;
    world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    let first = world.fakes();
    let mends = edit("a.fk", "BROKEN two", "two");
    world.works(vec![mends, Reply::text("Done.")]).await;
    assert_eq!((first.len(), world.fakes()), (1, first), "both sessions share one server");
    until_true("the server is stopped", || world.fakes().is_empty()).await;
    let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    assert_eq!(count(&requests[1]), 1, "the server is restarted");
    world.daemon.kill9().await;
    until_true("the server exits with the daemon", || world.fakes().is_empty()).await;
    world.daemon.restart().await;
    let requests = world.works(vec![edit("a.fk", "one", "BROKEN one"), Reply::text("Done.")]).await;
    let result = words(&requests[1]);
    assert!(result.contains("BROKEN one (fake E1)") && !result.contains("BROKEN two (fake E1)"), "{result}");
}

#[tokio::test]
async fn server_has_no_network_and_writes_only_its_own_files() {
    // Servers have no network access, even if commands have.
    let agentd = json!({"sandbox": {"read": [folder()], "network": true}}).to_string();
    let languages = languages(long_timeouts(), fake_server("network"));
    let world = World::with_files(&[("config/agentd.yaml", &agentd), ("config/languages.yaml", &languages)]).await;
    world.write("project/a.fk", "foo\n");
    let call = ("references", json!({"path": "/project/a.fk", "line": 1, "symbol": "foo"}));
    let results = ask(&world, vec![call]).await;
    assert!(results[0].contains("closed-held-written"), "{results:?}");
    assert!(!world.path().join("project/made").exists());
}

#[tokio::test]
async fn without_the_sandbox_no_server_runs() {
    let world = with("works", long_timeouts()).await;
    world.write("config/agentd.yaml", json!({"sandbox": {"mode": "off", "read": [folder()]}}).to_string());
    let mut world = world;
    world.daemon.restart().await;
    let requests = world.works(vec![edit_with_error(), Reply::text("Done.")]).await;
    assert_eq!((count(&requests[1]), world.fakes().len()), (0, 0));
    assert!(world.log().contains("the sandbox is off"), "{}", world.log());
    let results = ask(&world, vec![("diagnostics", json!({"path": "/project/a.fk"}))]).await;
    assert!(results[0].contains("E_TOOL") && results[0].contains("the sandbox is off"), "{results:?}");
}

/// Returns the results of calls to tools that are loaded by a mention.
pub(super) async fn ask(world: &World, calls: Vec<(&'static str, Value)>) -> Vec<String> {
    let names: String = calls.iter().map(|(name, _)| format!("@{name} ")).collect();
    let replies = calls.iter().map(|(name, args)| Reply::tool_call(*name, args.clone())).collect();
    let requests = world.works_at(&format!("{names}please"), replies).await;
    let last = requests.last().unwrap();
    let texts = last.messages().iter().filter(|message| message["role"] == "tool");
    texts.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn code_tools_query_servers_and_a_rename_can_be_undone() {
    let world = with("works", long_timeouts()).await;
    world.write("project/a.fk", "foo = 1\nsay foo\n");
    world.write("project/other.fk", "foo?\nBROKEN\n");
    let at = |line: u32| json!({"path": "/project/a.fk", "line": line, "symbol": "foo"});
    let mut rename = at(1);
    rename["new_name"] = json!("bar");
    let results = ask(
        &world,
        vec![
            ("definition", at(2)),
            ("references", at(2)),
            ("diagnostics", json!({"path": "/project/other.fk"})),
            ("rename_symbol", rename),
            ("definition", json!({"path": "/project/a.fk", "line": 9, "symbol": "foo"})),
            ("definition", json!({"path": "/project/a.txt", "line": 1, "symbol": "foo"})),
        ],
    )
    .await;
    assert!(
        results[0].contains("/project/a.fk:1:1: foo = 1") && results[0].contains("/usr/lib/fake/b.fk:5:1"),
        "{results:?}"
    );
    assert!(results[1].contains("/project/a.fk:2:5: say foo"), "{results:?}");
    assert!(results[2].contains("/project/other.fk:2:1: error: this is broken"), "{results:?}");
    assert!(results[3].contains("/project/a.fk (2 places); /project/other.fk (1 place)"), "{results:?}");
    assert!(results[4].contains("E_TOOL") && results[4].contains("has lines 1 to 2"), "{results:?}");
    assert!(results[5].contains("no language server"), "{results:?}");
    assert_eq!(world.read("project/a.fk"), "bar = 1\nsay bar\n");
    assert_eq!(world.read("project/other.fk"), "bar?\nBROKEN\n");
    world.ok(["undo"]).await;
    assert_eq!(world.read("project/a.fk"), "foo = 1\nsay foo\n");
    assert_eq!(world.read("project/other.fk"), "foo?\nBROKEN\n");
}

#[tokio::test]
async fn diagnostics_reflect_changes_by_other_programs() {
    let world = with("imports", long_timeouts()).await;
    world.write("project/b.fk", "fine\n");
    let diagnostics = async || ask(&world, vec![("diagnostics", json!({"path": "/project/a.fk"}))]).await.remove(0);
    for (text, is_broken) in [("fine\n", false), ("BROKEN\n", true), ("fine again\n", false)] {
        world.write("project/b.fk", text);
        let result = diagnostics().await;
        assert_eq!(result.contains("what it imports is broken"), is_broken, "{text}: {result}");
    }
}

#[tokio::test]
async fn rename_outside_the_project_or_the_rules_changes_nothing() {
    // Git runs hooks, so changing a hook requires more than permission to edit source code.
    for (mode, expected) in [
        ("escapes", "outside the project"),
        ("hooks", "which the rules do not allow"),
        ("wrong", "something other than `foo`"),
    ] {
        let world = with(mode, long_timeouts()).await;
        world.write("project/a.fk", "foo\n");
        world.write("project/other.fk", "foo\n");
        world.write("project/.git/hooks/other.fk", "foo\n");
        let rename = json!({"path": "/project/a.fk", "line": 1, "symbol": "foo", "new_name": "bar"});
        let results = ask(&world, vec![("rename_symbol", rename)]).await;
        assert!(results[0].contains(expected), "{mode}: {results:?}");
        assert!(mode == "wrong" || results[0].contains("nothing was changed"), "{mode}: {results:?}");
        for file in ["project/a.fk", "project/other.fk", "project/.git/hooks/other.fk"] {
            assert_eq!(world.read(file), "foo\n", "{mode}");
        }
    }
}

#[tokio::test]
async fn rename_does_not_report_earlier_errors() {
    let world = with("slow", long_timeouts()).await;
    world.write("project/a.fk", "foo\nBROKEN before\n");
    world.write("project/other.fk", "foo\nBROKEN before\n");
    let rename = json!({"path": "/project/a.fk", "line": 1, "symbol": "foo", "new_name": "bar"});
    let results = ask(&world, vec![("rename_symbol", rename)]).await;
    assert!(results[0].contains("Renamed"), "{results:?}");
    assert_eq!(count(world.model.requests().last().unwrap()), 0, "{}", words(world.model.requests().last().unwrap()));
}

#[tokio::test]
async fn code_tools_are_off_without_a_server() {
    let mut servers = fake_server("works");
    servers["fake"]["command"] = json!("no-such-language-server");
    let world = world(long_timeouts(), servers.clone(), &folder()).await;
    let tier = || async {
        let tools = world.json(["tools"]).await;
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "rename_symbol").unwrap().clone();
        tool["tier"].as_str().unwrap().to_owned()
    };
    assert_eq!(tier().await, "off");
    // A rustup proxy for a program that is not installed does not count.
    let rustup = world.path().join("bin/rustup");
    world.write("bin/rustup", "");
    fs::set_permissions(&rustup, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("rustup", rustup.with_file_name("fake-analyzer")).unwrap();
    servers["fake"]["command"] = json!(rustup.with_file_name("fake-analyzer"));
    world.write("config/languages.yaml", languages(long_timeouts(), servers));
    world.ok(["reload"]).await;
    assert_eq!(tier().await, "off");
    world.agentctl(["doctor"]).await.shows(&["rustup component add fake-analyzer"]);
    world.write("config/languages.yaml", languages(long_timeouts(), fake_server("works")));
    world.ok(["reload"]).await;
    assert_eq!(tier().await, "discovered");
    world.agentctl(["doctor"]).await.shows(&["language servers: fake"]);
    let wrong = json!({"servers": {"fake": {"comand": "x"}}}).to_string();
    world.write("config/languages.yaml", wrong);
    world.agentctl(["reload"]).await.exits(2).says(&["languages.yaml:1:", "did you mean `command`?"]);
}
