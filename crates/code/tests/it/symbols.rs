//! Tests for symbols and outlines.

use super::{indexed, project};

const PROJECT: [(&str, &str); 4] = [
    (
        "a.rs",
        "pub struct Meter {\n    count: u64,\n}\nimpl Meter {\n    pub fn read(&self) -> u64 { self.count }\n}\npub fn read() {}\n",
    ),
    (
        "b.rs",
        "use crate::a::Meter;\nfn run(meter: &Meter) {\n    meter.read();\n    // Meters are not a Meter.\n    let meters = Metering;\n}\n",
    ),
    ("c.py", "class Reader:\n    def read(self): pass\n"),
    ("d/e.py", "def outer():\n    def inner(): pass\n"),
];

#[test]
fn definitions_and_references_are_found() {
    let folder = project(&PROJECT);
    let code = indexed(folder.path());
    let found = code.find_symbol("Meter", "");
    let definitions: Vec<(&str, u32, &str)> =
        found.definitions.iter().map(|it| (it.at.path.as_str(), it.at.line, it.at.text.as_str())).collect();
    assert_eq!(definitions, [("a.rs", 1, "pub struct Meter {")]);
    let references: Vec<(&str, u32)> = found.references.iter().map(|it| (it.at.path.as_str(), it.at.line)).collect();
    assert_eq!(references, [("b.rs", 1), ("b.rs", 2), ("b.rs", 4), ("a.rs", 4)]);
    assert!(!found.is_truncated);
    assert_eq!(code.find_symbol("Nothing", ""), agentd_core::code::SymbolLocations::default());
}

#[test]
fn qualified_symbol_prefers_its_owner() {
    let folder = project(&PROJECT);
    let code = indexed(folder.path());
    let first = |name: &str| {
        let found = code.find_symbol(name, "");
        let first = &found.definitions[0];
        (first.at.path.clone(), first.at.line)
    };
    assert_eq!(first("Meter::read"), ("a.rs".to_owned(), 5));
    assert_eq!(first("Reader.read"), ("c.py".to_owned(), 2));
    assert_eq!(first("read"), ("a.rs".to_owned(), 7));
    assert_eq!(code.find_symbol("read", "").definitions.len(), 3);
}

#[test]
fn outline_lists_a_file_or_folder() {
    let folder = project(&PROJECT);
    let code = indexed(folder.path());
    let outline = |path: &str| -> Vec<String> {
        let entries = code.outline(path);
        entries.iter().map(|it| format!("{}{} {}", " ".repeat(it.depth as usize), it.kind.as_str(), it.name)).collect()
    };
    assert_eq!(outline("a.rs"), ["struct Meter", "impl Meter", " method read", "function read"]);
    assert_eq!(outline("d"), ["function outer", " function inner"]);
    assert_eq!(outline("d/"), outline("d/e.py"));
    assert_eq!(outline("").len(), 9);
    assert!(outline("a").is_empty() && outline("nowhere.rs").is_empty());
}

#[test]
fn items_in_macros_are_found_except_in_dsl_macros() {
    let text = "cfg_rt! {\n    /// Runs it.\n    pub fn spawn() { join(); }\n    cfg_net! {\n        pub struct Socket;\n        \
                impl Socket { pub fn bind(&self) {} }\n    }\n}\nimpl Runtime {\n    cfg_time! { pub fn sleep(&self) {} }\n}\n\
                mod inner { thread_local! { static DEPTH: u32 = 0; } }\nbitflags! { struct Flags: u32 { const ALL = 1; } }\n\
                fn user() { spawn(); select! { fn hidden() {} } }\npub fn \u{e9}nd() {}\n";
    let folder = project(&[("rt.rs", text)]);
    let code = indexed(folder.path());
    let found = |name: &str| -> Vec<(u32, String)> {
        let found = code.find_symbol(name, "");
        found.definitions.iter().map(|it| (it.at.line, it.at.text.clone())).collect()
    };
    for (name, line) in [("spawn", 3), ("Socket", 5), ("Socket::bind", 6), ("Runtime::sleep", 10), ("DEPTH", 12)] {
        assert_eq!(found(name).first().map(|(line, _)| *line), Some(line), "{name}");
    }
    assert_eq!(found("\u{e9}nd"), [(15, "pub fn \u{e9}nd() {}".to_owned())]);
    assert!(found("Flags").is_empty() && found("hidden").is_empty());
    assert_eq!(code.find_symbol("spawn", "").references.iter().map(|it| it.at.line).collect::<Vec<_>>(), [14]);
}
