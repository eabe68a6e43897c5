//! Symbols: definitions and uses of a name, and outlines of files.

use agentd_core::code::{OutlineEntry, SourceLine, SymbolKind, SymbolLocations, SymbolUse};

use crate::{
    index::{CodeIndex, IndexedFile},
    terms::is_identifier_byte,
    text::start_of,
};

/// Maximum number of definitions of a name.
pub const MAX_SYMBOL_DEFINITIONS: usize = 100;
/// Maximum number of references to a name.
pub const MAX_SYMBOL_REFERENCES: usize = 200;
/// Maximum number of files that are read to find the references to a name.
const MAX_REFERENCE_FILES: usize = 100;
/// Maximum number of entries in an outline.
pub const MAX_OUTLINE: usize = 2000;
/// Maximum length of a shown line in bytes.
const MAX_SHOWN: usize = 200;

/// Reads an indexed file by its path.
pub(crate) type ReadFile<'reader> = &'reader mut dyn FnMut(&str) -> Option<String>;

impl CodeIndex {
    /// Finds the definitions and uses of a symbol. The name may be a path such as `Type::method` or `module.name`: the
    /// last part is searched for, and definitions inside the preceding part are listed first.
    pub fn find_symbol(&self, name: &str, below: &str, read: ReadFile<'_>) -> SymbolLocations {
        let mut parts =
            name.rsplit(|letter: char| letter != '_' && !letter.is_alphanumeric()).filter(|part| !part.is_empty());
        let (Some(last), owner) = (parts.next(), parts.next()) else { return SymbolLocations::default() };
        let Some(number) = self.names().get(last) else { return SymbolLocations::default() };
        let owner = owner.and_then(|owner| self.names().get(owner));
        let mut found = SymbolLocations::default();
        let mut definitions = Vec::new();
        let mut users = Vec::new();
        for (_, file) in self.live_files().filter(|(_, file)| is_within(&file.path, below)) {
            for definition in file.definitions.iter().filter(|it| it.name == number && it.kind != SymbolKind::Impl) {
                let is_owned = owner.is_some_and(|owner| {
                    file.definitions.iter().any(|around| {
                        around.name == owner
                            && around.first_line <= definition.first_line
                            && around.last_line >= definition.last_line
                    })
                });
                definitions.push(((!is_owned, !definition.kind.is_type(), definition.depth), file, definition));
            }
            if let Ok(at) = file.uses.binary_search_by_key(&number, |(name, _)| *name) {
                users.push((file, file.uses.get(at).map_or(0, |(_, count)| *count)));
            }
        }
        definitions.sort_by(|a, b| (a.0, &a.1.path, a.2.first_line).cmp(&(b.0, &b.1.path, b.2.first_line)));
        users.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.path.cmp(&b.0.path)));
        found.is_truncated = definitions.len() > MAX_SYMBOL_DEFINITIONS || users.len() > MAX_REFERENCE_FILES;
        definitions.truncate(MAX_SYMBOL_DEFINITIONS);
        for (_, file, definition) in &definitions {
            let text = read(&file.path).unwrap_or_default();
            let at = source_line(&file.path, definition.first_line, &text);
            let (kind, last_line, depth) = (definition.kind, definition.last_line, u32::from(definition.depth));
            found.definitions.push(OutlineEntry { name: last.to_owned(), kind, at, last_line, depth });
        }
        for (file, _) in users.iter().take(MAX_REFERENCE_FILES) {
            references(self, file, last, read, &mut found);
        }
        found
    }
}

/// Adds the lines of a file that contain a name as a whole word, except for the name's definitions.
fn references(index: &CodeIndex, file: &IndexedFile, name: &str, read: ReadFile<'_>, found: &mut SymbolLocations) {
    let names = index.names();
    let Some(number) = names.get(name) else { return };
    let Some(text) = read(&file.path) else { return };
    for (line, row) in (1..).zip(text.lines()) {
        let defines = |it: &crate::index::IndexedDefinition| {
            it.name == number && it.first_line == line && it.kind != SymbolKind::Impl
        };
        if !has_word(row, name) || file.definitions.iter().any(defines) {
            continue;
        }
        if found.references.len() >= MAX_SYMBOL_REFERENCES {
            found.is_truncated = true;
            return;
        }
        let text = start_of(row.trim(), MAX_SHOWN).to_owned();
        let at = SourceLine { path: file.path.to_string(), line, text };
        found.references.push(SymbolUse { at, within: within(file, line).map(|name| names.text(name).to_owned()) });
    }
}

/// Returns the name of the innermost definition around a line.
fn within(file: &IndexedFile, line: u32) -> Option<u32> {
    let around = file.definitions.iter().filter(|it| (it.first_line..=it.last_line).contains(&line));
    around.max_by_key(|it| (it.first_line, it.depth)).map(|it| it.name)
}

fn has_word(row: &str, word: &str) -> bool {
    row.match_indices(word).any(|(at, _)| {
        let bytes = row.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let after = bytes.get(at + word.len());
        !before.is_some_and(|byte| is_identifier_byte(*byte)) && !after.is_some_and(|byte| is_identifier_byte(*byte))
    })
}

fn source_line(path: &str, line: u32, text: &str) -> SourceLine {
    let row = text.lines().nth(line as usize - 1).unwrap_or_default();
    SourceLine { path: path.to_owned(), line, text: start_of(row.trim(), MAX_SHOWN).to_owned() }
}

/// Returns true if the file is equal to or inside `below`.
pub(crate) fn is_within(file: &str, below: &str) -> bool {
    let below = below.trim_matches('/');
    below.is_empty()
        || below == "."
        || file.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lists the definitions of a file, or of all files in a folder, sorted by path and line.
pub(crate) fn outline_of(index: &CodeIndex, path: &str, read: ReadFile<'_>) -> Vec<OutlineEntry> {
    let mut files: Vec<&IndexedFile> =
        index.live_files().map(|(_, file)| file).filter(|file| is_within(&file.path, path)).collect();
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let mut outline = Vec::new();
    for file in files {
        if outline.len() >= MAX_OUTLINE {
            break;
        }
        let text = if file.definitions.is_empty() { None } else { read(&file.path) }.unwrap_or_default();
        for definition in file.definitions.iter().take(MAX_OUTLINE - outline.len()) {
            outline.push(OutlineEntry {
                name: index.names().text(definition.name).to_owned(),
                kind: definition.kind,
                at: source_line(&file.path, definition.first_line, &text),
                last_line: definition.last_line,
                depth: u32::from(definition.depth),
            });
        }
    }
    outline
}
