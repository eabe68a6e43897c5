//! Sentences of a text, and which of them may answer a question.

use super::words::{is_telling, words};

/// A sentence is cut after this many characters: what is longer is no sentence.
const LONGEST: usize = 400;

/// A sentence, and where in a document it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sentence<'a> {
    /// `page 2`; empty where the text has no such places.
    pub(crate) place: &'a str,
    /// Its text.
    pub(crate) text: &'a str,
}

/// The sentences of what a tool read. Line ends end one too, since lists and headings have no full stops. What the tool itself
/// says stands in brackets, and is none.
pub(crate) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut place = "";
    let mut sentences = Vec::new();
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("--- ").and_then(|rest| rest.strip_suffix(" ---")) {
            place = named;
        } else if !(line.starts_with('[') && line.ends_with(']') || line.starts_with("[![")) {
            let said = split_line(line).into_iter().map(str::trim);
            let said = said.filter(|sentence| sentence.chars().any(char::is_alphanumeric));
            sentences.extend(said.map(|text| Sentence { place, text }));
        }
    }
    sentences
}

/// A text without the settings that some put between two lines of dashes before it.
pub(crate) fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.trim_start().strip_prefix("---").filter(|rest| rest.starts_with(['\n', '\r'])) else {
        return text;
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if matches!(line.trim_end(), "---" | "...") && at > line.len() {
            return rest[at..].trim_start();
        }
    }
    text
}

/// The title of a text and its first paragraph of prose: what it says of itself.
pub(crate) fn opening(text: &str) -> Option<String> {
    let text = without_front_matter(text);
    let is_tool = |line: &str| line.starts_with('[') && line.ends_with(']');
    let mut title = None;
    let mut prose: Vec<&str> = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        // A title may also stand above a line of its own.
        let underlined = lines.peek().is_some_and(|next| next.len() > 2 && next.chars().all(|letter| letter == '='));
        if underlined && title.is_none() && prose.is_empty() {
            title = Some(line);
            continue;
        }
        let is_heading = line.starts_with('#');
        let is_prose = line.chars().filter(|letter| letter.is_alphabetic()).count() > 3
            && !line.starts_with(['#', '<', '|', '!', '`', '=', '~'])
            && !line.starts_with("[![")
            && !is_tool(line);
        if is_heading && title.is_none() && prose.is_empty() {
            title = Some(line.trim_start_matches('#').trim());
        }
        match (is_prose, prose.is_empty()) {
            (true, _) => prose.push(line),
            (false, false) => break,
            (false, true) => {}
        }
    }
    let prose = prose.join(" ");
    let said: Vec<&str> = title.into_iter().chain([prose.trim()]).filter(|part| !part.is_empty()).collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

fn split_line(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut letters = line.char_indices().peekable();
    let mut length = 0;
    while let Some((at, letter)) = letters.next() {
        length += 1;
        let ends = match letter {
            '.' | '!' | '?' => letters.peek().is_some_and(|(_, next)| next.is_whitespace()),
            '。' | '！' | '？' => true,
            _ => length >= LONGEST,
        };
        if ends {
            let end = at + letter.len_utf8();
            parts.push(&line[start..end]);
            start = end;
            length = 0;
        }
    }
    parts.push(&line[start..]);
    parts
}

/// The sentences that share the rarest words with the question, at most `most`, in the order of the text. Where none
/// shares any, the first ones.
pub(crate) fn promising<'a>(sentences: &[Sentence<'a>], question: &str, most: usize) -> Vec<Sentence<'a>> {
    let wanted: Vec<String> = words(question).filter(|word| is_telling(word)).map(root).collect();
    let roots: Vec<Vec<String>> = sentences.iter().map(|sentence| words(sentence.text).map(root).collect()).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts of sentences")]
    let weight = |word: &String| {
        let holding = roots.iter().filter(|roots| roots.contains(word)).count();
        if holding == 0 { 0.0 } else { 1.0 + (roots.len() as f64 / holding as f64).ln() }
    };
    let weights: Vec<(&String, f64)> = wanted.iter().map(|word| (word, weight(word))).collect();
    let mut ranked: Vec<(usize, f64)> = roots
        .iter()
        .map(|roots| weights.iter().filter(|(word, _)| roots.contains(word)).map(|(_, weight)| weight).sum())
        .enumerate()
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(most);
    ranked.sort_by_key(|(index, _)| *index);
    ranked.into_iter().map(|(index, _)| sentences[index]).collect()
}

/// A word without its ending, roughly: "meeting" and "meetings" are one.
fn root(word: &str) -> String {
    let lower: String = word.to_lowercase();
    let letters = lower.chars().count();
    if letters <= 4 { lower } else { lower.chars().take(5.max(letters * 2 / 3)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_sentences() {
        let check = |text: &str, expected: &[&str]| {
            let told: Vec<&str> = sentences(text).into_iter().map(|sentence| sentence.text).collect();
            assert_eq!(told, expected, "{text:?}");
        };
        check("One. Two! Three?\nFour", &["One.", "Two!", "Three?", "Four"]);
        check("Version 1.5 is out. It is good.", &["Version 1.5 is out.", "It is good."]);
        check("- milk\n- eggs\n\n---\n", &["- milk", "- eggs"]);
        check("[![build](x.svg)](y)\nIt lights.", &["It lights."]);
        check("一。二。", &["一。", "二。"]);
        check("", &[]);
        assert_eq!(sentences(&"x".repeat(1000)).len(), 3);
    }

    #[test]
    fn sentences_of_documents_know_their_places_and_what_the_tool_says_is_none() {
        let read = "[a.pdf: PDF; pages 1-2 of 2]\n\n--- page 1 ---\nOne. Two.\n\n--- page 2 ---\nThree.\n";
        let told: Vec<_> = sentences(read).into_iter().map(|sentence| (sentence.place, sentence.text)).collect();
        assert_eq!(told, [("page 1", "One."), ("page 1", "Two."), ("page 2", "Three.")]);
    }

    #[test]
    fn a_text_opens_with_its_title_and_first_paragraph() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(opening(text).as_deref(), expected, "{text:?}");
        check("# Lamp\n\n[![build](x.svg)](y)\n\nA lamp that\nlights.\n\nMore.\n", Some("Lamp\n\nA lamp that lights."));
        check("---\ntitle: x\ntags: [a]\n---\n\n# Lamp\n\nIt lights.", Some("Lamp\n\nIt lights."));
        check("It lights.", Some("It lights."));
        check("lamp\n====\nA lamp.\n\n[![build](x.svg)](y)\n", Some("lamp\n\nA lamp."));
        check("# Lamp\n\n```\nmake\n```\n", Some("Lamp\n\nmake"));
        check("---\n\n---\n", None);
        check("", None);
        assert_eq!(without_front_matter("---\na: b\n---\nText"), "Text");
        assert_eq!(without_front_matter("--- page 1 ---\nText"), "--- page 1 ---\nText");
        assert_eq!(without_front_matter("---\nno end"), "---\nno end");
    }

    #[test]
    fn sentences_that_share_words_come_first() {
        let text = sentences("The team met on Monday. The budget is 300 euros. Anna leads the meetings. It rained.");
        assert_eq!(promising(&text, "Who leads the meeting?", 1), [text[2]]);
        assert_eq!(promising(&text, "How big is the budget?", 1), [text[1]]);
        assert_eq!(promising(&text, "zebra?", 2), [text[0], text[1]]);
        assert_eq!(promising(&[], "zebra?", 2), []);
    }
}
