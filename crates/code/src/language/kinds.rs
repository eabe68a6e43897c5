//! Kinds of nodes that define something, language by language, and where such a node has its name.
//!
//! The grammars bring queries for this, but those know neither the blocks that only hold others (an `impl`) nor most uses of
//! a type, and a query engine takes longer than the parser. A table that is read in one walk does both.

use agentd_core::code::SymbolKind::{
    self, Class, Constant, Enum, Function, Impl, Interface, Macro, Method, Module, Struct, Type,
};

use super::Language;

/// Place of a definition's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// In the field `name`.
    Name,
    /// In the field `type`: blocks such as `impl`.
    Type,
    /// At the end of a chain of declarators, as in C.
    Declarator,
    /// In the field `name`, and only for what has a body: `struct a { … }` and not `struct a *b`.
    NameWithBody,
    /// On the left of an assignment whose right side is a function or a class.
    Assigned,
    /// A variable that holds a function or a class, or that is not inside of a function.
    Variable,
    /// On the left of an assignment outside of functions.
    OuterAssignment,
}

use NameRule::{Assigned, Declarator, Name, NameWithBody, OuterAssignment, Variable};

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

/// Kinds of nodes that define something.
pub(super) fn definitions(language: Language) -> Kinds {
    match language {
        Language::Bash => BASH,
        Language::C | Language::Cpp => C,
        Language::CSharp => C_SHARP,
        Language::Go => GO,
        Language::Java => JAVA,
        Language::JavaScript | Language::Tsx | Language::TypeScript => JAVASCRIPT,
        Language::Php => PHP,
        Language::Python => PYTHON,
        Language::Ruby => RUBY,
        Language::Rust => RUST,
    }
}

/// Returns whether nodes of a kind are names.
pub(super) fn is_identifier(language: Language, kind: &str) -> bool {
    match language {
        Language::Php => kind == "name",
        Language::Bash => matches!(kind, "command_name" | "variable_name"),
        Language::Ruby => matches!(kind, "identifier" | "constant"),
        _ => matches!(
            kind,
            "identifier"
                | "type_identifier"
                | "field_identifier"
                | "property_identifier"
                | "private_property_identifier"
                | "shorthand_property_identifier"
                | "shorthand_field_identifier"
                | "namespace_identifier"
                | "package_identifier"
        ),
    }
}
