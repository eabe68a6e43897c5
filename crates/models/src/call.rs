//! One call, from the request to its end: it opens, tries again while nothing has come, reads, and turns what the
//! dialect's reader found into chunks. Dropping it closes the request, for everything lives in this one value.

mod reading;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use agentd_core::{
    error::ModelError,
    model::{ModelChunk, ModelInfo, ModelRequest},
    ports::Model,
    tool::ToolSpec,
    usage::Prices,
};
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use self::reading::{Progress, Reading};
use crate::{
    answer::{Answer, RawCall},
    config::ModelConfig,
    deadline::Deadline,
    failure::Failure,
    http::Target,
    retry::{Retries, Retry},
    text_protocol,
};

/// A dialect: writes requests and makes readers of answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The path below the base address and the body. May ask the server for what it must know first.
    fn outgoing<'a>(
        &'a self,
        target: &'a Target,
        request: &'a ModelRequest,
        deadline: &'a Deadline,
    ) -> BoxFuture<'a, Result<Outgoing, Failure>>;

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
    pub(crate) path: &'static str,
    pub(crate) body: String,
}

/// Reads one answer.
pub(crate) trait AnswerReader: Send {
    /// One event, or a whole answer in one object.
    fn event(&mut self, target: &Target, data: &str, answer: &mut Answer) -> Result<(), Failure>;

    /// The calls of an answer that has ended.
    fn calls(&mut self) -> Vec<RawCall>;
}

/// A model behind HTTP.
pub(crate) struct HttpModel {
    info: ModelInfo,
    inner: Arc<Inner>,
}

struct Inner {
    dialect: Box<dyn Dialect>,
    target: Target,
    config: ModelConfig,
    text_tools: bool,
}

impl HttpModel {
    pub(crate) fn new(dialect: Box<dyn Dialect>, target: Target, config: ModelConfig) -> Self {
        let info = ModelInfo {
            id: if config.id.is_empty() { "default".to_owned() } else { config.id.clone() },
            wire: config.wire.as_str().to_owned(),
            base_url: Some(target.shown().to_owned()),
            context_window: config.context_window,
            native_tools: config.uses_native_tools(),
            embedded: false,
            echo_reasoning: config.echo_reasoning,
            sees_pictures: config.sees_pictures && config.wire == crate::config::Wire::OpenAi,
        };
        let text_tools = !info.native_tools;
        Self { info, inner: Arc::new(Inner { dialect, target, config, text_tools }) }
    }
}

impl Model for HttpModel {
    fn info(&self) -> &ModelInfo {
        &self.info
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
    phase: Phase,
    chunks: VecDeque<ModelChunk>,
}

impl Call {
    fn new(model: Arc<Inner>, request: ModelRequest) -> Self {
        let retries = Retries::new(&model.config);
        let named_tools = NamedTools::Sent;
        Self { model, request, named_tools, retries, phase: Phase::Opening, chunks: VecDeque::new() }
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

    /// Next phase after a failure: another attempt while nothing of an answer has come, or the end.
    fn recover(&mut self, mut failure: Failure) -> Phase {
        if matches!(&self.phase, Phase::Reading(reading) if reading.began()) {
            return Phase::Failed(failure.error);
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

/// One attempt, up to the head of the answer. The deadline of the first byte goes on into reading it.
async fn open(model: &Inner, request: &ModelRequest) -> Result<Reading, Failure> {
    let deadline = model.target.deadlines.first_byte();
    let outgoing = model.dialect.outgoing(&model.target, request, &deadline).await?;
    let response = model.target.post(outgoing.path, outgoing.body, &deadline).await?;
    let text_calls =
        (model.text_tools && !request.tools.is_empty()).then(|| text_protocol::Scanner::new(request.tools.clone()));
    Ok(Reading::new(response, deadline, model.dialect.reader(), text_calls, model.prices().copied()))
}

impl Inner {
    fn prices(&self) -> Option<&Prices> {
        self.config.prices.as_ref()
    }
}
