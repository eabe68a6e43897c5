//! Classifies an input's intent by a few heuristics: text that looks like code, the first words of sentences, and
//! question marks. Deterministic and without side effects. An input with too few signs is uncertain.

use std::collections::HashSet;

use agentd_core::routing::{Intent, IntentKind};

/// Number of examined bytes of an input, because the intent is usually clear from the start.
const MAX_EXAMINED: usize = 16 << 10;

/// Minimum weight of an input about code.
const MIN_CODE_WEIGHT: u32 = 2;

/// Maximum length of a question about the agent, in characters. Longer inputs are about something else.
const MAX_CAPABILITY: usize = 300;

/// Minimum number of words for a classification.
const MIN_WORDS: usize = 4;

/// Number of words in a sentence that are searched for its request, because polite phrases may come first.
const FIRST_WORDS: usize = 6;

/// Minimum number of points of a complex task.
const COMPLEX_POINTS: usize = 2;

/// Extensions of source files.
const EXTENSIONS: &[&str] = &[
    "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "json", "jsx", "kt", "lock", "lua", "md",
    "php", "proto", "py", "rb", "rs", "scala", "sh", "sql", "swift", "toml", "ts", "tsx", "vue", "xml", "yaml", "yml",
    "zig",
];

/// Phrases, and words of scripts without spaces, that indicate code, questions, greetings and large tasks.
const ERROR_PHRASES: [&str; 4] = ["panicked at", "stack trace", "segmentation fault", "fatal error"];
const CODE_WORDS: [&str; 6] = ["代码", "函数", "测试", "文件", "项目", "报错"];
const QUESTION_WORDS: [&str; 6] = ["?", "？", "什么", "怎么", "如何", "解释"];
const GREETING_PHRASES: [&str; 3] = ["你好", "谢谢", "good morning"];
const LARGE_TASK_PHRASES: [&str; 6] = ["from scratch", "step by step", "end to end", "end-to-end", "架构", "迁移"];
const AGENT_PHRASES: [&str; 9] = [
    "what can you do",
    "who are you",
    "what are you",
    "tools do you",
    "skills do you",
    "was kannst du",
    "wer bist du",
    "你能做什么",
    "你是谁",
];

/// Returns the weight of a word as an indicator of code.
fn weight(word: &str) -> u32 {
    match word {
        "api" | "bug" | "code" | "codebase" | "compile" | "compiler" | "crate" | "endpoint" | "endpoints"
        | "function" | "functions" | "funktion" | "refactor" | "repo" | "repository" | "traceback" => 2,
        "branch" | "bugs" | "build" | "class" | "classes" | "commit" | "config" | "datei" | "dependencies"
        | "error" | "fehler" | "file" | "files" | "git" | "import" | "login" | "method" | "module" | "package"
        | "parser" | "program" | "project" | "projekt" | "python" | "query" | "readme" | "rust" | "script" | "sql"
        | "test" | "tests" | "type" | "types" | "typo" | "unit" | "warning" | "warnings" => 1,
        _ => 0,
    }
}

/// Kind of request in a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Change,
    Read,
}

impl Request {
    /// Finds the first word of a sentence that indicates a request.
    fn of(sentence: &str) -> Option<Self> {
        words(sentence).take(FIRST_WORDS).find_map(|word| match word {
            "add" | "build" | "change" | "convert" | "create" | "debug" | "delete" | "fix" | "implement"
            | "improve" | "make" | "migrate" | "move" | "refactor" | "remove" | "rename" | "replace" | "rewrite"
            | "update" | "write" => Some(Self::Change),
            "analyse" | "analyze" | "check" | "compare" | "describe" | "explain" | "find" | "give" | "how" | "list"
            | "look" | "read" | "review" | "search" | "show" | "summarise" | "summarize" | "what" | "when"
            | "where" | "which" | "who" | "why" => Some(Self::Read),
            _ => None,
        })
    }
}

const GREETINGS: [&str; 9] = ["hi", "hello", "hey", "thanks", "thank", "thx", "bye", "hallo", "danke"];
const LARGE_TASK_WORDS: &str = "across architecture design entire large migrate migration overhaul redesign rewrite \
                                several strategies strategy throughout whole";

/// Classifies an input. Within a project, less evidence is needed for code.
pub(crate) fn classify(text: &str, in_project: bool) -> Intent {
    let text = &text[..text.floor_char_boundary(MAX_EXAMINED)];
    let (prose, has_fence) = without_fences(text);
    let lower = prose.to_lowercase();
    let paths: HashSet<&str> = prose.split_whitespace().map(trim_punctuation).filter(|token| is_path(token)).collect();
    let distinct: HashSet<&str> = words(&lower).collect();
    let listed = prose.lines().filter(|line| is_list_item(line)).count();
    let points = LARGE_TASK_WORDS.split(' ').filter(|word| distinct.contains(word)).count()
        + count_matches(&lower, &LARGE_TASK_PHRASES)
        + usize::from(listed >= 3)
        + usize::from(listed >= 5)
        + usize::from(prose.chars().count() > 1500)
        + usize::from(paths.len() >= 4);
    let code = 3 * u32::from(has_fence)
        + 3 * u32::from(!paths.is_empty())
        + 3 * u32::from(count_matches(&text.to_lowercase(), &ERROR_PHRASES) > 0)
        + 2 * u32::from(prose.split_whitespace().any(is_identifier))
        + u32::try_from(count_matches(&lower, &CODE_WORDS)).unwrap_or_default()
        + distinct.iter().map(|word| weight(word)).sum::<u32>();
    let (kind, confidence, reason) = kind(&lower, code, in_project);
    Intent { kind, confidence, reason: reason.to_owned(), complex: points >= COMPLEX_POINTS, by: None }
}

fn kind(lower: &str, code: u32, in_project: bool) -> (IntentKind, u8, &'static str) {
    // A dot ends a sentence only before a space, because other dots occur in names.
    let parts = lower.split(['\n', '!', '?', ';', ':']).flat_map(|line| line.split(". "));
    let requests: Vec<Request> = parts.flat_map(|part| part.split(", ")).filter_map(Request::of).collect();
    let changes = requests.contains(&Request::Change);
    let asks = !requests.is_empty() || count_matches(lower, &QUESTION_WORDS) > 0;
    let first_is_greeting = words(lower).next().is_some_and(|word| GREETINGS.contains(&word));
    // A requested change concerns the project, if there is one.
    let min_weight = if in_project { MIN_CODE_WEIGHT - 1 } else { MIN_CODE_WEIGHT };
    let is_about_code = code >= min_weight || (in_project && changes);
    let confidence = 60 + u8::try_from(code.min(7) * 5).unwrap_or_default();
    let is_chinese = lower.chars().any(|char| ('\u{4e00}'..='\u{9fff}').contains(&char));
    if count_matches(lower, &AGENT_PHRASES) > 0 && code < min_weight && lower.chars().count() <= MAX_CAPABILITY {
        (IntentKind::CapabilityQuery, 85, "it asks about the agent")
    } else if (first_is_greeting || count_matches(lower, &GREETING_PHRASES) > 0) && code == 0 && !changes {
        (IntentKind::GeneralChat, 90, "a greeting or thanks")
    } else if is_about_code && asks && !changes {
        (IntentKind::RepoAnalysis, confidence, "it asks about code")
    } else if is_about_code {
        (IntentKind::CodingTask, confidence, "it asks for a change of code")
    } else if words(lower).count() < MIN_WORDS && !is_chinese {
        (IntentKind::Uncertain, 30, "too short to classify")
    } else if asks && code == 0 {
        (IntentKind::GeneralChat, 65, "nothing in it concerns code")
    } else {
        (IntentKind::Uncertain, 40, "no clear intent")
    }
}

fn count_matches(text: &str, phrases: &[&str]) -> usize {
    phrases.iter().filter(|phrase| text.contains(*phrase)).count()
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|char: char| char.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (rest.len() < line.len() && rest.starts_with(['.', ')']))
}

/// Returns the text outside of code fences, and true if there was a fence.
fn without_fences(text: &str) -> (String, bool) {
    let (mut prose, mut inside, mut found) = (String::with_capacity(text.len()), false, false);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            (inside, found) = (!inside, true);
        } else if !inside {
            prose.push_str(line);
        }
    }
    (prose, found)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !char.is_alphanumeric() && char != '_' && char != '\'').filter(|word| !word.is_empty())
}

fn trim_punctuation(token: &str) -> &str {
    token.trim_matches(|char: char| !char.is_alphanumeric() && char != '/' && char != '_')
}

/// Returns true if a word names a source file.
fn is_path(token: &str) -> bool {
    let name = token.split(':').next().unwrap_or(token);
    name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && EXTENSIONS.contains(&ending))
}

/// Returns true if a word looks like an identifier: `a_b`, `aB`, `a()`, `a::b`, or a word in backticks.
fn is_identifier(token: &str) -> bool {
    let is_quoted = token.contains('`');
    let name = trim_punctuation(token);
    let is_snake_case = name.trim_matches('_').contains('_');
    let is_camel_case =
        name.chars().zip(name.chars().skip(1)).any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    is_quoted || is_snake_case || is_camel_case || token.contains("()") || token.contains("::")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn inputs_are_classified_by_kind() {
        let outside: [(IntentKind, &[&str]); 5] = [
            (
                IntentKind::CodingTask,
                &[
                    "fix the failing test in src/parser.rs",
                    "Please add a function that parses ISO dates, with unit tests",
                    "could you rename `Foo` to `Bar` in this module?",
                    "Refactor the login class and remove the old API",
                    "I want you to implement pagination for the /users endpoint",
                    "thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds",
                    "修复 src/lib.rs 里的报错，并添加测试",
                    "Behebe den Fehler in der Funktion parse_date",
                    "thanks! now write the tests for get_user()",
                    "src/main.rs does not compile since yesterday",
                ],
            ),
            (
                IntentKind::RepoAnalysis,
                &[
                    "explain how the retry logic in src/retry.rs works",
                    "Where is the function `open_turn` called in this repository?",
                    "What does this code do?\n```\nfor i in 0..3 {}\n```",
                    "why does test_login fail after the change of the schema file?",
                    "解释一下这个项目的代码结构",
                    "Give me an overview of this codebase",
                    "Wie funktioniert src/retry.rs?",
                    "how do I add a test to src/parser.rs",
                ],
            ),
            (
                IntentKind::GeneralChat,
                &[
                    "Hello there!",
                    "thanks, that helped",
                    "你好",
                    "Write a poem about the sea, with rhymes",
                    "why is the sky blue?",
                ],
            ),
            (
                IntentKind::CapabilityQuery,
                &["what can you do?", "which tools do you have", "你能做什么？", "Was kannst du?"],
            ),
            (IntentKind::Uncertain, &["yes", "go on", "the second one", "", "  \n", "42", "ok, do it"]),
        ];
        let in_project: [(IntentKind, &[&str]); 4] = [
            (IntentKind::CodingTask, &["Make the button green when a form was sent", "fix it", "run the tests"]),
            (IntentKind::RepoAnalysis, &["why does the login fail?"]),
            (IntentKind::GeneralChat, &["What is the capital of France?"]),
            (IntentKind::Uncertain, &["go on"]),
        ];
        let outside = outside.iter().map(|row| (row, false));
        for ((kind, texts), is_in_project) in outside.chain(in_project.iter().map(|row| (row, true))) {
            for text in *texts {
                let intent = classify(text, is_in_project);
                assert_eq!(intent.kind, *kind, "{text:?}: {intent:?}");
                assert!((1..=95).contains(&intent.confidence) && !intent.reason.is_empty(), "{intent:?}");
            }
        }
    }

    #[test]
    fn large_tasks_are_classified_as_complex() {
        for (text, expected) in [
            ("Migrate the whole project from Python 2 to Python 3, step by step, and keep the API stable", true),
            ("Do this:\n1. add a table\n2. write the migration\n3. change the API\n4. test it\n5. document it", true),
            ("Design the architecture of a cache and weigh the trade-offs of its eviction strategies", true),
            ("fix the typo in README.md", false),
            ("Redesign the button in src/app.css", false),
            ("Improve the error message and support the new flag in cli.rs", false),
            ("what does main.rs do?", false),
        ] {
            assert_eq!(classify(text, true).complex, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_input_is_classified(text in "(.|\n|```|\\x{4fee}){0,400}", in_project: bool) {
            let intent = classify(&text, in_project);
            prop_assert!(intent.confidence <= 100);
        }
    }
}
