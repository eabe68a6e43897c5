//! Small talk: what people say that is neither a question nor a task.
//!
//! To a bare "Thanks!" this model answers "I'm sorry for your loss". With one example of the same kind before it, it
//! finds the tone. What it is, can do and feels it cannot know at all, so that this is told for it.

use super::words::words;
use crate::chat::Turn;

/// Self-description of the built-in model.
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
];

/// Answer that needs no model.
pub(crate) fn said(request: &str) -> Option<&'static str> {
    if ABOUT_QUESTIONS.contains(&lower_words(request).join(" ").as_str()) {
        return Some(ABOUT);
    }
    match kind(request)?.reply {
        Reply::Say(text) => Some(text),
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
            assert_eq!(said(request).map(|text| &text[..9]), expected, "{request}");
        };
        check("Who are you?", Some("I am the "));
        check("What can you do?", Some("I am the "));
        check("help", Some("I am the "));
        check("Hi, how are you?", Some("All is we"));
        check("ok", Some("All right"));
        check("Who are you going to vote for?", None);
        check("Help me find notes.txt", None);
        check("How old are you?", None);
        check("Hello!", None);
        check("", None);
    }
}
