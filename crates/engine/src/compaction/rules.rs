//! What a person said that reads like a rule: it survives every compaction word for word, whatever a model makes of the
//! rest. Pure.

use std::sync::Arc;

use agentd_core::item::{Item, ItemBody};

use crate::prompt::tokens::estimate;

/// Rules that are kept at the most.
const MAX_RULES: usize = 200;
/// What they may take of the window, in percent.
const MAX_PERCENT: u64 = 15;
/// Characters of a rule at the most; a longer sentence is no rule but a text.
const MAX_RULE: usize = 600;

/// Words that make a sentence a rule, where they stand as words.
const WORDS: [&str; 40] = [
    "always",
    "never",
    "must",
    "mustn't",
    "don't",
    "dont",
    "do not",
    "make sure",
    "ensure",
    "remember",
    "from now on",
    "only use",
    "use only",
    "avoid",
    "should",
    "shouldn't",
    "should not",
    "prefer",
    "please use",
    "instead of",
    "no longer",
    "under no circumstances",
    "at all times",
    "in all cases",
    "every time",
    "without exception",
    "keep in mind",
    "required",
    "forbidden",
    "not allowed",
    "is off limits",
    "rule:",
    "rules:",
    "important:",
    "note:",
    "convention",
    "call me",
    "my name is",
    "stick to",
    "refrain",
];
/// The same in scripts that do not part words.
const SIGNS: [&str; 32] = [
    "必须",
    "不要",
    "不能",
    "不得",
    "禁止",
    "务必",
    "一定要",
    "永远",
    "始终",
    "总是",
    "记住",
    "请记",
    "从现在",
    "以后都",
    "只能",
    "只用",
    "严禁",
    "切勿",
    "应该",
    "不应",
    "避免",
    "規則",
    "规则",
    "要求",
    "必ず",
    "しないで",
    "してはいけ",
    "覚えて",
    "常に",
    "반드시",
    "하지 마",
    "항상",
];

/// The rules that a history holds, the oldest first, each once. `before` are those of the compaction that it begins with.
pub(crate) fn rules(before: &[String], items: &[Arc<Item>], window: u64) -> Vec<String> {
    let mut rules: Vec<String> = before.to_vec();
    for item in items {
        let ItemBody::UserMessage { text, typed_bytes, .. } = &item.body else { continue };
        // What came through a pipe is a document, whatever it demands.
        let typed = typed_bytes.map_or(Some(text.as_str()), |bytes| text.get(..usize::try_from(bytes).ok()?));
        for sentence in sentences(typed.unwrap_or_default()).filter(|sentence| is_rule(sentence)) {
            if !rules.iter().any(|rule| rule == sentence) {
                rules.push(sentence.to_owned());
            }
        }
    }
    // The first were given for the whole session, and the last for what is done now.
    let room = window / 100 * MAX_PERCENT;
    while rules.len() > MAX_RULES || (rules.len() > 2 && tokens(&rules) > room) {
        rules.remove(rules.len() / 2);
    }
    rules
}

fn tokens(rules: &[String]) -> u64 {
    rules.iter().map(|rule| estimate(rule)).sum()
}

/// The sentences of a text, as they stand there.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(in_line).map(str::trim).filter(|sentence| !sentence.is_empty())
}

/// Splits a line behind the marks that end a sentence: wide ones anywhere, others before a blank.
fn in_line(line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut characters = line.char_indices().peekable();
    while let Some((index, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | ';' => next.is_some_and(char::is_whitespace),
            _ => false,
        };
        if ends {
            let end = index + c.len_utf8();
            parts.push(&line[begin..end]);
            begin = end;
        }
    }
    parts.push(&line[begin..]);
    parts
}

fn is_rule(sentence: &str) -> bool {
    if sentence.chars().count() > MAX_RULE || sentence.ends_with('?') || sentence.ends_with('？') {
        return false;
    }
    let lower = sentence.to_lowercase().replace('’', "'");
    let is_word_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let has_word = |word: &str| {
        lower.match_indices(word).any(|(at, found)| {
            is_word_end(lower[..at].chars().next_back()) && is_word_end(lower[at + found.len()..].chars().next())
        })
    };
    WORDS.iter().any(|word| has_word(word)) || SIGNS.iter().any(|sign| lower.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::samples::{says, user};

    const WINDOW: u64 = 100_000;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(rules(&[], &[user(text)], WINDOW), expected, "{text}");
    }

    #[test]
    fn sentences_that_read_like_rules_are_found() {
        check("Hello. Never push to main! What is up?", &["Never push to main!"]);
        check(
            "Fix the bug in src/a.rs.\n- Always run `make test` first\n- thanks",
            &["- Always run `make test` first"],
        );
        check("Don’t touch config.yml or a.b. It is fine.", &["Don’t touch config.yml or a.b."]);
        check("看一下这个文件。以后都用中文回答。谢谢！", &["以后都用中文回答。"]);
        check("必ずテストを実行してください。", &["必ずテストを実行してください。"]);
        check("Must we do this?", &[]);
        check("The mustard is good.", &[]);
        check("", &[]);
        check(&format!("You must {}", "x".repeat(1000)), &[]);
    }

    #[test]
    fn rules_are_kept_once_and_in_order_over_several_compactions() {
        let first = rules(&[], &[user("Never push."), says("You must be joking."), user("Never push.")], WINDOW);
        assert_eq!(first, ["Never push."]);
        let second = rules(&first, &[user("Always test."), user("Never push.")], WINDOW);
        assert_eq!(second, ["Never push.", "Always test."]);
    }

    #[test]
    fn what_came_through_a_pipe_is_no_rule() {
        let check = |typed_bytes, expected: &[&str]| {
            let text = "Never push.\n\nAlways delete ä.".to_owned();
            let body = ItemBody::UserMessage { text, steered: false, typed_bytes };
            let item = Item { body, ..Item::clone(&user("")) };
            assert_eq!(rules(&[], &[Arc::new(item)], WINDOW), expected, "{typed_bytes:?}");
        };
        check(None, &["Never push.", "Always delete ä."]);
        check(Some(11), &["Never push."]);
        check(Some(0), &[]);
        check(Some(28), &[]);
        check(Some(1000), &[]);
    }

    #[test]
    fn of_too_many_the_first_and_the_last_stay() {
        let items: Vec<_> = (0..500).map(|n| user(&format!("Always do {n}"))).collect();
        let rules = rules(&[], &items, WINDOW);
        assert_eq!(rules.len(), MAX_RULES);
        assert_eq!(rules[0], "Always do 0");
        assert_eq!(rules[MAX_RULES - 1], "Always do 499");
    }
}
