//! The greeting: what is advertised, which is what works and nothing else. It needs no daemon.

use agent_client_protocol_schema::{
    ProtocolVersion,
    v1::{
        AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, Implementation, InitializeRequest,
        InitializeResponse, McpCapabilities, PromptCapabilities, SessionAdditionalDirectoriesCapabilities,
        SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities, SessionListCapabilities,
        SessionResumeCapabilities,
    },
};
use serde_json::{Value, json};

use super::{
    bridge::{Bridge, Editor},
    refusal::{self, Trouble},
};

/// The one way to log in: there is nobody to log in to.
const LOCAL: &str = "local";

/// Takes note of the editor and tells it what there is.
pub(super) fn greet(bridge: &Bridge, request: &InitializeRequest) -> InitializeResponse {
    bridge.introduce(Editor::of(request));
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true).sse(true))
        .session_capabilities(sessions);
    let local = AuthMethodAgent::new(LOCAL, "This machine").description(
        "agentd runs for you alone and needs no account; `agentctl models add` takes the key of a model's provider",
    );
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("agentd", env!("CARGO_PKG_VERSION")).title("agentd"))
        .auth_methods(vec![AuthMethod::Agent(local)])
}

/// Makes sure that the daemon can be reached: no more is needed.
pub(super) async fn authenticate(bridge: &Bridge, request: &AuthenticateRequest) -> Result<Value, Trouble> {
    if request.method_id.0.as_ref() != LOCAL {
        return Err(refusal::misfit(format!("there is no authentication method of that name; there is {LOCAL}")).into());
    }
    bridge.daemon().await?;
    Ok(json!({}))
}
