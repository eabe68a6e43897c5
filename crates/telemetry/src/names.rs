//! Names of spans and attributes that are used more than once, from the conventions for generative AI (version 0.1.0,
//! in development). Names that are not part of the conventions start with `agentd.`.
//!
//! Also contains the IDs of traces and spans. They are deterministic, so that a turn has the same IDs each time it is
//! exported.

use agentd_core::ids::{SessionId, TurnId};
use agentd_trace::TurnTrace;
use sha2::{Digest as _, Sha256};

/// Attribute: operation of a span.
pub const OPERATION: &str = "gen_ai.operation.name";
/// Operation: a model call.
pub const CHAT: &str = "chat";
/// Operation: a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// Operation: a turn of an agent.
pub const INVOKE_AGENT: &str = "invoke_agent";

/// Name prefix of the tools of MCP servers.
pub(crate) const MCP_PREFIX: &str = "mcp_";

/// Attribute: name of an agent.
pub const AGENT: &str = "gen_ai.agent.name";
/// Attribute: ID of a session.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// Attribute: provider of a model, derived from the server's host.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// Attribute: ID of a model.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Attribute: name of a tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// Attribute: answer of a model or a turn. Counts as content.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Attribute: kind of an error.
pub const ERROR: &str = "error.type";
/// Attribute: number of a step within its turn.
pub const STEP: &str = "agentd.step";
/// Attribute: time of waiting for the user, in seconds.
pub const WAITED: &str = "agentd.waited";
/// Metric: model calls of a turn.
pub const AGENT_INFERENCE_CALLS: &str = "gen_ai.invoke_agent.inference_calls";
/// Metric: tool calls of a turn.
pub const AGENT_TOOL_CALLS: &str = "gen_ai.invoke_agent.tool_calls";
/// Providers by the hosts of their servers. Subdomains are included.
const PROVIDERS: [(&str, &str); 12] = [
    ("api.anthropic.com", "anthropic"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.moonshot.ai", "moonshot_ai"),
    ("api.openai.com", "openai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("openai.azure.com", "azure.ai.openai"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
];

/// Returns the provider of the server with that host, or `agentd` for unknown hosts, such as local models.
pub fn provider(host: &str) -> &'static str {
    let matches_domain =
        |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with(['.', '-']));
    PROVIDERS.iter().find(|(domain, _)| matches_domain(domain)).map_or("agentd", |(_, name)| name)
}

/// Variable in which a client passes its trace context.
pub const TRACEPARENT: &str = "TRACEPARENT";

/// Flag in a `traceparent` for a recorded trace.
const SAMPLED_FLAG: u8 = 1;

/// Position of a turn in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// ID of the trace.
    pub trace_id: [u8; 16],
    /// Span of the client that is the turn's parent.
    pub parent: Option<[u8; 8]>,
    /// False if the client does not record its trace. In that case, the turn's spans are not exported.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Returns the position of a turn: in the client's trace if there is one, otherwise in a separate trace.
    pub fn of(turn: &TurnTrace, traceparent: Option<&str>) -> Self {
        if let Some(context) = traceparent.and_then(Self::parse) {
            return context;
        }
        let id = turn.trace_id.map_or_else(|| turn.turn_id.as_uuid(), |id| id.as_uuid());
        Self { trace_id: *id.as_bytes(), parent: None, is_sampled: true }
    }

    /// Parses a `traceparent` of W3C Trace Context. Later versions may have more fields.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.trim().split('-');
        let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let is_known = bytes::<1>(version)? != [0xff] && (version != "00" || fields.next().is_none());
        let (trace_id, parent) = (bytes::<16>(trace)?, bytes::<8>(span)?);
        let [flags] = bytes::<1>(flags)?;
        let context = Self { trace_id, parent: Some(parent), is_sampled: flags & SAMPLED_FLAG != 0 };
        (is_known && trace_id != [0; 16] && parent != [0; 8]).then_some(context)
    }
}

/// Decodes `N` bytes from lower-case hexadecimal digits.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 2 * N || !digits.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Returns the ID of a span, derived from the session, the turn and the span's name within the turn. Never returns
/// zero, which means that there is no span.
pub fn span_id(session: SessionId, turn: TurnId, name: &str) -> [u8; 8] {
    let hash = Sha256::new().chain_update(session.as_uuid().as_bytes()).chain_update(turn.as_uuid().as_bytes());
    let digest = hash.chain_update(name.as_bytes()).finalize();
    let mut id = std::array::from_fn(|at| digest[at]);
    id[7] |= 1;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_recognised_by_host() {
        for (host, name) in [
            ("api.openai.com", "openai"),
            ("me.openai.azure.com", "azure.ai.openai"),
            ("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai"),
            ("evilapi.openai.com", "agentd"),
            ("127.0.0.1", "agentd"),
            ("", "agentd"),
        ] {
            assert_eq!(provider(host), name, "{host}");
        }
    }

    #[test]
    fn invalid_traceparent_is_rejected() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = TraceContext::parse(good).unwrap();
        assert_eq!((context.trace_id[0], context.parent.unwrap()[7], context.is_sampled), (0x0a, 0x31, true));
        assert!(!TraceContext::parse(&good.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceContext::parse(&format!("{}-later", good.replacen("00", "01", 1))).is_some());
        for invalid in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn span_ids_are_stable_and_differ_by_name() {
        let (session, turn) = (SessionId::generate(), TurnId::generate());
        assert_eq!(span_id(session, turn, "m1"), span_id(session, turn, "m1"));
        assert_ne!(span_id(session, turn, "m1"), span_id(session, turn, "m2"));
        assert_ne!(span_id(session, turn, ""), [0; 8]);
    }
}
