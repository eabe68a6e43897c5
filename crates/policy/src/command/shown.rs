//! The normal form of a command: the same for every way to quote it.

use super::{
    Part, Redirect,
    line::is_keyword,
    word::{Word, quoted},
};

/// The exact text of a pipeline: what a grant names. Two with the same text do the same.
pub(crate) fn exact(pipeline: &[Part]) -> String {
    pipeline.iter().map(Part::exact).collect::<Vec<_>>().join(" | ")
}

impl Part {
    /// The exact text: what a grant names and what a person is shown.
    pub(crate) fn exact(&self) -> String {
        let assigns = self.assigns.iter().map(|assign| format!("{}={}", assign.name, word(&assign.value)));
        let words =
            self.words.iter().enumerate().map(|(index, found)| if index == 0 { first(found) } else { word(found) });
        let redirects = self.redirects.iter().filter(|redirect| !redirect.is_harmless()).map(Redirect::exact);
        assigns.chain(words).chain(redirects).collect::<Vec<_>>().join(" ")
    }

    /// The text for patterns: without any quotes. The folder of the program is left out where `bare`.
    pub(crate) fn plain(&self, bare: bool) -> String {
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
        for redirect in self.redirects.iter().filter(|redirect| !redirect.operator.ends_with('&')) {
            add(&format!("{} {}", redirect.operator, redirect.target.text));
        }
        text
    }
}

impl Redirect {
    /// The descriptor always stands there, so that the errors of a command are told from its output.
    fn exact(&self) -> String {
        let target = word(&self.target);
        match (self.descriptor, self.operator) {
            (_, operator @ ("&>" | "&>>")) => format!("{operator} {target}"),
            (Some(descriptor), operator) => format!("{descriptor}{operator} {target}"),
            (None, operator) => format!("{}{operator} {target}", u8::from(self.writes() && operator != "<>")),
        }
    }
}

/// A word so that its meaning shows: known text in quotes where it needs any, everything else as it is written.
fn word(word: &Word) -> String {
    if word.is_plain() && word.inner.is_empty() { quoted(&word.text) } else { word.raw.clone() }
}

/// The first word, in quotes where it would be read as an assignment or a word of the grammar without them.
fn first(found: &Word) -> String {
    if found.is_plain() && (found.text.contains('=') || is_keyword(&found.text)) {
        return format!("'{}'", found.text.replace('\'', r"'\''"));
    }
    word(found)
}
