//! Tests for chunks and tags.

use agentd_code::{Chunk, Parser};
use agentd_core::code::SymbolKind;
use proptest::prelude::*;

/// Checks the definitions in a text. Each line of `expected` is `kind name first-last`.
fn check(path: &str, text: &str, expected: &str) {
    let mut parser = Parser::default();
    let source = parser.parse(path, text);
    let definitions = source.tags.definitions.iter();
    let found = definitions.map(|it| format!("{} {} {}-{}", it.kind.as_str(), it.name, it.first_line, it.last_line));
    assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{path}");
}

#[test]
fn definitions_are_found_in_every_language() {
    check(
        "a.rs",
        "mod m {\n  pub struct S<T>(T);\n}\nimpl<T> m::S<T> {\n  fn get(&self) {}\n}\ntrait R { fn x(); }\nconst K: u8 = 1;\nmacro_rules! w { () => {} }\nenum E { A }\ntype Y = E;\nmod other;\n",
        "module m 1-3, struct S 2-2, impl S 4-6, method get 5-5, interface R 7-7, method x 7-7, constant K 8-8, \
         macro w 9-9, enum E 10-10, type Y 11-11",
    );
    check(
        "a.py",
        "LIMIT = 3\nclass A(B):\n    x = 1\n    @property\n    def get(self):\n        y = 2\ndef free(): pass\n",
        "constant LIMIT 1-1, class A 2-6, constant x 3-3, method get 5-6, function free 7-7",
    );
    check(
        "a.js",
        "export const f = () => { const inner = 1; };\nclass A { m() {} }\napp.use = function use() {};\nfunction* g() {}\nconst K = 1;\n",
        "function f 1-1, class A 2-2, method m 2-2, function use 3-3, function g 4-4, constant K 5-5",
    );
    check(
        "a.ts",
        "export interface I { m(): void }\ntype T = string;\nenum E { A }\nabstract class C { abstract x(): void; y() {} }\nnamespace N { export function f(): void {} }\n",
        "interface I 1-1, method m 1-1, type T 2-2, enum E 3-3, class C 4-4, method x 4-4, method y 4-4, \
         module N 5-5, function f 5-5",
    );
    check("a.tsx", "export function View() { return <a>{b}</a> }\n", "function View 1-1");
    check(
        "a.go",
        "package a\ntype S struct { X int }\ntype I interface { Do() }\nfunc (s *S) Get() {}\nfunc Free() { var local = 1 }\nconst K = 1\n",
        "type S 2-2, type I 3-3, method Do 3-3, method Get 4-4, function Free 5-5, constant K 6-6",
    );
    check(
        "A.java",
        "class A {\n  A() {}\n  int get() { return 1; }\n}\ninterface I { void x(); }\nenum E { ONE }\nrecord R(int a) {}\n",
        "class A 1-4, method A 2-2, method get 3-3, interface I 5-5, method x 5-5, enum E 6-6, constant ONE 6-6, \
         class R 7-7",
    );
    check(
        "a.c",
        "#define MAX 3\nstruct s { int a; };\nstatic char *name(struct s *it) { return 0; }\ntypedef struct s s_t;\nenum e { A };\nint (*table(void))(int) { return 0; }\n",
        "macro MAX 1-1, struct s 2-2, function name 3-3, type s_t 4-4, enum e 5-5, function table 6-6",
    );
}

#[cfg(feature = "all-languages")]
#[test]
fn definitions_are_found_in_feature_gated_languages() {
    check(
        "a.cpp",
        "namespace n { class A { void m() {} }; }\nvoid n::A::m2() {}\ntemplate <class T> T f(T t) { return t; }\n",
        "module n 1-1, class A 1-1, method m 1-1, function m2 2-2, function f 3-3",
    );
    check(
        "a.cs",
        "namespace N { class A { int P { get; } void M() {} } interface I {} }\n",
        "module N 1-1, class A 1-1, method P 1-1, method M 1-1, interface I 1-1",
    );
    check(
        "a.php",
        "<?php\nclass A { function m() {} }\nfunction f() {}\n",
        "class A 2-2, method m 2-2, function f 3-3",
    );
    check("a.rb", "module M\n  class A\n    def get; end\n  end\nend\n", "module M 1-5, class A 2-4, method get 3-3");
    check("a.sh", "run() { echo a; }\n", "function run 1-1");
}

#[test]
fn references_are_found() {
    let text = "fn a(x: Thing) { helper(x); let limit = LIMIT; }\n";
    let mut parser = Parser::default();
    let source = parser.parse("a.rs", text);
    let found: Vec<&str> = source.tags.references.iter().map(|it| &text[it.clone()]).collect();
    assert_eq!(found, ["Thing", "helper", "limit", "LIMIT"], "a definition's name is not a reference");
}

#[test]
fn chunks_split_at_definitions_with_their_comments() {
    let body = "    step();\n".repeat(100);
    let text = format!("use x;\n\n/// Adds.\n#[inline]\nfn add() {{\n{body}}}\n\n/// Takes.\nfn take() {{\n{body}}}\n");
    let mut parser = Parser::default();
    let source = parser.parse("a.rs", &text);
    let chunks: Vec<Chunk<'_>> = source.chunks().collect();
    let symbol_lines: Vec<(u32, &str)> =
        chunks.iter().map(|chunk| (chunk.first_line, chunk.symbol.map_or("", |symbol| symbol.name.as_str()))).collect();
    assert!(symbol_lines.contains(&(3, "add")) || symbol_lines.contains(&(1, "add")), "{symbol_lines:?}");
    let second = text.lines().position(|line| line == "/// Takes.").unwrap() as u32 + 1;
    assert!(symbol_lines.contains(&(second, "take")), "{symbol_lines:?}");
    assert_eq!(chunks.last().unwrap().symbol.map(|symbol| symbol.kind), Some(SymbolKind::Function), "goes on");
}

/// Asserts that chunks are in order and only omit lines without letters or digits.
fn assert_whole(path: &str, text: &str) {
    let mut parser = Parser::default();
    let source = parser.parse(path, text);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let between = |first: u32, end: u32| lines[first as usize - 1..end as usize - 1].concat();
    let mut next = 1;
    for chunk in source.chunks() {
        assert!(next <= chunk.first_line && chunk.first_line <= chunk.last_line);
        assert!(!between(next, chunk.first_line).contains(char::is_alphanumeric));
        next = chunk.last_line + 1;
        assert_eq!(chunk.text, between(chunk.first_line, next));
        assert!(chunk.text.contains(char::is_alphanumeric));
    }
    assert!(!between(next, u32::try_from(lines.len()).unwrap() + 1).contains(char::is_alphanumeric));
}

const PATHS: [&str; 9] = ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.txt"];

/// Lines from which the test assembles programs, which may be invalid.
const LINES: [&str; 24] = [
    "fn a() {",
    "}",
    "impl A {",
    "struct B;",
    "/// Says.",
    "# comment",
    "/* open",
    " * middle",
    "*/",
    "class C:",
    "    def m(self):",
    "        pass",
    "class D {",
    "function e() {",
    "export const f = () => {",
    "};",
    "func g() {",
    "void h(int a) {",
    "#define X",
    "",
    "let a = \"(((\";",
    "}}}}",
    "((((",
    "interface I {",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn chunks_cover_any_text(place in 0..PATHS.len(), text in "(\\PC{0,60}\n?){0,40}") {
        assert_whole(PATHS[place], &text);
    }

    #[test]
    fn chunks_cover_any_program(
        place in 0..PATHS.len(),
        lines in prop::collection::vec((0..LINES.len(), 1..30_usize), 0..60),
    ) {
        let text: String = lines.iter().map(|(line, times)| format!("{}\n", LINES[*line]).repeat(*times)).collect();
        assert_whole(PATHS[place], &text);
    }

    #[test]
    fn undecodable_bytes_return_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        if let Ok(text) = agentd_code::decode(&bytes) {
            assert_whole("a.c", &text);
        }
    }
}
