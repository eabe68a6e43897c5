//! Code of a folder: the questions that tools ask, and the answers. Paths are below the folder, with slashes.
//!
//! Answers come from a process that has read foreign text: bound and check them before they are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Question about the code of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum CodeQuestion {
    /// Pieces of code that fit words, symbols or a plain question; the best first.
    Search {
        /// The words.
        query: String,
        /// Folder or file below which they are looked for; empty for all.
        below: String,
        /// Number of hits at most.
        limit: usize,
    },
    /// Places at which a symbol is defined and used.
    Symbol {
        /// Name, or a path of names such as `Type::method`.
        name: String,
        /// Folder or file below which they are looked for; empty for all.
        below: String,
    },
    /// Definitions of a file, or of the files of a folder.
    Outline {
        /// The file or folder; empty for all.
        path: String,
    },
    /// The most important definitions.
    Map {
        /// Size of the map, in tokens.
        max_tokens: usize,
    },
}

/// Answer, and what it was looked up in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodeReply {
    /// The answer.
    pub answer: CodeAnswer,
    /// The index behind it.
    pub index: CodeIndexState,
}

/// Answer to a question about code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeAnswer {
    /// Of a search.
    Hits(Vec<CodeHit>),
    /// Of a symbol.
    Symbol(SymbolLocations),
    /// Of an outline.
    Outline(Vec<OutlineEntry>),
    /// Of a map: the most important file first.
    Map(Vec<MapFile>),
}

/// State of the index of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeIndexState {
    /// Files in it.
    pub files: usize,
    /// Files in it below what the question was about.
    #[serde(default)]
    pub within: usize,
    /// Files that were looked at and left out.
    pub skipped: usize,
    /// Those of them below what the question was about, by reason.
    #[serde(default)]
    pub unread: BTreeMap<SkipReason, usize>,
    /// Set if there are more files than are indexed.
    pub is_truncated: bool,
    /// Set if a part of the folder could not be listed.
    pub is_partial: bool,
}

names! {
    /// Reason why a file is not indexed.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum SkipReason {
        /// It is no text.
        Binary = "binary",
        /// A program wrote it.
        Generated = "generated",
        /// Its lines are too long to have been written by a person.
        Minified = "minified",
        /// It is larger than an index takes.
        TooLarge = "too_large",
        /// It could not be read.
        Unreadable = "unreadable",
    }
}

/// Found piece of code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CodeHit {
    /// Its file.
    pub path: String,
    /// First line, from 1.
    pub first_line: u32,
    /// Last line, from 1.
    pub last_line: u32,
    /// Symbol that is defined there, or that the lines are the middle of.
    pub symbol: Option<HitSymbol>,
    /// Score, comparable within one search.
    pub score: f32,
    /// Text of the lines, cut where it is long.
    pub text: String,
    /// Set if the file changed since it was indexed, so that the lines may have moved.
    pub is_stale: bool,
}

/// Symbol of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitSymbol {
    /// Name as it is written.
    pub name: String,
    /// Kind of the symbol.
    pub kind: SymbolKind,
}

/// Line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceLine {
    /// Its file.
    pub path: String,
    /// Line, from 1.
    pub line: u32,
    /// Text of the line without the space around it; empty if the file cannot be read any more.
    pub text: String,
}

/// Definition of a symbol with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineEntry {
    /// Name as it is written.
    pub name: String,
    /// Kind of the symbol.
    pub kind: SymbolKind,
    /// First line of the definition.
    pub at: SourceLine,
    /// Last line of the definition, from 1.
    pub last_line: u32,
    /// Number of definitions around it.
    pub depth: u32,
}

/// Places of a symbol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolLocations {
    /// Definitions, types and outer ones first.
    pub definitions: Vec<OutlineEntry>,
    /// Uses, by file.
    pub references: Vec<SymbolUse>,
    /// Set if there are more than are given.
    pub is_truncated: bool,
}

/// Use of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolUse {
    /// The line.
    pub at: SourceLine,
    /// Name of the innermost function or type around it.
    pub within: Option<String>,
}

/// File of a map with its most important lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapFile {
    /// Its path.
    pub path: String,
    /// Lines, from 1, with their text.
    pub lines: Vec<(u32, String)>,
}

impl MapFile {
    /// Renders files as a map: a path, and below it the lines with their numbers.
    pub fn render(files: &[Self]) -> String {
        let mut text = String::new();
        for file in files {
            text.push_str(&format!("{}:\n", file.path));
            for (line, row) in &file.lines {
                text.push_str(&format!("{line:>5}  {row}\n"));
            }
        }
        text
    }
}

names! {
    /// Kind of a symbol.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum SymbolKind {
        /// A class or record.
        Class = "class",
        /// A constant or variable outside of functions.
        Constant = "constant",
        /// An enumeration.
        Enum = "enum",
        /// A function.
        Function = "function",
        /// A block of methods of a type, without a name of its own.
        Impl = "impl",
        /// An interface, trait or protocol.
        Interface = "interface",
        /// A macro.
        Macro = "macro",
        /// A method.
        Method = "method",
        /// A module or namespace.
        Module = "module",
        /// A struct or union.
        Struct = "struct",
        /// Another type, such as an alias.
        Type = "type",
    }
}

impl SymbolKind {
    /// Returns whether it is a type.
    #[must_use]
    pub fn is_type(self) -> bool {
        matches!(self, Self::Class | Self::Enum | Self::Interface | Self::Struct | Self::Type)
    }
}

/// Progress of an index that is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeProgress {
    /// Files that were read.
    pub done: usize,
    /// Files that are to be read.
    pub total: usize,
}
