//! Extracts definitions and references from a file's syntax tree.

use std::ops::Range;

pub(crate) use agentd_core::code::SymbolKind;
use tree_sitter::{Node, Tree};

use crate::language::{Grammar, NameRule, Role};

/// Maximum number of definitions per file.
pub const MAX_DEFINITIONS: usize = 20_000;
/// Maximum number of references per file.
pub const MAX_REFERENCES: usize = 200_000;
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 120;

/// Definition of a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Name as written in the file.
    pub name: String,
    /// Kind of the symbol.
    pub kind: SymbolKind,
    /// First line, starting at 1, without preceding comments.
    pub first_line: u32,
    /// Last line, starting at 1.
    pub last_line: u32,
    /// Number of enclosing definitions.
    pub depth: u32,
}

/// Definitions and references in a file, in text order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    /// Symbols defined in the file.
    pub definitions: Vec<Definition>,
    /// Byte ranges of names that may be defined in another file.
    pub references: Vec<Range<usize>>,
}

/// Collects the tags in a single traversal without recursion.
pub(crate) fn tags(tree: &Tree, grammar: &Grammar, text: &str) -> Tags {
    let mut tags = Tags::default();
    let mut cursor = tree.walk();
    // End offsets of the enclosing definitions, and offsets of names that are part of definitions and therefore not
    // references.
    let mut around: Vec<(usize, SymbolKind)> = Vec::new();
    let mut names: Vec<usize> = Vec::new();
    loop {
        let node = cursor.node();
        match grammar.role(node.kind_id()) {
            Role::Definition(kind, rule) if tags.definitions.len() < MAX_DEFINITIONS => {
                while around.last().is_some_and(|(end, _)| *end <= node.start_byte()) {
                    around.pop();
                }
                if let Some((definition, name)) = define(node, kind, rule, &around, text) {
                    around.push((node.end_byte(), definition.kind));
                    if names.len() > 64 {
                        names.clear();
                    }
                    names.push(name);
                    tags.definitions.push(definition);
                }
            }
            Role::Identifier if tags.references.len() < MAX_REFERENCES => {
                if let Some(at) = names.iter().position(|name| *name == node.start_byte()) {
                    names.swap_remove(at);
                } else if (2..=MAX_NAME).contains(&node.byte_range().len()) {
                    tags.references.push(node.byte_range());
                }
            }
            _ => {}
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return tags;
            }
        }
    }
}

fn define(
    node: Node<'_>,
    kind: SymbolKind,
    rule: NameRule,
    around: &[(usize, SymbolKind)],
    text: &str,
) -> Option<(Definition, usize)> {
    let (name, kind) = name_of(node, kind, rule, around)?;
    let range = name.byte_range();
    let written = text.get(range.clone()).filter(|written| !written.is_empty() && written.len() <= MAX_NAME)?;
    let name = if rule == NameRule::Type {
        // The name of the type in `path::Name<T>`.
        let start = written.split(['<', '(', '[']).next().unwrap_or_default();
        start.rsplit("::").next().unwrap_or_default().trim_start_matches(['&', '*', ' '])
    } else {
        written.trim_matches(['"', '\''])
    };
    let is_method = kind == SymbolKind::Function
        && matches!(around.last(), Some((_, SymbolKind::Impl | SymbolKind::Class | SymbolKind::Interface)));
    let (start, end) = (node.start_position(), node.end_position());
    // The node of a preprocessor line ends at the start of the next row.
    let last_row = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
    let kind = if is_method { SymbolKind::Method } else { kind };
    let (first_line, last_line) = (line(start.row), line(last_row));
    let depth = u32::try_from(around.len()).unwrap_or(u32::MAX);
    let definition = Definition { name: name.to_owned(), kind, first_line, last_line, depth };
    (!name.is_empty()).then_some((definition, range.start))
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX - 1) + 1
}

/// Returns the name node of a definition, and the kind of the symbol.
fn name_of<'tree>(
    node: Node<'tree>,
    kind: SymbolKind,
    rule: NameRule,
    around: &[(usize, SymbolKind)],
) -> Option<(Node<'tree>, SymbolKind)> {
    let is_inside = around.iter().any(|(_, kind)| matches!(kind, SymbolKind::Function | SymbolKind::Method));
    match rule {
        NameRule::Name => Some((node.child_by_field_name("name")?, kind)),
        NameRule::Type => Some((node.child_by_field_name("type")?, kind)),
        NameRule::NameWithBody => {
            node.child_by_field_name("body")?;
            Some((node.child_by_field_name("name")?, kind))
        }
        NameRule::Declarator => Some((declarator_name(node)?, kind)),
        NameRule::Variable => {
            let name = node.child_by_field_name("name").filter(|name| name.child_count() == 0)?;
            let value = node.child_by_field_name("value").map(|value| value.kind());
            match value.and_then(value_kind) {
                Some(kind) => Some((name, kind)),
                None => (!is_inside).then_some((name, kind)),
            }
        }
        NameRule::Assigned => {
            let kind = value_kind(node.child_by_field_name("right")?.kind())?;
            let left = node.child_by_field_name("left")?;
            Some((left.child_by_field_name("property").unwrap_or(left), kind))
        }
        NameRule::OuterAssignment => {
            let left = node.child_by_field_name("left").filter(|left| left.kind() == "identifier")?;
            (!is_inside).then_some((left, kind))
        }
    }
}

/// Returns the symbol kind for a variable with this value.
fn value_kind(value: &str) -> Option<SymbolKind> {
    match value {
        "arrow_function" | "function_expression" | "generator_function" | "function" => Some(SymbolKind::Function),
        "class" => Some(SymbolKind::Class),
        _ => None,
    }
}

/// Returns the innermost name in a chain of declarators. The chain has one link per star and bracket.
fn declarator_name(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node.child_by_field_name("declarator")?;
    for _ in 0..32 {
        match at.child_by_field_name("declarator").or_else(|| at.child_by_field_name("name")) {
            Some(next) => at = next,
            // Parentheses have no field name.
            None if at.kind() == "parenthesized_declarator" => at = at.named_child(0)?,
            None => break,
        }
    }
    Some(at)
}
