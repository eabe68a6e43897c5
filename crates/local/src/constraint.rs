//! Keeping a model's words within a regular expression.

use std::sync::Arc;

use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv},
};

use crate::{error::RunError, vocabulary::Vocabulary};

/// Makes constraints for one vocabulary.
pub(crate) struct Constraints {
    factory: ParserFactory,
}

/// The words that are still allowed.
pub(crate) struct Constraint {
    matcher: Matcher,
}

/// The vocabulary as the grammar engine wants to see it.
struct Environment {
    trie: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.greedy_tokenize(bytes)
    }

    /// Longest-first is not how the model's own tokenizer cuts, so nothing may be forced by it.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

impl Constraints {
    /// Sorts the vocabulary into a trie; takes some tenths of a second.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, RunError> {
        let words: Vec<Vec<u8>> = (0u32..)
            .zip(vocabulary.all_bytes())
            .map(|(id, bytes)| {
                if !vocabulary.is_control(id) {
                    return bytes.clone();
                }
                let mut marked = vec![TokTrie::SPECIAL_TOKEN_MARKER];
                marked.extend_from_slice(bytes);
                marked
            })
            .collect();
        let size = u32::try_from(vocabulary.len()).map_err(|error| RunError::Constraint(error.to_string()))?;
        let trie = TokTrie::from(&TokRxInfo::new(size, vocabulary.end()), &words);
        let environment: TokEnv = Arc::new(Environment { trie });
        let mut factory =
            ParserFactory::new_simple(&environment).map_err(|error| RunError::Constraint(error.to_string()))?;
        factory.quiet();
        Ok(Self { factory })
    }

    /// A constraint to texts that match a regular expression as a whole.
    pub(crate) fn regex(&self, pattern: &str) -> Result<Constraint, RunError> {
        let parser = self.factory.create_parser(TopLevelGrammar::from_regex(pattern));
        let matcher = Matcher::new(parser);
        match matcher.get_error() {
            Some(error) => Err(RunError::Constraint(error)),
            None => Ok(Constraint { matcher }),
        }
    }
}

impl Constraint {
    /// The best token that is allowed; nothing when the text is complete.
    pub(crate) fn choose(&mut self, logits: &[f32]) -> Result<Option<u32>, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Constraint(error.to_string());
        if self.matcher.is_stopped() {
            return Ok(None);
        }
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| failed(&error))?;
        let best = (0u32..)
            .zip(logits)
            .filter(|(token, logit)| mask.is_allowed(*token) && logit.is_finite())
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(token, _)| token);
        let Some(token) = best else { return Err(failed(&"no token is allowed")) };
        self.matcher.consume_token(token).map_err(|error| failed(&error))?;
        Ok(Some(token))
    }
}
