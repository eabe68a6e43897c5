//! What a server offers, asked for in bounds: a list may have pages without end.

use std::future::Future;

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult, Tool},
    service::{Peer, RoleClient, ServiceError},
};

use crate::catalogue::{Catalogue, KnownTool, MOST_TOOLS};

/// How many pages of a list are asked for.
const MOST_PAGES: usize = 64;
/// How much of a description is kept, in bytes; models are shown less.
const LONGEST: usize = 8192;

/// Asks for all that a server offers.
pub(crate) async fn catalogue(
    peer: &Peer<RoleClient>,
    info: &ServerPeerInfo,
    fingerprint: String,
) -> Result<Catalogue, String> {
    let mut tools: Vec<KnownTool> = Vec::new();
    if info.capabilities.tools.is_some() {
        let page = |params| list_tools(peer, params);
        let listed =
            pages(page, MOST_TOOLS).await.map_err(|error| format!("it does not say which tools it has: {error}"))?;
        tools = listed.into_iter().map(known).collect();
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    // Of two with one name a call could only reach one.
    tools.dedup_by(|one, other| one.name == other.name);
    let says_it_is = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
    Ok(Catalogue {
        fingerprint,
        says_it_is: cut(says_it_is.unwrap_or_default(), 200),
        tools,
        resources: info.capabilities.resources.is_some(),
        prompts: info.capabilities.prompts.is_some(),
    })
}

/// All pages of a list, up to so many entries.
pub(crate) async fn pages<T, E, F>(mut page: impl FnMut(PaginatedRequestParams) -> F, most: usize) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<(Vec<T>, Option<String>), E>>,
{
    let mut all = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let (entries, next) = page(params).await?;
        all.extend(entries);
        cursor = next.filter(|_| all.len() < most);
        if cursor.is_none() {
            break;
        }
    }
    all.truncate(most);
    Ok(all)
}

/// One page, asked of the server itself: what the library remembers may be old.
async fn list_tools(
    peer: &Peer<RoleClient>,
    params: PaginatedRequestParams,
) -> Result<(Vec<Tool>, Option<String>), ServiceError> {
    let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(result) => Ok((result.tools, result.next_cursor)),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

fn known(tool: Tool) -> KnownTool {
    let words = tool.description.map(|words| words.into_owned()).or(tool.title).unwrap_or_default();
    KnownTool { name: tool.name.into_owned(), description: cut(words, LONGEST), schema: (*tool.input_schema).clone() }
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let mut end = most;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}
