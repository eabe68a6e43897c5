//! Tests of the sandbox with real processes: blocked access, allowed access, and cleanup.

use std::{
    net::{TcpListener, UdpSocket},
    os::unix::net::{UnixDatagram, UnixListener},
};

use agentd_core::environment::ClientEnvironment;
use agentd_sandbox::{config::SandboxConfig, host::Sandbox};

use super::*;

/// Returns the path of the example that serves as the helper, which is built together with the tests.
pub(crate) fn helper() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().parent().unwrap().join("examples/sandbox_helper")
}

pub(crate) async fn locked(project: Project, adapt: impl FnOnce(&mut SandboxConfig)) -> Bench {
    // Not in `/tmp`, which is a fresh folder for each command: files outside must also be protected without that.
    locked_in("/var/tmp", project, adapt).await
}

/// Values of `namespaces`: all kernel protections, and the protections that remain if users cannot create namespaces.
pub(crate) const NAMESPACE_SETTINGS: [bool; 2] = [true, false];

/// Creates one bench with namespaces and one without.
pub(crate) async fn with_and_without_namespaces(project: Project) -> Vec<Bench> {
    let mut benches = Vec::new();
    for namespaces in NAMESPACE_SETTINGS {
        benches.push(locked(project, |config| config.namespaces = namespaces).await);
    }
    benches
}

pub(crate) async fn locked_in(base: &str, project: Project, adapt: impl FnOnce(&mut SandboxConfig)) -> Bench {
    in_folder(tempfile::tempdir_in(base).unwrap(), project, adapt).await
}

pub(crate) async fn in_folder(
    outside: tempfile::TempDir,
    project: Project,
    adapt: impl FnOnce(&mut SandboxConfig),
) -> Bench {
    let mut config = SandboxConfig::new(helper());
    adapt(&mut config);
    Bench::in_folder(outside, project, |toolbox| {
        toolbox.sandbox = Some(Arc::new(Sandbox::new(config)));
        toolbox.command_timeout = Duration::from_secs(60);
    })
    .await
}

impl Bench {
    /// Runs a command in the workspace, even if a project is mounted.
    pub(crate) async fn sh(&self, command: &str) -> ToolOutput {
        self.call("run_bash_command", json!({ "command": command, "directory": "/" })).await
    }

    /// Runs a command in the project, if any, and returns the whole output.
    pub(crate) async fn run(&self, command: &str) -> String {
        self.call("run_bash_command", json!({ "command": command })).await.text
    }

    /// Runs a command that must fail without printing the secret.
    pub(crate) async fn denied(&self, command: &str) -> String {
        let output = self.sh(command).await;
        assert!(!output.text.starts_with("exit code 0"), "{command}: {}", output.text);
        assert!(!output.text.contains(SECRET), "{command}: {}", output.text);
        output.text
    }

    pub(crate) async fn allowed(&self, command: &str) -> String {
        let output = self.sh(command).await;
        assert!(output.text.starts_with("exit code 0"), "{command}: {}", output.text);
        output.text
    }
}

/// Returns the number of processes on the host whose command line contains this argument.
pub(crate) fn named(argument: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        fs::read(entry.path().join("cmdline")).ok()
    });
    processes.filter(|line| line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())).count()
}

pub(crate) fn python() -> bool {
    Path::new("/usr/bin/python3").exists()
}

/// Returns environment variables as sent by a client.
fn sent(variables: &[(&str, &str)]) -> Arc<ClientEnvironment> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Arc::new(ClientEnvironment::unchecked(variables))
}

fn program(path: &Path, lines: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    chmod(path, 0o755);
}

#[tokio::test]
async fn tools_and_commands_use_the_same_paths() {
    for writable in [true, false] {
        let bench = locked(if writable { Project::Writable } else { Project::ReadOnly }, |_| {}).await;
        bench.put("/project/src/greet.py", "import os\nprint(os.getcwd(), __file__)\n");
        bench.put("uploads/a.txt", "uploaded");
        bench.put("/memories/m.md", "remembered");
        for (command, expected) in [
            ("pwd; pwd -P; ls", "stdout:\n/project\n/project\nsrc"),
            ("echo $PROJECT $MEMORIES; cat /memories/m.md /uploads/a.txt", "/project /memories\nrememberedupload"),
            ("cd /project && cd src && pwd", "/project/src"),
            (
                "echo x > /temp/a && mv /temp/a /outputs/b && ln /outputs/b /outputs/c && cat \"$WORKSPACE/outputs/c\"",
                "x",
            ),
            ("python3 -c 'import os; os.rename(\"/outputs/b\", \"/uploads/b\")' && ls /uploads", "a.txt\nb"),
            ("cd / && pwd && ls -d project uploads usr", "/\nproject\nuploads\nusr"),
            ("readlink -f /bin/sh | grep -c ^/usr", "1"),
            ("touch /new /project/../new 2>&1; ls /new", "Read-only file system"),
            ("python3 src/greet.py", "/project /project/src/greet.py"),
            ("cat <(echo piped)", "piped"),
            ("printf '#!/bin/sh\\necho ran' > /temp/s; chmod +x /temp/s; /temp/s", "ran"),
        ] {
            let text = bench.run(command).await;
            assert!(text.contains(expected), "{command}: {text}");
        }
        let written = bench.run("echo made > /project/made.txt; echo more >> src/greet.py; cat made.txt").await;
        assert_eq!(written.contains("stdout:\nmade"), writable, "{written}");
        assert_eq!(bench.real("/project/made.txt").exists(), writable);
        // The folder's real path points to the same folder, with the same permissions.
        let real = bench.real("/project").display().to_string();
        assert!(bench.run(&format!("ls {real}; echo x > {real}/real.txt")).await.contains("src"));
        assert_eq!(bench.real("/project/real.txt").exists(), writable);
        let inner = json!({"command": "pwd", "directory": "src"});
        assert!(bench.call("run_bash_command", inner).await.text.contains("/project/src"));
    }
}

#[tokio::test]
async fn hidden_project_paths_are_hidden_by_alias_too() {
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let keys = outside.path().join("code/.ssh");
    let hidden = keys.clone();
    let bench = in_folder(outside, Project::Writable, move |config| config.hidden = vec![hidden]).await;
    fs::create_dir_all(&keys).unwrap();
    fs::write(keys.join("id"), SECRET).unwrap();
    for command in
        ["cat /project/.ssh/id", "cat .ssh/id", "cd /project/.ssh && cat id", "ls -A /project/.ssh | grep id"]
    {
        let text = bench.run(command).await;
        assert!(!text.starts_with("exit code 0") && !text.contains(SECRET), "{command}: {text}");
    }
}

#[tokio::test]
async fn git_sees_the_project_at_its_alias() {
    let bench = locked(Project::Writable, |_| {}).await;
    let command = "git init -q && git rev-parse --show-toplevel && git status --short";
    let text = bench.call("run_bash_command", json!({ "command": command })).await.text;
    assert!(text.starts_with("exit code 0") && text.contains("stdout:\n/project"), "{text}");
}

#[tokio::test]
async fn command_using_a_skill_starts_in_the_workspace() {
    let bench = locked(Project::Writable, |_| {}).await;
    bench.put("skills/pdf/scripts/info.py", "import sys\nprint('info of', sys.argv[1])\n");
    bench.put("uploads/a.pdf", "x");
    for command in [
        "python3 skills/pdf/scripts/info.py uploads/a.pdf",
        "cd skills/pdf && python3 scripts/info.py uploads/a.pdf",
        "python3 /skills/pdf/scripts/info.py uploads/a.pdf",
        "cd /skills/pdf && python3 scripts/info.py uploads/a.pdf",
    ] {
        let text = bench.run(command).await;
        assert!(text.contains("info of uploads/a.pdf"), "{command}: {text}");
    }
    let shown = bench.preview("run_bash_command", json!({"command": "python3 skills/pdf/scripts/info.py x"})).await;
    assert!(shown.unwrap().unwrap().contains("(in the workspace,"));
    // A file with the same name in the project takes precedence.
    bench.put("/project/skills/pdf/scripts/info.py", "print('of the project')\n");
    assert!(bench.run("python3 skills/pdf/scripts/info.py x").await.contains("of the project"));
}

#[tokio::test]
async fn start_folder_is_known_for_each_path_to_it() {
    for namespaces in NAMESPACE_SETTINGS {
        let bench = locked(Project::Writable, |config| config.namespaces = namespaces).await;
        bench.put("skills/pdf/SKILL.md", "x");
        bench.put("/project/sub/a", "x");
        symlink("sub", bench.real("/project/link")).unwrap();
        let check = async |arguments: Value, name: &str, named: &[&str]| {
            let start = bench.start("run_bash_command", arguments.clone()).await.unwrap();
            let real = bench.real(name.strip_prefix("/project").map_or(&name[1..], |_| name));
            let named = named.iter().filter(|_| namespaces).map(PathBuf::from);
            assert_eq!(start.name, name, "{arguments}");
            assert_eq!(start.paths, [real].into_iter().chain(named).collect::<Vec<_>>(), "{arguments}");
            // Each path names the folder in which the command starts.
            for path in &start.paths {
                let command = format!("{}; test . -ef '{}'", arguments["command"].as_str().unwrap(), path.display());
                let mut arguments = arguments.clone();
                arguments["command"] = command.into();
                let text = bench.call("run_bash_command", arguments).await.text;
                assert!(text.starts_with("exit code 0"), "{path:?}: {text}");
            }
        };
        let at = |directory: &str| json!({"command": ":", "directory": directory});
        check(json!({"command": ":"}), "/project", &["/project"]).await;
        check(json!({"command": ": skills/other"}), "/project", &["/project"]).await;
        check(json!({"command": ": skills/pdf"}), "/", &[]).await;
        check(json!({"command": ": skills/pdf", "cwd": "."}), "/project", &["/project"]).await;
        check(at("/"), "/", &[]).await;
        check(at("sub"), "/project/sub", &["/project/sub"]).await;
        check(at("/project/link"), "/project/sub", &["/project/sub"]).await;
        check(at("outputs"), "/outputs", &["/outputs"]).await;
        assert_eq!(bench.start("run_bash_command", at("/etc")).await, None);
        assert_eq!(bench.start("run_bash_command", at("/state")).await, None);
        assert_eq!(bench.start("read_file", json!({"path": "sub/a"})).await, None);
        bench.put("/project/skills/pdf/SKILL.md", "x");
        check(json!({"command": ": skills/pdf"}), "/project", &["/project"]).await;
    }
}

#[tokio::test]
async fn real_paths_are_shown_without_namespaces() {
    let bench = locked(Project::Writable, |config| config.namespaces = false).await;
    bench.put("/project/here.txt", "x");
    let text = bench.run("pwd; echo $PROJECT; ls").await;
    let real = bench.real("/project").display().to_string();
    assert!(text.contains(&format!("stdout:\n{real}\n{real}\nhere.txt")), "{text}");
    assert!(bench.run("cat /project/here.txt").await.contains("use $PROJECT"));
    assert!(bench.run("cat uploads/a.txt").await.contains("$WORKSPACE/uploads"));
}

#[tokio::test]
async fn secrets_outside_cannot_be_read() {
    for bench in with_and_without_namespaces(Project::ReadOnly).await {
        let secret = bench.secret();
        let shown = secret.display();
        let keys = bench.outside.path().join("home/.ssh");
        fs::create_dir_all(&keys).unwrap();
        fs::write(keys.join("id_ed25519"), SECRET).unwrap();
        symlink(&secret, bench.real("uploads/link")).unwrap();
        symlink("/", bench.real("uploads/root")).unwrap();
        for command in [
            format!("cat {shown}"),
            format!("cat {}/id_ed25519", keys.display()),
            format!("ls {}", keys.display()),
            format!("cp {shown} outputs/x"),
            format!("cat /proc/self/root{shown}"),
            format!("cat /proc/1/root{shown}"),
            format!("cat /proc/{}/root{shown}", std::process::id()),
            format!("cat /proc/{}/environ", std::process::id()),
            format!("cat /proc/{}/cwd/../{shown}", std::process::id()),
            "cat /proc/1/environ".to_owned(),
            "cat uploads/link".to_owned(),
            format!("cat uploads/root{shown}"),
            "cat /etc/shadow".to_owned(),
            "cat /dev/sda /dev/vda /dev/mem".to_owned(),
            format!("exec 3<{shown}; cat <&3"),
            format!("bash -c 'cat {shown}'"),
            format!("env -i /bin/cat {shown}"),
            format!("tar cf - {shown} | grep -a launch"),
            "ls ~root".to_owned(),
        ] {
            bench.denied(&command).await;
        }
    }
}

#[tokio::test]
async fn commands_cannot_change_files_outside() {
    for namespaces in NAMESPACE_SETTINGS {
        let bench = locked(Project::ReadOnly, |config| config.namespaces = namespaces).await;
        bench.put("/project/main.c", "int main;");
        bench.put("skills/s/SKILL.md", "skill");
        bench.put("large_tool_results/r.txt", "result");
        assert!(bench.allowed("cat large_tool_results/r.txt").await.contains("result"));
        bench.put("/memories/m.md", "remembered");
        assert!(bench.allowed("cat \"$MEMORIES/m.md\"").await.contains("remembered"));
        let secret = bench.secret();
        let shown = secret.display();
        let root = bench.workspace().root.display().to_string();
        let before = fs::metadata(&secret).unwrap();
        for command in [
            format!("echo x > {shown}"),
            format!("echo x >> {shown}"),
            format!("truncate -s 0 {shown}"),
            format!("rm -f {shown} && false || test ! -e {shown} -a -e {root} && false"),
            format!("chmod 777 {shown}"),
            format!("touch -d 2001-01-01 {shown}"),
            format!("ln {shown} uploads/hard"),
            format!("mv {shown} uploads/moved"),
            format!("mkdir {}/new", bench.outside.path().display()),
            "echo x > $PROJECT/main.c".to_owned(),
            "chmod 777 $PROJECT/main.c".to_owned(),
            "touch $PROJECT/new".to_owned(),
            "mv $PROJECT/main.c temp/".to_owned(),
            "echo x > skills/s/SKILL.md".to_owned(),
            "chmod 777 skills/s/SKILL.md".to_owned(),
            "echo x >> large_tool_results/r.txt".to_owned(),
            "chmod 777 large_tool_results/r.txt".to_owned(),
            "echo x > large_tool_results/new".to_owned(),
            "rm large_tool_results/r.txt".to_owned(),
            "mv large_tool_results temp/".to_owned(),
            "ln large_tool_results/r.txt outputs/r.txt".to_owned(),
            "echo x > conversation_history/new.md".to_owned(),
            "echo x >> \"$MEMORIES/m.md\"".to_owned(),
            "touch \"$MEMORIES/new.md\"".to_owned(),
            "mv \"$MEMORIES/m.md\" temp/".to_owned(),
            "ln \"$MEMORIES/m.md\" temp/m.md".to_owned(),
            "echo x > new-in-root".to_owned(),
            "mv uploads elsewhere".to_owned(),
            "echo x > /etc/agentd-test".to_owned(),
            "echo x > /usr/agentd-test".to_owned(),
            "echo x > /proc/sys/kernel/hostname".to_owned(),
            "echo x > /proc/sysrq-trigger".to_owned(),
            "mknod temp/disk b 8 0".to_owned(),
            "mount -t tmpfs none temp".to_owned(),
            "umount /tmp".to_owned(),
            "unshare -Ur true".to_owned(),
            "unshare -m true".to_owned(),
            "chroot / true".to_owned(),
            "hostname elsewhere".to_owned(),
        ] {
            // Landlock does not restrict modes and times, so they are not protected without namespaces. `doctor`
            // reports this gap.
            if namespaces || !(command.starts_with("chmod") || command.starts_with("touch -d")) {
                bench.denied(&command).await;
            }
        }
        let after = fs::metadata(&secret).unwrap();
        assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
        assert_eq!(before.permissions(), after.permissions());
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        assert_eq!(bench.content("/project/main.c"), b"int main;");
        assert_eq!(bench.content("skills/s/SKILL.md"), b"skill");
        assert_eq!(bench.content("large_tool_results/r.txt"), b"result");
        assert_eq!(bench.content("/memories/m.md"), b"remembered");
        assert_eq!(mode(&bench.real("/project/main.c")) & 0o022, 0);
        assert!(!bench.outside.path().join("new").exists());
    }
}

#[tokio::test]
async fn writable_project_and_listed_folders_are_usable() {
    for namespaces in NAMESPACE_SETTINGS {
        let listed = tempfile::tempdir().unwrap();
        let written = tempfile::tempdir().unwrap();
        fs::write(listed.path().join("tool"), "listed").unwrap();
        let (read, write) = (listed.path().to_owned(), written.path().to_owned());
        let bench = locked(Project::Writable, |config| {
            config.read = vec![read, "/nowhere/at/all".into()];
            config.write = vec![write];
            config.namespaces = namespaces;
        })
        .await;
        let (listed, written) = (listed.path().display().to_string(), written.path().display().to_string());
        bench.allowed("echo x > $PROJECT/new && mkdir $PROJECT/sub && mv $PROJECT/new $PROJECT/sub/").await;
        assert_eq!(bench.content("/project/sub/new"), b"x\n");
        assert!(bench.allowed(&format!("cat {listed}/tool")).await.contains("listed"));
        bench.denied(&format!("echo x > {listed}/tool")).await;
        bench.allowed(&format!("echo y > {written}/new && chmod 600 {written}/new")).await;
        assert_eq!(fs::read_to_string(format!("{written}/new")).unwrap(), "y\n");
    }
}

#[tokio::test]
async fn hidden_paths_stay_hidden_in_readable_folders() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".ssh")).unwrap();
    fs::write(home.path().join(".ssh/id"), SECRET).unwrap();
    fs::write(home.path().join(".netrc"), SECRET).unwrap();
    fs::write(home.path().join("notes"), "notes").unwrap();
    for (writable, namespaces) in [(false, true), (true, true), (false, false), (true, false)] {
        let path = home.path().to_owned();
        let bench = locked(Project::None, |config| {
            config.hidden = vec![path.join(".ssh"), path.join(".netrc"), path.join(".nothing")];
            config.namespaces = namespaces;
            if writable { config.write = vec![path] } else { config.read = vec![path] }
        })
        .await;
        let shown = home.path().display();
        bench.allowed(&format!("cat {shown}/notes")).await;
        bench.denied(&format!("cat {shown}/.ssh/id")).await;
        bench.denied(&format!("grep -r launch {shown}")).await;
        bench.denied(&format!("mv {shown}/.ssh {shown}/s && cat {shown}/s/id")).await;
        assert_eq!(fs::read_to_string(home.path().join(".ssh/id")).unwrap(), SECRET);
    }
}

#[tokio::test]
async fn link_in_place_of_an_area_grants_no_access() {
    for bench in with_and_without_namespaces(Project::None).await {
        bench.secret();
        fs::remove_dir(bench.real("outputs")).unwrap();
        symlink(bench.outside.path(), bench.real("outputs")).unwrap();
        bench.denied("cat outputs/secret.txt").await;
        bench.denied("echo x > outputs/secret.txt").await;
    }
}

#[tokio::test]
async fn network_is_blocked_by_default() {
    for namespaces in NAMESPACE_SETTINGS {
        if !python() {
            return;
        }
        let bench = locked(Project::None, |config| config.namespaces = namespaces).await;
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let path = bench.real("temp/listener");
        let unix = UnixListener::bind(&path).unwrap();
        let datagrams = UnixDatagram::bind(bench.real("temp/datagrams")).unwrap();
        let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        for made in [tcp.set_nonblocking(true), udp.set_nonblocking(true), unix.set_nonblocking(true)] {
            made.unwrap();
        }
        datagrams.set_nonblocking(true).unwrap();
        let program = |body: &str| format!("/usr/bin/python3 -c 'import socket as s, ctypes\n{body}'");
        for body in [
            format!("s.create_connection((\"127.0.0.1\", {tcp_port}))"),
            format!("s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp_port}))"),
            "s.socket(s.AF_INET6)".to_owned(),
            format!("s.socket(s.AF_UNIX).connect(\"{}\")", path.display()),
            "s.socket(s.AF_NETLINK, s.SOCK_RAW)".to_owned(),
            "s.socket(s.AF_PACKET, s.SOCK_RAW)".to_owned(),
            // Datagrams do not need a connection.
            "a, b = s.socketpair(s.AF_UNIX, s.SOCK_DGRAM)\na.sendto(b\"x\", \"temp/datagrams\")".to_owned(),
            // `io_uring` could create sockets that the filter does not see.
            "import sys\nsys.exit(0 if ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(256)) >= 0 else 1)"
                .to_owned(),
        ] {
            bench.denied(&program(&body)).await;
        }
        bench.denied(&format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}")).await;
        bench.allowed(&program("a, b = s.socketpair()\na.send(b\"x\")\nassert b.recv(1) == b\"x\"")).await;
        assert!(tcp.accept().is_err() && unix.accept().is_err());
        assert!(udp.recv(&mut [0; 8]).is_err() && datagrams.recv(&mut [0; 8]).is_err());
        let text = bench.denied(&program(&format!("s.create_connection((\"127.0.0.1\", {tcp_port}))"))).await;
        assert!(text.contains("the sandbox forbids sockets"), "{text}");
    }
}

#[tokio::test]
async fn locale_is_fixed_and_path_excludes_session_programs() {
    for mut bench in with_and_without_namespaces(Project::Writable).await {
        for folder in ["/project/bin", "temp/bin"] {
            program(&bench.real(&format!("{folder}/ls")), "echo planted");
        }
        // A link to a session folder is excluded too.
        let link = bench.outside.path().join("link");
        symlink(bench.real("/project/bin"), &link).unwrap();
        let path = format!(
            "bin:.:{}:{}:{}:/usr/bin:/bin",
            bench.real("/project/bin").display(),
            bench.real("temp/bin").display(),
            link.display()
        );
        let letters = [("LANG", "zh_CN.GBK"), ("LC_ALL", "zh_TW.Big5"), ("LC_CTYPE", "en_US.UTF-8")];
        bench.context.environment = sent(&[&[("PATH", path.as_str())], &letters[..]].concat());
        let text = bench.allowed("locale charmap 2>/dev/null; env; ls; cd $PROJECT && ls; ls bin").await;
        assert!(text.contains("LANG=C.UTF-8") && !text.contains("GBK") && !text.contains("Big5"), "{text}");
        assert!(text.contains("LC_CTYPE=en_US.UTF-8") && text.contains("PATH=/usr/bin:/bin\n"), "{text}");
        assert!(!text.contains("planted"), "{text}");
        // In GBK, the last byte of this character would combine with the backslash.
        let text = bench.allowed("echo \u{3042}\\; echo two").await;
        assert!(text.contains("\u{3042}; echo two"), "{text}");
    }
}

#[tokio::test]
async fn path_skips_inaccessible_folders() {
    for namespaces in NAMESPACE_SETTINGS {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        for folder in ["closed", "listed"] {
            program(&home.path().join(folder).join("agentd-test-program"), &format!("echo this is {folder}"));
        }
        let listed = home.path().join("listed");
        let mut bench = locked(Project::None, |config| {
            config.read = vec![listed.clone()];
            config.namespaces = namespaces;
        })
        .await;
        let closed = home.path().join("closed").display().to_string();
        let path = format!("{closed}:{}:/nowhere:/usr/bin:/bin", listed.display());
        bench.context.environment = sent(&[("PATH", &path)]);
        let text = bench.allowed("agentd-test-program; env").await;
        assert!(text.contains("this is listed") && text.contains("/nowhere:/usr/bin"), "{text}");
        // If all folders in the search path are closed, programs must not be run from the working directory.
        bench.context.environment = sent(&[("PATH", &closed)]);
        let command = "cd $WORKSPACE/temp; printf 'echo mine' > ls; chmod +x ls; ls; env";
        let text = bench.allowed(command).await;
        assert!(!text.contains("mine\n") && text.contains("PATH=/usr/local/sbin:"), "{text}");
    }
}

#[tokio::test]
async fn outside_processes_cannot_be_signalled() {
    for bench in with_and_without_namespaces(Project::None).await {
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let (daemon, pid) = (std::process::id(), other.id());
        for command in [
            format!("kill -9 {pid}"),
            format!("kill -0 {daemon}"),
            format!("kill -TERM {daemon}"),
            format!("cat /proc/{pid}/environ"),
            format!("cat /proc/{daemon}/maps"),
            format!("ls -l /proc/{daemon}/fd/"),
            format!("echo x > /proc/{daemon}/mem"),
            "kill -9 1".to_owned() + "; cat /proc/1/environ",
        ] {
            bench.denied(&command).await;
        }
        if python() {
            for call in [
                format!("ptrace(16, {pid}, 0, 0)"),
                format!("syscall(310, {pid}, 0, 0, 0, 0, 0)"),
                "syscall(250, 0, 0)".to_owned(),
            ] {
                let body = format!("import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).{call} >= 0 else 1)");
                bench.denied(&format!("/usr/bin/python3 -c '{body}'")).await;
            }
        }
        bench.sh("kill -9 -1").await;
        assert!(other.try_wait().unwrap().is_none(), "the process still runs");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

#[tokio::test]
async fn background_children_do_not_outlive_the_call() {
    for (number, template) in [
        "sleep NUMBER & echo done",
        "sleep NUMBER > /dev/null 2>&1 & disown; echo done",
        "nohup sleep NUMBER > /dev/null 2>&1 & echo done",
        "setsid sleep NUMBER & echo done",
        "(setsid nohup sleep NUMBER > /dev/null 2>&1 &); echo done",
        "env -i setsid setsid -f sleep NUMBER > /dev/null 2>&1; echo done",
        "(trap '' HUP TERM INT; exec env -i setsid sleep NUMBER) & echo done",
        "bash -c '(bash -c \"(env -i setsid sleep NUMBER &)\" &)' > /dev/null 2>&1; sleep 0.1; echo done",
    ]
    .into_iter()
    .enumerate()
    {
        for namespaces in NAMESPACE_SETTINGS {
            let bench = locked(Project::None, |config| config.namespaces = namespaces).await;
            let number = format!("1000.{}{number}", std::process::id());
            let text = bench.allowed(&template.replace("NUMBER", &number)).await;
            assert_eq!(named(&number), 0, "{template}");
            let expected = "[1 background process ended with the command]\nstdout:\ndone";
            assert!(text.contains(expected), "{namespaces} {template}: {text}");
        }
    }
}

#[tokio::test]
async fn limit_cancel_and_drop_kill_all_processes() {
    for bench in with_and_without_namespaces(Project::None).await {
        let number = format!("2000.{}", std::process::id());
        let command = format!(
            "trap 'echo tidied > outputs/t; exit' TERM; (trap '' TERM; exec env -i setsid sleep {number}) & touch temp/runs; \
             while :; do sleep 0.05; done"
        );
        let output = bench.call("run_bash_command", json!({"command": command, "timeout_s": 1})).await;
        assert_eq!(output.error, Some(ToolErrorCode::Timeout), "{}", output.text);
        assert_eq!(bench.content("outputs/t"), b"tidied\n");
        assert_eq!(named(&number), 0);

        let stubborn =
            format!("trap '' TERM; env -i setsid sleep {number} & touch temp/stubborn; while :; do sleep 0.05; done");
        let output = bench.call("run_bash_command", json!({"command": stubborn, "timeout_s": 1})).await;
        assert_eq!(output.error, Some(ToolErrorCode::Timeout), "{}", output.text);
        assert_eq!(named(&number), 0);

        fs::remove_file(bench.real("temp/runs")).unwrap();
        tokio::select! {
            _ = bench.sh(&command) => panic!("it must not end"),
            () = eventually("the command runs", || bench.real("temp/runs").exists() && named(&number) == 1) => {}
        }
        eventually("all are gone", || named(&number) == 0).await;

        fs::remove_file(bench.real("temp/runs")).unwrap();
        let (output, ()) = tokio::join!(bench.sh(&command), async {
            eventually("the command runs", || bench.real("temp/runs").exists()).await;
            bench.context.cancel.cancel();
        });
        assert_eq!(output.error, Some(ToolErrorCode::Cancelled), "{}", output.text);
        assert_eq!(named(&number), 0);
    }
}

#[tokio::test]
async fn killing_the_daemon_kills_its_commands() {
    // The test starts itself as another process, which is killed like a daemon.
    const MARK: &str = "AGENTD_TEST_KILLED_DAEMON";
    if let Ok(number) = std::env::var(MARK) {
        let namespaces = number.ends_with('1');
        let bench = locked(Project::None, |config| config.namespaces = namespaces).await;
        bench.sh(&format!("(trap '' HUP TERM; exec env -i setsid sleep {number}) & sleep {number}")).await;
        return;
    }
    for strength in [1, 0] {
        let number = format!("3000.{}{strength}", std::process::id());
        let mut daemon = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::killing_the_daemon_kills_its_commands"])
            .env(MARK, &number)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually("both run", || named(&number) == 2).await;
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        eventually("both are gone", || named(&number) == 0).await;
    }
}
