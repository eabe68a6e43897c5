//! The words of an answer on their way out: thoughts are split off first, then calls are looked for.

use std::{collections::VecDeque, sync::Arc};

use agentd_core::{
    model::{ModelChunk, UnrunReason},
    tool::ToolSpec,
};

use crate::answer::{
    RawCall,
    text_protocol::{Scanner, clean_name, is_mark},
    thoughts::{Part, Splitter},
};

/// The words of one answer.
pub(super) struct Words {
    splitter: Splitter,
    /// Where there are tools.
    scanner: Option<Scanner>,
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
        let scanner = (!tools.is_empty()).then(|| Scanner::new(Arc::clone(&tools), text_calls));
        Self { splitter: Splitter::default(), scanner, tools }
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
        if let Some(scanner) = &mut self.scanner {
            if calls.is_empty() && unrun.is_none() {
                let found = scanner.finish(is_cut);
                push_text(chunks, found.words);
                calls.extend(found.call);
                unrun = found.unrun;
            } else {
                push_text(chunks, Some(scanner.give_up()).filter(|words| !is_mark(words)).unwrap_or_default());
            }
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
                let text = self.scanner.as_mut().map(|scanner| scanner.push(&text)).unwrap_or(text);
                push_text(chunks, text);
            }
            Part::WasThought => {
                // A call among them was only thought of.
                self.tell_held(chunks);
                chunks.push_back(ModelChunk::WasReasoning);
            }
        }
    }

    fn tell_held(&mut self, chunks: &mut VecDeque<ModelChunk>) {
        push_text(chunks, self.scanner.as_mut().map(Scanner::give_up).unwrap_or_default());
    }
}

fn push_text(chunks: &mut VecDeque<ModelChunk>, text: String) {
    if !text.is_empty() {
        chunks.push_back(ModelChunk::Text(text));
    }
}
