//! Network routes: this host is reached directly, and all others through the configured proxies.

use agentd_testkit::{
    collector::Collector,
    model_server::Script,
    proxy::{ProxyBehaviour, TestProxy},
};

use super::{
    mcp::http::Server,
    skills::{HELLO, HI, Index},
    *,
};

/// Creates a home with this proxy for all requests.
fn home_with_proxy(proxy: &TestProxy) -> TempHome {
    let mut home = TempHome::new();
    home.set("all_proxy", format!("http://me:s3cret@{}", proxy.place()));
    home.set("HTTP_PROXY", format!("http://me:s3cret@{}", proxy.place()));
    home
}

fn port(model: &ModelServer) -> String {
    model.root_url().rsplit(':').next().unwrap().to_owned()
}

#[tokio::test]
async fn local_addresses_never_use_a_proxy() {
    let proxy = TestProxy::start(ProxyBehaviour::Refuses).await;
    let (model, collector, server) = tokio::join!(ModelServer::start(), Collector::start(), Server::start("ok"));
    let six = ModelServer::bind("[::1]:0".parse().unwrap(), Script::of(|_| Reply::text("Six."))).await.unwrap();
    let mut home = home_with_proxy(&proxy);
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http());
    let slot = |host: &str, model: &ModelServer| {
        format!("{{base_url: 'http://{host}:{}/v1', id: m, retries: 0}}", port(model))
    };
    let (base, code, chat) = (slot("127.0.0.1", &model), slot("localhost", &model), slot("[::1]", &six));
    let named = slot("x.localhost", &model);
    home.write("config/models.yaml", format!("base: {base}\ncode: {code}\nchat: {chat}\nreasoning: {named}\n"));
    let mcp = format!("servers:\n  here: {{url: '{}'}}\n", server.url);
    home.write("config/mcp_servers.yaml", mcp);
    let daemon = TempDaemon::start_in(home).await;
    for (slot, input) in [("base", "Hello"), ("code", "Hello"), ("chat", "Six.")] {
        model.default_reply(Reply::text("Hello"));
        assert_eq!(daemon.ok(["run", "Hi", "--model", slot]).await.stdout.trim(), input, "{slot}");
    }
    // The name may or may not resolve, but the request never goes to a proxy.
    let failed = daemon.agentctl(["run", "Hi", "--model", "reasoning"]).await;
    assert!(failed.code == Some(0) || failed.stderr.contains("directly"), "{}", failed.stderr);
    daemon.ok(["mcp", "test", "here"]).await;
    until_true("the spans have arrived", || !collector.spans().is_empty()).await;
    let doctor = daemon.agentctl(["doctor"]).await.stdout;
    assert!(doctor.contains("/v1, directly") && !doctor.contains("through"), "{doctor}");
    assert_eq!(proxy.seen(), [""; 0]);
}

#[tokio::test]
async fn remote_addresses_use_the_proxy_and_errors_name_it() {
    let (model, collector) = tokio::join!(ModelServer::start(), Collector::start());
    model.default_reply(Reply::text("Hello"));
    let address = model.root_url().trim_start_matches("http://").parse().unwrap();
    let proxy = TestProxy::start(ProxyBehaviour::Leads(address)).await;
    let spans =
        TestProxy::start(ProxyBehaviour::Leads(collector.http().trim_start_matches("http://").parse().unwrap())).await;
    let route = format!("through the proxy http://{}", proxy.place());
    let home = home_with_proxy(&proxy);
    home.write("config/models.yaml", "base: {base_url: 'http://model.example/v1', id: m, retries: 0}");
    home.write("config/mcp_servers.yaml", "servers: {there: {url: 'http://mcp.example/mcp'}}");
    let daemon = TempDaemon::start_in(home).await;
    assert_eq!(daemon.ok(["run", "Hi"]).await.stdout.trim(), "Hello");
    assert!(proxy.seen().iter().any(|line| line.contains("http://model.example/v1/")), "{:?}", proxy.seen());
    let doctor = daemon.agentctl(["doctor"]).await.stdout;
    assert!(doctor.contains(&format!("http://model.example/v1, {route}")) && !doctor.contains("s3cret"), "{doctor}");
    let shown = daemon.ok(["models", "show"]).await.stdout;
    assert!(shown.contains(&route) && !shown.contains("s3cret"), "{shown}");
    drop(daemon);

    // Each error names the proxy that rejected the request.
    let refusing = TestProxy::start(ProxyBehaviour::Refuses).await;
    let route = format!("through the proxy http://{}", refusing.place());
    let mut home = home_with_proxy(&refusing);
    home.write("config/models.yaml", "base: {base_url: 'https://model.example/v1', id: m, retries: 0}");
    home.write("config/mcp_servers.yaml", "servers: {there: {url: 'https://mcp.example/mcp'}}");
    home.set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318");
    home.set("http_proxy", spans.place());
    let daemon = TempDaemon::start_in(home).await;
    let failed = daemon.agentctl(["run", "Hi"]).await;
    assert!(failed.code != Some(0) && failed.stderr.contains(&route), "{}", failed.stderr);
    let doctor = daemon.agentctl(["doctor"]).await.exits(2).stdout;
    assert!(doctor.contains("no response from") && doctor.contains(&route), "{doctor}");
    let started = daemon.agentctl(["mcp", "start", "there"]).await.exits(1).stderr;
    assert!(started.contains(&route), "{started}");
    assert!(refusing.seen().iter().any(|line| line.starts_with("CONNECT mcp.example:443")), "{:?}", refusing.seen());
    until_true("the span has arrived", || !collector.spans().is_empty()).await;
    assert!(spans.seen()[0].contains("http://collector.example:4318/v1/"), "{:?}", spans.seen());
    for shown in [failed.stderr, doctor, started, daemon.log()] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test]
async fn hanging_proxy_times_out_and_no_proxy_bypasses_it() {
    let proxy = TestProxy::start(ProxyBehaviour::Hangs).await;
    let models = "base: {base_url: 'https://model.invalid/v1', id: m, retries: 0, timeouts: {connect: 300ms}}";
    let home = home_with_proxy(&proxy);
    home.write("config/models.yaml", models);
    let daemon = TempDaemon::start_in(home).await;
    let failed = daemon.agentctl(["run", "Hi"]).await;
    let route = format!("through the proxy http://{} took too long", proxy.place());
    assert!(failed.code != Some(0) && failed.stderr.contains(&route), "{}", failed.stderr);
    drop(daemon);
    let seen = proxy.seen().len();
    for no_proxy in ["*", "other.example, .invalid", "model.invalid:443"] {
        let mut home = home_with_proxy(&proxy);
        home.write("config/models.yaml", models);
        home.set("NO_PROXY", no_proxy);
        let daemon = TempDaemon::start_in(home).await;
        let failed = daemon.agentctl(["run", "Hi"]).await;
        assert!(failed.code != Some(0) && failed.stderr.contains("model.invalid/v1 directly"), "{}", failed.stderr);
    }
    assert_eq!(proxy.seen().len(), seen);
}

/// Runs a command that needs a package of this index, with these additional variables of the daemon. Returns the
/// result.
async fn installed_from(index: &str, variables: &[(&str, &str)]) -> String {
    let world = World::prepared(|home| {
        home.write("config/skills/hello/SKILL.md", HELLO);
        home.write("config/skills/hello/scripts/hi.py", HI);
        let named = [("PIP_INDEX_URL", index), ("UV_DEFAULT_INDEX", index), ("PIP_TRUSTED_HOST", "index.example")];
        named.iter().chain(variables).for_each(|(name, value)| home.set(name, *value));
    })
    .await;
    let call = ("run_bash_command", json!({"command": "python skills/hello/scripts/hi.py", "timeout_s": 60}));
    let (mut results, _) = world.call_all(vec![call], &["--on-interrupt", "approve"]).await;
    let result = results.remove(0);
    assert!(!result.contains("s3cret") && !world.log().contains("s3cret"), "{result}\n{}", world.log());
    result
}

const GREETING: &str = "hello from the package";

#[tokio::test(flavor = "multi_thread")]
async fn package_downloads_use_the_proxy_except_for_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let (_index, url) = Index::start(folder.path());
    // The proxy forwards complete URLs, which the index reads as paths.
    fs::create_dir(folder.path().join("http:")).unwrap();
    symlink(folder.path(), folder.path().join("http:/index.example")).unwrap();
    let address = url.trim_start_matches("http://").trim_end_matches("/simple").parse().unwrap();
    let proxy = TestProxy::start(ProxyBehaviour::Leads(address)).await;
    let proxy_url = format!("http://me:s3cret@{}", proxy.place());
    let result = installed_from("http://index.example/simple", &[("http_proxy", proxy_url.as_str())]).await;
    assert!(result.contains(GREETING), "{result}");
    let seen = proxy.seen();
    assert!(seen.iter().any(|line| line.contains("/simple/agentdhello/agentdhello-1.0")), "{seen:?}");
    assert!(seen.iter().all(|line| line.starts_with("GET http://index.example/simple/")), "{seen:?}");

    let refusing = TestProxy::start(ProxyBehaviour::Refuses).await;
    let refusing_url = format!("http://me:s3cret@{}", refusing.place());
    for host in ["127.0.0.1", "localhost"] {
        let proxies = ["http_proxy", "HTTPS_PROXY", "all_proxy"].map(|name| (name, refusing_url.as_str()));
        let result = installed_from(&url.replace("127.0.0.1", host), &proxies).await;
        assert!(result.contains(GREETING), "{host}: {result}");
    }
    assert_eq!(refusing.seen(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_package_download_names_its_route() {
    let proxy = TestProxy::start(ProxyBehaviour::Refuses).await;
    let proxy_url = format!("http://me:s3cret@{}", proxy.place());
    let result = installed_from("https://index.example/simple", &[("HTTPS_PROXY", proxy_url.as_str())]).await;
    let route = format!("through the proxy http://{}", proxy.place());
    has_all(&result, &["The command did not run", &format!("could not connect to https://index.example:443 {route}")]);
    let seen = proxy.seen();
    assert!(!seen.is_empty() && seen.iter().all(|line| line.starts_with("CONNECT index.example:443")), "{seen:?}");

    let direct = [("HTTPS_PROXY", proxy_url.as_str()), ("NO_PROXY", "other.example, .invalid")];
    let result = installed_from("https://index.invalid/simple", &direct).await;
    has_all(&result, &["The command did not run", "could not connect to https://index.invalid:443 directly"]);
    assert_eq!(proxy.seen(), seen, "the proxy was used in spite of NO_PROXY");
}
