//! The changes that one call tries, one set after the other. A set that got the server no further is taken back before the
//! next one is tried; one that did stays while something else is refused.

use super::{Change, refusal::Refusal};

/// Sets that one call tries at the most.
const MAX_TRIES: usize = 8;

/// Changes on trial.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// Those of the next attempt.
    current: Vec<Change>,
    /// All sets that were tried; the last one may still hold.
    tried: Vec<Vec<Change>>,
    /// The last refusal.
    last: Option<Refusal>,
}

impl Trials {
    /// The changes that the next attempt is made with.
    pub(crate) fn current(&self) -> &[Change] {
        &self.current
    }

    /// Takes note of a refusal and picks what to try next; none where there is nothing left.
    pub(crate) fn after(&mut self, refusal: Refusal, candidates: Vec<Vec<Change>>) -> Option<Vec<Change>> {
        if self.last.as_ref() == Some(&refusal)
            && let Some(vain) = self.tried.last()
        {
            self.current.retain(|change| !vain.contains(change));
        }
        self.last = Some(refusal);
        let is_left = |set: &Vec<Change>| self.tried.len() < MAX_TRIES && !self.tried.contains(set);
        let next = candidates.into_iter().find(is_left)?;
        self.current.extend(next.iter().cloned());
        self.tried.push(next.clone());
        Some(next)
    }

    /// The changes with which the server took the request: nothing is on trial any more.
    pub(crate) fn taken(&mut self) -> Vec<Change> {
        std::mem::take(self).current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &str) -> Refusal {
        *Refusal::of(400, words.as_bytes()).unwrap()
    }

    #[test]
    fn what_did_not_help_is_taken_back_and_what_did_stays() {
        let [a, b, c] = ["a", "b", "c"].map(|name| vec![Change::WithoutField(name.to_owned())]);
        let both = [a.clone(), b.clone()];
        let mut trials = Trials::default();
        assert_eq!(trials.after(refusal("a or b"), both.to_vec()), Some(a));
        assert_eq!(trials.after(refusal("a or b"), both.to_vec()), Some(b.clone()));
        assert_eq!(trials.current(), b);
        assert_eq!(trials.after(refusal("now c"), vec![c.clone()]), Some(c.clone()));
        assert_eq!(trials.after(refusal("now c"), vec![c.clone()]), None);
        assert_eq!(trials.taken(), b);
        assert_eq!(trials.after(refusal("no"), Vec::new()), None);
        assert_eq!(trials.current(), []);
    }
}
