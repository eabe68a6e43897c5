//! `agentctl service`: its units, its systemd calls, and a daemon started by socket activation.

use super::*;

/// A home with a fake systemd that only records its calls.
struct Home(TempHome);

impl Home {
    fn new() -> Self {
        Self::around(TempHome::new())
    }

    fn around(mut home: TempHome) -> Self {
        let notes = home.path().join("calls");
        let answers = "case \"$*\" in *ActiveState*) echo active;; *LoadState*) echo loaded;; *UnitFileState*) echo enabled;; \
                       *MainPID*) echo 0;; esac";
        for name in ["systemctl", "loginctl", "journalctl"] {
            let text = format!("#!/bin/sh\necho {name} \"$@\" >> {}\n{answers}\n", notes.display());
            let path = home.write(&format!("bin/{name}"), text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
        home.set("PATH", path);
        Self(home)
    }

    fn unit(&self, name: &str) -> PathBuf {
        self.0.path().join(".config/systemd/user").join(name)
    }

    /// Returns the systemd calls since the last check, except queries.
    fn manager_calls(&self) -> Vec<String> {
        let all = self.0.read("calls");
        let _ = fs::remove_file(self.0.path().join("calls"));
        all.lines().filter(|line| !line.contains(" show")).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn install_is_idempotent_and_keeps_hand_edited_units() {
    let home = Home::new();
    home.0.ok(["service", "status"]).await;
    let first = home.0.ok(["service", "install", "--linger"]).await;
    let enabled = "systemctl --user enable --now agentd.socket";
    let (reload, restart) = ("systemctl --user daemon-reload", "systemctl --user restart agentd.service");
    let stop = "systemctl --user stop agentd.service agentd.socket";
    assert_eq!(home.manager_calls(), [reload, stop, enabled, "loginctl enable-linger"]);
    assert!(first.stderr.contains("installed"), "{}", first.stderr);
    let service = fs::read_to_string(home.unit("agentd.service")).unwrap();
    assert!(service.contains("/agentd\"\n") && service.contains("AGENTD_DATA_DIR="), "{service}");

    // The second installation writes nothing, and does not restart a running daemon.
    let second_install = home.0.ok(["service", "install"]).await;
    assert!(
        second_install.stderr.contains("unchanged") && !second_install.stderr.contains("wrote"),
        "{}",
        second_install.stderr
    );
    assert_eq!(home.manager_calls(), [reload, enabled]);

    let own = format!("{service}# mine\n");
    fs::write(home.unit("agentd.service"), &own).unwrap();
    for args in [["service", "install"], ["service", "uninstall"]] {
        home.0.agentctl(args).await.exits(2).says(&["changed by hand", "--force"]);
        assert_eq!(fs::read_to_string(home.unit("agentd.service")).unwrap(), own);
    }
    assert_eq!(home.manager_calls(), [""; 0]);
    let status = home.0.json(["service", "status"]).await;
    assert_eq!((&status["installed"], &status["units"][0]["state"]), (&true.into(), &"changed".into()), "{status:#}");
    home.0.ok(["service", "install", "--force"]).await;
    assert_eq!(fs::read_to_string(home.unit("agentd.service")).unwrap(), service);
    assert_eq!(home.manager_calls(), [reload, restart, enabled]);
    // Another socket replaces the first socket.
    let other = home.0.path().join("other.sock").display().to_string();
    home.0.ok(["service", "install", "--socket", &other]).await;
    assert_eq!(home.manager_calls(), [reload, stop, enabled]);
    assert!(fs::read_to_string(home.unit("agentd.socket")).unwrap().contains(&other));

    home.0.ok(["service", "restart"]).await;
    home.0.ok(["service", "logs", "--follow", "-n", "7"]).await;
    let log = "journalctl --user --unit agentd.service --lines 7 --follow";
    assert_eq!(home.manager_calls(), [restart, log]);
    home.0.ok(["service", "uninstall"]).await;
    let disable = "systemctl --user disable --now agentd.service agentd.socket";
    assert_eq!(home.manager_calls(), [disable, reload]);
    assert!(!home.unit("agentd.service").exists() && !home.unit("agentd.socket").exists());
    home.0.ok(["service", "uninstall"]).await.says(&["no service"]);
}

#[tokio::test]
async fn service_without_lingering_is_reported() {
    const NOTE: &str = "the service stops when you log out";
    let home = Home::new();
    for (lingers, says) in [("no", true), ("yes", false)] {
        let text = format!("#!/bin/sh\ncase \"$*\" in show-user*Linger*) echo {lingers};; esac\n");
        home.0.write("bin/loginctl", text);
        for args in [&["service", "install"][..], &["service", "status"], &["doctor"]] {
            let output = home.0.agentctl(args).await;
            let message = format!("{}{}", output.stdout, output.stderr);
            assert_eq!(message.contains(NOTE) && message.contains("enable-linger"), says, "{args:?}: {message}");
        }
        let status = home.0.json(["service", "status"]).await;
        assert_eq!(status["stops_at_logout"], says, "{status}");
    }
    home.0.ok(["stop", "--within", "0"]).await;
}

#[tokio::test]
async fn keys_are_stored_only_on_request_and_never_shown() {
    let mut home = Home::new();
    home.0.set("OPENAI_API_KEY", "sk-s3cret");
    home.0.ok(["service", "install", "--no-start"]).await;
    let file = home.0.config().join("environment");
    assert!(!file.exists());
    let output = home.0.ok(["service", "install", "--no-start", "--keys"]).await;
    assert!(output.stderr.contains("OPENAI_API_KEY") && !output.stderr.contains("s3cret"), "{}", output.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "OPENAI_API_KEY=\"sk-s3cret\"\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.manager_calls(), [""; 0], "the service manager was called");
}

#[tokio::test]
async fn install_stops_an_idle_daemon_but_not_a_busy_one() {
    let model = ModelServer::start().await;
    let Home(home) = Home::around(TempHome::with_model(&model.base_url()));
    let daemon = TempDaemon::start_in(home).await;
    model.reply(Reply::text("It hangs now").hang_after_text("hangs"));
    let turn = daemon.spawn_agentctl(["run", "hang"]);
    model.wait_until(|counts| counts.requests == 1).await;
    daemon
        .agentctl(["service", "install"])
        .await
        .exits(2)
        .says(&["not started by systemd is running", "agentctl stop"]);
    assert!(!daemon.path().join(".config/systemd/user/agentd.service").exists());
    turn.signal(Signal::SIGINT);
    let client = Client::connect(&daemon.socket()).await.unwrap();
    until("the turn has ended", async || {
        let status = client.status().await.unwrap();
        (status.running_turns == 0).then_some(())
    })
    .await;
    daemon.ok(["service", "install"]).await.says(&["stopped the daemon"]);
    daemon.agentctl(["status"]).await.exits(3);
}

#[tokio::test]
async fn missing_systemd_is_reported_with_a_hint() {
    let mut home = TempHome::new();
    home.set("PATH", home.path().join("nothing").display().to_string());
    for args in [&["service", "install"][..], &["service", "restart"]] {
        home.agentctl(args).await.exits(3).says(&["systemctl", "agentctl start"]);
    }
    home.agentctl(["service", "logs"]).await.exits(2).says(&["no service is installed", "agentd.log"]);
    home.ok(["service", "install", "--no-start"]).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.data()), 0o700, "the data folder is private");
    home.agentctl(["service", "uninstall"]).await.exits(3).says(&["--force"]);
    home.ok(["service", "uninstall", "--force"]).await.says(&["only the files are removed"]);
}

/// Returns true if a systemd program is installed, which is not the case on all hosts.
fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[tokio::test]
async fn units_pass_systemd_analyze_verify() {
    if !is_there("systemd-analyze") {
        return;
    }
    let mut home = Home::new();
    home.0.set("XDG_RUNTIME_DIR", home.0.path().display().to_string());
    home.0.ok(["service", "install", "--no-start"]).await;
    let mut verify = home.0.command("systemd-analyze");
    verify.args(["--user", "verify"]).args([home.unit("agentd.service"), home.unit("agentd.socket")]);
    let output = Running::spawn(verify).output(Vec::new()).await;
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
}

/// Returns the value of a key in a unit.
fn value(unit: &Path, key: &str) -> String {
    let text = fs::read_to_string(unit).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).unwrap();
    line.trim_matches('"').to_owned()
}

#[tokio::test]
async fn the_socket_starts_the_daemon_with_its_first_client() {
    if !is_there("systemd-socket-activate") {
        return;
    }
    let model = ModelServer::start().await;
    model.reply(Reply::text("Hello."));
    let home = Home::new();
    home.0.ok(["service", "install", "--no-start"]).await;
    let (program, socket) =
        (value(&home.unit("agentd.service"), "ExecStart"), value(&home.unit("agentd.socket"), "ListenStream"));
    assert_eq!(Path::new(&socket), home.0.socket());
    fs::create_dir_all(home.0.socket().parent().unwrap()).unwrap();
    let mut manager = home.0.command("systemd-socket-activate");
    let url = format!("MODEL_BASIC_BASE_URL={}", model.base_url());
    manager.args(["-l", &socket, "-E", &url]);
    for name in ["HOME", "AGENTD_CONFIG_DIR", "AGENTD_DATA_DIR", "PATH"] {
        manager.args(["-E", name]);
    }
    let _manager = Running::spawn({
        manager.arg(program);
        manager
    });
    until_true("the socket accepts connections", || home.0.socket().exists()).await;
    assert_eq!(home.0.ok(["run", "hi"]).await.stdout.trim(), "Hello.");
}
