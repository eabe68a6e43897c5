//! Requests whose words leave no doubt: nothing is weighed for them.
//!
//! The first sentences of most people are of a few forms, and a model that is right nine times out of ten is wrong too
//! often for those. It also takes longer.

use serde_json::{Value, json};

use super::{
    arguments::{KINDS, escape},
    candidates::Tool,
    naming::{self, PROJECT, depth, has_project, in_project, named_files, named_folder},
    words::{among, is_path_like, is_telling, quoted, words},
};

/// Files of a project above which only its first level is listed.
const OVERVIEW: usize = 60;

/// Words that a request to list files is made of.
const LISTING: &str = "-a -al -l -la -lah all and any are can codebase contents could current currently directories directory do docs dir every \
    everything exist files folder folders give have here i in inside is it list ls me my of our please project repo \
    repository see show structure tell that the there these this to tree us view we what whats which workspace you your";
/// Those of them without which it is none.
const LISTED: &str = "files folders folder directory directories structure tree ls dir everything contents workspace";
/// Those of them that ask.
const ASKING: &str = "list ls dir show see here there this have my our in all view the";
/// Words that say where files are, and nothing else.
const PLACES: &str = "all altogether are codebase current currently do exist existing folder folders directory got has have here \
    i in inside is it my of our please project repo repository so subfolders tell that the there this total we workspace you \
    your me can count many how";
/// Words for the whole of a project.
const WHOLE: &str = "project repo repository codebase app application";
/// Words that a question about the whole of a project is made of.
const ABOUT: &str = "a about actually all an can codebase could describe do does exactly explain for give gist here is it me my of \
    our overview please purpose quick repo repository project short summarise summarize summary tell the this to understand \
    what whats what's you app application help about kind sort how work works";
/// Those of them that ask.
const ASKING_ABOUT: &str =
    "about describe do does explain gist is overview purpose summarise summarize summary tell what whats works work";
/// Verbs of a question that the text about a project answers.
const TRIED: &str = "build compile configure install run start test try use";

/// Verbs of a search, and what is left out between them and the words that are searched for.
const SEARCHES: &str = "search grep find locate look";
const FILLING: &str = "a all an any at class containing contains definition each every for function instances lines me mention mentions my occurrences of \
    phrase places references string text that the these to method struct usage usages uses variable where word words";
/// Verbs for files that have the words in them.
const HOLDING: &str = "mention mentions mentioning contain contains containing use uses using include includes import imports \
    reference references define defines have has say says call calls";
/// Participles for a word where it stands.
const HELD: &str = "used mentioned defined declared called imported set referenced";
/// Words that begin the place of a search.
const WITHIN: &str = "in inside within across through throughout anywhere everywhere here";
/// Nouns of that place.
const SEARCHED: &str = "project code codebase repo repository file files folder directory workspace everywhere anywhere here \
    source sources docs documents notes";

/// Verbs that want a file, whether it is there or not.
const OPENING: &str = "read open show display view print cat summarise summarize";
/// Beginnings of a question that a file answers.
const ANSWERED: &str = "what what's whats who when why how does do is are was which tell";
/// Words of a question about where a file is, or whether.
const SOUGHT: &str = "where named called exist exists there find locate";

/// The call that a request asks for, if there is no doubt.
pub(crate) fn call(request: &str, known_paths: &[String], offered: &[Tool]) -> Option<(Tool, Value)> {
    let request = request.replace('’', "'");
    let (tool, arguments) = counting(&request, known_paths)
        .or_else(|| listing(&request, known_paths))
        .or_else(|| searching(&request, known_paths))
        .or_else(|| reading(&request, known_paths))?;
    offered.contains(&tool).then_some((tool, arguments))
}

fn lower_words(request: &str) -> Vec<String> {
    words(request).map(str::to_lowercase).collect()
}

fn only(spoken: &[String], list: &str) -> bool {
    spoken.iter().all(|word| among(list, word))
}

fn any(spoken: &[String], list: &str) -> bool {
    spoken.iter().any(|word| among(list, word))
}

/// Returns whether a request asks for a number of files.
pub(crate) fn counts_files(request: &str) -> bool {
    let spoken = lower_words(request);
    let many = spoken.windows(2).position(|pair| pair[0] == "how" && pair[1] == "many").map(|at| at + 2);
    let count = spoken.iter().take(3).position(|word| word == "count").map(|at| at + 1);
    let Some(start) = many.or(count) else { return false };
    let files = spoken.iter().skip(start).take(4).position(|word| among("files documents", word));
    files.is_some_and(|files| !spoken.get(start + files + 1).is_some_and(|word| among(HOLDING, word)))
}

fn counting(request: &str, known_paths: &[String]) -> Option<(Tool, Value)> {
    if !counts_files(request) {
        return None;
    }
    let folder = named_folder(request, known_paths);
    let spoken = lower_words(request);
    let kind = |word: &str| KINDS.iter().find(|(kind, _)| *kind == word).map(|(_, glob)| *glob);
    let ending =
        |word: &str| word.strip_prefix('.').filter(|rest| rest.chars().all(char::is_alphanumeric)).map(str::to_owned);
    let glob = spoken.iter().find_map(|word| kind(word).map(str::to_owned).or(ending(word).map(|e| format!("*.{e}"))));
    let others = spoken.iter().any(|word| {
        let names_folder = folder.is_some_and(|folder| {
            let folder = folder.to_lowercase();
            let word = word.trim_end_matches('/');
            folder.ends_with(word)
        });
        is_telling(word) && !among(PLACES, word) && kind(word).is_none() && ending(word).is_none() && !names_folder
    });
    if others {
        return None;
    }
    let folder = folder.or_else(|| has_project(known_paths).then_some(PROJECT));
    let pattern = glob.unwrap_or_else(|| "*".to_owned());
    let arguments = match folder {
        Some(folder) => json!({ "pattern": pattern, "path": folder }),
        None => json!({ "pattern": pattern }),
    };
    Some((Tool::FindFiles, arguments))
}

fn listing(request: &str, known_paths: &[String]) -> Option<(Tool, Value)> {
    let spoken = lower_words(request);
    let folder = named_folder(request, known_paths);
    let names_folder = |word: &str| {
        let word = word.trim_end_matches('/').trim_start_matches("./");
        folder.is_some_and(|folder| {
            let folder = folder.to_lowercase();
            folder == word || folder.strip_suffix(word).is_some_and(|rest| rest.ends_with('/'))
        })
    };
    let asks_in = ["what is in", "what in", "whats in", "list", "ls", "show"].iter().any(|start| {
        let start: Vec<&str> = start.split(' ').collect();
        spoken.len() > start.len() && spoken.iter().zip(&start).all(|(word, start)| word == start)
    });
    let asks_in = asks_in && folder.is_some_and(|folder| folder != PROJECT);
    let listed = asks_in
        || spoken.iter().any(|word| among(LISTED, word) || word.ends_with('/') && names_folder(word))
        || spoken.join(" ").starts_with("what is here");
    let fits = spoken.iter().all(|word| among(LISTING, word) || names_folder(word));
    let kind = spoken.iter().find_map(|word| KINDS.iter().find(|(kind, _)| kind == word));
    if let Some((kind, glob)) = kind {
        let fits = spoken.iter().all(|word| word == kind || among(LISTING, word) || among("find for search", word));
        let files = fits && any(&spoken, "files documents") && any(&spoken, "list show find search which what are");
        return files.then(|| (Tool::FindFiles, json!({ "pattern": glob })));
    }
    if !fits || !listed || !any(&spoken, ASKING) {
        return None;
    }
    let arguments = match folder.filter(|folder| *folder != PROJECT) {
        Some(folder) => json!({ "path": folder }),
        None => everything(known_paths),
    };
    Some((Tool::ListFiles, arguments))
}

/// Arguments that list what people see as all of their files.
fn everything(known_paths: &[String]) -> Value {
    let in_view = known_paths.iter().filter(|path| in_project(path).is_some()).count();
    match in_view {
        0 => json!({}),
        // What was handed over is listed beside the project.
        _ if in_view < known_paths.len() => json!({}),
        1..=OVERVIEW => json!({ "path": PROJECT }),
        _ => json!({ "path": PROJECT, "depth": 1 }),
    }
}

fn searching(request: &str, known_paths: &[String]) -> Option<(Tool, Value)> {
    let plain: Vec<&str> = words(request).collect();
    let (sought, place) = sought(&plain)?;
    let text = match quoted(request) {
        Some(text) => text.to_owned(),
        None => plain_text(sought)?,
    };
    let place = place.join(" ");
    let path = match *named_files(&place, known_paths).as_slice() {
        [file] => Some(file),
        _ => named_folder(&place, known_paths).filter(|folder| *folder != PROJECT),
    };
    let mut arguments = json!({ "pattern": escape(&text), "ignore_case": true });
    if let Some(path) = path {
        arguments["path"] = path.into();
    }
    Some((Tool::Grep, arguments))
}

/// The words that are searched for, and those that say where.
fn sought<'a>(plain: &'a [&'a str]) -> Option<(&'a [&'a str], &'a [&'a str])> {
    let lower: Vec<String> = plain.iter().map(|word| word.to_lowercase()).collect();
    let is = |at: usize, list: &str| lower.get(at).is_some_and(|word| among(list, word));
    let start = lower.iter().take_while(|word| among("please can could would you hey hi ok now then me", word)).count();
    let within = |from: usize| (from..lower.len()).find(|at| is(*at, WITHIN)).unwrap_or(lower.len());
    let filled = |from: usize| (from..lower.len()).find(|at| !is(*at, FILLING)).unwrap_or(lower.len());
    // "Which files mention X?", "How many files mention X?"
    let files = if is(start, "which what") { start + 1 } else { start + 2 };
    let asks = is(start, "which what") || is(start, "how") && is(start + 1, "many");
    if asks && is(files, "file files documents document") && is(files + 1, HOLDING) {
        let from = filled(files + 2);
        let to = within(from);
        return Some((&plain[from..to], &plain[to..]));
    }
    // "Is there any X in this project?"
    if is(start, "is are") && is(start + 1, "there") {
        let from = filled(start + 2);
        let to = within(from);
        let placed = (to..lower.len()).any(|at| is(at, "project code codebase repo repository files"));
        return placed.then(|| (&plain[from..to], &plain[to..]));
    }
    // "Where is X used?"
    if is(start, "where") && is(start + 1, "is are") && lower.len() > start + 3 {
        let to = within(start + 2).min(lower.len());
        let from = filled(start + 2);
        return (from + 1 < to && is(to - 1, HELD)).then(|| (&plain[from..to - 1], &plain[to..]));
    }
    if !is(start, SEARCHES) || is(start, "look") && !is(start + 1, "for") {
        return None;
    }
    // "Search this project for X"
    let said_for = (start + 1..lower.len()).find(|at| is(*at, "for")).filter(|at| *at > start + 1);
    if let Some(at) = said_for
        && (start + 1..at).any(|at| is(at, SEARCHED))
    {
        let from = filled(at + 1);
        return Some((&plain[from..within(from)], &plain[start + 1..at]));
    }
    // "Find X in this project"; a search needs no place, but who looks for something may mean a file's name.
    let from = filled(start + 1);
    let to = within(from);
    let placed = (to..lower.len()).any(|at| is(at, SEARCHED) || is_path_like(&lower[at]) || lower[at].ends_with('/'))
        || (start + 1..lower.len()).any(|at| is(at, "function class method struct variable usages usage definition"))
        || is(to - 1, HELD);
    let to = if from + 2 < to && is(to - 1, HELD) && is(to - 2, "is are") { to - 2 } else { to };
    (placed || is(start, "grep search")).then(|| (&plain[from..to], &plain[to..]))
}

/// The words as they stand in files, if they are no files themselves.
fn plain_text(sought: &[&str]) -> Option<String> {
    const NAMES: &str = "file files folder folders directory directories document documents";
    let names_files = |word: &&str| {
        let lower = word.to_lowercase();
        among(NAMES, &lower) || is_path_like(word) || word.contains('*') || lower.starts_with('.')
    };
    let sought: Vec<&str> = sought.iter().copied().filter(|word| *word != "please" && !word.starts_with('-')).collect();
    if sought.is_empty()
        || sought.len() > 6
        || sought.iter().any(names_files)
        || !sought.iter().any(|word| is_telling(word))
    {
        return None;
    }
    let text = sought.join(" ");
    // Many TODOs are many times "TODO".
    let single =
        text.strip_suffix('s').filter(|rest| rest.len() > 1 && rest.chars().all(|letter| letter.is_ascii_uppercase()));
    Some(single.unwrap_or(&text).to_owned())
}

fn reading(request: &str, known_paths: &[String]) -> Option<(Tool, Value)> {
    let spoken = lower_words(request);
    let begins = |list: &str| {
        let polite = "please can could would you hey hi ok now then just";
        spoken.iter().find(|word| !among(polite, word)).is_some_and(|word| among(list, word))
    };
    if let [path] = *named_files(request, known_paths).as_slice() {
        if ["how big", "how large", "what size", "the size of"].iter().any(|asked| spoken.join(" ").contains(asked)) {
            return Some((Tool::ListFiles, json!({ "path": path })));
        }
        let wanted = naming::asks_to_read(request) || begins(ANSWERED) || begins("explain describe");
        return (wanted && !any(&spoken, SOUGHT)).then(|| (Tool::ReadFile, json!({ "path": path })));
    }
    if (asks_of_project(request) || asks_how_to(&spoken)) && has_project(known_paths) {
        return match readme(known_paths) {
            Some(path) => Some((Tool::ReadFile, json!({ "path": path }))),
            None => Some((Tool::ListFiles, everything(known_paths))),
        };
    }
    if !begins(OPENING) || !named_files(request, known_paths).is_empty() {
        return None;
    }
    let mut written = words(request).filter(|word| is_path_like(word) && !among("e.g i.e a.m p.m u.s", word));
    let path = written.next().filter(|_| written.next().is_none())?;
    Some((Tool::ReadFile, json!({ "path": path })))
}

/// Returns whether a request is about the project as a whole: "What is this project?"
pub(crate) fn asks_of_project(request: &str) -> bool {
    let spoken = lower_words(request);
    only(&spoken, ABOUT) && any(&spoken, WHOLE) && any(&spoken, ASKING_ABOUT) && any(&spoken, "this the my our it")
}

/// Returns whether a request is "How do I build this project?"
fn asks_how_to(spoken: &[String]) -> bool {
    let plain =
        "how do does i we one can could to you the a this project app application repo repository code here my it on";
    let fits = spoken.iter().all(|word| among(plain, word) || among(TRIED, word));
    fits && spoken.first().is_some_and(|word| word == "how")
        && any(spoken, TRIED)
        && any(spoken, "this project repo repository")
}

/// Returns whether a request wants a file and does not say which: "Summarise the file".
pub(crate) fn lacks_file(request: &str) -> bool {
    let spoken = lower_words(request);
    let plain = "a document file for it me one please sum that the this to up us can could you";
    any(&spoken, OPENING) && spoken.len() > 1 && spoken.iter().all(|word| among(plain, word) || among(OPENING, word))
}

/// The file that tells what a project is.
fn readme(known_paths: &[String]) -> Option<&str> {
    let is_readme = |path: &&str| naming::name(path).to_lowercase().split('.').next() == Some("readme");
    known_paths.iter().map(String::as_str).filter(|path| in_project(path).is_some()).filter(is_readme).min_by_key(
        |path| {
            let is_text = path.to_lowercase().ends_with(".md");
            (depth(path), !is_text)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: &[&str] = &[
        "/project/README.md",
        "/project/greet.py",
        "/project/Grüße.txt",
        "/project/docs/README.md",
        "/project/src/main.rs",
    ];

    fn told(request: &str, paths: &[&str]) -> Option<(&'static str, Value)> {
        let known: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        call(request, &known, &Tool::ALL).map(|(tool, arguments)| (tool.name(), arguments))
    }

    #[track_caller]
    fn check_in(paths: &[&str], request: &str, expected: &str) {
        let (name, arguments) = expected.split_once(' ').unwrap();
        let expected = (name, serde_json::from_str(arguments).unwrap());
        assert_eq!(told(request, paths).unwrap_or_default(), expected, "{request}");
    }

    #[track_caller]
    fn check(request: &str, expected: &str) {
        check_in(PATHS, request, expected);
    }

    #[test]
    fn first_sentences_need_no_model() {
        check("Summarise README.md", r#"read_file {"path":"/project/README.md"}"#);
        check("Summarise the readme", r#"read_file {"path":"/project/README.md"}"#);
        check("What is in README.md?", r#"read_file {"path":"/project/README.md"}"#);
        check("What does greet.py do?", r#"read_file {"path":"/project/greet.py"}"#);
        check("show me Grüße.txt", r#"read_file {"path":"/project/Grüße.txt"}"#);
        check("Read nothing.md", r#"read_file {"path":"nothing.md"}"#);
        check("What is this project about?", r#"read_file {"path":"/project/README.md"}"#);
        check("What does this project do?", r#"read_file {"path":"/project/README.md"}"#);
        check("List the files", r#"list_workspace_files {"path":"/project"}"#);
        check("what is in docs", r#"list_workspace_files {"path":"/project/docs"}"#);
        check("list all python files", r#"find_files {"pattern":"*.py"}"#);
        check("How big is README.md?", r#"list_workspace_files {"path":"/project/README.md"}"#);
        check("How do I build this project?", r#"read_file {"path":"/project/README.md"}"#);
        check("Are there any TODOs in this project?", r#"grep {"ignore_case":true,"pattern":"TODO"}"#);
        check("find where greet is defined", r#"grep {"ignore_case":true,"pattern":"greet"}"#);
        check("find the function greet", r#"grep {"ignore_case":true,"pattern":"greet"}"#);
        check("grep -r fn .", r#"grep {"ignore_case":true,"pattern":"fn"}"#);
        check("ls", r#"list_workspace_files {"path":"/project"}"#);
        check("What files are here?", r#"list_workspace_files {"path":"/project"}"#);
        check("ls src", r#"list_workspace_files {"path":"/project/src"}"#);
        check("What's in src/?", r#"list_workspace_files {"path":"/project/src"}"#);
        check("How many files are here?", r#"find_files {"path":"/project","pattern":"*"}"#);
        check("How many Python files are there in this project?", r#"find_files {"path":"/project","pattern":"*.py"}"#);
        check("How many files are in docs?", r#"find_files {"path":"/project/docs","pattern":"*"}"#);
        check("Find TODO in this project", r#"grep {"ignore_case":true,"pattern":"TODO"}"#);
        check("Find all TODOs in the code", r#"grep {"ignore_case":true,"pattern":"TODO"}"#);
        check("Which files mention greet?", r#"grep {"ignore_case":true,"pattern":"greet"}"#);
        check("How many files mention greet?", r#"grep {"ignore_case":true,"pattern":"greet"}"#);
        check(
            "Which files contain the word greet in src",
            r#"grep {"ignore_case":true,"path":"/project/src","pattern":"greet"}"#,
        );
        check("Search this project for error codes", r#"grep {"ignore_case":true,"pattern":"error codes"}"#);
        check(
            "search for \"a.b\" in greet.py",
            r#"grep {"ignore_case":true,"path":"/project/greet.py","pattern":"a\\.b"}"#,
        );
        check("Where is main defined?", r#"grep {"ignore_case":true,"pattern":"main"}"#);
        check("grep fn", r#"grep {"ignore_case":true,"pattern":"fn"}"#);
    }

    #[test]
    fn what_may_mean_something_else_is_weighed() {
        for request in [
            "",
            "Hello!",
            "What is a folder?",
            "What are files?",
            "What is the capital of France?",
            "How many files can a folder hold on Windows?",
            "How many hours are in a day?",
            "Find README.md in this project",
            "Where is greet.py?",
            "Is there a file called greet.py?",
            "Find the budget",
            "Search",
            "Which files are new?",
            "What is a project?",
            "Where is Paris?",
            "Where are you?",
            "Is there life on Mars?",
            "Is there a file called plan.md in this project?",
            "How do I build a house?",
            "What does love do?",
            "Summarise the plot of Hamlet",
            "Write a story about a project",
        ] {
            assert_eq!(told(request, PATHS), None, "{request}");
        }
    }

    #[test]
    fn what_was_handed_over_is_listed_beside_a_project() {
        let both = &["uploads/notes.txt", "/project/README.md"];
        check_in(both, "List the files", "list_workspace_files {}");
        check_in(&[], "List the files", "list_workspace_files {}");
        check_in(&[], "How many files are here?", r#"find_files {"pattern":"*"}"#);
        let many: Vec<String> = (0..100).map(|number| format!("/project/{number}.txt")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check_in(&many, "List the files", r#"list_workspace_files {"path":"/project","depth":1}"#);
        assert_eq!(told("What is this project?", &[]), None);
        assert!(lacks_file("Summarise the file") && lacks_file("Read it, please"));
        assert!(!lacks_file("read") && !lacks_file("Read a poem to me") && !lacks_file("this"));
    }
}
