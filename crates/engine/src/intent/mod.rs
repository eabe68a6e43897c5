//! The intent of an input, by its words alone. Pure, and the same for the same input.
//!
//! `signs`: what of an input speaks for code, for a change and for talk; `words`: the words that do.

mod signs;
mod words;

use agentd_core::routing::{Intent, IntentKind};

use signs::Signs;

/// Bytes of an input that are looked at: an intent stands at its beginning.
const LOOKED_AT: usize = 16 << 10;

/// Least weight of the signs of code with which an input is about code.
const ABOUT_CODE: u32 = 2;

/// Characters of a question about the agent at the most. In longer ones that is not what it is about.
const MAX_CAPABILITY: usize = 300;

/// Classifies the words of an input. In a project, fewer signs of code do.
pub(crate) fn classify(text: &str, in_project: bool) -> Intent {
    let text = &text[..text.floor_char_boundary(LOOKED_AT)];
    let signs = Signs::of(text);
    let (kind, confidence, reason) = kind(text, &signs, in_project);
    Intent { kind, confidence, reason: reason.to_owned(), complex: signs.is_complex(), by: None }
}

fn kind(text: &str, signs: &Signs, in_project: bool) -> (IntentKind, u8, &'static str) {
    let code = signs.code + u32::from(in_project && signs.code > 0);
    let surer = |least: u8| least.saturating_add(u8::try_from(code.min(6) * 5).unwrap_or(30)).min(95);
    if signs.asks_about_agent && code < ABOUT_CODE && text.chars().count() <= MAX_CAPABILITY {
        return (IntentKind::CapabilityQuery, 85, "it asks about the agent");
    }
    if signs.greets && code == 0 && !signs.changes {
        return (IntentKind::GeneralChat, 90, "a greeting or thanks");
    }
    if signs.changes && code >= ABOUT_CODE {
        return (IntentKind::CodingTask, surer(60), "it asks for a change of code");
    }
    if signs.looks && code >= ABOUT_CODE {
        return (IntentKind::RepoAnalysis, surer(60), "it asks about code");
    }
    if signs.has_trace {
        return (IntentKind::CodingTask, 60, "it shows an error of a program");
    }
    if signs.is_short {
        return (IntentKind::Uncertain, 30, "too few words to tell");
    }
    match code {
        0 if signs.looks || signs.changes => (IntentKind::GeneralChat, 65, "nothing in it is about code"),
        _ => (IntentKind::Uncertain, 40, "nothing speaks clearly for one intent"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(kind: IntentKind, texts: &[&str]) {
        for text in texts {
            let intent = classify(text, false);
            assert_eq!(intent.kind, kind, "{text:?}: {intent:?}");
            assert!((1..=95).contains(&intent.confidence) && !intent.reason.is_empty(), "{intent:?}");
        }
    }

    #[test]
    fn changes_of_code_are_coding_tasks() {
        check(
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
            ],
        );
    }

    #[test]
    fn questions_about_code_are_analyses() {
        check(
            IntentKind::RepoAnalysis,
            &[
                "explain how the retry logic in src/retry.rs works",
                "Where is the function `open_turn` called in this repository?",
                "What does this code do?\n```\nfor i in 0..3 {}\n```",
                "why does test_login fail after the change of the schema file?",
                "解释一下这个项目的代码结构",
                "Give me an overview of this codebase",
            ],
        );
    }

    #[test]
    fn talk_and_questions_about_the_agent_need_no_plan() {
        check(IntentKind::GeneralChat, &["hi", "Hello there!", "thanks, that helped", "你好", "Danke!"]);
        check(
            IntentKind::GeneralChat,
            &["What is the capital of France?", "Write a poem about the sea, with rhymes", "why is the sky blue?"],
        );
        check(
            IntentKind::CapabilityQuery,
            &["what can you do?", "Who are you?", "which tools do you have", "你能做什么？", "Was kannst du?"],
        );
    }

    #[test]
    fn what_is_not_clear_is_said_to_be() {
        check(IntentKind::Uncertain, &["yes", "go on", "the second one", "", "  \n", "42", "ok, do it"]);
    }

    #[test]
    fn large_tasks_are_complex() {
        let complex = |text: &str| classify(text, true).complex;
        assert!(complex("Migrate the whole project from Python 2 to Python 3, step by step, and keep the API stable"));
        assert!(complex(
            "Do this:\n1. add a table\n2. write the migration\n3. change the API\n4. test it\n5. document it"
        ));
        assert!(complex("Design the architecture of a cache and weigh the trade-offs of its eviction strategies"));
        assert!(!complex("fix the typo in README.md"));
        assert!(!complex("Redesign the button in src/app.css"));
        assert!(!complex("Improve the error message and support the new flag in cli.rs"));
        assert!(!complex("hello"));
        assert!(!complex("what does main.rs do?"));
    }

    proptest! {
        #[test]
        fn any_input_has_an_intent(text in "(.|\n|```|\\x{4fee}){0,400}", in_project: bool) {
            let intent = classify(&text, in_project);
            prop_assert!(intent.confidence <= 100);
        }
    }
}
