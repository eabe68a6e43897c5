//! What a person said that reads like a rule: it survives every compaction word for word, whatever a model makes of the
//! rest. Pure.
//!
//! - [`passages`](mod@passages): what belongs together in a text. [`words`](mod@words): what makes a rule of it.

mod passages;
mod words;

use std::{collections::HashSet, sync::Arc};

use agentd_core::{
    context::Compaction,
    item::{Item, ItemBody},
};

use self::{
    passages::{Passage, passages, sentences},
    words::is_rule,
};
use crate::tokens::estimate;

/// Rules that are kept at the most.
const MAX_RULES: usize = 200;
/// Maximum percentage of the window for rules.
const MAX_PERCENT: u64 = 15;
/// Characters of a passage that is kept whole for a rule in it; of a longer one the sentences are kept that are rules.
const MAX_RULE: usize = 600;
/// Tokens of one sentence, or one entry of a list, at the most: what is longer was hardly typed as a rule.
const MAX_SENTENCE: u64 = 600;

/// The rules of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The oldest first, each once.
    pub rules: Vec<String>,
    /// Number of rules of each message, in the same order.
    pub by_message: Vec<u32>,
    /// Number of further rules that were dropped.
    pub dropped: usize,
}

/// The rules that a history holds. `before` is the compaction that it begins with.
pub fn rules(before: Option<&Compaction>, items: &[Arc<Item>]) -> Kept {
    let mut messages = before.map(by_message).unwrap_or_default();
    let mut known: HashSet<String> = messages.iter().flatten().map(|rule| core(rule)).collect();
    for item in items {
        let ItemBody::UserMessage { text, typed_bytes, .. } = &item.body else { continue };
        // What came through a pipe behind a request is a document, whatever it demands.
        let typed = typed_bytes.map_or(Some(text.as_str()), |bytes| text.get(..usize::try_from(bytes).ok()?));
        let found = in_text(typed.unwrap_or_default());
        messages.push(found.into_iter().filter(|rule| known.insert(core(rule))).map(str::to_owned).collect());
    }
    messages.retain(|rules| !rules.is_empty());
    let dropped = drop_most_said(&mut messages);
    let by_message = messages.iter().map(|rules| u32::try_from(rules.len()).unwrap_or(u32::MAX)).collect();
    Kept { rules: messages.into_iter().flatten().collect(), by_message, dropped }
}

/// The rules that a compaction kept, message by message.
fn by_message(compaction: &Compaction) -> Vec<Vec<String>> {
    let mut rules = compaction.report.pinned.iter().cloned();
    let mut messages: Vec<Vec<String>> =
        compaction.pinned_by_message.iter().map(|count| rules.by_ref().take(*count as usize).collect()).collect();
    // Where it is not known, each counts for itself.
    messages.extend(rules.map(|rule| vec![rule]));
    messages
}

/// Drops what is too much, of the message that gave most: a list that somebody pasted gives way before what was said in a
/// sentence. The first and the last stay longest. Returns how many are gone.
fn drop_most_said(messages: &mut [Vec<String>]) -> usize {
    let too_many = messages.iter().map(Vec::len).sum::<usize>().saturating_sub(MAX_RULES);
    for _ in 0..too_many {
        let most = messages.iter().map(Vec::len).max().unwrap_or_default();
        let longest: Vec<usize> = (0..messages.len()).filter(|index| messages[*index].len() == most).collect();
        if let Some(rules) = longest.get(longest.len() / 2).and_then(|index| messages.get_mut(*index)) {
            rules.remove(most / 2);
        }
    }
    too_many
}

/// Text of a rule without what stands around it or between its words: the same rule is stored once, as it was said
/// first. Case counts, since names differ by it.
fn core(rule: &str) -> String {
    let is_around = |letter: char| letter.is_whitespace() || "-*•·+–".contains(letter);
    let bare = rule
        .trim_start_matches(is_around)
        .trim_end_matches(|letter: char| is_around(letter) || ".!;。！；".contains(letter));
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A model's words about rules, without the lines that only repeat those which stand there word for word.
pub(crate) fn without_repeated(written: &str, rules: &[String]) -> String {
    let parts = rules.iter().flat_map(|rule| sentences(rule, MAX_RULE)).map(core);
    let known: HashSet<String> = rules.iter().map(|rule| core(rule)).chain(parts).collect();
    let lines: Vec<&str> = written.lines().filter(|line| !known.contains(&core(line))).collect();
    lines.join("\n")
}

/// Those that are told in a window of so many tokens, and how many are left out. All of them are kept, so that they are
/// told again where there is more room.
pub fn told(rules: &[String], window: u64) -> (Vec<String>, usize) {
    let room = window / 100 * MAX_PERCENT;
    let mut told: Vec<(u64, &String)> = rules.iter().map(|rule| (estimate(rule), rule)).collect();
    let mut tokens: u64 = told.iter().map(|(tokens, _)| tokens).sum();
    // The first was given for the whole session, and the last for what is done now. Of the others the longest give way:
    // so most are told.
    while told.len() > 2 && tokens > room {
        let longest = told[1..told.len() - 1].iter().map(|(tokens, _)| *tokens).max().unwrap_or_default();
        let among: Vec<usize> = (1..told.len() - 1).filter(|index| told[*index].0 == longest).collect();
        told.remove(among[among.len() / 2]);
        tokens -= longest;
    }
    // Where two long ones would fill a window that is tiny, one is told.
    if told.len() == 2 && tokens > room + room / 2 {
        told.remove(usize::from(told[1].0 >= told[0].0));
    }
    let left_out = rules.len() - told.len();
    (told.into_iter().map(|(_, rule)| rule.clone()).collect(), left_out)
}

/// The rules of a text, as they stand there: passages that read like one, and what is listed below one.
fn in_text(text: &str) -> Vec<&str> {
    let mut rules = Vec::new();
    // The passage before, where what follows may belong to it.
    let mut head: Option<Head<'_>> = None;
    for passage in passages(text) {
        let found = in_passage(passage.text);
        if may_be_rule(passage.text) && head.as_ref().is_some_and(|head| head.covers(&passage)) {
            rules.push(passage.text);
            // Of what is no list, only what stands next to its head is meant.
            head = head.filter(|_| passage.entry.is_some()).map(|head| Head { is_next: false, ..head });
            continue;
        }
        // An entry that is a rule says little without the words that lead to it: "On Fridays:".
        if passage.entry.is_some() && !found.is_empty() {
            rules.extend(head.as_ref().and_then(|head| head.leads));
        }
        rules.extend(&found);
        head = Head::of(&passage, !found.is_empty(), head);
    }
    rules
}

/// The rules of one passage: all of it where it is short, so that no word is parted from what it speaks of.
fn in_passage(passage: &str) -> Vec<&str> {
    let rules: Vec<&str> = sentences(passage, MAX_RULE)
        .into_iter()
        .filter(|sentence| may_be_rule(sentence) && is_rule(sentence))
        .collect();
    if !rules.is_empty() && passage.chars().count() <= MAX_RULE { vec![passage] } else { rules }
}

fn may_be_rule(text: &str) -> bool {
    estimate(text) <= MAX_SENTENCE
}

/// Line above a list.
#[derive(Debug, Clone, Copy)]
struct Head<'a> {
    /// Entries that are set in at least so far belong to the rule; none where it is no rule.
    covered: Option<usize>,
    /// Set if it ends as what leads to something does, with a colon: then what follows need not adjoin it.
    has_colon: bool,
    /// Set if nothing stands between it and what comes.
    is_next: bool,
    /// Its words, where they lead to a list and are no rule themselves.
    leads: Option<&'a str>,
}

impl<'a> Head<'a> {
    fn of(passage: &Passage<'a>, is_rule: bool, before: Option<Self>) -> Option<Self> {
        let last = passage.text.chars().next_back()?;
        let has_colon = matches!(last, ':' | '：');
        let last_is_rule = is_rule && sentences(passage.text, MAX_RULE).last().is_some_and(|last| words::is_rule(last));
        match passage.entry {
            None => Some(Self {
                // A sentence that has come to its end leads to nothing.
                covered: (last_is_rule && (has_colon || !".!?;。！？；".contains(last))).then_some(0),
                has_colon,
                is_next: true,
                leads: (has_colon && !last_is_rule && passage.text.chars().count() <= MAX_RULE).then_some(passage.text),
            }),
            // What is set in deeper belongs to it.
            Some(depth) if is_rule => Some(Self {
                covered: Some(depth + usize::from(!has_colon)),
                has_colon: true,
                is_next: false,
                leads: before.and_then(|head| head.leads),
            }),
            Some(_) => before.map(|head| Self { covered: None, ..head }),
        }
    }

    /// Returns whether a passage behind it is part of the rule.
    fn covers(&self, passage: &Passage<'_>) -> bool {
        let follows = self.has_colon || passage.adjoins;
        match passage.entry {
            Some(depth) => follows && self.covered.is_some_and(|least| depth >= least),
            None => self.has_colon && self.is_next && self.covered.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::context::CompactionReport;

    use super::*;
    use crate::compaction::samples::{says, user};

    fn found(items: &[Arc<Item>]) -> Vec<String> {
        rules(None, items).rules
    }

    /// A compaction that kept these.
    fn after(kept: Kept) -> Compaction {
        let report = CompactionReport { pinned: kept.rules, ..CompactionReport::default() };
        Compaction { report, pinned_by_message: kept.by_message, ..Compaction::default() }
    }

    const WINDOW: u64 = 100_000;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(found(&[user(text)]), expected, "{text}");
    }

    #[test]
    fn passages_that_read_like_rules_are_found_whole() {
        check("Hello. Never push to main! What is up?", &["Hello. Never push to main! What is up?"]);
        check("If a test fails, tell me. Don't mend it.\n\nThanks.", &["If a test fails, tell me. Don't mend it."]);
        check("Don’t touch config.yml or a.b.", &["Don’t touch config.yml or a.b."]);
        check("看一下这个文件。\n\n以后都用中文回答。", &["以后都用中文回答。"]);
        check("必ずテストを実行してください。", &["必ずテストを実行してください。"]);
        check("Lösche niemals meine Notizen.", &["Lösche niemals meine Notizen."]);
        check("Réponds toujours en français.", &["Réponds toujours en français."]);
        check("Никогда не удаляй файлы!", &["Никогда не удаляй файлы!"]);
        check("Must we do this?", &[]);
        check("The mustard is good.", &[]);
        check("", &[]);
        let long = format!("Never use these words: {}", "and this one, ".repeat(100));
        check(&long, &[long.trim()]);
        check(&format!("You must {}", "x".repeat(5000)), &[]);
        check(&format!("必须{}", "说".repeat(1000)), &[]);
    }

    #[test]
    fn no_line_end_and_no_short_form_cuts_a_rule() {
        for whole in [
            "When you touch the database you must\nnot delete any row.",
            "Never email Dr. Smith about it.",
            "Do\nnot push to main.",
            "Never use abbreviations, e.g. `cfg`.",
            "Go no lower than\n-5 and never above\n3.5 degrees.",
        ] {
            check(whole, &[whole]);
            // In a text that is too long to be a rule, sentence by sentence.
            let told = "It was a long day, and a longer night. ".repeat(20);
            check(&format!("{told}{whole} {told}"), &[whole]);
        }
        let small = "it was a long day, and a longer night. ".repeat(20);
        check(&format!("{small}never push to main. {small}"), &["never push to main."]);
    }

    #[test]
    fn a_list_behind_a_rule_is_part_of_it() {
        check(
            "Hi.\nRules:\n\n- tabs, not spaces\n- no emojis\n  at all\n1) `x` first\n\nThanks a lot\n- and a list of mine",
            &["Hi.\nRules:", "- tabs, not spaces", "- no emojis\n  at all", "1) `x` first"],
        );
        check("要求：\n1、中文\n2、简短", &["要求：", "1、中文", "2、简短"]);
        check("I did this:\n- one\n- two", &[]);
        check("Never push\n- but for dev\n\n- other", &["Never push", "- but for dev"]);
        check("- Never push\n  - but for dev\n- other", &["- Never push", "- but for dev"]);
        check("Always say it so:\n```\nDone: x\n```\nThanks.", &["Always say it so:", "Done: x"]);
        check("Fix the bug.\n- Always run `make test` first\n- thanks", &["- Always run `make test` first"]);
        check("On Fridays:\n- rest\n- never push\n- avoid it", &["On Fridays:", "- never push", "- avoid it"]);
    }

    #[test]
    fn a_small_window_leaves_rules_out_and_forgets_none() {
        let all: Vec<String> = (0..40).map(|number| format!("Never do number {number} again, in any way.")).collect();
        let (few, left_out) = told(&all, 2000);
        assert!(few.len() < 40 && few.len() + left_out == 40, "{few:?}");
        assert_eq!((&few[0], few.last()), (&all[0], all.last()));
        assert_eq!(told(&all, WINDOW), (all.clone(), 0));
        // One that is long gives way before many that are short.
        let long = format!("Never {}", "again and ".repeat(50));
        let mixed = [&all[0], &long, &all[1], &all[2]].map(String::clone);
        assert_eq!(told(&mixed, 800), (all[..3].to_vec(), 1));
    }

    #[test]
    fn rules_are_kept_once_and_in_order_over_several_compactions() {
        let first = rules(None, &[user("Never push."), says("You must be joking."), user("Never\npush.")]);
        assert_eq!(first.rules, ["Never push."]);
        let second = [user("Always test."), user("- Never push!"), user("Never Push.")];
        assert_eq!(rules(Some(&after(first)), &second).rules, ["Never push.", "Always test.", "Never Push."]);
    }

    #[test]
    fn what_came_through_a_pipe_is_no_rule() {
        let check = |typed_bytes, expected: &[&str]| {
            let text = "Never push.\n\nAlways delete ä.".to_owned();
            let body = ItemBody::UserMessage { text, steered: false, typed_bytes, stored: None };
            let item = Item { body, ..Item::clone(&user("")) };
            assert_eq!(found(&[Arc::new(item)]), expected, "{typed_bytes:?}");
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
        let kept = rules(None, &items);
        let Kept { rules, dropped, .. } = &kept;
        assert_eq!((rules.len(), *dropped), (MAX_RULES, 300));
        assert_eq!(rules[0], "Always do 0");
        assert_eq!(rules[MAX_RULES - 1], "Always do 499");
    }
    #[test]
    fn a_long_list_gives_way_before_what_was_said_alone() {
        let list: String = (0..300).map(|number| format!("- never {number}\n")).collect();
        let mut kept = rules(None, &[user("Never push."), user(&list), user("Always test.")]);
        assert_eq!((kept.rules.len(), kept.dropped, &*kept.by_message), (MAX_RULES, 102, &[1, 198, 1][..]));
        for number in 0..20 {
            let compaction = after(kept);
            kept = rules(Some(&compaction), &[user(&format!("Avoid {number}."))]);
            assert_eq!(kept.dropped, 1);
        }
        let alone = |rule: &&String| !rule.starts_with('-');
        assert_eq!(kept.rules.iter().filter(alone).count(), 22, "{:?}", kept.rules);
    }

    #[test]
    fn a_rule_that_a_model_wrote_again_is_told_once() {
        let rules = ["If it fails, tell me.\nDon't mend it.".to_owned()];
        let written = "- Don't mend it\n\n- If it fails, tell me. Don't mend it.\n- It is blue.";
        assert_eq!(without_repeated(written, &rules), "\n- It is blue.");
    }
}
