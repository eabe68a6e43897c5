//! What a server may ask of us and tell us. All of it is bounded, and nothing of it is believed.

#![expect(deprecated, reason = "servers of today still ask for roots, for messages of models, and write logs")]

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationCapability, ErrorData, Implementation, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion, Root,
    },
    service::{NotificationContext, RequestContext},
};
use tokio::sync::Notify;

use super::calls::Calls;
use crate::{elicitation, log::Log};

/// Our end of a connection.
pub(crate) struct Handler {
    pub(super) server: String,
    pub(super) calls: Arc<Calls>,
    pub(super) log: Arc<Log>,
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
            changed: Arc::clone(&self.changed),
        }
    }
}

/// What a server may ask of us. Both ways of asking people are named: a capability that names none stands for forms alone.
fn capabilities() -> ClientCapabilities {
    let both = ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
    ClientCapabilities::builder().enable_elicitation_with(both).enable_roots().build()
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // Servers of today are greeted; those of the newer way, which are not, understand that, too.
        ClientConfig::new(capabilities(), Implementation::new("agentd", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.log.note("it wanted to ask a model, which is not allowed to servers");
        Err(ErrorData::invalid_request("agentd lets no server ask its models; answer without", None))
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
    fn servers_are_told_that_they_may_ask_people_by_form_and_by_address() {
        let told = serde_json::to_value(capabilities()).unwrap();
        assert_eq!(told["elicitation"], json!({"form": {}, "url": {}}));
        assert_eq!(told["sampling"], json!(null));
    }
}
