//! The letters that the second network knows.

/// Letters by their classes: class 0 says that there is none, the last one is the space.
#[derive(Debug)]
pub(crate) struct Alphabet {
    letters: Vec<char>,
}

impl Alphabet {
    /// The letters of a list, one a line.
    pub(crate) fn of(list: &str) -> Self {
        let list = list.strip_suffix('\n').unwrap_or(list);
        // A line without anything keeps its class.
        let letters = list.split('\n').map(|line| line.chars().next().filter(|letter| *letter != '\r').unwrap_or(' '));
        Self { letters: letters.chain([' ']).collect() }
    }

    /// Number of classes.
    pub(crate) const fn classes(&self) -> usize {
        self.letters.len() + 1
    }

    /// The letter of a class; none where there is no letter.
    pub(crate) fn letter(&self, class: usize) -> Option<char> {
        self.letters.get(class.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_lines_of_the_list_between_nothing_and_the_space() {
        for list in ["\u{3000}\na\n\u{85}\n文", "\u{3000}\r\na\r\n\u{85}\r\n文\r\n"] {
            let alphabet = Alphabet::of(list);
            let letters: Vec<Option<char>> = (0..7).map(|class| alphabet.letter(class)).collect();
            let expected = [None, Some('\u{3000}'), Some('a'), Some('\u{85}'), Some('文'), Some(' '), None];
            assert_eq!((letters.as_slice(), alphabet.classes()), (expected.as_slice(), 6));
        }
    }
}
