//! Carrying a plan out with the model.

use std::collections::HashMap;

use agentd_core::{
    model::{Finish, ModelChunk},
    usage::Usage,
};

use super::{
    arguments::Arguments,
    candidates::{CANDIDATES, Candidate, Choice, Tool},
    decision,
    plan::Plan,
};
use crate::{
    chat::Turn,
    error::RunError,
    inference::{FinishedAnswer, Inference, KvCache, SamplingParams, Stop},
};

/// Tokens of a request that are scored. What comes after says more of the same, and each costs as much again for each
/// candidate.
const SCORED_TOKENS: usize = 48;
/// Penalty that makes chat less likely to repeat itself. Measured from 1 to 1.2: this ends most circles, and more makes
/// the answers stranger. Summaries have none, since they are to say again what the text says.
const CHAT_PENALTY: f32 = 1.05;
/// Tokens of arguments at the most.
const ARGUMENT_TOKENS: usize = 200;

/// Where an answer goes.
pub(crate) trait Listener: Stop {
    /// Hands out one piece. Returns whether anybody listens.
    fn hand_out(&self, chunk: ModelChunk) -> bool;
}

/// Evaluated prompts that may be needed again.
pub(crate) struct Memory {
    /// The conversation that was answered last.
    conversation: KvCache,
    /// The last prompt that stood for itself: a summary, or arguments.
    task: KvCache,
    /// The candidates' prefixes, by their place in [`CANDIDATES`].
    candidates: HashMap<usize, (Vec<u32>, KvCache)>,
}

impl Memory {
    pub(crate) fn new(inference: &Inference) -> Self {
        Self { conversation: inference.new_track(), task: inference.new_track(), candidates: HashMap::new() }
    }
}

/// One request under way.
pub(crate) struct RequestRun<'a> {
    pub(crate) inference: &'a Inference,
    pub(crate) memory: &'a mut Memory,
    pub(crate) listener: &'a dyn Listener,
    /// Tokens of the answer at the most.
    pub(crate) max_tokens: usize,
    pub(crate) usage: Usage,
}

impl RequestRun<'_> {
    /// Carries a plan out, up to the proper end of the answer.
    pub(crate) fn carry_out(&mut self, plan: Plan) -> Result<(), RunError> {
        let finish = match plan {
            Plan::Say(text) => self.say(text).map(|()| Finish::Stop)?,
            Plan::Chat { turns } => self.chat(&turns)?,
            Plan::Call { tool, arguments } => {
                let (name, arguments) = (tool.name().to_owned(), arguments.to_string());
                self.hand_out(ModelChunk::call(name, arguments))?;
                Finish::Stop
            }
            Plan::Choose { request, offers, turns } => match self.choose(&request, &offers)? {
                Some((tool, arguments)) => {
                    self.hand_out(ModelChunk::call(tool.name(), arguments))?;
                    Finish::Stop
                }
                None => self.chat(&turns)?,
            },
            Plan::Summarize { text, note } => {
                let finish = self.summarize(&text)?;
                if let Some(note) = note {
                    self.say(format!("\n\n{note}"))?;
                }
                finish
            }
            Plan::Quote { question, path, sentences } => {
                if let Some((place, best)) = self.best_sentence(&question, &sentences)? {
                    self.say(super::report::quote(&path, place, best))?;
                }
                Finish::Stop
            }
        };
        self.hand_out(ModelChunk::Usage(self.usage))?;
        self.hand_out(ModelChunk::End(finish))
    }

    fn hand_out(&self, chunk: ModelChunk) -> Result<(), RunError> {
        if self.listener.hand_out(chunk) { Ok(()) } else { Err(RunError::Cancelled) }
    }

    fn say(&self, text: String) -> Result<(), RunError> {
        self.hand_out(ModelChunk::Text(text))
    }

    fn chat(&mut self, turns: &[Turn]) -> Result<Finish, RunError> {
        let prompt = self.inference.chat_prompt(turns)?;
        let listener = self.listener;
        let say = |text| listener.hand_out(ModelChunk::Text(text));
        let track = &mut self.memory.conversation;
        let manner = SamplingParams { max_tokens: self.max_tokens, repeat_penalty: CHAT_PENALTY };
        let answered = self.inference.answer(track, &prompt, manner, &TokenListener(listener), say)?;
        self.finish(answered)
    }

    fn summarize(&mut self, text: &str) -> Result<Finish, RunError> {
        // Measured: of the ways to ask, this one stays on the subject best, and a system message makes it worse.
        let prompt = self.inference.chat_prompt(&[Turn::user(format!("Summarize this text:\n\n{text}"))])?;
        let listener = self.listener;
        let say = |text| listener.hand_out(ModelChunk::Text(text));
        let track = &mut self.memory.task;
        let manner = SamplingParams { max_tokens: self.max_tokens, repeat_penalty: 1.0 };
        let answered = self.inference.answer(track, &prompt, manner, &TokenListener(listener), say)?;
        self.finish(answered)
    }

    fn finish(&mut self, answered: FinishedAnswer) -> Result<Finish, RunError> {
        self.count(answered.prompt, answered.reused, answered.tokens);
        if answered.finish == Finish::Runaway {
            self.hand_out(ModelChunk::Runaway { what: "repeated the same words over and over".to_owned() })?;
        }
        Ok(answered.finish)
    }

    fn count(&mut self, prompt: usize, reused: usize, completion: usize) {
        self.usage.prompt_tokens += prompt as u64;
        self.usage.cached_tokens += reused as u64;
        self.usage.completion_tokens += completion as u64;
    }

    /// Scores the request after each candidate, and fills in the arguments of the tool that won.
    fn choose(&mut self, request: &str, offers: &[(Tool, Arguments)]) -> Result<Option<(Tool, String)>, RunError> {
        let mut words = self.inference.vocabulary.encode(&format!(" {request}"))?;
        words.truncate(SCORED_TOKENS);
        words.extend(self.inference.vocabulary.encode("\n")?);
        let mut scores = Vec::new();
        for (index, candidate) in CANDIDATES.iter().enumerate() {
            let offered = match candidate.choice {
                Choice::Chat => true,
                Choice::Tool(tool) => offers.iter().any(|(offer, _)| *offer == tool),
            };
            if offered {
                scores.push((candidate.choice, self.score(index, candidate, &words)?));
            }
        }
        let names_file = offers.iter().any(|(_, arguments)| arguments.names_file);
        tracing::debug!(?scores, names_file, "scored the request");
        let Choice::Tool(tool) = decision::decide(&scores, names_file) else { return Ok(None) };
        let Some((_, arguments)) = offers.iter().find(|(offer, _)| *offer == tool) else { return Ok(None) };
        Ok(Some((tool, self.fill_in(request, tool, arguments)?)))
    }

    fn score(&mut self, index: usize, candidate: &Candidate, words: &[u32]) -> Result<f64, RunError> {
        let inference = self.inference;
        let (prefix, track) = match self.memory.candidates.entry(index) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let prefix = inference.vocabulary.prompt().text(&candidate.prefix()).finish()?;
                entry.insert((prefix, inference.new_track()))
            }
        };
        let (score, reused) = inference.score(track, prefix, words, &TokenListener(self.listener))?;
        let prompt = prefix.len() + words.len();
        self.count(prompt, reused, 0);
        Ok(score)
    }

    fn fill_in(&mut self, request: &str, tool: Tool, arguments: &Arguments) -> Result<String, RunError> {
        if let Some(only) = arguments.only() {
            return Ok(only);
        }
        let prompt = format!("User: {request}\nAssistant: {} ", tool.name());
        let mut tokens = self.inference.vocabulary.prompt().text(&prompt).finish()?;
        // Of a long request the end is next to where the arguments stand.
        let excess = tokens.len().saturating_sub(super::conversation::PROMPT_TOKENS);
        tokens.drain(..excess);
        let track = &mut self.memory.task;
        let pattern = arguments.pattern();
        let listening = TokenListener(self.listener);
        let filled = self.inference.fill_in(track, &tokens, &pattern, ARGUMENT_TOKENS, &listening)?;
        self.count(tokens.len(), 0, 0);
        Ok(filled)
    }

    /// The sentence after which the question is likeliest.
    fn best_sentence<'s>(
        &mut self,
        question: &str,
        sentences: &'s [(String, String)],
    ) -> Result<Option<&'s (String, String)>, RunError> {
        let mut words = self.inference.vocabulary.encode(&format!(" {question}"))?;
        words.truncate(SCORED_TOKENS);
        let mut best = None;
        for sentence in sentences {
            let prefix = self.inference.vocabulary.prompt().text(&format!("{}\nQuestion:", sentence.1)).finish()?;
            let track = &mut self.memory.task;
            let (score, reused) = self.inference.score(track, &prefix, &words, &TokenListener(self.listener))?;
            self.count(prefix.len() + words.len(), reused, 0);
            if best.is_none_or(|(highest, _): (f64, _)| score > highest) {
                best = Some((score, sentence));
            }
        }
        Ok(best.map(|(_, sentence)| sentence))
    }
}

/// A listener as the inference needs it.
struct TokenListener<'a>(&'a dyn Listener);

impl Stop for TokenListener<'_> {
    fn stopped(&self) -> bool {
        self.0.stopped()
    }
}
