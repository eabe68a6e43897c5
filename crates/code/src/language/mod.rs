//! Programming languages: which one a file is written in, and the grammar that parses it.

mod kinds;

use std::sync::OnceLock;

use agentd_core::code::SymbolKind;

pub(crate) use self::kinds::NameRule;
use self::kinds::{definitions, is_identifier};

/// Programming language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// Shell scripts (feature `bash`).
    Bash,
    /// C and its headers.
    C,
    /// C# (feature `c-sharp`).
    CSharp,
    /// C++ (feature `cpp`; without it, headers are parsed as C).
    Cpp,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript, also with JSX.
    JavaScript,
    /// PHP (feature `php`).
    Php,
    /// Python.
    Python,
    /// Ruby (feature `ruby`).
    Ruby,
    /// Rust.
    Rust,
    /// TypeScript with JSX.
    Tsx,
    /// TypeScript.
    TypeScript,
}

/// Languages with the endings of the names of their files, in small letters.
const ENDINGS: [(Language, &[&str]); 13] = [
    (Language::Bash, &["bash", "sh", "zsh"]),
    (Language::C, &["c", "h"]),
    (Language::CSharp, &["cs"]),
    (Language::Cpp, &["c++", "cc", "cpp", "cu", "cuh", "cxx", "h++", "hh", "hpp", "hxx", "inl", "ipp"]),
    (Language::Go, &["go"]),
    (Language::Java, &["java"]),
    (Language::JavaScript, &["cjs", "es6", "js", "jsx", "mjs"]),
    (Language::Php, &["php", "phtml"]),
    (Language::Python, &["py", "pyi", "pyw"]),
    (Language::Ruby, &["gemspec", "rake", "rb"]),
    (Language::Rust, &["rs"]),
    (Language::Tsx, &["tsx"]),
    (Language::TypeScript, &["cts", "mts", "ts"]),
];

impl Language {
    /// Returns the language that the ending of a path stands for, also if this build has no grammar for it.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, ending) = name.rsplit_once('.')?;
        let ending = ending.to_ascii_lowercase();
        ENDINGS.iter().find(|(_, known)| known.contains(&ending.as_str())).map(|(language, _)| *language)
    }

    /// Returns whether code of one can use what code of the other defines.
    #[must_use]
    pub fn is_kin(self, other: Self) -> bool {
        let family = |language: Self| match language {
            Self::Cpp => Self::C,
            Self::Tsx | Self::TypeScript => Self::JavaScript,
            other => other,
        };
        family(self) == family(other)
    }

    /// Returns whether this build has the grammar, so that files are cut at their definitions.
    #[must_use]
    pub fn is_parsed(self) -> bool {
        self.grammar().is_some()
    }
}

/// Part that a node plays in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Something that is only walked through.
    Other,
    /// A definition.
    Definition(SymbolKind, NameRule),
    /// A name.
    Identifier,
}

/// Grammar of a language with the role of each kind of node.
pub(crate) struct Grammar {
    /// The grammar.
    pub(crate) language: tree_sitter::Language,
    roles: Vec<Role>,
}

impl Grammar {
    fn new(language: Language, grammar: tree_sitter::Language) -> Self {
        let table = definitions(language);
        let kinds = u16::try_from(grammar.node_kind_count()).unwrap_or(u16::MAX);
        let role = |id: u16| {
            let Some(kind) = grammar.node_kind_for_id(id).filter(|_| grammar.node_kind_is_named(id)) else {
                return Role::Other;
            };
            match table.iter().find(|(name, ..)| *name == kind) {
                Some((_, symbol, rule)) => Role::Definition(*symbol, *rule),
                None if is_identifier(language, kind) => Role::Identifier,
                None => Role::Other,
            }
        };
        let roles = (0..kinds).map(role).collect();
        Self { language: grammar, roles }
    }

    /// Role of a kind of node.
    pub(crate) fn role(&self, kind: u16) -> Role {
        self.roles.get(usize::from(kind)).copied().unwrap_or(Role::Other)
    }
}

impl Language {
    /// Returns the grammar, unless this build has none. Built when first asked for.
    pub(crate) fn grammar(self) -> Option<&'static Grammar> {
        static GRAMMARS: [OnceLock<Option<Grammar>>; 13] = [const { OnceLock::new() }; 13];
        GRAMMARS.get(self as usize)?.get_or_init(|| Some(Grammar::new(self, self.parser_language()?))).as_ref()
    }

    fn parser_language(self) -> Option<tree_sitter::Language> {
        let function = match self {
            #[cfg(feature = "bash")]
            Self::Bash => tree_sitter_bash::LANGUAGE,
            #[cfg(feature = "c-sharp")]
            Self::CSharp => tree_sitter_c_sharp::LANGUAGE,
            #[cfg(feature = "cpp")]
            Self::Cpp => tree_sitter_cpp::LANGUAGE,
            #[cfg(feature = "php")]
            Self::Php => tree_sitter_php::LANGUAGE_PHP,
            #[cfg(feature = "ruby")]
            Self::Ruby => tree_sitter_ruby::LANGUAGE,
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Java => tree_sitter_java::LANGUAGE,
            Self::JavaScript => tree_sitter_javascript::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            #[cfg(not(all(
                feature = "bash",
                feature = "c-sharp",
                feature = "cpp",
                feature = "php",
                feature = "ruby"
            )))]
            _ => return None,
        };
        Some(function.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_stand_for_languages() {
        for (path, language) in [
            ("src/main.rs", Some(Language::Rust)),
            ("a/b.PY", Some(Language::Python)),
            ("x.d.ts", Some(Language::TypeScript)),
            ("view.tsx", Some(Language::Tsx)),
            ("Makefile", None),
            ("a.go/readme", None),
            ("notes.md", None),
        ] {
            assert_eq!(Language::of_path(path), language, "{path}");
        }
    }

    #[test]
    fn the_default_grammars_are_in_every_build() {
        for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c"] {
            assert!(Language::of_path(path).is_some_and(Language::is_parsed), "{path}");
        }
    }
}
