//! Tests for the map.

use agentd_code::CodeFolder;
use agentd_core::code::MapFile;

use super::{indexed, project};

fn render_map(code: &CodeFolder, max_tokens: usize) -> String {
    MapFile::render(&code.map(max_tokens))
}

/// Creates a project with a core that all files use and a leaf that no file uses.
fn sample() -> tempfile::TempDir {
    let mut files = vec![
        ("core/engine.rs".to_owned(), "pub struct EngineCore;\n\npub fn start_engine() {}\n".to_owned()),
        ("core/events.rs".to_owned(), "pub enum EventKind { A }\n".to_owned()),
        ("leaf.rs".to_owned(), "fn lonely_leaf() { start_engine(); }\n".to_owned()),
        ("paint.rs".to_owned(), "pub fn paint_canvas() {}\n".to_owned()),
        ("brush.rs".to_owned(), "fn stroke_brush() { paint_canvas(); paint_canvas(); }\n".to_owned()),
    ];
    for n in 0..12 {
        files.push((
            format!("user{n}.rs"),
            format!("fn user_{n}(core: EngineCore, kind: EventKind) {{ start_engine(); }}\n"),
        ));
    }
    project(&files)
}

#[test]
fn most_used_files_come_first() {
    let folder = sample();
    let code = indexed(folder.path());
    let map = render_map(&code, 100);
    assert!(
        map.starts_with("core/engine.rs:\n    1  pub struct EngineCore;\n    3  pub fn start_engine() {}\n"),
        "{map}"
    );
    assert!(map.contains("core/events.rs:\n    1  pub enum EventKind { A }\n"), "{map}");
    assert!(!map.contains("lonely_leaf"), "{map}");
}

#[test]
fn map_fits_its_token_budget() {
    let folder = sample();
    let code = indexed(folder.path());
    let mut before = 0;
    for tokens in [0, 1, 5, 10, 20, 40, 80, 1000] {
        let map = render_map(&code, tokens);
        assert!(map.len() <= tokens * 4, "{tokens}: {map}");
        assert!(map.len() >= before, "a larger budget never shrinks the map");
        before = map.len();
    }
    assert!(before > 0);
}

#[test]
fn std_method_names_do_not_raise_the_rank() {
    let mut files = vec![
        (
            "odd.rs".to_owned(),
            "pub struct OddMatcher;\nimpl OddMatcher {\n    fn starts_with(&self) {}\n}\n".to_owned(),
        ),
        ("near.py".to_owned(), "class EngineCore: pass\n".to_owned()),
        ("core.rs".to_owned(), "pub struct EngineCore;\n".to_owned()),
    ];
    for n in 0..12 {
        files.push((format!("user{n}.rs"), format!("fn user_{n}(core: &EngineCore) {{ name.starts_with(x); }}\n")));
    }
    let folder = project(&files);
    let map = render_map(&indexed(folder.path()), 200);
    assert!(map.starts_with("core.rs:\n    1  pub struct EngineCore;\n"), "{map}");
    assert!(!map.contains("near.py"), "uses in another language do not count: {map}");
}

#[test]
fn map_is_not_filled_by_one_group() {
    let mut files = Vec::new();
    for n in 0..30 {
        files.push((format!("core/part{n}.rs"), format!("pub struct CorePart{n};\n")));
        files.push((
            format!("users/user{n}.rs"),
            format!("fn user_{n}(a: CorePart{n}, b: CorePart{}) {{}}\n", (n + 1) % 30),
        ));
    }
    files.push(("shop/cart.rs".to_owned(), "pub struct ShoppingCart;\n".to_owned()));
    files.push(("web/page.rs".to_owned(), "fn page(cart: ShoppingCart) {}\n".to_owned()));
    let folder = project(&files);
    let map = render_map(&indexed(folder.path()), 120);
    assert!(map.contains("core/part") && map.contains("shop/cart.rs"), "{map}");
}
