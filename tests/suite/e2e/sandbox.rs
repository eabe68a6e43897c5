//! Commands in real turns in the sandbox: the paths and services that they can and cannot access, their environment,
//! and what they leave behind.

use std::net::TcpListener;

use super::*;

const SECRET: &str = "the launch code is 0000";

/// Starts a world with a writable project.
pub(super) async fn world(agentd_yaml: &str) -> World {
    let world = World::configured(agentd_yaml).await;
    fs::create_dir_all(project(&world)).unwrap();
    world
}

pub(super) fn project(world: &World) -> PathBuf {
    world.path().join("project")
}

impl World {
    /// Makes the model run this command and then end the turn.
    pub(super) fn script_command(&self, command: &str) {
        self.script_call(json!({"command": command, "timeout_s": 60}));
    }

    pub(super) fn script_call(&self, arguments: Value) {
        self.script_reply(Reply::tool_call("run_bash_command", arguments.clone()));
    }

    /// Returns the last tool result sent to the model.
    pub(super) fn last_result(&self) -> String {
        let requests = self.model.requests();
        let last = requests.last().unwrap().messages().last().unwrap();
        assert_eq!(last["role"], "tool", "{last}");
        last["content"].as_str().unwrap().to_owned()
    }

    /// Runs a turn in a new session with every permission.
    pub(super) async fn turn(&self) -> Output {
        self.ok(["run", "Do it", "-C", &self.mount(), "--on-interrupt", "approve"]).await
    }

    /// Runs a command, and returns its result.
    pub(super) async fn sh(&self, command: &str) -> String {
        self.script_command(command);
        self.turn().await;
        self.last_result()
    }

    pub(super) async fn allowed(&self, command: &str) -> String {
        let result = self.sh(command).await;
        assert!(result.starts_with("exit code 0"), "{command}: {result}");
        result
    }

    /// Asserts that the command fails, and does not reveal any part of the secret.
    pub(super) async fn assert_fails(&self, command: &str) -> String {
        let result = self.sh(command).await;
        let failed = result.starts_with("exit code ") && !result.starts_with("exit code 0");
        assert!(failed && !result.contains(SECRET), "{command}: {result}");
        result
    }
}

/// Counts the processes with this argument from outside the sandbox.
pub(super) fn process_count(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        fs::read(entry.path().join("cmdline")).ok()
    });
    processes.filter(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())).count()
}

/// Returns the daemon's child processes, regardless of the program that they now run.
pub(super) fn children(daemon: u32) -> Vec<String> {
    fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn secrets_cannot_be_read_and_nothing_outside_is_changed() {
    let (model, mut home) = TempHome::with_server().await;
    let folder = home.path().display().to_string();
    // The whole home is listed, but its secrets remain hidden.
    home.write("config/agentd.yaml", format!("sandbox: {{read: ['{folder}']}}\n"));
    home.write(".ssh/id_ed25519", SECRET);
    home.write(".netrc", SECRET);
    home.write("notes.txt", "plain");
    home.set("DAEMON_SECRET_TOKEN", SECRET);
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::write(outside.path().join("diary"), SECRET).unwrap();
    let world = World { daemon: TempDaemon::start_in(home).await, model };
    fs::create_dir_all(project(&world)).unwrap();
    symlink(world.path().join(".ssh/id_ed25519"), project(&world).join("key")).unwrap();
    symlink("/", project(&world).join("everything")).unwrap();
    fs::write(world.path().join("data/kept"), SECRET).unwrap();
    fs::write(world.path().join("config/kept"), SECRET).unwrap();
    let (pid, away) = (world.daemon.pid(), outside.path().display().to_string());

    assert!(world.allowed(&format!("cat {folder}/notes.txt")).await.contains("plain"));
    for command in [
        format!("cat {folder}/.ssh/id_ed25519"),
        format!("grep -rs 'launch code' {folder} {away}"),
        format!("cat {folder}/.netrc {folder}/data/kept {folder}/config/kept {away}/diary | grep launch"),
        "cat \"$PROJECT/key\"".to_owned(),
        format!("cat \"$PROJECT/everything{away}/diary\""),
        format!("cat /proc/{pid}/environ /proc/1/environ | grep -a launch"),
        format!("cat /proc/{pid}/root{away}/diary /proc/self/root{away}/diary"),
        format!("ln {away}/diary /outputs/diary && cat /outputs/diary"),
        format!("echo x >> {away}/diary"),
        format!("mv {away}/diary /outputs/ && cat /outputs/diary"),
        format!("touch {away}/new {folder}/new"),
        format!("echo x > {folder}/notes.txt"),
        format!("echo 'sandbox: {{mode: off}}' > {folder}/config/agentd.yaml"),
        format!("kill -9 {pid}"),
    ] {
        world.assert_fails(&command).await;
    }
    assert_eq!(fs::read_to_string(outside.path().join("diary")).unwrap(), SECRET);
    assert!(!outside.path().join("new").exists() && !world.path().join("new").exists());
    assert_eq!(world.read("notes.txt"), "plain");
    // Commands can change the session's own files, and the changes persist.
    world.allowed("echo made > \"$PROJECT/made\" && echo made > /outputs/made").await;
    assert_eq!(fs::read_to_string(project(&world).join("made")).unwrap(), "made\n");
    world.still_serves().await;
}

#[tokio::test]
async fn network_is_closed_unless_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let command = format!("echo hello > /dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let closed = world("").await;
    has_all(&closed.assert_fails(&command).await, &["the sandbox forbids sockets"]);
    assert!(listener.accept().is_err(), "a connection was accepted");

    let open = world("sandbox: {network: true}").await;
    open.allowed(&command).await;
    assert!(listener.accept().is_ok());
    // Rules take precedence over settings.
    open.daemon.write("config/hitl_rules.yaml", "tools: {run_bash_command: {network: false}}\n");
    open.client().await.reload().await.unwrap();
    open.assert_fails(&command).await;
    assert!(listener.accept().is_err(), "a connection was accepted");
    let status = open.daemon.json(["status"]).await;
    assert_eq!(status["sandbox"]["network"], false, "{status:#}");
    open.daemon.write("config/hitl_rules.yaml", "{}\n");
    open.client().await.reload().await.unwrap();
    // The daemon listens on a local socket, which no command can connect to.
    let ask = format!("'{}' status", program("agentctl").display());
    open.assert_fails(&format!("AGENTD_SOCKET='{}' {ask}", open.daemon.socket().display())).await;
}

#[tokio::test]
async fn background_processes_end_with_their_command_and_the_daemon() {
    let mut world = world("").await;
    let before = children(world.daemon.pid());
    let number = format!("4000.{}", world.daemon.pid());
    let result = world.allowed(&format!("env -i setsid -f sleep {number}; (sleep {number} &); echo done")).await;
    assert!(result.contains("2 background processes ended"), "{result}");
    assert_eq!((process_count(&number), children(world.daemon.pid())), (0, before));

    world.script_command(&format!("env -i setsid -f sleep {number}; touch \"$PROJECT/runs\"; sleep {number}"));
    let running = world.spawn_agentctl(["run", "Do it", "-C", &world.mount(), "--on-interrupt", "approve"]);
    until_true("both processes are running", || process_count(&number) == 2).await;
    world.daemon.kill9().await;
    until_true("both processes have exited", || process_count(&number) == 0).await;
    drop(running);
    world.daemon.restart().await;
    world.still_serves().await;
}

#[tokio::test]
async fn model_arguments_cannot_disable_the_sandbox() {
    let world = world("").await;
    let secret = world.write("secret.txt", SECRET).display().to_string();
    for extra in [
        json!({"sandbox": "off", "network": true, "mode": "off"}),
        json!({"environment": {"AGENTD_SANDBOX": "off"}, "dangerously_disable_sandbox": true, "read": ["/"]}),
    ] {
        let mut arguments =
            json!({"command": format!("cat '{secret}'; echo x > '{secret}'; echo > /dev/tcp/127.0.0.1/1")});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        world.script_call(arguments);
        world.turn().await;
        assert!(!tool_texts(world.model.requests().last().unwrap()).contains(SECRET));
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
    for command in [
        format!("'{}' sandbox-exec cat '{secret}' < /dev/null", program("agentd").display()),
        format!("AGENTD_CONFIG_DIR=temp '{}' --check-config; cat '{secret}'", program("agentd").display()),
    ] {
        world.assert_fails(&command).await;
    }
}

/// Runs a command for a client with these variables.
async fn run_as(world: &World, session: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = world.agentctl_command(["run", "Do it", "--on-interrupt", "approve", "--output", "json"]);
    command.args(session).envs(variables.iter().copied());
    Running::spawn(command).output(Vec::new()).await.exits(0)
}

#[tokio::test]
async fn commands_see_the_environment_of_their_client() {
    let world = World::prepared(|home| {
        home.write("config/agentd.yaml", "environment: {pass: [COLOUR, MY_*]}\n");
        home.set("OF_THE_DAEMON", "value-of-the-daemon");
    })
    .await;
    world.script_command("env");
    let path = "/nowhere/at/the/client:/usr/local/bin:/usr/bin:/bin";
    let first = [
        ("PATH", path),
        ("LANG", "de_DE.UTF-8"),
        ("TZ", "Asia/Tokyo"),
        ("COLOUR", "red"),
        ("MY_TOKEN", "secret-token-value"),
        ("OTHER", "other-client-value"),
        ("LD_PRELOAD", ""),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("OPENAI_API_KEY", "secret-key-value"),
        ("BASH_ENV", "/etc/profile"),
    ];
    let session = run_as(&world, &[], &first).await.session();
    let result = world.last_result();
    for seen in ["LANG=de_DE.UTF-8", "TZ=Asia/Tokyo", "COLOUR=red", &format!("PATH={path}"), "HOME=", "WORKSPACE="] {
        assert!(result.lines().any(|line| line.starts_with(seen)), "{seen} is missing in {result}");
    }
    // The values are long, since the random names of temporary folders may contain short ones.
    let values = ["secret-token-value", "secret-key-value", "other-client-value", "value-of-the-daemon"];
    let names = ["OTHER", "LD_PRELOAD", "SSH_AUTH_SOCK", "BASH_ENV", "MODEL_BASIC", "AGENTD_"];
    for unseen in values.iter().chain(&names) {
        assert!(!result.contains(unseen), "{unseen} is in {result}");
    }

    // Another client in the same session has different values.
    let other =
        [("LANG", "zh_CN.GBK"), ("LC_ALL", "zh_TW.Big5"), ("LC_TIME", "fr_FR.UTF-8"), ("PATH", ".:/usr/bin::/bin")];
    run_as(&world, &["--session", &session], &other).await;
    let result = world.last_result();
    assert!(result.contains("LANG=C.UTF-8") && result.contains("PATH=/usr/bin:/bin\n"), "{result}");
    assert!(result.contains("LC_TIME=fr_FR.UTF-8") && !result.contains("GBK") && !result.contains("Big5"), "{result}");
    assert!(!result.contains("Tokyo") && !result.contains("COLOUR"), "{result}");
}

/// Starts a daemon as on a kernel without these features.
async fn world_without_features(lacking: &str, agentd_yaml: &str) -> World {
    let (model, home) = TempHome::with_server().await;
    home.write("config/agentd.yaml", agentd_yaml);
    fs::create_dir_all(home.path().join("project")).unwrap();
    let mut command = home.command(program("examples/kernel_without"));
    command.arg(lacking).arg(program("agentd"));
    World { daemon: TempDaemon::start_with(home, command).await, model }
}

async fn doctor(world: &World) -> (Output, Value) {
    let output = world.agentctl(["doctor", "--json"]).await;
    let checks = output.json();
    let checks = checks.as_array().or_else(|| checks["checks"].as_array()).unwrap();
    let sandbox = checks.iter().find(|check| check["name"] == "sandbox").unwrap().clone();
    (output, sandbox)
}

#[tokio::test]
async fn missing_kernel_features_are_handled_by_the_sandbox_mode() {
    // With full confinement, no weakness is reported.
    let strong = world("").await;
    let (_, check) = doctor(&strong).await;
    assert!(check["message"].as_str().unwrap().contains("enforce: Landlock"), "{check}");

    for lacking in ["landlock", "landlock,namespaces", "namespaces,filters"] {
        let refusing = world_without_features(lacking, "").await;
        let result = refusing.sh("echo ran > \"$PROJECT/ran\"").await;
        assert!(result.contains("it never ran") && result.contains("doctor"), "{lacking}: {result}");
        assert!(!project(&refusing).join("ran").exists());
        let (output, check) = doctor(&refusing).await;
        assert_eq!((output.code, &check["state"]), (Some(2), &json!("fail")), "{lacking}: {check}");
        assert!(check["hint"].as_str().unwrap().contains("sandbox.mode: best_effort"), "{check}");
        refusing.daemon.ok(["status"]).await.shows(&["commands do not run"]);

        let permissive = world_without_features(lacking, "sandbox: {mode: best_effort}").await;
        permissive.allowed("echo ran > \"$PROJECT/ran\"").await;
        let (_, check) = doctor(&permissive).await;
        assert_eq!(check["state"], "warn", "{lacking}: {check}");
    }

    // Without namespaces, files and network are still confined.
    let narrow = world_without_features("namespaces", "").await;
    let secret = narrow.daemon.write("secret.txt", SECRET).display().to_string();
    narrow.assert_fails(&format!("cat '{secret}'")).await;
    narrow.assert_fails("echo > /dev/tcp/127.0.0.1/1").await;
    narrow.allowed("echo ran > \"$PROJECT/ran\"").await;
    let (_, check) = doctor(&narrow).await;
    assert_eq!(check["state"], "warn", "{check}");
    assert!(check["message"].as_str().unwrap().contains("no namespaces"), "{check}");

    // A read-only command requires approval if the restriction cannot be enforced, and runs if the kernel enforces it.
    for (agentd_yaml, asks) in [("", false), ("sandbox: {mode: 'off'}", true)] {
        let asking = world(agentd_yaml).await;
        asking.script_command("ls");
        let output = asking.daemon.agentctl(["run", "Look", "--on-interrupt", "deny", "--output", "json"]).await;
        let denials = output.json()["denials"].as_array().map_or(0, Vec::len);
        assert_eq!(
            (denials, asking.last_result().starts_with("exit code 0")),
            (usize::from(asks), !asks),
            "{agentd_yaml}"
        );
    }

    let off = world("sandbox: {mode: 'off'}").await;
    let secret = off.daemon.write("secret.txt", SECRET).display().to_string();
    assert!(off.allowed(&format!("cat '{secret}'")).await.contains(SECRET));
    let (_, check) = doctor(&off).await;
    assert_eq!(check["state"], "warn", "{check}");
    assert!(check["message"].as_str().unwrap().contains("off"), "{check}");
}

/// Returns true if a program is in the search path of commands.
fn installed(name: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(name).exists())
}

#[tokio::test]
async fn common_build_tools_work_in_the_sandbox() {
    let (model, mut home) = TempHome::with_server().await;
    // Build tools of the user who runs the tests are outside this home, wherever they are installed.
    let own = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    for (name, usual) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")] {
        let folder = std::env::var_os(name).map_or_else(|| own.join(usual), PathBuf::from);
        home.set(name, folder.display().to_string());
    }
    home.write("config/agentd.yaml", "sandbox: {read: [~/.gitconfig]}\n");
    let write = |path: &str, text: &str| home.write(path, text);
    write(".gitconfig", "[user]\n\tname = A Person\n\temail = person@example.org\n");
    write("project/hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello from c\"); return 0; }\n");
    write("project/Makefile", "hello: hello.c\n\tcc -o hello hello.c\n");
    write("project/src/main.rs", "fn main() { println!(\"hello from rust\"); }\n");
    write("project/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n");
    write("project/package.json", r#"{"name": "x", "version": "1.0.0", "dependencies": {"dep": "file:./dep"}}"#);
    write("project/dep/package.json", r#"{"name": "dep", "version": "1.0.0"}"#);
    let world = World { daemon: TempDaemon::start_in(home).await, model };
    let work: [(&str, &str, &str); 7] = [
        ("git", "git init -q . && git add hello.c && git commit -qm first && git log --format=%an", "A Person"),
        ("make", "make hello && ./hello", "hello from c"),
        ("python3", "python3 -m venv --without-pip venv && venv/bin/python -c 'print(6 * 7)'", "42"),
        ("python3", "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-41, -1]))'", "[41, 1]"),
        ("npm", "npm install --no-audit --no-fund && ls node_modules", "dep"),
        (
            "go",
            "printf 'module x\\n' > go.mod; printf 'package main\\nfunc main() { println(7) }\\n' > x.go; go run x.go",
            "7",
        ),
        ("cargo", "cargo run -q --offline", "hello from rust"),
    ];
    for (program, command, expected) in work {
        if installed(program) {
            let result = world.sh(&format!("cd \"$PROJECT\" && {command}")).await;
            assert!(result.starts_with("exit code 0") && result.contains(expected), "{command}: {result}");
        }
    }
    // The command's files have the same permissions as if the user had created them.
    let made =
        world.allowed("cd \"$PROJECT\" && umask && mkdir new && touch new/file && stat -c %a new new/file").await;
    assert!(made.contains("0022\n755\n644"), "{made}");
    assert!(Path::new(&project(&world)).join("new/file").exists());
}

#[tokio::test]
async fn commands_and_tools_use_the_same_project_path() {
    let world = world("").await;
    world.allowed("echo x > /project/made && cmp made \"$PROJECT/made\" && test \"$PWD\" = /project").await;
    assert!(Path::new(&project(&world)).join("made").exists());
    // The failed redirection is reported although the last command succeeds and the exit code is 0.
    let result = world.allowed("echo x > outputs/made; true").await;
    assert_eq!(result.matches("[commands start in the project").count(), 1, "{result}");
    let result = world.allowed("echo x > /outputs/made; cat /project/missing || true").await;
    assert!(!result.contains("[commands"), "{result}");
}
