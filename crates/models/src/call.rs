//! One model call, from the request to its end: sends, retries, reads, and converts the output of the dialect's reader
//! into chunks. The call's whole state is in one value, so dropping it cancels the request.

mod adaptation;
mod reading;

use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::{
    error::ModelError,
    exchange::{ExchangeOutcome, SentRequest},
    model::{LearntForm, ListedModel, ModelChunk, ModelInfo, ModelRequest, WindowSource},
    mutex::lock,
    ports::Model,
    tool::ToolSpec,
    usage::Prices,
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, Either, select},
    stream::{self, BoxStream},
};
use reqwest::Response;

use self::reading::{AnswerStream, Progress, TextFilter};
use crate::{
    config::{ModelConfig, ModelConfigError, Wire},
    facts::{
        ModelFacts,
        records::{ModelRecords, RecordKey},
        server,
    },
    http::{
        failure::Failure,
        refusals::{Change, RequestForm, Trials},
        request::Recording,
        retry::{Retries, Retry},
        target::{Clients, Deadline, Target},
    },
    wire::{
        anthropic::Anthropic,
        dialect::{AnswerReader, Dialect, EncodedRequest, RequestPlan},
        llamacpp::LlamaCpp,
        openai::OpenAi,
        responses::Responses,
    },
};

/// Maximum number of retries of answers that broke off after they had started.
const MAX_CUT_RETRIES: u32 = 5;

/// Maximum number of pauses in one answer.
const MAX_PAUSES: u32 = 16;

/// Model on an HTTP server.
pub(crate) struct HttpModel(Arc<Inner>);

struct Inner {
    dialect: Box<dyn Dialect>,
    facts: ModelFacts,
    /// Changes known to be unnecessary: since the daemon started, the server has accepted the parts that they would
    /// change.
    unneeded: Mutex<BTreeSet<Change>>,
}

impl HttpModel {
    /// Creates a model. Uses no network.
    pub(crate) fn open(
        config: &ModelConfig,
        clients: &mut Clients,
        records: &Arc<ModelRecords>,
    ) -> Result<Arc<dyn Model>, ModelConfigError> {
        let target = Target::new(config, clients)?;
        let dialect: Box<dyn Dialect> = match config.wire {
            Wire::OpenAi => Box::new(OpenAi::default()),
            Wire::LlamaCpp => Box::new(LlamaCpp),
            Wire::Anthropic => Box::new(Anthropic::default()),
            Wire::Responses => Box::new(Responses::default()),
        };
        let record = records.of(RecordKey::new(target.display_url(), config));
        let facts = ModelFacts::new(config.clone(), target, record);
        Ok(Arc::new(Self(Arc::new(Inner { dialect, facts, unneeded: Mutex::default() }))))
    }
}

impl Model for HttpModel {
    fn info(&self) -> &ModelInfo {
        self.0.facts.info()
    }

    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.facts.look_up())
    }

    fn look_up_vision(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.facts.look_up_vision())
    }

    fn is_known(&self) -> bool {
        self.0.facts.are_known()
    }

    fn listed(&self) -> BoxFuture<'_, Result<Vec<ListedModel>, ModelError>> {
        let ModelFacts { target, config, .. } = &self.0.facts;
        Box::pin(async move { server::listed(target, config).await.map_err(|failure| failure.error) })
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        let call = Box::new(Call::new(self.0.clone(), request));
        stream::unfold(call, |mut call| async move {
            let chunk = call.next().await?;
            Some((chunk, call))
        })
        .boxed()
    }

    fn prices(&self) -> Option<Prices> {
        self.0.facts.prices()
    }

    fn note_window(&self, tokens: u64, source: WindowSource) {
        self.0.facts.limit_to(tokens, source);
    }

    fn forget(&self) {
        lock(&self.0.unneeded).clear();
        self.0.facts.forget();
    }

    fn learnt(&self) -> Vec<LearntForm> {
        let form = |change: &Change| LearntForm { topic: change.topic(), words: change.to_string() };
        self.0.facts.record.current().changes.iter().map(|learnt| form(&learnt.change)).collect()
    }

    fn can_forbid_calls(&self) -> bool {
        !self.0.facts.form().has(&Change::WithoutNamedTools)
    }
}

enum Phase {
    Opening,
    Waiting(Duration),
    Reading(Box<AnswerStream>),
    /// The call has ended, with its error if it failed. The error is returned after all pending chunks.
    Ended(Option<ModelError>),
}

struct Call {
    model: Arc<Inner>,
    request: ModelRequest,
    /// All tools of the request, including those that are not sent.
    tools: Arc<[ToolSpec]>,
    trials: Trials,
    /// True once the server has failed in a way that may not affect the next attempt.
    has_failed: bool,
    retries: Retries,
    /// Retries of answers that broke off after they had started.
    cut_retries: Retries,
    phase: Phase,
    /// Answer that the server has paused, with its content so far.
    paused: Option<(Box<AnswerStream>, String)>,
    pauses: u32,
    /// Number of attempts, including the current one.
    attempts: u32,
    recording: Recording,
    chunks: VecDeque<ModelChunk>,
}

impl Call {
    fn new(model: Arc<Inner>, request: ModelRequest) -> Self {
        let config = &model.facts.config;
        // If retries are disabled, answers that break off are not retried either.
        let cuts = if config.retries == 0 { 0 } else { MAX_CUT_RETRIES };
        Self {
            retries: Retries::new(config, config.retries, request.has_fallback),
            cut_retries: Retries::new(config, cuts, request.has_fallback),
            tools: Arc::clone(&request.tools),
            model,
            request,
            trials: Trials::default(),
            has_failed: false,
            phase: Phase::Opening,
            paused: None,
            pauses: 0,
            attempts: 0,
            recording: Recording::default(),
            chunks: VecDeque::new(),
        }
    }

    async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                match &chunk {
                    ModelChunk::ToolCall { .. } if self.names_only() => {
                        self.model.facts.count(&[Change::WithoutNamedTools]);
                    }
                    ModelChunk::Usage(usage) => self.model.facts.counted(usage.prompt_tokens),
                    _ => {}
                }
                return Some(Ok(chunk));
            }
            let outcome = match &mut self.phase {
                Phase::Opening => {
                    let mut form = self.model.facts.form();
                    form.0.extend(self.trials.current().iter().cloned());
                    let omits_tools = self.names_only() && form.has(&Change::WithoutNamedTools);
                    self.request.tools = if omits_tools { Arc::default() } else { sent_tools(&self.tools, &form) };
                    let paused_content = self.paused.as_ref().map(|(_, paused_content)| paused_content.as_str());
                    self.attempts += 1;
                    let (request, recording) = (form.omit_refused_pictures(&self.request), &mut self.recording);
                    let opened = self.model.open(&request, &form, paused_content, self.attempts, recording).await;
                    if opened.is_ok() && omits_tools && paused_content.is_none() {
                        self.chunks.push_back(ModelChunk::WithoutTools);
                    }
                    opened.map(|(response, deadline, reader)| {
                        let reading = match self.paused.take() {
                            Some((mut reading, _)) => {
                                reading.resume(response, deadline);
                                reading
                            }
                            None => {
                                let facts = &self.model.facts;
                                let text_filter =
                                    TextFilter::new(self.request.tools.clone(), !form.native_tools(&facts.config));
                                Box::new(AnswerStream::new(response, deadline, reader, text_filter, facts.prices()))
                            }
                        };
                        Some(Phase::Reading(reading))
                    })
                }
                Phase::Waiting(wait) => {
                    tokio::time::sleep(*wait).await;
                    Ok(Some(Phase::Opening))
                }
                Phase::Reading(reading) => {
                    let progress =
                        reading.advance(&self.model.facts.target, &mut self.chunks, &mut self.recording).await;
                    self.recording.chunks(&self.chunks);
                    match progress {
                        Ok(Progress::More) => Ok(None),
                        Ok(Progress::Paused(paused_content)) => {
                            self.recording.end(ExchangeOutcome::Paused, None);
                            self.pause(paused_content);
                            continue;
                        }
                        Ok(Progress::Ended) => {
                            self.recording.end(ExchangeOutcome::Whole, None);
                            self.record_accepted_changes();
                            Ok(Some(Phase::Ended(None)))
                        }
                        Err(failure) => Err(failure),
                    }
                }
                Phase::Ended(error) => return error.take().map(Err),
            };
            match outcome {
                Ok(Some(phase)) => self.phase = phase,
                Ok(None) => {}
                Err(failure) => {
                    self.recording.end(ExchangeOutcome::Failed, Some(&failure.error));
                    self.phase = self.recover(failure);
                }
            }
        }
    }

    /// Selects the next phase after a failure: another attempt, or the end. Calls only run once an answer is complete,
    /// so an answer that broke off had no effect. It is discarded and requested again.
    fn recover(&mut self, mut failure: Failure) -> Phase {
        self.model.facts.note_failure();
        let has_begun = match (&self.phase, self.paused.take()) {
            (Phase::Reading(reading), _) => reading.began(),
            (_, paused) => paused.is_some_and(|(reading, _)| reading.began()),
        };
        let retry = if has_begun {
            let retry = self.cut_retries.after(failure);
            if retry.is_ok() {
                let config = &self.model.facts.config;
                self.retries = Retries::new(config, config.retries, self.request.has_fallback);
                self.chunks.push_back(ModelChunk::Discarded);
            }
            retry
        } else {
            match self.adapt(&mut failure) {
                Some(change) => Ok(self.retries.at_once(change)),
                None => self.retries.after(failure),
            }
        };
        match retry {
            Ok(Retry { wait, announcement }) => {
                tracing::debug!(?announcement, "retrying a model call");
                self.chunks.extend(announcement);
                Phase::Waiting(wait)
            }
            Err(failure) => Phase::Ended(Some(failure.error)),
        }
    }

    /// Continues a paused answer with another request.
    fn pause(&mut self, paused_content: String) {
        self.pauses += 1;
        let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Opening) else { return };
        if self.pauses > MAX_PAUSES {
            let message = format!("the model at {} paused its answer too many times", self.model.facts.target);
            self.phase = Phase::Ended(Some(Failure::protocol(message).error));
        } else {
            self.paused = Some((reading, paused_content));
        }
    }

    /// Returns true if the request names tools that must not be called.
    fn names_only(&self) -> bool {
        !self.request.may_call && !self.tools.is_empty()
    }
}

/// Returns the tools without those that the server refuses.
fn sent_tools(tools: &Arc<[ToolSpec]>, form: &RequestForm) -> Arc<[ToolSpec]> {
    if tools.iter().all(|tool| form.sends_tool(&tool.name)) {
        return Arc::clone(tools);
    }
    tools.iter().filter(|tool| form.sends_tool(&tool.name)).cloned().collect()
}

impl Inner {
    /// Makes one attempt, up to the head of the answer. The returned first-byte deadline also applies to reading.
    /// Facts about the model are queried concurrently, or beforehand if the request depends on them. `paused` is the
    /// content of a paused answer.
    async fn open(
        &self,
        request: &ModelRequest,
        form: &RequestForm,
        paused: Option<&str>,
        attempt: u32,
        recording: &mut Recording,
    ) -> Result<(Response, Deadline, Box<dyn AnswerReader>), Failure> {
        let ModelFacts { config, target, .. } = &self.facts;
        target.read_key().await?;
        let needs_facts = config.needs_id() || self.facts.lacks_abilities() || self.facts.must_set_window();
        if needs_facts {
            self.facts.look_up().await;
        }
        let deadline = target.deadlines.first_byte();
        let request_plan = RequestPlan { paused, ..self.request_plan(request, form) };
        let EncodedRequest { path, body, reader } = self.dialect.encode(&request_plan)?;
        let (wire, model) = (config.wire.as_str(), request_plan.info.id.as_str());
        let sent = SentRequest { wire, model, url: "", headers: &[], attempt, body: &body };
        *recording = Recording::begin(&request.tap, target, &path, &sent);
        let posted = pin!(target.post(&path, body, deadline, recording));
        let lookup = pin!(async {
            if !needs_facts {
                self.facts.look_up().await
            }
        });
        let (response, deadline) = match select(posted, lookup).await {
            Either::Left((response, _)) => response,
            Either::Right(((), posted)) => posted.await,
        }?;
        Ok((response, deadline, reader))
    }

    /// Returns the plan of the request for the dialect, with the current facts about the model.
    fn request_plan<'a>(&'a self, request: &'a ModelRequest, form: &'a RequestForm) -> RequestPlan<'a> {
        let ModelFacts { config, target, .. } = &self.facts;
        let (info, abilities) = (self.facts.info(), self.facts.abilities());
        RequestPlan { config, target, info, abilities, request, form, paused: None }
    }
}
