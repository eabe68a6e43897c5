//! Providers of models, and servers that people run themselves.

use agentd_proto::local_servers::{LOCAL_SERVERS, LocalServer};

/// A provider, or a kind of server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Provider {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Address of its API.
    pub(super) base_url: &'static str,
    /// Its wire in `models.yaml`; none for the usual one.
    pub(super) wire: Option<&'static str>,
    /// The variable in which its own programs read a key; none where it wants none.
    pub(super) variable: Option<&'static str>,
    /// Set if its models want their thoughts back.
    pub(super) echoes: bool,
    /// The model to choose where nobody does and the server lists it.
    pub(super) model: Option<&'static str>,
}

impl Provider {
    const fn new(name: &'static str, title: &'static str, base_url: &'static str) -> Self {
        Self { name, title, base_url, wire: None, variable: None, echoes: false, model: None }
    }

    const fn local(server: LocalServer) -> Self {
        Self::new(server.name, server.title, server.base_url)
    }

    const fn key(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    const fn model(self, model: &'static str) -> Self {
        Self { model: Some(model), ..self }
    }
}

/// All that are known. A server of another kind is named by its address.
pub(super) const ALL: [Provider; 11] = [
    Provider {
        wire: Some("anthropic"),
        ..Provider::new("anthropic", "Anthropic", "https://api.anthropic.com")
            .key("ANTHROPIC_API_KEY")
            .model("claude-sonnet-5-5")
    },
    Provider {
        wire: Some("responses"),
        ..Provider::new("openai", "OpenAI", "https://api.openai.com/v1").key("OPENAI_API_KEY").model("gpt-6.1-sol")
    },
    Provider::new("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai")
        .key("GEMINI_API_KEY")
        .model("models/gemini-3.8-flash"),
    Provider {
        echoes: true,
        ..Provider::new("deepseek", "DeepSeek", "https://api.deepseek.com/v1")
            .key("DEEPSEEK_API_KEY")
            .model("deepseek-v4-pro")
    },
    Provider::new("mistral", "Mistral", "https://api.mistral.ai/v1")
        .key("MISTRAL_API_KEY")
        .model("mistral-large-latest"),
    Provider::new("openrouter", "OpenRouter", "https://openrouter.ai/api/v1")
        .key("OPENROUTER_API_KEY")
        .model("qwen/qwen3-coder"),
    Provider::new("groq", "Groq", "https://api.groq.com/openai/v1").key("GROQ_API_KEY").model("openai/gpt-oss-120b"),
    Provider::local(LOCAL_SERVERS[0]),
    Provider::local(LOCAL_SERVERS[1]),
    Provider::local(LOCAL_SERVERS[2]),
    Provider::local(LOCAL_SERVERS[3]),
];

/// The one of that name, however it is written.
pub(super) fn named(name: &str) -> Option<&'static Provider> {
    let plain =
        |name: &str| -> String { name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase() };
    ALL.iter().find(|provider| plain(provider.name) == plain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_written() {
        for (name, expected) in
            [("OpenAI", "openai"), ("llamacpp", "llama.cpp"), ("lmstudio", "lm-studio"), ("vLLM", "vllm")]
        {
            assert_eq!(named(name).unwrap().name, expected);
        }
        assert_eq!(named("nobody"), None);
        assert!(ALL.iter().all(|provider| url::Url::parse(provider.base_url).is_ok()));
    }
}
