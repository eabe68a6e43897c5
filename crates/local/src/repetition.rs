//! Telling when an answer has begun to go round in circles.

/// The longest phrase, in tokens, whose repetition is noticed.
const LONGEST: usize = 160;
/// A phrase of more tokens than this, such as a verse, is a circle when it comes twice in a row.
const LONG: usize = 32;
/// A phrase is a circle when its repetitions are at least this many tokens together.
const STRETCH: usize = 32;
/// And when it has come this many times in a row.
const TIMES: usize = 3;

/// The tokens of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    tokens: Vec<u32>,
}

impl Repetition {
    /// Adds a token, and tells whether the answer now ends in a phrase that was said over and over.
    pub(crate) fn push(&mut self, token: u32) -> bool {
        self.tokens.push(token);
        (1..=LONGEST).any(|length| {
            let times = if length > LONG { 2 } else { TIMES };
            let stretch = (length * times).max(STRETCH);
            let Some(start) = self.tokens.len().checked_sub(stretch) else { return false };
            let last = &self.tokens[start..];
            last[length..].iter().zip(last).all(|(later, earlier)| later == earlier)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_noticed_and_lists_are_not() {
        let check = |tokens: Vec<u32>, expected: Option<usize>| {
            let mut repetition = Repetition::default();
            assert_eq!(tokens.into_iter().position(|token| repetition.push(token)).map(|at| at + 1), expected);
        };
        check(vec![7; 100], Some(32));
        check((0..10).cycle().take(100).collect(), Some(32));
        check((0..20).cycle().take(200).collect(), Some(60));
        check((0..60).cycle().take(400).collect(), Some(120));
        check((0..170).cycle().take(600).collect(), None);
        check((0..400).collect(), None);
        // A list whose lines start alike but go on differently is no circle.
        check((0..300).map(|index| if index % 5 == 4 { index } else { index % 5 }).collect(), None);
    }
}
