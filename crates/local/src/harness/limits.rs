//! Requests that this model cannot fulfil, and what it says to them.
//!
//! To "Run the tests" a model of this size answers "I'm sorry for your loss". So what it is ordered to do and cannot is
//! told by the words, and answered without it. Only orders count, since a false alarm refuses what works: "How do I
//! write a loop?" is a question, and "Write a poem" is for the model.
//!
//! - `orders`: the orders and the words around them, as lists.

mod orders;

use self::orders::{COMMANDS, LOOKING, OPENINGS, ORDERS, Object, Order, TEXTS, THINGS, WISHES};
use super::{
    naming::{is_code_path, is_prose_path},
    words::{among, is_path_like, words},
};

/// A thing that it cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Change what is in a file.
    Edit,
    /// Make, move or remove files.
    Files,
    /// Write programs.
    Code,
    /// Run something.
    Run,
    /// Say what code does, or whether it is right.
    Judge,
    /// Reach the network.
    Network,
    /// Speak other languages.
    Translate,
    /// Do something to the world outside.
    Act,
    /// See or draw.
    Picture,
}

impl Limit {
    /// The limit as a sentence.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Edit | Self::Files => "I cannot write, change or delete files.",
            Self::Code => "I cannot write code that works.",
            Self::Run => "I cannot run commands, programs or tests, and I cannot install anything.",
            Self::Judge => "I cannot explain, review or compare code.",
            Self::Network => "I cannot reach the internet.",
            Self::Translate => "I cannot translate: I know little but English.",
            Self::Act => "I cannot send messages, remind you of anything or act outside of this computer.",
            Self::Picture => "I can neither see nor make pictures.",
        }
    }

    /// Returns whether it helps to show the file that the request names.
    pub(crate) fn shows_file(self) -> bool {
        matches!(self, Self::Edit | Self::Judge)
    }
}

/// The limit that a request meets, if it is an order to do what cannot be done.
pub(crate) fn met(request: &str) -> Option<Limit> {
    if is_command(request) {
        return Some(Limit::Run);
    }
    let told = without_quotes(first_part(request)).to_lowercase().replace('’', "'");
    sentences(&told).iter().take(4).find_map(|sentence| ordered(sentence)).or_else(|| asked(&told))
}

/// Words before a text that the request brings along: behind a colon or a line end is no order.
fn first_part(request: &str) -> &str {
    let request = request.trim();
    let ends = [request.find(": "), request.find('\n')];
    &request[..ends.into_iter().flatten().min().unwrap_or(request.len())]
}

/// A text without what it quotes, but for paths.
fn without_quotes(text: &str) -> String {
    let parts = text.split(['"', '`', '“', '”']).enumerate();
    parts.map(|(index, part)| if index % 2 == 0 || is_path_like(part) { part } else { "…" }).collect()
}

fn sentences(text: &str) -> Vec<Vec<&str>> {
    let mut sentences = vec![Vec::new()];
    for word in text.split_whitespace() {
        if let Some(last) = sentences.last_mut() {
            last.push(word);
        }
        if word.ends_with(['.', '!', '?', ';']) {
            sentences.push(Vec::new());
        }
    }
    sentences
}

/// The limit that one of the orders in a sentence meets. Others than the first count only behind an order.
fn ordered(sentence: &[&str]) -> Option<Limit> {
    let mut clauses: Vec<Vec<&str>> = vec![Vec::new()];
    for word in sentence {
        if matches!(*word, "and" | "then" | "but") {
            clauses.push(Vec::new());
        }
        if let Some(last) = clauses.last_mut() {
            last.extend(words(word));
        }
        if word.ends_with(',') {
            clauses.push(Vec::new());
        }
    }
    let mut clauses = clauses.iter().map(|clause| opened(clause)).filter(|clause| !clause.is_empty());
    let first = clauses.next()?;
    // A wish is an order where it is about files: "I want to change the world" is none.
    let wish = WISHES.iter().find(|wish| first.len() > wish.len() && first.starts_with(wish));
    let first = wish.map_or(first, |wish| &first[wish.len()..]);
    if wish.is_some() && !has(first, THINGS) && !first.iter().any(|word| is_path_like(word)) {
        return None;
    }
    let looks = among(LOOKING, first[0]) || first[0] == "look" && first.get(1) != Some(&"for");
    limit_of(first).or_else(|| if looks { clauses.find_map(limit_of) } else { None })
}

/// A clause without the words that open it.
fn opened<'c, 'w>(mut clause: &'c [&'w str]) -> &'c [&'w str] {
    let opens = |clause: &[&str], opening: &str| {
        let count = opening.split(' ').count();
        clause.get(..count).is_some_and(|start| start.iter().copied().eq(opening.split(' ')))
    };
    while let Some(opening) = OPENINGS.iter().find(|opening| opens(clause, opening)) {
        clause = &clause[opening.split(' ').count()..];
    }
    clause
}

fn limit_of(clause: &[&str]) -> Option<Limit> {
    let (verb, object) = clause.split_first()?;
    let fits = |order: &&Order| among(order.verbs, verb) && order.object.fits(verb, object);
    ORDERS.iter().find(fits).map(|order| order.limit)
}

impl Object {
    fn fits(self, verb: &str, object: &[&str]) -> bool {
        let has_path = |object: &[&str]| object.iter().any(|word| is_path_like(word));
        match self {
            Self::Any => true,
            Self::Without(list) => {
                let numbered = |word: &&str| among(list, "#") && word.starts_with(|first: char| first.is_ascii_digit());
                !has(object, list) && !object.iter().any(numbered)
            }
            Self::Code => {
                let the = |word: &str| among("the this that my our", word);
                let code = |word: &str| among("code codebase script program bug implementation diff", word);
                object.iter().any(|word| is_code_path(word))
                    || object.windows(2).any(|pair| the(pair[0]) && code(pair[1]))
                    || object.windows(2).any(|pair| among("this my", pair[0]) && pair[1] == "function")
            }
            Self::Word(list) | Self::With(list) => {
                // What a text is about is none of its object.
                let writes = among("write create make generate produce", verb);
                let about = object.iter().position(|word| writes && among("about of for", word));
                let object = &object[..about.unwrap_or(object.len())];
                let takes_path = matches!(self, Self::With(_));
                if has(object, TEXTS) {
                    return takes_path && (has(object, "file files") || has_path(object));
                }
                has(object, list) || takes_path && has_path(object)
            }
        }
    }
}

/// The limit that a question meets: what code does, what is wrong with it, what is on the web.
fn asked(told: &str) -> Option<Limit> {
    let spoken: Vec<&str> = words(told).collect();
    let spoken = opened(&spoken);
    let said = format!(" {} ", spoken.join(" "));
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(&format!(" {phrase} ")));
    let starts = |list: &str| spoken.first().is_some_and(|first| among(list, first));
    if starts("find search grep which where") {
        return None;
    }
    if spoken.iter().any(|word| ["http://", "https://", "www."].iter().any(|start| word.starts_with(start))) {
        return Some(Limit::Network);
    }
    if spoken.len() > 14 {
        return None;
    }
    let weather = says(&["the weather", "weather in", "weather today", "weather tomorrow", "weather forecast"]);
    if weather && !spoken.iter().any(|word| is_path_like(word)) && starts("what how is will tell weather")
        || says(&["latest news", "news today", "in the news", "news of today", "today news"])
    {
        return Some(Limit::Network);
    }
    let git = ["git log", "git status", "git diff", "git history", "what branch", "last commit"];
    if says(&git) || says(&["tests pass", "tests passing", "does it compile", "does it build", "build pass"]) {
        return Some(Limit::Run);
    }
    let of_code = spoken.iter().any(|word| is_code_path(word));
    let of_project =
        of_code || says(&["my code", "the code", "this code", "my tests", "the tests", "the build", "my build"]);
    let doubts = "broken bug bugs correct crash crashes doesn't error errors fail failing fails mistake mistakes problem \
        problems slow wrong";
    if of_project && (has(spoken, doubts) || says(&["not work", "not working"])) {
        return Some(Limit::Judge);
    }
    let explains = starts("what how why") && has(spoken, "do does work works");
    let plain = "what how why do does work works the file it exactly code";
    let only = spoken.iter().all(|word| among(plain, word) || is_code_path(word));
    (of_code && explains && only).then_some(Limit::Judge)
}

fn has(spoken: &[&str], list: &str) -> bool {
    spoken.iter().any(|word| among(list, word))
}

/// Returns whether a request is a command line.
fn is_command(request: &str) -> bool {
    let typed: Vec<&str> = request.split_whitespace().collect();
    let Some((program, rest)) = typed.split_first() else { return false };
    if typed.len() > 8 || request.trim_end().ends_with(['?', '!']) {
        return false;
    }
    let Some(first) = rest.first() else { return among("pytest make pwd whoami", program) };
    let names_file = first.starts_with('-') || is_path_like(first) && !is_prose_path(first);
    program.starts_with("./")
        || COMMANDS.iter().any(|(programs, follow)| {
            among(programs, program) && (follow.is_empty() || names_file || among(follow, first))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_beyond_it_meet_their_limit() {
        let check = |limit: Limit, requests: &[&str]| {
            for request in requests {
                assert_eq!(met(request), Some(limit), "{request}");
            }
        };
        check(
            Limit::Edit,
            &[
                "Fix the bug in greet.py",
                "fix it",
                "Please fix greet.py!",
                "Can you fix the bug?",
                "Hi, could you please edit README.md",
                "Change the greeting to \"Good day\"",
                "change line 3",
                "Add a docstring to greet.py",
                "add a dark mode",
                "Add 3 tests",
                "Refactor this",
                "Improve the code",
                "Update the README",
                "I want you to rename_x. Then fix the tests",
                "Read greet.py and fix the typo",
                "I want to add a feature",
                "Look at greet.py, then correct the errors",
                "I have a problem. Fix it.",
                "Let's make the tests pass",
                "Add a sentence to README.md",
            ],
        );
        check(
            Limit::Files,
            &[
                "Delete greet.py",
                "delete all files",
                "Create a file hello.txt",
                "Write a README",
                "Write hello to notes.txt",
                "Write a poem to poem.txt",
                "Make a new folder",
                "Rename a.txt to b.txt",
                "Save this",
                "Summarise README.md and save it to summary.md",
                "Can you write files?",
            ],
        );
        check(
            Limit::Code,
            &[
                "Write a Python script that renames files",
                "Write tests for greet.py",
                "build a website",
                "Can you write code?",
            ],
        );
        check(
            Limit::Run,
            &[
                "Run the tests",
                "run greet.py",
                "Install numpy",
                "Commit",
                "commit my changes with a good message",
                "Build the project",
                "git status",
                "npm install",
                "make test",
                "make",
                "python greet.py",
                "cd src",
                "./configure --help",
                "Start the server",
                "Push it",
                "Do the tests pass?",
                "Can you run commands?",
                "show me the git log",
                "What branch am I on?",
            ],
        );
        check(
            Limit::Judge,
            &[
                "What does greet.py do?",
                "How does src/main.rs work?",
                "Explain greet.py",
                "explain this code",
                "Review my code",
                "Are there any bugs in greet.py?",
                "What's wrong with greet.py?",
                "Why does greet.py crash?",
                "Find the bugs in this project",
                "Compare a.txt and b.txt",
                "Summarise src/main.rs",
                "Help me understand this code",
                "My tests are failing",
                "greet.py does not work",
            ],
        );
        check(
            Limit::Network,
            &["Read https://example.com", "Search the web for cats", "What's the weather like?", "google cats"],
        );
        check(Limit::Translate, &["Translate README.md to German", "Can you translate this text to French?"]);
        check(Limit::Act, &["Send an email to Bob", "remind me to buy milk", "Set a timer"]);
        check(Limit::Picture, &["Draw a cat", "Make a picture of a cat"]);
    }

    #[test]
    fn questions_texts_and_what_it_can_do_meet_none() {
        for request in [
            "",
            "Hello!",
            "What time is it?",
            "How do I write a loop?",
            "How can I run the tests?",
            "What does fix mean?",
            "Where do I install it?",
            "Why should I commit often?",
            "Should I delete it?",
            "Could you tell me how to install numpy?",
            "Write a poem about the sea",
            "Write a story about a programmer who writes code",
            "Write a letter to my friend",
            "Write a function that adds two numbers",
            "Write a summary of README.md",
            "Create a list of fruits",
            "Make a plan for my week",
            "Make up a joke",
            "Compile a list of fruits",
            "Add 2 and 3",
            "add up 3, 4 and 5",
            "Correct this sentence: he go home",
            "Improve this sentence: I likes it. Run the tests.",
            "Convert 5 km to miles",
            "Solve this equation",
            "Change the subject",
            "Change of plans",
            "I want to change the world",
            "I need to run a marathon",
            "Explain gravity",
            "Explain the difference between TCP and UDP",
            "What is the difference between walk and run?",
            "My dog can run and fix and jump",
            "Search for delete and remove",
            "Search for \"run the tests\" in README.md",
            "Find TODO in this project",
            "Which files mention install?",
            "Which files mention https://example.com?",
            "grep fix",
            "Find errors in app.log",
            "Summarise README.md",
            "Explain README.md",
            "What is in greet.py?",
            "What does greet.py import?",
            "What does notes.txt say about the weather?",
            "How many files are here?",
            "List the files",
            "Read notes.txt and tell me the author",
            "Go on",
            "make sense?",
            "Python is great",
            "go home",
            "Google was founded by whom?",
            "Test",
            "Remind me what we said",
            "Summarise this text:\nRun the tests. Delete everything.",
        ] {
            assert_eq!(met(request), None, "{request}");
        }
    }
}
