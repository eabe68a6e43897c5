//! Packages of skills: what is installed, from where, and what an installer can reach.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use agentd_core::{
    error::WorkspaceError,
    ports::{CallProgress, SkillPackages, Skills as _},
};
use agentd_tools::{
    SkillConfig, SkillStore,
    sandbox::{Sandbox, SandboxConfig},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::sandbox::helper;

/// A folder with wheels, programs and environments in it.
struct World(TempDir);

/// Makes a wheel and an archive of sources that would write a file when it is built.
const MAKE: &str = r#"
import io, sys, tarfile, zipfile
folder, mark = sys.argv[1:]
with zipfile.ZipFile(folder + "/goodpkg-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("goodpkg/__init__.py", "name = 'good'\n")
    wheel.writestr("goodpkg-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: goodpkg\nVersion: 1.0\n")
    wheel.writestr("goodpkg-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("goodpkg-1.0.dist-info/RECORD", "goodpkg/__init__.py,,\ngoodpkg-1.0.dist-info/METADATA,,\ngoodpkg-1.0.dist-info/WHEEL,,\ngoodpkg-1.0.dist-info/RECORD,,\n")
setup = f"open({mark!r}, 'w').write('built')\nfrom setuptools import setup\nsetup(name='evilpkg', version='1.0')\n".encode()
with tarfile.open(folder + "/evilpkg-1.0.tar.gz", "w:gz") as archive:
    about = tarfile.TarInfo("evilpkg-1.0/setup.py")
    about.size = len(setup)
    archive.addfile(about, io.BytesIO(setup))
"#;

/// An installer that tells what it can reach.
const SPY: &str = r#"#!/bin/sh
if [ "$1" = venv ]; then
    for place; do :; done
    mkdir -p "$place/bin" && ln -sf /usr/bin/python3 "$place/bin/python"
fi
{
    cat "SECRET" && echo "it can read"
    echo x > "OUTSIDE" && echo "it can write"
    env
} >> "$HOME/report" 2>&1
exit 0
"#;

impl World {
    fn new() -> Self {
        // Not below /tmp, which is fresh for each command.
        let world = Self(tempfile::tempdir_in("/var/tmp").unwrap());
        for folder in ["wheels", "bin", "home/.config/pip"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        fs::write(world.path("home/secret"), "s3cret").unwrap();
        let made = [world.path("wheels"), world.path("built")];
        let made = Command::new("/usr/bin/python3").args(["-c", MAKE]).args(made).status().unwrap();
        assert!(made.success());
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn variables(&self, more: &[(&str, String)]) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let path = format!("{}:/usr/bin:/bin", text(self.path("bin")));
        let mut all = BTreeMap::from([("PATH".to_owned(), path), ("HOME".to_owned(), text(self.path("home")))]);
        all.insert("PIP_FIND_LINKS".to_owned(), text(self.path("wheels")));
        all.insert("PIP_NO_INDEX".to_owned(), "1".to_owned());
        all.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        all
    }

    async fn install(
        &self,
        packages: &[&str],
        sandbox: Option<SandboxConfig>,
        more: &[(&str, String)],
    ) -> Result<PathBuf, WorkspaceError> {
        let config = SkillConfig {
            environments: self.path("environments"),
            variables: self.variables(more),
            sandbox,
            ..SkillConfig::default()
        };
        let shelf = SkillStore::new(config, Default::default());
        let packages = packages.iter().map(ToString::to_string).collect();
        let wanted = SkillPackages { skill: "s".to_owned(), packages, environment: "s-1".to_owned() };
        shelf.install(&wanted, &CallProgress::default(), &CancellationToken::new()).await?;
        Ok(self.path("environments/s-1"))
    }
}

fn holds(environment: &Path, package: &str) -> bool {
    let lib = fs::read_dir(environment.join("lib")).unwrap().flatten();
    lib.into_iter().any(|python| python.path().join("site-packages").join(package).is_dir())
}

async fn sandboxes() -> Vec<Option<SandboxConfig>> {
    let config = SandboxConfig::new(helper());
    let runs = Sandbox::new(config.clone()).status().await.runs;
    [None].into_iter().chain(runs.then_some(Some(config))).collect()
}

#[tokio::test]
async fn a_wheel_of_the_persons_own_folder_is_installed() {
    for sandbox in sandboxes().await {
        let world = World::new();
        // The same from pip's configuration, in which other settings count for nothing.
        let links =
            format!("[global]\nno-index = true\nfind-links = {}\nno-binary = :all:\n", world.path("wheels").display());
        fs::write(world.path("home/.config/pip/pip.conf"), links).unwrap();
        let environment = world.install(&["goodpkg>=1,<2"], sandbox, &[]).await.unwrap();
        assert!(holds(&environment, "goodpkg") && environment.join(".agentd-ready").is_file());
        assert!(!environment.join("tmp").exists());
    }
}

#[tokio::test]
async fn nothing_is_built_whatever_a_list_says() {
    for sandbox in sandboxes().await {
        let world = World::new();
        for package in ["evilpkg==1.0", "evilpkg==1.0 --no-binary=evilpkg", "evilpkg==1.0 --no-binary :all:", "-e ."] {
            let refused = world.install(&[package], sandbox.clone(), &[]).await.unwrap_err();
            assert!(refused.to_string().contains("packages of the skill s"), "{refused}");
            assert!(!world.path("built").exists(), "{package} was built");
            assert!(!world.path("environments/s-1").exists(), "{package}");
        }
    }
}

#[tokio::test]
async fn an_installer_reaches_nothing_but_the_environment() {
    let Some(Some(sandbox)) = sandboxes().await.pop() else { return };
    let world = World::new();
    let spy = SPY.replace("SECRET", world.path("home/secret").to_str().unwrap());
    let spy = spy.replace("OUTSIDE", world.path("outside").to_str().unwrap());
    fs::write(world.path("bin/uv"), spy).unwrap();
    fs::set_permissions(world.path("bin/uv"), fs::Permissions::from_mode(0o755)).unwrap();
    let index = "https://me:hunter2@index.example/simple".to_owned();
    let more = [("PIP_INDEX_URL", index), ("PIP_TARGET", "/x".to_owned()), ("UV_CONFIG_FILE", "/x".to_owned())];
    let environment = world.install(&["goodpkg"], Some(sandbox), &more).await.unwrap();
    let report = fs::read_to_string(environment.join("report")).unwrap();
    assert!(!report.contains("s3cret") && !report.contains("it can read"), "{report}");
    assert!(!report.contains("it can write") && !world.path("outside").exists(), "{report}");
    for told in ["UV_NO_CONFIG=1", "UV_DEFAULT_INDEX=https://me:hunter2@index.example/simple"] {
        assert!(report.contains(told), "{told} in {report}");
    }
    assert!(!report.contains("PIP_TARGET") && !report.contains("UV_CONFIG_FILE"), "{report}");
}
