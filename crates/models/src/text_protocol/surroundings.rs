//! Whether what stands around an object makes it a call, an example of one, or neither for sure. Pure.
//!
//! | the object | is a call |
//! |---|---|
//! | begins its line, or stands behind `<tool_call>` | always |
//! | stands behind words of its line | if nothing follows on the line |
//! | stands between backticks | if nothing else is in the answer |
//! | is all that a fence holds | if only calls follow, and the words before it name no example and forbid nothing |
//! | stands elsewhere in code | never |

use agentd_core::tool::ToolSpec;

use super::call;
use crate::code_spans::CodeSpans;

/// The last words before an object that are looked at, in bytes.
const MAX_TAIL: usize = 512;

/// Words that make a call in a fence an example.
const EXAMPLES: [&str; 7] = ["example", "e.g.", "for instance", "beispiel", "exemple", "ejemplo", "esempio"];

/// Words that may say that it shall not run.
const DOUBTS: [&str; 11] = [
    "do not",
    "don't",
    "must not",
    "should not",
    "never",
    "would call",
    "could call",
    "would write",
    "could write",
    "nicht",
    "ne pas",
];

/// The place of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing but blanks and marks stand before it on its line.
    Line,
    /// Words do.
    MidLine,
    /// It begins a fence.
    Fence,
    /// It begins one that the words before it may not want to be run.
    DoubtfulFence,
    /// It stands between backticks, before all words.
    Ticks,
}

impl Place {
    /// Returns whether it makes a call of it, whatever follows.
    pub(super) fn is_certain(self) -> bool {
        self == Self::Line
    }
}

/// What came before an object.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    spans: CodeSpans,
    /// The last words.
    tail: String,
    has_words: bool,
}

impl Surroundings {
    pub(super) fn add(&mut self, words: &str) {
        self.spans.add(words);
        self.has_words |= words.chars().any(char::is_alphanumeric);
        self.tail.push_str(words);
        let from = self.tail.ceil_char_boundary(self.tail.len().saturating_sub(MAX_TAIL));
        self.tail.drain(..from);
    }

    /// Place of an object that comes now; none where it is code.
    pub(super) fn place(&self) -> Option<Place> {
        if self.spans.is_code() {
            return (!self.spans.is_fenced() && !self.has_words).then_some(Place::Ticks);
        }
        let line = self.tail.rsplit('\n').next().unwrap_or_default();
        let words = if line.contains("[TOOL") || line.contains("<|") {
            line.rsplit(['>', ']']).next().unwrap_or_default()
        } else {
            line
        };
        Some(if words.chars().any(char::is_alphanumeric) { Place::MidLine } else { Place::Line })
    }

    /// Place of an object in a fence that begins now; none where it is an example.
    pub(super) fn fence(&self) -> Option<Place> {
        let paragraph = self.tail.trim_end().rsplit("\n\n").next().unwrap_or_default().to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| paragraph.contains(word));
        (!has(&EXAMPLES)).then(|| if has(&DOUBTS) { Place::DoubtfulFence } else { Place::Fence })
    }

    /// Place of an object behind the tag of a call that comes now; none where it is code.
    pub(super) fn tag(&self) -> Option<Place> {
        (!self.spans.is_code()).then_some(Place::Line)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.spans.is_fenced()
    }
}

/// What follows an object says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// It is a call.
    Call,
    /// It is words.
    Words,
    /// Nothing yet. At the end of the answer it is a call, in a fence if [`only_calls`] follow.
    Open,
}

/// Looks at what follows an object that is a call by itself.
pub(super) fn behind(place: Place, rest: &str) -> Behind {
    match place {
        Place::Line => Behind::Call,
        Place::DoubtfulFence => Behind::Words,
        Place::MidLine => {
            let marks = |letter: char| matches!(letter, ' ' | '\t' | ']' | '}' | ')' | ',' | ';' | '`');
            match rest.trim_start_matches(marks).chars().next() {
                None => Behind::Open,
                Some('\n' | '\r' | '{' | '<') => Behind::Call,
                Some(_) => Behind::Words,
            }
        }
        Place::Ticks => {
            let only_ticks = rest.chars().all(|letter| letter == '`' || letter.is_whitespace());
            if only_ticks { Behind::Open } else { Behind::Words }
        }
        Place::Fence => {
            let rest = rest.trim_start();
            let (rest, is_closed) = match rest.strip_prefix("```") {
                Some(rest) => (rest.trim_start(), true),
                None => (rest, false),
            };
            match rest.chars().next() {
                None => Behind::Open,
                Some('`') if is_closed || "```".starts_with(rest) => Behind::Open,
                Some('{' | '<') => Behind::Open,
                Some(_) => Behind::Words,
            }
        }
    }
}

/// Returns whether a text is nothing but calls, in fences or tags, and results that a model invents.
pub(super) fn only_calls(text: &str, tools: &[ToolSpec]) -> bool {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        rest = if let Some(fence) = rest.strip_prefix("```") {
            fence.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter))
        } else if let Some(rest) = rest.strip_prefix("<tool_call>").or(rest.strip_prefix("</tool_call>")) {
            rest
        } else if rest.starts_with("<tool_result") {
            return true;
        } else {
            let (mut at, mut depth, mut in_string, mut escaped) = (0, 0, false, false);
            let end = rest
                .starts_with('{')
                .then(|| balanced_end(rest.as_bytes(), &mut at, &mut depth, &mut in_string, &mut escaped));
            match end.flatten().filter(|end| call::read(&rest[..*end], tools).is_some()) {
                Some(end) => &rest[end..],
                None => return false,
            }
        }
        .trim_start();
    }
    true
}

/// Goes on from a place in an object to behind the brace that closes it.
pub(super) fn balanced_end(
    bytes: &[u8],
    at: &mut usize,
    depth: &mut usize,
    in_string: &mut bool,
    escaped: &mut bool,
) -> Option<usize> {
    while *at < bytes.len() {
        let byte = bytes[*at];
        *at += 1;
        if *in_string {
            *in_string = *escaped || byte != b'"';
            *escaped = !*escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => *in_string = true,
            b'{' => *depth += 1,
            b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        if *depth == 0 {
            return Some(*at);
        }
    }
    None
}
