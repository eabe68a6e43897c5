//! Table of highlighted languages, with their comments, strings and keywords.

/// Marks around a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextMark {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    /// True if a backslash escapes the next character.
    pub(super) escapes: bool,
    /// True if the string may span lines.
    pub(super) spans_lines: bool,
}

/// Shape of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Words, strings and comments.
    Words,
    /// Like [`Shape::Words`], but a word or string before this sign is a key.
    Keys(char),
    /// A diff, whose lines are distinguished by their first character.
    Diff,
    /// Tags in angle brackets.
    Tags,
}

/// Lexical rules of a language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Language {
    /// Names after a fence, in lower case.
    pub(super) names: &'static [&'static str],
    pub(super) shape: Shape,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) texts: &'static [TextMark],
    /// Words separated by spaces.
    pub(super) keywords: &'static str,
    /// Words separated by spaces.
    pub(super) constants: &'static str,
    /// True if keywords ignore case.
    pub(super) ignores_case: bool,
    /// True if a single apostrophe starts no string, such as that of a lifetime.
    pub(super) has_lifetimes: bool,
}

const fn text(mark: &'static str) -> TextMark {
    TextMark { open: mark, close: mark, escapes: true, spans_lines: false }
}

const fn long(mark: &'static str) -> TextMark {
    TextMark { open: mark, close: mark, escapes: true, spans_lines: true }
}

const fn raw(open: &'static str, close: &'static str) -> TextMark {
    TextMark { open, close, escapes: false, spans_lines: true }
}

const PLAIN: Language = Language {
    names: &[],
    shape: Shape::Words,
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    texts: &[text("\""), text("'")],
    keywords: "",
    constants: "true false null",
    ignores_case: false,
    has_lifetimes: false,
};

/// Defaults of languages with comments after a hash.
const HASHED: Language = Language { line_comments: &["#"], block_comment: None, ..PLAIN };

/// All highlighted languages.
pub(super) static LANGUAGES: [Language; 24] = [
    Language {
        names: &["rust", "rs"],
        texts: &[raw("r#\"", "\"#"), raw("r\"", "\""), long("\"")],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match \
                   mod move mut pub ref return self static struct super trait type unsafe use where while",
        constants: "true false None Some Ok Err Self",
        has_lifetimes: true,
        ..PLAIN
    },
    Language {
        names: &["python", "py", "python3", "pycon"],
        texts: &[long("\"\"\""), long("'''"), text("\""), text("'")],
        keywords: "and as assert async await break class continue def del elif else except finally for from global if \
                   import in is lambda match nonlocal not or pass raise return try while with yield",
        constants: "True False None self cls",
        ..HASHED
    },
    Language {
        names: &["javascript", "js", "jsx", "mjs", "typescript", "ts", "tsx"],
        texts: &[text("\""), text("'"), long("`")],
        keywords: "abstract as async await break case catch class const continue declare default delete do else enum \
                   export extends finally for from function if implements import in instanceof interface let \
                   namespace new of private protected public readonly return static super switch this throw try type \
                   typeof var void while yield",
        constants: "true false null undefined NaN",
        ..PLAIN
    },
    Language {
        names: &["go", "golang"],
        texts: &[text("\""), text("'"), raw("`", "`")],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import interface \
                   map package range return select struct switch type var",
        constants: "true false nil iota",
        ..PLAIN
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "objc", "cuda"],
        keywords: "auto bool break case catch char class const constexpr continue default delete do double else enum \
                   explicit extern float for friend goto if inline int long namespace new noexcept operator override \
                   private protected public register return short signed sizeof static struct switch template this \
                   throw try typedef typename union unsigned using virtual void volatile while #include #define #if \
                   #ifdef #ifndef #else #endif #pragma",
        constants: "true false nullptr NULL",
        ..PLAIN
    },
    Language {
        names: &["java", "kotlin", "kt", "scala", "groovy", "gradle"],
        texts: &[long("\"\"\""), text("\""), text("'")],
        keywords: "abstract as boolean break byte case catch char class companion continue data def default do double \
                   else enum extends final finally float for fun if implements import in instanceof int interface \
                   internal is lateinit long match new object open override package private protected public record \
                   return sealed static super suspend switch synchronized this throw throws trait try val var void \
                   when while with yield",
        ..PLAIN
    },
    Language {
        names: &["csharp", "cs", "c#", "fsharp", "dart"],
        keywords: "abstract as async await base bool break case catch class const continue decimal default delegate \
                   do double else enum event extends final finally float for foreach get if in int interface internal \
                   is lock long namespace new object out override private protected public readonly record ref return \
                   sealed set static string struct switch this throw try typeof using var virtual void while yield",
        ..PLAIN
    },
    Language {
        names: &["swift"],
        texts: &[long("\"\"\""), text("\"")],
        keywords: "as async await break case catch class continue default defer do else enum extension for func guard \
                   if import in init inout is let private protocol public return self static struct switch throw \
                   throws try typealias var where while",
        constants: "true false nil",
        ..PLAIN
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "console", "fish", "shellsession"],
        texts: &[long("\""), raw("'", "'")],
        keywords: "case do done elif else esac exit export fi for function if in local return set source then until \
                   while",
        constants: "true false",
        ..HASHED
    },
    Language { names: &["json", "jsonc", "json5", "jsonl"], shape: Shape::Keys(':'), texts: &[text("\"")], ..PLAIN },
    Language { names: &["yaml", "yml"], shape: Shape::Keys(':'), constants: "true false null yes no", ..HASHED },
    Language {
        names: &["toml", "ini", "conf", "properties", "env", "dotenv"],
        shape: Shape::Keys('='),
        line_comments: &["#", ";"],
        texts: &[long("\"\"\""), long("'''"), text("\""), text("'")],
        ..HASHED
    },
    Language {
        names: &["html", "xml", "svg", "vue", "svelte"],
        shape: Shape::Tags,
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        ..PLAIN
    },
    Language {
        names: &["css", "scss", "less"],
        shape: Shape::Keys(':'),
        line_comments: &[],
        keywords: "@media @import @font-face @keyframes @supports !important",
        ..PLAIN
    },
    Language {
        names: &["sql", "postgresql", "mysql", "sqlite"],
        line_comments: &["--"],
        keywords: "add all alter and as asc begin between by case commit create cross database default delete desc \
                   distinct drop else end exists foreign from full group having if in index inner insert into is join \
                   key left like limit not offset on or order outer primary references returning right rollback \
                   select set table then union unique update using values view when where with",
        ignores_case: true,
        ..PLAIN
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex", "crystal"],
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure fn for if in module \
                   next not or redo require rescue retry return self super then undef unless until use when while \
                   with yield",
        constants: "true false nil",
        ..HASHED
    },
    Language {
        names: &["php"],
        line_comments: &["//", "#"],
        keywords: "abstract as break case catch class const continue default do echo else elseif extends final \
                   finally fn for foreach function if implements interface match namespace new private protected \
                   public return static switch throw trait try use var while",
        ..PLAIN
    },
    Language {
        names: &["lua"],
        line_comments: &["--"],
        block_comment: Some(("--[[", "]]")),
        texts: &[raw("[[", "]]"), text("\""), text("'")],
        keywords: "and break do else elseif end for function goto if in local not or repeat return then until while",
        constants: "true false nil",
        ..PLAIN
    },
    Language {
        names: &["dockerfile", "docker", "containerfile"],
        keywords: "add arg as cmd copy entrypoint env expose from healthcheck label run shell user volume workdir",
        ignores_case: true,
        ..HASHED
    },
    Language {
        names: &["makefile", "make", "mk", "cmake"],
        keywords: "define else endef endif export ifdef ifeq ifndef ifneq include",
        ..HASHED
    },
    Language {
        names: &["r", "julia", "jl"],
        keywords: "begin break do else elseif end for function if in let module next repeat return struct using while",
        constants: "TRUE FALSE NULL NA true false nothing",
        ..HASHED
    },
    Language {
        names: &["haskell", "hs", "elm"],
        line_comments: &["--"],
        block_comment: Some(("{-", "-}")),
        texts: &[text("\"")],
        keywords: "case class data deriving do else if import in infix instance let module newtype of then type where",
        constants: "True False Nothing Just",
        ..PLAIN
    },
    Language {
        names: &["proto", "protobuf", "graphql", "gql", "terraform", "tf", "hcl", "nix"],
        line_comments: &["//", "#"],
        keywords: "data enum extend fragment import in input interface let locals message module mutation oneof \
                   output package provider query repeated resource returns rpc schema service stream syntax type \
                   union variable with",
        ..PLAIN
    },
    Language { names: &["diff", "patch"], shape: Shape::Diff, ..PLAIN },
];
