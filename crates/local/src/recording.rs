//! A request to the embedded model and its answer, told to the request's tap. There is no wire: what is kept is what the harness
//! was given, and what came of it.

use std::{sync::Arc, time::Instant};

use agentd_core::{
    error::ModelError,
    exchange::{ExchangeOutcome, ExchangeRecorder, ReceivedAnswer, SentRequest},
    model::{ModelChunk, ModelRequest},
    usage::Usage,
};
use serde_json::{Value, json};

/// Bytes of an answer that are kept.
const MAX_TEXT: usize = 1 << 20;

/// An answer that is kept, from its request to its end. One that is dropped before has been abandoned.
pub(crate) struct Recording(Option<OpenRecording>);

struct OpenRecording {
    recorder: Arc<dyn ExchangeRecorder>,
    key: u64,
    begun: Instant,
    text: String,
    calls: Vec<Value>,
    answer: ReceivedAnswer,
}

impl Recording {
    /// Begins with the request, where it is kept.
    pub(crate) fn begin(model: &str, request: &ModelRequest) -> Self {
        let open = request.tap.recorder().map(|recorder| {
            let body = body(request).to_string();
            let sent = SentRequest { wire: "embedded", model, url: "", headers: &[], attempt: 1, body: &body };
            let (key, recorder) = (recorder.sent(&sent), Arc::clone(recorder));
            let (text, calls, answer) = (String::new(), Vec::new(), ReceivedAnswer::default());
            OpenRecording { recorder, key, begun: Instant::now(), text, calls, answer }
        });
        Self(open)
    }

    /// Takes in a piece of the answer.
    pub(crate) fn note(&mut self, piece: &Result<ModelChunk, ModelError>) {
        let Some(open) = &mut self.0 else { return };
        match piece {
            Ok(ModelChunk::End(_)) => self.end(ExchangeOutcome::Whole, None),
            Ok(chunk) => open.note(chunk),
            Err(error) => self.end(ExchangeOutcome::Failed, Some(error.to_string())),
        }
    }

    fn end(&mut self, outcome: ExchangeOutcome, error: Option<String>) {
        let Some(OpenRecording { recorder, key, begun, text, calls, answer }) = self.0.take() else { return };
        let body = json!({ "text": text, "calls": calls }).to_string().into_bytes();
        let bytes = body.len() as u64;
        recorder.ended(key, ReceivedAnswer { body, bytes, duration: begun.elapsed(), outcome, error, ..answer });
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end(ExchangeOutcome::Abandoned, None);
    }
}

impl OpenRecording {
    fn note(&mut self, chunk: &ModelChunk) {
        match chunk {
            ModelChunk::Text(more) if self.text.len() + more.len() <= MAX_TEXT => self.text.push_str(more),
            ModelChunk::ToolCall { name, arguments, .. } => {
                self.calls.push(json!({ "name": name, "arguments": arguments }));
            }
            ModelChunk::Usage(usage) => self.answer.usage = Some(Usage { calls: 0, unpriced_calls: 0, ..*usage }),
            _ => {}
        }
        if matches!(chunk, ModelChunk::Text(_) | ModelChunk::ToolCall { .. }) {
            self.answer.first_token.get_or_insert(self.begun.elapsed());
        }
    }
}

fn body(request: &ModelRequest) -> Value {
    let tool = |tool: &agentd_core::tool::ToolSpec| json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({
        "messages": request.messages,
        "tools": request.tools.iter().map(tool).collect::<Vec<_>>(),
        "may_call": request.may_call,
        "max_tokens": request.max_tokens,
        "known_paths": request.known_paths,
    })
}
