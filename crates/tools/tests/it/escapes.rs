//! Known ways to escape from the sandbox. Each is tried with all kernel protections and with fewer.

use std::os::{
    fd::{AsRawFd as _, IntoRawFd as _},
    unix::process::CommandExt as _,
};

use agentd_sandbox::host::HELPER_ARGUMENT;

use super::{
    sandbox::{NAMESPACE_SETTINGS, helper, locked, named, python, with_and_without_namespaces},
    *,
};

#[tokio::test]
async fn session_works_while_surrounding_data_is_hidden() {
    for namespaces in NAMESPACE_SETTINGS {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = home.path().to_owned();
        fs::write(path.join("notes"), "notes").unwrap();
        let mut bench = locked(Project::None, |config| {
            config.namespaces = namespaces;
            config.hidden = vec![path.join("data")];
            config.read = vec![path.clone()];
        })
        .await;
        fs::create_dir(path.join("data")).unwrap();
        let folders = WorkspaceFolders::new(path.join("data/workspace"));
        let workspace = folders.open(bench.context.session_id, None.into()).await.unwrap();
        fs::write(path.join("data/agentd.db"), SECRET).unwrap();
        let other = folders.open(SessionId::generate(), None.into()).await.unwrap();
        fs::write(other.root.join("uploads/x"), SECRET).unwrap();
        bench.context.workspace = Arc::new(workspace);
        bench.allowed("echo x > outputs/x && cat outputs/x").await;
        bench.allowed(&format!("cat {}/notes", path.display())).await;
        bench.denied(&format!("cat {}/data/agentd.db", path.display())).await;
        bench.denied(&format!("cat {}/uploads/x", other.root.display())).await;
        bench.denied(&format!("touch {}/data/new", path.display())).await;
        assert!(!path.join("data/new").exists() && bench.real("outputs/x").exists());
    }
}

#[tokio::test]
async fn project_replaced_by_a_link_is_not_followed() {
    for mut bench in with_and_without_namespaces(Project::Writable).await {
        bench.put("/project/inner/deep/file", "code");
        let away = bench.outside.path().join("away");
        fs::create_dir_all(away.join("deep")).unwrap();
        fs::write(away.join("deep/secret.txt"), SECRET).unwrap();
        let outer = bench.real("/project");
        // Another session can access the same file if its project is inside the first session's project.
        for inner in ["inner", "inner/deep"] {
            let path = outer.join(inner).canonicalize().unwrap();
            let workspace = Workspace { project: Some(Mount { path, writable: true }), ..bench.workspace().clone() };
            let real = outer.join("inner");
            fs::rename(&real, outer.join("moved")).unwrap();
            symlink(if inner == "inner" { away.join("deep") } else { away.clone() }, &real).unwrap();
            let before = std::mem::replace(&mut bench.context.workspace, Arc::new(workspace));
            for command in
                ["cat \"$PROJECT/secret.txt\"", "echo x > \"$PROJECT/secret.txt\"", "ls \"$PROJECT/\" | grep secret"]
            {
                bench.denied(command).await;
            }
            for (tool, arguments) in [
                ("read_file", json!({"path": "/project/secret.txt"})),
                ("write_file", json!({"path": "/project/secret.txt", "content": "x"})),
                ("list_workspace_files", json!({"path": "/project"})),
                ("grep", json!({"path": "/project", "pattern": "launch"})),
            ] {
                let text = bench.fails(tool, arguments, ToolErrorCode::Path).await;
                assert!(!text.contains(SECRET), "{text}");
            }
            bench.context.workspace = before;
            fs::remove_file(&real).unwrap();
            fs::rename(outer.join("moved"), &real).unwrap();
        }
        assert_eq!(fs::read_to_string(away.join("deep/secret.txt")).unwrap(), SECRET);
    }
}

#[tokio::test]
async fn rlimits_of_outside_processes_cannot_be_set() {
    if !python() {
        return;
    }
    for bench in with_and_without_namespaces(Project::None).await {
        let other = tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn().unwrap();
        let pid = other.id().unwrap();
        // A CPU time limit on another process, or on the helper, could end that process.
        for target in [pid.to_string(), "os.getppid()".to_owned()] {
            let body = format!("import os, resource as r\nr.prlimit({target}, r.RLIMIT_NOFILE, (0, 0))");
            let output = bench.sh(&format!("/usr/bin/python3 -c '{body}'")).await;
            assert!(output.text.starts_with("exit code 1"), "{target}: {}", output.text);
        }
        bench.denied(&format!("renice -n 19 -p {pid}")).await;
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        assert!(!files.contains(" 0 "), "{files}");
        // The limits of the command's own process can be changed.
        bench.allowed("ulimit -n 100; test $(ulimit -n) = 100; nice -n 5 true").await;
    }
}

#[tokio::test]
async fn system_v_shared_memory_is_inaccessible() {
    if !python() {
        return;
    }
    let library = |body: &str| format!("/usr/bin/python3 -c 'import ctypes, sys; l = ctypes.CDLL(None)\n{body}'");
    // The shared memory segment is created by another process of the same user.
    let made =
        std::process::Command::new("bash").args(["-c", &library("print(l.shmget(0, 4096, 0o1600))")]).output().unwrap();
    let id = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    for namespaces in NAMESPACE_SETTINGS {
        let bench = locked(Project::None, |config| config.namespaces = namespaces).await;
        let attach = format!("l.shmat.restype = ctypes.c_void_p\nsys.exit(int(l.shmat({id}, 0, 0) == 2**64 - 1))");
        let output = bench.sh(&library(&attach)).await;
        assert!(output.text.starts_with("exit code 1"), "{namespaces}: {}", output.text);
    }
    let removed = std::process::Command::new("bash").args(["-c", &library(&format!("l.shmctl({id}, 0, 0)"))]).status();
    assert!(removed.unwrap().success());
}

#[tokio::test]
async fn old_and_new_mount_syscalls_are_blocked() {
    const OPEN_TREE_ATTR: i64 = 467;
    if !python() {
        return;
    }
    for bench in with_and_without_namespaces(Project::None).await {
        for call in [libc::SYS_open_tree, libc::SYS_mount_setattr, OPEN_TREE_ATTR] {
            let body = format!(
                "import ctypes; l = ctypes.CDLL(None, use_errno=True)\n\
                 print(l.syscall({call}, -100, b\".\", 0, None, 0), ctypes.get_errno())"
            );
            let output = bench.sh(&format!("/usr/bin/python3 -c '{body}'")).await;
            assert!(output.text.lines().any(|line| line == "-1 1"), "{call}: {}", output.text);
        }
    }
}

#[tokio::test]
async fn setuid_programs_cannot_be_created() {
    for bench in with_and_without_namespaces(Project::Writable).await {
        for command in [
            "cp /bin/true outputs/t && chmod u+s outputs/t",
            "cp /bin/true outputs/t && chmod 4755 outputs/t",
            "install -m 4755 /bin/true \"$PROJECT/t\"",
            "perl -e 'use Fcntl; sysopen(F, \"outputs/made\", O_CREAT|O_WRONLY, 04755) or exit 1'",
            "cp /bin/true outputs/t && chmod g+s outputs/t",
            "cp /bin/true outputs/t && chmod 2755 outputs/t",
            "install -m 2755 /bin/true \"$PROJECT/t\"",
            "perl -e 'use Fcntl; sysopen(F, \"outputs/made\", O_CREAT|O_WRONLY, 02755) or exit 1'",
            "chmod g+s outputs",
        ] {
            bench.denied(command).await;
        }
        for path in ["outputs", "outputs/t", "/project/t", "outputs/made"] {
            assert!(!bench.real(path).exists() || mode(&bench.real(path)) & 0o6000 == 0, "{path}");
        }
        bench.allowed("touch outputs/x && chmod 755 outputs/x && umask 022 && mkdir -m 1775 temp/d").await;
    }
}

#[tokio::test]
async fn inotify_watches_are_blocked() {
    if !python() {
        return;
    }
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    for bench in with_and_without_namespaces(Project::Writable).await {
        let watch = format!(
            "/usr/bin/python3 -c 'import ctypes, sys; l = ctypes.CDLL(None); f = l.inotify_init1(0)\n\
             sys.exit(0 if f >= 0 and l.inotify_add_watch(f, b\"{}\", 0xfff) >= 0 else 1)'",
            outside.path().display()
        );
        bench.denied(&watch).await;
        // Programs must work without `inotify`.
        let text = bench.allowed("echo one > temp/log; timeout 2 tail -n 1 -f temp/log || true").await;
        assert!(text.contains("one"), "{text}");
    }
}

#[tokio::test]
async fn session_with_removed_permissions_is_reopened() {
    for namespaces in NAMESPACE_SETTINGS {
        let mut bench = locked(Project::None, |config| config.namespaces = namespaces).await;
        bench.put("uploads/x", "kept");
        let (root, uploads) = (bench.context.workspace.root.clone(), bench.real("uploads"));
        let closing = "echo y > outputs/y; chmod 000 uploads; cd /; chmod 000 \"$WORKSPACE\"";
        bench.sh(closing).await;
        assert_eq!(mode(&root), 0, "{namespaces}");
        // Access is restored in the same turn, for every tool.
        let listed = bench.call("list_workspace_files", json!({})).await;
        assert!(listed.error.is_none() && listed.text.contains("outputs"), "{}", listed.text);
        bench.allowed("cat outputs/y").await;
        // Access is restored at the beginning of the next turn, including access to subfolders.
        let workspace = bench.folders.open(bench.context.session_id, None.into()).await.unwrap();
        bench.context.workspace = Arc::new(workspace);
        assert_eq!(mode(&uploads), 0o700);
        bench.allowed("cat uploads/x").await;
        bench.sh(closing).await;
        bench.folders.remove(bench.context.session_id).await.unwrap();
        assert!(!root.exists());
    }
}

#[tokio::test]
async fn daemon_file_descriptors_are_not_inherited() {
    for bench in with_and_without_namespaces(Project::None).await {
        let secret = fs::File::open(bench.secret()).unwrap();
        // The descriptor is inherited across `exec`, as if left open by a supervisor or a library.
        let leaked = nix::unistd::dup(&secret).unwrap().into_raw_fd();
        assert_ne!(leaked, secret.as_raw_fd());
        let text = bench.allowed("ls -l /proc/self/fd; cat").await;
        assert!(!text.contains("secret.txt"), "{text}");
        bench.denied(&format!("cat <&{leaked}")).await;
        nix::unistd::close(leaked).unwrap();
    }
}

#[tokio::test]
async fn fork_bomb_is_limited_and_cleaned_up() {
    // Each process starts two more processes.
    let number = format!("6000.{}", std::process::id());
    for namespaces in NAMESPACE_SETTINGS {
        let bench = locked(Project::None, |config| {
            config.namespaces = namespaces;
            config.limits.processes = Some(400);
            config.limits.cpu_seconds = Some(20);
        })
        .await;
        // Without a process namespace, only the recursion depth limits the number of processes.
        let bomb = format!(
            "f() {{ test $1 = 0 || {{ f $(($1 - 1)) & f $(($1 - 1)) & }}; exec -a x setsid sleep {number}; }}; f 7"
        );
        bench.call("run_bash_command", json!({"command": bomb, "timeout_s": 2})).await;
        crate::bench::eventually("all processes have ended", || named(&number) == 0).await;
    }
}

#[tokio::test]
async fn helper_policy_is_hidden_from_commands() {
    let bench = locked(Project::None, |_| {}).await;
    for command in [
        // Neither the control socket nor the policy is accessible through a descriptor or the environment.
        "ls -l /proc/$$/fd | grep -c socket",
        "cat /proc/$PPID/cmdline",
        "cat /proc/1/cmdline | grep -a sandbox-exec; kill -STOP 1 && kill -KILL 1 && test ! -e /proc/1",
    ] {
        let output = bench.sh(command).await;
        let text = output.text;
        assert!(!text.starts_with("exit code 0") || !text.contains("socket"), "{command}: {text}");
    }
    // Without a control socket, the helper does not run a command.
    let status = std::process::Command::new(helper())
        .args([HELPER_ARGUMENT, "touch", "/var/tmp/agentd-never"])
        .stdin(std::process::Stdio::null())
        .status();
    assert!(!status.unwrap().success());
    assert!(!std::path::Path::new("/var/tmp/agentd-never").exists());
}

#[test]
fn escapes_are_blocked_for_unprivileged_users() {
    // If run as root, the test runs again as the user `nobody`, because the kernel treats both users differently.
    const NOBODY: u32 = 65534;
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    chmod(folder.path(), 0o777);
    let copied = |from: std::path::PathBuf, to: &str| {
        let to = folder.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, &to).unwrap();
        to
    };
    // The build folder may be inaccessible to that user.
    let tests = copied(std::env::current_exe().unwrap(), "deps/it");
    copied(helper(), "examples/sandbox_helper");
    let run = |filter: &str| {
        let mut command = std::process::Command::new(&tests);
        command.arg(filter).args(["--test-threads", "2"]).current_dir("/").env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", folder.path()).env("RUST_BACKTRACE", "1");
        command.uid(NOBODY).gid(NOBODY);
        let output = command.output().unwrap();
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !report.contains(" 0 passed"), "{report}");
    };
    ["sandbox::", "escapes::", "git::", "keys::", "read_only::"].into_iter().for_each(run);
}
