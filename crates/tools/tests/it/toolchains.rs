//! Compilers and interpreters outside the listed folders that the client's variables name.

use agentd_core::environment::ClientEnvironment;

use super::{
    sandbox::{NAMESPACE_SETTINGS, locked},
    *,
};

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    chmod(&path, 0o755);
}

/// Installs a fake Rust toolchain, like rustup, and a fake Java in an unlisted folder.
fn installed() -> tempfile::TempDir {
    let at = tempfile::tempdir_in("/var/tmp").unwrap();
    let write = |path: &str, text: &str| write(at.path(), path, text);
    write("cargo/bin/cargo", "#!/bin/sh\nexec \"$RUSTUP_HOME/toolchains/stable/bin/cargo\" \"$@\"\n");
    write("cargo/credentials.toml", SECRET);
    write("cargo/config.toml", &format!("[registries.own]\ntoken = \"{SECRET}\"\n[net]\noffline = true\n"));
    write("cargo/registry/index", "plain");
    write("cargo/diary", SECRET);
    write("rustup/settings.toml", "");
    write("rustup/toolchains/stable/bin/cargo", "#!/bin/sh\necho this is cargo $1\n");
    write("rustup/toolchains/stable/.npmrc", SECRET);
    write("jdk/bin/java", "#!/bin/sh\necho this is java\n");
    write("jdk/lib/modules", "");
    at
}

fn name(bench: &mut Bench, variables: &[(&str, &Path)]) {
    let variables = variables.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string()));
    bench.context.environment = ClientEnvironment::unchecked(variables).into();
}

#[tokio::test]
async fn client_toolchain_is_usable_with_its_keys_hidden() {
    for namespaces in NAMESPACE_SETTINGS {
        let at = installed();
        let mut bench = locked(Project::Writable, |config| config.namespaces = namespaces).await;
        let [cargo, rustup, java] = ["cargo", "rustup", "jdk"].map(|name| at.path().join(name));
        let named = [("CARGO_HOME", cargo.as_path()), ("RUSTUP_HOME", &rustup), ("JAVA_HOME", &java)];
        name(&mut bench, &named);
        let output = bench.allowed("cargo build && $JAVA_HOME/bin/java && cat $CARGO_HOME/registry/index").await;
        for part in ["this is cargo build", "this is java", "plain"] {
            assert!(output.contains(part), "{output}");
        }
        for command in [
            "cat $CARGO_HOME/credentials.toml | grep launch",
            "cat $CARGO_HOME/config.toml | grep launch",
            "cat $CARGO_HOME/diary",
            "cat $RUSTUP_HOME/toolchains/stable/.npmrc | grep launch",
            "echo x >> $CARGO_HOME/bin/cargo",
            "touch $RUSTUP_HOME/toolchains/new",
        ] {
            bench.denied(command).await;
        }
        if namespaces {
            assert!(bench.allowed("cat $CARGO_HOME/config.toml").await.contains("offline = true"));
        }
        // Without programs, the folder is a cache.
        fs::remove_dir_all(cargo.join("bin")).unwrap();
        assert!(bench.allowed("cat $CARGO_HOME/registry/index").await.contains("plain"));
        bench.denied("cat $CARGO_HOME/credentials.toml | grep launch").await;
    }
}

#[tokio::test]
async fn only_plain_toolchain_folders_are_mounted() {
    for namespaces in NAMESPACE_SETTINGS {
        let at = tempfile::tempdir_in("/var/tmp").unwrap();
        let top = at.path().canonicalize().unwrap();
        // All folders except the last look like Java.
        let folders = ["", "home", "home/.ssh", "data/jdk", "plain"].map(|folder| top.join(folder));
        for folder in &folders {
            write(folder, "diary", SECRET);
            if !folder.ends_with("plain") {
                write(folder, "bin/java", "#!/bin/sh\necho this is java\n");
                write(folder, "lib/modules", "");
            }
        }
        let mut bench = locked(Project::Writable, |config| {
            config.namespaces = namespaces;
            config.home = Some(top.join("home"));
            config.hidden = vec![top.join("home/.ssh"), top.join("data")];
        })
        .await;
        let outside = bench.outside.path().canonicalize().unwrap();
        write(&outside, "diary", SECRET);
        write(&outside, "bin/java", "");
        write(&outside, "lib/modules", "");
        let linked = top.join("linked");
        symlink(top.join("home"), &linked).unwrap();
        for folder in folders.iter().chain([&outside, &linked]) {
            name(&mut bench, &[("JAVA_HOME", folder.as_path())]);
            bench.denied(&format!("cat {}/diary | grep launch", folder.display())).await;
            let output = bench.sh("$JAVA_HOME/bin/java").await.text;
            assert!(!output.contains("this is java"), "{}: {output}", folder.display());
        }
    }
}
