//! The normal form of a part: the same for every way to quote the same command.

use super::{Part, Redirect, word::Word};

/// How much is shown of what could not be taken apart, in letters.
const MAX_UNREAD: usize = 400;

impl Part {
    /// The exact text: what a grant names and what a person is shown. Two parts with the same text do the same.
    pub(in crate::policy) fn exact(&self) -> String {
        if let Some(unread) = &self.unread {
            let mut shown: String = unread.chars().take(MAX_UNREAD).collect();
            if shown.len() < unread.len() {
                shown.push('…');
            }
            return shown;
        }
        let assigns = self.assigns.iter().map(|assign| format!("{}={}", assign.name, exact(&assign.value)));
        let words = self.words.iter().map(exact);
        let redirects = self
            .redirects
            .iter()
            .filter(|redirect| !redirect.is_harmless())
            .map(|redirect| format!("{} {}", redirect.operator, exact(&redirect.target)));
        let more = self.open_ended.then(|| "…".to_owned());
        assigns.chain(words).chain(more).chain(redirects).collect::<Vec<_>>().join(" ")
    }

    /// The text for patterns: without any quotes. The folder of the program is left out where `bare`.
    pub(in crate::policy) fn plain(&self, bare: bool) -> String {
        if let Some(unread) = &self.unread {
            return unread.clone();
        }
        let mut text = String::new();
        let mut add = |piece: &str| {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(piece);
        };
        for assign in &self.assigns {
            add(&format!("{}={}", assign.name, assign.value.text));
        }
        for (index, word) in self.words.iter().enumerate() {
            let cut = bare && index == 0 && word.is_static();
            add(if cut { word.text.rsplit('/').next().unwrap_or_default() } else { &word.text });
        }
        for redirect in &self.redirects {
            add(&format!("{} {}", redirect.operator, redirect.target.text));
        }
        text
    }
}

impl Redirect {
    /// Whether it only joins outputs or throws them away.
    pub(in crate::policy) fn is_harmless(&self) -> bool {
        matches!(self.operator, ">&" | "<&")
            || (self.target.is_static()
                && !self.target.globs
                && matches!(self.target.text.as_str(), "/dev/null" | "/dev/stdout" | "/dev/stderr"))
    }
}

/// A word so that its meaning shows: known text in quotes where it needs any, everything else as it is written.
fn exact(word: &Word) -> String {
    if word.is_static() && !word.globs { quoted(&word.text) } else { word.raw.clone() }
}

/// Text in single quotes, where it needs any.
pub(super) fn quoted(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(super::word::is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
