use super::*;
use crate::{
    calls::tests::http,
    catalogue::KnownTool,
    config::{ToolDefaults, ToolSetting},
};

fn server(tools: &[(&str, ToolSetting)]) -> ServerConfig {
    let tools = tools.iter().map(|(name, setting)| ((*name).to_owned(), setting.clone())).collect();
    ServerConfig { tools, ..ServerConfig::new(http("http://x/")) }
}

fn config(servers: &[(&str, &ServerConfig)]) -> McpConfig {
    let servers = servers.iter().map(|(name, server)| ((*name).to_owned(), (*server).clone())).collect();
    McpConfig { servers, ..McpConfig::default() }
}

fn known(server: &ServerConfig, tools: &[&str]) -> Catalogue {
    let tools = tools.iter().map(|name| KnownTool { name: (*name).to_owned(), ..KnownTool::default() }).collect();
    Catalogue { fingerprint: server.fingerprint(), tools, ..Catalogue::default() }
}

fn names(published: &PublishedTools) -> Vec<&str> {
    published.specs.iter().map(|spec| spec.name.as_str()).collect()
}

fn with_alias(alias: &str) -> ToolSetting {
    ToolSetting { alias: Some(alias.to_owned()), ..ToolSetting::default() }
}

#[test]
fn published_names_are_unique_and_never_builtin() {
    let off = ToolSetting { enabled: Some(false), ..ToolSetting::default() };
    let one = server(&[("a", with_alias("grep")), ("b", with_alias("mine")), ("off", off), ("gone", with_alias("x"))]);
    let second_server = server(&[("c", with_alias("mine")), ("d", with_alias("not fit"))]);
    let catalogues = BTreeMap::from([
        ("s".to_owned(), known(&one, &["a", "b", "off", "x.y", "x/y"])),
        ("t".to_owned(), known(&second_server, &["c", "d"])),
    ]);
    let published = publish(&config(&[("s", &one), ("t", &second_server)]), &catalogues, &|name| name == "grep");
    let expected = ["mcp_s_a", "mcp_s_b", "mcp_s_x_y_b24ca9b7", "mcp_s_x_y_bd3c9047", "mcp_t_c", "mcp_t_d"];
    assert_eq!(names(&published), expected);
    let expected = [
        "the alias `grep` is taken; `a` is called `mcp_s_a`",
        "the alias `mine` is given to several tools; `b` is called `mcp_s_b`",
        "the configuration names a tool `gone` that the server does not have",
        "the alias `mine` is given to several tools; `c` is called `mcp_t_c`",
        "the alias `not fit` cannot be used: a name can have only ASCII letters, digits, `_` and `-`, at most 64; \
         `d` is called `mcp_t_d`",
    ];
    assert!(published.notes.iter().map(|(_, note)| note.as_str()).eq(expected), "{:#?}", published.notes);
}

#[test]
fn tool_names_do_not_depend_on_other_servers() {
    let there = server(&[]);
    let owners = |catalogues: &[(&str, &[&str])]| -> BTreeMap<String, String> {
        let config = config(&["g", "g_d", "g-d"].map(|name| (name, &there)));
        let known = catalogues.iter().map(|(name, tools)| ((*name).to_owned(), known(&there, tools)));
        let published = publish(&config, &known.collect(), &|_| false);
        published.routes.into_iter().map(|(name, route)| (name, route.server)).collect()
    };
    let alone = owners(&[("g_d", &["read", "_read"])]);
    let greedy = ["d_read", "d__read", "_d_read", "_d__read", "d___read", "d_", "_d", "read"];
    let together = owners(&[("g", &greedy), ("g_d", &["read", "_read"]), ("g-d", &greedy)]);
    assert_eq!(together.len(), 2 * greedy.len() + 2, "{together:?}");
    for (name, server) in alone {
        assert_eq!(together[&name], server, "{name}");
    }
    let gone = owners(&[("g", &greedy), ("g-d", &greedy)]);
    assert!(gone.iter().all(|(name, server)| together[name] == *server), "{gone:?}");
}

#[test]
fn alias_cannot_look_like_a_generated_name() {
    let named = |alias: &str, others: &[&str]| {
        let (one, other) = (server(&[("a", with_alias(alias))]), server(&[]));
        let others = others.iter().map(|name| (*name, &other));
        let config = config(&[("s", &one)].into_iter().chain(others).collect::<Vec<_>>());
        let published = publish(&config, &BTreeMap::from([("s".to_owned(), known(&one, &["a"]))]), &|_| false);
        let note = published.notes.first().map(|(_, note)| note.clone()).unwrap_or_default();
        (names(&published)[0].to_owned(), note)
    };
    assert_eq!(named("mcp_echo", &["t"]), ("mcp_echo".to_owned(), String::new()));
    for (alias, others) in [("mcp_t_c", &["t"][..]), ("mcp_s_b", &[])] {
        let (name, note) = named(alias, others);
        assert!(name == "mcp_s_a" && note.contains("prefix of a server's tools"), "{name}: {note}");
    }
}

#[test]
fn server_defaults_apply_to_its_tools() {
    let writing_tool =
        ToolSetting { always_available: Some(true), effect: Some(Effect::Write), ..ToolSetting::default() };
    let mut quiet = server(&[("b", writing_tool)]);
    quiet.defaults = ToolDefaults { always_available: Some(false), effect: Some(Effect::Read) };
    quiet.grants = ToolGrants::Some(["a".to_owned(), "gone".to_owned()].into());
    let open = server(&[("x.y", with_alias("short"))]);
    let broken = [("z".to_owned(), "no".to_owned())].into();
    let config = McpConfig { broken, offered_tools: 2, ..config(&[("q", &quiet), ("o", &open)]) };
    let about = "Is quiet.\nObey.".to_owned();
    let catalogues = BTreeMap::from([
        ("q".to_owned(), Catalogue { about, ..known(&quiet, &["a", "b", "c"]) }),
        ("o".to_owned(), known(&open, &["x.y", "z"])),
    ]);
    let published = publish(&config, &catalogues, &|_| false);
    let effects: Vec<Effect> = published.specs.iter().map(|spec| spec.effect).collect();
    assert_eq!(names(&published), ["mcp_o_z", "mcp_q_a", "mcp_q_b", "mcp_q_c", "short"]);
    assert_eq!(effects, [Effect::Execute, Effect::Read, Effect::Write, Effect::Read, Effect::Execute]);
    assert_eq!(published.always, BTreeSet::from(["mcp_q_b".to_owned()]));
    assert_eq!(published.offered, BTreeSet::from(["mcp_o_z".to_owned(), "short".to_owned()]));
    let granted: Vec<&str> = names(&published).into_iter().filter(|name| published.foreign[*name].granted).collect();
    assert_eq!(granted, ["mcp_q_a"]);
    let short = &published.foreign["short"];
    assert_eq!((short.tool.as_str(), short.server_rule.as_str()), ("x.y", "mcp_o_*"));
    assert!(short.rule.starts_with("mcp_o_x_y_"), "{short:?}");
    let servers: Vec<_> = published.servers.iter().map(|card| (&*card.name, &*card.about, card.is_broken)).collect();
    assert_eq!(servers, [("o", "", false), ("q", "Is quiet.", false), ("z", "", true)]);
    assert_eq!(published.notes.len(), 1, "{:?}", published.notes);
    let none = publish(&McpConfig { offered_tools: 1, ..config }, &catalogues, &|_| false);
    assert!(none.offered.is_empty() && none.notes.iter().any(|(of, note)| of == "o" && note.contains("@o loads")));
}

#[test]
fn resources_and_prompts_are_published_as_tools() {
    let there = server(&[]);
    let offered = Catalogue { resources: true, prompts: true, ..known(&there, &["list_prompts"]) };
    let published = publish(&config(&[("s", &there)]), &BTreeMap::from([("s".to_owned(), offered)]), &|_| false);
    let expected = ["mcp_s_get_prompt", "mcp_s_list_prompts", "mcp_s_list_resources", "mcp_s_read_resource"];
    assert_eq!(names(&published), expected);
    assert_eq!(published.routes["mcp_s_list_prompts"].target, ToolTarget::Tool("list_prompts".to_owned()));
    assert!(published.specs.iter().all(|spec| spec.effect == Effect::Execute));
    assert_eq!(published.notes.len(), 1);
}

fn offers(servers: &[(&str, usize, usize)]) -> BTreeMap<String, OpenTools> {
    let mut offers = BTreeMap::<String, OpenTools>::new();
    for (server, tools, bytes) in servers {
        for number in 0..*tools {
            let name = format!("{server}{number}");
            let (description, parameters) = ("x".repeat(*bytes), serde_json::json!({}));
            let spec = ToolSpec { name, description, parameters, effect: Effect::Execute };
            offers.entry((*server).to_owned()).or_default().add(&spec);
        }
    }
    offers
}

#[test]
fn largest_servers_are_not_offered_over_the_limit() {
    let check = |servers: &[(&str, usize, usize)], expected: &[&str]| {
        let offered = within_limits(offers(servers), 30);
        let servers_offered: BTreeSet<&str> =
            offered.iter().map(|name| name.trim_end_matches(|c: char| c.is_numeric())).collect();
        assert_eq!(servers_offered.into_iter().collect::<Vec<_>>(), expected, "{servers:?}");
    };
    check(&[("a", 30, 0)], &["a"]);
    check(&[("a", 31, 0)], &[]);
    check(&[("a", 20, 0), ("b", 15, 0), ("c", 3, 0)], &["b", "c"]);
    check(&[("a", 16, 0), ("b", 16, 0), ("c", 14, 0)], &["a", "c"]);
    // A few tools can be as large as many small ones.
    check(&[("a", 2, 40_000), ("b", 20, 100)], &["b"]);
    assert!(within_limits(offers(&[("a", 1, 0)]), 0).is_empty());
}
