//! Small talk: what people say that is neither a question nor a task.
//!
//! To a bare "Thanks!" this model answers "I'm sorry for your loss". With one example of the same kind before it, it
//! finds the tone. What it is and can do it cannot know at all, so that this is told for it.

use super::words::words;
use crate::chat::Turn;

/// What the built-in model says of itself.
const ABOUT: &str = "I am the small language model that is built into agentd and runs on this computer alone. I can tell \
    the time, list, find and search your files, and show, quote or summarize one; and we can chat, though I get facts \
    wrong. To do more, name a larger model in models.yaml.";

/// Questions about itself, in the words that mean something.
const ABOUT_QUESTIONS: &[&str] = &[
    "who are you",
    "what are you",
    "what is your name",
    "what's your name",
    "what can you do",
    "what can you do for me",
    "what do you do",
    "what can i ask you",
    "how can you help me",
    "how can you help",
    "can you help me",
    "help",
    "help me",
    "introduce yourself",
    "tell me about yourself",
    "which model are you",
    "what model are you",
];

/// A kind of small talk.
struct Kind {
    /// Words of which it has one at least.
    keys: &'static [&'static str],
    /// Words that it may have besides.
    others: &'static [&'static str],
    example: (&'static str, &'static str),
}

const GREETING: (&str, &str) = ("Hello there!", "Hello! How can I help you today?");

const KINDS: &[Kind] = &[
    Kind {
        keys: &["thanks", "thank", "thx", "cheers"],
        others: &[
            "a", "again", "all", "and", "for", "great", "help", "lot", "many", "much", "ok", "perfect", "so", "that",
            "the", "very", "you", "your",
        ],
        example: ("Thanks for your help!", "You're welcome! Is there anything else I can do for you?"),
    },
    Kind {
        keys: &["bye", "goodbye", "later", "night", "farewell", "ciao"],
        others: &["and", "for", "good", "now", "ok", "see", "soon", "then", "you"],
        example: ("See you tomorrow!", "Goodbye! Have a nice day."),
    },
    Kind {
        keys: &["how", "how's"],
        others: &[
            "are", "day", "do", "doing", "feeling", "going", "hello", "hey", "hi", "is", "it", "things", "today",
            "you", "your",
        ],
        example: ("How are you doing?", "I'm doing well, thank you! How can I help you?"),
    },
    Kind {
        keys: &["hello", "hi", "hey", "morning", "evening", "afternoon", "greetings", "howdy", "welcome"],
        others: &["again", "good", "my", "friend", "there", "to", "you"],
        example: GREETING,
    },
    Kind {
        keys: &["ok", "okay", "alright", "great", "perfect", "cool", "nice", "good", "fine", "yes", "no", "sure"],
        others: &["is", "it", "that", "that's", "then", "very"],
        example: ("All right.", "Good! Tell me if there is anything else I can do."),
    },
];

/// What is said without asking the model, if the person asks about it.
pub(crate) fn about(request: &str) -> Option<&'static str> {
    let said = words(request).map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    ABOUT_QUESTIONS.contains(&said.as_str()).then_some(ABOUT)
}

/// The turns of an example for this kind of small talk, if it is any.
pub(crate) fn example(request: &str) -> Option<[Turn; 2]> {
    let said: Vec<String> = words(request).map(str::to_lowercase).collect();
    let is_of = |kind: &&Kind| {
        let is_key = |word: &String| kind.keys.contains(&word.as_str());
        said.iter().any(is_key) && said.iter().all(|word| is_key(word) || kind.others.contains(&word.as_str()))
    };
    KINDS.iter().find(is_of).map(|kind| turns(kind.example))
}

/// The example before all other conversations: it makes answers shorter and keeps them to the point.
pub(crate) fn greeting() -> [Turn; 2] {
    turns(GREETING)
}

fn turns((user, assistant): (&str, &str)) -> [Turn; 2] {
    [Turn::user(user), Turn::assistant(assistant)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_talk_is_told_by_all_of_its_words() {
        let check = |request: &str, expected: Option<&str>| {
            assert_eq!(example(request).map(|[user, _]| user.text).as_deref(), expected, "{request}");
        };
        check("Hello!", Some("Hello there!"));
        check("Good morning!", Some("Hello there!"));
        check("Hi, how are you?", Some("How are you doing?"));
        check("Thank you so much!", Some("Thanks for your help!"));
        check("thanks, bye", None);
        check("bye", Some("See you tomorrow!"));
        check("ok", Some("All right."));
        check("How do I cook rice?", None);
        check("Hello, what is the capital of France?", None);
        check("that", None);
        check("", None);
    }

    #[test]
    fn questions_about_itself_are_told() {
        let check = |request: &str, expected: bool| assert_eq!(about(request).is_some(), expected, "{request}");
        check("Who are you?", true);
        check("What can you do?", true);
        check("help", true);
        check("Who are you going to vote for?", false);
        check("Help me find notes.txt", false);
    }
}
