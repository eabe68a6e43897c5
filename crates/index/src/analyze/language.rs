//! Language detection by function words, and stop words.

use std::{collections::HashMap, sync::LazyLock};

use frostem::Algorithm;

/// Language that has a stemmer or known function words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Language(u8);

/// Function words by language.
const FUNCTION_WORDS: &str = include_str!("small_words.txt");

/// Languages in the order of `small_words.txt`.
const LANGUAGES: [(&str, Algorithm); 22] = [
    ("en", Algorithm::English),
    ("de", Algorithm::German),
    ("fr", Algorithm::French),
    ("es", Algorithm::Spanish),
    ("it", Algorithm::Italian),
    ("pt", Algorithm::Portuguese),
    ("nl", Algorithm::Dutch),
    ("sv", Algorithm::Swedish),
    ("da", Algorithm::Danish),
    ("no", Algorithm::Norwegian),
    ("fi", Algorithm::Finnish),
    ("ru", Algorithm::Russian),
    ("pl", Algorithm::Polish),
    ("cs", Algorithm::Czech),
    ("ro", Algorithm::Romanian),
    ("hu", Algorithm::Hungarian),
    ("tr", Algorithm::Turkish),
    ("ca", Algorithm::Catalan),
    ("el", Algorithm::Greek),
    ("uk", Algorithm::Ukrainian),
    ("ar", Algorithm::Arabic),
    ("id", Algorithm::Indonesian),
];

impl Language {
    /// English, the fallback for texts whose language is unknown.
    pub const ENGLISH: Self = Self(0);

    /// Iterates over all languages with a stemmer.
    pub fn all() -> impl Iterator<Item = Self> {
        (0_u8..).zip(LANGUAGES).map(|(index, _)| Self(index))
    }

    /// Returns the language with the most function words among these lowercase words, or English if there are fewer
    /// than two.
    pub fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut counts = [0_u16; LANGUAGES.len() + 1];
        for word in words {
            add(&mut counts, SMALL_WORDS.get(word).map_or(0, |of| of.texts));
        }
        let highest = counts.iter().copied().max().unwrap_or_default();
        let first = counts.iter().position(|count| *count == highest).filter(|_| highest >= MIN_FUNCTION_WORDS);
        first.and_then(|index| u8::try_from(index).ok()).map_or(Self::ENGLISH, Self)
    }

    pub(super) fn algorithm(self) -> Option<Algorithm> {
        LANGUAGES.get(usize::from(self.0)).map(|(_, algorithm)| *algorithm)
    }
}

/// Minimum number of function words for a language other than English.
const MIN_FUNCTION_WORDS: u16 = 2;

/// Returns true for each lowercase word of a query that is a stop word, in English or in the language with the most
/// function words. Question words only count as stop words if the query has other function words.
pub fn small_words(words: &[&str]) -> Vec<bool> {
    let small = |word: &&str| SMALL_WORDS.get(word).copied().unwrap_or_default();
    let mut counts = [0_u16; LANGUAGES.len() + 1];
    let is_question = words.iter().any(|word| small(word).texts != 0);
    let of = |word: &&str| small(word).texts | if is_question { small(word).questions } else { 0 };
    words.iter().for_each(|word| add(&mut counts, of(word)));
    // A single function word may be a meaningful word in another language, such as `war`.
    let highest = counts.iter().copied().max().filter(|highest| *highest >= MIN_FUNCTION_WORDS);
    let languages = (0_u32..).zip(counts).filter(|(_, count)| Some(*count) == highest);
    let languages = languages.fold(0, |all, (index, _)| all | 1 << index);
    words.iter().map(|word| of(word) & languages != 0 || small(word).texts & 1 != 0).collect()
}

fn add<const N: usize>(counts: &mut [u16; N], of: u32) {
    if of != 0 {
        for (index, count) in counts.iter_mut().enumerate() {
            *count += u16::from(of >> index & 1 != 0);
        }
    }
}

/// Bit sets of the languages in which a word is a function word.
#[derive(Debug, Default, Clone, Copy)]
struct WordLanguages {
    /// Languages in which the word is a function word in any text.
    texts: u32,
    /// Languages in which the word is a function word in questions only.
    questions: u32,
}

static SMALL_WORDS: LazyLock<HashMap<&'static str, WordLanguages>> = LazyLock::new(|| {
    let mut small: HashMap<&'static str, WordLanguages> = HashMap::new();
    for line in FUNCTION_WORDS.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, words)) = line.split_once(' ') else { continue };
        // Languages without a stemmer share the index after all others.
        let language = name.trim_end_matches('?');
        let index = LANGUAGES.iter().position(|(known, _)| *known == language).unwrap_or(LANGUAGES.len());
        for word in words.split_whitespace() {
            let of = small.entry(word).or_default();
            *(if name.ends_with('?') { &mut of.questions } else { &mut of.texts }) |= 1 << index;
        }
    }
    small
});

const CHINESE: &str = "的 了 是 在 和 与 及 或 有 为 对 也 都 就 而 被 把 到 从 我 你 他 她 它 吗 呢 吧 啊 这 那 哪 个 什么 怎么 \
    如何 哪些 哪个 多少 这个 那个 我们 你们 他们 请问 文档 文件中 说明 介绍 关于 提到 什么样 怎样 为什么 是否 哪里 谁";

const JAPANESE: &str = "の は を に が で も へ と や か な です ます から";

/// Returns true for Chinese and Japanese stop words.
pub fn is_stop_word(word: &str) -> bool {
    CHINESE.split(' ').chain(JAPANESE.split(' ')).any(|known| known == word)
}
