//! Programming languages: detection by file name, and grammars.

use std::sync::OnceLock;

use NameRule::{Assigned, Declarator, Name, NameWithBody, OuterAssignment, Variable};
use agentd_core::code::SymbolKind::{
    self, Class, Constant, Enum, Function, Impl, Interface, Macro, Method, Module, Struct, Type,
};

/// Programming language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// Shell scripts (feature `bash`).
    Bash,
    /// C source files and headers.
    C,
    /// C# source files (feature `c-sharp`).
    CSharp,
    /// C++ source files (feature `cpp`). Headers named `.h` are parsed as C.
    Cpp,
    /// Go source files, `.go`.
    Go,
    /// Java source files, `.java`.
    Java,
    /// JavaScript source files, including JSX.
    JavaScript,
    /// PHP source files (feature `php`).
    Php,
    /// Python source files and stubs.
    Python,
    /// Ruby source files (feature `ruby`).
    Ruby,
    /// Rust source files, `.rs`.
    Rust,
    /// TypeScript source files with JSX.
    Tsx,
    /// TypeScript source files without JSX.
    TypeScript,
}

/// Languages with their lowercase file extensions and the node kinds of definitions.
const LANGUAGES: [(Language, &[&str], Kinds); 13] = [
    (Language::Bash, &["bash", "sh", "zsh"], BASH),
    (Language::C, &["c", "h"], C),
    (Language::CSharp, &["cs"], C_SHARP),
    (Language::Cpp, &["c++", "cc", "cpp", "cu", "cuh", "cxx", "h++", "hh", "hpp", "hxx", "inl", "ipp"], C),
    (Language::Go, &["go"], GO),
    (Language::Java, &["java"], JAVA),
    (Language::JavaScript, &["cjs", "es6", "js", "jsx", "mjs"], JAVASCRIPT),
    (Language::Php, &["php", "phtml"], PHP),
    (Language::Python, &["py", "pyi", "pyw"], PYTHON),
    (Language::Ruby, &["gemspec", "rake", "rb"], RUBY),
    (Language::Rust, &["rs"], RUST),
    (Language::Tsx, &["tsx"], JAVASCRIPT),
    (Language::TypeScript, &["cts", "mts", "ts"], JAVASCRIPT),
];

impl Language {
    /// Returns the language for a file extension, even if this build contains no grammar for it.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, ending) = name.rsplit_once('.')?;
        let ending = ending.to_ascii_lowercase();
        LANGUAGES.iter().find(|(_, known, _)| known.contains(&ending.as_str())).map(|(language, ..)| *language)
    }

    /// Returns true if code in one language can use definitions in the other.
    pub fn is_kin(self, other: Self) -> bool {
        let family = |language: Self| match language {
            Self::Cpp => Self::C,
            Self::Tsx | Self::TypeScript => Self::JavaScript,
            other => other,
        };
        family(self) == family(other)
    }

    /// Returns the grammar, which is built on first use, or `None` if this build does not contain it.
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
            #[allow(unreachable_patterns, reason = "unreachable if all languages are enabled")]
            _ => return None,
        };
        Some(function.into())
    }
}

/// Role of a node in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Node that is only traversed.
    Other,
    /// Definition of a symbol.
    Definition(SymbolKind, NameRule),
    /// Name of a symbol.
    Identifier,
}

/// Grammar of a language, with the role of each node kind.
pub(crate) struct Grammar {
    pub(crate) language: tree_sitter::Language,
    roles: Vec<Role>,
}

impl Grammar {
    fn new(language: Language, grammar: tree_sitter::Language) -> Self {
        let table = LANGUAGES.iter().find(|(known, ..)| *known == language).map_or(&[][..], |(.., kinds)| *kinds);
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

    pub(crate) fn role(&self, kind: u16) -> Role {
        self.roles.get(usize::from(kind)).copied().unwrap_or(Role::Other)
    }
}

/// Location of a definition's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// In the field `name`.
    Name,
    /// In the field `type`, for blocks such as `impl`.
    Type,
    /// At the end of a chain of declarators, as in C.
    Declarator,
    /// In the field `name`, and only with a body: `struct a { … }` but not `struct a *b`.
    NameWithBody,
    /// On the left side of an assignment of a function or a class.
    Assigned,
    /// In a variable that contains a function or a class, or that is outside functions.
    Variable,
    /// On the left side of an assignment outside functions.
    OuterAssignment,
}

type Kinds = &'static [(&'static str, SymbolKind, NameRule)];

const RUST: Kinds = &[
    ("function_item", Function, Name),
    ("function_signature_item", Function, Name),
    ("struct_item", Struct, Name),
    ("union_item", Struct, Name),
    ("enum_item", Enum, Name),
    ("trait_item", Interface, Name),
    ("impl_item", Impl, NameRule::Type),
    ("mod_item", Module, NameWithBody),
    ("macro_definition", Macro, Name),
    ("const_item", Constant, Name),
    ("static_item", Constant, Name),
    ("type_item", Type, Name),
    ("associated_type", Type, Name),
];

const PYTHON: Kinds = &[
    ("function_definition", Function, Name),
    ("class_definition", Class, Name),
    ("assignment", Constant, OuterAssignment),
];

const JAVASCRIPT: Kinds = &[
    ("function_declaration", Function, Name),
    ("generator_function_declaration", Function, Name),
    ("class_declaration", Class, Name),
    ("method_definition", Method, Name),
    ("variable_declarator", Constant, Variable),
    ("assignment_expression", Function, Assigned),
    ("function_signature", Function, Name),
    ("method_signature", Method, Name),
    ("abstract_method_signature", Method, Name),
    ("abstract_class_declaration", Class, Name),
    ("interface_declaration", Interface, Name),
    ("type_alias_declaration", Type, Name),
    ("enum_declaration", Enum, Name),
    ("internal_module", Module, Name),
    ("module", Module, Name),
];

const GO: Kinds = &[
    ("function_declaration", Function, Name),
    ("method_declaration", Method, Name),
    ("method_elem", Method, Name),
    ("type_spec", Type, Name),
    ("type_alias", Type, Name),
    ("const_spec", Constant, Variable),
    ("var_spec", Constant, Variable),
];

const JAVA: Kinds = &[
    ("class_declaration", Class, Name),
    ("interface_declaration", Interface, Name),
    ("annotation_type_declaration", Interface, Name),
    ("enum_declaration", Enum, Name),
    ("record_declaration", Class, Name),
    ("method_declaration", Method, Name),
    ("constructor_declaration", Method, Name),
    ("enum_constant", Constant, Name),
];

const C: Kinds = &[
    ("function_definition", Function, Declarator),
    ("struct_specifier", Struct, NameWithBody),
    ("union_specifier", Struct, NameWithBody),
    ("enum_specifier", Enum, NameWithBody),
    ("class_specifier", Class, NameWithBody),
    ("namespace_definition", Module, Name),
    ("concept_definition", Interface, Name),
    ("alias_declaration", Type, Name),
    ("type_definition", Type, Declarator),
    ("preproc_def", Macro, Name),
    ("preproc_function_def", Macro, Name),
];

const C_SHARP: Kinds = &[
    ("class_declaration", Class, Name),
    ("struct_declaration", Struct, Name),
    ("record_declaration", Class, Name),
    ("interface_declaration", Interface, Name),
    ("enum_declaration", Enum, Name),
    ("delegate_declaration", Type, Name),
    ("method_declaration", Method, Name),
    ("constructor_declaration", Method, Name),
    ("property_declaration", Method, Name),
    ("local_function_statement", Function, Name),
    ("namespace_declaration", Module, Name),
];

const PHP: Kinds = &[
    ("class_declaration", Class, Name),
    ("interface_declaration", Interface, Name),
    ("trait_declaration", Interface, Name),
    ("enum_declaration", Enum, Name),
    ("function_definition", Function, Name),
    ("method_declaration", Method, Name),
];

const RUBY: Kinds =
    &[("class", Class, Name), ("module", Module, Name), ("method", Method, Name), ("singleton_method", Method, Name)];

const BASH: Kinds = &[("function_definition", Function, Name)];

/// Node kinds for names in most languages.
const IDENTIFIERS: &str = "identifier type_identifier field_identifier property_identifier private_property_identifier \
    shorthand_property_identifier shorthand_field_identifier namespace_identifier package_identifier";

/// Returns true if nodes of this kind are names.
fn is_identifier(language: Language, kind: &str) -> bool {
    match language {
        Language::Php => kind == "name",
        Language::Bash => matches!(kind, "command_name" | "variable_name"),
        Language::Ruby => matches!(kind, "identifier" | "constant"),
        _ => IDENTIFIERS.split(' ').any(|known| known == kind),
    }
}
