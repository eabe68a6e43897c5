//! Architectural rules (see ARCHITECTURE.md) that can be checked automatically.

mod english;
mod floors;
mod imports;
mod protocol;
mod weight;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Maximum number of lines in a file, not counting its unit tests.
const MAX_LINES: usize = 500;
/// Exclusive upper bound of the median number of lines in a file.
const MEDIAN_LINES: usize = 240;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.starts_with("tests/")
            || self.path.ends_with("tests.rs")
            || self.path.contains("/examples/")
    }

    /// Returns the text without the unit tests at its end.
    fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default()
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

fn files(ending: &str) -> Vec<Source> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .map(|path| Source {
            text: fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            path: path.strip_prefix(&root).unwrap().to_string_lossy().into_owned(),
        })
        .collect()
}

fn product() -> Vec<Source> {
    files(".rs").into_iter().filter(|source| !source.is_test()).collect()
}

/// Fails with a list of all violations.
fn assert_none(law: &str, offences: Vec<String>) {
    assert!(offences.is_empty(), "{law}:\n  {}", offences.join("\n  "));
}

/// Returns the lines of product code that contain any of the phrases, outside comments.
fn mentions(sources: &[Source], phrases: &[&str]) -> Vec<String> {
    let mut offences = Vec::new();
    for source in sources {
        for (number, line) in source.code().lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if phrases.iter().any(|word| line.contains(word)) {
                offences.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    offences
}

#[test]
fn files_stay_below_the_line_limit() {
    let sources = product();
    let large = |source: &&Source| source.code().lines().count() > MAX_LINES;
    assert_none(
        "a file has at most 500 lines",
        sources.iter().filter(large).map(|source| source.path.clone()).collect(),
    );
    let mut lengths: Vec<usize> = sources.iter().map(|source| source.code().lines().count()).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median < MEDIAN_LINES, "half of all files have {median} lines or more");
    let run = sources.iter().find(|source| source.path.ends_with("turn/run.rs")).unwrap();
    assert!(run.code().lines().count() <= 80, "turn/run.rs has at most 80 lines");
}

#[test]
fn modules_open_with_prose() {
    let opens = |source: &Source| source.text.trim_start().starts_with("//!");
    assert_none(
        "a module starts with a `//!` comment",
        product().iter().filter(|s| !opens(s)).map(|s| s.path.clone()).collect(),
    );
}

/// A comment names its item or states what it does. Sentences that open with a question word have to be read twice.
#[test]
fn doc_comments_open_with_a_noun_or_a_verb() {
    let openings = ["What ", "Whether ", "Who ", "How "];
    let mut offences = Vec::new();
    for source in product() {
        for (number, line) in source.code().lines().enumerate() {
            let comment = line.trim_start().strip_prefix("/// ");
            if let Some(comment) = comment
                && openings.iter().any(|word| comment.starts_with(word))
            {
                offences.push(format!("{}:{}: {comment}", source.path, number + 1));
            }
        }
    }
    assert_none("a doc comment starts with a noun or a verb", offences);
}

/// Participles and verbs that do not end in `ed`, listed individually.
const VERB_FORMS: [&str; 28] = [
    "Asking",
    "Begun",
    "Cut",
    "Does",
    "Done",
    "Due",
    "Following",
    "Found",
    "Gone",
    "Heard",
    "Held",
    "Hold",
    "Kept",
    "Known",
    "Learn",
    "Left",
    "Lent",
    "Lost",
    "Made",
    "Meant",
    "Running",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Taken",
    "Told",
    "Undone",
];

/// A type's name is a technical noun or has two words: `Found` was the name of ten different types, and none of these
/// names showed what was found.
#[test]
fn types_are_nouns() {
    let is_verb_form =
        |name: &str| VERB_FORMS.contains(&name) || name.ends_with("ed") && !["Feed", "Need", "Shared"].contains(&name);
    let mut offences = Vec::new();
    for source in product() {
        for line in source.code().lines() {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| ["struct", "enum", "trait", "type"].contains(word));
            let name = at.and_then(|at| words.get(at + 1)).filter(|_| !line.trim_start().starts_with("//"));
            let is_single =
                |name: &&str| name.starts_with(char::is_uppercase) && !name[1..].contains(char::is_uppercase);
            offences.extend(
                name.copied()
                    .filter(is_single)
                    .filter(|name| is_verb_form(name))
                    .map(|name| format!("{}: {name}", source.path)),
            );
        }
    }
    assert_none("a type name is a noun or has two words", offences);
}

/// Workspace crates that each crate may depend on, and libraries that no other crate may use.
const CRATE_DEPENDENCIES: [(&str, &[&str]); 29] = [
    ("crates/core", &[]),
    ("crates/policy", &["agentd-core"]),
    ("crates/context", &["agentd-core"]),
    ("crates/engine", &["agentd-context", "agentd-core", "agentd-policy"]),
    ("crates/exchange", &["agentd-core"]),
    ("crates/http", &["agentd-core"]),
    ("crates/models", &["agentd-core", "agentd-http"]),
    ("crates/local", &["agentd-core"]),
    ("crates/lsp", &["agentd-core"]),
    ("crates/telemetry", &["agentd-core", "agentd-http", "agentd-trace"]),
    ("crates/workspace", &["agentd-core"]),
    ("crates/sandbox", &["agentd-core", "agentd-workspace"]),
    ("crates/worktrees", &["agentd-core", "agentd-sandbox", "agentd-workspace"]),
    ("crates/extensions", &["agentd-core", "agentd-sandbox", "agentd-workspace", "agentd-worktrees"]),
    ("crates/tools", &["agentd-core", "agentd-extensions", "agentd-sandbox", "agentd-workspace", "agentd-worktrees"]),
    ("crates/trace", &["agentd-core"]),
    ("crates/store", &["agentd-core"]),
    ("crates/archive", &["agentd-core"]),
    ("crates/audit", &["agentd-core"]),
    ("crates/replay", &["agentd-core"]),
    ("crates/code", &["agentd-confine", "agentd-core"]),
    ("crates/confine", &[]),
    ("crates/index", &["agentd-confine", "agentd-core", "agentd-ocr"]),
    ("crates/mcp", &["agentd-core", "agentd-http"]),
    ("crates/ocr", &[]),
    ("crates/web", &["agentd-core", "agentd-http"]),
    ("proto", &["agentd-core"]),
    ("agentctl", &["agentd-core", "agentd-proto", "agentd-trace"]),
    (
        "agentd",
        &[
            "agentd-archive",
            "agentd-audit",
            "agentd-code",
            "agentd-context",
            "agentd-core",
            "agentd-engine",
            "agentd-exchange",
            "agentd-extensions",
            "agentd-index",
            "agentd-local",
            "agentd-lsp",
            "agentd-mcp",
            "agentd-models",
            "agentd-policy",
            "agentd-proto",
            "agentd-replay",
            "agentd-sandbox",
            "agentd-store",
            "agentd-telemetry",
            "agentd-tools",
            "agentd-web",
            "agentd-workspace",
            "agentd-worktrees",
        ],
    ),
];

/// Libraries whose types must not leave the named crates.
const CONFINED_LIBRARIES: [(&str, &[&str]); 18] = [
    ("tonic", &["proto", "agentd", "crates/telemetry"]),
    ("prost", &["proto", "agentd", "crates/telemetry"]),
    ("interprocess", &["proto"]),
    ("reqwest", &["crates/http", "crates/mcp", "crates/models", "crates/telemetry", "crates/web"]),
    ("rmcp", &["agentctl", "crates/mcp"]),
    ("rusqlite", &["crates/store"]),
    ("candle-core", &["crates/local"]),
    ("tokenizers", &["crates/local"]),
    ("cap-std", &["crates/extensions", "crates/workspace", "crates/worktrees"]),
    ("hayro-cmap", &["crates/index"]),
    ("hayro-font", &["crates/index"]),
    ("hayro-interpret", &["crates/index"]),
    ("hayro-syntax", &["crates/index"]),
    ("rten", &["crates/ocr"]),
    ("office_oxide", &["crates/index"]),
    ("calamine", &["crates/index"]),
    ("tantivy", &["crates/index"]),
    ("tree-sitter", &["crates/code"]),
];

fn dependencies(folder: &str) -> BTreeMap<String, toml::Value> {
    let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let table = manifest.get("dependencies").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    table.into_iter().collect()
}

#[test]
fn dependencies_point_to_the_core() {
    let mut offences = Vec::new();
    for (folder, allowed) in CRATE_DEPENDENCIES {
        for name in dependencies(folder).keys().filter(|name| name.starts_with("agentd-")) {
            if !allowed.contains(&name.as_str()) {
                offences.push(format!("{folder} depends on {name}"));
            }
        }
        for (library, homes) in CONFINED_LIBRARIES {
            if dependencies(folder).contains_key(library) && !homes.contains(&folder) {
                offences.push(format!("{folder} uses {library}"));
            }
        }
    }
    assert_none("crates depend only on the core, and wire types stay in one crate", offences);
}

#[test]
fn every_crate_takes_its_versions_from_the_workspace() {
    let mut offences = Vec::new();
    for manifest in files("Cargo.toml").iter().filter(|manifest| manifest.path != "Cargo.toml") {
        let table: toml::Table = manifest.text.parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table.get(section).and_then(toml::Value::as_table).into_iter().flatten() {
                let inherits = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                if !inherits {
                    offences.push(format!("{}: {name}", manifest.path));
                }
            }
        }
    }
    assert_none("versions are only in the root manifest", offences);
}

#[test]
fn environment_is_only_read_in_agentd() {
    let below: Vec<Source> = product().into_iter().filter(|source| source.path.starts_with("crates/")).collect();
    assert_none(
        "the environment is only read in agentd/src",
        mentions(&below, &["env::var", "env::vars", "option_env!"]),
    );
}

/// Files of the engine that lock a cache or a record. The lock is held for a single access and never across an await.
const FILES_WITH_LOCKS: [&str; 4] =
    ["engine/src/agents.rs", "context/src/tokens.rs", "context/src/windows.rs", "turn/call_record.rs"];

#[test]
fn engine_has_no_locks_or_globals() {
    let folders = ["crates/engine/", "crates/context/"];
    let engine: Vec<Source> =
        product().into_iter().filter(|source| folders.iter().any(|folder| source.path.starts_with(folder))).collect();
    let (memos, others): (Vec<Source>, Vec<Source>) =
        engine.into_iter().partition(|source| FILES_WITH_LOCKS.iter().any(|memo| source.path.ends_with(memo)));
    let mut offences = mentions(&others, &["Mutex", "RwLock"]);
    let engine: Vec<Source> = memos.into_iter().chain(others).collect();
    offences.extend(mentions(&engine, &["thread_local!", "LazyLock", "static mut"]));
    for source in &engine {
        let is_global = |line: &&str| line.trim_start().trim_start_matches("pub(crate) ").starts_with("static ");
        offences.extend(source.code().lines().filter(is_global).map(|line| format!("{}: {line}", source.path)));
    }
    assert_none("no locks in the engine", offences);
}

#[test]
fn queues_are_bounded() {
    assert_none("queues are bounded", mentions(&product(), &["unbounded_channel", "mpsc::channel()", "unbounded("]));
}

#[test]
fn unsafe_code_has_a_safety_comment() {
    let mut offences = Vec::new();
    for source in product() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl");
            let before = &lines[number.saturating_sub(12)..number];
            if is_unsafe && !before.iter().any(|line| line.contains("SAFETY") || line.contains("# Safety")) {
                offences.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    assert_none("unsafe code has a SAFETY comment", offences);
}

#[test]
fn no_vague_type_or_file_names() {
    let vague = ["Manager", "Helper", "Utils", "Util"];
    let mut offences = Vec::new();
    for source in files(".rs") {
        let name = Path::new(&source.path).file_stem().unwrap().to_string_lossy().into_owned();
        if ["common", "misc", "util", "utils", "helper", "helpers"].contains(&name.as_str()) {
            offences.push(source.path.clone());
        }
        for line in source.text.lines() {
            let mut words = line
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .skip_while(|word| !["struct", "enum", "trait"].contains(word));
            if let Some(name) = words.nth(1).filter(|name| vague.iter().any(|ending| name.ends_with(ending))) {
                offences.push(format!("{}: {name}", source.path));
            }
        }
    }
    assert_none("no Manager, Helper, Utils, common or misc", offences);
}

#[test]
fn sources_contain_no_development_leftovers() {
    // Split in two, so that this file itself does not contain the phrases.
    let phrases = [
        concat!("/wo", "rk/"),
        concat!("shar", "ed/"),
        concat!("TO", "DO:"),
        concat!("TO", "DO("),
        concat!("FIX", "ME"),
        concat!("crates", ".io"),
    ];
    let mut offences = Vec::new();
    for ending in [".rs", ".md", ".proto", ".yaml", ".toml", ".py", ".sql", "Makefile"] {
        for source in files(ending) {
            for (number, line) in source.text.lines().enumerate() {
                if let Some(word) = phrases.iter().find(|word| line.contains(**word)) {
                    offences.push(format!("{}:{}: {word}", source.path, number + 1));
                }
            }
        }
    }
    assert_none("no references to the development process", offences);
}

#[test]
fn no_merge_conflict_markers_remain() {
    let mut offences = Vec::new();
    for ending in [".rs", ".md", ".proto", ".yaml", ".toml", ".py", ".sql", "Makefile"] {
        for source in files(ending) {
            let marks = |line: &str| ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
            let lines = source.text.lines().enumerate().filter(|(_, line)| marks(line));
            offences.extend(lines.map(|(number, _)| format!("{}:{}", source.path, number + 1)));
        }
    }
    assert_none("no merge conflict markers", offences);
}

#[test]
fn architecture_page_names_every_folder() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut rooms: Vec<String> = product()
        .iter()
        .filter_map(|source| Path::new(&source.path).parent().map(|parent| parent.to_string_lossy().into_owned()))
        .collect();
    rooms.sort();
    rooms.dedup();
    let name = |room: &String| room.trim_end_matches("/src").rsplit('/').next().unwrap_or_default().to_owned();
    let missing = rooms.into_iter().filter(|room| !text.contains(&format!("{}/", name(room)))).collect();
    assert_none("ARCHITECTURE.md lists every module", missing);
}
