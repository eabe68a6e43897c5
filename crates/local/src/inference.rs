//! Running a loaded model: evaluating prompts, answering greedily, scoring and filling in under a constraint.
//!
//! Everything here is deterministic. Each call asks [`Stop`] before every token and every chunk of a prompt, so that
//! it ends soon after nobody wants the answer any more.

use std::{cell::OnceCell, path::Path, sync::Arc};

use agentd_core::model::Finish;
use candle_core::{D, Tensor};

use crate::{
    cache::Cache,
    chat::Turn,
    constraint::Constraints,
    error::{LoadError, RunError},
    gguf::Gguf,
    llama::Llama,
    repetition::Repetition,
    status::Counters,
    vocabulary::{TextJoiner, Vocabulary},
};

/// A prompt is evaluated in chunks of this many tokens. Longer ones are hardly quicker, cost memory by the square, and
/// a cancelled request waits for the end of its chunk.
const CHUNK: usize = 128;

/// Tokens of an answer that were said recently, when repeating them is made less likely.
const RECENT: usize = 48;

/// Parameters of sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SamplingParams {
    /// Tokens at the most.
    pub(crate) max_tokens: usize,
    /// Factor by which recent tokens are less likely; 1 changes nothing.
    pub(crate) repeat_penalty: f32,
}

/// Condition that stops an answer.
pub(crate) trait Stop {
    /// Returns whether the answer is no longer wanted.
    fn stopped(&self) -> bool;
}

/// A loaded model.
pub(crate) struct Inference {
    llama: Llama,
    pub(crate) vocabulary: Vocabulary,
    /// Made when first wanted.
    constraints: OnceCell<Constraints>,
    counters: Arc<Counters>,
}

/// Tokens that were evaluated, with their keys and values: what a later prompt may start with.
pub(crate) struct KvCache {
    tokens: Vec<u32>,
    cache: Cache,
}

/// A prompt after its evaluation.
pub(crate) struct EvaluatedPrompt {
    /// One row for each position from the one that was asked for.
    rows: Tensor,
    /// The tokens that were there already.
    pub(crate) reused: usize,
}

/// An answer that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedAnswer {
    pub(crate) finish: Finish,
    pub(crate) prompt: usize,
    pub(crate) reused: usize,
    pub(crate) tokens: usize,
}

impl Inference {
    pub(crate) fn load(path: &Path, context: usize, counters: Arc<Counters>) -> Result<Self, LoadError> {
        let mut gguf = Gguf::open(path)?;
        let vocabulary = Vocabulary::load(&gguf)?;
        let llama = Llama::load(&mut gguf, context)?;
        Ok(Self { llama, vocabulary, constraints: OnceCell::new(), counters })
    }

    pub(crate) fn new_track(&self) -> KvCache {
        KvCache { tokens: Vec::new(), cache: self.llama.new_cache() }
    }

    /// The positions that prompt and answer may have together.
    pub(crate) fn context(&self) -> usize {
        self.llama.sizes().context
    }

    /// The tokens of a conversation, up to where the model's answer begins.
    pub(crate) fn chat_prompt(&self, turns: &[Turn]) -> Result<Vec<u32>, RunError> {
        self.vocabulary.format().write(self.vocabulary.prompt(), turns)?.finish()
    }

    /// Evaluates what of `prompt` is not in the track yet; `rows_from` is the first position whose row is wanted.
    fn evaluate(
        &self,
        track: &mut KvCache,
        prompt: &[u32],
        rows_from: usize,
        stop: &dyn Stop,
    ) -> Result<EvaluatedPrompt, RunError> {
        if prompt.len() > self.context() {
            return Err(RunError::TooLong { tokens: prompt.len(), limit: self.context() });
        }
        let reused = track.shared_with(prompt).min(rows_from);
        track.truncate(reused);
        let mut rows = Vec::new();
        for chunk in prompt[reused..].chunks(CHUNK) {
            if stop.stopped() {
                return Err(RunError::Cancelled);
            }
            let start = track.tokens.len();
            // The cache is one token behind or ahead of the list only while this runs; after an error the list tells
            // what counts, and the next call truncates to it.
            let new = self.llama.forward(chunk, &mut track.cache)?;
            track.tokens.extend_from_slice(chunk);
            self.counters.add_evaluated(chunk.len());
            let skipped = rows_from.saturating_sub(start);
            if skipped < chunk.len() {
                rows.push(new.narrow(0, skipped, chunk.len() - skipped)?);
            }
        }
        Ok(EvaluatedPrompt { rows: Tensor::cat(&rows, 0)?, reused })
    }

    fn next_logits(&self, evaluated: &EvaluatedPrompt) -> Result<Vec<f32>, RunError> {
        let rows = &evaluated.rows;
        let last = rows.narrow(0, rows.dim(0)? - 1, 1)?;
        Ok(self.llama.logits(&last)?.squeeze(0)?.to_vec1()?)
    }

    /// Answers a prompt with the likeliest tokens, one after the other, and hands out each piece of text as it comes.
    /// `say` returns whether anybody listens.
    pub(crate) fn answer(
        &self,
        track: &mut KvCache,
        prompt: &[u32],
        manner: SamplingParams,
        stop: &dyn Stop,
        mut say: impl FnMut(String) -> bool,
    ) -> Result<FinishedAnswer, RunError> {
        let first = self.evaluate(track, prompt, prompt.len().saturating_sub(1), stop)?;
        let mut answered =
            FinishedAnswer { finish: Finish::Length, prompt: prompt.len(), reused: first.reused, tokens: 0 };
        let mut logits = self.next_logits(&first)?;
        let mut tokens = prompt.to_vec();
        let mut joiner = TextJoiner::default();
        let mut repetition = Repetition::default();
        while answered.tokens < manner.max_tokens && tokens.len() < self.context() {
            let made = &tokens[prompt.len()..];
            discourage(&mut logits, &made[made.len().saturating_sub(RECENT)..], manner.repeat_penalty);
            let token = best(&logits)?;
            if self.vocabulary.ends_answer(token) {
                answered.finish = Finish::Stop;
                break;
            }
            answered.tokens += 1;
            self.counters.add_generated(1);
            tokens.push(token);
            if repetition.push(token) {
                answered.finish = Finish::Runaway;
                break;
            }
            let text = joiner.push(self.vocabulary.bytes(token));
            if stop.stopped() || (!text.is_empty() && !say(text)) {
                return Err(RunError::Cancelled);
            }
            let next = self.evaluate(track, &tokens, tokens.len() - 1, stop)?;
            logits = self.next_logits(&next)?;
        }
        if let Some(rest) = joiner.finish() {
            say(rest.to_owned());
        }
        Ok(answered)
    }

    /// Likelihood of `continuation` after `prefix`: the sum of the logarithms of the tokens' probabilities, and the
    /// tokens that were there already. Afterwards the track holds the prefix, so that scoring another continuation
    /// costs no more than that continuation.
    pub(crate) fn score(
        &self,
        track: &mut KvCache,
        prefix: &[u32],
        continuation: &[u32],
        stop: &dyn Stop,
    ) -> Result<(f64, usize), RunError> {
        let (Some(from), false) = (prefix.len().checked_sub(1), continuation.is_empty()) else { return Ok((0.0, 0)) };
        let prompt = [prefix, continuation].concat();
        let evaluated = self.evaluate(track, &prompt, from, stop)?;
        track.truncate(prefix.len());
        let rows = evaluated.rows.narrow(0, 0, continuation.len())?;
        let log_probabilities = candle_nn::ops::log_softmax(&self.llama.logits(&rows)?, D::Minus1)?;
        let wanted = Tensor::new(continuation, rows.device())?.unsqueeze(1)?;
        let scores: Vec<f32> = log_probabilities.gather(&wanted, 1)?.squeeze(1)?.to_vec1()?;
        let sum: f64 = scores.into_iter().map(f64::from).sum();
        if sum.is_finite() { Ok((sum, evaluated.reused)) } else { Err(RunError::NotFinite) }
    }

    /// The likeliest text after a prompt that matches a regular expression.
    pub(crate) fn fill_in(
        &self,
        track: &mut KvCache,
        prompt: &[u32],
        pattern: &str,
        max_tokens: usize,
        stop: &dyn Stop,
    ) -> Result<String, RunError> {
        let mut constraint = self.constraints()?.regex(pattern)?;
        let mut tokens = prompt.to_vec();
        let mut filled = Vec::new();
        for _ in 0..max_tokens {
            let evaluated = self.evaluate(track, &tokens, tokens.len().saturating_sub(1), stop)?;
            match constraint.choose(&self.next_logits(&evaluated)?)? {
                Some(token) if !self.vocabulary.ends_answer(token) => {
                    filled.extend_from_slice(self.vocabulary.bytes(token));
                    tokens.push(token);
                    self.counters.add_generated(1);
                }
                _ => return String::from_utf8(filled).map_err(|error| RunError::Tokens(error.to_string())),
            }
        }
        Err(RunError::Constraint(format!("the text was not complete after {max_tokens} tokens")))
    }

    fn constraints(&self) -> Result<&Constraints, RunError> {
        if let Some(constraints) = self.constraints.get() {
            return Ok(constraints);
        }
        let made = Constraints::new(&self.vocabulary)?;
        Ok(self.constraints.get_or_init(|| made))
    }
}

impl KvCache {
    fn shared_with(&self, prompt: &[u32]) -> usize {
        self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count()
    }

    fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.cache.truncate(self.tokens.len());
    }
}

/// Makes tokens less likely. Each counts once, however often it was said.
fn discourage(logits: &mut [f32], recent: &[u32], penalty: f32) {
    for (index, token) in recent.iter().enumerate() {
        if let (false, Some(logit)) = (recent[..index].contains(token), logits.get_mut(*token as usize)) {
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
    }
}

fn best(logits: &[f32]) -> Result<u32, RunError> {
    let best = (0u32..).zip(logits).filter(|(_, logit)| logit.is_finite()).max_by(|a, b| a.1.total_cmp(b.1));
    best.map(|(token, _)| token).ok_or(RunError::NotFinite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_tokens_become_less_likely_once() {
        let mut logits = [2.0, -2.0, 1.0];
        discourage(&mut logits, &[0, 1, 0, 9], 2.0);
        assert_eq!(logits, [1.0, -4.0, 1.0]);
    }

    #[test]
    fn the_best_token_is_the_first_of_the_finite_ones() {
        assert_eq!(best(&[f32::NAN, 1.0, 3.0, f32::INFINITY]).unwrap(), 2);
        assert!(matches!(best(&[f32::NAN]), Err(RunError::NotFinite)));
    }
}
