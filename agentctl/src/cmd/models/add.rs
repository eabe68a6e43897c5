//! `agentctl models add`: adds a model to `models.yaml`, stores its key in a private file, and tests it. The provider
//! table covers hosted providers and servers that users run themselves.

use std::{
    io::{self, Read as _},
    path::PathBuf,
};

use agentd_core::model::{ListedModel, Slot};
use agentd_proto::local_servers::{self, LOCAL_SERVERS, LocalServer};
use clap::Args;
use serde_json::Value;

use crate::{
    cmd::{models, own_file},
    daemon::{self, Daemon},
    exit::Exit,
    failure::Failure,
    flags::Global,
    input::SilenceNotice,
    terminal::{ask, clean_line, is_attended, note},
};

/// Wire protocol of OpenAI, which few other servers support.
const RESPONSES: &str = "responses";

/// Maximum number of models shown for selection.
const MAX_SHOWN: usize = 40;

/// Maximum bytes of a key.
const MAX_KEY: u64 = 16 * 1024;

/// The arguments of `models add`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agentctl models add                     choose a provider, or a server found on this machine
  agentctl models add anthropic           asks for the key, which is not shown
  agentctl models add ollama --id qwen3 --slot code
  agentctl models add --base-url http://10.0.0.5:8000/v1
  pass show openai | agentctl models add openai --key-stdin --id gpt-5
  agentctl models add openai --key-command 'pass show openai'

Providers: anthropic, openai, gemini, deepseek, mistral, openrouter, groq, xai, moonshot, zai, dashscope, cerebras, \
github; servers: ollama, llama.cpp, lm-studio, vllm.

The key is stored in keys/ beside models.yaml, in a file that only you can read. The daemon loads the new \
configuration at once, and the model is tested. If the server has to list its models and cannot, nothing is changed.")]
pub(crate) struct AddArgs {
    /// Provider, or kind of server
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,
    /// Slot that gets the model
    #[arg(long, value_name = "SLOT", default_value_t)]
    slot: Slot,
    /// Address of the server, up to and including /v1
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Wire protocol of the server, if it is not chat completions
    #[arg(long, value_name = "WIRE")]
    wire: Option<String>,
    /// Id of the model [default: chosen from the server's list]
    #[arg(long, value_name = "MODEL")]
    id: Option<String>,
    /// Read the key from standard input
    #[arg(long)]
    key_stdin: bool,
    /// Shell command that prints the key, run by the daemon when it needs one
    #[arg(long, value_name = "COMMAND", conflicts_with = "key_stdin")]
    key_command: Option<String>,
    /// Replace the slot in models.yaml
    #[arg(long)]
    replace: bool,
    /// Do not test the model
    #[arg(long)]
    no_test: bool,
}

/// Runs the command `agentctl models add`.
pub(super) async fn handle(global: &Global, args: AddArgs) -> anyhow::Result<Exit> {
    daemon::refuse_host(global, "models add")?;
    let present = is_attended();
    let Some(chosen) = choose(&args, present).await? else { return Ok(Exit::Cancelled) };
    let own = OwnFiles::read(args.slot)?;
    if has(&own.text, args.slot) && !args.replace {
        let mut replaces = false;
        if present {
            let question = format!("models.yaml already has {}. Replace it? [y/N] ", args.slot);
            let Some(input) = ask::line(&question)? else { return Ok(Exit::Cancelled) };
            replaces = matches!(input.trim(), "y" | "Y" | "yes");
        }
        if !replaces {
            let hint = "--replace replaces it; --slot names another slot";
            anyhow::bail!(Failure::usage(format!("{} already sets {}", own.path.display(), args.slot)).hint(hint));
        }
    }
    let key = if args.key_command.is_some() { Some(String::new()) } else { key(chosen, args.key_stdin, present)? };
    let Some(key) = key else { return Ok(Exit::Cancelled) };
    let daemon = daemon::connect(global).await?;
    let key = (!key.is_empty()).then_some(key);
    // Most servers at other URLs only support chat completions.
    let wire = chosen.wire.filter(|wire| args.base_url.is_none() || *wire != RESPONSES);
    let unlisted = chosen.model.filter(|_| !chosen.lists && args.base_url.is_none());
    let mut entry = SlotEntry {
        base_url: args.base_url.clone().unwrap_or_else(|| chosen.base_url.to_owned()),
        wire: args.wire.clone().or(wire.map(str::to_owned)),
        key_file: key.as_ref().map(|_| format!("keys/{}.key", args.slot)),
        key_command: args.key_command.clone(),
        id: args.id.clone().or(unlisted.map(str::to_owned)),
        echoes: chosen.echoes,
    };
    let added = apply_and_check(&daemon, &own, &args, &mut entry, key.as_deref(), chosen.model, present).await;
    if let Err(error) = added {
        own.restore()?;
        // The daemon already runs with the restored content, so a failed reload changes nothing.
        let _ = daemon.client.reload().await;
        note("nothing was changed");
        return Err(error);
    }
    own.remove_backup();
    note(&format!("{} is now {}", args.slot, clean_line(entry.id.as_deref().unwrap_or_default())));
    if args.no_test {
        return Ok(Exit::Done);
    }
    models::test(global, args.slot).await
}

/// Writes the slot, reloads the daemon, and lists the server's models.
async fn apply_and_check(
    daemon: &Daemon,
    own: &OwnFiles,
    args: &AddArgs,
    entry: &mut SlotEntry,
    key: Option<&str>,
    suggested: Option<&str>,
    present: bool,
) -> anyhow::Result<()> {
    if own.existed {
        // Written next to the file, in case the command is interrupted.
        own_file::replace_private(&own.backup_path(), &own.text)?;
    }
    if let Some(key) = key {
        let written = own_file::replace_private(&own.key_path, &format!("{key}\n"));
        written.map_err(Failure::of_file("write", &own.key_path))?;
    }
    own.write(&with(&own.text, args.slot, entry))?;
    daemon.client.reload().await?;
    let slots = daemon.client.models().await?;
    let in_force = slots.iter().find(|info| info.slot == args.slot).and_then(|info| info.model.base_url.clone());
    if in_force.as_deref().and_then(origin) != origin(&entry.base_url) {
        let hint = "MODEL_* variables of the daemon's environment override the file: start it without them";
        anyhow::bail!(Failure::usage("the daemon uses another model in this slot than models.yaml").hint(hint));
    }
    if entry.id.is_none() {
        let listed = daemon.client.listed_models(args.slot).await.inspect_err(|_| {
            if key.is_some() || entry.key_command.is_some() {
                note("check the key; with --id MODEL the list is not requested");
            }
        })?;
        entry.id = Some(pick(&listed, suggested, present)?);
        own.write(&with(&own.text, args.slot, entry))?;
        daemon.client.reload().await?;
    }
    Ok(())
}

/// Returns the scheme, host and port of a URL. Paths are ignored, because the daemon normalizes them.
fn origin(address: &str) -> Option<url::Origin> {
    url::Url::parse(address).ok().map(|url| url.origin())
}

/// Returns the named provider, or lets the user choose one. Returns `None` if the user cancels.
async fn choose(args: &AddArgs, present: bool) -> anyhow::Result<Option<&'static Provider>> {
    if let Some(name) = &args.provider {
        let known = || PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", ");
        let provider = named(name).ok_or_else(|| {
            Failure::usage(format!("no such provider: {name}"))
                .hint(format!("known providers: {}; for any other server use --base-url", known()))
        })?;
        return Ok(Some(provider));
    }
    if args.base_url.is_some() {
        return Ok(Some(&CUSTOM));
    }
    if !present {
        anyhow::bail!(Failure::usage("missing provider").hint("agentctl models add anthropic; --help lists them"));
    }
    let found = local_servers::listening().await;
    let found: Vec<&'static Provider> = found.into_iter().filter_map(|server| named(server.name)).collect();
    let hosted_providers = PROVIDERS.iter().filter(|provider| provider.variable.is_some());
    let offered: Vec<&'static Provider> = found.iter().copied().chain(hosted_providers).collect();
    for (at, provider) in offered.iter().enumerate() {
        let address = match provider.variable {
            None => format!("found at {}", provider.base_url),
            Some(_) => provider.base_url.to_owned(),
        };
        note(&format!("{:>3}  {:<14} {address}", at + 1, provider.title));
    }
    if found.is_empty() {
        note("     (no Ollama, llama.cpp, LM Studio or vLLM listens on its usual port here)");
    }
    loop {
        let Some(input) = ask::line("number or name: ")? else { return Ok(None) };
        match ask::numbered(&input, &offered).copied().or_else(|| named(&input)) {
            Some(provider) => return Ok(Some(provider)),
            None => note(&clean_line(&format!("`{input}` is not one of the choices"))),
        }
    }
}

/// Reads the key from standard input, this shell's variable, or the terminal. Returns an empty key if the provider
/// needs none, and `None` if the user cancels.
fn key(chosen: &Provider, from_stdin: bool, present: bool) -> anyhow::Result<Option<String>> {
    if from_stdin {
        let mut text = String::new();
        let _notice = SilenceNotice::watch("the key");
        io::stdin().lock().take(MAX_KEY).read_to_string(&mut text)?;
        return Ok(Some(text.trim().to_owned()));
    }
    let Some(variable) = chosen.variable else { return Ok(Some(String::new())) };
    let shell_key = std::env::var(variable).ok().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    let missing_key = || Failure::usage(format!("{} requires a key", chosen.title));
    if !present {
        let hint = format!("set {variable}, or pass it with --key-stdin");
        return Ok(Some(shell_key.ok_or_else(|| missing_key().hint(hint))?));
    }
    let or_else = if shell_key.is_some() { format!(", Enter uses ${variable}") } else { String::new() };
    let typed = ask::hidden(&format!("key of {} (not shown{or_else}): ", chosen.title))?;
    let Some(typed) = typed else { return Ok(None) };
    let typed = Some(typed.trim().to_owned()).filter(|key| !key.is_empty());
    Ok(Some(typed.or(shell_key).ok_or_else(missing_key)?))
}

/// Chooses one of the listed models.
fn pick(listed: &[ListedModel], suggested: Option<&str>, present: bool) -> anyhow::Result<String> {
    let Some(first) = listed.first() else {
        anyhow::bail!(Failure::usage("the server lists no models").hint("load one there, or name it with --id"));
    };
    let suggested = suggested.filter(|id| listed.iter().any(|model| model.id == *id)).unwrap_or(&first.id);
    if !present || listed.len() == 1 {
        return Ok(suggested.to_owned());
    }
    for (at, model) in listed.iter().take(MAX_SHOWN).enumerate() {
        note(&format!("{:>3}  {}", at + 1, clean_line(&model.id)));
    }
    if listed.len() > MAX_SHOWN {
        note(&format!("     … and {} more", listed.len() - MAX_SHOWN));
    }
    loop {
        let Some(input) = ask::line(&format!("model, by number or id [{}]: ", clean_line(suggested)))? else {
            return Err(Failure::usage("no model was chosen").into());
        };
        let input = input.trim();
        let named = listed.iter().find(|model| model.id == input).or_else(|| ask::numbered(input, listed));
        match named {
            _ if input.is_empty() => return Ok(suggested.to_owned()),
            Some(model) => return Ok(model.id.clone()),
            None => note(&clean_line(&format!("the server does not list `{input}`"))),
        }
    }
}

/// The user's `models.yaml` and the key file, with their previous content.
struct OwnFiles {
    path: PathBuf,
    text: String,
    existed: bool,
    key_path: PathBuf,
    key_before: Option<String>,
}

impl OwnFiles {
    /// Reads the files of a slot. Each slot has its own key file, so that a server never receives another server's
    /// key.
    fn read(slot: Slot) -> anyhow::Result<Self> {
        let folder = daemon::config_dir()?;
        let (path, key_path) = (folder.join("models.yaml"), folder.join("keys").join(format!("{slot}.key")));
        let (existed, text) = (path.exists(), own_file::read(&path));
        let text = text.map_err(Failure::of_file("read", &path))?;
        let key_before = std::fs::read_to_string(&key_path).ok();
        Ok(Self { path, text, existed, key_path, key_before })
    }

    fn remove_backup(&self) {
        let _ = std::fs::remove_file(self.backup_path());
    }

    fn backup_path(&self) -> PathBuf {
        self.path.with_extension("yaml.before")
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        Ok(own_file::replace(&self.path, text).map_err(Failure::of_file("write", &self.path))?)
    }

    /// Restores the previous content of both files.
    fn restore(&self) -> anyhow::Result<()> {
        // A failure to restore the key must not prevent restoring the configuration.
        let key = match &self.key_before {
            Some(key) => own_file::replace_private(&self.key_path, key),
            None => {
                // Fails if the key file was never written.
                let _ = std::fs::remove_file(&self.key_path);
                Ok(())
            }
        };
        self.remove_backup();
        let now = std::fs::read_to_string(&self.path).unwrap_or_default();
        match self.existed {
            true if now != self.text => self.write(&self.text)?,
            false if !now.is_empty() => drop(std::fs::remove_file(&self.path)),
            _ => {}
        }
        Ok(key?)
    }
}

/// A provider, or a kind of local server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Provider {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// Name shown to users.
    pub(super) title: &'static str,
    /// Base URL of the API.
    pub(super) base_url: &'static str,
    /// Wire protocol in `models.yaml`; `None` for the default.
    pub(super) wire: Option<&'static str>,
    /// Environment variable with the key, as used by the provider's own programs; `None` if no key is needed.
    pub(super) variable: Option<&'static str>,
    /// True if the models require their reasoning to be sent back.
    echoes: bool,
    /// False if the server does not list its models. The suggested model is then used.
    lists: bool,
    /// Suggested model, if the server lists it.
    pub(super) model: Option<&'static str>,
}

impl Provider {
    /// Creates a provider that needs a key.
    const fn new(
        name: &'static str,
        title: &'static str,
        base_url: &'static str,
        key: &'static str,
        model: &'static str,
    ) -> Self {
        Self { name, title, base_url, wire: None, variable: Some(key), echoes: false, lists: true, model: Some(model) }
    }

    const fn local(server: LocalServer) -> Self {
        Self { name: server.name, title: server.title, base_url: server.base_url, ..CUSTOM }
    }
}

/// A server that is defined only by its URL.
const CUSTOM: Provider = Provider { variable: None, model: None, ..Provider::new("", "", "", "", "") };

/// All known providers. Other servers are given by their URL.
const PROVIDERS: [Provider; 17] = [
    Provider {
        wire: Some("anthropic"),
        ..Provider::new("anthropic", "Anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", "claude-sonnet-5-5")
    },
    Provider {
        wire: Some(RESPONSES),
        ..Provider::new("openai", "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-6.1-sol")
    },
    Provider::new("gemini", "Google Gemini", GEMINI, "GEMINI_API_KEY", "models/gemini-3.8-flash"),
    Provider {
        echoes: true,
        ..Provider::new("deepseek", "DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-v4-pro")
    },
    Provider::new("mistral", "Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-large-latest"),
    Provider::new("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "qwen/qwen3-coder"),
    Provider::new("groq", "Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-120b"),
    Provider::new("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", "grok-4.7"),
    Provider {
        echoes: true,
        ..Provider::new("moonshot", "Moonshot AI", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "kimi-k3")
    },
    Provider::new("zai", "Z.ai (GLM)", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY", "glm-5.3"),
    Provider::new("dashscope", "DashScope (Qwen)", DASHSCOPE, "DASHSCOPE_API_KEY", "qwen3.8-max"),
    Provider::new("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "gpt-oss-120b"),
    Provider {
        lists: false,
        ..Provider::new("github", "GitHub Models", "https://models.github.ai/inference", "GITHUB_TOKEN", "openai/gpt-5")
    },
    Provider::local(LOCAL_SERVERS[0]),
    Provider::local(LOCAL_SERVERS[1]),
    Provider::local(LOCAL_SERVERS[2]),
    Provider::local(LOCAL_SERVERS[3]),
];

/// Base URL of Gemini for chat completions.
const GEMINI: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

/// Base URL of DashScope for chat completions, outside of mainland China.
const DASHSCOPE: &str = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";

/// Finds a provider by name, ignoring case and punctuation.
pub(super) fn named(name: &str) -> Option<&'static Provider> {
    let plain =
        |name: &str| -> String { name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase() };
    PROVIDERS.iter().find(|provider| plain(provider.name) == plain(name))
}

/// Settings of a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SlotEntry {
    base_url: String,
    wire: Option<String>,
    key_file: Option<String>,
    key_command: Option<String>,
    id: Option<String>,
    echoes: bool,
}

impl SlotEntry {
    fn yaml(&self, slot: Slot) -> String {
        // JSON strings are valid YAML. `${` in values from a server is escaped, so that it is not expanded as a
        // variable.
        let quoted = |text: &str| Value::from(text.replace("${", "$${")).to_string();
        let mut yaml = format!("{slot}:\n  base_url: {}\n", quoted(&self.base_url));
        let settings = [
            ("wire", &self.wire),
            ("api_key_file", &self.key_file),
            ("api_key_command", &self.key_command),
            ("id", &self.id),
        ];
        let line = |(name, value): (&str, &Option<String>)| Some(format!("  {name}: {}\n", quoted(value.as_deref()?)));
        yaml.extend(settings.into_iter().filter_map(line));
        if self.echoes {
            yaml.push_str("  echo_reasoning: true\n");
        }
        yaml
    }
}

/// Returns true if the text has an entry for the slot.
fn has(text: &str, slot: Slot) -> bool {
    text.lines().any(|line| begins(line, slot))
}

/// Returns the text with the slot's entry added or replaced.
fn with(text: &str, slot: Slot, entry: &SlotEntry) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let yaml = entry.yaml(slot);
    let Some(at) = lines.iter().position(|line| begins(line, slot)) else {
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return format!("{text}{gap}{yaml}");
    };
    let below =
        lines[at + 1..].iter().take_while(|line| !own_file::is_content(line) || line.starts_with([' ', '\t', '}']));
    let mut end = at + 1 + below.count();
    // Comments before the next slot belong to that slot.
    while end > at + 1 && !own_file::is_content(lines[end - 1]) {
        end -= 1;
    }
    format!("{}{yaml}{}", lines[..at].concat(), lines[end..].concat())
}

fn begins(line: &str, slot: Slot) -> bool {
    line.trim_start_matches(['"', '\''])
        .strip_prefix(slot.as_str())
        .is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn provider_names_match_any_spelling() {
        for (name, expected) in
            [("OpenAI", "openai"), ("llamacpp", "llama.cpp"), ("lmstudio", "lm-studio"), ("vLLM", "vllm")]
        {
            assert_eq!(named(name).unwrap().name, expected);
        }
        assert_eq!(named("nobody"), None);
        assert!(PROVIDERS.iter().all(|provider| url::Url::parse(provider.base_url).is_ok()));
        for name in ["OpenRouter", "xAI", "Moonshot", "Z.ai", "DashScope", "Cerebras", "GitHub"] {
            assert!(named(name).unwrap().base_url.starts_with("https://"), "{name}");
        }
    }

    fn entry() -> SlotEntry {
        SlotEntry { base_url: "http://h/v1".to_owned(), id: Some("m: 1".to_owned()), ..SlotEntry::default() }
    }

    const BASE_ENTRY: &str = "base:\n  base_url: \"http://h/v1\"\n  id: \"m: 1\"\n";

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(with(text, Slot::Base, &entry()), expected, "{text}");
    }

    #[test]
    fn other_slots_are_preserved_verbatim() {
        check("", BASE_ENTRY);
        check("# mine\ncode: {id: x}", &format!("# mine\ncode: {{id: x}}\n{BASE_ENTRY}"));
        check("base: {id: x}\n\n# of code\ncode: {id: x}\n", &format!("{BASE_ENTRY}\n# of code\ncode: {{id: x}}\n"));
        check(
            "base:\n  id: x\n  # why\n  prices:\n    input: 1\ncode:\n  id: y\n",
            &format!("{BASE_ENTRY}code:\n  id: y\n"),
        );
        check("base: {id: x,\n  b: 1\n}\nchat: {}\n", &format!("{BASE_ENTRY}chat: {{}}\n"));
        check("\"base\" : {id: x}\n", BASE_ENTRY);
        assert!(has("base:\n", Slot::Base) && !has("based: 1\n # base:\n  base: 2", Slot::Base));
    }

    #[test]
    fn all_settings_are_written() {
        let entry = SlotEntry {
            wire: Some("anthropic".to_owned()),
            key_file: Some("keys/a.key".to_owned()),
            echoes: true,
            ..entry()
        };
        let expected = "code:\n  base_url: \"http://h/v1\"\n  wire: \"anthropic\"\n  api_key_file: \"keys/a.key\"\n  id: \"m: 1\"\n  \
                        echo_reasoning: true\n";
        assert_eq!(with("", Slot::Code, &entry), expected);
        let entry = SlotEntry { id: Some("${OPENAI_API_KEY}".to_owned()), ..entry };
        assert!(with("", Slot::Base, &entry).contains("id: \"$${OPENAI_API_KEY}\""), "the value contains no variable");
        let entry = SlotEntry { key_file: None, key_command: Some("pass ${WHICH}".to_owned()), ..entry };
        assert!(
            with("", Slot::Base, &entry).contains("  api_key_command: \"pass $${WHICH}\"\n"),
            "the shell expands it"
        );
    }

    proptest! {
        #[test]
        fn writing_a_slot_twice_is_idempotent(text in "((base|code|chat|# x|  id: 1|): ?(x|\\{\\}|)\n?){0,8}") {
            let once = with(&text, Slot::Base, &entry());
            prop_assert!(once.contains(BASE_ENTRY));
            prop_assert_eq!(with(&once, Slot::Base, &entry()), once.clone());
        }
    }
}
