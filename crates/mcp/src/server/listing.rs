//! Lists the tools of a server, within limits: a list may have endless pages.

use std::{future::Future, time::Duration};

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult},
    service::{Peer, RoleClient, ServiceError},
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    catalogue::{Catalogue, KnownTool, MAX_TOOLS},
    published_tools::shown,
    reason::{Reason, SecretFilter},
};

/// Maximum number of pages of a list.
const MAX_PAGES: usize = 64;
/// Maximum length of a stored description, in bytes. Models get a shorter one.
const MAX_DESCRIPTION_LENGTH: usize = 8192;
/// Maximum length of a tool's name, in bytes. Calls need the full name, so a longer one cannot be truncated.
const MAX_NAME_LENGTH: usize = 256;
/// Maximum size of a stored schema, in bytes. Models get a smaller one.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// Maximum total size stored for one server, in bytes.
const MAX_STORED: usize = 4 << 20;
/// Maximum total size of a server's pages, in bytes.
const MAX_LISTED: usize = 64 << 20;
/// Maximum number of reported problems with definitions.
const MAX_PROBLEMS: usize = 20;
/// Time limit for a server to show that it has resources or prompts. A slower one is assumed to have them.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Lists everything that a server offers.
pub(crate) async fn catalogue(
    peer: &Peer<RoleClient>,
    info: &ServerPeerInfo,
    fingerprint: String,
) -> Result<Catalogue, ServiceError> {
    let mut listed = ListedTools::default();
    if info.capabilities.tools.is_some() {
        // Requested directly, because the library's cache may be outdated.
        listed = pages(async |params| {
            let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
            let listed = peer.send_request(ClientRequest::ListToolsRequest(request)).await?;
            page(listed).ok_or(ServiceError::UnexpectedResponse)
        })
        .await?;
    }
    let ListedTools { mut tools, cut_off, problems } = listed;
    let (has_resources, has_prompts) = (info.capabilities.resources.is_some(), info.capabilities.prompts.is_some());
    let (resources, templates, prompts) = tokio::join!(
        has_items(peer, has_resources, ClientRequest::ListResourcesRequest(Default::default()), "resources"),
        has_items(
            peer,
            has_resources,
            ClientRequest::ListResourceTemplatesRequest(Default::default()),
            "resourceTemplates"
        ),
        has_items(peer, has_prompts, ClientRequest::ListPromptsRequest(Default::default()), "prompts"),
    );
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    // A call could reach only one of two tools with the same name.
    tools.dedup_by(|one, other| one.name == other.name);
    let says_it_is = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
    Ok(Catalogue {
        fingerprint,
        says_it_is: truncate(says_it_is.unwrap_or_default(), 200),
        about: truncate(about(info), 2000),
        tools,
        cut_off,
        odd: problems,
        resources: resources || templates,
        prompts,
        protocol: truncate(info.protocol_version.to_string(), 40),
    })
}

/// Returns true if a list from the server is not empty.
async fn has_items(peer: &Peer<RoleClient>, is_capable: bool, list: ClientRequest, key: &str) -> bool {
    if !is_capable {
        return false;
    }
    let Ok(listed) = tokio::time::timeout(PROBE_TIMEOUT, peer.send_request(list)).await else { return true };
    let listed = listed.ok().and_then(|listed| serde_json::to_value(listed).ok());
    listed.is_some_and(|listed| listed[key].as_array().is_some_and(|items| !items.is_empty()))
}

/// Returns the description of the server; otherwise its instructions, or its title.
fn about(info: &ServerPeerInfo) -> String {
    let server = info.server_info.as_ref();
    let description = server.and_then(|server| server.description.clone());
    let title = server.and_then(|server| server.title.clone());
    let texts = [description, info.instructions.clone(), title].into_iter().flatten();
    texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Returns the reason for a failed listing.
pub(crate) fn failure_reason(error: &ServiceError, clean: &SecretFilter) -> Reason {
    Reason::of_request("it does not list its tools", error, clean)
}

/// Tools of a server.
#[derive(Default)]
struct ListedTools {
    tools: Vec<KnownTool>,
    /// True if some tools exceeded the limits.
    cut_off: bool,
    /// Problems with definitions that cannot be used unchanged, one sentence each.
    problems: Vec<String>,
}

/// Collects the tools of all pages, within the limits. The unused parts of a page are dropped before the next one is
/// requested.
async fn pages<E, F>(mut page: impl FnMut(PaginatedRequestParams) -> F) -> Result<ListedTools, E>
where
    F: Future<Output = Result<(Vec<Value>, Option<String>), E>>,
{
    let mut all = ListedTools { cut_off: true, ..ListedTools::default() };
    let (mut stored_bytes, mut listed_bytes, mut number) = (0, 0, 0);
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let (tools, next) = page(params).await?;
        for tool in tools {
            (number, listed_bytes) = (number + 1, listed_bytes + length(&tool));
            let (tool, problem) = stored_tool(tool, number);
            if all.problems.len() < MAX_PROBLEMS {
                all.problems.extend(problem);
            }
            let Some(tool) = tool else { continue };
            stored_bytes += length(&tool);
            if all.tools.len() == MAX_TOOLS || stored_bytes > MAX_STORED || listed_bytes > MAX_LISTED {
                return Ok(all);
            }
            all.tools.push(tool);
        }
        cursor = next;
        if cursor.is_none() {
            return Ok(ListedTools { cut_off: false, ..all });
        }
    }
    Ok(all)
}

/// Returns the definitions of a page. The library cannot parse a list with a single invalid definition.
fn page(result: ServerResult) -> Option<(Vec<Value>, Option<String>)> {
    let Value::Object(mut list) = serde_json::to_value(result).ok()? else { return None };
    match (list.remove("tools")?, list.remove("nextCursor")) {
        (Value::Array(tools), Some(Value::String(next))) => Some((tools, Some(next))),
        (Value::Array(tools), _) => Some((tools, None)),
        _ => None,
    }
}

/// Returns the stored part of a tool, and a problem with its definition, if any. Only tools that cannot be called are
/// left out.
fn stored_tool(definition: Value, number: usize) -> (Option<KnownTool>, Option<String>) {
    let skipped = |reason: &str| (None, Some(format!("its tool number {number} is skipped: {reason}")));
    let Value::Object(mut definition) = definition else { return skipped("it is not an object") };
    let Some(Value::String(name)) = definition.remove("name").filter(|name| name.as_str() != Some("")) else {
        return skipped("its `name` is not a string");
    };
    if name.len() > MAX_NAME_LENGTH {
        return skipped(&format!("its `name` has more than {MAX_NAME_LENGTH} bytes: {}", shown(&name)));
    }
    let text = ["description", "title"].iter().find_map(|key| match definition.remove(*key)? {
        Value::String(text) => Some(text),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        _ => None,
    });
    // Without a schema any object is accepted; the server validates the arguments anyway.
    let open = || Map::from_iter([("additionalProperties".to_owned(), true.into())]);
    let problem_of =
        |reason: &str| Some(format!("its tool `{}` takes any arguments: its `inputSchema` {reason}", shown(&name)));
    let (schema, problem) = match ["inputSchema", "input_schema"].iter().find_map(|key| definition.remove(*key)) {
        Some(Value::Object(schema)) if length(&schema) <= MAX_SCHEMA_BYTES => (schema, None),
        Some(Value::Object(_)) => (open(), problem_of("is too large")),
        None | Some(Value::Null | Value::Bool(true)) => (open(), None),
        Some(_) => (open(), problem_of("is not an object")),
    };
    let description = truncate(text.unwrap_or_default(), MAX_DESCRIPTION_LENGTH);
    (Some(KnownTool { name, description, schema }), problem)
}

/// Returns the length of a value as JSON, in bytes.
fn length(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |text| text.len())
}

fn truncate(mut text: String, limit: usize) -> String {
    text.truncate(text.floor_char_boundary(limit));
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Value {
        json!({"name": name, "inputSchema": schema})
    }

    #[tokio::test]
    async fn tool_list_is_bounded_in_pages_tools_and_bytes() {
        let check = async |page_tools: &[Value], expected: usize| {
            let mut requests = 0;
            let listed = pages(|_| {
                requests += 1;
                std::future::ready(Ok::<_, Infallible>((page_tools.to_vec(), Some("next".to_owned()))))
            });
            let Ok(listed) = listed.await;
            assert!(listed.cut_off && listed.problems.len() <= MAX_PROBLEMS && requests <= MAX_PAGES, "{requests}");
            assert_eq!(listed.tools.len(), expected);
            assert!(listed.tools.iter().map(length).sum::<usize>() <= MAX_STORED);
        };
        check(&[tool("a", json!({}))], MAX_PAGES).await;
        check(&vec![tool("a", json!({})); 100], MAX_TOOLS).await;
        let large = json!({"a": "x".repeat(MAX_SCHEMA_BYTES - 200)});
        check(&vec![tool("a", large); 40], MAX_STORED / MAX_SCHEMA_BYTES).await;
        let huge = json!({"a": "x".repeat(MAX_LISTED / 4)});
        check(&[tool("a", huge)], 3).await;
        check(&[tool(&"n".repeat(MAX_NAME_LENGTH + 1), json!({}))], 0).await;
    }

    #[tokio::test]
    async fn malformed_definition_loses_only_its_tool() {
        let input = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let usable = |field: &str, value: Value| {
            let mut definition = tool("odd", input.clone());
            definition[field] = value;
            (definition, None)
        };
        let bad = |definition: Value, reason: &'static str| (definition, Some(reason));
        for (definition, reason) in [
            (json!({"name": "odd"}), None),
            (json!({"name": "odd", "input_schema": input}), None),
            usable("inputSchema", json!(null)),
            usable("inputSchema", json!(true)),
            usable("inputSchema", json!({"type": 5, "properties": null, "required": true})),
            usable("inputSchema", json!({"type": ["object", "null"], "properties": {"a": "string"}})),
            usable("inputSchema", json!({"type": "array", "items": 5})),
            usable("inputSchema", json!({"properties": {"a": {"type": "string", "required": true}}})),
            usable("description", json!(42)),
            usable("description", json!({"en": "one"})),
            usable("title", json!(7)),
            usable("icons", json!([{"src": "a.png", "sizes": "48x48", "mimeType": 1}])),
            usable("annotations", json!({"readOnlyHint": "yes"})),
            usable("outputSchema", json!("text")),
            usable("_meta", json!("none")),
            usable("execution", json!("task")),
            bad(tool("odd", json!("object")), "its tool `odd` takes any arguments: its `inputSchema`"),
            bad(tool("odd", json!(false)), "`inputSchema` is not an object"),
            bad(tool("odd", json!([input])), "`inputSchema` is not an object"),
            bad(tool("odd", json!({"a": "x".repeat(MAX_SCHEMA_BYTES)})), "`inputSchema` is too large"),
            bad(json!({"name": "", "inputSchema": input}), "number 2 is skipped: its `name` is not a string"),
            bad(json!({"name": 5, "inputSchema": input}), "number 2 is skipped: its `name` is not a string"),
            bad(json!({"inputSchema": input}), "number 2 is skipped: its `name` is not a string"),
            bad(json!({"name": format!("\u{1b}[2J{}", "n".repeat(999))}), "`name` has more than 256 bytes: [2Jnnn"),
            bad(json!("odd"), "number 2 is skipped: it is not an object"),
            bad(json!(null), "number 2 is skipped: it is not an object"),
        ] {
            let list =
                json!({"tools": [tool("first", json!({})), definition, tool("last", json!({}))], "nextCursor": null});
            // Same value as received from the network.
            let read = page(serde_json::from_value(list).unwrap());
            let listed = pages(|_| std::future::ready(read.clone().ok_or(())));
            let ListedTools { tools, cut_off, problems } = listed.await.unwrap_or_else(|()| panic!("{definition}"));
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            let is_skipped = reason.is_some_and(|reason| reason.contains("skipped") || reason.contains("more than"));
            let expected = if is_skipped { &["first", "last"][..] } else { &["first", "odd", "last"] };
            assert_eq!((names.as_slice(), cut_off), (expected, false), "{definition}");
            assert_eq!(problems.len(), usize::from(reason.is_some()), "{definition}: {problems:?}");
            let text = problems.concat();
            assert!(
                reason.is_none_or(|reason| text.contains(reason)) && !text.contains('\u{1b}') && text.len() < 300,
                "{text}"
            );
            for tool in &tools {
                let schema = crate::schema::parameters(&tool.schema);
                let properties = schema["properties"].as_object().unwrap().values();
                let is_fit = |property: &Value| property.is_object() && !property["required"].is_boolean();
                assert!(schema["type"] == "object" && properties.into_iter().all(is_fit), "{schema}");
            }
        }
        for list in [json!({"tools": 5}), json!({"tool": []}), json!({})] {
            assert!(page(serde_json::from_value(list.clone()).unwrap()).is_none(), "{list}");
        }
    }
}
