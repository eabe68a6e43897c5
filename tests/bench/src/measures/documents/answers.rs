//! Compares the answers to questions with those of the other stack.

use super::*;

/// Rank of the result that answers a question, from 0. `None` if no evaluated result answers it.
pub(super) type Rank = Option<usize>;

/// Returns the share of the selected questions that the first `within` results answer, in percent.
pub(super) fn share(questions: &[Question], ranks: &[Rank], within: usize, which: impl Fn(&Question) -> bool) -> f64 {
    let of = questions.iter().zip(ranks).filter(|(question, _)| which(question));
    let yes: Vec<bool> = of.map(|(_, rank)| rank.is_some_and(|rank| rank < within)).collect();
    100.0 * as_f64(yes.iter().filter(|yes| **yes).count() as u64) / as_f64(yes.len().max(1) as u64)
}

/// Questions with the ranks of both stacks.
#[derive(Clone, Copy)]
pub(super) struct Answers<'a> {
    pub(super) questions: &'a [Question],
    pub(super) ours: &'a [Rank],
    pub(super) theirs: &'a [Rank],
}

impl Answers<'_> {
    /// Returns the row for the selected questions, or `None` if there are none. The limit is the share that the other
    /// stack answers.
    pub(super) fn row(&self, label: impl Into<String>, which: impl Fn(&Question) -> bool) -> Option<Row> {
        let count = self.questions.iter().filter(|question| which(question)).count();
        let of = |ranks, within| share(self.questions, ranks, within, &which);
        let least = of(self.theirs, MAX_RESULTS);
        // Rounded as displayed, so that equal shares meet the limit.
        let limit = (10.0 * least).floor() / 10.0;
        let row = Row::new(label, vec![Figure::percent("", of(self.ours, MAX_RESULTS)).at_least(limit)])
            .over(Figure::percent("the other stack", least))
            .with_note(format!(
                "{count} questions; as the first result: {:.1} %, other stack {:.1} %",
                of(self.ours, 1),
                of(self.theirs, 1)
            ));
        (count > 0).then_some(row)
    }

    /// Returns the row for questions of this form.
    pub(super) fn of_form(&self, form: &str, label: &str) -> Option<Row> {
        self.row(format!("the right page for {label}"), |question| question.form.as_deref() == Some(form))
    }
}
