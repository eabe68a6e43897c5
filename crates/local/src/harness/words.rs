//! Words of a request: which of them mean something, which name files.

/// Words that say nothing of what is looked for.
const EMPTY: &[&str] = &[
    "a",
    "about",
    "all",
    "an",
    "and",
    "any",
    "are",
    "at",
    "be",
    "by",
    "can",
    "cat",
    "contain",
    "contains",
    "content",
    "contents",
    "could",
    "code",
    "display",
    "do",
    "document",
    "documents",
    "does",
    "every",
    "file",
    "files",
    "find",
    "folder",
    "for",
    "from",
    "get",
    "give",
    "grep",
    "has",
    "have",
    "hello",
    "how",
    "i",
    "in",
    "inside",
    "is",
    "it",
    "its",
    "let",
    "list",
    "locate",
    "look",
    "me",
    "mention",
    "mentions",
    "mentioned",
    "my",
    "name",
    "named",
    "of",
    "on",
    "open",
    "or",
    "our",
    "please",
    "print",
    "project",
    "read",
    "say",
    "says",
    "said",
    "search",
    "see",
    "should",
    "show",
    "string",
    "tell",
    "text",
    "that",
    "the",
    "there",
    "these",
    "this",
    "to",
    "us",
    "view",
    "want",
    "was",
    "we",
    "what",
    "what's",
    "whats",
    "where",
    "which",
    "who",
    "will",
    "with",
    "within",
    "word",
    "words",
    "workspace",
    "would",
    "write",
    "written",
    "you",
    "your",
    "called",
    "phrase",
    "occurrences",
    "look",
    "into",
    "uploads",
    "uploaded",
];

/// The words of a text as they stand there, without the punctuation around them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches(is_opening).trim_end_matches(is_closing))
        .map(|word| word.strip_suffix("'s").unwrap_or(word))
        .filter(|word| !word.is_empty())
}

fn is_opening(letter: char) -> bool {
    let is_latin = matches!(
        letter,
        '"' | '\'' | '`' | '(' | '[' | '{' | '<' | '“' | '‘' | '„' | '«' | ',' | ';' | ':' | '!' | '?'
    );
    is_latin
        || matches!(letter, '？' | '！' | '，' | '。' | '：' | '；' | '「' | '」' | '《' | '》' | '（' | '）' | '؟')
}

fn is_closing(letter: char) -> bool {
    is_opening(letter) || matches!(letter, '.' | ')' | ']' | '}' | '>' | '”' | '’' | '»')
}

/// Returns whether a word is one of a list, whose words have a space between them.
pub(crate) fn among(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Returns whether a word tells what is looked for.
pub(crate) fn is_telling(word: &str) -> bool {
    let lower = word.to_lowercase();
    !EMPTY.contains(&lower.as_str()) && lower.chars().any(char::is_alphanumeric)
}

/// Returns whether a word looks like the path of a file: it has a folder or an extension.
pub(crate) fn is_path_like(word: &str) -> bool {
    if word.contains("://") || word.contains("..") {
        return false;
    }
    let (folders, name) = word.rsplit_once('/').unwrap_or(("", word));
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty() || !folders.is_empty());
    let has_extension = extension.is_some_and(|(_, extension)| {
        (1..=8).contains(&extension.len())
            && extension.chars().all(|letter| letter.is_ascii_alphanumeric())
            && extension.chars().any(|letter| letter.is_ascii_alphabetic())
    });
    has_extension && name.chars().any(char::is_alphanumeric)
}

/// Returns whether a word is one of those that the name of a file is made of, whatever its case.
pub(crate) fn names_file(word: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let word = word.to_lowercase();
    name.split(|letter: char| !letter.is_alphanumeric()).any(|part| part == word)
}

/// Returns whether a word is a pattern of names, and no product of numbers.
pub(crate) fn is_glob(word: &str) -> bool {
    word.contains('*') && word.contains(|letter: char| letter.is_alphabetic() || letter == '/')
}

/// The first text in quotes.
pub(crate) fn quoted(text: &str) -> Option<&str> {
    for (open, close) in [('"', '"'), ('“', '”'), ('`', '`'), ('„', '“'), ('«', '»')] {
        let inner = text.split_once(open).and_then(|(_, rest)| rest.split_once(close)).map(|(inner, _)| inner);
        if let Some(inner) = inner.filter(|inner| !inner.trim().is_empty()) {
            return Some(inner);
        }
    }
    None
}

/// About how many tokens a text has: a quarter of its letters where they are Latin, two for each other letter.
pub(crate) fn estimate_tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.chars().filter(|letter| !letter.is_ascii()).count();
    ascii.div_ceil(4) + 2 * other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_the_punctuation_around_them() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        check("Read \"uploads/a b.txt\", please!", &["Read", "uploads/a", "b.txt", "please"]);
        check("What's in notes.txt?", &["What", "in", "notes.txt"]);
        check("(see .gitignore)", &["see", ".gitignore"]);
        check(" ... ", &[]);
        check("《合同》，金额是多少？", &["合同》，金额是多少"]);
    }

    #[test]
    fn a_file_is_named_by_whole_words() {
        let check =
            |word: &str, expected: bool| assert_eq!(names_file(word, "uploads/Revenue-2024.pdf"), expected, "{word}");
        check("revenue", true);
        check("2024", true);
        check("load", false);
        check("even", false);
        check("uploads", false);
    }

    #[test]
    fn paths_have_a_folder_or_an_extension() {
        let check = |word: &str, expected: bool| assert_eq!(is_path_like(word), expected, "{word}");
        check("notes.txt", true);
        check("uploads/todo.md", true);
        check("src/main.rs", true);
        check("a.b.c", true);
        check("3.14", false);
        check("notes", false);
        check("and/or", false);
        check("http://x.org/a.txt", false);
        check("../../etc/passwd.txt", false);
        check("e.g", true);
        check(".", false);
    }

    #[test]
    fn quotes_are_found() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(quoted(text), expected, "{text}");
        check("search for \"net profit\" now", Some("net profit"));
        check("find “x y” there", Some("x y"));
        check("grep `a|b`", Some("a|b"));
        check("say \"\"", None);
        check("it's open\"", None);
    }
}
