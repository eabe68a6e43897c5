//! What a server offers, asked for in bounds: a list may have pages without end.

use std::{future::Future, io};

use rmcp::{
    model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerPeerInfo, ServerResult, Tool},
    service::{Peer, RoleClient, ServiceError},
};
use serde_json::{Map, Value};

use crate::{
    catalogue::{Catalogue, KnownTool, MOST_TOOLS},
    clean::Clean,
    reason::Reason,
};

/// Maximum number of pages of a list.
const MOST_PAGES: usize = 64;
/// Maximum length of a stored description, in bytes; models are shown less.
const LONGEST: usize = 8192;
/// Maximum length of a tool's name, in bytes. It is what a call says, so a longer one cannot be cut.
const LONGEST_NAME: usize = 256;
/// Maximum size of a stored schema, in bytes; models are shown less.
const LARGEST: usize = 64 * 1024;
/// Maximum size of all that is stored of one server, in bytes.
const MOST_KEPT: usize = 4 << 20;
/// Maximum size of all pages of a server, in bytes.
const MOST_SAID: usize = 64 << 20;

/// Asks for all that a server offers.
pub(crate) async fn catalogue(
    peer: &Peer<RoleClient>,
    info: &ServerPeerInfo,
    fingerprint: String,
) -> Result<Catalogue, ServiceError> {
    let (mut tools, mut cut_off) = (Vec::new(), false);
    if info.capabilities.tools.is_some() {
        let page = |params| list_tools(peer, params);
        (tools, cut_off) = pages(page).await?;
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    // Of two with one name a call could only reach one.
    tools.dedup_by(|one, other| one.name == other.name);
    let says_it_is = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
    Ok(Catalogue {
        fingerprint,
        says_it_is: cut(says_it_is.unwrap_or_default(), 200),
        about: cut(about(info), 2000),
        tools,
        cut_off,
        resources: info.capabilities.resources.is_some(),
        prompts: info.capabilities.prompts.is_some(),
    })
}

/// The server's description: what it is, else how it is used, else what people call it.
fn about(info: &ServerPeerInfo) -> String {
    let server = info.server_info.as_ref();
    let description = server.and_then(|server| server.description.clone());
    let title = server.and_then(|server| server.title.clone());
    let said = [description, info.instructions.clone(), title].into_iter().flatten();
    said.map(|words| words.trim().to_owned()).find(|words| !words.is_empty()).unwrap_or_default()
}

/// Why it does not say that.
pub(crate) fn none(error: &ServiceError, clean: &Clean) -> Reason {
    Reason::of_request("it does not say which tools it has", error, clean)
}

/// The tools of all pages, as far as they are taken, and whether there are more. What is not taken of a page is gone before
/// the next is asked for.
async fn pages<E, F>(mut page: impl FnMut(PaginatedRequestParams) -> F) -> Result<(Vec<KnownTool>, bool), E>
where
    F: Future<Output = Result<(Vec<Tool>, Option<String>), E>>,
{
    let (mut all, mut kept, mut said) = (Vec::new(), 0, 0);
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let (tools, next) = page(params).await?;
        for tool in tools {
            let (tool, size) = known(tool);
            said += size;
            let Some(tool) = tool else { continue };
            kept += size_of(&tool);
            if all.len() == MOST_TOOLS || kept > MOST_KEPT || said > MOST_SAID {
                return Ok((all, true));
            }
            all.push(tool);
        }
        cursor = next;
        if cursor.is_none() {
            return Ok((all, false));
        }
    }
    Ok((all, true))
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

/// The stored part of a tool, if any, and the size of the whole.
fn known(tool: Tool) -> (Option<KnownTool>, usize) {
    let words = tool.description.map(|words| words.into_owned()).or(tool.title).unwrap_or_default();
    let said = tool.name.len() + words.len() + length(&tool.input_schema);
    if tool.name.len() > LONGEST_NAME {
        return (None, said);
    }
    let mut schema = (*tool.input_schema).clone();
    if length(&schema) > LARGEST {
        // Any object is taken then; the server knows what it wants.
        schema = Map::from_iter([("additionalProperties".to_owned(), true.into())]);
    }
    let name = tool.name.into_owned();
    (Some(KnownTool { name, description: cut(words, LONGEST), schema }), said)
}

fn size_of(tool: &KnownTool) -> usize {
    tool.name.len() + tool.description.len() + length(&tool.schema)
}

/// Length of a schema when it is written down.
fn length(schema: &Map<String, Value>) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, schema).map_or(usize::MAX, |()| count.0)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        serde_json::from_value(json!({"name": name, "inputSchema": schema})).unwrap()
    }

    #[tokio::test]
    async fn a_list_is_bounded_in_pages_in_tools_and_in_bytes() {
        let check = async |a_page: &[Tool], expected: usize| {
            let mut asked = 0;
            let listed = pages(|_| {
                asked += 1;
                std::future::ready(Ok::<_, Infallible>((a_page.to_vec(), Some("next".to_owned()))))
            });
            let Ok((tools, cut_off)) = listed.await;
            assert!(cut_off && asked <= MOST_PAGES, "{asked}");
            assert_eq!(tools.len(), expected);
            assert!(tools.iter().map(size_of).sum::<usize>() <= MOST_KEPT);
        };
        check(&[tool("a", json!({}))], MOST_PAGES).await;
        check(&vec![tool("a", json!({})); 100], MOST_TOOLS).await;
        let large = json!({"a": "x".repeat(LARGEST - 10)});
        check(&vec![tool("a", large); 40], MOST_KEPT / LARGEST).await;
        let huge = json!({"a": "x".repeat(MOST_SAID / 4)});
        check(&[tool("a", huge)], 3).await;
        check(&[tool(&"n".repeat(LONGEST_NAME + 1), json!({}))], 0).await;
    }

    #[test]
    fn a_schema_that_is_too_large_takes_any_object() {
        let (kept, said) = known(tool("a", json!({"properties": {"a": "x".repeat(LARGEST)}})));
        assert!(said > LARGEST);
        assert_eq!(crate::schema::parameters(&kept.unwrap().schema), crate::schema::open());
    }
}
