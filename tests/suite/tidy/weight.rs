//! Size limits: the code of each crate has a ceiling in lines and tokens, not counting blanks, comments and tests.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use super::{Source, assert_none, files, product, root};

/// Maximum number of lines and tokens of each crate. When a crate shrinks, its maximum is lowered. A commit that raises
/// a maximum states the reason.
const CEILINGS: [(&str, usize, usize); 29] = [
    ("agentctl", 28_200, 309_100),
    ("agentd", 10_640, 115_100),
    ("crates/archive", 1_110, 11_850),
    ("crates/audit", 1_520, 14_950),
    ("crates/code", 3_230, 34_200),
    ("crates/confine", 251, 2_815),
    ("crates/context", 2_000, 22_650),
    ("crates/core", 7_230, 61_500),
    ("crates/engine", 17_670, 196_000),
    ("crates/exchange", 860, 8_750),
    ("crates/extensions", 4_650, 52_250),
    ("crates/http", 114, 1_360),
    ("crates/index", 12_410, 145_500),
    ("crates/local", 2_320, 27_800),
    ("crates/lsp", 2_600, 27_650),
    ("crates/mcp", 5_700, 58_550),
    ("crates/models", 8_410, 90_800),
    ("crates/ocr", 690, 8_300),
    ("crates/policy", 4_640, 53_250),
    ("crates/replay", 1_330, 13_800),
    ("crates/sandbox", 3_490, 36_250),
    ("crates/store", 3_920, 39_500),
    ("crates/telemetry", 1_470, 16_050),
    ("crates/tools", 5_790, 63_600),
    ("crates/trace", 955, 10_350),
    ("crates/web", 1_040, 11_850),
    ("crates/workspace", 8_290, 97_400),
    ("crates/worktrees", 1_650, 19_000),
    ("proto", 3_630, 38_400),
];

/// Code in other languages, and data that binaries embed: file extension, folders, and maximum number of bytes.
const OTHER_CEILINGS: [(&str, &[&str], usize); 6] = [
    (".py", &["clients/", "scripts/", "skills/"], 434_000),
    (".js", &["agentctl/", "clients/"], 66_000),
    (".json", &["config/"], 73_000),
    (".yaml", &["config/"], 31_300),
    (".sql", &["crates/"], 10_500),
    (".txt", &["crates/core/", "crates/index/src/", "crates/local/src/"], 96_000),
];

/// Percentage of a ceiling. A ceiling has to be lowered if the size falls below this percentage of it.
const MIN_PERCENT: usize = 97;

/// Size of some code.
#[derive(Debug, Default)]
struct Weight {
    lines: BTreeSet<usize>,
    tokens: usize,
    /// Modules in separate files that are only compiled in tests.
    test_modules: Vec<String>,
}

impl Weight {
    fn of(source: &Source) -> Self {
        let mut weight = Self::default();
        let stream = source.text.parse().unwrap_or_else(|error| panic!("{}: {error}", source.path));
        weight.add(stream);
        weight
    }

    fn add(&mut self, stream: TokenStream) {
        let mut tokens = stream.into_iter().peekable();
        while let Some(token) = tokens.next() {
            if matches!(&token, TokenTree::Punct(sign) if sign.as_char() == '#') {
                // An attribute that applies to the whole file starts with `#!`.
                let inner = tokens.next_if(|next| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '!'));
                let attribute = match tokens.peek() {
                    Some(TokenTree::Group(group)) => group.stream().to_string().replace(' ', ""),
                    _ => String::new(),
                };
                if attribute.starts_with("doc=") {
                    tokens.next();
                    continue;
                }
                if attribute == "cfg(test)" {
                    tokens.next();
                    self.skip_item(&mut tokens);
                    continue;
                }
                self.tokens += usize::from(inner.is_some());
            }
            self.tokens += 1;
            match token {
                TokenTree::Group(group) => {
                    self.tokens += 1;
                    self.add_lines(group.span_open());
                    self.add_lines(group.span_close());
                    self.add(group.stream());
                }
                token => self.add_lines(token.span()),
            }
        }
    }

    fn add_lines(&mut self, span: Span) {
        self.lines.extend(span.start().line..=span.end().line);
    }

    /// Skips an item up to the end of its body or its semicolon.
    fn skip_item(&mut self, tokens: &mut impl Iterator<Item = TokenTree>) {
        let mut words = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
                TokenTree::Punct(sign) if sign.as_char() == ';' => break,
                TokenTree::Ident(word) => words.push(word.to_string()),
                _ => {}
            }
        }
        let module = words.iter().position(|word| word == "mod").and_then(|at| words.get(at + 1));
        self.test_modules.extend(module.cloned());
    }
}

/// Returns the name of the crate that contains a file.
fn crate_of(path: &str) -> &str {
    path.split_once("/src/").or_else(|| path.rsplit_once('/')).map_or("", |(krate, _)| krate)
}

/// Returns the path of a module that `declared_in` declares in a separate file.
fn module_file(declared_in: &str, module: &str) -> String {
    let (folder, name) = declared_in.rsplit_once('/').unwrap_or_default();
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => format!("{folder}/{module}.rs"),
        name => format!("{folder}/{}/{module}.rs", name.trim_end_matches(".rs")),
    }
}

/// Counts the lines and tokens of each crate.
fn weights() -> BTreeMap<String, (usize, usize)> {
    let weighed: Vec<(Source, Weight)> = product()
        .into_iter()
        .filter(|source| !source.path.contains("/benches/"))
        .map(|source| {
            let weight = Weight::of(&source);
            (source, weight)
        })
        .collect();
    let of_tests: BTreeSet<String> = weighed
        .iter()
        .flat_map(|(source, weight)| weight.test_modules.iter().map(|module| module_file(&source.path, module)))
        .collect();
    let mut crates = BTreeMap::<String, (usize, usize)>::new();
    for (source, weight) in weighed.iter().filter(|(source, _)| !of_tests.contains(&source.path)) {
        let sum = crates.entry(crate_of(&source.path).to_owned()).or_default();
        sum.0 += weight.lines.len();
        sum.1 += weight.tokens;
    }
    crates
}

/// Describes how a size violates its ceiling. Returns `None` if it does not.
fn ceiling_violation(size: usize, ceiling: usize, unit: &str) -> Option<String> {
    match size {
        _ if size > ceiling => Some(format!("{size} {unit}, ceiling {ceiling}")),
        _ if size * 100 < ceiling * MIN_PERCENT => Some(format!("{size} {unit}: lower its ceiling of {ceiling}")),
        _ => None,
    }
}

#[test]
fn crates_stay_below_their_ceilings() {
    let weights = weights();
    for (krate, (lines, tokens)) in &weights {
        println!("{krate:20} {lines:>7} {tokens:>8}");
    }
    let (lines, tokens) = weights.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{:20} {lines:>7} {tokens:>8}", "sum");
    let mut offences = Vec::new();
    for (krate, (lines, tokens)) in &weights {
        let Some((_, most_lines, most_tokens)) = CEILINGS.iter().find(|(name, ..)| name == krate) else {
            offences.push(format!("{krate} has no ceiling: {lines} lines, {tokens} tokens"));
            continue;
        };
        let violations =
            [ceiling_violation(*lines, *most_lines, "lines"), ceiling_violation(*tokens, *most_tokens, "tokens")];
        offences.extend(violations.into_iter().flatten().map(|violation| format!("{krate}: {violation}")));
    }
    assert_none("a crate stays below its size limit", offences);
}

#[test]
fn other_languages_and_data_stay_below_their_ceilings() {
    let mut offences = Vec::new();
    for (ending, folders, ceiling) in OTHER_CEILINGS {
        let is_there = |source: &&Source| folders.iter().any(|folder| source.path.starts_with(folder));
        let is_test = |source: &&Source| source.path.contains("/tests/") || source.path.contains("/node_modules/");
        // A module that several skills share is a link in all but one of them.
        let is_link = |source: &&Source| root().join(&source.path).is_symlink();
        let sources = files(ending);
        let counted = sources.iter().filter(is_there).filter(|source| !is_test(source) && !is_link(source));
        let bytes = counted.map(|source| source.text.len()).sum();
        println!("{ending:6} {bytes:>8}  {}", folders.join(", "));
        offences.extend(ceiling_violation(bytes, ceiling, &format!("bytes of {ending} in {}", folders.join(", "))));
    }
    assert_none("code in other languages and embedded data stay below their size limits", offences);
}

#[test]
fn rustfmt_skip_has_a_reason() {
    let mut offences = Vec::new();
    for source in product() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (number, _) in lines.iter().enumerate().filter(|(_, line)| line.trim() == "#[rustfmt::skip]") {
            let has_reason = number.checked_sub(1).is_some_and(|before| lines[before].trim_start().starts_with("//"));
            if !has_reason {
                offences.push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    assert_none("`rustfmt::skip` has a comment above it", offences);
}
