//! The arguments that a tool can be given for a request: few, and all of them make sense.
//!
//! A free string is right less than half the time. Paths that exist, or words that the person wrote, are nearly always.

use serde_json::{Value, json};

use super::{
    candidates::Tool,
    naming::{in_project, name, named_files, named_folder},
    words::{is_glob, is_path_like, is_telling, quoted, words},
};

/// Possible arguments at the most; the model chooses among them by their words.
const MOST: usize = 20;

/// The endings of files that people name by kind.
pub(super) const KINDS: &[(&str, &str)] = &[
    ("csv", "*.csv"),
    ("excel", "*.xlsx"),
    ("html", "*.html"),
    ("image", "*.{png,jpg,jpeg,gif,webp,svg}"),
    ("images", "*.{png,jpg,jpeg,gif,webp,svg}"),
    ("javascript", "*.js"),
    ("json", "*.json"),
    ("log", "*.log"),
    ("logs", "*.log"),
    ("markdown", "*.md"),
    ("pdf", "*.pdf"),
    ("pdfs", "*.pdf"),
    ("photos", "*.{png,jpg,jpeg,gif,webp,svg}"),
    ("pictures", "*.{png,jpg,jpeg,gif,webp,svg}"),
    ("python", "*.py"),
    ("rust", "*.rs"),
    ("text", "*.txt"),
    ("toml", "*.toml"),
    ("txt", "*.txt"),
    ("typescript", "*.ts"),
    ("word", "*.docx"),
    ("yaml", "*.{yaml,yml}"),
];

/// Candidates for the arguments of a tool: at least one, best guess first, at most [`MOST`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Arguments {
    choices: Vec<Value>,
    /// Set if the request names a file that exists.
    pub(crate) names_file: bool,
}

impl Arguments {
    fn of(choices: impl IntoIterator<Item = Value>, names_file: bool) -> Option<Self> {
        let choices: Vec<Value> = choices.into_iter().take(MOST).collect();
        (!choices.is_empty()).then_some(Self { choices, names_file })
    }

    /// The arguments, if there is only one way.
    pub(crate) fn only(&self) -> Option<String> {
        match self.choices.as_slice() {
            [only] => Some(only.to_string()),
            _ => None,
        }
    }

    /// A regular expression that matches each of them as JSON, and nothing else.
    pub(crate) fn pattern(&self) -> String {
        let choices: Vec<String> = self.choices.iter().map(|choice| escape(&choice.to_string())).collect();
        format!("({})", choices.join("|"))
    }
}

/// The ways to call a tool for a request; none where the request holds nothing to call it with.
pub(crate) fn for_tool(tool: Tool, request: &str, known_paths: &[String]) -> Option<Arguments> {
    match tool {
        Tool::Now => Arguments::of([json!({})], false),
        Tool::ReadFile => {
            let named = named_files(request, known_paths);
            let exists = !named.is_empty();
            let paths = if exists { named } else { guessed_files(request, known_paths) };
            Arguments::of(paths.iter().map(|path| json!({ "path": path })), exists)
        }
        Tool::ListFiles => {
            let folder = named_folder(request, known_paths);
            Arguments::of([folder.map_or_else(|| json!({}), |path| json!({ "path": path }))], false)
        }
        Tool::FindFiles => {
            Arguments::of(name_patterns(request).into_iter().map(|pattern| json!({ "pattern": pattern })), false)
        }
        Tool::Grep => {
            let call = |pattern: &str| json!({ "pattern": escape(pattern), "ignore_case": true });
            match quoted(request) {
                Some(phrase) => Arguments::of([call(phrase)], false),
                None => Arguments::of(telling_words(request).map(call), false),
            }
        }
        // Where a document is asked of, that is known by its words.
        Tool::SearchFile => None,
    }
}

/// Files that may be meant when no known file is named: a word that looks like a path (the tool will say that it is not
/// there), or any file when the person speaks of "the file".
fn guessed_files<'a>(request: &'a str, known_paths: &'a [String]) -> Vec<&'a str> {
    let written: Vec<&str> = words(request).filter(|word| is_path_like(word)).collect();
    if !written.is_empty() {
        return written;
    }
    const ANY: &[&str] = &["file", "document", "upload", "uploaded", "attachment", "attached"];
    let means_one = words(request).any(|word| ANY.contains(&word.to_lowercase().as_str()));
    // Newest first: what was just uploaded is what people speak of. In a project, no file is meant more than another.
    let own =
        known_paths.iter().map(String::as_str).filter(|path| known_paths.len() == 1 || in_project(path).is_none());
    if means_one { own.take(1).collect() } else { Vec::new() }
}

/// Globs for the files that the request asks for.
fn name_patterns(request: &str) -> Vec<String> {
    let written = words(request).filter(|word| is_path_like(word) || is_glob(word));
    let mut patterns: Vec<String> = written.map(|word| name(word).to_owned()).collect();
    let endings = words(request).filter_map(|word| word.strip_prefix('.')).filter(|ending| {
        (1..=8).contains(&ending.len()) && ending.chars().all(|letter| letter.is_ascii_alphanumeric())
    });
    patterns.extend(endings.map(|ending| format!("*.{ending}")));
    let lower: Vec<String> = words(request).map(str::to_lowercase).collect();
    patterns.extend(
        KINDS.iter().filter(|(kind, _)| lower.iter().any(|word| word == kind)).map(|(_, glob)| (*glob).to_owned()),
    );
    if patterns.is_empty() {
        let plain =
            telling_words(request).filter(|word| word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')));
        patterns.extend(plain.map(|word| format!("*{word}*")));
    }
    patterns
}

fn telling_words(request: &str) -> impl Iterator<Item = &str> {
    words(request).filter(|word| is_telling(word))
}

/// A regular expression that matches a text and nothing else.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] = &[
        "uploads/notes.txt",
        "uploads/todo.md",
        "outputs/Report 2026.md",
        "src/main.rs",
        "src/lib.rs",
        "docs/main.rs",
    ];

    fn choices(tool: Tool, request: &str) -> Vec<String> {
        let known: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
        for_tool(tool, request, &known)
            .map(|arguments| arguments.choices.iter().map(Value::to_string).collect())
            .unwrap_or_default()
    }

    fn check(tool: Tool, request: &str, expected: &[&str]) {
        assert_eq!(choices(tool, request), expected, "{tool:?} {request:?}");
    }

    #[test]
    fn files_are_named_by_path_name_or_stem() {
        let read = |request: &str, expected: &[&str]| check(Tool::ReadFile, request, expected);
        read("Summarise uploads/notes.txt", &[r#"{"path":"uploads/notes.txt"}"#]);
        read("Summarise NOTES.TXT.", &[r#"{"path":"uploads/notes.txt"}"#]);
        read("read my notes", &[r#"{"path":"uploads/notes.txt"}"#]);
        read("What's in notes.txt's first line?", &[r#"{"path":"uploads/notes.txt"}"#]);
        read("open the report 2026.md please", &[r#"{"path":"outputs/Report 2026.md"}"#]);
        read("show src/main.rs", &[r#"{"path":"src/main.rs"}"#]);
        read("show main.rs", &[r#"{"path":"src/main.rs"}"#, r#"{"path":"docs/main.rs"}"#]);
        read("read other.txt", &[r#"{"path":"other.txt"}"#]);
        read("read the file I uploaded", &[r#"{"path":"uploads/notes.txt"}"#]);
        read("Hello!", &[]);
        read("What is the meaning of life?", &[]);
        read("read ../../etc/passwd.txt", &[]);
    }

    #[test]
    fn folders_words_and_kinds_are_taken_from_the_request() {
        check(Tool::Now, "What time is it?", &["{}"]);
        check(Tool::ListFiles, "List my files", &["{}"]);
        check(Tool::ListFiles, "what is in src/?", &[r#"{"path":"src"}"#]);
        check(Tool::ListFiles, "list the files in Uploads", &[r#"{"path":"uploads"}"#]);
        check(Tool::FindFiles, "find all markdown files", &[r#"{"pattern":"*.md"}"#]);
        check(Tool::FindFiles, "find files that end in .txt", &[r#"{"pattern":"*.txt"}"#]);
        check(Tool::FindFiles, "Where is src/config.yaml?", &[r#"{"pattern":"config.yaml"}"#]);
        check(Tool::FindFiles, "find the budget", &[r#"{"pattern":"*budget*"}"#]);
        check(Tool::Grep, "search for \"net (profit)\"", &[r#"{"pattern":"net \\(profit\\)","ignore_case":true}"#]);
        check(Tool::Grep, "which files mention the budget?", &[r#"{"pattern":"budget","ignore_case":true}"#]);
        check(Tool::Grep, "grep", &[]);
    }

    #[test]
    fn one_way_needs_no_model_and_many_become_one_pattern() {
        let known: Vec<String> = PATHS.iter().map(|path| (*path).to_owned()).collect();
        let one = for_tool(Tool::ReadFile, "read notes.txt", &known).unwrap();
        assert_eq!(one.only().as_deref(), Some(r#"{"path":"uploads/notes.txt"}"#));
        assert!(one.names_file);
        let two = for_tool(Tool::ReadFile, "read main.rs", &known).unwrap();
        assert_eq!(two.only(), None);
        assert_eq!(two.pattern(), r#"(\{\"path\"\:\"src\/main\.rs\"\}|\{\"path\"\:\"docs\/main\.rs\"\})"#);
        let many: Vec<String> = (0..1000).map(|number| format!("f{number}/same.txt")).collect();
        assert_eq!(for_tool(Tool::ReadFile, "read same.txt", &many).unwrap().choices.len(), MOST);
    }

    #[test]
    fn hostile_paths_stay_inside_their_string() {
        let known = vec!["a\"}|.*\n\\.txt".to_owned()];
        let arguments = for_tool(Tool::ReadFile, "read the file", &known).unwrap();
        let parsed: Value = serde_json::from_str(&arguments.only().unwrap()).unwrap();
        assert_eq!(parsed, json!({ "path": "a\"}|.*\n\\.txt" }));
    }
}
