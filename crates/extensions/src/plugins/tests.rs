use std::fs;

use agentd_core::{error::ErrorKind, project::ProjectChangeKind};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn inspect(files: &[(&str, &str)]) -> Result<LoadedPlugin, String> {
    let folder = folder(files);
    LoadedPlugin::of(&Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap(), "fallback")
}

fn store(data_folder: &Path) -> PluginStore {
    PluginStore::new(data_folder.join("plugins"), data_folder.join("plugin_data"))
}

const PIE: (&str, &str) = ("skills/pie/SKILL.md", "---\nname: pie\ndescription: Pies\n---\nBake.\n");

#[test]
fn plugin_layouts_of_other_systems_are_read() {
    #[track_caller]
    fn check(files: &[(&str, &str)], name: &str, skills: &[&str], agents: &[&str], commands: &[&str]) {
        let loaded = inspect(files).unwrap();
        assert_eq!(loaded.manifest.name, name);
        let names: Vec<&str> = loaded.parts.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, skills, "{:?}", loaded.parts.problems);
        let names: Vec<&str> = loaded.parts.agents.iter().map(|card| card.id.as_str()).collect();
        assert_eq!(names, agents, "{:?}", loaded.parts.problems);
        let names: Vec<&str> = loaded.parts.commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, commands, "{:?}", loaded.parts.problems);
    }
    let agent = "---\nname: cook\ndescription: Cooks\n---\nYou cook.\n";
    check(&[("plugin.json", r#"{"name": "kit"}"#), PIE], "kit", &["pie"], &[], &[]);
    check(
        &[(".claude-plugin/plugin.json", r#"{"name": "kit"}"#), PIE, ("agents/a.md", agent)],
        "kit",
        &["pie"],
        &["cook"],
        &[],
    );
    check(&[PIE], "fallback", &["pie"], &[], &[]);
    let both = [("plugin.json", r#"{"name": "one"}"#), (".plugin/plugin.json", r#"{"name": "two"}"#), PIE];
    check(&both, "one", &["pie"], &[], &[]);
    let outside_manifest =
        r#"{"name": "kit", "skills": ["./extra/", "./lone"], "agents": "./who/cook.md", "commands": ["cmd"]}"#;
    let files = [
        ("plugin.json", outside_manifest),
        PIE,
        ("extra/cake/SKILL.md", "---\ndescription: Cakes\n---\n"),
        ("lone/SKILL.md", "---\ndescription: Alone\n---\n"),
        ("who/cook.md", agent),
        ("agents/other.md", agent),
        ("cmd/ship.md", "Ship it."),
        ("cmd/README.md", "Commands"),
        ("cmd/deep/not.md", "No."),
        ("commands/old.md", "Old."),
    ];
    check(&files, "kit", &["pie", "cake", "lone"], &["cook"], &["ship"]);
}

#[test]
fn plugin_servers_run_as_declared_without_trust() {
    let servers = json!({"mcpServers": {
        "a": {"command": "./bin/run", "args": ["./conf.json", "./none", "${CLAUDE_PLUGIN_ROOT}/x", "--k=${env:KEY}"],
              "env": {"HERE": "${PLUGIN_DATA}"}, "grants": "*", "tools": {"t": {"effect": "read"}}, "timeout": 5},
        "b b": {"type": "sse", "url": "https://example.org/${PLACE:-x}", "headers": {"A": "Bearer ${TOKEN}"}}}});
    let files = [("mcp.json", servers.to_string()), ("conf.json", "{}".to_owned())];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let loaded = inspect(&files).unwrap();
    let [a, b] = loaded.parts.servers.as_slice() else { panic!("{:?}", loaded.parts) };
    let config_entry = a.config_entry("/root", "/data");
    assert_eq!(config_entry["command"], "/root/bin/run");
    assert_eq!(config_entry["args"], json!(["/root/conf.json", "./none", "/root/x", "--k=${KEY}"]));
    assert_eq!((&config_entry["cwd"], &config_entry["env"]["HERE"]), (&json!("/data"), &json!("/data")));
    assert_eq!(
        (&config_entry["env"]["PLUGIN_ROOT"], config_entry.get("grants"), config_entry.get("tools")),
        (&json!("/root"), None, None)
    );
    assert_eq!(a.summary().reads, ["KEY"]);
    assert_eq!(
        (a.summary().command[0].as_str(), a.summary().sets),
        ("${PLUGIN_ROOT}/bin/run", vec!["HERE".to_owned()])
    );
    assert_eq!(
        (b.name.as_str(), b.summary().reads, b.summary().sets),
        ("b-b", vec!["PLACE".into(), "TOKEN".into()], vec!["A".into()])
    );
    assert_eq!(b.config_entry("/root", "/data")["connection_mode"], "sse");
}

#[test]
fn invalid_plugin_servers_are_skipped() {
    #[track_caller]
    fn check(server: Value, part: &str) {
        let servers = json!({"bad": server, "good": {"command": "x"}}).to_string();
        let loaded = inspect(&[(".mcp.json", &servers)]).unwrap();
        let names: Vec<&str> = loaded.parts.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert!(
            loaded.parts.problems.iter().any(|problem| problem.message.contains(part)),
            "{:?}",
            loaded.parts.problems
        );
    }
    check(json!(5), "not an object");
    check(json!({}), "neither a command nor an address");
    check(json!({"command": "x", "url": "https://x/"}), "one of them");
    check(json!({"command": "x", "disabled": true}), "disabled");
    check(json!({"command": "../x"}), "leads out");
    check(json!({"command": "x", "args": ["${PLUGIN_ROOT}/../y"]}), "leads out");
    check(json!({"command": "x", "cwd": "../y"}), "leads out");
    check(json!({"command": "x\u{1b}[2J"}), "control characters");
    // Private-use characters that mark client variables.
    check(json!({"command": "x", "env": {"A": "\u{f0a91}HOME\u{f0a92}"}}), "control characters");
    check(json!({"command": "x", "args": ["${user_config.key}"]}), "is not supported");
    check(json!({"command": "x", "args": vec!["y"; 101]}), "more than 100");
}

#[test]
fn plugin_is_bound_to_its_files() {
    let data_folder = tempfile::tempdir().unwrap();
    let from = folder(&[("plugin.json", r#"{"name": "kit", "version": "1"}"#), PIE]);
    let plugins = store(data_folder.path());
    let inspected = plugins.inspect(from.path()).unwrap();
    assert_eq!(inspected.state, PluginState::New);
    let wrong = plugins.add(from.path(), &"0".repeat(64), "here", "test").unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Conflict);
    let added = plugins.add(from.path(), &inspected.hash, "here", "test").unwrap();
    assert_eq!((added.state, added.hash.as_str()), (PluginState::Installed, inspected.hash.as_str()));
    assert!(plugins.check("kit").is_ok() && plugins.check("missing").is_err());
    assert_eq!(plugins.inspect(from.path()).unwrap().state, PluginState::Installed);

    // Uses another store on the same folder, as after a restart.
    assert!(store(data_folder.path()).refresh()[0].is_used());
    for (path, text, kind) in [
        ("skills/pie/SKILL.md", "---\nname: pie\ndescription: Other\n---\n", ProjectChangeKind::Changed),
        ("skills/pie/new.txt", "new", ProjectChangeKind::Added),
    ] {
        let path = added.folder.join(path);
        let before = fs::read(&path).ok();
        fs::write(&path, text).unwrap();
        assert!(plugins.check("kit").is_err());
        let changed = plugins.refresh()[0].clone();
        assert!(!changed.is_used());
        assert_eq!((changed.report.changes.len(), changed.report.changes[0].kind), (1, kind));
        match before {
            Some(before) => fs::write(&path, before).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        assert!(
            plugins.check("kit").is_ok() && plugins.refresh()[0].is_used(),
            "restored files match the agreement again"
        );
    }
    fs::remove_file(added.folder.join("plugin.json")).unwrap();
    assert!(plugins.check("kit").is_err(), "a removed file counts as a change");
    fs::remove_dir_all(&added.folder).unwrap();
    assert!(plugins.check("kit").is_err() && !plugins.refresh()[0].is_used());
    assert!(plugins.remove("kit").unwrap().is_some() && plugins.remove("kit").unwrap().is_none());
    assert!(plugins.refresh().is_empty());
}

#[test]
fn unreadable_plugin_list_disables_plugins_without_removal() {
    let data_folder = tempfile::tempdir().unwrap();
    let from = folder(&[("plugin.json", r#"{"name": "kit"}"#), PIE]);
    let plugins = store(data_folder.path());
    let inspected = plugins.inspect(from.path()).unwrap();
    let added = plugins.add(from.path(), &inspected.hash, "here", "test").unwrap();
    let list = data_folder.path().join("plugins/installed.json");
    let text = fs::read(&list).unwrap();
    fs::write(&list, "{").unwrap();
    assert!(plugins.refresh().is_empty() && plugins.check(&added.name).is_err());
    assert_eq!(plugins.add(from.path(), &inspected.hash, "here", "test").unwrap_err().kind(), ErrorKind::Storage);
    assert!(added.folder.is_dir());
    fs::write(&list, text).unwrap();
    assert!(plugins.refresh()[0].is_used());
}

proptest! {
    #[test]
    fn manifest_paths_never_leave_the_plugin(path in r"[./a-z~\\]{0,20}") {
        if let Ok(inner) = manifest::inner_path(&path) {
            prop_assert!(!inner.starts_with('/') && inner.split('/').all(|part| part != ".." && part != "."));
            let joined = Path::new("/root").join(&inner);
            prop_assert!(joined.starts_with("/root"), "{path} became {inner}");
        }
    }

    #[test]
    fn any_manifest_is_read_or_rejected(text in ".{0,200}", servers in ".{0,200}") {
        let _ = inspect(&[("plugin.json", &text), ("mcp.json", &servers), PIE]);
    }
}
