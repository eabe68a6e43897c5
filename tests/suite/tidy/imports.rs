//! The imports between the files of a crate, as the compiler resolves them. Re-exports are followed to the file that
//! defines the item, and test code is ignored.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item, UseTree, Visibility, visit::Visit};

/// A module path relative to the crate root, such as `["turn", "run"]`.
type Module = Vec<String>;

/// Maximum number of re-exports that are followed for one import.
const MAX_HOPS: usize = 8;

/// Use of an item from another file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    /// File of the import, relative to the crate's sources.
    pub(super) from: String,
    /// File that defines the item.
    pub(super) to: String,
    /// Name of the item, or of the module.
    pub(super) name: String,
}

/// A parsed file with its names and paths.
#[derive(Default)]
struct Parsed {
    file: String,
    /// Names that `use` imports, with their full paths.
    aliases: BTreeMap<String, Module>,
    /// Absolute paths that the code mentions.
    paths: Vec<Module>,
}

/// Returns all imports between files of the crate with these sources.
pub(super) fn imports(source: &Path) -> BTreeSet<Import> {
    let mut modules = BTreeMap::new();
    collect(source, source, &mut modules);
    let mut found = BTreeSet::new();
    for parsed in modules.values() {
        for path in &parsed.paths {
            if let Some((file, name)) = resolve(&modules, path, MAX_HOPS)
                && file != parsed.file
            {
                found.insert(Import { from: parsed.file.clone(), to: file, name });
            }
        }
    }
    found
}

fn collect(root: &Path, folder: &Path, modules: &mut BTreeMap<Module, Parsed>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, modules);
            continue;
        }
        let file = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let in_tests = file.ends_with("tests.rs") || file.starts_with("tests/") || file.contains("/tests/");
        if !file.ends_with(".rs") || in_tests {
            continue;
        }
        let mut module: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if ["mod", "lib", "main"].contains(&module.last().unwrap().as_str()) {
            module.pop();
        }
        let text = fs::read_to_string(&path).unwrap();
        let ast = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut parsed = Parsed { file, ..Parsed::default() };
        Reader { module: module.clone(), parsed: &mut parsed, is_reexport: false }.visit_file(&ast);
        // A crate with both main.rs and lib.rs has two roots. Other files import names from the library.
        let existing = modules.entry(module).or_default();
        let is_root = parsed.file == "main.rs" && existing.file == "lib.rs";
        if existing.file.is_empty() || !is_root {
            *existing = parsed;
        }
    }
}

/// Resolves a path to the file that defines the item, and the item's name.
fn resolve(modules: &BTreeMap<Module, Parsed>, path: &[String], hops: usize) -> Option<(String, String)> {
    let mut depth = 0;
    while depth < path.len() && modules.contains_key(&path[..=depth]) {
        depth += 1;
    }
    let parsed = modules.get(&path[..depth])?;
    let Some(name) = path.get(depth) else {
        return Some((parsed.file.clone(), path.last()?.clone()));
    };
    if hops > 0
        && let Some(alias) = parsed.aliases.get(name)
    {
        let mut target = alias.clone();
        target.extend_from_slice(&path[depth + 1..]);
        if let Some(found) = resolve(modules, &target, hops - 1) {
            return Some(found);
        }
    }
    Some((parsed.file.clone(), name.clone()))
}

struct Reader<'a> {
    module: Module,
    parsed: &'a mut Parsed,
    /// True if the current `use` is a re-export, which is not an import itself.
    is_reexport: bool,
}

impl Reader<'_> {
    /// Resolves a path that starts with `crate`, `self` or `super`.
    fn absolute(&self, segments: &[String]) -> Option<Module> {
        let mut base = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            _ => return None,
        };
        let mut rest = &segments[1..];
        if segments[0] == "super" {
            base.pop();
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn import(&mut self, prefix: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(prefix, item)),
            UseTree::Glob(_) => {
                if let Some(path) = self.absolute(prefix).filter(|_| !self.is_reexport) {
                    self.parsed.paths.push(path);
                }
            }
            UseTree::Name(name) => self.bind(prefix, &name.ident.to_string(), &name.ident.to_string()),
            UseTree::Rename(name) => self.bind(prefix, &name.ident.to_string(), &name.rename.to_string()),
        }
    }

    fn bind(&mut self, prefix: &[String], name: &str, alias: &str) {
        let mut segments = prefix.to_vec();
        let mut alias = alias.to_owned();
        if name == "self" {
            alias = segments.last().cloned().unwrap_or_default();
        } else {
            segments.push(name.to_owned());
        }
        if let Some(path) = self.absolute(&segments) {
            if !self.is_reexport {
                self.parsed.paths.push(path.clone());
            }
            self.parsed.aliases.insert(alias, path);
        }
    }

    fn scan(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if colons == 2 && !segments.is_empty() => {
                    segments.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.mention(&segments);
                    segments = vec![ident.to_string()];
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.mention(&segments);
                    segments.clear();
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.mention(&segments);
    }

    fn mention(&mut self, segments: &[String]) {
        if segments.len() > 1
            && let Some(path) = self.absolute(segments)
        {
            self.parsed.paths.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_for_tests) {
            return;
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.is_reexport = !matches!(item.vis, Visibility::Inherited);
        self.import(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.mention(&segments);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.scan(item.tokens.clone());
    }

    // Visibility names the module that may access an item, and doc comments are not code.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

/// Returns the cycles of files that import each other, largest first (Tarjan's algorithm).
pub(super) fn import_cycles(imports: &BTreeSet<Import>) -> Vec<Vec<String>> {
    let mut edges: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in imports {
        edges.entry(&import.from).or_default().push(&import.to);
        edges.entry(&import.to).or_default();
    }
    let mut search = Search::default();
    for file in edges.keys() {
        if !search.index.contains_key(file) {
            search.visit(file, &edges);
        }
    }
    let mut cycles: Vec<Vec<String>> = search.cycles.into_iter().filter(|cycle| cycle.len() > 1).collect();
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

#[derive(Default)]
struct Search<'a> {
    index: BTreeMap<&'a str, usize>,
    low: BTreeMap<&'a str, usize>,
    stack: Vec<&'a str>,
    cycles: Vec<Vec<String>>,
}

impl<'a> Search<'a> {
    fn visit(&mut self, file: &'a str, edges: &BTreeMap<&'a str, Vec<&'a str>>) {
        let index = self.index.len();
        self.index.insert(file, index);
        self.low.insert(file, index);
        self.stack.push(file);
        for next in &edges[file] {
            if !self.index.contains_key(next) {
                self.visit(next, edges);
                let low = self.low[file].min(self.low[next]);
                self.low.insert(file, low);
            } else if self.stack.contains(next) {
                let low = self.low[file].min(self.index[next]);
                self.low.insert(file, low);
            }
        }
        if self.low[file] == index {
            let at = self.stack.iter().position(|other| *other == file).unwrap();
            self.cycles.push(self.stack.split_off(at).into_iter().map(str::to_owned).collect());
        }
    }
}
