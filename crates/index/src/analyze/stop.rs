//! Words of Chinese and Japanese that say nothing about what a text is about.

const CHINESE: [&str; 56] = [
    "的",
    "了",
    "是",
    "在",
    "和",
    "与",
    "及",
    "或",
    "有",
    "为",
    "对",
    "也",
    "都",
    "就",
    "而",
    "被",
    "把",
    "到",
    "从",
    "我",
    "你",
    "他",
    "她",
    "它",
    "吗",
    "呢",
    "吧",
    "啊",
    "这",
    "那",
    "哪",
    "个",
    "什么",
    "怎么",
    "如何",
    "哪些",
    "哪个",
    "多少",
    "这个",
    "那个",
    "我们",
    "你们",
    "他们",
    "请问",
    "文档",
    "文件中",
    "说明",
    "介绍",
    "关于",
    "提到",
    "什么样",
    "怎样",
    "为什么",
    "是否",
    "哪里",
    "谁",
];

const JAPANESE: [&str; 15] =
    ["の", "は", "を", "に", "が", "で", "も", "へ", "と", "や", "か", "な", "です", "ます", "から"];

/// Returns whether a word of Chinese or Japanese says nothing where others say something.
#[must_use]
pub fn is_stop_word(word: &str) -> bool {
    CHINESE.contains(&word) || JAPANESE.contains(&word)
}
