//! Table tests for the layers: files and variables as input, values or errors as output.

use std::{path::PathBuf, time::Duration};

use agentd_core::model::Slot;
use agentd_models::{Certificates, Fallback, Wire};
use secrecy::ExposeSecret;

use crate::config::{yaml::BoundedInt, *};

fn file(subject: Subject, text: &str) -> SourceFile {
    SourceFile {
        subject,
        origin: Origin::User(PathBuf::from("/conf").join(subject.file_name())),
        text: text.to_owned(),
    }
}

/// Returns sources with these user files above the built-in files.
pub(super) fn sources(files: &[(Subject, &str)], env: &[(&str, &str)]) -> Sources {
    let mut all = layers::built_in();
    all.extend(files.iter().map(|(subject, text)| file(*subject, text)));
    Sources { files: all, plugins: Default::default(), env: env.iter().copied().collect(), log_level: None }
}

fn config(files: &[(Subject, &str)], env: &[(&str, &str)]) -> Config {
    resolve(&sources(files, env)).unwrap()
}

/// Formats a server as `base_url|key|id`; for a local model, returns the path of its file.
fn model_at(config: &Config, slot: Slot) -> String {
    match config.models.iter().find(|(other, _)| *other == slot).map(|(_, model)| model) {
        None => "empty".to_owned(),
        Some(ModelLocation::Gguf(path)) => path.display().to_string(),
        Some(ModelLocation::Server(model)) => {
            let key = model.api_key.as_ref().map_or("-", |key| key.expose_secret());
            format!("{}|{key}|{}", model.base_url, model.id)
        }
    }
}

#[test]
fn anthropic_key_is_sent_to_its_own_address_only() {
    const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-ant");
    let check = |file: &str, env: &[(&str, &str)], slot: Slot, expected: &str| {
        let env = [&[KEY], env].concat();
        assert_eq!(model_at(&config(&[(Subject::Models, file)], &env), slot), expected, "{file} {env:?}");
    };
    const HERE: &str = "https://api.anthropic.com";
    check("base: {wire: anthropic}", &[], Slot::Base, &format!("{HERE}|sk-ant|"));
    check("base: {wire: messages, id: m}", &[], Slot::Base, &format!("{HERE}|sk-ant|m"));
    check(
        "base: {wire: anthropic, base_url: https://api.anthropic.com/v1}",
        &[],
        Slot::Base,
        &format!("{HERE}/v1|sk-ant|"),
    );
    check("base: {wire: anthropic, api_key: own}", &[], Slot::Base, &format!("{HERE}|own|"));
    check("{}", &[("MODEL_BASIC_WIRE", "anthropic")], Slot::Base, &format!("{HERE}|sk-ant|"));
    let proxy = ("ANTHROPIC_BASE_URL", "http://proxy:4000/");
    check("base: {wire: anthropic}", &[proxy], Slot::Base, "http://proxy:4000|sk-ant|");
    // The key is only used for the proxy, over Anthropic's wire.
    check("base: {wire: anthropic, base_url: http://127.0.0.1:8080}", &[], Slot::Base, "http://127.0.0.1:8080|-|");
    check("base: {wire: anthropic, base_url: https://api.anthropic.com}", &[proxy], Slot::Base, &format!("{HERE}|-|"));
    check("base: {base_url: https://api.anthropic.com/v1}", &[], Slot::Base, &format!("{HERE}/v1|-|"));
    // If base uses the other wire, it keeps its own key.
    let base = "base: {base_url: http://h/v1, api_key: other}\n";
    check(&format!("{base}code: {{wire: anthropic, id: m}}"), &[], Slot::Code, &format!("{HERE}|sk-ant|m"));
    let base = "base: {wire: anthropic, base_url: http://h, api_key: k}\n";
    check(&format!("{base}code: {{wire: anthropic, id: m}}"), &[], Slot::Code, "http://h|k|m");
    let mixed = "base: {wire: anthropic, api_key: k}\ncode: {wire: openai, id: m}";
    let error = resolve(&sources(&[(Subject::Models, mixed)], &[])).unwrap_err();
    assert!(error.to_string().contains("no address for its model"), "{error}");
}

#[test]
fn api_key_alone_selects_default_models() {
    let anthropic = ("ANTHROPIC_API_KEY", "sk-ant");
    let openai = ("OPENAI_API_KEY", "sk-o");
    let check = |env: &[(&str, &str)], slot: Slot, expected: &str| {
        assert!(
            model_at(&config(&[], env), slot).starts_with(expected),
            "{env:?}: {}",
            model_at(&config(&[], env), slot)
        );
    };
    check(&[anthropic], Slot::Base, "https://api.anthropic.com|sk-ant|claude-");
    check(&[anthropic], Slot::Reasoning, "https://api.anthropic.com|sk-ant|claude-");
    check(&[openai], Slot::Base, "https://api.openai.com/v1|sk-o|gpt-");
    check(&[openai, anthropic], Slot::Base, "https://api.anthropic.com|sk-ant|claude-");
    check(&[("OPENAI_BASE_URL", "http://proxy/v1"), openai], Slot::Base, "http://proxy/v1|sk-o|");
    check(&[("ANTHROPIC_BASE_URL", "http://proxy"), anthropic], Slot::Base, "http://proxy|sk-ant|");
    let wire = |env: &[(&str, &str)]| match config(&[], env).models.remove(0) {
        (Slot::Base, ModelLocation::Server(model)) => model.wire,
        other => panic!("{other:?}"),
    };
    // Compatible servers may support only chat completions.
    assert_eq!(wire(&[openai]), Wire::Responses);
    assert_eq!(wire(&[("OPENAI_BASE_URL", "https://api.openai.com/v1/"), openai]), Wire::Responses);
    assert_eq!(wire(&[("OPENAI_BASE_URL", "http://proxy/v1"), openai]), Wire::OpenAi);
    // A configured model takes precedence, and the key from the environment is not sent.
    check(&[openai, ("MODEL_BASIC_BASE_URL", "http://h/v1")], Slot::Base, "http://h/v1|-|");
    assert!(config(&[], &[("ANTHROPIC_API_KEY", " ")]).models.is_empty());
    let error = resolve(&sources(&[], &[openai, ("OPENAI_BASE_URL", "ftp://h")])).unwrap_err();
    assert!(error.to_string().contains("OPENAI_BASE_URL"), "{error}");
}

#[test]
fn fallback_models_are_named_or_described() {
    let text = "base: {base_url: http://h/v1, api_key: k, id: big, fallback: [chat, small, spare]}\n\
                chat: {id: talker}\ncode: {id: coder}\n\
                others: {spare: {wire: anthropic, base_url: http://other, api_key: o, id: m}}";
    let config = config(&[(Subject::Models, text)], &[]);
    let fallback = |slot: Slot| {
        let found = config.models.iter().find(|(of, _)| *of == slot);
        let Some((_, ModelLocation::Server(model))) = found else { panic!("{slot} has no server") };
        let named = model.fallback.iter().map(|fallback| match fallback {
            Fallback::Slot(slot) => format!("slot {slot}"),
            Fallback::Id(id) => format!("id {id}"),
            Fallback::Model(model) => format!("{} at {}", model.id, model.base_url),
        });
        named.collect::<Vec<_>>()
    };
    assert_eq!(fallback(Slot::Base), ["slot chat", "id small", "m at http://other"]);
    // Slots on the same server share fallbacks, but a slot is never its own fallback.
    assert_eq!(fallback(Slot::Code), ["slot chat", "id small", "m at http://other"]);
    assert_eq!(fallback(Slot::Chat), ["id small", "m at http://other"]);
    let refused = |text: &str| resolve(&sources(&[(Subject::Models, text)], &[])).unwrap_err().to_string();
    assert!(refused("others: {code: {base_url: http://h}}").contains("reserved name of a slot"));
    assert!(refused("others: {spare: {id: m}}").contains("no address for this model"));
    assert!(refused("others: {spare: {base_url: http://h, fallback: [chat]}}").contains("cannot have a `fallback`"));
    assert!(refused("others: {spare: {gguf: /m.gguf}}").contains("no address for"));
    assert!(refused("base: {base_url: http://h, fallback: [\"a\\nb\"]}").contains("not a slot or model id"));
}

#[test]
fn embeddings_name_their_folders_and_server() {
    const FILE: &str = "embeddings: {base_url: http://h/v1, api_key: hunter2, id: m, folders: [/a, b, uploads]}";
    let config = config(&[(Subject::Models, FILE)], &[]);
    let embeddings = config.embeddings.as_ref().unwrap();
    let folders: Vec<&str> = embeddings.folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    assert_eq!((embeddings.model.id.as_str(), folders), ("m", vec!["/a", "/conf/b", "workspace"]));
    assert!(config.secrets().any(|secret| secret == "hunter2") && config.models.is_empty());
    let shown = config.values.render(&config.origins, &[], &|text| text.to_owned());
    let shown = shown.iter().find(|value| value.key == "models.embeddings").unwrap();
    assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
    let refused = |text: &str| resolve(&sources(&[(Subject::Models, text)], &[])).unwrap_err().to_string();
    assert!(refused("embeddings: {id: m}").contains("models.embeddings"));
    assert!(refused("base: {base_url: http://h, folders: [/a]}").contains("only `embeddings` has `folders`"));
}

#[test]
fn shipped_files_set_every_key() {
    let config = config(&[], &[]);
    assert!(config.models.is_empty());
    assert_eq!(config.daemon.turns.max_message_history.0, None);
    assert!(config.daemon.sessions.confirm_write && config.daemon.sessions.confirm_exec);
    assert_eq!(config.daemon.tools.command_timeout.0, Duration::from_secs(120));
    assert_eq!(config.daemon.named_weights(), None);
    assert!(config.tools["read_file"].is_core);
    assert!(!config.system_prompt.is_empty());
    assert!(config.files.is_empty());
    assert!(config.origins.keys.iter().all(|(_, origin)| *origin == Origin::BuiltIn));
}

#[test]
fn layer_changes_only_its_keys_and_is_recorded() {
    let text = "turns: {max_steps: 7, max_message_history: 20}\n";
    let config = config(&[(Subject::Daemon, text)], &[("MAX_MESSAGE_HISTORY", "60")]);
    assert_eq!(config.daemon.turns.max_steps.0, Some(7));
    assert_eq!(config.daemon.turns.max_message_history.0, Some(BoundedInt(60)));
    assert_eq!(config.daemon.turns.parallel_calls.0, 8);
    let origin = |key| config.origins.keys.get(key).map(ToString::to_string);
    assert_eq!(origin("turns.max_steps").as_deref(), Some("/conf/agentd.yaml"));
    assert_eq!(origin("turns.max_message_history").as_deref(), Some("$MAX_MESSAGE_HISTORY"));
    assert_eq!(origin("turns.parallel_calls").as_deref(), Some("built-in"));
    assert_eq!(config.files, [PathBuf::from("/conf/agentd.yaml")]);
}

#[test]
fn flag_overrides_all_layers() {
    let level = "service: {log_level: warn}";
    assert_eq!(config(&[(Subject::Daemon, level)], &[("AGENTD_LOG", "trace")]).daemon.service.log_level, "trace");
    let mut sources = sources(&[(Subject::Daemon, level)], &[("AGENTD_LOG", "trace")]);
    sources.log_level = Some("debug".to_owned());
    assert_eq!(resolve(&sources).unwrap().daemon.service.log_level, "debug");
    sources.log_level = Some("loud".to_owned());
    assert_eq!(resolve(&sources).unwrap_err().to_string(), "option --log-level: invalid log level `loud`");
}

#[test]
fn models_are_read_from_files_and_variables() {
    const FILE: &str = "\
base: {base_url: 'http://file/v1', api_key: file-key, id: file-model}
reasoning: {id: thinker}
code: {gguf: coder.gguf}
vision: {gguf: ~/v.gguf}
";
    let check = |text: &str, env: &[(&str, &str)], expected: &[(Slot, &str)]| {
        let config = config(&[(Subject::Models, text)], env);
        for (slot, expected) in expected {
            assert_eq!(model_at(&config, *slot), *expected, "{slot} with {env:?}");
        }
    };
    use Slot::{Base, Chat, Code, Reasoning, Vision};
    check("", &[], &[(Base, "empty")]);
    check(
        FILE,
        &[("HOME", "/home/p")],
        &[
            (Base, "http://file/v1|file-key|file-model"),
            (Reasoning, "http://file/v1|file-key|thinker"),
            (Code, "/conf/coder.gguf"),
            (Vision, "/home/p/v.gguf"),
            (Chat, "empty"),
        ],
    );
    // A URL is sufficient, and an empty variable is treated as not set.
    check(
        "",
        &[("MODEL_BASIC_BASE_URL", "http://here:1/v1/"), ("MODEL_BASIC_ID", "")],
        &[(Base, "http://here:1/v1|-|")],
    );
    check("", &[("MODEL_BASIC_API_KEY", "k"), ("MODEL_BASIC_ID", "m")], &[(Base, "https://api.openai.com/v1|k|m")]);
    check(
        "",
        &[("MODEL_MULTIMODAL_BASE_URL", "http://v"), ("MODEL_MULTIMODAL_API_KEY", "k"), ("MODEL_MULTIMODAL_ID", "m")],
        &[(Base, "empty"), (Vision, "http://v|k|m")],
    );
    // A key in the file belongs to the URL in the file.
    check(FILE, &[("MODEL_BASIC_BASE_URL", "http://other")], &[(Base, "http://other|-|file-model")]);
    check(FILE, &[("MODEL_BASIC_BASE_URL", "http://file/v1")], &[(Base, "http://file/v1|file-key|file-model")]);
    check(FILE, &[("MODEL_BASIC_API_KEY", "env-key")], &[(Base, "http://file/v1|env-key|file-model")]);
    check(FILE, &[("MODEL_CODE_BASE_URL", "http://c")], &[(Code, "http://c|-|")]);
    check(FILE, &[("MODEL_CHAT_ID", "talker")], &[(Chat, "http://file/v1|file-key|talker")]);
}

#[test]
fn context_window_can_be_set_by_a_variable() {
    let window = |text: &str, slot: Slot, env: &[(&str, &str)]| {
        let config = config(&[(Subject::Models, text)], env);
        config.models.iter().find_map(|(other, model)| match model {
            ModelLocation::Server(model) if *other == slot => model.context_window,
            _ => None,
        })
    };
    const FILE: &str = "base: {base_url: 'http://file/v1', context_window: 9000}";
    const BASIC: (&str, &str) = ("MODEL_BASIC_CONTEXT_WINDOW", " 65536 ");
    assert_eq!(window(FILE, Slot::Base, &[BASIC]), Some(65_536));
    assert_eq!(window(FILE, Slot::Base, &[("MODEL_BASIC_CONTEXT_WINDOW", "")]), Some(9000));
    assert_eq!(window("", Slot::Base, &[BASIC, ("MODEL_BASIC_BASE_URL", "http://here/v1")]), Some(65_536));
    assert_eq!(window("", Slot::Base, &[BASIC]), None, "the slot has no model");
    assert_eq!(window(FILE, Slot::Chat, &[("MODEL_CHAT_CONTEXT_WINDOW", "4096")]), Some(4096));
}

#[test]
fn api_key_can_be_read_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "from-file\n").unwrap();
    let text = format!("base: {{base_url: 'http://x', api_key_file: {}}}", path.display());
    let config = config(&[(Subject::Models, &text)], &[]);
    assert_eq!(model_at(&config, Slot::Base), "http://x|from-file|");
    assert_eq!(config.secrets().collect::<Vec<_>>(), ["from-file"]);
    assert!(!format!("{config:?}").contains("from-file"));
}

/// Returns the path of a test certificate.
fn certificate(name: &str) -> String {
    format!("{}/../tests/suite/e2e/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn account_settings_are_checked_and_errors_name_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, two_lines] = ["empty", "two"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&two_lines, "hunter2\nhunter2\n").unwrap();
    let (ca, client, key, server_key, other) = (
        certificate("ca.pem"),
        certificate("client.pem"),
        certificate("client.key"),
        certificate("server.key"),
        certificate("stranger.pem"),
    );
    let resolved = |settings: &str| {
        let text = format!("base:\n  base_url: http://x\n  {settings}\n");
        resolve(&sources(&[(Subject::Models, &text)], &[("PASS", "hunter2"), ("EMPTY", "")]))
    };
    for valid in [
        format!("ca_file: {ca}"),
        format!("client_cert_file: {other}"),
        format!("client_cert_file: {client}\n  client_key_file: {key}"),
        format!("api_key_file: {empty}"),
        "ca_file: ${EMPTY:-}".to_owned(),
        "api_key_command: pass show ${PASS}\n  timeouts: {key_command: 1m}".to_owned(),
    ] {
        let config = resolved(&valid).unwrap_or_else(|error| panic!("{valid}: {error}"));
        assert!(!format!("{config:?}").contains("hunter2"), "{valid}");
    }
    const ONE: &str = "only one of `api_key`, `api_key_file` and `api_key_command`";
    let refused = |settings: &str, parts: &[&str]| {
        let error = resolved(settings).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is missing in {error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    };
    refused("api_key: hunter2\n  api_key_command: echo hunter2", &["models.yaml:4", ONE]);
    refused(&format!("api_key_file: {empty}\n  api_key: hunter2"), &["models.yaml", ONE]);
    refused("api_key_file: none\n  api_key_command: echo hunter2", &["models.yaml:4", ONE]);
    refused(&format!("api_key_file: {two_lines}"), &["models.yaml:3", "more than one line", &two_lines]);
    refused("api_key_file: /dev/zero", &["models.yaml:3", "/dev/zero", "regular file"]);
    refused("api_key_comand: echo hunter2", &["did you mean `api_key_command`?"]);
    refused("ca_file: none.pem", &["models.yaml:3", "/conf/none.pem", "No such file"]);
    refused(&format!("ca_file: {key}"), &["models.yaml:3", "client.key is not a PEM file of certificates", "none"]);
    refused("ca_file: /dev/zero", &["regular file"]);
    refused(&format!("client_cert_file: {client}"), &["client.pem does not have a PEM certificate", "not found"]);
    refused(&format!("client_key_file: {key}"), &["models.yaml:3", "`client_cert_file`, which is not set"]);
    let mismatch = format!("client_cert_file: {client}\n  client_key_file: {server_key}");
    refused(
        &mismatch,
        &["models.yaml:3", "client.pem does not have a PEM certificate", "an unencrypted key in", "server.key"],
    );
    refused("timeouts: {key_comand: 1s}", &["did you mean `key_command`?"]);
}

#[test]
fn accounts_are_shared_with_the_server_and_dropped_with_its_address() {
    let (ca, other) = (certificate("ca.pem"), certificate("stranger.pem"));
    let text = format!(
        "base: {{base_url: 'http://file', api_key_command: echo k, api_key_header: x-key, ca_file: '{ca}', \
         client_cert_file: '{other}', timeouts: {{key_command: 5s}}}}\ncode: {{id: coder}}\n\
         chat: {{base_url: 'http://chat', id: c}}\nothers: {{spare: {{base_url: 'http://s', api_key_command: echo s}}}}\n\
         reasoning: {{id: r, fallback: [spare]}}\n"
    );
    let account = |env: &[(&str, &str)], slot: Slot| {
        let config = config(&[(Subject::Models, &text)], env);
        let Some((_, ModelLocation::Server(model))) = config.models.into_iter().find(|(other, _)| *other == slot)
        else {
            panic!("{slot} has no server")
        };
        (*model, config.origins)
    };
    let (base, _) = account(&[], Slot::Base);
    let (code, origins) = account(&[], Slot::Code);
    for model in [&base, &code] {
        assert_eq!(model.key_timeout_ms, 5_000);
        assert_eq!(model.api_key_header.as_deref(), Some("x-key"));
        assert!(model.api_key.is_none() && model.renewable_key.is_some());
        let Certificates { ca_file, client_cert_file, client_key_file } = &model.certificates;
        assert_eq!((ca_file, client_cert_file), (&Some(ca.clone().into()), &Some(other.clone().into())));
        assert_eq!(*client_key_file, None);
    }
    assert!(origins.keys.contains_key("models.base.api_key") && origins.keys.contains_key("models.base.ca_file"));
    for (env, slot) in [(("A", "b"), Slot::Chat), (("MODEL_BASIC_BASE_URL", "http://other"), Slot::Base)] {
        let (model, _) = account(&[env], slot);
        assert!(model.renewable_key.is_none() && model.certificates == Certificates::default(), "{slot}");
        assert_eq!(model.api_key_header, None, "{slot}: the header of another server");
    }
    let (base, _) = account(&[("MODEL_BASIC_API_KEY", "k")], Slot::Base);
    assert!(base.api_key.is_some() && base.renewable_key.is_none());
    let config = config(&[(Subject::Models, &text)], &[]);
    let keys: Vec<_> = config.renewable_keys().collect();
    assert_eq!(keys.len(), 4, "of base, code, reasoning, and the fallback");
    assert!(Arc::ptr_eq(keys[0], keys[1]) || Arc::ptr_eq(keys[0], keys[2]), "one key for one server");
}

#[test]
fn hint_of_a_refused_key_names_its_source() {
    let check = |models: &str, dotenv: &str, env: &[(&str, &str)], expected: &str| {
        let config = config(&[(Subject::Models, models), (Subject::Dotenv, dotenv)], env);
        let Some((_, ModelLocation::Server(model))) = config.models.first() else { panic!("{models}") };
        let source = model.key_source.as_deref().unwrap_or("-");
        assert!(source.ends_with(expected), "{source} for {models} {dotenv} {env:?}");
        assert!(!source.contains("hunter2"), "{source}");
    };
    const FILE: &str = "# mine\nbase:\n  base_url: http://x\n  api_key: hunter2\n";
    check(FILE, "", &[], "/models.yaml:4");
    check("base:\n  base_url: http://x\n  api_key: \"${WHALE}\"\n", "", &[("WHALE", "hunter2")], "/models.yaml:3");
    let variable = ("MODEL_BASIC_API_KEY", "hunter2");
    check(FILE, "", &[variable], "`MODEL_BASIC_API_KEY` of the daemon's environment");
    check(FILE, "MODEL_BASIC_API_KEY=hunter2", &[], "/.env");
    check(FILE, "MODEL_BASIC_API_KEY=other", &[variable], "of the daemon's environment");
    check("{}", "", &[("OPENAI_API_KEY", "hunter2")], "`OPENAI_API_KEY` of the daemon's environment");
    let anthropic = ("ANTHROPIC_API_KEY", "hunter2");
    check("base: {wire: anthropic}", "", &[anthropic], "`ANTHROPIC_API_KEY` of the daemon's environment");
    check("base: {base_url: http://x}", "", &[], "-");
}

#[test]
fn both_tool_groups_are_read() {
    let text =
        "optional:\n  run_bash_command:\n    enabled: false\n    tags: [\"execute\"]\n  fetch_web: {enabled: true}\n";
    let tools = config(&[(Subject::Tools, text)], &[]).tools;
    assert_eq!(tools["run_bash_command"].enabled, Some(ToolSwitch::WhenMentioned));
    assert_eq!(tools["run_bash_command"].category.as_deref(), Some("execute"));
    assert_eq!(tools["read_url"].enabled, Some(ToolSwitch::Always), "resolved from a name in another system");
    assert!(!tools.contains_key("fetch_web"));
    let both = "optional: {read_url: {enabled: never}, fetch_web: {enabled: true, category: web}}";
    let tools = config(&[(Subject::Tools, both)], &[]).tools;
    assert_eq!(tools["read_url"].enabled, Some(ToolSwitch::Never));
    assert_eq!(tools["read_url"].category.as_deref(), Some("web"));
}

#[test]
fn errors_have_a_location_and_a_suggestion() {
    let check = |subject: Subject, text: &str, message: &str, hint: &str| {
        let error = resolve(&sources(&[(subject, text)], &[])).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{:?}", error.hint());
    };
    use Subject::{Daemon, Models};
    check(
        Models,
        "base:\n  tempreture: 0.2\n",
        "/conf/models.yaml:2:3: unknown key `tempreture`, did you mean `temperature`?",
        "expected one of: base_url, api_key",
    );
    check(
        Models,
        "base: {wire: opnai}",
        "/conf/models.yaml:1:14: unknown value `opnai`, did you mean `openai`?",
        "llamacpp",
    );
    check(Models, "base: {temperature: 9}", "/conf/models.yaml:1:21: temperature must be from 0 to 2", "");
    check(
        Models,
        "base:\n  base_url: user:pw@x\n",
        "/conf/models.yaml:2:13: base_url must start with http:// or https://",
        "",
    );
    check(
        Models,
        "base: {id: x}",
        "models.base: the slot has settings, but no address for its model",
        "MODEL_BASIC_BASE_URL",
    );
    check(
        Models,
        "base:\n  base_url: http://x\n  api_key: ${GONE}\n",
        "/conf/models.yaml:3:12: the environment variable GONE is not set; write ${GONE:-} if it is optional",
        "",
    );
    check(
        Models,
        "base: {base_url: http://x, gguf: x}",
        "/conf/models.yaml:1:34: a slot has either `gguf` or `base_url`, not both",
        "",
    );
    check(Models, "base: {id: a, id: b}", "/conf/models.yaml:1:15: duplicate key `id`", "");
    check(
        Daemon,
        "turns:\n  time_limit: soon\n",
        "/conf/agentd.yaml:2:15: `soon` is not a time such as 250ms, 30s, 5m, 2h or 7d, or never",
        "",
    );
    check(Daemon, "turns: {parallel_calls: 0}", "/conf/agentd.yaml:1:25: `0` is not a number from 1 to 64", "");
}

#[test]
fn web_settings_are_read_and_invalid_ones_reported() {
    let web = |text: &str| resolve(&sources(&[(Subject::Web, text)], &[("WHALE", "hunter2")])).map(|config| config.web);
    let plain = web("").unwrap();
    assert_eq!((plain.max_redirects, plain.allow.len(), plain.search.is_none()), (5, 0, true));
    let set = web("fetch: {allow: ['localhost:8888', 10.0.0.0/8], contact: me@example.org, timeout: 5s}").unwrap();
    let allowed: Vec<String> = set.allow.iter().map(ToString::to_string).collect();
    assert_eq!((allowed.join(" ").as_str(), set.timeout.as_secs()), ("localhost:8888 10.0.0.0/8", 5));
    assert!(set.agent().ends_with(" (+me@example.org)"), "{}", set.agent());
    let search = web("search: {provider: brave, api_key_env: WHALE}").unwrap().search.unwrap();
    assert_eq!(search.base_url.host_str(), Some("api.search.brave.com"));
    assert_eq!(search.api_key.unwrap().expose_secret(), "hunter2");
    let config = config(&[(Subject::Web, "search: {provider: tavily, api_key_env: WHALE}")], &[("WHALE", "hunter2")]);
    assert_eq!(config.secrets().collect::<Vec<_>>(), ["hunter2"]);
    assert!(!format!("{config:?}").contains("hunter2"));
    for (text, parts) in [
        ("fetch: {timeuot: 3s}", ["web.yaml:1:9", "did you mean `timeout`?"]),
        ("fetch: {allow: ['http://localhost']}", ["web.yaml:1:17", "neither a host"]),
        ("fetch: {contact: 'a b'}", ["web.yaml:1:18", "without spaces"]),
        ("fetch: {max_bytes: 1}", ["web.yaml:1:20", "from 1024"]),
        ("search: {provider: google}", ["web.yaml:1:20", "google"]),
        ("search: {provider: searxng}", ["search.base_url", "has no default address"]),
        ("search: {provider: json, base_url: 'ftp://a:hunter2@b'}", ["search.base_url", "must start with http"]),
        ("search: {provider: json, base_url: 'http://a:hunter2@b'}", ["search.base_url", "user name or password"]),
        ("search: {provider: brave}", ["search.api_key_env", "requires a key"]),
        (
            "search: {provider: tavily, api_key_env: tvly-hunter2}",
            ["search.api_key_env", "not the name of an environment"],
        ),
    ] {
        let error = web(text).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn broken_yaml_is_reported_with_its_line() {
    for text in ["base: [", "base:\n\t- x", "- a\n- b", "base: *nowhere", "base: !!binary x\n: :"] {
        let error = resolve(&sources(&[(Subject::Models, text)], &[])).unwrap_err().to_string();
        assert!(error.starts_with("/conf/models.yaml:"), "{text}: {error}");
    }
}

#[test]
fn invalid_variables_are_reported_without_values() {
    let check = |name, value, message: &str| {
        assert_eq!(resolve(&sources(&[], &[(name, value)])).unwrap_err().to_string(), message);
    };
    let range = "\"5\" is not a number from 10 to 100, or auto";
    check("MAX_MESSAGE_HISTORY", "5", &format!("environment variable MAX_MESSAGE_HISTORY: {range}"));
    check(
        "MODEL_CODE_BASE_URL",
        "ftp://u:secret@x",
        "environment variable MODEL_CODE_BASE_URL: the address must start with http:// or https://",
    );
    let window = "environment variable MODEL_BASIC_CONTEXT_WINDOW: must be a number of tokens, at least 256";
    check("MODEL_BASIC_CONTEXT_WINDOW", "128K", window);
    check("MODEL_BASIC_CONTEXT_WINDOW", "255", window);
    let address = "environment variable ANTHROPIC_BASE_URL: the address must start with http:// or https://";
    let invalid = [("ANTHROPIC_BASE_URL", "ftp://u:secret@x")];
    assert!(resolve(&sources(&[], &invalid)).is_ok(), "the variable is not used");
    let used = [&invalid[..], &[("MODEL_BASIC_WIRE", "anthropic")]].concat();
    assert_eq!(resolve(&sources(&[], &used)).unwrap_err().to_string(), address);
    check(
        "MODEL_CODE_WIRE",
        "antropic",
        "environment variable MODEL_CODE_WIRE: must be openai, responses, anthropic or llamacpp",
    );
}

#[test]
fn errors_do_not_show_expanded_variables() {
    let error =
        resolve(&sources(&[(Subject::Models, "base:\n  temperature: ${KEY}\n")], &[("KEY", "s3cret")])).unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
}
