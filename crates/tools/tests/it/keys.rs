//! Files with keys in folders that commands may read: hidden by name or by content, or shown without the keys.

use agentd_core::environment::ClientEnvironment;
use agentd_sandbox::config::SandboxConfig;

use super::{
    sandbox::{NAMESPACE_SETTINGS, locked},
    *,
};

/// Creates a typical home folder with secret and ordinary files.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let write = |path: &str, text: &str| {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for path in SECRETS {
        write(path, &format!("-----BEGIN RSA PRIVATE KEY-----\npassword = {SECRET}\n"));
    }
    let of_git = format!(
        "[user]\n\tname = A Person\n\temail = person@example.org\n[github]\n\ttoken = {SECRET}\n\
         [url \"https://me:{SECRET}@example.org/\"]\n\tinsteadOf = https://example.org/\n"
    );
    write(".gitconfig", &of_git);
    let registry = format!("index = \"sparse+https://example.org/\"\ntoken = \"{SECRET}\"\n");
    write(".cargo/config.toml", &format!("[registries.own]\n{registry}[net]\noffline = true\n"));
    for path in PLAIN {
        write(path, "plain");
    }
    home
}

const SECRETS: &[&str] = &[
    ".aws/credentials",
    ".bash_history",
    ".cargo/credentials.toml",
    ".config/gcloud/access_tokens.db",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/google-chrome/Default/Login Data",
    ".config/pip/pip.conf",
    ".config/some-tool/settings.ini",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg/private-keys-v1.d/a.key",
    ".kube/config",
    ".local/share/keyrings/login.keyring",
    ".local/share/uv/credentials/credentials.toml",
    ".m2/settings.xml",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh/id_ed25519",
    ".some-toolrc",
    "certificates/server.key",
    "certificates/server.pem",
    "certificates/of/a/program/with/many/folders/server.pem",
    ".config/some-tool/of/a/program/with/many/folders/settings.ini",
    "keys/id_work",
    "tools/of/a/program/with/many/folders/.netrc",
    "tools/of/a/program/with/many/folders/.aws/config",
];

const PLAIN: &[&str] = &[
    ".cargo/bin/tool",
    ".config/git/ignore",
    ".config/some-tool/theme.ini",
    ".local/share/uv/python/bin/python",
    "certificates/authority.pem",
    "keys/id_work.pub",
    "notes/credentials/about.md",
];

async fn reading(home: &Path, namespaces: bool, listed: &[&str], adapt: impl FnOnce(&mut SandboxConfig)) -> Bench {
    let read = listed.iter().map(|path| home.join(path)).collect();
    let mut bench = locked(Project::Writable, |config| {
        config.namespaces = namespaces;
        config.home = Some(home.to_owned());
        config.read = read;
        adapt(config);
    })
    .await;
    let config = ("GIT_CONFIG_GLOBAL".to_owned(), home.join(".gitconfig").display().to_string());
    bench.context.environment = ClientEnvironment::unchecked([config]).into();
    bench
}

#[tokio::test]
async fn keys_in_a_listed_home_are_hidden() {
    for namespaces in NAMESPACE_SETTINGS {
        for confinement in [Confinement::Usual, Confinement::ReadOnly] {
            let home = home();
            let mut bench = reading(home.path(), namespaces, &[""], |_| {}).await;
            bench.context.confinement = confinement;
            let shown = home.path().display();
            for path in SECRETS {
                let output = bench.sh(&format!("cat '{shown}/{path}'")).await.text;
                assert!(!output.contains(SECRET), "{path}: {output}");
            }
            let output =
                bench.sh(&format!("grep -rs 'launch' {shown}; find {shown} -type f -exec cat {{}} +")).await.text;
            assert!(!output.contains(SECRET), "{output}");
            for path in PLAIN {
                assert!(bench.allowed(&format!("cat '{shown}/{path}'")).await.contains("plain"), "{path}");
            }
            assert_untouched(home.path());
        }
    }
}

fn assert_untouched(home: &Path) {
    for path in SECRETS.iter().chain(&[".gitconfig", ".cargo/config.toml"]) {
        assert!(fs::read_to_string(home.join(path)).unwrap().contains(SECRET), "{path}");
    }
}

#[tokio::test]
async fn keys_in_default_listed_paths_are_hidden() {
    let listed = [".cargo/bin", ".cargo/config.toml", ".config/git", ".gitconfig", ".local/share/uv"];
    for namespaces in NAMESPACE_SETTINGS {
        let home = home();
        let bench = reading(home.path(), namespaces, &listed, |_| {}).await;
        let shown = home.path().display();
        let credentials = [".config/git/credentials", ".local/share/uv/credentials/credentials.toml"];
        for path in credentials.iter().chain(&[".gitconfig", ".cargo/config.toml"]) {
            let output = bench.sh(&format!("cat {shown}/{path}")).await.text;
            assert!(!output.contains(SECRET), "{path}: {output}");
        }
        for path in [".config/git/ignore", ".local/share/uv/python/bin/python", ".cargo/bin/tool"] {
            bench.allowed(&format!("cat {shown}/{path}")).await;
        }
        // Git works, and uses the user's name if files can be replaced by a filtered copy.
        bench.allowed("git -C \"$PROJECT\" init -q && git -C \"$PROJECT\" status --short").await;
        if namespaces {
            let output = bench.allowed(&format!("git config user.name; cat {shown}/.cargo/config.toml")).await;
            assert!(
                output.contains("A Person") && output.contains("offline = true") && output.contains("index ="),
                "{output}"
            );
            let commit = "cd \"$PROJECT\" && echo x > x && git add x && git commit -qm first";
            bench.allowed(&format!("{commit} && git log --format=%an | grep Person")).await;
            for command in [format!("echo x > {shown}/.gitconfig"), format!("chmod 777 {shown}/.gitconfig")] {
                bench.denied(&command).await;
            }
        }
        assert_untouched(home.path());
    }
}

#[tokio::test]
async fn new_and_linked_keys_are_hidden() {
    for namespaces in NAMESPACE_SETTINGS {
        let home = home();
        let linked_folder = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::write(linked_folder.path().join("plain-name"), SECRET).unwrap();
        std::os::unix::fs::symlink(linked_folder.path(), home.path().join("linked")).unwrap();
        let (shown, linked) = (home.path().display().to_string(), home.path().join("linked"));
        let bench = reading(home.path(), namespaces, &["notes"], |config| {
            // The folder is listed through a link: commands use the link's name, and secret files in the target are
            // hidden.
            config.read.push(linked);
            config.hidden = vec![linked_folder.path().join("plain-name")];
        })
        .await;
        bench.denied(&format!("cat {shown}/linked/plain-name | grep launch")).await;
        bench.allowed(&format!("cat {shown}/notes/credentials/about.md")).await;
        fs::write(home.path().join("notes/.netrc"), SECRET).unwrap();
        fs::write(linked_folder.path().join(".env"), SECRET).unwrap();
        bench.denied(&format!("cat {shown}/notes/.netrc | grep launch")).await;
        bench.denied(&format!("cat {shown}/linked/.env | grep launch")).await;
        // The session's own files are not searched for keys.
        bench.put("/project/.env", "COLOUR=red");
        assert!(bench.allowed("cat \"$PROJECT/.env\"").await.contains("red"));
    }
}

#[tokio::test]
async fn shallow_keys_are_hidden_despite_the_scan_limit() {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    for folder in ["a/deep/er", "b/deep/er"] {
        fs::create_dir_all(home.path().join(folder)).unwrap();
    }
    for number in 0..20_000 {
        fs::write(home.path().join(format!("a/deep/er/{number}")), "").unwrap();
    }
    let (shallow, deep, other) = ("a/x.netrc/.netrc", "a/deep/er/y/.netrc", "b/deep/er/y/.netrc");
    for path in [shallow, deep, other] {
        let path = home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, SECRET).unwrap();
    }
    for namespaces in NAMESPACE_SETTINGS {
        let bench = reading(home.path(), namespaces, &["a", "b"], |_| {}).await;
        let shown = home.path().display();
        // Too many files in one listed folder do not affect the search of another listed folder.
        for path in [shallow, other] {
            bench.denied(&format!("cat {shown}/{path} | grep launch")).await;
        }
        bench.allowed(&format!("cat {shown}/{deep} | grep launch")).await;
    }
}
