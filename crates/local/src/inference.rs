//! Inference with a loaded model: evaluates a prompt and decodes greedily.
//!
//! Inference is deterministic. The [`Stop`] callback is checked before every token and every chunk of a prompt, so that
//! an answer ends soon after it is cancelled.

use std::{path::Path, sync::Arc};

use agentd_core::{model::Finish, usage::Usage};

use crate::{
    config::Counters,
    error::{LoadError, RunError},
    gguf::Gguf,
    llama::{LayerCache, Llama},
    vocabulary::{TextJoiner, Vocabulary},
};

/// Number of prompt tokens evaluated in one step. Larger chunks are hardly faster, their memory grows with the square
/// of the size, and a cancelled request waits for the end of its chunk.
const CHUNK: usize = 128;

/// Number of recent answer tokens to which the repetition penalty applies.
const PENALTY_WINDOW: usize = 48;

/// Repetition penalty. Measured from 1 to 1.2: this value ends most loops, and higher values make the answers less
/// coherent.
const REPEAT_PENALTY: f32 = 1.05;

/// System message with which this family of models answers best. With a persona, the models produce nonsense.
const SYSTEM_MESSAGE: &str = "You are a helpful assistant.";

/// Callback that returns true once the answer is no longer wanted.
pub(crate) type Stop<'a> = &'a dyn Fn() -> bool;

/// Loaded model with its cache.
pub(crate) struct Inference {
    llama: Llama,
    vocabulary: Vocabulary,
    counters: Arc<Counters>,
    /// Evaluated tokens, which a later prompt may reuse as its prefix.
    tokens: Vec<u32>,
    /// Keys and values for `tokens`.
    cache: Vec<LayerCache>,
}

impl Inference {
    pub(crate) fn load(path: &Path, context: usize, counters: Arc<Counters>) -> Result<Self, LoadError> {
        let mut gguf = Gguf::open(path)?;
        let vocabulary = Vocabulary::load(&gguf)?;
        let llama = Llama::load(&mut gguf, context)?;
        let cache = llama.new_cache();
        Ok(Self { llama, vocabulary, counters, tokens: Vec::new(), cache })
    }

    /// Returns the maximum number of positions for prompt and answer.
    fn context(&self) -> usize {
        self.llama.sizes().context
    }

    /// Returns the tokens of a conversation up to the start of the model's answer.
    pub(crate) fn chat_prompt(&self, text: &str) -> Result<Vec<u32>, RunError> {
        self.vocabulary.prompt(SYSTEM_MESSAGE, text)
    }

    /// Evaluates the part of `prompt` that is not cached. Returns the logits for the next token, and the number of
    /// reused tokens.
    fn evaluate(&mut self, prompt: &[u32], stop: Stop<'_>) -> Result<(Vec<f32>, usize), RunError> {
        if prompt.len() > self.context() {
            return Err(RunError::TooLong { tokens: prompt.len(), limit: self.context() });
        }
        let shared = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let reused = shared.min(prompt.len().saturating_sub(1));
        self.tokens.truncate(reused);
        // Also restores equal lengths if an earlier step failed between two layers.
        for layer in &mut self.cache {
            layer.truncate(self.tokens.len());
        }
        let mut last = None;
        for chunk in prompt[reused..].chunks(CHUNK) {
            if stop() {
                return Err(RunError::Cancelled);
            }
            // Cache and list only differ during this call. After an error, the list is authoritative, and the next call
            // truncates the cache to its length.
            let rows = self.llama.forward(chunk, &mut self.cache)?;
            self.tokens.extend_from_slice(chunk);
            self.counters.status().evaluated_tokens += chunk.len() as u64;
            last = Some(rows.narrow(0, chunk.len() - 1, 1)?);
        }
        let last = last.ok_or_else(|| RunError::Tokens("an empty prompt".to_owned()))?;
        Ok((self.llama.logits(&last)?.squeeze(0)?.to_vec1()?, reused))
    }

    /// Generates an answer greedily and passes each piece of text to `emit`, which returns false if the reader is gone.
    pub(crate) fn answer(
        &mut self,
        prompt: &[u32],
        max_tokens: usize,
        stop: Stop<'_>,
        mut emit: impl FnMut(String) -> bool,
    ) -> Result<(Finish, Usage), RunError> {
        let (mut logits, reused) = self.evaluate(prompt, stop)?;
        let mut finish = Finish::Length;
        let mut tokens = prompt.to_vec();
        let mut joiner = TextJoiner::default();
        let mut repetition = Repetition::default();
        let mut count = 0;
        while count < max_tokens && tokens.len() < self.context() {
            let generated = &tokens[prompt.len()..];
            penalise(&mut logits, &generated[generated.len().saturating_sub(PENALTY_WINDOW)..], REPEAT_PENALTY);
            let token = best(&logits)?;
            if self.vocabulary.ends_answer(token) {
                finish = Finish::Stop;
                break;
            }
            count += 1;
            self.counters.status().generated_tokens += 1;
            tokens.push(token);
            if repetition.push(token) {
                finish = Finish::Runaway;
                break;
            }
            let text = joiner.push(self.vocabulary.bytes(token));
            if stop() || (!text.is_empty() && !emit(text)) {
                return Err(RunError::Cancelled);
            }
            (logits, _) = self.evaluate(&tokens, stop)?;
        }
        if let Some(rest) = joiner.finish() {
            emit(rest.to_owned());
        }
        let usage = Usage {
            prompt_tokens: prompt.len() as u64,
            cached_tokens: reused as u64,
            completion_tokens: count as u64,
            // The model runs locally at no cost.
            cost_microusd: Some(0),
            ..Usage::default()
        };
        Ok((finish, usage))
    }
}

/// Lowers the logits of tokens, once per distinct token.
fn penalise(logits: &mut [f32], recent: &[u32], penalty: f32) {
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

/// Maximum length of a repeated phrase in tokens.
const MAX_PHRASE: usize = 160;
/// Length in tokens above which a phrase, such as a verse, counts as a loop after one repetition.
const LONG_PHRASE: usize = 32;
/// Minimum total length of the repetitions in tokens.
const MIN_REPEATED_TOKENS: usize = 32;
/// Minimum number of consecutive occurrences of a shorter phrase.
const MIN_REPEATS: usize = 3;

/// Tokens of the current answer.
#[derive(Debug, Default)]
struct Repetition {
    tokens: Vec<u32>,
}

impl Repetition {
    /// Adds a token. Returns true if the answer now ends in a loop.
    pub(crate) fn push(&mut self, token: u32) -> bool {
        self.tokens.push(token);
        (1..=MAX_PHRASE).any(|length| {
            let times = if length > LONG_PHRASE { 2 } else { MIN_REPEATS };
            let stretch = (length * times).max(MIN_REPEATED_TOKENS);
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
    fn repetition_penalty_applies_once_per_token() {
        let mut logits = [2.0, -2.0, 1.0];
        penalise(&mut logits, &[0, 1, 0, 9], 2.0);
        assert_eq!(logits, [1.0, -4.0, 1.0]);
    }

    #[test]
    fn best_token_ignores_non_finite_logits() {
        assert_eq!(best(&[f32::NAN, 1.0, 3.0, f32::INFINITY]).unwrap(), 2);
        assert!(matches!(best(&[f32::NAN]), Err(RunError::NotFinite)));
    }

    #[test]
    fn repetition_is_detected_but_lists_are_not() {
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
        // A list whose lines start alike but end differently is not a loop.
        check((0..300).map(|index| if index % 5 == 4 { index } else { index % 5 }).collect(), None);
    }
}
