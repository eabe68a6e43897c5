//! Long pastes and pictures: the text shows a mark in place of each; the paste itself or a mention of the picture is sent.

use std::path::PathBuf;

use url::Url;

/// Maximum number of lines of a paste that is shown itself.
const MAX_LINES: usize = 20;
/// Maximum number of stored pastes.
const MAX_PASTES: usize = 100;
/// Extensions of pictures that models can see.
const PICTURES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Pastes of a conversation with their marks, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pastes(Vec<(String, String)>);

impl Pastes {
    /// Returns the text to show: a short paste itself, or the mark of a long one.
    pub(crate) fn fold(&mut self, text: &str) -> String {
        let lines = text.lines().count();
        if lines <= MAX_LINES {
            return text.to_owned();
        }
        self.store(text, |number| match number {
            1 => format!("[{lines} lines pasted]"),
            number => format!("[{lines} lines pasted, {number}]"),
        })
    }

    /// Returns the mark of a picture, in place of which its mention is sent.
    pub(crate) fn mark_picture(&mut self, path: &str) -> String {
        let quote = if path.contains('"') { '\'' } else { '"' };
        self.store(&format!("#{quote}{path}{quote}"), |number| format!("[picture {number}]"))
    }

    /// Stores a text and returns its mark: its earlier one, or the first one that is not in use.
    fn store(&mut self, text: &str, mark: impl Fn(usize) -> String) -> String {
        if let Some((mark, _)) = self.0.iter().find(|(_, stored)| stored == text) {
            return mark.clone();
        }
        let is_free = |mark: &String| !self.0.iter().any(|(stored, _)| stored == mark);
        let mark = (1..=MAX_PASTES + 1).map(mark).find(is_free).unwrap_or_default();
        if self.0.len() == MAX_PASTES {
            self.0.remove(0);
        }
        self.0.push((mark.clone(), text.to_owned()));
        mark
    }

    /// Replaces the marks by the pastes. A mark within a paste is text.
    pub(crate) fn unfold(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('[') {
            whole.push_str(&rest[..at]);
            rest = &rest[at..];
            let (mark, paste) = self
                .0
                .iter()
                .find(|(mark, _)| rest.starts_with(mark.as_str()))
                .map_or(("[", "["), |(mark, paste)| (mark.as_str(), paste.as_str()));
            whole.push_str(paste);
            rest = &rest[mark.len()..];
        }
        whole.push_str(rest);
        whole
    }
}

/// Returns the path if a paste is the absolute path of a picture, as terminals insert it for a dragged file: plain, in
/// quotes, with backslashes, or as a `file://` address.
pub(super) fn picture_path(paste: &str) -> Option<PathBuf> {
    let word = paste.trim();
    let path = match word.starts_with("file://") {
        true => Url::parse(word).ok()?.to_file_path().ok()?,
        false => PathBuf::from(unquoted(word)),
    };
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    (path.is_absolute() && PICTURES.contains(&extension.as_str())).then_some(path)
}

/// Removes the quotes around a word, or else the backslashes before its special characters.
fn unquoted(word: &str) -> String {
    let within = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inner) = within('\'') {
        // A shell can write a quote in a quoted word in this way only.
        return inner.replace(r"'\''", "'");
    }
    if let Some(inner) = within('"') {
        return inner.to_owned();
    }
    let mut is_escape = false;
    let is_kept = |c: &char| {
        is_escape = *c == '\\' && !is_escape;
        !is_escape
    };
    word.chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pictures_are_recognised() {
        let check = |paste: &str, expected: Option<&str>| {
            assert_eq!(picture_path(paste), expected.map(PathBuf::from), "{paste:?}");
        };
        for paste in [
            "/a/my cat.png",
            "/a/my cat.png \n",
            "'/a/my cat.png'",
            "\"/a/my cat.png\"",
            r"/a/my\ cat.png",
            "file:///a/my%20cat.png",
            "file://localhost/a/my%20cat.png",
        ] {
            check(paste, Some("/a/my cat.png"));
        }
        check(r"'/a/it'\''s.JPG'", Some("/a/it's.JPG"));
        check(r"/a/it\'s\ \(1\).webp", Some("/a/it's (1).webp"));
        check(r"/a/back\\slash.gif", Some(r"/a/back\slash.gif"));
        for paste in ["", "cat.png", "./cat.png", "/a/notes.txt", "/a/png", "file://other/a.png", "https://x/a.png"] {
            check(paste, None);
        }
        check("see /a/cat.png", None);
    }

    #[test]
    fn picture_has_a_mark() {
        let mut pastes = Pastes::default();
        assert_eq!(pastes.mark_picture("/a/b c.png"), "[picture 1]");
        assert_eq!(pastes.mark_picture("/a/\"d\".png"), "[picture 2]");
        assert_eq!(pastes.mark_picture("/a/b c.png"), "[picture 1]");
        let sent = "#\"/a/b c.png\" and #'/a/\"d\".png'";
        assert_eq!(pastes.unfold("[picture 1] and [picture 2]"), sent);
    }

    #[test]
    fn long_paste_is_a_placeholder_and_sent_whole() {
        let mut pastes = Pastes::default();
        let lines = |what: &str, number: usize| (0..number).map(|at| format!("{what} {at}\n")).collect::<String>();
        let (short, long, other) = (lines("short", 20), lines("[30 lines pasted]", 30), lines("other", 30));
        assert_eq!(pastes.fold(&short), short);
        assert_eq!(pastes.fold(&long), "[30 lines pasted]");
        assert_eq!(pastes.fold(&other), "[30 lines pasted, 2]");
        assert_eq!(pastes.fold(&long), "[30 lines pasted]");
        let line = "a [1] [30 lines pasted] b [30 lines pasted, 2]! [31 lines pasted]";
        assert_eq!(pastes.unfold(line), format!("a [1] {long} b {other}! [31 lines pasted]"));
        assert_eq!(pastes.unfold("no mark ["), "no mark [");
        for number in 0..MAX_PASTES + 5 {
            let paste = lines(&number.to_string(), 40);
            let mark = pastes.fold(&paste);
            assert_eq!(pastes.unfold(&mark), paste);
        }
    }
}
