//! Direction of dependencies inside crates: each module is on a floor, and may not import from a higher floor.

use std::collections::BTreeMap;

use super::{
    assert_none,
    imports::{import_cycles, imports},
    root,
};

/// Maximum number of files that may import each other in a cycle.
const MAX_CYCLE_FILES: usize = 2;

/// Top-level modules of a crate, lowest floor first. Modules on the same floor do not import each other.
type Floors = &'static [&'static [&'static str]];

const ENGINE: Floors = &[
    &["error"],
    &["catalog", "config", "intent", "state_changes"],
    &["agents", "answer_form", "attachments", "client", "grants", "large_input", "mentions"],
    &["instructions"],
    &["turn"],
    &["links", "recovery"],
    &["session"],
    &["subagent"],
    &["front"],
    &["lib"],
];

const AGENTCTL: Floors = &[
    &["exit", "terminal"],
    &["failure", "flags"],
    &["daemon", "input", "mentions", "model_name", "mount", "report"],
    &["composer"],
    &["keyboard"],
    &["project", "session", "turn"],
    &["render"],
    &["ops"],
    &["repl"],
    &["acp"],
    &["cmd"],
    &["args"],
    &["main"],
];

const AGENTD: Floors = &[
    &["code", "embedded", "environment", "health", "model_keys", "model_test", "redact"],
    &["config", "replay"],
    &["documents", "failure", "retention", "toolbox"],
    &["archives", "footprint", "lock", "logging", "models", "paths", "service"],
    &["audit", "listener", "skills"],
    &["sandbox"],
    &["boot"],
    &["control"],
    &["rpc"],
    &["app"],
    &["start"],
];

const CODE: Floors = &[
    &["language", "terms", "text"],
    &["tags"],
    &["source"],
    &["index"],
    &["symbols", "walk"],
    &["map", "search"],
    &["folder"],
    &["worker"],
];

const CORE: Floors = &[
    &[
        "answer_schema",
        "charset",
        "client_file",
        "code",
        "counters",
        "embedding",
        "environment",
        "error",
        "guarded",
        "guide",
        "ids",
        "knowledge",
        "language",
        "names",
        "policy",
        "routing",
        "storage",
        "surroundings",
        "untrusted",
        "usage",
        "web",
    ],
    &["context", "exchange", "folder", "grant", "origin", "path", "state_files", "visible", "worktree"],
    &["files", "import_origin", "interrupt"],
    &["input", "tool"],
    &["catalogue", "client_tool", "item", "model", "tool_table", "undo"],
    &["agent", "search", "spending", "turn"],
    &["project", "settings"],
    &["archive", "audit", "event", "plugin"],
    &["session"],
    &["ports"],
];

const INDEX: Floors = &[
    &["analyze", "kind", "lib"],
    &["failure"],
    &["document", "recognition"],
    &["chunk", "frame"],
    &["extract", "index"],
    &["search", "worker"],
    &["handle", "picture"],
    &["library"],
];

const MODELS: Floors =
    &[&["key"], &["config", "lib"], &["http"], &["answer", "embeddings", "facts"], &["wire"], &["call"], &["router"]];

const POLICY: Floors =
    &[&["file", "lib", "opinion"], &["command", "rules"], &["checker"], &["grants"], &["judge"], &["grant_check"]];

const STORE: Floors = &[
    &["codec", "lib"],
    &["damage", "mark", "projection", "usage"],
    &["sessions"],
    &["events", "interrupts", "upkeep"],
    &["append", "past_state", "search"],
    &["draft"],
    &["change", "open"],
    &["import", "writer"],
    &["reader"],
    &["store"],
];

const PROTO: Floors = &[&["lib", "socket"], &["start_variables"], &["view"], &["convert"], &["status"], &["client"]];

const WORKSPACE: Floors = &[
    &["code_map", "failure", "limits", "private", "text"],
    &["exact"],
    &["drafts", "path"],
    &["encoding", "hard_links", "jail"],
    &["diff", "layout", "remove", "suggestions", "target"],
    &["backend", "stored_files", "transport"],
    &["browse", "job", "snapshots"],
    &["walk"],
    &["documents"],
];

const SANDBOX: Floors = &[
    &["config", "repository", "secrets"],
    &["gateway", "places"],
    &["environment", "hints"],
    &["extra_reads"],
    &["helper", "host"],
    &["process"],
];

const WORKTREES: Floors = &[&["record"], &["git"], &["lib"], &["create"], &["changes"], &["merge"], &["remove"]];

const EXTENSIONS: Floors = &[&["files", "surroundings"], &["project"], &["plugins"], &["skills"], &["guides"]];

const TOOLS: Floors = &[&["arguments", "mount", "patch"], &["builtin", "folders"], &["toolbox"]];

const LOCAL: Floors =
    &[&["config", "error"], &["gguf"], &["llama", "vocabulary"], &["harness", "inference"], &["worker"], &["model"]];

const MCP: Floors = &[
    &["answer", "calls", "guard", "http_client", "schema", "variables"],
    &["catalogue", "config", "reason"],
    &["log", "published_tools"],
    &["elicitation", "login"],
    &["sampling"],
    &["server"],
    &["connections"],
    &["pool"],
    &["session", "toolbox"],
];

/// All checked crates with their floors.
const CRATES: [(&str, Floors); 17] = [
    ("agentctl", AGENTCTL),
    ("agentd", AGENTD),
    ("crates/code", CODE),
    ("crates/core", CORE),
    ("crates/engine", ENGINE),
    ("crates/extensions", EXTENSIONS),
    ("crates/index", INDEX),
    ("crates/local", LOCAL),
    ("crates/mcp", MCP),
    ("crates/models", MODELS),
    ("crates/policy", POLICY),
    ("crates/sandbox", SANDBOX),
    ("crates/store", STORE),
    ("crates/tools", TOOLS),
    ("crates/workspace", WORKSPACE),
    ("crates/worktrees", WORKTREES),
    ("proto", PROTO),
];

/// Returns the top-level module of a file: the file's folder below the sources, or its own name.
fn top_module(file: &str) -> &str {
    file.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

fn upward_imports(krate: &str, floors: Floors) -> Vec<String> {
    let floor: BTreeMap<&str, usize> =
        floors.iter().enumerate().flat_map(|(floor, rooms)| rooms.iter().map(move |room| (*room, floor))).collect();
    let mut offences = Vec::new();
    for import in imports(&root().join(krate).join("src")) {
        let (from, to) = (top_module(&import.from), top_module(&import.to));
        if from == to {
            continue;
        }
        match (floor.get(from), floor.get(to)) {
            (Some(above), Some(below)) if above > below => {}
            (Some(_), Some(_)) => {
                offences.push(format!("{krate}: {} imports {} ({})", import.from, import.to, import.name))
            }
            _ => offences.push(format!("{krate}: {} or {} has no floor", import.from, import.to)),
        }
    }
    offences
}

#[test]
fn imports_never_go_up_a_floor() {
    assert_none(
        "a module imports only from lower floors",
        CRATES.iter().flat_map(|(krate, floors)| upward_imports(krate, floors)).collect(),
    );
}

#[test]
fn files_do_not_import_each_other_in_cycles() {
    let mut offences = Vec::new();
    for (krate, _) in CRATES {
        let imports = imports(&root().join(krate).join("src"));
        let large = import_cycles(&imports).into_iter().filter(|cycle| cycle.len() > MAX_CYCLE_FILES);
        offences.extend(large.map(|cycle| format!("{krate}: {}", cycle.join(", "))));
    }
    assert_none("an import cycle has at most two files", offences);
}
