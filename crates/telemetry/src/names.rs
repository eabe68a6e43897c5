//! Names of spans, attributes and metrics, by the conventions for generative AI (version 0.1.0, in development). What has no
//! name there begins with `agentd.`.

/// Name of the instrumentation.
pub const SCOPE: &str = "agentd";

/// Kind of a span: what it does.
pub const OPERATION: &str = "gen_ai.operation.name";
/// A model call.
pub const CHAT: &str = "chat";
/// A tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// A turn of an agent.
pub const INVOKE_AGENT: &str = "invoke_agent";

/// Name of a tool that there is not.
pub const UNKNOWN: &str = "unknown";

/// Method of an MCP server.
pub const MCP_METHOD: &str = "mcp.method.name";
/// The method that calls a tool.
pub const TOOLS_CALL: &str = "tools/call";

/// Beginning of the names of tools of MCP servers.
const OF_SERVER: &str = "mcp_";

/// Returns whether a tool belongs to an MCP server.
pub(crate) fn is_of_server(tool: &str) -> bool {
    tool.starts_with(OF_SERVER)
}

/// Name of an agent.
pub const AGENT: &str = "gen_ai.agent.name";
/// Id of a session.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// Provider of a model, as far as its address tells.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// Id of a model.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Set for model calls, all of which are streamed.
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
/// Seconds to the first part of an answer.
pub const FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// Tokens of requests.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens of answers.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens of requests out of a cache.
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens of requests put into a cache.
pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";
/// Tokens of thoughts.
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
/// Name of a tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// Kind of a tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// Id of a tool call.
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// Arguments of a tool call. Content.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Result of a tool call. Content.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";
/// Input of a turn. Content.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Answer of a model or a turn. Content.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Kind of the tokens of a counter.
pub const TOKEN_MODALITY: &str = "gen_ai.token.modality";
/// Kind of an error.
pub const ERROR: &str = "error.type";
/// Host of a server.
pub const SERVER_ADDRESS: &str = "server.address";
/// Port of a server.
pub const SERVER_PORT: &str = "server.port";
/// Exit code of a command.
pub const EXIT_CODE: &str = "process.exit.code";

/// Id of a turn.
pub const TURN: &str = "agentd.turn.id";
/// Number of a step in its turn.
pub const STEP: &str = "agentd.step";
/// Role of a model.
pub const SLOT: &str = "agentd.slot";
/// Reason of a turn's end.
pub const STOP_REASON: &str = "agentd.stop_reason";
/// Money, in US dollars, where prices are known.
pub const COST: &str = "agentd.cost.usd";
/// Retries of a model call.
pub const RETRIES: &str = "agentd.retries";
/// Set if times are estimated.
pub const ESTIMATED: &str = "agentd.estimated";
/// Seconds in which a person was waited for.
pub const WAITED: &str = "agentd.waited";
/// Events of a span: a question to a person, and its answer.
pub const QUESTION: &str = "agentd.interrupt";
/// Outcome of a question.
pub const ANSWER: &str = "agentd.interrupt.answer";
/// Author of an answer.
pub const ANSWERED_BY: &str = "agentd.interrupt.by";
/// Events of a span: a compaction of the history.
pub const COMPACTION: &str = "agentd.compaction";
/// Events of a span: a warning.
pub const WARNING: &str = "agentd.warning";
/// Stable code of a warning.
pub const CODE: &str = "agentd.code";

/// Metric: seconds of a model call.
pub const CALL_DURATION: &str = "gen_ai.client.inference.duration";
/// Metric: seconds to the first part of an answer.
pub const CALL_FIRST_CHUNK: &str = "gen_ai.client.inference.time_to_first_chunk";
/// Metric: tokens of requests.
pub const SPENT_INPUT: &str = "gen_ai.client.inference.usage.input_tokens";
/// Metric: tokens of answers.
pub const SPENT_OUTPUT: &str = "gen_ai.client.inference.usage.output_tokens";
/// Metric: tokens out of a cache.
pub const SPENT_CACHE_READ: &str = "gen_ai.client.inference.usage.cache_read.input_tokens";
/// Metric: tokens put into a cache.
pub const SPENT_CACHE_WRITE: &str = "gen_ai.client.inference.usage.cache_write.input_tokens";
/// Metric: tokens of thoughts.
pub const SPENT_REASONING: &str = "gen_ai.client.inference.usage.reasoning.output_tokens";
/// Metric: seconds of a tool call.
pub const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
/// Metric: seconds of a turn.
pub const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
/// Metric: model calls of a turn.
pub const AGENT_CALLS: &str = "gen_ai.invoke_agent.inference_calls";
/// Metric: tool calls of a turn.
pub const AGENT_TOOL_CALLS: &str = "gen_ai.invoke_agent.tool_calls";
/// Metric: money, in US dollars.
pub const SPENT_COST: &str = "agentd.cost";

/// Providers by the hosts of their servers, with all below these.
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

/// The provider whose server has that host; agentd itself where none is known, for a model of one's own.
#[must_use]
pub fn provider(host: &str) -> &'static str {
    let is_of =
        |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with(['.', '-']));
    PROVIDERS.iter().find(|(domain, _)| is_of(domain)).map_or("agentd", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_their_hosts() {
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
}
