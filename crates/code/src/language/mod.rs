//! Programming languages: which one a file is written in, and the grammar that parses it.

mod grammar;
mod kinds;

pub(crate) use grammar::{Grammar, Role};
pub(crate) use kinds::NameRule;

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

/// Endings of file names, in small letters, and the languages they stand for.
const ENDINGS: [(&str, Language); 38] = [
    ("bash", Language::Bash),
    ("sh", Language::Bash),
    ("zsh", Language::Bash),
    ("c", Language::C),
    ("h", Language::C),
    ("cs", Language::CSharp),
    ("c++", Language::Cpp),
    ("cc", Language::Cpp),
    ("cpp", Language::Cpp),
    ("cu", Language::Cpp),
    ("cuh", Language::Cpp),
    ("cxx", Language::Cpp),
    ("h++", Language::Cpp),
    ("hh", Language::Cpp),
    ("hpp", Language::Cpp),
    ("hxx", Language::Cpp),
    ("inl", Language::Cpp),
    ("ipp", Language::Cpp),
    ("go", Language::Go),
    ("java", Language::Java),
    ("cjs", Language::JavaScript),
    ("es6", Language::JavaScript),
    ("js", Language::JavaScript),
    ("jsx", Language::JavaScript),
    ("mjs", Language::JavaScript),
    ("php", Language::Php),
    ("phtml", Language::Php),
    ("py", Language::Python),
    ("pyi", Language::Python),
    ("pyw", Language::Python),
    ("gemspec", Language::Ruby),
    ("rake", Language::Ruby),
    ("rb", Language::Ruby),
    ("rs", Language::Rust),
    ("tsx", Language::Tsx),
    ("cts", Language::TypeScript),
    ("mts", Language::TypeScript),
    ("ts", Language::TypeScript),
];

impl Language {
    /// Returns the language that the ending of a path stands for, also if this build has no grammar for it.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, ending) = name.rsplit_once('.')?;
        let ending = ending.to_ascii_lowercase();
        ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, language)| *language)
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
