//! Tokenizer for the terms by which chunks are ranked, and the Chinese dictionary.

use std::sync::OnceLock;

use frostem::Stemmer;
use jieba_rs::Jieba;
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use super::{
    Language,
    exact::{parts, small},
    normal::{LetterRun, MAX_GROUPS, Normal, Script, grouped_number, runs},
};

/// Maximum length of a word in bytes. Longer words are codes, which are only found by their
/// [exact](super::exact::exact) form.
const MAX_WORD_BYTES: usize = 64;

/// Returns the stem of a word in a language, such as `connect` for `connections`, in lower case and without accents.
pub fn stem(word: &str, language: Language) -> String {
    let word = small(word);
    // Numbers are not inflected.
    if !word.chars().any(char::is_alphabetic) {
        return word;
    }
    let stem = language.algorithm().map(|algorithm| Stemmer::new(algorithm).stem(&word).into_owned());
    let stem = stem.filter(|stem| language == Language::ENGLISH || is_likely(stem, &word)).unwrap_or(word);
    if stem.is_ascii() { stem } else { without_accents(&stem) }
}

/// Returns true if the stem retains enough of the word. Query words are stemmed in every language, and `order` is not a
/// form of `or`.
fn is_likely(stem: &str, word: &str) -> bool {
    let (left, all) = (stem.chars().count(), word.chars().count());
    let ending = if all <= 5 { 1 } else { (all - 1) / 2 };
    left + ending >= all
}

/// Returns the distinct stems of a word in all languages, the English stem first.
pub fn stems(word: &str) -> Vec<String> {
    let mut stems: Vec<String> = Vec::new();
    for language in Language::all() {
        let stem = stem(word, language);
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// Detects the language of a normalised text.
pub fn language(text: &str) -> Language {
    let spaced = runs(text).filter(|run| run.script == Script::Spaced);
    let words: Vec<String> = spaced.map(|run| small(text.get(run.range).unwrap_or_default())).collect();
    Language::of(words.iter().map(String::as_str))
}

/// Removes accents from Latin, Greek and Cyrillic letters, as many users type without accents.
pub fn without_accents(word: &str) -> String {
    let mut without_accents = String::with_capacity(word.len());
    for letter in word.chars() {
        match letter {
            '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{652}' => {}
            'ß' => without_accents.push_str("ss"),
            'æ' => without_accents.push_str("ae"),
            'œ' => without_accents.push_str("oe"),
            'ø' => without_accents.push('o'),
            'đ' => without_accents.push('d'),
            'ł' => without_accents.push('l'),
            'ı' => without_accents.push('i'),
            '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{4ff}' | '\u{1e00}'..='\u{1fff}' => {
                without_accents.extend(std::iter::once(letter).nfd().find(|letter| !is_combining_mark(*letter)));
            }
            letter => without_accents.push(letter),
        }
    }
    without_accents
}

/// Emits the terms of a text: stems in the text's language, Chinese words with the words inside them, and character
/// pairs for other scripts without spaces. A number with thousands separators is also emitted without them.
pub fn words(text: &str, dictionary: &Dictionary, emit: &mut dyn FnMut(String)) {
    let normal = Normal::new(text);
    let language = language(normal.text());
    let all: Vec<LetterRun> = runs(normal.text()).collect();
    let mut last_number = 0;
    for (at, run) in all.iter().enumerate() {
        let groups = &all[at..all.len().min(at + MAX_GROUPS)];
        if at >= last_number
            && let Some((digits, count, _)) = grouped_number(normal.text(), groups)
        {
            emit(digits);
            last_number = at + count;
        }
        let run_text = normal.text().get(run.range.clone()).unwrap_or_default();
        match run.script {
            Script::Spaced => spaced(run_text, language, emit),
            // Includes words inside longer words.
            Script::Han => {
                let words = dictionary.jieba().cut_for_search(run_text, true);
                words.into_iter().for_each(|token| emit(token.word.to_owned()));
            }
            Script::Kana | Script::Hangul | Script::SoutheastAsian => pairs(run_text, emit),
        }
    }
}

fn spaced(word: &str, language: Language, emit: &mut dyn FnMut(String)) {
    if word.len() > MAX_WORD_BYTES {
        return;
    }
    emit(stem(word, language));
    for part in parts(word) {
        emit(stem(word.get(part).unwrap_or_default(), language));
    }
}

/// Emits character pairs, or the character itself if there is only one.
pub(crate) fn pairs(stretch: &str, emit: &mut dyn FnMut(String)) {
    let letters: Vec<char> = stretch.chars().collect();
    match letters.as_slice() {
        [letter] => emit(letter.to_string()),
        letters => letters.windows(2).for_each(|pair| emit(pair.iter().collect())),
    }
}

/// Chinese dictionary, loaded on first use because it takes tens of megabytes.
#[derive(Default)]
pub struct Dictionary(OnceLock<Jieba>);

impl Dictionary {
    /// Segments Han characters into consecutive words, for queries.
    pub fn cut(&self, letters: &str) -> Vec<String> {
        self.jieba().cut(letters, true).into_iter().map(|token| token.word.to_owned()).collect()
    }

    fn jieba(&self) -> &Jieba {
        self.0.get_or_init(Jieba::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_loads_for_chinese_only() {
        let dictionary = Dictionary::default();
        let tokens = |text: &str| {
            let mut tokens = Vec::new();
            words(text, &dictionary, &mut |word| tokens.push(word));
            tokens.join(" ")
        };
        assert_eq!(tokens("userNames カメラ กรุง"), "usernam user name カメ メラ กร รุ ุง");
        assert!(dictionary.0.get().is_none(), "nothing Chinese was asked for");
        assert_eq!(tokens("我来到北京清华大学"), "我 来到 北京 清华 华大 大学 清华大学");
    }
}
