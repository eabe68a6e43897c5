//! Requests and notifications from a server. All of them are limited, and none is trusted.
//!
//! The number of open requests is limited. The library creates a task for each request and each answer, so a server
//! that keeps sending requests without reading the answers would exhaust the memory. At the limit, reading from the
//! server is paused, and the connection is closed if that does not help.

#![expect(deprecated, reason = "current servers still use roots, sampling and logging")]

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorData, Implementation, InputRequest, JsonRpcMessage, ListRootsResult,
        LoggingMessageNotificationParam, NumberOrString, ProgressNotificationParam, ProtocolVersion, Root,
        SamplingCapability, ServerNotification,
    },
    service::{NotificationContext, RequestContext, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    calls::{Call, Calls, until},
    config::Sampling,
    elicitation,
    log::Log,
    sampling,
};

/// Client side of a connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(super) server: String,
    pub(super) calls: Arc<Calls>,
    pub(super) log: Arc<Log>,
    /// Permission to ask a model.
    pub(super) sampling: Sampling,
    /// Notified when the server's tools have changed.
    pub(super) changed: Arc<Notify>,
}

impl Handler {
    /// Answers a question that was returned as the result of a call, as in the newer era.
    pub(super) async fn answer(&self, call: &Arc<Call>, request: InputRequest) -> Result<Value, ErrorData> {
        let call = Some((Arc::clone(call), false));
        let answer = match request {
            InputRequest::Elicitation(request) => {
                serde_json::to_value(elicitation::ask(&self.server, call, &self.log, request.params).await)
            }
            InputRequest::CreateMessage(request) => serde_json::to_value(self.sample(call, request.params).await?),
            InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
            _ => return Err(ErrorData::invalid_request("unknown request", None)),
        };
        answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn sample(
        &self,
        call: Option<(Arc<Call>, bool)>,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.sampling == Sampling::Never {
            self.log.note("it requested sampling, which is off; `sampling: ask` in mcp_servers.yaml allows it");
            return Err(ErrorData::invalid_request("sampling is not allowed for this server; answer without it", None));
        }
        sampling::ask(&self.server, call, &self.log, request).await
    }

    fn roots(&self) -> ListRootsResult {
        let roots = self.calls.roots();
        ListRootsResult::new(roots.iter().map(|path| Root::new(format!("file://{}", path.display()))).collect())
    }
}

/// Returns the capabilities offered to servers. Both elicitation modes are listed, because an empty capability means
/// forms only. Sampling is offered only to servers that may use it, without tools and without other servers' contexts.
fn capabilities(sampling: Sampling) -> ClientCapabilities {
    let both = ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
    let mut capabilities = ClientCapabilities::builder().enable_elicitation_with(both).enable_roots().build();
    capabilities.sampling = (sampling == Sampling::Ask).then(SamplingCapability::default);
    capabilities
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // Version for `initialize`. In the newer era, each request has its own.
        ClientConfig::new(capabilities(self.sampling), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        // A withdrawn request needs no answer.
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::invalid_request("the request was cancelled", None)),
            answer = self.sample(self.calls.latest(), request) => answer,
        }
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(self.roots())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // A withdrawn question needs no answer.
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(elicitation::cancelled()),
            answer = elicitation::ask(&self.server, self.calls.latest(), &self.log, request) => Ok(answer),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.calls.report_progress(&progress);
    }

    async fn on_logging_message(&self, message: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let text = match &message.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.log.add(&format!("{:?}: {text}", message.level).to_lowercase());
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Maximum number of a server's requests that are unanswered, or whose answers it has not read.
const MAX_OPEN: usize = 64;
/// Maximum length of a request id, in bytes, because the answer repeats it.
const MAX_ID_LENGTH: usize = 256;
/// Maximum time that a server at the limit may go without reading an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Time during which a withdrawn request still counts towards the limit.
const WITHDRAWN_GRACE: Duration = Duration::from_secs(1);

/// Transport with a limit on open requests.
pub(super) struct BoundedTransport<T> {
    inner: T,
    open: Arc<OpenRequests>,
    /// Time since which the limit is reached.
    full_since: Option<Instant>,
    log: Arc<Log>,
}

/// Requests of the server that are unanswered, or whose answers it has not read.
#[derive(Default)]
struct OpenRequests {
    ids: Mutex<HashMap<NumberOrString, Stage>>,
    /// Notified when an answer was sent.
    answered: Notify,
}

/// Stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Being processed, without an answer yet.
    Asked,
    /// Answered, but not read by the server yet.
    Answered,
    /// Withdrawn by the server. The request counts until this time, because its processing may not have ended yet.
    Withdrawn(Instant),
}

impl<T> BoundedTransport<T> {
    /// Wraps a transport and limits its open requests.
    pub(super) fn new(inner: T, log: Arc<Log>) -> Self {
        Self { inner, open: Arc::default(), full_since: None, log }
    }
}

impl OpenRequests {
    fn is_full(&self) -> bool {
        self.with(|ids| ids.len() >= MAX_OPEN)
    }

    /// Returns true for a request that can be answered: a new one, whose id is not too long.
    fn accept(&self, id: &NumberOrString) -> bool {
        let is_short = !matches!(id, NumberOrString::String(id) if id.len() > MAX_ID_LENGTH);
        is_short
            && self.with(|ids| match ids.entry(id.clone()) {
                Entry::Vacant(free) => {
                    free.insert(Stage::Asked);
                    true
                }
                Entry::Occupied(_) => false,
            })
    }

    /// Records that an answer is being sent.
    fn mark_answered(&self, id: &NumberOrString) {
        self.with(|ids| {
            if let Some(stage) = ids.get_mut(id) {
                *stage = Stage::Answered;
            }
        });
    }

    /// Withdraws a request. It is not answered unless the answer is already being sent.
    fn withdraw(&self, id: &NumberOrString) {
        self.with(|ids| {
            if let Some(stage @ Stage::Asked) = ids.get_mut(id) {
                *stage = Stage::Withdrawn(Instant::now() + WITHDRAWN_GRACE);
            }
        });
    }

    /// Drops withdrawn requests that no longer count. Returns the time at which the next one stops counting.
    fn next_free(&self) -> Option<Instant> {
        let now = Instant::now();
        self.with(|ids| {
            ids.retain(|_, stage| !matches!(stage, Stage::Withdrawn(until) if *until <= now));
            let until = |stage: &Stage| if let Stage::Withdrawn(until) = stage { Some(*until) } else { None };
            ids.values().filter_map(until).min()
        })
    }

    fn close(&self, id: &NumberOrString) {
        self.with(|ids| ids.remove(id));
        self.answered.notify_one();
    }

    fn with<R>(&self, access: impl FnOnce(&mut HashMap<NumberOrString, Stage>) -> R) -> R {
        access(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(answer) => Some(answer.id.clone()),
            JsonRpcMessage::Error(refusal) => refusal.id.clone(),
            _ => None,
        };
        if let Some(id) = &id {
            self.open.mark_answered(id);
        }
        let (sending, open) = (self.inner.send(item), Arc::clone(&self.open));
        async move {
            let sent = sending.await;
            if let Some(id) = id {
                open.close(&id);
            }
            sent
        }
    }

    /// Receives the next message. Cancel safe.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if self.open.is_full() {
                let next_free = self.open.next_free();
                if !self.open.is_full() {
                    continue;
                }
                let since = *self.full_since.get_or_insert_with(Instant::now);
                tokio::select! {
                    () = self.open.answered.notified() => self.full_since = None,
                    () = until(next_free) => {}
                    () = sleep_until(since + READ_TIMEOUT) => {
                        self.log.note("it sends requests and reads no answers; closing the connection");
                        return None;
                    }
                }
                continue;
            }
            self.full_since = None;
            let message = self.inner.receive().await?;
            match &message {
                JsonRpcMessage::Request(request) if !self.open.accept(&request.id) => continue,
                JsonRpcMessage::Notification(notification) => {
                    if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                        && let Some(id) = &cancelled.params.request_id
                    {
                        self.open.withdraw(id);
                    }
                }
                _ => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn request_ids_are_bounded_and_unique() {
        let open = OpenRequests::default();
        let id = |text: &str| NumberOrString::String(text.into());
        assert!(open.accept(&id("a")) && !open.accept(&id("a")));
        assert!(!open.accept(&id(&"x".repeat(MAX_ID_LENGTH + 1))));
        open.close(&id("a"));
        assert!(open.accept(&id("a")));
        open.withdraw(&id("a"));
        assert!(!open.accept(&id("a")), "a withdrawn request stopped counting immediately");
        sleep_until(open.next_free().unwrap()).await;
        assert_eq!(open.next_free(), None);
        assert!(open.accept(&id("a")));
        open.mark_answered(&id("a"));
        open.withdraw(&id("a"));
        assert!(!open.accept(&id("a")), "the id of an unread answer was reused");
    }
}
