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
            match table.iter().find(|(.., names)| names.split(' ').any(|name| name == kind)) {
                Some((symbol, rule, _)) => Role::Definition(*symbol, *rule),
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

type Kinds = &'static [(SymbolKind, NameRule, &'static str)];

const RUST: Kinds = &[
    (Function, Name, "function_item function_signature_item"),
    (Struct, Name, "struct_item union_item"),
    (Enum, Name, "enum_item"),
    (Interface, Name, "trait_item"),
    (Impl, NameRule::Type, "impl_item"),
    (Module, NameWithBody, "mod_item"),
    (Macro, Name, "macro_definition"),
    (Constant, Name, "const_item static_item"),
    (Type, Name, "type_item associated_type"),
];

const PYTHON: Kinds = &[
    (Function, Name, "function_definition"),
    (Class, Name, "class_definition"),
    (Constant, OuterAssignment, "assignment"),
];

const JAVASCRIPT: Kinds = &[
    (Function, Name, "function_declaration generator_function_declaration function_signature"),
    (Class, Name, "class_declaration abstract_class_declaration"),
    (Method, Name, "method_definition method_signature abstract_method_signature"),
    (Constant, Variable, "variable_declarator"),
    (Function, Assigned, "assignment_expression"),
    (Interface, Name, "interface_declaration"),
    (Type, Name, "type_alias_declaration"),
    (Enum, Name, "enum_declaration"),
    (Module, Name, "internal_module module"),
];

const GO: Kinds = &[
    (Function, Name, "function_declaration"),
    (Method, Name, "method_declaration method_elem"),
    (Type, Name, "type_spec type_alias"),
    (Constant, Variable, "const_spec var_spec"),
];

const JAVA: Kinds = &[
    (Class, Name, "class_declaration record_declaration"),
    (Interface, Name, "interface_declaration annotation_type_declaration"),
    (Enum, Name, "enum_declaration"),
    (Method, Name, "method_declaration constructor_declaration"),
    (Constant, Name, "enum_constant"),
];

const C: Kinds = &[
    (Function, Declarator, "function_definition"),
    (Struct, NameWithBody, "struct_specifier union_specifier"),
    (Enum, NameWithBody, "enum_specifier"),
    (Class, NameWithBody, "class_specifier"),
    (Module, Name, "namespace_definition"),
    (Interface, Name, "concept_definition"),
    (Type, Name, "alias_declaration"),
    (Type, Declarator, "type_definition"),
    (Macro, Name, "preproc_def preproc_function_def"),
];

const C_SHARP: Kinds = &[
    (Class, Name, "class_declaration record_declaration"),
    (Struct, Name, "struct_declaration"),
    (Interface, Name, "interface_declaration"),
    (Enum, Name, "enum_declaration"),
    (Type, Name, "delegate_declaration"),
    (Method, Name, "method_declaration constructor_declaration property_declaration"),
    (Function, Name, "local_function_statement"),
    (Module, Name, "namespace_declaration"),
];

const PHP: Kinds = &[
    (Class, Name, "class_declaration"),
    (Interface, Name, "interface_declaration trait_declaration"),
    (Enum, Name, "enum_declaration"),
    (Function, Name, "function_definition"),
    (Method, Name, "method_declaration"),
];

const RUBY: Kinds = &[(Class, Name, "class"), (Module, Name, "module"), (Method, Name, "method singleton_method")];

const BASH: Kinds = &[(Function, Name, "function_definition")];

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
