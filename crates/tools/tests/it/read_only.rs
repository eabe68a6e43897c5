//! Commands in read-only confinement cannot change anything, so that misjudging a command causes no harm.

use std::net::TcpListener;

use agentd_sandbox::config::{SandboxConfig, SandboxMode};

use super::{
    sandbox::{NAMESPACE_SETTINGS, locked, locked_in, python},
    *,
};

/// Creates a bench with all access that a user can configure.
async fn confined(namespaces: bool, listed: &Path, adapt: impl FnOnce(&mut SandboxConfig)) -> Bench {
    let listed = listed.to_owned();
    let mut bench = locked(Project::Writable, |config| {
        config.namespaces = namespaces;
        config.network = true;
        config.write = vec![listed];
        adapt(config);
    })
    .await;
    bench.context.confinement = Confinement::ReadOnly;
    bench
}

#[tokio::test]
async fn read_only_sandbox_ignores_write_settings() {
    for (namespaces, mode) in
        [(true, SandboxMode::Enforce), (false, SandboxMode::Enforce), (true, SandboxMode::BestEffort)]
    {
        let listed = tempfile::tempdir_in("/var/tmp").unwrap();
        let bench = confined(namespaces, listed.path(), |config| config.mode = mode).await;
        for path in ["uploads/a", "outputs/a", "temp/a", "/project/a", "/memories/a"] {
            bench.put(path, "as it was");
        }
        let own = listed.path().join("a");
        fs::write(&own, "as it was").unwrap();
        let own = own.display().to_string();
        let targets = ["uploads/a", "outputs/a", "temp/a", "\"$PROJECT/a\"", "\"$MEMORIES/a\"", own.as_str()];
        for target in targets {
            assert!(bench.allowed(&format!("cat {target}")).await.contains("as it was"), "{target}");
            for command in [
                format!("echo x > {target}"),
                format!("echo x >> {target}"),
                format!("rm {target}"),
                format!("mv {target} {target}.moved"),
                format!("ln {target} {target}.linked"),
                format!("ln -s {target} {target}.linked"),
                format!("touch {target}.new"),
                format!("mkdir {target}.new"),
                format!("mkfifo {target}.new"),
                format!("truncate -s 0 {target}"),
                format!("chmod 777 {target}"),
                format!("touch -d 2001-01-01 {target}"),
                format!("cp /etc/passwd {target}"),
                format!("sed -i s/was/is/ {target}"),
                format!("sort -o {target} /etc/passwd"),
                format!("(echo x | tee {target}) | grep y"),
            ] {
                bench.denied(&command).await;
            }
        }
        bench.denied("chmod 700 . uploads outputs temp").await;
        for path in ["uploads", "outputs", "temp", "/project", "/memories"] {
            let file = bench.real(path).join("a");
            assert_eq!(tree(&bench.real(path)), [(file.clone(), b"as it was".to_vec())]);
            assert!(fs::metadata(file).unwrap().modified().unwrap().elapsed().unwrap().as_secs() < 600, "{path}");
        }
        assert_eq!(fs::read_to_string(own).unwrap(), "as it was");
    }
}

#[tokio::test]
async fn read_only_sandbox_has_no_network() {
    for namespaces in NAMESPACE_SETTINGS {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut bench = confined(namespaces, folder.path(), |_| {}).await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let command = format!("echo x > /dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
        let output = bench.denied(&command).await;
        assert!(output.contains("this command ran without approval"), "{output}");
        assert!(listener.accept().is_err(), "a connection was accepted");
        bench.context.confinement = Confinement::Usual;
        bench.allowed(&command).await;
        assert!(listener.accept().is_ok());
    }
}

#[tokio::test]
async fn read_only_sandbox_has_private_temporary_files() {
    // A session in `/tmp` is also tested, because `/tmp` is a fresh folder for each command.
    for base in ["/tmp", "/var/tmp"] {
        let mut bench = locked_in(base, Project::Writable, |_| {}).await;
        bench.context.confinement = Confinement::ReadOnly;
        bench.put("/project/a.txt", "b\na\n");
        bench.put("uploads/b.txt", "found");
        assert!(bench.allowed("sort -S 1k \"$PROJECT/a.txt\"; cat uploads/*").await.contains("a\nb\nfound"));
        assert!(bench.allowed("f=$(mktemp) && echo y > $f && cat $f && test $TMPDIR = /tmp").await.contains("y"));
        bench.allowed("cat <<< here; ls -l; find . -name '*.txt'; grep -r found .; echo > /dev/null").await;
        bench.denied("ls /tmp/tmp.* | grep .").await;
        assert!(fs::read_dir(bench.real("temp")).unwrap().next().is_none());
    }
}

#[tokio::test]
async fn read_only_command_needs_a_sandbox() {
    for mode in [SandboxMode::Off, SandboxMode::BestEffort] {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        // Without a helper, commands cannot be confined.
        let bench = confined(true, folder.path(), |config| {
            config.mode = mode;
            config.helper = "/bin/true".into();
        })
        .await;
        assert!(!bench.toolbox.can_enforce_read_only().await);
        let output =
            bench.fails("run_bash_command", json!({"command": "echo ran > outputs/x"}), ToolErrorCode::Tool).await;
        assert!(output.contains("refused to run the command"), "{output}");
        assert!(!bench.real("outputs/x").exists());
    }
    let bench = Bench::new().await;
    assert!(!bench.toolbox.can_enforce_read_only().await, "there is no sandbox");
    let strong = locked(Project::None, |_| {}).await;
    assert!(strong.toolbox.can_enforce_read_only().await);
}

#[tokio::test]
async fn extended_attributes_are_inaccessible_by_path() {
    if !python() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let closed = folder.path().join("closed");
    fs::write(&closed, "x").unwrap();
    let path = closed.display();
    let program = |body: &str| format!("/usr/bin/python3 -c 'import os\n{body}'");
    let outside =
        |body: String| std::process::Command::new("bash").args(["-c", &program(&body)]).status().unwrap().success();
    // A file system without extended attributes cannot leak them.
    let has_attributes = outside(format!("os.setxattr(\"{path}\", \"user.secret\", b\"{SECRET}\")"));
    for namespaces in NAMESPACE_SETTINGS {
        for confinement in [Confinement::Usual, Confinement::ReadOnly] {
            let mut bench = locked(Project::Writable, |config| config.namespaces = namespaces).await;
            bench.context.confinement = confinement;
            for body in [
                format!("print(os.getxattr(\"{path}\", \"user.secret\"))"),
                format!("print(os.getxattr(\"{path}\", \"user.secret\", follow_symlinks=False))"),
                format!("assert os.listxattr(\"{path}\")"),
                format!("os.setxattr(\"{path}\", \"user.other\", b\"x\")"),
                format!("os.removexattr(\"{path}\", \"user.secret\")"),
            ] {
                bench.denied(&program(&body)).await;
            }
            bench.allowed("ls -l uploads; ls -la . > /dev/null").await;
        }
    }
    assert!(!has_attributes || outside(format!("assert os.listxattr(\"{path}\") == [\"user.secret\"]")));
}
