//! Grammars, with the kinds of their nodes looked up once.

use std::sync::OnceLock;

use agentd_core::code::SymbolKind;

use super::{
    Language,
    kinds::{NameRule, definitions, is_identifier},
};

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
