//! What a person said that reads like a rule: it survives every compaction word for word, whatever a model makes of the
//! rest. Pure.

use std::{collections::HashSet, sync::Arc};

use agentd_core::item::{Item, ItemBody};

use crate::prompt::tokens::estimate;

/// Rules that are kept at the most.
const MAX_RULES: usize = 200;
/// What they may take of the window, in percent.
const MAX_PERCENT: u64 = 15;
/// Characters of a rule at the most; a longer sentence is no rule but a text.
const MAX_RULE: usize = 600;

/// Words that make a sentence a rule, where they stand as words.
const WORDS: &[&str] = &[
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
    // German
    "immer",
    "nie",
    "niemals",
    "muss",
    "müssen",
    "musst",
    "soll",
    "sollst",
    "sollen",
    "darf nicht",
    "darfst nicht",
    "dürfen nicht",
    "nur noch",
    "ab jetzt",
    "merk dir",
    "achte darauf",
    "verwende",
    "benutze",
    "verboten",
    "regel:",
    "regeln:",
    // French
    "toujours",
    "jamais",
    "il faut",
    "tu dois",
    "doit",
    "ne pas",
    "évite",
    "évitez",
    "interdit",
    "obligatoire",
    "désormais",
    "retiens",
    "règle :",
    "règles :",
    // Spanish, Portuguese, Italian
    "siempre",
    "nunca",
    "jamás",
    "debes",
    "debe",
    "evita",
    "recuerda",
    "prohibido",
    "obligatorio",
    "a partir de ahora",
    "regla:",
    "reglas:",
    "sempre",
    "deve",
    "evite",
    "lembre",
    "regra:",
    "regras:",
    "devi",
    "ricorda",
    "vietato",
    "regola:",
    "regole:",
    // Russian
    "всегда",
    "никогда",
    "нельзя",
    "должен",
    "должна",
    "должно",
    "должны",
    "запрещено",
    "обязательно",
    "избегай",
    "запомни",
    "впредь",
    "правило:",
    "правила:",
];
/// The same in scripts that do not part words.
const SIGNS: &[&str] = &[
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
pub(crate) fn rules(before: &[String], items: &[Arc<Item>]) -> Vec<String> {
    let mut rules: Vec<String> = before.to_vec();
    let mut known: HashSet<String> = before.iter().map(|rule| core(rule).to_owned()).collect();
    for item in items {
        let ItemBody::UserMessage { text, typed_bytes, .. } = &item.body else { continue };
        // What came through a pipe behind a request is a document, whatever it demands.
        let typed = typed_bytes.map_or(Some(text.as_str()), |bytes| text.get(..usize::try_from(bytes).ok()?));
        for rule in in_text(typed.unwrap_or_default()) {
            if known.insert(core(rule).to_owned()) {
                rules.push(rule.to_owned());
            }
        }
    }
    while rules.len() > MAX_RULES {
        rules.remove(rules.len() / 2);
    }
    rules
}

/// What a rule says, without what stands around it: the same rule is told once, as it was said first. Large and small
/// letters count, since names differ by them.
fn core(rule: &str) -> &str {
    let is_around = |letter: char| letter.is_whitespace() || "-*•·+–".contains(letter);
    rule.trim_start_matches(is_around)
        .trim_end_matches(|letter: char| is_around(letter) || ".!;。！；".contains(letter))
}

/// What a model wrote of rules, without the lines that only repeat those which stand there word for word.
pub(crate) fn without_repeated(written: &str, rules: &[String]) -> String {
    let known: HashSet<&str> = rules.iter().map(|rule| core(rule)).collect();
    let lines: Vec<&str> = written.lines().filter(|line| !known.contains(core(line))).collect();
    lines.join("\n")
}

/// Those that are told in a window of so many tokens, and how many are left out. All of them are kept, so that they are
/// told again where there is more room.
pub(crate) fn told(rules: &[String], window: u64) -> (Vec<String>, usize) {
    // The first were given for the whole session, and the last for what is done now.
    let room = window / 100 * MAX_PERCENT;
    let mut told = rules.to_vec();
    while told.len() > 2 && tokens(&told) > room {
        told.remove(told.len() / 2);
    }
    let left_out = rules.len() - told.len();
    (told, left_out)
}

fn tokens(rules: &[String]) -> u64 {
    rules.iter().map(|rule| estimate(rule)).sum()
}

/// The rules of a text, as they stand there: sentences that read like one, and all items of a list that is headed by one.
fn in_text(text: &str) -> Vec<&str> {
    let mut rules = Vec::new();
    let mut is_headed = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if is_headed && is_item(line) && line.chars().count() <= MAX_RULE {
            rules.push(line);
            continue;
        }
        let sentences = || in_line(line).into_iter().map(str::trim).filter(|sentence| is_rule(sentence));
        is_headed = line.ends_with([':', '：']) && sentences().next_back().is_some_and(|last| line.ends_with(last));
        rules.extend(sentences());
    }
    rules
}

/// Whether a line is one of a list.
fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = numbered.len() < line.len() && numbered.starts_with(['.', ')', '、']);
    is_numbered || line.starts_with(['-', '*', '•', '·', '+', '–'])
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
        assert_eq!(rules(&[], &[user(text)]), expected, "{text}");
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
        check("Lösche niemals meine Notizen. Danke!", &["Lösche niemals meine Notizen."]);
        check("Réponds toujours en français. Merci.", &["Réponds toujours en français."]);
        check("Никогда не удаляй файлы! Спасибо.", &["Никогда не удаляй файлы!"]);
        check("Must we do this?", &[]);
        check("The mustard is good.", &[]);
        check("", &[]);
        check(&format!("You must {}", "x".repeat(1000)), &[]);
    }

    #[test]
    fn a_list_behind_a_rule_is_part_of_it() {
        check(
            "Hi.\nRules:\n\n- tabs, not spaces\n- no emojis\n1) `x` first\nThanks a lot\n- and a list of mine",
            &["Rules:", "- tabs, not spaces", "- no emojis", "1) `x` first"],
        );
        check("要求：\n1、中文\n2、简短", &["要求：", "1、中文", "2、简短"]);
        check("I did this:\n- one\n- two", &[]);
    }

    #[test]
    fn a_small_window_leaves_rules_out_and_forgets_none() {
        let all: Vec<String> = (0..40).map(|number| format!("Never do number {number} again, in any way.")).collect();
        let (few, left_out) = told(&all, 2000);
        assert!(few.len() < 40 && few.len() + left_out == 40, "{few:?}");
        assert_eq!((&few[0], few.last()), (&all[0], all.last()));
        assert_eq!(told(&rules(&all, &[]), WINDOW), (all, 0));
    }

    #[test]
    fn rules_are_kept_once_and_in_order_over_several_compactions() {
        let first = rules(&[], &[user("Never push."), says("You must be joking."), user("Never push.")]);
        assert_eq!(first, ["Never push."]);
        let second = rules(&first, &[user("Always test."), user("- Never push!"), user("Never Push.")]);
        assert_eq!(second, ["Never push.", "Always test.", "Never Push."]);
    }

    #[test]
    fn what_came_through_a_pipe_is_no_rule() {
        let check = |typed_bytes, expected: &[&str]| {
            let text = "Never push.\n\nAlways delete ä.".to_owned();
            let body = ItemBody::UserMessage { text, steered: false, typed_bytes };
            let item = Item { body, ..Item::clone(&user("")) };
            assert_eq!(rules(&[], &[Arc::new(item)]), expected, "{typed_bytes:?}");
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
        let rules = rules(&[], &items);
        assert_eq!(rules.len(), MAX_RULES);
        assert_eq!(rules[0], "Always do 0");
        assert_eq!(rules[MAX_RULES - 1], "Always do 499");
    }
}
