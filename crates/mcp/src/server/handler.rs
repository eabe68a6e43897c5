//! What a server may ask of us and tell us. All of it is bounded, and nothing of it is believed.

#![expect(deprecated, reason = "servers of today still ask for roots, for messages of models, and write logs")]

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorData, Implementation, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root, SamplingCapability,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use super::calls::Calls;
use crate::{config::Sampling, elicitation, log::Log, sampling};

/// Our end of a connection.
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
    /// The same end for another try at the same connection.
    pub(super) fn again(&self) -> Self {
        Self {
            server: self.server.clone(),
            calls: Arc::clone(&self.calls),
            log: Arc::clone(&self.log),
            sampling: self.sampling,
            changed: Arc::clone(&self.changed),
        }
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
        // Servers of today are greeted; those of the newer way, which are not, understand that, too.
        ClientConfig::new(capabilities(self.sampling), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
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
        // Whoever takes the request back need not wait for the answer.
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::invalid_request("the request was taken back", None)),
            answer = sampling::ask(&self.server, &self.calls, &self.log, request) => answer,
        }
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let roots = self.calls.roots();
        Ok(ListRootsResult::new(roots.iter().map(|path| Root::new(format!("file://{}", path.display()))).collect()))
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
            answer = elicitation::ask(&self.server, &self.calls, &self.log, request) => Ok(answer),
        }
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.calls.progressed(&progress);
    }

    async fn on_logging_message(&self, said: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        let words = match &said.data {
            serde_json::Value::String(words) => words.clone(),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_told_whom_they_may_ask_and_how() {
        let told = |sampling| serde_json::to_value(capabilities(sampling)).unwrap();
        assert_eq!(told(Sampling::Never)["elicitation"], json!({"form": {}, "url": {}}));
        assert_eq!(told(Sampling::Never)["sampling"], json!(null));
        assert_eq!(told(Sampling::Ask)["sampling"], json!({}), "without tools and contexts");
    }
}
