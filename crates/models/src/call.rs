//! One call, from the request to its end: it opens, tries again, reads, and turns what the
//! dialect's reader found into chunks. Dropping it closes the request, for everything lives in this one value.

mod reading;
mod words;

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentd_core::{
    error::ModelError,
    exchange::ExchangeOutcome,
    model::{LearntForm, ListedModel, Message, ModelChunk, ModelInfo, ModelRequest, WindowSource},
    ports::Model,
    tool::ToolSpec,
    untrusted,
    usage::Prices,
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, Either, select},
    stream::{self, BoxStream},
};
use reqwest::Response;

use self::{
    reading::{Progress, Reading},
    words::Words,
};
use crate::{
    catalogue,
    config::{ModelConfig, Wire},
    deadline::Deadline,
    dialect::{AnswerReader, Dialect, Order, Outgoing},
    facts::ModelFacts,
    failure::Failure,
    http::Target,
    learning::{Change, RequestForm, SentParts, Trials, candidates, fingerprint},
    recording::{AttemptRequest, Recording},
    records::{ModelRecords, RecordKey},
    retry::{Retries, Retry},
    server,
};

/// Number of times that an answer is asked for again which broke off after it had begun.
const MOST_CUTS: u32 = 5;

/// Number of pauses that one answer may have.
const MOST_PAUSES: u32 = 16;

/// A model behind HTTP.
pub(crate) struct HttpModel {
    inner: Arc<Inner>,
}

struct Inner {
    dialect: Box<dyn Dialect>,
    target: Target,
    config: ModelConfig,
    facts: ModelFacts,
    /// Changes that hold until the daemon ends: what a model does by chance is not kept.
    for_now: Mutex<RequestForm>,
}

impl HttpModel {
    pub(crate) fn new(
        dialect: Box<dyn Dialect>,
        target: Target,
        config: ModelConfig,
        records: &Arc<ModelRecords>,
    ) -> Self {
        let record = records.of(RecordKey::new(target.shown(), &config));
        let facts = ModelFacts::new(&config, &target, record);
        Self { inner: Arc::new(Inner { dialect, target, config, facts, for_now: Mutex::default() }) }
    }
}

impl Model for HttpModel {
    fn info(&self) -> &ModelInfo {
        self.inner.facts.info()
    }

    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.look_up())
    }

    fn is_known(&self) -> bool {
        self.inner.facts.are_known(&self.inner.config)
    }

    fn listed(&self) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let Inner { target, config, .. } = &*self.inner;
        Box::pin(async move { server::listed(target, config).await.map_err(|failure| failure.error) })
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let call = Box::new(Call::new(self.inner.clone(), request));
        stream::unfold(call, |mut call| async move {
            let chunk = call.next().await?;
            Some((chunk, call))
        })
        .boxed()
    }

    fn note_window(&self, tokens: u64, source: WindowSource) {
        let Inner { facts, target, config, .. } = &*self.inner;
        facts.limit_to(tokens, source, target, config);
    }

    fn forget(&self) {
        let Inner { facts, target, config, .. } = &*self.inner;
        *self.inner.for_now() = RequestForm::default();
        facts.forget(target, config);
    }

    fn learnt(&self) -> Vec<LearntForm> {
        let form = self.inner.form();
        form.changes().map(|change| LearntForm { topic: change.topic(), words: change.to_string() }).collect()
    }

    fn can_forbid_calls(&self) -> bool {
        !self.inner.form().has(&Change::WithoutNamedTools)
    }
}

/// Phase of a call.
enum Phase {
    Opening,
    Waiting(Duration),
    Reading(Box<Reading>),
    /// Failed for good; told once all that came before it has been told.
    Failed(ModelError),
    Ended,
}

struct Call {
    model: Arc<Inner>,
    request: ModelRequest,
    /// The tools of the request as it was asked for.
    tools: Arc<[ToolSpec]>,
    trials: Trials,
    retries: Retries,
    /// For answers that broke off after they had begun.
    cut_retries: Retries,
    phase: Phase,
    /// An answer that its server has paused, and its beginning.
    paused: Option<(Box<Reading>, String)>,
    pauses: u32,
    /// Attempts, the current one among them.
    attempts: u32,
    /// The current attempt on the wire.
    recording: Recording,
    chunks: VecDeque<ModelChunk>,
}

impl Call {
    fn new(model: Arc<Inner>, request: ModelRequest) -> Self {
        let retries = Retries::new(&model.config).hurried(request.has_fallback);
        // Where nothing is to be tried again, this is not.
        let cuts = if model.config.retries == 0 { 0 } else { MOST_CUTS };
        let cut_retries =
            Retries::new(&ModelConfig { retries: cuts, ..model.config.clone() }).hurried(request.has_fallback);
        let tools = Arc::clone(&request.tools);
        let (trials, phase, chunks) = (Trials::default(), Phase::Opening, VecDeque::new());
        let (attempts, recording) = (0, Recording::default());
        let (paused, pauses) = (None, 0);
        Self { model, request, tools, trials, retries, cut_retries, phase, paused, pauses, attempts, recording, chunks }
    }

    async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                match &chunk {
                    ModelChunk::ToolCall { .. } if self.names_only() => {
                        self.model.for_now().extend([Change::WithoutNamedTools]);
                    }
                    ModelChunk::Usage(usage) => self.model.counted(usage.prompt_tokens),
                    _ => {}
                }
                return Some(Ok(chunk));
            }
            let outcome = match &mut self.phase {
                Phase::Opening => {
                    let mut form = self.model.form();
                    form.extend(self.trials.current().iter().cloned());
                    let leaves_out = self.names_only() && form.has(&Change::WithoutNamedTools);
                    self.request.tools = if leaves_out { Arc::default() } else { Arc::clone(&self.tools) };
                    let begun = self.paused.as_ref().map(|(_, begun)| begun.as_str());
                    self.attempts += 1;
                    let attempt = Attempt { number: self.attempts, form: &form, paused: begun };
                    let opened = open(&self.model, &self.request, attempt, &mut self.recording).await;
                    if opened.is_ok() && leaves_out && begun.is_none() {
                        self.chunks.push_back(ModelChunk::WithoutTools);
                    }
                    opened.map(|opened| {
                        let reading = match self.paused.take() {
                            Some((mut reading, _)) => {
                                reading.resume(opened.response, opened.deadline);
                                reading
                            }
                            None => Box::new(opened.reading(&self.model, &self.request, &form)),
                        };
                        Some(Phase::Reading(reading))
                    })
                }
                Phase::Waiting(wait) => {
                    tokio::time::sleep(*wait).await;
                    Ok(Some(Phase::Opening))
                }
                Phase::Reading(reading) => {
                    let progress = reading.advance(&self.model.target, &mut self.chunks, &mut self.recording).await;
                    self.recording.chunks(&self.chunks);
                    match progress {
                        Ok(Progress::More) => Ok(None),
                        Ok(Progress::Paused(begun)) => {
                            self.recording.end(ExchangeOutcome::Paused);
                            self.pause(begun);
                            continue;
                        }
                        Ok(Progress::Ended) => {
                            self.recording.end(ExchangeOutcome::Whole);
                            self.keep_what_was_taken();
                            Ok(Some(Phase::Ended))
                        }
                        Err(failure) => Err(failure),
                    }
                }
                Phase::Failed(_) => match std::mem::replace(&mut self.phase, Phase::Ended) {
                    Phase::Failed(error) => return Some(Err(error)),
                    _ => return None,
                },
                Phase::Ended => return None,
            };
            match outcome {
                Ok(Some(phase)) => self.phase = phase,
                Ok(None) => {}
                Err(failure) => {
                    self.recording.fail(&failure.error);
                    self.phase = self.recover(failure);
                }
            }
        }
    }

    /// Next phase after a failure: another attempt, or the end. Calls run only when an answer is whole, so one that broke
    /// off has done nothing: it counts for nothing and is asked for again.
    fn recover(&mut self, mut failure: Failure) -> Phase {
        let has_begun = match (&self.phase, self.paused.take()) {
            (Phase::Reading(reading), _) => reading.began(),
            (_, paused) => paused.is_some_and(|(reading, _)| reading.began()),
        };
        if has_begun {
            return match self.cut_retries.after(failure) {
                Ok(retry) => {
                    self.retries = Retries::new(&self.model.config).hurried(self.request.has_fallback);
                    self.chunks.push_back(ModelChunk::Discarded);
                    self.wait_for(retry)
                }
                Err(failure) => Phase::Failed(failure.error),
            };
        }
        if let Some(change) = self.adapt(&mut failure) {
            let retry = self.retries.at_once(change);
            return self.wait_for(retry);
        }
        match self.retries.after(failure) {
            Ok(retry) => self.wait_for(retry),
            Err(failure) => Phase::Failed(failure.error),
        }
    }

    /// Lets a paused answer go on.
    fn pause(&mut self, begun: String) {
        self.pauses += 1;
        self.phase = match std::mem::replace(&mut self.phase, Phase::Opening) {
            Phase::Reading(_) if self.pauses > MOST_PAUSES => {
                let message = format!("the model at {} paused its answer without end", self.model.target);
                Phase::Failed(Failure::protocol(message).error)
            }
            Phase::Reading(reading) => {
                self.paused = Some((reading, begun));
                Phase::Opening
            }
            phase => phase,
        };
    }

    /// Picks another form where the server has refused this one, and describes it.
    fn adapt(&mut self, failure: &mut Failure) -> Option<String> {
        let refusal = *failure.refusal.take()?;
        let candidates = candidates(&refusal, &self.sent());
        if candidates.is_empty() && refusal.status >= 500 {
            return None;
        }
        let next = self.trials.after(refusal, &candidates)?;
        let changes: Vec<String> = next.iter().map(ToString::to_string).collect();
        Some(format!("{}; asking again {}", failure.error, changes.join(", and ")))
    }

    /// The parts of the request that it could do without, in the form that is usual for this model.
    fn sent(&self) -> SentParts {
        let Inner { config, dialect, .. } = &*self.model;
        let form = self.model.form();
        let order = self.model.order(&self.request, &form);
        let native = form.native_tools(config) && !self.tools.is_empty();
        let names_only = native && self.names_only();
        let left_out = names_only && form.has(&Change::WithoutNamedTools);
        let is_answer = |message: &Message| matches!(message, Message::Assistant { .. });
        SentParts {
            tools: native && !left_out,
            named_only: names_only && !left_out,
            insists_on_native: config.native_tools == Some(true),
            chosen_limit: config.wire == Wire::Anthropic && config.most_tokens(&self.request).is_none(),
            signed_thoughts: self.request.messages.iter().any(has_blocks),
            history: config.wire == Wire::OpenAi && self.request.messages.iter().any(is_answer),
            words_behind_results: !form.has(&Change::WordsInResults)
                && has_words_behind_results(&self.request.messages),
            echoes: form.echoes(config),
            schema: dialect.sent_schema(&order).map(fingerprint),
            fields: dialect.optional_fields(&order),
        }
    }

    /// Keeps the changes with which the server has taken the request and answered it.
    fn keep_what_was_taken(&mut self) {
        let taken = self.trials.taken();
        if taken.is_empty() {
            return;
        }
        let (lasting, passing): (Vec<_>, Vec<_>) = taken.iter().cloned().partition(Change::is_lasting);
        if passing.contains(&Change::WithoutSignedThoughts) {
            self.model.dialect.distrust_thoughts(&self.model.order(&self.request, &self.model.form()));
        }
        let of_schema = |change: &Change| matches!(change, Change::WithoutSchema(_));
        self.model.for_now().extend(passing.into_iter().filter(of_schema));
        self.model.for_now().limit_schemas();
        self.model.keep(&lasting);
        if taken.contains(&Change::TextTools) {
            // In front of the end, behind which nothing comes.
            self.chunks.push_front(tools_in_text(&self.model.facts.info().id));
        }
    }

    /// Returns whether tools are named that must not be called.
    fn names_only(&self) -> bool {
        !self.request.may_call && !self.tools.is_empty()
    }

    fn wait_for(&mut self, retry: Retry) -> Phase {
        tracing::debug!(announcement = ?retry.announcement, "a model call is tried again");
        self.chunks.extend(retry.announcement);
        Phase::Waiting(retry.wait)
    }
}

/// An attempt that is to be made.
struct Attempt<'a> {
    /// Its number, from 1.
    number: u32,
    form: &'a RequestForm,
    /// Beginning of an answer that its server has paused.
    paused: Option<&'a str>,
}

/// One attempt, up to the head of the answer. The deadline of the first byte goes on into reading it. What the server
/// tells of the model is asked meanwhile; only where the request depends on it, it waits.
async fn open(
    model: &Inner,
    request: &ModelRequest,
    attempt: Attempt<'_>,
    recording: &mut Recording,
) -> Result<OpenedAnswer, Failure> {
    let Attempt { number, form, paused } = attempt;
    if model.config.needs_id() || model.facts.lacks_abilities(&model.config) {
        model.look_up().await;
    }
    let deadline = model.target.deadlines.first_byte();
    let Outgoing { path, body, reader } = model.dialect.outgoing(&Order { paused, ..model.order(request, form) })?;
    *recording = Recording::begin(&request.tap, || {
        let (url, headers) = model.target.shown_call(&path);
        let (wire, model) = (model.config.wire.as_str(), model.facts.info().id.as_str());
        AttemptRequest { wire, model, url, headers, attempt: number, body: &body }
    });
    let posted = pin!(model.target.post(&path, body, &deadline, recording));
    let response = match select(posted, pin!(model.look_up())).await {
        Either::Left((response, _)) => response,
        Either::Right(((), posted)) => posted.await,
    }?;
    Ok(OpenedAnswer { response, deadline, reader })
}

/// An answer whose head is there.
struct OpenedAnswer {
    response: Response,
    deadline: Deadline,
    reader: Box<dyn AnswerReader>,
}

impl OpenedAnswer {
    fn reading(self, model: &Inner, request: &ModelRequest, form: &RequestForm) -> Reading {
        let words = Words::new(request.tools.clone(), !form.native_tools(&model.config));
        Reading::new(self.response, self.deadline, self.reader, words, model.prices().copied())
    }
}

/// Returns whether a person speaks right behind a tool's result, but for what the daemon tells between them.
fn has_words_behind_results(messages: &[Message]) -> bool {
    let is_of_daemon = |message: &&Message| matches!(message, Message::User { text } if untrusted::is_of_daemon(text));
    let told: Vec<&Message> = messages.iter().filter(|message| !is_of_daemon(message)).collect();
    told.windows(2).any(|pair| matches!(pair, [Message::Tool { .. }, Message::User { .. }]))
}

/// Returns whether a message has blocks that its server wants back as they came.
fn has_blocks(message: &Message) -> bool {
    matches!(message, Message::Assistant { origin, .. }
        if origin.whole.as_ref().is_some_and(|whole| whole.fields.blocks.is_some()))
}

/// Told once a model is known to be asked with tools in its text.
fn tools_in_text(model: &str) -> ModelChunk {
    let message = format!(
        "the server of {model} takes no tools in their own field, so calls are written into the text from now on, one at a \
         time and less surely: let the server parse tool calls (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice and \
         --tool-call-parser), or use a model that has tools; `agentctl models test` looks again"
    );
    ModelChunk::Notice { code: "tools_in_text", message }
}

impl Inner {
    fn for_now(&self) -> MutexGuard<'_, RequestForm> {
        self.for_now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The form in which its server takes requests, as far as it is known.
    fn form(&self) -> RequestForm {
        let mut form = self.facts.record().form();
        form.extend(self.for_now().changes().cloned());
        form
    }

    /// A request to be written, for the model as it is known now.
    fn order<'a>(&'a self, request: &'a ModelRequest, form: &'a RequestForm) -> Order<'a> {
        let (info, abilities) = (self.facts.info(), self.facts.abilities());
        Order { target: &self.target, info, abilities, request, form, paused: None }
    }

    fn keep(&self, changes: &[Change]) {
        self.facts.record().keep(changes);
        self.facts.renew(&self.target, &self.config);
    }

    fn counted(&self, tokens: u64) {
        self.facts.counted(tokens, &self.target, &self.config);
    }

    async fn look_up(&self) {
        self.facts.look_up(&self.target, &self.config).await;
    }

    /// Its prices, as they are configured or published.
    fn prices(&self) -> Option<&Prices> {
        let published = || catalogue::published(self.target.host(), &self.facts.info().id)?.prices.as_ref();
        self.config.prices.as_ref().or_else(published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{http::Clients, openai::OpenAi};

    #[test]
    fn money_is_known_where_prices_are_published_or_configured_and_nowhere_else() {
        let prices = |base_url: &str, id: &str, configured: Option<Prices>| {
            let mut config = ModelConfig::new(Wire::OpenAi, base_url.to_owned());
            (config.id, config.prices) = (id.to_owned(), configured);
            let target = Target::new(&config, &mut Clients::default()).unwrap();
            let dialect = Box::new(OpenAi::new(config.clone()));
            HttpModel::new(dialect, target, config, &Arc::default()).inner.prices().copied()
        };
        let published = prices("https://api.openai.com/v1", "gpt-4o", None).unwrap();
        assert!(published.input > 0.0 && published.output > published.input);
        assert_eq!(prices("https://api.openai.com/v1", "gpt-of-nobody", None), None);
        assert_eq!(prices("http://127.0.0.1:9/v1", "gpt-4o", None), None);
        let own = Prices { input: 0.0, cached_input: None, cache_write: None, output: 0.0 };
        assert_eq!(prices("https://api.openai.com/v1", "gpt-4o", Some(own)), Some(own));
    }
}
