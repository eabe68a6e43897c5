//! Small talk: what people say that is neither a question nor a task.
//!
//! To a bare "Thanks!" this model answers "I'm sorry for your loss". With one example of the same kind before it, it
//! finds the tone. What it is, can do and feels it cannot know at all, so that this is told for it.

use super::words::{among, words};
use crate::chat::Turn;

/// Self-description of the built-in model.
pub(crate) const ABOUT: &str = "I am the small language model that is built into agentd and runs on this computer alone. I can \
    tell the time, list, count, find and search your files, and show, quote or summarize one; and we can chat, though I get \
    facts wrong.";
/// Its limits.
const LIMITS: &str = "I cannot change files, run commands or programs, write code that works, or reach the internet.";
/// The way to a larger one.
pub(crate) const MORE: &str = "To do more, connect a larger model: set MODEL_BASIC_BASE_URL (and MODEL_BASIC_API_KEY), or name \
    one in models.yaml, and restart the daemon with `agentctl stop`.";

/// Questions about itself, in the words that mean something.
const ABOUT_QUESTIONS: &[&str] = &[
    "who are you",
    "what are you",
    "what is your name",
    "what's your name",
    "what can you do",
    "what can you do for me",
    "what can't you do",
    "what can you not do",
    "what are your limits",
    "what are your limitations",
    "what are you able to do",
    "what do you do",
    "what can i do",
    "what can i do here",
    "what now",
    "what is agentd",
    "what is this",
    "how do i start",
    "how does this work",
    "how do i use this",
    "how do i use you",
    "how do you work",
    "are you an ai",
    "are you a bot",
    "are you a human",
    "are you human",
    "are you real",
    "are you chatgpt",
    "are you gpt",
    "are you claude",
    "is this chatgpt",
    "is this claude",
    "help me with my code",
    "help me with my project",
    "can you help me with my code",
    "can you help me with my project",
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

/// Words that a question about another model is made of.
const OTHER_MODEL: &str = "a add an another better bigger can change choose configure connect could different do get here how i \
    instead larger llm model models my need other own pick please set smarter stronger switch the to up use want we where with \
    you";
/// Those of them that tell it from a question about this one.
const OTHER: &str = "add another better bigger change choose configure connect different larger my other own pick set smarter \
    stronger switch";

/// A kind of small talk.
struct Kind {
    /// Words of which it has one at least.
    keys: &'static [&'static str],
    /// Words that it may have besides.
    others: &'static [&'static str],
    reply: Reply,
}

/// Answer to a kind of small talk.
enum Reply {
    /// By the model, after this example.
    Example(&'static str, &'static str),
    /// With these words: no example was found after which the model says anything sensible.
    Say(&'static str),
}

const GREETING: (&str, &str) = ("Hello there!", "Hello! How can I help you today?");

const KINDS: &[Kind] = &[
    Kind {
        keys: &["thanks", "thank", "thx", "cheers"],
        others: &[
            "a", "again", "all", "and", "for", "great", "help", "lot", "many", "much", "ok", "perfect", "so", "that",
            "the", "very", "you", "your",
        ],
        reply: Reply::Example("Thank you!", "You're welcome!"),
    },
    Kind {
        keys: &["bye", "goodbye", "later", "night", "farewell", "ciao"],
        others: &["and", "for", "good", "now", "ok", "see", "soon", "then", "you"],
        reply: Reply::Example("Bye bye", "Goodbye! See you soon."),
    },
    Kind {
        keys: &["how", "how's"],
        others: &[
            "are", "day", "doing", "feeling", "going", "hello", "hey", "hi", "is", "it", "things", "today", "you",
            "your",
        ],
        reply: Reply::Say("All is well here. How can I help you?"),
    },
    Kind {
        keys: &["hello", "hi", "hey", "morning", "evening", "afternoon", "greetings", "howdy", "welcome"],
        others: &["again", "good", "my", "friend", "there", "to", "you"],
        reply: Reply::Example(GREETING.0, GREETING.1),
    },
    Kind {
        keys: &["ok", "okay", "alright", "great", "perfect", "cool", "nice", "good", "fine", "yes", "no", "sure"],
        others: &["is", "it", "that", "that's", "then", "very"],
        reply: Reply::Say("All right. Tell me when there is anything that I can do."),
    },
    Kind {
        keys: &["test", "testing", "ping"],
        others: &["a", "hello", "is", "just", "this", "1", "2", "3", "one", "two", "three"],
        reply: Reply::Say("It works. How can I help you?"),
    },
];

/// Answer that needs no model.
pub(crate) fn said(request: &str) -> Option<String> {
    let spoken = lower_words(&request.replace('’', "'"));
    let greeted = spoken.iter().take_while(|word| among("hello hi hey please so ok", word)).count();
    if ABOUT_QUESTIONS.contains(&spoken[greeted..].join(" ").as_str()) {
        return Some(format!("{ABOUT} {LIMITS}\n\n{MORE}"));
    }
    let asks_for_model = spoken.iter().all(|word| among(OTHER_MODEL, word))
        && spoken.iter().any(|word| among("model models llm", word))
        && spoken.iter().any(|word| among(OTHER, word));
    if asks_for_model {
        return Some(MORE.to_owned());
    }
    match kind(request)?.reply {
        Reply::Say(text) => Some(text.to_owned()),
        Reply::Example(..) => None,
    }
}

/// The turns of an example for this kind of small talk, if the model answers it.
pub(crate) fn example(request: &str) -> Option<[Turn; 2]> {
    match kind(request)?.reply {
        Reply::Example(user, assistant) => Some(turns(user, assistant)),
        Reply::Say(_) => None,
    }
}

/// Returns whether a request is nothing but small talk.
pub(crate) fn is_small_talk(request: &str) -> bool {
    said(request).is_some() || example(request).is_some()
}

/// The example before all other conversations: it makes answers shorter and keeps them to the point.
pub(crate) fn greeting() -> [Turn; 2] {
    turns(GREETING.0, GREETING.1)
}

fn turns(user: &str, assistant: &str) -> [Turn; 2] {
    [Turn::user(user), Turn::assistant(assistant)]
}

fn lower_words(request: &str) -> Vec<String> {
    words(request).map(str::to_lowercase).collect()
}

fn kind(request: &str) -> Option<&'static Kind> {
    let spoken = lower_words(request);
    KINDS.iter().find(|kind| {
        let is_key = |word: &String| kind.keys.contains(&word.as_str());
        spoken.iter().any(is_key) && spoken.iter().all(|word| is_key(word) || kind.others.contains(&word.as_str()))
    })
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
        check("Thank you so much!", Some("Thank you!"));
        check("bye", Some("Bye bye"));
        check("thanks, bye", None);
        check("ok", None);
        check("How do I cook rice?", None);
        check("Hello, what is the capital of France?", None);
        check("that", None);
        check("", None);
    }

    #[test]
    fn what_the_model_cannot_know_is_told_for_it() {
        let check = |request: &str, expected: Option<&str>| {
            assert_eq!(said(request).as_deref().map(|text| &text[..9]), expected, "{request}");
        };
        check("Who are you?", Some("I am the "));
        check("What can you do?", Some("I am the "));
        check("help", Some("I am the "));
        check("Hello! Can you help me?", Some("I am the "));
        check("Hi, how are you?", Some("All is we"));
        check("ok", Some("All right"));
        check("What can’t you do?", Some("I am the "));
        check("How do I connect a better model?", Some("To do mor"));
        check("test", Some("It works."));
        check("How do I train a better model of the weather in Rust?", None);
        check("Are you a doctor?", None);
        check("Who are you going to vote for?", None);
        check("Help me find notes.txt", None);
        check("How old are you?", None);
        check("Hello!", None);
        check("", None);
    }
}
