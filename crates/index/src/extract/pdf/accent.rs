//! Accents that are printed over their letters, as typesetters of old fonts do: `´` and `ı` become `í`; pure.

use unicode_normalization::char::compose;

use super::letter::Letter;

/// Joins accents with the letters that they stand above or below. The letters are those of one line, from left to right.
pub(super) fn joined(row: Vec<Letter>) -> Vec<Letter> {
    if !row.iter().any(|letter| mark(letter.letter).is_some()) {
        return row;
    }
    let mut joined: Vec<Letter> = Vec::with_capacity(row.len());
    let mut row = row.into_iter().peekable();
    while let Some(letter) = row.next() {
        let Some(mark) = mark(letter.letter) else {
            joined.push(letter);
            continue;
        };
        if let Some(next) = row.peek_mut()
            && let Some(whole) = accented(&letter, next, mark)
        {
            next.letter = whole;
        } else if let Some(last) = joined.last_mut()
            && let Some(whole) = accented(&letter, last, mark)
        {
            last.letter = whole;
        } else {
            joined.push(letter);
        }
    }
    joined
}

/// The letter with its accent, where the accent stands over it.
fn accented(accent: &Letter, letter: &Letter, mark: char) -> Option<char> {
    let shared = accent.right.min(letter.right) - accent.left.max(letter.left);
    let width = (accent.right - accent.left).min(letter.right - letter.left);
    let base = match letter.letter {
        'ı' => 'i',
        'ȷ' => 'j',
        letter => letter,
    };
    (width > 0.0 && shared > 0.5 * width).then(|| compose(base, mark)).flatten()
}

/// The mark that goes with a letter, for one that stands by itself.
const fn mark(accent: char) -> Option<char> {
    Some(match accent {
        '`' => '\u{300}',
        '´' => '\u{301}',
        'ˆ' => '\u{302}',
        '˜' => '\u{303}',
        '¯' => '\u{304}',
        '˘' => '\u{306}',
        '˙' => '\u{307}',
        '¨' => '\u{308}',
        '˚' => '\u{30a}',
        '˝' => '\u{30b}',
        'ˇ' => '\u{30c}',
        '¸' => '\u{327}',
        '˛' => '\u{328}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::line::tests::set, *};

    #[test]
    fn accents_join_the_letters_below_them() {
        let told = |letters: Vec<Letter>| joined(letters).iter().map(|letter| letter.letter).collect::<String>();
        let over = |accent: &str, letter: &str, shift: f32| {
            [set(accent, shift, 0.0, 10.0), set(letter, 0.0, 0.0, 10.0)].concat()
        };
        assert_eq!(told(over("´", "ı", -0.5)), "í");
        let mut after = over("¨", "o", 0.5);
        after.reverse();
        assert_eq!(told(after), "ö");
        assert_eq!(told(set("a´b", 0.0, 0.0, 10.0)), "a´b");
    }
}
