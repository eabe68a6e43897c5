//! Refusals that come and go, in the words of their servers: as replies for scripts.

use serde_json::{Value, json};

use super::super::Reply;

fn error(status: u16, error: Value) -> Reply {
    Reply::status(status, json!({ "error": error }).to_string())
}

/// Groq could not read the call that its model wrote.
pub fn groq_tool_use_failed() -> Reply {
    let message = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.";
    let failed = "<function=read_file{\"path\": \"a\"}</function>";
    let code = "tool_use_failed";
    error(400, json!({"message": message, "type": "invalid_request_error", "code": code, "failed_generation": failed}))
}

/// Groq counts tokens by the minute, and says so as if the request were too large.
pub fn groq_tokens_per_minute() -> Reply {
    let message = "Request too large for model `openai/gpt-oss-120b` in organization `org_01` service tier `on_demand` on \
                   tokens per minute (TPM): Limit 8000, Requested 9113, please reduce your message size and try again. \
                   Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing";
    error(413, json!({"message": message, "type": "tokens", "code": "rate_limit_exceeded"}))
}

/// llama.cpp's server while it loads its model.
pub fn llamacpp_loading_model() -> Reply {
    error(503, json!({"message": "Loading model", "type": "unavailable_error", "code": 503}))
}

/// llama.cpp's server without a projector for pictures: words that look like those about an unknown field.
pub fn llamacpp_no_pictures() -> Reply {
    let message = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj";
    error(500, json!({"message": message, "type": "server_error", "code": 500}))
}
