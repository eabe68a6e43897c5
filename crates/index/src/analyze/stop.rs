//! Words that say nothing about what a text is about.

const ENGLISH: [&str; 74] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "please", "s", "shall", "should", "so", "t", "than",
    "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "was", "we", "were", "what",
    "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "tell",
];

const CHINESE: [&str; 44] = [
    "的", "了", "是", "在", "和", "与", "及", "或", "有", "为", "对", "也", "都", "就", "而", "被", "把", "到", "从",
    "我", "你", "他", "她", "它", "吗", "呢", "吧", "啊", "这", "那", "哪", "个", "什么", "怎么", "如何", "哪些",
    "哪个", "多少", "这个", "那个", "我们", "你们", "他们", "请问",
];

const JAPANESE: [&str; 15] =
    ["の", "は", "を", "に", "が", "で", "も", "へ", "と", "や", "か", "な", "です", "ます", "から"];

/// Returns whether a word, in small letters, says nothing where others say something.
#[must_use]
pub fn is_stop_word(word: &str) -> bool {
    ENGLISH.contains(&word) || CHINESE.contains(&word) || JAPANESE.contains(&word)
}
