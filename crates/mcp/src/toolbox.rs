//! Toolbox with the tools of a pool.

use std::{borrow::Cow, sync::Arc};

use agentd_core::{
    ports::{ToolContext, Toolbox},
    tool::{ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, GetPromptRequest, GetPromptRequestParams,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourceTemplatesResult, ListResourcesRequest,
    ListResourcesResult, ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use serde_json::{Map, Value};

use crate::{
    answer,
    pool::McpPool,
    published_tools::{Route, ToolTarget},
    server::call::{self, CallTime},
};

/// Toolbox with the tools of all servers.
pub struct McpToolbox {
    pool: Arc<McpPool>,
    /// Prefix of each tool's route.
    mark: String,
}

impl McpToolbox {
    /// Creates the toolbox of this pool.
    pub fn new(pool: Arc<McpPool>) -> Self {
        Self::marked(pool, String::new())
    }

    /// Creates a toolbox whose routes start with this mark. The mark identifies the pool of a call among several pools.
    pub fn marked(pool: Arc<McpPool>, mark: String) -> Self {
        Self { pool, mark }
    }

    /// Returns true if a server has a tool with this name.
    pub fn has(&self, name: &str) -> bool {
        self.pool.published().routes.contains_key(name)
    }

    /// Returns the route of a call. Fails if the name refers to another tool than when it was offered to the turn's
    /// model.
    fn route(&self, context: &ToolContext, call: &ToolCall) -> Result<Route, ToolOutput> {
        let unknown = |message: &str| ToolOutput::error(ToolErrorCode::UnknownTool, message);
        let route = self.pool.published().routes.get(&call.name).cloned();
        let route = route.ok_or_else(|| unknown("no MCP server has this tool now"))?;
        match &context.stands_for {
            Some(offered) if offered.strip_prefix(&self.mark) != Some(&*route.identity()) => {
                Err(unknown("this name now belongs to another tool than the offered one; it did not run"))
            }
            _ => Ok(route),
        }
    }

    async fn run(&self, context: &ToolContext, call: &ToolCall) -> Result<ToolOutput, ToolOutput> {
        let Route { server, target, fingerprint } = self.route(context, call)?;
        let arguments = arguments(&call.arguments)?;
        let config = self.pool.config_of(&server).ok_or_else(|| {
            ToolOutput::error(ToolErrorCode::UnknownTool, format!("the MCP server {server} no longer exists"))
        })?;
        let from = match &target {
            ToolTarget::Tool(tool) => format!("{server}/{tool}"),
            _ => server.clone(),
        };
        let lists_resources = target == ToolTarget::ListResources;
        let request = request(target, arguments)?;
        let lease = tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                return Err(ToolOutput::error(ToolErrorCode::Cancelled, "the turn ended before the server was ready"));
            }
            lease = self.pool.lease(&server, &fingerprint, context) => lease,
        };
        let lease = lease.map_err(|reason| {
            let reason = reason.for_model(&server);
            let text = format!("the MCP server {server} is unavailable. The call did not run: {reason}");
            ToolOutput::error(ToolErrorCode::Tool, text)
        })?;
        let time = CallTime { silence: config.call_timeout, all: config.call_limit };
        let answered = call::request(&lease.connection, request, context, time).await.map_err(|error| {
            let last_line = self.pool.log(&server).and_then(|log| log.last_line());
            error.into_output(&server, &from, time, last_line, |refusal| self.pool.refused(&server, &config, refusal))
        })?;
        Ok(match answered {
            ServerResult::ListResourcesResult(result) if lists_resources => {
                let request = ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::default());
                // Servers with resources may lack templates, and reject this request.
                let templates = match call::request(&lease.connection, request, context, time).await {
                    Ok(ServerResult::ListResourceTemplatesResult(templates)) => Some(templates),
                    _ => None,
                };
                resources(&from, &result, templates)
            }
            result => tool_output(&from, result),
        })
    }
}

impl Toolbox for McpToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.pool.published().specs)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        name
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        let refusal = self.route(context, call).err().or_else(|| arguments(&call.arguments).err());
        std::future::ready(refusal.map_or(Ok(None), Err)).boxed()
    }

    /// MCP servers are not sandboxed; they run with the user's permissions.
    fn can_enforce_read_only(&self) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        self.run(context, call).map(|outcome| outcome.unwrap_or_else(|refused| refused)).boxed()
    }
}

/// Parses the arguments as an object. Missing arguments are an empty object.
fn arguments(text: &str) -> Result<Map<String, Value>, ToolOutput> {
    match serde_json::from_str(text.trim()) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(Value::Null) => Ok(Map::new()),
        Err(_) if text.trim().is_empty() => Ok(Map::new()),
        Ok(_) => Err(ToolOutput::error(ToolErrorCode::InvalidArgs, "the arguments must be a JSON object")),
        Err(error) => {
            Err(ToolOutput::error(ToolErrorCode::InvalidArgs, format!("the arguments must be a JSON object: {error}")))
        }
    }
}

fn request(target: ToolTarget, mut arguments: Map<String, Value>) -> Result<ClientRequest, ToolOutput> {
    let mut text = |name: &str| match arguments.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(ToolOutput::error(ToolErrorCode::InvalidArgs, format!("`{name}` must be a string"))),
    };
    Ok(match target {
        ToolTarget::Tool(name) => {
            let mut params = CallToolRequestParams::new(Cow::Owned(name));
            params.arguments = Some(arguments);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        }
        ToolTarget::ListResources => ClientRequest::ListResourcesRequest(ListResourcesRequest::default()),
        ToolTarget::ReadResource => {
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(text("uri")?)))
        }
        ToolTarget::ListPrompts => ClientRequest::ListPromptsRequest(ListPromptsRequest::default()),
        ToolTarget::GetPrompt => {
            let mut params = GetPromptRequestParams::new(text("name")?);
            params.arguments = match arguments.remove("arguments") {
                Some(Value::Object(arguments)) => Some(arguments),
                _ => None,
            };
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        }
    })
}

fn tool_output(from: &str, result: ServerResult) -> ToolOutput {
    match result {
        ServerResult::CallToolResult(result) => answer::of_tool(from, result),
        ServerResult::ReadResourceResult(result) => answer::of_resource(from, result),
        ServerResult::GetPromptResult(result) => answer::of_prompt(from, result),
        ServerResult::ListPromptsResult(result) => {
            let more = result.next_cursor.is_some();
            let line = |prompt: &rmcp::model::Prompt| {
                let named = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
                let about = prompt.description.as_deref().map(|about| format!(": {about}")).unwrap_or_default();
                format!("- {}({}){about}", prompt.name, named.collect::<Vec<_>>().join(", "))
            };
            answer::of_list(from, result.prompts.iter().map(line).collect(), more, "it has no prompts")
        }
        ServerResult::CustomResult(result) => answer::of_malformed(from, &result.0),
        _ => ToolOutput::error(
            ToolErrorCode::Tool,
            "the server returned an unexpected result; the call may have taken effect",
        ),
    }
}

/// Lists resources by their URIs, and templates with braces to fill in.
fn resources(from: &str, listed: &ListResourcesResult, templates: Option<ListResourceTemplatesResult>) -> ToolOutput {
    let line = |uri: &str, name: &str, about: Option<&str>| {
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        format!("- {uri} ({name}){about}")
    };
    let mut more = listed.next_cursor.is_some();
    let items = listed.resources.iter();
    let mut lines: Vec<String> = items.map(|one| line(&one.uri, &one.name, one.description.as_deref())).collect();
    if let Some(templates) = templates.filter(|templates| !templates.resource_templates.is_empty()) {
        more |= templates.next_cursor.is_some();
        lines.push("URIs from these templates can be read too, with values for the braces:".to_owned());
        let items = templates.resource_templates.iter();
        lines.extend(items.map(|one| line(&one.uri_template, &one.name, one.description.as_deref())));
    }
    answer::of_list(from, lines, more, "it has no resources")
}
