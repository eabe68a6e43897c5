//! Long pastes at the prompt: a mark stands for them in the line, and they are sent whole.

use std::sync::{Arc, Mutex, PoisonError};

/// Lines that a paste may have to stand in the line as it is.
const MOST_LINES: usize = 20;
/// Pastes that are kept, so that a line of before can be sent again.
const KEPT: usize = 100;

/// The pastes of a conversation, by their marks.
#[derive(Debug, Clone, Default)]
pub(super) struct Pastes(Arc<Mutex<Vec<(String, String)>>>);

impl Pastes {
    /// The text as it stands in the line.
    pub(super) fn fold(&self, text: &str) -> String {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let lines = text.lines().count();
        if lines <= MOST_LINES {
            return text;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((mark, _)) = kept.iter().find(|(_, known)| *known == text) {
            return mark.clone();
        }
        let mark = |number: usize| match number {
            1 => format!("[{lines} lines pasted]"),
            number => format!("[{lines} lines pasted, {number}]"),
        };
        let is_free = |mark: &String| !kept.iter().any(|(known, _)| known == mark);
        let mark = (1..=KEPT + 1).map(mark).find(is_free).unwrap_or_default();
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((mark.clone(), text));
        mark
    }

    /// The line with the pastes in the places of their marks. What a paste says is no mark.
    pub(super) fn unfold(&self, line: &str) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut whole = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(at) = rest.find('[') {
            whole.push_str(&rest[..at]);
            rest = &rest[at..];
            match kept.iter().find(|(mark, _)| rest.starts_with(mark.as_str())) {
                Some((mark, text)) => {
                    whole.push_str(text);
                    rest = &rest[mark.len()..];
                }
                None => {
                    whole.push('[');
                    rest = &rest[1..];
                }
            }
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
        let pastes = Pastes::default();
        let lines = |what: &str, number: usize| (0..number).map(|at| format!("{what} {at}\n")).collect::<String>();
        let (short, long, other) = (lines("short", 20), lines("[30 lines pasted]", 30), lines("other", 30));
        assert_eq!(pastes.fold(&short), short);
        assert_eq!(pastes.fold(&long.replace('\n', "\r")), "[30 lines pasted]");
        assert_eq!(pastes.fold(&other), "[30 lines pasted, 2]");
        assert_eq!(pastes.fold(&long), "[30 lines pasted]");
        let line = "a [1] [30 lines pasted] b [30 lines pasted, 2]! [31 lines pasted]";
        assert_eq!(pastes.unfold(line), format!("a [1] {long} b {other}! [31 lines pasted]"));
        assert_eq!(pastes.unfold("no mark ["), "no mark [");
        (0..KEPT + 5).for_each(|number| {
            let paste = lines(&number.to_string(), 40);
            let mark = pastes.fold(&paste);
            assert_eq!(pastes.unfold(&mark), paste);
        });
    }
}
