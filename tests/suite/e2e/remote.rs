//! Daemons of other machines, over a real SSH server on loopback. The client is that of OpenSSH, or one of asyncssh
//! where OpenSSH is not installed.

use super::{mcp::installed, *};

/// Another home, whose clients reach the daemon of a host by `AGENTD_HOST`.
pub(super) struct Laptop {
    home: TempHome,
    /// Address of the host.
    pub(super) address: String,
    _server: Running,
}

impl std::ops::Deref for Laptop {
    type Target = TempHome;

    fn deref(&self) -> &TempHome {
        &self.home
    }
}

/// Returns true if OpenSSH's client is installed.
fn has_openssh() -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join("ssh").is_file())
}

/// Writes a program that clients run instead of `ssh`.
fn set_ssh(home: &mut TempHome, script: &str) {
    let path = home.write("ssh", format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    home.set("AGENTD_SSH", path.to_str().unwrap());
}

impl Laptop {
    /// Starts an SSH server in the environment of the host. Its search path has the programs under test.
    pub(super) async fn of(host: &TempHome) -> Self {
        let programs = program("agentctl").parent().unwrap().display().to_string();
        Self::with_path(host, &format!("{programs}:{}", std::env::var("PATH").unwrap())).await
    }

    async fn with_path(host: &TempHome, path: &str) -> Self {
        let mut home = TempHome::new();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("ssh/ssh.py");
        let packages = installed("python");
        let mut command = host.command("python3");
        // The server and what it runs are processes of the host, and must not name this home.
        command
            .arg(&script)
            .args(["server", "."])
            .current_dir(home.path())
            .env("PYTHONPATH", &packages)
            .env("PATH", path);
        let mut server = Running::spawn(command);
        let port = server.line().await.expect("the server prints its port");
        let folder = home.path().display().to_string();
        let client = if has_openssh() {
            let config = format!(
                "IdentityFile {folder}/key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n\
                 GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
            );
            format!("ssh -F '{}'", home.write("ssh_config", config).display())
        } else {
            let (packages, script) = (packages.display(), script.display());
            format!("env PYTHONPATH='{packages}' python3 '{script}' client '{folder}'")
        };
        set_ssh(&mut home, &format!("exec {client} \"$@\""));
        let address = format!("ssh://me@127.0.0.1:{port}");
        home.set("AGENTD_HOST", &address);
        Self { home, address, _server: server }
    }

    fn connections(&self) -> Vec<u32> {
        dialling(&self.home)
    }

    /// Kills the SSH clients, as a network that is gone would end them, and waits until they have ended. Returns them.
    async fn break_connections(&self) -> Vec<u32> {
        let broken = self.connections();
        for pid in &broken {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
        }
        until_true("the connections have ended", || !self.connections().iter().any(|pid| broken.contains(pid))).await;
        broken
    }
}

/// Returns the processes of a home that carry a connection.
fn dialling(home: &TempHome) -> Vec<u32> {
    let is_dialling = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("dial-stdio")
    };
    home.processes().into_iter().filter(is_dialling).collect()
}

#[tokio::test]
async fn turn_with_upload_and_questions_survives_broken_connections() {
    let world = World::start().await;
    let laptop = Laptop::of(&world).await;
    let project = world.write("shop/a.txt", "there").parent().unwrap().display().to_string();
    laptop.write("notes.txt", "The pump is blue.");
    laptop.write("list.txt", "One copy.");
    world.model.reply(Reply::tool_call("ask_human", json!({"question": "Which colour?"})));
    world.model.reply(Reply::tool_call("write_file", json!({"path": "outputs/copy.txt", "content": "blue"})));
    world.model.reply(Reply::text("Copied."));
    let text = "Copy it as in #list.txt and #none.txt";
    let args = ["run", text, "--file", "notes.txt", "-C", &project];
    let mut running =
        laptop.spawn_agentctl(args.into_iter().chain(["--on-interrupt", "wait", "--output", "stream-json"]));
    let (question, mut lines) = running.event("interrupt_raised").await;
    let of_interrupt = |raised: &Value, key: &str| raised["interrupt"][key].as_str().unwrap().to_owned();
    let session = of_interrupt(&question, "session_id");
    assert_eq!(laptop.connections().len(), 1, "one process for one connection");
    let mut attached = laptop.spawn_agentctl(["attach", &session, "--output", "stream-json"]);
    attached.event("interrupt_raised").await;

    assert_eq!(laptop.break_connections().await.len(), 2);
    until_true("both clients have connected again", || laptop.connections().len() == 2).await;
    laptop.ok(["answer", &of_interrupt(&question, "id"), "blue"]).await;
    let (approval, between) = running.event("interrupt_raised").await;
    // The turn continues on the host, whether or not a client follows it.
    laptop.break_connections().await;
    world.ok(["answer", &of_interrupt(&approval, "id"), "approve"]).await;
    // The text could come from a script, so it takes no file from this machine.
    let notes =
        ["#list.txt is not a file of the project and was not attached", "#none.txt is not a file of this machine"];
    let output = running.output(Vec::new()).await.exits(0).says(&notes);
    assert_eq!(attached.output(Vec::new()).await.exits(0).json_lines().last().unwrap()["text"], "Copied.");

    lines.extend([question].into_iter().chain(between).chain([approval]).chain(output.json_lines()));
    let count = |kind: &str| lines.iter().filter(|line| line["type"] == kind).count();
    let counts = ["turn_started", "interrupt_raised", "interrupt_resolved", "turn_ended"].map(count);
    assert_eq!(counts, [1, 2, 2, 1], "no event is lost or repeated: {lines:#?}");
    assert_eq!(lines.last().unwrap()["text"], "Copied.");
    let request = world.model.requests().remove(0).body["messages"].to_string();
    assert!(request.contains("uploads/notes.txt") && request.contains("The pump is blue."), "{request}");
    assert!(!request.contains("One copy."), "{request}");
    let view = world.client().await.session(&session).await.unwrap();
    assert_eq!(view.session.settings.project.unwrap().path, Path::new(&project));
    until_true("no process is left", || laptop.connections().is_empty() && dialling(&world).is_empty()).await;
}

// The terminal blocks its thread, and the model needs another one.
#[tokio::test(flavor = "multi_thread")]
async fn chat_names_the_host_and_survives_a_broken_connection() {
    let world = World::with_reply("Blue.").await;
    let laptop = Laptop::of(&world).await;
    laptop.write("notes.txt", "The pump is blue.");
    let mut terminal = Terminal::open(&laptop, &[]);
    terminal.sees(&format!("agentd at {}", laptop.address));
    terminal.prompt();
    terminal.hears("/upload notes.txt", "uploaded as uploads/notes.txt");
    terminal.hears("Which colour?", "Blue.");
    laptop.break_connections().await;
    laptop.write("list.txt", "One pump.");
    terminal.hears("See #list.txt now", "Blue.");
    terminal.leaves();
    let requests = world.model.requests();
    for file in ["uploads/notes.txt", "uploads/list.txt"] {
        assert!(requests.iter().any(|request| request.body.to_string().contains(file)), "{file}");
    }
    assert!(!laptop.path().join("run").exists(), "no daemon was started here");
}

#[tokio::test]
async fn daemon_of_a_host_is_started_and_stopped_there() {
    let (model, host) = TempHome::with_server().await;
    model.default_reply(Reply::text("Hello."));
    let laptop = Laptop::of(&host).await;
    let down = laptop.agentctl(["status", "--json"]).await.exits(3).json();
    assert_eq!((&down["running"], &down["socket"]), (&json!(false), &json!(laptop.address)));
    assert!(!host.data().exists(), "the status starts no daemon");
    assert_eq!(laptop.ok(["run", "Greet me"]).await.stdout, "Hello.\n");
    assert_eq!(laptop.json(["status"]).await["data_dir"], json!(host.data()));
    laptop.agentctl(["doctor"]).await.shows(&[&laptop.address, "all sessions can be read"]);
    laptop.ok(["stop"]).await.says(&["the daemon has stopped"]);
    laptop.ok(["stop"]).await.says(&["no daemon is running"]);
    laptop.agentctl(["reload"]).await.exits(3).says(&["no daemon is running"]);
    // Sessions are those of the host.
    assert_eq!(laptop.json(["sessions", "list"]).await.as_array().unwrap().len(), 1);
    assert!(!laptop.data().exists(), "nothing is stored here");
}

#[tokio::test]
async fn host_gets_no_variables_of_the_client() {
    let world = World::start().await;
    let laptop = Laptop::of(&world).await;
    let here: &TempHome = &world.daemon;
    // A removed folder has no path. That must not be a reason to send variables.
    let in_removed_folder = "mkdir gone; cd gone; rmdir ../gone; exec \"$@\"";
    for (is_local, home, line) in
        [(true, here, "exec \"$@\""), (false, &laptop.home, "exec \"$@\""), (false, &laptop.home, in_removed_folder)]
    {
        world.model.reply(Reply::tool_call("run_bash_command", json!({"command": "env; echo ran"})));
        world.model.reply(Reply::text("Done."));
        let client = home.agentctl_command(["run", "Look", "--on-interrupt", "approve"]);
        let mut command = home.command("sh");
        command.args(["-c", line, "sh"]).arg(client.get_program()).args(client.get_args());
        // A locale that is not UTF-8 would be dropped for commands.
        command.env("LC_NAME", "spy.UTF-8");
        Running::spawn(command).output(Vec::new()).await.exits(0);
        let result = world.model.requests().pop().unwrap().body["messages"].to_string();
        assert!(result.contains("ran"), "{result}");
        assert_eq!(result.contains("spy"), is_local, "{line}: {result}");
    }
}

#[tokio::test]
async fn addresses_cannot_inject_options() {
    let mut home = TempHome::new();
    let ran = home.path().join("ran");
    set_ssh(&mut home, &format!("printf '%s\\n' \"$@\" > '{}'; exit 9", ran.display()));
    for address in [
        "ssh://-oProxyCommand=touch%20x",
        "ssh://-oProxyCommand=touch x/",
        "ssh://-l@box",
        "ssh://me@-box",
        "ssh://me:secret@box",
        "ssh://me@box;id",
        "ssh://$(id)@box",
        "ssh://box`id`",
        "ssh://me@box:0",
        "ssh://box:65536",
        "ssh://box:",
        "ssh://box/folder",
        "ssh://[::1",
        "ssh://[-1]",
        "ssh://",
        "ssh://me@",
        "ssh://b\u{f6}x",
        "ssh://bo\u{1b}[2Jx",
        "-oProxyCommand=x",
        "http://box",
        "box",
    ] {
        let flag = format!("--host={address}");
        let output = home.agentctl([flag.as_str(), "status"]).await.exits(2).says(&["invalid host"]);
        assert!(!output.stderr.contains('\u{1b}'), "{output:?}");
        let mut command = home.agentctl_command(["run", "hello"]);
        command.env("AGENTD_HOST", address);
        Running::spawn(command).output(Vec::new()).await.exits(2);
        assert!(!ran.exists(), "ssh was run for {address:?}");
    }
    let cases = [
        ("ssh://box", "\n--\nbox\n"),
        ("ssh://me.x@box_1.example:2222/", "\n-p2222\n-l\nme.x\n--\nbox_1.example\n"),
        ("ssh://[fe80::1%eth0]:22", "\n-p22\n--\nfe80::1%eth0\n"),
    ];
    for (address, expected) in cases {
        home.agentctl(["--host", address, "status"]).await.exits(3).says(&[address, "exit status: 9"]);
        let args = home.read("ran");
        let (options, command) = args.split_once(expected).unwrap_or_else(|| panic!("{args}"));
        assert!(options.lines().all(|option| option.starts_with('-')), "{options}");
        assert_eq!(command, "exec sh -c 'PATH=\"$PATH:$HOME/.local/bin\"; exec agentctl dial-stdio --no-start'\n");
    }
}

#[tokio::test]
async fn failed_connections_show_their_cause() {
    let mut home = TempHome::new();
    home.set("AGENTD_HOST", "ssh://me@box");
    let cases = [
        ("echo 'ssh: \u{1b}]0;title\u{7}no route to box' >&2; exit 255", "no route to box"),
        ("exit 255", "ssh ended with exit status: 255"),
        ("echo 'Welcome to this box, which greets everybody'", "did not speak agentd's protocol"),
        ("exit 0", "did not speak agentd's protocol"),
        ("yes 'a long story' | head -c 1000000 >&2; echo 'the end' >&2; exit 1", "the end"),
    ];
    for (script, cause) in cases {
        set_ssh(&mut home, script);
        let output = home.agentctl(["run", "hello"]).await.exits(3);
        let output = output.says(&["could not reach agentd at ssh://me@box", cause, "hint:"]);
        assert!(!output.stderr.contains('\u{1b}') && output.stderr.len() < 8192, "{output:?}");
    }
    home.set("AGENTD_SSH", "/nowhere/ssh");
    home.agentctl(["run", "hello"]).await.exits(3).says(&["/nowhere/ssh"]);

    let host = TempHome::new();
    let laptop = Laptop::with_path(&host, &std::env::var("PATH").unwrap()).await;
    laptop.agentctl(["run", "hello"]).await.exits(3).says(&["agentctl", "not found"]);
    laptop.write("known", "");
    let output = laptop.agentctl(["run", "hello"]).await.exits(3);
    assert!(output.stderr.to_lowercase().contains("host key"), "{output:?}");
}

#[tokio::test]
async fn messages_say_which_machine_they_mean() {
    let world = World::start().await;
    let laptop = Laptop::of(&world).await;
    let place = format!("(on {})", laptop.address);
    laptop.agentctl(["run", "hello", "-C", "."]).await.exits(2).says(&["absolute path", &laptop.address]);
    laptop.agentctl(["run", "hello", "-C", "/no/such"]).await.exits(2).says(&["/no/such", &place]);
    laptop.agentctl(["run", "hello", "--session", "nothing"]).await.exits(2).says(&[&place]);
    laptop.agentctl(["project", "show"]).await.exits(2).says(&["absolute path"]);
    laptop.agentctl(["run", "hello", "--file", "none.txt"]).await.exits(2).says(&["none.txt"]);
    laptop.agentctl(["--socket", "/x", "--host", &laptop.address, "status"]).await.exits(2).says(&["together"]);
    laptop.agentctl(["--host", &laptop.address, "dial-stdio"]).await.exits(2).says(&["this machine only"]);
    for command in ["service status", "mcp add x -- true", "mcp import x.json", "test .", "models add openai"] {
        let output = laptop.agentctl(command.split(' ')).await.exits(2);
        output.says(&["works on this machine only, and AGENTD_HOST names", &laptop.address]);
    }
    // A socket on the command line is one of this machine.
    let socket = world.socket().display().to_string();
    assert_eq!(laptop.json(["--socket", &socket, "status"]).await["running"], true);
    assert!(world.model.requests().is_empty(), "no turn was started");
}
