//! One call, from the request to its end: it opens, tries again, reads, and turns what the
//! dialect's reader found into chunks. Dropping it closes the request, for everything lives in this one value.

mod reading;
mod words;

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use agentd_core::{
    error::ModelError,
    model::{ListedModel, ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
    tool::ToolSpec,
    usage::Prices,
};
use futures_util::{
    StreamExt,
    future::{BoxFuture, Either, select},
    stream::{self, BoxStream},
};

use self::{
    reading::{Progress, Reading},
    words::Words,
};
use crate::{
    answer::{Answer, RawCall},
    config::ModelConfig,
    facts::ModelFacts,
    failure::Failure,
    http::Target,
    retry::{Retries, Retry},
    server,
};

/// A dialect: writes requests and makes readers of answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The path below the base address and the body, for the model of that id.
    fn outgoing(&self, target: &Target, id: &str, request: &ModelRequest) -> Result<Outgoing, Failure>;

    /// A reader for one answer.
    fn reader(&self) -> Box<dyn AnswerReader>;

    /// Looks at what a server said when it refused a request, which may have named tools that must not be called
    /// (`named_only`), and says in which other form it may be taken.
    fn adapt(&self, refusal: &str, named_only: bool) -> Option<AdaptedForm>;

    /// Returns whether a request may name tools that must not be called.
    fn can_forbid_calls(&self) -> bool;

    /// Takes note that it may not: one was called, or the request was taken only without them.
    fn name_tools_no_more(&self);
}

/// Another form to ask in, with what is changed, in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AdaptedForm {
    /// The dialect keeps it in mind for all further requests.
    Learnt(String),
    /// Without the tools that must not be called, in this call. Where that is taken, it is to be kept in mind.
    TryWithoutTools(String),
}

/// A request, ready to be posted.
pub(crate) struct Outgoing {
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Reads one answer.
pub(crate) trait AnswerReader: Send {
    /// One event, or a whole answer in one object.
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure>;

    /// The calls of an answer that has ended.
    fn calls(&mut self) -> Vec<RawCall>;
}

/// Number of times that an answer is asked for again which broke off after it had begun.
const MOST_CUTS: u32 = 5;

/// A model behind HTTP.
pub(crate) struct HttpModel {
    inner: Arc<Inner>,
}

struct Inner {
    dialect: Box<dyn Dialect>,
    target: Target,
    config: ModelConfig,
    facts: ModelFacts,
    text_tools: bool,
}

impl HttpModel {
    pub(crate) fn new(dialect: Box<dyn Dialect>, target: Target, config: ModelConfig) -> Self {
        let (facts, text_tools) = (ModelFacts::configured(&config, &target), !config.uses_native_tools());
        Self { inner: Arc::new(Inner { dialect, target, config, facts, text_tools }) }
    }
}

impl Model for HttpModel {
    fn info(&self) -> &ModelInfo {
        self.inner.facts.info()
    }

    fn look_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.inner.look_up())
    }

    fn is_named(&self) -> bool {
        !self.inner.config.needs_id() || self.inner.facts.were_asked_for()
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

    fn can_forbid_calls(&self) -> bool {
        self.inner.dialect.can_forbid_calls()
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

/// Treatment of tools that the request names and that must not be called.
enum NamedTools {
    /// They are sent, if there are any.
    Sent,
    /// They are left out: they are known not to be taken.
    LeftOut,
    /// They are left out to see whether the request is taken then, and put back where it is not.
    Tried(Arc<[ToolSpec]>),
}

struct Call {
    model: Arc<Inner>,
    request: ModelRequest,
    named_tools: NamedTools,
    retries: Retries,
    /// For answers that broke off after they had begun.
    cut_retries: Retries,
    phase: Phase,
    chunks: VecDeque<ModelChunk>,
}

impl Call {
    fn new(model: Arc<Inner>, request: ModelRequest) -> Self {
        let retries = Retries::new(&model.config);
        // Where nothing is to be tried again, this is not.
        let cuts = if model.config.retries == 0 { 0 } else { MOST_CUTS };
        let cut_retries = Retries::new(&ModelConfig { retries: cuts, ..model.config.clone() });
        let (named_tools, phase) = (NamedTools::Sent, Phase::Opening);
        Self { model, request, named_tools, retries, cut_retries, phase, chunks: VecDeque::new() }
    }

    async fn next(&mut self) -> Option<Result<ModelChunk, ModelError>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                if self.names_only() && matches!(chunk, ModelChunk::ToolCall { .. }) {
                    self.model.dialect.name_tools_no_more();
                }
                return Some(Ok(chunk));
            }
            let outcome = match &mut self.phase {
                Phase::Opening => {
                    self.leave_out_what_is_not_taken();
                    let reading = open(&self.model, &self.request).await;
                    if reading.is_ok() && !matches!(self.named_tools, NamedTools::Sent) {
                        self.chunks.push_back(ModelChunk::WithoutTools);
                    }
                    reading.map(|reading| Some(Phase::Reading(Box::new(reading))))
                }
                Phase::Waiting(wait) => {
                    tokio::time::sleep(*wait).await;
                    Ok(Some(Phase::Opening))
                }
                Phase::Reading(reading) => match reading.advance(&self.model.target, &mut self.chunks).await {
                    Ok(Progress::More) => Ok(None),
                    Ok(Progress::Ended) => {
                        if matches!(self.named_tools, NamedTools::Tried(_)) {
                            self.model.dialect.name_tools_no_more();
                        }
                        Ok(Some(Phase::Ended))
                    }
                    Err(failure) => Err(failure),
                },
                Phase::Failed(_) => match std::mem::replace(&mut self.phase, Phase::Ended) {
                    Phase::Failed(error) => return Some(Err(error)),
                    _ => return None,
                },
                Phase::Ended => return None,
            };
            match outcome {
                Ok(Some(phase)) => self.phase = phase,
                Ok(None) => {}
                Err(failure) => self.phase = self.recover(failure),
            }
        }
    }

    /// Next phase after a failure: another attempt, or the end. Calls run only when an answer is whole, so one that broke
    /// off has done nothing: it counts for nothing and is asked for again.
    fn recover(&mut self, mut failure: Failure) -> Phase {
        if matches!(&self.phase, Phase::Reading(reading) if reading.began()) {
            return match self.cut_retries.after(failure) {
                Ok(retry) => {
                    self.retries = Retries::new(&self.model.config);
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

    /// Adapts later requests where the server has refused this one for its form, and describes the change.
    fn adapt(&mut self, failure: &mut Failure) -> Option<String> {
        let refusal = failure.refusal.take()?;
        let adapted = self.model.dialect.adapt(&refusal, self.names_only());
        if let NamedTools::Tried(tools) = &mut self.named_tools {
            // It was not the tools, or not they alone.
            self.request.tools = std::mem::take(tools);
            self.named_tools = NamedTools::Sent;
        }
        match adapted? {
            AdaptedForm::Learnt(change) => Some(change),
            AdaptedForm::TryWithoutTools(change) => {
                self.named_tools = NamedTools::Tried(std::mem::take(&mut self.request.tools));
                Some(change)
            }
        }
    }

    fn leave_out_what_is_not_taken(&mut self) {
        if self.names_only() && !self.model.dialect.can_forbid_calls() {
            self.request.tools = Arc::default();
            self.named_tools = NamedTools::LeftOut;
        }
    }

    /// Returns whether tools are named that must not be called.
    fn names_only(&self) -> bool {
        !self.request.may_call && !self.request.tools.is_empty()
    }

    fn wait_for(&mut self, retry: Retry) -> Phase {
        tracing::debug!(announcement = ?retry.announcement, "a model call is tried again");
        self.chunks.push_back(retry.announcement);
        Phase::Waiting(retry.wait)
    }
}

/// One attempt, up to the head of the answer. The deadline of the first byte goes on into reading it. What the server
/// tells of the model is asked meanwhile; only where the request must name a model that nobody configured, it waits.
async fn open(model: &Inner, request: &ModelRequest) -> Result<Reading, Failure> {
    if model.config.needs_id() {
        model.look_up().await;
    }
    let deadline = model.target.deadlines.first_byte();
    let Outgoing { path, body } = model.dialect.outgoing(&model.target, &model.facts.info().id, request)?;
    let posted = pin!(model.target.post(&path, body, &deadline));
    let response = match select(posted, pin!(model.look_up())).await {
        Either::Left((response, _)) => response,
        Either::Right(((), posted)) => posted.await,
    }?;
    let words = Words::new(request.tools.clone(), model.text_tools);
    Ok(Reading::new(response, deadline, model.dialect.reader(), words, model.prices().copied()))
}

impl Inner {
    async fn look_up(&self) {
        self.facts.look_up(&self.target, &self.config).await;
    }

    fn prices(&self) -> Option<&Prices> {
        self.config.prices.as_ref()
    }
}
