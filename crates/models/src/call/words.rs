//! The words of an answer on their way out: thoughts are split off first, then calls are looked for.

use std::{collections::VecDeque, sync::Arc};

use agentd_core::{
    model::{ModelChunk, UnrunReason},
    tool::ToolSpec,
};

use crate::{
    answer::RawCall,
    foreign_calls::{ForeignCalls, clean_name, is_mark},
    text_protocol::{Scanned, Scanner},
    thoughts::{Part, Splitter},
};

/// The words of one answer.
pub(super) struct Words {
    splitter: Splitter,
    /// Where calls are read from the text.
    scanner: Option<Scanner>,
    /// Where there are tools.
    foreign: Option<ForeignCalls>,
    tools: Arc<[ToolSpec]>,
}

/// The calls that an answer came to.
pub(super) struct AnswerCalls {
    pub(super) calls: Vec<RawCall>,
    /// One that does not run.
    pub(super) unrun: Option<(String, UnrunReason)>,
}

impl Words {
    /// For an answer to a request with these tools, whose calls are read from the text or not.
    pub(super) fn new(tools: Arc<[ToolSpec]>, text_calls: bool) -> Self {
        let has_tools = !tools.is_empty();
        Self {
            splitter: Splitter::default(),
            scanner: (has_tools && text_calls).then(|| Scanner::new(Arc::clone(&tools))),
            foreign: has_tools.then(|| ForeignCalls::new(Arc::clone(&tools))),
            tools,
        }
    }

    pub(super) fn push(&mut self, words: &str, chunks: &mut VecDeque<ModelChunk>) {
        for part in self.splitter.push(words) {
            self.tell(part, chunks);
        }
    }

    /// Tells all that is held as words, because the answer was cut.
    pub(super) fn give_up(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        for part in self.splitter.finish() {
            self.tell(part, chunks);
        }
        self.tell_held(chunks);
    }

    /// The end of the answer, which the limit may have cut. It has these calls beside its words.
    pub(super) fn finish(
        &mut self,
        mut calls: Vec<RawCall>,
        is_cut: bool,
        chunks: &mut VecDeque<ModelChunk>,
    ) -> AnswerCalls {
        for part in self.splitter.finish() {
            self.tell(part, chunks);
        }
        let mut unrun = None;
        // The limit has cut the last call, unless it can be seen that it is whole.
        if is_cut && let Some(cut) = calls.pop_if(|call| !call.is_whole()) {
            unrun = Some((cut.name, UnrunReason::Cut));
        }
        let mut doubtful = None;
        if let Some(scanner) = &mut self.scanner {
            let Scanned { words, call, doubtful: in_doubt, begun } = scanner.finish(is_cut);
            self.tell_words(words, chunks);
            calls.extend(call);
            unrun = unrun.or(begun.map(|name| (name, UnrunReason::Cut)));
            doubtful = in_doubt;
        }
        if calls.is_empty() && unrun.is_none() {
            if let Some(foreign) = &mut self.foreign {
                let (words, name) = foreign.finish(is_cut);
                push_text(chunks, words);
                let why = if is_cut { UnrunReason::Cut } else { UnrunReason::Foreign };
                unrun = name.map(|name| (name, why));
            }
            unrun = unrun.or(doubtful.map(|name| (name, UnrunReason::Doubtful)));
        } else if let Some(foreign) = &mut self.foreign {
            push_text(chunks, Some(foreign.give_up()).filter(|words| !is_mark(words)).unwrap_or_default());
        }
        let cleaned = |name: String| clean_name(&name, &self.tools);
        for call in &mut calls {
            call.name = cleaned(std::mem::take(&mut call.name));
        }
        AnswerCalls { calls, unrun: unrun.map(|(name, why)| (cleaned(name), why)) }
    }

    fn tell(&mut self, part: Part, chunks: &mut VecDeque<ModelChunk>) {
        match part {
            Part::Thought(thought) => chunks.push_back(ModelChunk::Reasoning(thought)),
            Part::Text(text) => {
                let text = match &mut self.scanner {
                    Some(scanner) => scanner.push(&text),
                    None => text,
                };
                self.tell_words(text, chunks);
            }
            Part::WasThought => {
                // A call among them was only thought of.
                self.tell_held(chunks);
                chunks.push_back(ModelChunk::WasReasoning);
            }
        }
    }

    fn tell_words(&mut self, words: String, chunks: &mut VecDeque<ModelChunk>) {
        match &mut self.foreign {
            Some(foreign) => push_text(chunks, foreign.push(&words)),
            None => push_text(chunks, words),
        }
    }

    fn tell_held(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        let words = self.scanner.as_mut().map(Scanner::give_up).unwrap_or_default();
        self.tell_words(words, chunks);
        push_text(chunks, self.foreign.as_mut().map(ForeignCalls::give_up).unwrap_or_default());
    }
}

fn push_text(chunks: &mut VecDeque<ModelChunk>, text: String) {
    if !text.is_empty() {
        chunks.push_back(ModelChunk::Text(text));
    }
}
