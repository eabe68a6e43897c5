//! The words of a text by which it is ranked.

use frostem::{Algorithm, Stemmer};

use super::{
    Dictionary,
    exact::{parts, small},
    normal::Normal,
    runs::{Script, runs},
};

/// Longer words are codes, not words: they are found by their [exact](super::exact::exact) form only.
const LONGEST: usize = 64;

/// A word without its ending: `connect` for `connections`. It begins as the word does, in small letters; an apostrophe is no
/// letter of a word.
#[must_use]
pub fn stem(word: &str) -> String {
    let word = small(word);
    // Other letters have no English endings, and numbers none at all.
    if word.is_ascii() { Stemmer::new(Algorithm::English).stem(&word).into_owned() } else { word }
}

/// Tells the words of a text: stemmed English, Chinese words and the words within them, pairs of kana and hangul.
pub fn words(text: &str, dictionary: &Dictionary, tell: &mut dyn FnMut(String)) {
    let normal = Normal::new(text);
    for run in runs(normal.text()) {
        let run_text = normal.text().get(run.range).unwrap_or_default();
        match run.script {
            Script::Spaced => spaced(run_text, tell),
            Script::Han => dictionary.all_words(run_text, tell),
            Script::Kana | Script::Hangul => pairs(run_text, tell),
        }
    }
}

fn spaced(word: &str, tell: &mut dyn FnMut(String)) {
    if word.len() > LONGEST {
        return;
    }
    tell(stem(word));
    for part in parts(word) {
        tell(stem(word.get(part).unwrap_or_default()));
    }
}

/// Pairs of letters, or the letter itself where there is one only.
pub(crate) fn pairs(stretch: &str, tell: &mut dyn FnMut(String)) {
    let letters: Vec<char> = stretch.chars().collect();
    match letters.as_slice() {
        [letter] => tell(letter.to_string()),
        letters => letters.windows(2).for_each(|pair| tell(pair.iter().collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dictionary: &Dictionary, text: &str, expected: &[&str]) {
        let mut told = Vec::new();
        words(text, dictionary, &mut |word| told.push(word));
        assert_eq!(told, expected, "{text}");
    }

    proptest::proptest! {
        #[test]
        fn a_stem_begins_as_its_word_does(word in "[a-z0-9]{1,14}|[aeiouy]{1,3}(s|es|ed|ing|ly|ies|ied|ying|ation)") {
            proptest::prop_assert_eq!(stem(&word).chars().next(), word.chars().next(), "{}", word);
        }
    }

    #[test]
    fn words_are_stemmed_or_looked_up() {
        let dictionary = Dictionary::default();
        check(&dictionary, "Connections were Connecting", &["connect", "were", "connect"]);
        check(&dictionary, "userNames in 2023", &["usernam", "user", "name", "in", "2023"]);
        check(&dictionary, "カメラ", &["カメ", "メラ"]);
        check(&dictionary, "한국어", &["한국", "국어"]);
        assert!(!dictionary.is_loaded(), "nothing Chinese was asked for");
        check(&dictionary, "我来到北京清华大学", &["我", "来到", "北京", "清华", "华大", "大学", "清华大学"]);
        check(&dictionary, "使用PDF文件", &["使用", "pdf", "文件"]);
        check(&dictionary, "東京の天気", &["東京", "の", "天", "気"]);
    }
}
