//! What a server may ask of us and tell us. All of it is bounded, and nothing of it is believed.

#![expect(deprecated, reason = "servers of today still ask for roots, for messages of models, and write logs")]

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorData, Implementation, InputRequest, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root, SamplingCapability,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Value;
use tokio::sync::Notify;

use crate::calls::{Call, Calls};
use crate::{config::Sampling, elicitation, log::Log, sampling};

/// Our end of a connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(super) server: String,
    pub(super) calls: Arc<Calls>,
    pub(super) log: Arc<Log>,
    /// Permission to ask a model.
    pub(super) sampling: Sampling,
    /// Told when what the server offers has changed.
    pub(super) changed: Arc<Notify>,
}

impl Handler {
    /// Answers a question of the newer era, which is the answer to a call.
    pub(super) async fn answer(&self, call: &Arc<Call>, asked: InputRequest) -> Result<Value, ErrorData> {
        let call = Some((Arc::clone(call), false));
        let answer = match asked {
            InputRequest::Elicitation(asked) => {
                serde_json::to_value(elicitation::ask(&self.server, call, &self.log, asked.params).await)
            }
            InputRequest::CreateMessage(asked) => serde_json::to_value(self.sample(call, asked.params).await?),
            InputRequest::ListRoots(_) => serde_json::to_value(self.roots()),
            _ => return Err(ErrorData::invalid_request("agentd does not know what is asked", None)),
        };
        answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn sample(
        &self,
        call: Option<(Arc<Call>, bool)>,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.sampling == Sampling::Never {
            self.log.note(
                "it wanted to ask a model, which it is not allowed; `sampling: ask` in mcp_servers.yaml allows it",
            );
            return Err(ErrorData::invalid_request(
                "agentd does not let this server ask its models; answer without",
                None,
            ));
        }
        sampling::ask(&self.server, call, &self.log, request).await
    }

    fn roots(&self) -> ListRootsResult {
        let roots = self.calls.roots();
        ListRootsResult::new(roots.iter().map(|path| Root::new(format!("file://{}", path.display()))).collect())
    }
}

/// Capabilities that a server may use. Both ways of asking people are named: a capability that names none stands for
/// forms alone. A model is named only to servers that may ask one, and without tools and contexts of others, which they
/// are not given.
fn capabilities(sampling: Sampling) -> ClientCapabilities {
    let both = ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
    let mut capabilities = ClientCapabilities::builder().enable_elicitation_with(both).enable_roots().build();
    capabilities.sampling = (sampling == Sampling::Ask).then(SamplingCapability::default);
    capabilities
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // The version of `initialize`. Where there is none, each request has its own.
        ClientConfig::new(capabilities(self.sampling), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        // Whoever takes the request back need not wait for the answer.
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::invalid_request("the request was taken back", None)),
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
        // Whoever takes the question back need not wait for the answer.
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Ok(elicitation::cancelled()),
            answer = elicitation::ask(&self.server, self.calls.latest(), &self.log, request) => Ok(answer),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.calls.progressed(&progress);
    }

    async fn on_logging_message(&self, said: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let words = match &said.data {
            Value::String(words) => words.clone(),
            other => other.to_string(),
        };
        self.log.said(&format!("{:?}: {words}", said.level).to_lowercase());
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
