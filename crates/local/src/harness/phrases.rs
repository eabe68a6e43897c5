//! The table `phrases.txt` of questions and answers, and matching requests with it.
//!
//! Sentences are not parsed. A request matches a kind if it contains all words of one of the kind's phrasings.

use std::{collections::HashMap, sync::LazyLock};

static TABLE: LazyLock<Vec<Language>> = LazyLock::new(|| parse(include_str!("phrases.txt")));

/// Request in normalised form.
pub(crate) struct PlainText {
    /// Lower case without accents and punctuation, with one space around each word.
    spaced: String,
    /// Same text without spaces.
    dense: String,
}

/// Script by which a language is recognised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Script {
    #[default]
    Latin,
    Cyrillic,
    Han,
    Kana,
    Hangul,
}

/// Phrasings, word lists and texts in one language.
#[derive(Debug, Default)]
pub(crate) struct Language {
    code: &'static str,
    script: Script,
    asks: HashMap<&'static str, Vec<Ask>>,
    lists: HashMap<&'static str, Vec<Term>>,
    texts: HashMap<&'static str, String>,
}

/// Phrasing of a question.
#[derive(Debug)]
struct Ask {
    /// True if the phrase must be the whole request.
    is_whole: bool,
    /// Groups of alternatives. The request must contain one alternative from each group.
    groups: Vec<Vec<Term>>,
}

/// A single word or several consecutive words.
#[derive(Debug, Clone)]
struct Term {
    text: String,
    /// True if the last word may have a suffix.
    is_open: bool,
}

impl PlainText {
    pub(crate) fn new(text: &str) -> Self {
        let mut spaced = String::from(" ");
        for letter in text.chars().flat_map(char::to_lowercase).flat_map(fold_letter) {
            match letter {
                '\u{300}'..='\u{36f}' => {}
                letter if letter.is_alphanumeric() => spaced.push(letter),
                _ if !spaced.ends_with(' ') => spaced.push(' '),
                _ => {}
            }
        }
        if !spaced.ends_with(' ') {
            spaced.push(' ');
        }
        let dense = spaced.replace(' ', "");
        Self { spaced, dense }
    }

    /// Returns the words without the surrounding spaces.
    pub(crate) fn words(&self) -> &str {
        self.spaced.trim()
    }

    /// Returns true if the text is longer than any question in the table.
    pub(crate) fn is_long(&self) -> bool {
        self.spaced.split_whitespace().count() > 14 || self.dense.chars().count() > 100
    }

    fn has(&self, term: &Term, script: Script) -> bool {
        if !script.is_spaced() {
            return self.dense.contains(&term.text);
        }
        self.spaced.match_indices(&term.text).any(|(at, found)| {
            let is_end = term.is_open || self.spaced[at + found.len()..].starts_with(' ');
            self.spaced[..at].ends_with(' ') && is_end
        })
    }

    fn is(&self, term: &Term, script: Script) -> bool {
        term.text == if script.is_spaced() { self.words() } else { &self.dense }
    }

    fn script(&self) -> Script {
        let has = |range: std::ops::RangeInclusive<char>| self.dense.chars().any(|letter| range.contains(&letter));
        if has('\u{ac00}'..='\u{d7a3}') {
            Script::Hangul
        } else if has('\u{3040}'..='\u{30ff}') {
            Script::Kana
        } else if has('\u{4e00}'..='\u{9fff}') {
            Script::Han
        } else if has('\u{400}'..='\u{4ff}') {
            Script::Cyrillic
        } else {
            Script::Latin
        }
    }
}

impl Script {
    fn is_spaced(self) -> bool {
        matches!(self, Self::Latin | Self::Cyrillic)
    }
}

impl Term {
    fn new(text: &str, script: Script) -> Self {
        let plain = PlainText::new(&text.replace('_', " "));
        let text_form = if script.is_spaced() { plain.words().to_owned() } else { plain.dense };
        Self { text: text_form, is_open: text.ends_with('*') }
    }
}

impl Language {
    /// Returns the default language.
    pub(crate) fn default_language() -> &'static Self {
        &TABLE[0]
    }

    /// Returns the possible languages of a request, most likely first. Earlier requests, newest first, decide if the
    /// request's own words do not.
    pub(crate) fn candidates<'a>(request: &PlainText, earlier: impl Iterator<Item = &'a str>) -> Vec<&'static Self> {
        let script = request.script();
        let own: Vec<&Self> = TABLE.iter().filter(|language| language.script == script).collect();
        if own.len() == 1 {
            return own;
        }
        let scored = |text: &PlainText| -> Vec<(usize, &Self)> {
            let mut scored: Vec<_> = own.iter().map(|language| (language.score(text), *language)).collect();
            scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
            scored
        };
        let all = scored(request);
        let mut likely: Vec<&Self> = all.iter().filter(|(score, _)| *score > 0).map(|(_, one)| *one).collect();
        if likely.is_empty() {
            likely.extend(earlier.map(PlainText::new).find_map(|text| Self::unambiguous_language(&text)));
            likely.extend(all.into_iter().map(|(_, one)| one));
        }
        likely
    }

    /// Returns the language of a text if its script or words are unambiguous.
    fn unambiguous_language(text: &PlainText) -> Option<&'static Self> {
        let script = text.script();
        let own = TABLE.iter().filter(|language| language.script == script);
        let best = own.max_by_key(|language| language.score(text))?;
        (script != Script::Latin || best.score(text) > 0).then_some(best)
    }

    fn score(&self, text: &PlainText) -> usize {
        self.lists.get("words").map_or(0, |words| words.iter().filter(|word| text.has(word, self.script)).count())
    }

    /// Returns true if the request is a question of this kind.
    pub(crate) fn asks(&self, kind: &str, request: &PlainText) -> bool {
        let has = |group: &Vec<Term>| group.iter().any(|term| request.has(term, self.script));
        let fits = |ask: &Ask| match ask.is_whole {
            true => ask.groups.iter().flatten().any(|term| request.is(term, self.script)),
            false => ask.groups.iter().all(has),
        };
        self.asks.get(kind).is_some_and(|asks| asks.iter().any(fits))
    }

    /// Returns true if the request contains a word from this list.
    pub(crate) fn lists(&self, list: &str, request: &PlainText) -> bool {
        self.lists.get(list).is_some_and(|terms| terms.iter().any(|term| request.has(term, self.script)))
    }

    /// Replaces the words in a list with line ends.
    pub(crate) fn remove_terms(&self, list: &str, text: &str) -> String {
        let terms = self.longest_first(list);
        if !self.script.is_spaced() {
            return terms.into_iter().fold(text.to_owned(), |text, term| text.replace(&term.text, "\n"));
        }
        let is_listed = |part: &str| terms.iter().any(|term| term.text == part);
        let is_known = |word: &str| PlainText::new(word).words().split(' ').all(is_listed);
        let words_left = text.split_whitespace().map(|word| if is_known(word) { "\n" } else { word });
        words_left.collect::<Vec<_>>().join(" ")
    }

    fn longest_first(&self, list: &str) -> Vec<&Term> {
        let mut terms: Vec<&Term> = self.lists.get(list).into_iter().flatten().collect();
        terms.sort_by_key(|term| std::cmp::Reverse(term.text.len()));
        terms
    }

    /// Replaces the words in a list with a sign.
    pub(crate) fn replace_terms(&self, list: &str, sign: &str, text: &str) -> String {
        let space = if self.script.is_spaced() { " " } else { "" };
        let replaced = |text: String, term: &Term| text.replace(&format!("{space}{}{space}", term.text), sign);
        self.longest_first(list).into_iter().fold(text.to_owned(), replaced)
    }

    /// Returns true if the title contains an install word in any language.
    pub(crate) fn is_install_title(title: &str) -> bool {
        let title = PlainText::new(title);
        let listed = TABLE.iter().filter_map(|language| Some((language.script, language.lists.get("install")?)));
        listed
            .flat_map(|(script, terms)| terms.iter().map(move |term| (script, term)))
            .any(|(script, term)| title.has(term, script) && (script.is_spaced() || !term.text.is_ascii()))
    }

    /// Returns true if the decimal separator is a comma.
    pub(crate) fn has_decimal_comma(&self) -> bool {
        self.script.is_spaced() && self.code != "en"
    }

    /// Returns a text from the table, or an empty string if it is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts.get(name).map_or("", String::as_str)
    }

    /// Returns a text from the table with its placeholders filled in.
    pub(crate) fn fill(&self, name: &str, blanks: &[(&str, &str)]) -> String {
        blanks
            .iter()
            .fold(self.text(name).to_owned(), |text, (blank, value)| text.replace(&format!("{{{blank}}}"), value))
    }

    /// Returns the name of a weekday, where Monday is 0.
    pub(crate) fn day(&self, number: usize) -> Option<&str> {
        self.text("days").split(' ').nth(number)
    }
}

/// Removes accents, and converts full-width characters.
fn fold_letter(letter: char) -> impl Iterator<Item = char> {
    let (first, second) = match letter {
        'à'..='å' => ('a', None),
        'ç' => ('c', None),
        'è'..='ë' => ('e', None),
        'ì'..='ï' => ('i', None),
        'ñ' => ('n', None),
        'ò'..='ö' => ('o', None),
        'ù'..='ü' => ('u', None),
        'ß' => ('s', Some('s')),
        'ё' => ('е', None),
        '\u{ff01}'..='\u{ff5e}' => (char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter), None),
        other => (other, None),
    };
    std::iter::once(first).chain(second)
}

fn parse(table: &'static str) -> Vec<Language> {
    let mut languages = Vec::new();
    let mut lists: HashMap<&str, String> = HashMap::new();
    for section in table.split("\n[").skip(1) {
        let Some((head, body)) = section.split_once("]\n") else { continue };
        let mut entries: Vec<(char, &str, String)> = Vec::new();
        for line in body.lines().filter(|line| !line.is_empty()) {
            let mut letters = line.chars();
            match (letters.next(), line.get(2..).and_then(|rest| rest.split_once(':')), entries.last_mut()) {
                (Some(' '), _, Some((_, _, value))) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (Some(sign), Some((name, value)), _) => entries.push((sign, name, value.trim().to_owned())),
                _ => {}
            }
        }
        let Some((code, script)) = head.split_once(' ') else {
            lists = entries.into_iter().map(|(_, name, words)| (name, words)).collect();
            continue;
        };
        let script = match script {
            "han" => Script::Han,
            "kana" => Script::Kana,
            "hangul" => Script::Hangul,
            "cyrillic" => Script::Cyrillic,
            _ => Script::Latin,
        };
        let mut language = Language { code, script, ..Language::default() };
        let terms = |words: &str| words.split_whitespace().map(|word| Term::new(word, script)).collect();
        language.lists.extend(lists.iter().map(|(name, words)| (*name, terms(words))));
        for (sign, name, value) in entries {
            match sign {
                '?' => {
                    let asks = value.split(" ; ").map(|ask| language.ask(ask.trim())).collect();
                    language.asks.insert(name, asks);
                }
                '=' if name != "days" => drop(language.lists.insert(name, terms(&value))),
                _ => drop(language.texts.insert(name, value)),
            }
        }
        languages.push(language);
    }
    languages
}

impl Language {
    fn ask(&self, ask: &str) -> Ask {
        let is_whole = ask.starts_with('=');
        let group = |group: &str| -> Vec<Term> {
            let alternatives = group.trim_start_matches('=').split('/');
            alternatives
                .flat_map(|term| match term.strip_prefix('@').and_then(|list| self.lists.get(list)) {
                    Some(listed) => listed.clone(),
                    None => vec![Term::new(term, self.script)],
                })
                .collect()
        };
        Ask { is_whole, groups: ask.split_whitespace().map(group).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_languages_have_the_same_entries() {
        let names = |language: &Language| {
            let mut names: Vec<&str> =
                language.asks.keys().chain(language.lists.keys()).chain(language.texts.keys()).copied().collect();
            names.retain(|name| *name != "words");
            names.sort_unstable();
            names
        };
        assert_eq!(TABLE.len(), 10);
        for language in TABLE.iter() {
            assert_eq!(names(language), names(&TABLE[0]), "{}", language.code);
            assert!(language.day(6).is_some() && language.text("steps").split(" | ").count() == 3, "{}", language.code);
            for name in language.texts.keys() {
                let blanks = |language: &Language| {
                    let mut blanks: Vec<String> = language
                        .text(name)
                        .split('{')
                        .skip(1)
                        .filter_map(|part| Some(part.split_once('}')?.0.to_owned()))
                        .collect();
                    blanks.sort_unstable();
                    blanks
                };
                assert_eq!(blanks(language), blanks(&TABLE[0]), "{} {name}", language.code);
            }
        }
    }

    #[test]
    fn requests_are_normalised() {
        let check = |text: &str, words: &str| assert_eq!(PlainText::new(text).words(), words);
        check("  Où est-ce, GROẞ?", "ou est ce gross");
        check("１７＊２３", "17 23");
        check("…", "");
    }
}
