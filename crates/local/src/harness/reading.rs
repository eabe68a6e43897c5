//! What the person wants of a file that was read.

use super::{
    direct::asks_of_project,
    parts::names_part,
    words::{is_path_like, is_telling, names_file, words},
};

/// The person's wish about a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To see it.
    Show,
    /// A short summary.
    Summarize,
    /// The beginning of the file, where it says what it is.
    Open,
    /// The number of its lines.
    Count,
    /// The place that answers the question.
    Ask,
}

/// Words that ask for a short version, by their beginnings.
const SHORT: &[&str] = &["summar", "tl;dr", "tldr", "gist", "overview", "recap", "digest", "condense", "shorten"];
const SHORT_PHRASES: &[&str] = &["sum up", "in short", "main points", "key points", "main ideas", "boil down"];
/// Words that begin or carry a question.
const QUESTIONS: &[&str] = &[
    "who", "whom", "whose", "what", "when", "where", "why", "how", "which", "does", "do", "did", "is", "are", "was",
    "were", "can", "tell",
];
/// Signs that end a question, and words of Chinese that make one.
const SIGNS: [char; 3] = ['?', '？', '؟'];
const CHINESE_QUESTIONS: &[&str] = &["什么", "什麼", "多少", "几", "幾", "谁", "誰", "哪", "怎", "吗", "嗎", "何"];

/// Tells what is wanted by the words of the request. `path` is the file.
pub(crate) fn wanted(request: &str, path: &str) -> Reading {
    let lower = request.to_lowercase();
    if asks_of_project(request) {
        return Reading::Open;
    }
    if lower.contains("how many lines") {
        return Reading::Count;
    }
    let asks_short = words(&lower).any(|word| SHORT.iter().any(|start| word.starts_with(start)))
        || SHORT_PHRASES.iter().any(|phrase| lower.contains(phrase))
        || is_about(&lower, path);
    if asks_short {
        return Reading::Summarize;
    }
    let tells_more = words(&lower).any(|word| {
        is_telling(word)
            && !is_path_like(word)
            && !QUESTIONS.contains(&word)
            && !names_file(word, path)
            && !names_part(word)
    });
    let is_question = lower.trim_end().ends_with(SIGNS)
        || words(&lower).any(|word| QUESTIONS.contains(&word))
        || CHINESE_QUESTIONS.iter().any(|word| lower.contains(word));
    if tells_more && is_question { Reading::Ask } else { Reading::Show }
}

/// Returns whether the request is "what is … about?" with nothing but the file between.
fn is_about(lower: &str, path: &str) -> bool {
    let mut last = words(lower).filter(|word| is_telling(word) || *word == "about").collect::<Vec<_>>();
    last.retain(|word| !names_file(word, path) && !is_path_like(word));
    last == ["about"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_tell_what_is_wanted() {
        let check = |request: &str, expected: Reading| {
            assert_eq!(wanted(request, "uploads/notes.txt"), expected, "{request}");
        };
        check("Summarise uploads/notes.txt", Reading::Summarize);
        check("Give me a summary of my notes", Reading::Summarize);
        check("TL;DR of notes.txt please", Reading::Summarize);
        check("What is notes.txt about?", Reading::Summarize);
        check("what are the main points of notes.txt", Reading::Summarize);
        check("read notes.txt", Reading::Show);
        check("show uploads/notes.txt", Reading::Show);
        check("What does notes.txt say?", Reading::Show);
        check("What is in notes.txt?", Reading::Show);
        check("cat notes.txt", Reading::Show);
        check("What does notes.txt say about the meeting?", Reading::Ask);
        check("When is the deadline in notes.txt?", Reading::Ask);
        check("Read uploads/notes.txt and tell me who wrote it", Reading::Ask);
        check("Read notes.txt and tell me the author", Reading::Ask);
        check("How many lines does notes.txt have?", Reading::Count);
        check("What does page 3 say?", Reading::Show);
        check("What is on the third page?", Reading::Show);
        check("Who signed on page 3?", Reading::Ask);
        check("What does page 3 say?\n\nUploaded file: uploads/notes.txt", Reading::Show);
        check("What does this project do?", Reading::Open);
        check("合同金额是多少？", Reading::Ask);
        check("谁签了合同", Reading::Ask);
        check("第3页说了什么？", Reading::Show);
        // A word within another one of the path is no name of the file.
        check("What is the load?", Reading::Ask);
        check("Who is noted?", Reading::Ask);
    }
}
