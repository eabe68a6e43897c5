//! A minimal MCP server, fast enough not to affect the measurements. Its only tool returns its argument.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

/// Name of the server's tool.
pub(crate) const TOOL: &str = "say";

/// Serves until standard input ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let mut answer = json!({"jsonrpc": "2.0", "id": id});
        match answered(&message) {
            Some(result) => answer["result"] = result,
            None => answer["error"] = json!({"code": -32601, "message": "method not found"}),
        }
        out.write_all(answer.to_string().as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn answered(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }),
        "ping" => json!({}),
        "tools/list" => json!({"tools": [{
            "name": TOOL,
            "description": "Returns its argument.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        }]}),
        "tools/call" => {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
            json!({"content": [{"type": "text", "text": text}], "isError": false})
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_server_answers_calls_and_ignores_other_requests() {
        let call = json!({"method": "tools/call", "params": {"name": TOOL, "arguments": {"text": "hi"}}});
        assert_eq!(answered(&call).unwrap()["content"][0]["text"], "hi");
        assert_eq!(answered(&json!({"method": "resources/list"})), None);
    }
}
