//! Calls about the daemon itself.

use std::time::Duration;

use agentd_core::{
    agent::AgentCard,
    catalogue::ToolStanding,
    model::{ListedModel, ModelCheck, ModelTestPlan, Slot, SlotInfo},
};

use super::{Client, ClientError, ConfigView, DaemonStatus, Finding, ReloadOutcome};
use crate::{
    MAX_MESSAGE_BYTES, convert,
    v1::{self, daemon_client::DaemonClient, test_model_response::Part},
};

impl Client {
    pub(super) fn daemon(&self) -> DaemonClient<tonic::transport::Channel> {
        DaemonClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Status of the daemon.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn status(&self) -> Result<DaemonStatus, ClientError> {
        Ok(self.daemon().status(v1::StatusRequest {}).await?.into_inner().try_into()?)
    }

    /// Examines everything that is stored, at about a second for each 100 MB, and returns the problems.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    pub async fn examine(&self) -> Result<Vec<Finding>, ClientError> {
        let answer = self.daemon().examine(v1::ExamineRequest {}).await?.into_inner();
        Ok(answer.findings.into_iter().map(Into::into).collect())
    }

    /// The five slots and the models that serve them.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn models(&self) -> Result<Vec<SlotInfo>, ClientError> {
        self.slots(v1::ModelsRequest::default()).await
    }

    /// The same, after the servers were asked for what nobody configured of their models; two seconds at the most.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn models_looked_up(&self) -> Result<Vec<SlotInfo>, ClientError> {
        self.slots(v1::ModelsRequest { look_up: true }).await
    }

    /// The models that the server of a slot lists.
    ///
    /// # Errors
    /// When the slot has no server, the server cannot be asked or lists none, or the connection fails.
    pub async fn listed_models(&self, slot: Slot) -> Result<Vec<ListedModel>, ClientError> {
        let listed = self.daemon().list_models(convert::list_models_to_wire(slot)).await?.into_inner();
        Ok(listed.models.into_iter().map(Into::into).collect())
    }

    /// Tests the model of a slot, shows the plan and each check when it is done, and returns all of them.
    ///
    /// # Errors
    /// When the connection fails, or the daemon is too old to know.
    pub async fn test_model(
        &self,
        slot: Slot,
        mut plan: impl FnMut(ModelTestPlan),
        mut show: impl FnMut(&ModelCheck),
    ) -> Result<Vec<ModelCheck>, ClientError> {
        let mut steps = self.daemon().test_model(convert::test_model_to_wire(slot)).await?.into_inner();
        let mut checks = Vec::new();
        while let Some(step) = steps.message().await? {
            match step.part {
                Some(Part::Plan(outline)) => plan(outline.into()),
                Some(Part::Check(check)) => {
                    let check = check.try_into()?;
                    show(&check);
                    checks.push(check);
                }
                // From a newer daemon.
                None => {}
            }
        }
        Ok(checks)
    }

    async fn slots(&self, request: v1::ModelsRequest) -> Result<Vec<SlotInfo>, ClientError> {
        Ok(convert::all(self.daemon().models(request).await?.into_inner().slots)?)
    }

    /// All tools, sorted by name, and why the next turn of that session, or of a new one where it is empty, would show each
    /// or not.
    ///
    /// # Errors
    /// When there is no such session or the connection fails.
    pub async fn tools(&self, session: &str) -> Result<Vec<ToolStanding>, ClientError> {
        let request = v1::ToolsRequest { session: session.to_owned() };
        Ok(convert::all(self.daemon().tools(request).await?.into_inner().standings)?)
    }

    /// The agents besides the main one, sorted by name.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn agents(&self) -> Result<Vec<AgentCard>, ClientError> {
        Ok(convert::all(self.daemon().agents(v1::AgentsRequest {}).await?.into_inner().agents)?)
    }

    /// Tells the daemon to stop and returns its process id at once. Running turns may take until the deadline, or
    /// the configured time, to come to an end; then they are suspended.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn stop(&self, deadline: Option<Duration>) -> Result<u32, ClientError> {
        let drain_ms = deadline.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        Ok(self.daemon().stop(v1::StopRequest { drain_ms }).await?.into_inner().pid)
    }

    /// Makes the daemon read its configuration again.
    ///
    /// # Errors
    /// When the configuration has a mistake; then the old one holds on. When the connection fails.
    pub async fn reload(&self) -> Result<ReloadOutcome, ClientError> {
        let answer = self.daemon().reload(v1::ReloadRequest {}).await?.into_inner();
        Ok(ReloadOutcome { config_sources: answer.config_sources, notes: answer.notes })
    }

    /// Where each value of the configuration came from, and the chain of capabilities around a turn.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn config(&self) -> Result<ConfigView, ClientError> {
        Ok(self.daemon().config(v1::ConfigRequest {}).await?.into_inner().into())
    }
}
