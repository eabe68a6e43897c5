//! Splits off reasoning that a server leaves in the text, before any other processing.
//!
//! Reasoning is recognised by its marks at the start of an answer, after blanks or other reasoning: `<think>` and
//! similar, or a channel of gpt-oss, whose marks count from then on. A closing mark without an opening one turns the
//! text before it into reasoning, unless it is only a mention: some templates open the reasoning in the prompt.
//! Anywhere else, marks are text.

use crate::answer::code_spans::{CodeSpans, partial_mark_length};

/// Pairs of marks around reasoning.
const TAGS: [(&str, &str); 9] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
];

/// Marks that start the head of a channel.
const HEADS: [&str; 2] = ["<|channel|>", "<|start|>"];

/// Mark that ends a head.
const MESSAGE: &str = "<|message|>";

/// Marks that end the content of a channel.
const CHANNEL_ENDS: [&str; 5] = ["<|channel|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"];

/// Maximum length of a channel's head, in bytes.
const MAX_HEAD: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Thought(String),
    /// All text before this part was reasoning.
    WasThought,
}

/// Splits one answer incrementally.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    state: State,
    /// Buffered text that is not classified yet.
    pending: String,
    /// Code spans of the text so far.
    code_spans: CodeSpans,
    /// True once the text is not blank.
    has_text: bool,
    /// True once further closing marks are only mentions.
    is_settled: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum State {
    /// At the start, where reasoning may begin.
    #[default]
    Start,
    /// After reasoning. Blanks are dropped.
    AfterThoughts,
    /// In reasoning up to `end`. `has_content` is true once it is not blank.
    Thoughts { end: &'static str, has_content: bool },
    /// In text outside of reasoning.
    Text,
    /// In the head of a channel.
    Head,
    /// In the content of a channel.
    Channel { thoughts: bool },
    /// In a format that a later stage parses. Everything is passed on.
    Raw,
}

impl Splitter {
    pub(crate) fn push(&mut self, piece: &str) -> Vec<Part> {
        self.pending.push_str(piece);
        self.run(false)
    }

    /// Processes the rest at the end of the answer.
    pub(crate) fn finish(&mut self) -> Vec<Part> {
        self.run(true)
    }

    fn run(&mut self, last: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        while !self.pending.is_empty() && self.step(last, &mut parts) {}
        parts
    }

    /// Classifies the next bytes. Returns false if more are needed.
    fn step(&mut self, last: bool, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start | State::AfterThoughts => self.start(last),
            State::Thoughts { end, has_content } => self.thoughts(end, has_content, last, parts),
            State::Text => self.text(last, parts),
            State::Head => self.head(last),
            State::Channel { thoughts } => self.channel(thoughts, last, parts),
            State::Raw => self.emit_text(self.pending.len(), parts),
        }
    }

    fn start(&mut self, last: bool) -> bool {
        let is_after_thoughts = matches!(self.state, State::AfterThoughts);
        let rest = self.pending.trim_start();
        let blank = self.pending.len() - rest.len();
        let found = if rest.is_empty() {
            None
        } else if let Some((begin, end)) = TAGS.into_iter().find(|(begin, _)| rest.starts_with(begin)) {
            Some((begin.len(), State::Thoughts { end, has_content: false }))
        } else if let Some((_, end)) = TAGS.into_iter().find(|(_, end)| !is_after_thoughts && rest.starts_with(end)) {
            Some((end.len(), State::AfterThoughts))
        } else if HEADS.into_iter().any(|head| rest.starts_with(head)) {
            Some((0, State::Head))
        } else {
            None
        };
        if let Some((mark, state)) = found {
            self.pending.drain(..blank + mark);
            (self.state, self.is_settled) = (state, true);
            return true;
        }
        let begins = |mark: &str| mark.starts_with(rest);
        let may_begin = TAGS.into_iter().any(|(begin, end)| begins(begin) || (!is_after_thoughts && begins(end)))
            || HEADS.into_iter().any(begins);
        if !last && (rest.is_empty() || may_begin) {
            return false;
        }
        if is_after_thoughts {
            self.pending.drain(..blank);
        }
        self.state = State::Text;
        true
    }

    fn thoughts(&mut self, end: &'static str, has_content: bool, last: bool, parts: &mut Vec<Part>) -> bool {
        let found = self.pending.find(end);
        let end_of_part = match found {
            Some(at) => at,
            None if last => self.pending.len(),
            None => self.pending.len() - partial_mark_length(&self.pending, &[end]),
        };
        let has_content = self.emit_thought(end_of_part, has_content, parts);
        match found {
            Some(_) => {
                self.pending.drain(..end.len());
                self.state = State::AfterThoughts;
            }
            None => self.state = State::Thoughts { end, has_content },
        }
        found.is_some()
    }

    /// Processes text up to the next mark.
    fn text(&mut self, last: bool, parts: &mut Vec<Part>) -> bool {
        if self.is_settled {
            return self.emit_text(self.pending.len(), parts);
        }
        match self.pending.find(['<', '[', '◁']) {
            None => return self.emit_text(self.pending.len(), parts),
            Some(0) => {}
            Some(at) => return self.emit_text(at, parts),
        }
        let mut marks = TAGS.into_iter().flat_map(|(begin, end)| [(begin, false), (end, true)]);
        let Some((mark, is_end)) = marks.clone().find(|(mark, _)| self.pending.starts_with(mark)) else {
            let may_come = marks.any(|(mark, _)| mark.starts_with(&self.pending));
            let first = self.pending.chars().next().map_or(0, char::len_utf8);
            return (last || !may_come) && self.emit_text(first, parts);
        };
        if self.code_spans.is_code() {
            return self.emit_text(mark.len(), parts);
        }
        if !is_end {
            self.is_settled = true;
            return self.emit_text(mark.len(), parts);
        }
        let Some(next) = self.pending[mark.len()..].chars().next().map(Some).or(last.then_some(None)) else {
            return false;
        };
        if self.is_mentioned(next) {
            return self.emit_text(mark.len(), parts);
        }
        self.pending.drain(..mark.len());
        if self.has_text {
            parts.push(Part::WasThought);
        }
        (self.state, self.is_settled) = (State::AfterThoughts, true);
        true
    }

    /// Returns true if a closing mark is only mentioned: it is quoted, or surrounded by text on the same line.
    fn is_mentioned(&self, next: Option<char>) -> bool {
        let ends_line = next.is_none_or(|next| matches!(next, '\n' | '\r'));
        match self.code_spans.last() {
            None | Some('\n' | '\r') => false,
            Some('"' | '\'' | '`' | '(' | '[' | '{' | '=' | '“' | '‘' | '«' | '„' | '/' | '|') => true,
            Some(before) => before.is_whitespace() && !ends_line,
        }
    }

    fn head(&mut self, last: bool) -> bool {
        let end = self.pending.find(MESSAGE);
        let head = &self.pending[..end.unwrap_or(self.pending.len())];
        // A call, which a later stage parses.
        let is_call = head.contains("to=");
        match end {
            Some(at) if is_call || at > MAX_HEAD => self.state = State::Raw,
            Some(at) => {
                self.state = State::Channel { thoughts: head.contains("analysis") };
                self.pending.drain(..at + MESSAGE.len());
            }
            None if last && !is_call => self.pending.clear(),
            None if last || self.pending.len() > MAX_HEAD + MESSAGE.len() => self.state = State::Raw,
            None => return false,
        }
        true
    }

    fn channel(&mut self, thoughts: bool, last: bool, parts: &mut Vec<Part>) -> bool {
        let ends = CHANNEL_ENDS.into_iter().filter_map(|end| Some((self.pending.find(end)?, end)));
        let found = ends.min_by_key(|(at, _)| *at);
        let end_of_part = match found {
            Some((at, _)) => at,
            None if last => self.pending.len(),
            None => self.pending.len() - partial_mark_length(&self.pending, &CHANNEL_ENDS),
        };
        if thoughts {
            self.emit_thought(end_of_part, true, parts);
        } else {
            self.emit_text(end_of_part, parts);
        }
        match found {
            Some((_, end)) if HEADS.contains(&end) => self.state = State::Head,
            Some((_, end)) => {
                self.pending.drain(..end.len());
                self.state = State::AfterThoughts;
            }
            None => {}
        }
        found.is_some()
    }

    /// Emits the bytes up to `end_of_part` as text.
    fn emit_text(&mut self, end_of_part: usize, parts: &mut Vec<Part>) -> bool {
        let text: String = self.pending.drain(..end_of_part).collect();
        self.code_spans.add(&text);
        self.has_text |= !text.trim().is_empty();
        match parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(&text),
            _ => parts.push(Part::Text(text)),
        }
        true
    }

    /// Emits the bytes up to `end_of_part` as reasoning, without leading blanks.
    fn emit_thought(&mut self, end_of_part: usize, has_content: bool, parts: &mut Vec<Part>) -> bool {
        let thoughts: String = self.pending.drain(..end_of_part).collect();
        let thoughts = if has_content { thoughts.as_str() } else { thoughts.trim_start() };
        match parts.last_mut() {
            _ if thoughts.is_empty() => {}
            Some(Part::Thought(text)) => text.push_str(thoughts),
            _ => parts.push(Part::Thought(thoughts.to_owned())),
        }
        has_content || !thoughts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Splits an answer in these pieces into reasoning and text.
    fn split(pieces: &[&str]) -> (String, String) {
        let mut splitter = Splitter::default();
        let mut parts: Vec<Part> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
        parts.extend(splitter.finish());
        let (mut thoughts, mut visible) = (String::new(), String::new());
        for part in parts {
            match part {
                Part::Text(text) => visible.push_str(&text),
                Part::Thought(text) => thoughts.push_str(&text),
                Part::WasThought => thoughts.push_str(&std::mem::take(&mut visible)),
            }
        }
        (thoughts, visible)
    }

    #[track_caller]
    fn check(text: &str, thoughts: &str, visible: &str) {
        let expected = (thoughts.to_owned(), visible.to_owned());
        assert_eq!(split(&[text]), expected, "{text:?}");
        let pieces: Vec<&str> = text.split_inclusive(|_: char| true).collect();
        assert_eq!(split(&pieces), expected, "{text:?} by characters");
    }

    #[test]
    fn leading_reasoning_is_split_off() {
        check("<think>Hm.</think> The answer is 5.", "Hm.", "The answer is 5.");
        check("\n\n<think>\nHm.\n</think>\n\nFive.", "Hm.\n", "Five.");
        check("<think>\n\n</think>\n\nFive.", "", "Five.");
        check("<thinking>a < b</thinking>Five.", "a < b", "Five.");
        check("<thought>a</thought><think>b</think>\nFive.", "ab", "Five.");
        check("<reasoning>a</reasoning>Five.", "a", "Five.");
        check("◁think▷a◁/think▷Five.", "a", "Five.");
        check("[THINK]a[/THINK]Five.", "a", "Five.");
        check("<think>never ends </thin", "never ends </thin", "");
        check("<think>a</think>", "a", "");
        check("<think>a</think>Use `</think>`.</think>b", "a", "Use `</think>`.</think>b");
    }

    #[test]
    fn unopened_end_marker_makes_prior_text_reasoning() {
        check("Hm. So 5.\n</think>\n\nFive.", "Hm. So 5.\n", "Five.");
        check("Hm. So 5.</think> Five.", "Hm. So 5.", "Five.");
        check("</think>\n\nFive.", "", "Five.");
        check("\n</think>Five.", "", "Five.");
        check("Hm. </think>\nFive.", "Hm. ", "Five.");
        check("Hm. </think>", "Hm. ", "");
        check("Hm.\n```\ncode\n```\n</think>\nFive.", "Hm.\n```\ncode\n```\n", "Five.");
        check("Hm[/THINK]Five.", "Hm", "Five.");
    }

    #[test]
    fn analysis_channel_is_split_off() {
        check(
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Five.<|return|>",
            "Hm.",
            "Five.",
        );
        check("<|channel|>final<|message|>Five <|x|>.", "", "Five <|x|>.");
        check("<|channel|>analysis<|message|>Hm.", "Hm.", "");
        check("<|channel|>analysis<|message|>Hm.<|channel|>commentary<|message|>I look.<|end|>", "Hm.", "I look.");
        check("<|channel|>anal", "", "");
        let call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}<|call|>";
        check(call, "", call);
        check(
            &format!("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant{call}"),
            "Hm.",
            &format!("<|start|>assistant{call}"),
        );
    }

    #[test]
    fn mentioned_markers_stay_text() {
        for text in [
            "",
            " \n",
            "Five.",
            "  Five.",
            "`<think>` opens thoughts and `</think>` ends them.",
            "Models write <think>a</think> around thoughts.",
            "Use the </think> tag.",
            "text.split(\"</think>\")[1]",
            "```python\nx = t.split('\n</think>\n')\n```\nDone.",
            "```xml\n<think>\na\n</think>\n```\nThat is all.",
            "a <thin",
            "a < b",
            "[THIN",
            "<thinker>",
            "It prints <|channel|>analysis<|message|>.",
        ] {
            check(text, "", text);
        }
    }

    #[test]
    fn text_without_reasoning_is_streamed_at_once() {
        let mut splitter = Splitter::default();
        let mut next = |piece: &str| splitter.push(piece);
        assert_eq!(next("Fi"), [Part::Text("Fi".to_owned())]);
        assert_eq!(next("ve <"), [Part::Text("ve ".to_owned())]);
        assert_eq!(next("b"), [Part::Text("<b".to_owned())]);
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push("<think>H"), [Part::Thought("H".to_owned())]);
    }

    proptest! {
        #[test]
        fn split_result_is_independent_of_chunking(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("<think>"), Just("</think>"), Just("<thinking>"), Just("</thinking>"), Just("◁think▷"), Just("◁/think▷"),
                    Just("[THINK]"), Just("[/THINK]"), Just("<|channel|>"), Just("analysis"), Just("final"), Just("<|message|>"),
                    Just("<|end|>"), Just("<|start|>assistant"), Just("to=functions.now"), Just("wörds"), Just(" "), Just("\n"),
                    Just("`"), Just("```"), Just("\""), Just("<"), Just("."),
                ],
                0..14,
            ),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            let whole = split(&[&text]);
            prop_assert_eq!(&split(&pieces), &whole);
            // The head of a channel is a mark.
            if !text.contains("<|") {
                let count = format!("{}{}", whole.0, whole.1).matches("wörds").count();
                prop_assert_eq!(count, text.matches("wörds").count());
            }
        }
    }
}
