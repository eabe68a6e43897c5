//! Definitions and references of a file, from its syntax tree.

use std::ops::Range;

pub(crate) use agentd_core::code::SymbolKind;
use tree_sitter::{Node, Tree};

use crate::language::{Grammar, NameRule, Role};

/// Definitions that are kept of one file.
pub const MAX_DEFINITIONS: usize = 20_000;
/// References that are kept of one file.
pub const MAX_REFERENCES: usize = 200_000;
/// Longest name that is kept, in bytes.
pub const MAX_NAME: usize = 120;

/// Definition of a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Name as it is written.
    pub name: String,
    /// Kind of the symbol.
    pub kind: SymbolKind,
    /// First line, from 1, without the comments in front.
    pub first_line: u32,
    /// Last line, from 1.
    pub last_line: u32,
    /// Number of definitions around it.
    pub depth: u32,
}

/// Definitions and references of a file, in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    /// Definitions.
    pub definitions: Vec<Definition>,
    /// Uses of names that another file may define: the bytes of each name in the text of the file.
    pub references: Vec<Range<usize>>,
}

/// Reads the tags off a tree, in one walk that keeps no stack of its own but that of the definitions.
pub(crate) fn tags(tree: &Tree, grammar: &Grammar, text: &str) -> Tags {
    let mut tags = Tags::default();
    let mut cursor = tree.walk();
    // Ends of the definitions around the node, and names that are no uses of what they name.
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
        // The type's own name in `path::Name<T>`.
        let start = written.split(['<', '(', '[']).next().unwrap_or_default();
        start.rsplit("::").next().unwrap_or_default().trim_start_matches(['&', '*', ' '])
    } else {
        written.trim_matches(['"', '\''])
    };
    let is_method = kind == SymbolKind::Function
        && matches!(around.last(), Some((_, SymbolKind::Impl | SymbolKind::Class | SymbolKind::Interface)));
    let (start, end) = (node.start_position(), node.end_position());
    // A preprocessor line's node ends at the start of the row after it.
    let last_row = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
    let definition = Definition {
        name: name.to_owned(),
        kind: if is_method { SymbolKind::Method } else { kind },
        first_line: line(start.row),
        last_line: line(last_row),
        depth: u32::try_from(around.len()).unwrap_or(u32::MAX),
    };
    (!name.is_empty()).then_some((definition, range.start))
}

fn line(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX - 1) + 1
}

/// Node of the name, and the kind by what is named.
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
        NameRule::Declarator => Some((declared(node)?, kind)),
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

/// Kind of a variable that holds such a value.
fn value_kind(value: &str) -> Option<SymbolKind> {
    match value {
        "arrow_function" | "function_expression" | "generator_function" | "function" => Some(SymbolKind::Function),
        "class" => Some(SymbolKind::Class),
        _ => None,
    }
}

/// Innermost name of a chain of declarators, which is as long as there are stars and brackets.
fn declared(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node.child_by_field_name("declarator")?;
    for _ in 0..32 {
        match at.child_by_field_name("declarator").or_else(|| at.child_by_field_name("name")) {
            Some(next) => at = next,
            // Parentheses have no field.
            None if at.kind() == "parenthesized_declarator" => at = at.named_child(0)?,
            None => break,
        }
    }
    Some(at)
}
