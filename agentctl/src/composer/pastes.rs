//! Long pastes: the text shows a mark in place of each, and the paste itself is sent.

/// Maximum number of lines of a paste that is shown itself.
const MAX_LINES: usize = 20;
/// Maximum number of stored pastes.
const MAX_PASTES: usize = 100;

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
        if let Some((mark, _)) = self.0.iter().find(|(_, stored)| stored == text) {
            return mark.clone();
        }
        let mark = |number: usize| match number {
            1 => format!("[{lines} lines pasted]"),
            number => format!("[{lines} lines pasted, {number}]"),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

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
