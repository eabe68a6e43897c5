//! Which of the known files and folders a request names.

use super::words::{among, is_path_like, is_telling, words};

/// Where a project is mounted.
pub(crate) const PROJECT: &str = "/project";

/// Endings of files with code.
const CODE: &str = "bash c cc clj cpp cs css cxx dart ex exs go h hpp hs java jl js jsx kt lua m mjs ml php pl \
    ps1 py r rb rs scala sh sql swift ts tsx vue zig";
/// Endings of files with prose.
const PROSE: &str = "adoc docx htm html log md odt org pdf rst tex txt";

/// Words that ask for a file to be read.
const READING: &str = "read open head tail show display view print cat summarise summarize summary tl;dr tldr gist \
    overview recap contents content quote";
/// The same, as phrases.
const READING_PHRASES: &[&str] =
    &["what's in", "whats in", "what is in", "what's inside", "what is inside", "sum up", "main points"];
/// Names that are understood without their ending.
const CONVENTIONAL: &str = "readme license licence changelog contributing makefile dockerfile todo notes";

fn has_ending(path: &str, endings: &str) -> bool {
    is_path_like(path) && path.rsplit_once('.').is_some_and(|(_, ending)| among(endings, &ending.to_lowercase()))
}

/// Returns whether a word is the path of a file with code in it.
pub(crate) fn is_code_path(word: &str) -> bool {
    has_ending(word, CODE)
}

/// Returns whether a word is the path of a file with prose in it.
pub(crate) fn is_prose_path(word: &str) -> bool {
    has_ending(word, PROSE)
}

/// Returns whether a request asks to read something.
pub(crate) fn asks_to_read(request: &str) -> bool {
    let lower = request.to_lowercase();
    words(&lower).any(|word| among(READING, word)) || READING_PHRASES.iter().any(|phrase| lower.contains(phrase))
}

/// Returns whether a folder is mounted, as far as its files show.
pub(crate) fn has_project(known_paths: &[String]) -> bool {
    known_paths.iter().any(|path| in_project(path).is_some())
}

/// The path below the project, of a file in it.
pub(crate) fn in_project(path: &str) -> Option<&str> {
    path.strip_prefix(PROJECT)?.strip_prefix('/')
}

/// Folders above a file. The areas of a session count as none.
pub(crate) fn depth(path: &str) -> usize {
    in_project(path).map_or(0, |below| below.matches('/').count())
}

/// The known files that the request names: by their whole path, also from the project's root, else by their name, else
/// by their name without its ending. Of a name that is in many folders of a project, the file nearest to its root is
/// meant.
pub(crate) fn named_files<'a>(request: &str, known_paths: &'a [String]) -> Vec<&'a str> {
    let reads = asks_to_read(request);
    let request = request.to_lowercase();
    let tokens: Vec<&str> = words(&request).map(|word| word.strip_prefix("./").unwrap_or(word)).collect();
    // A name with spaces is no single word, so it is looked for as it stands.
    let is_written = |part: &str| tokens.contains(&part) || stands_in(&request, part);
    let by_path = |path: &str| {
        let below = in_project(path).filter(|below| is_path_like(below) || reads);
        is_written(path) || below.is_some_and(is_written)
    };
    let by_name = |path: &str| {
        let name = name(path);
        let is_end =
            |token: &&str| token.contains('/') && path.strip_suffix(*token).is_some_and(|rest| rest.ends_with('/'));
        let fits = is_path_like(name) || reads || in_project(path).is_none();
        fits && is_written(name) || tokens.iter().any(is_end)
    };
    let by_stem = |path: &str| {
        let Some(stem) = stem(path).filter(|stem| tokens.contains(stem)) else { return false };
        // A project holds many files, and some of them have the names of what people talk about.
        let says = tokens.iter().any(|word| among("say says", word)) || among(CONVENTIONAL, stem);
        in_project(path).is_none() || reads || says && is_the(&tokens, stem) || asks_what_it_does(&tokens, stem)
    };
    let named = |is_named: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        known_paths.iter().map(String::as_str).filter(|path| is_named(&path.to_lowercase())).collect()
    };
    let whole = named(&by_path);
    if !whole.is_empty() {
        return whole;
    }
    let mut meant = named(&by_name);
    if meant.is_empty() {
        meant = named(&by_stem);
    }
    let highest = meant.iter().map(|path| depth(path)).min();
    meant.retain(|path| Some(depth(path)) == highest);
    meant
}

/// Returns whether a request is "What does X do?"
fn asks_what_it_does(tokens: &[&str], name: &str) -> bool {
    let plain =
        |word: &&str| *word == name || among("what does the do module script file class function exactly", word);
    tokens.starts_with(&["what", "does"]) && tokens.iter().all(plain) && tokens.last() == Some(&"do")
}

/// Returns whether a word has an article before it.
fn is_the(tokens: &[&str], word: &str) -> bool {
    tokens
        .windows(2)
        .any(|pair| pair[1] == word && matches!(pair[0], "the" | "this" | "my" | "our" | "your" | "project"))
}

/// Returns whether a name stands in a text with nothing joined to it.
fn stands_in(text: &str, name: &str) -> bool {
    let joins = |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '_' | '-');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + name.len()..].chars();
        let next = after.next();
        // A dot may end the sentence, or go on with another ending.
        let dotted = next == Some('.') && after.next().is_some_and(char::is_alphanumeric);
        !before.is_some_and(joins) && !next.is_some_and(joins) && !dotted
    })
}

/// The last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name without its ending, if it means anything.
pub(crate) fn stem(path: &str) -> Option<&str> {
    let name = name(path);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    (stem.len() >= 3 && is_telling(stem)).then_some(stem)
}

/// The folder that the request names, if there is one.
pub(crate) fn named_folder<'a>(request: &str, known_paths: &'a [String]) -> Option<&'a str> {
    let request = request.to_lowercase();
    let tokens: Vec<&str> =
        words(&request).map(|word| word.strip_prefix("./").unwrap_or(word).trim_end_matches('/')).collect();
    let folders = known_paths.iter().flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]));
    let named = |folder: &&str| {
        let lower = folder.to_lowercase();
        let below = in_project(&lower).unwrap_or(&lower);
        !lower.is_empty()
            && (tokens.contains(&lower.as_str()) || tokens.contains(&below) || tokens.contains(&name(&lower)))
    };
    folders.filter(named).min_by_key(|folder| (*folder == PROJECT, folder.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] = &[
        "uploads/notes.txt",
        "/project/README.md",
        "/project/greet.py",
        "/project/Über uns.md",
        "/project/报告.txt",
        "/project/LICENSE",
        "/project/hello",
        "/project/docs/README.md",
        "/project/docs/guide.md",
        "/project/src/main.rs",
        "/project/src/love.py",
        "/project/src/util/main.rs",
    ];

    fn known() -> Vec<String> {
        PATHS.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn files_of_a_project_are_named_as_people_see_them() {
        let known = known();
        let check = |request: &str, expected: &[&str]| assert_eq!(named_files(request, &known), expected, "{request}");
        check("Summarise README.md", &["/project/README.md"]);
        check("summarise ./readme.md", &["/project/README.md"]);
        check("Summarise the readme", &["/project/README.md"]);
        check("What does docs/README.md say?", &["/project/docs/README.md"]);
        check("What does /project/docs/guide.md say?", &["/project/docs/guide.md"]);
        check("What is in the guide? Show it", &["/project/docs/guide.md"]);
        check("What does greet.py do?", &["/project/greet.py"]);
        check("show main.rs", &["/project/src/main.rs"]);
        check("show util/main.rs", &["/project/src/util/main.rs"]);
        check("Open Über uns.md", &["/project/Über uns.md"]);
        check("read 报告.txt", &["/project/报告.txt"]);
        check("Which license? Show the license", &["/project/LICENSE"]);
        check("Summarise my notes", &["uploads/notes.txt"]);
        // Words that happen to be names of files.
        check("Hello!", &[]);
        check("What is love?", &[]);
        check("What is a driver's license?", &[]);
        check("Show me love", &["/project/src/love.py"]);
        check("What does greet do?", &["/project/greet.py"]);
        check("What does the guide say about rain?", &["/project/docs/guide.md"]);
        check("Sum up docs/guide.md and README.md", &["/project/README.md", "/project/docs/guide.md"]);
    }

    #[test]
    fn folders_are_named_by_path_or_name() {
        let known = known();
        let check = |request: &str, expected: Option<&str>| {
            assert_eq!(named_folder(request, &known), expected, "{request}");
        };
        check("list src", Some("/project/src"));
        check("what is in src/util/?", Some("/project/src/util"));
        check("How many files are in this project?", Some("/project"));
        check("files in the docs folder of this project", Some("/project/docs"));
        check("list uploads", Some("uploads"));
        check("list everything", None);
    }
}
