//! Skill packages: the result and the source of an installation, and the access rights of an installer.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use agentd_core::{
    error::WorkspaceError,
    ports::{CallProgress, SkillPackages, Skills as _},
};
use agentd_extensions::skills::{SkillConfig, SkillStore};
use agentd_sandbox::{config::SandboxConfig, host::Sandbox};
use tempfile::TempDir;

use super::{sandbox::helper, *};

/// Temporary folder with wheels, programs and environments.
struct World(TempDir);

/// Creates a wheel, and a source archive that would write a file when it is built.
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

/// Common beginning of all test installers.
const INSTALLER: &str = r#"#!/bin/sh
if [ "$1" = venv ]; then
    for place; do :; done
    mkdir -p "$place/bin" && ln -sf /usr/bin/python3 "$place/bin/python"
fi
"#;

/// Installer that reports the paths and hosts it can access.
const SPY: &str = r#"
{
    cat "SECRET" && echo "it can read"
    echo x > "OUTSIDE" && echo "it can write"
    env
} >> "$HOME/report" 2>&1
exit 0
"#;

impl World {
    fn new() -> Self {
        // Not in `/tmp`, because `/tmp` is a fresh folder for each command.
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

    /// Adds an installer that takes precedence over the host's installers.
    fn installer(&self, script: &str) {
        fs::write(self.path("bin/uv"), format!("{INSTALLER}{script}")).unwrap();
        chmod(&self.path("bin/uv"), 0o755);
    }

    async fn install(
        &self,
        package: &str,
        sandbox: Option<SandboxConfig>,
        variables: BTreeMap<String, String>,
    ) -> Result<PathBuf, WorkspaceError> {
        self.install_with(package, sandbox, variables, &[], CancellationToken::new()).await
    }

    async fn install_with(
        &self,
        package: &str,
        sandbox: Option<SandboxConfig>,
        variables: BTreeMap<String, String>,
        hosts: &[String],
        cancel: CancellationToken,
    ) -> Result<PathBuf, WorkspaceError> {
        let config = SkillConfig {
            environments: self.path("environments"),
            variables,
            sandbox,
            package_hosts: hosts.to_vec(),
            ..SkillConfig::default()
        };
        let store = SkillStore::new(config, Default::default());
        let packages = vec![package.to_owned()];
        let wanted = SkillPackages { skill: "s".to_owned(), packages, environment: "s-1".to_owned() };
        store.install(&wanted, &CallProgress::default(), &cancel).await?;
        Ok(self.path("environments/s-1"))
    }
}

fn has_package(environment: &Path, package: &str) -> bool {
    let lib = fs::read_dir(environment.join("lib")).unwrap().flatten();
    lib.into_iter().any(|python| python.path().join("site-packages").join(package).is_dir())
}

async fn sandboxes() -> Vec<Option<SandboxConfig>> {
    let config = SandboxConfig::new(helper());
    let runs = Sandbox::new(config.clone()).status().await.runs;
    [None].into_iter().chain(runs.then_some(Some(config))).collect()
}

#[tokio::test]
async fn requirements_never_build_packages() {
    for sandbox in sandboxes().await {
        let world = World::new();
        for package in ["evilpkg==1.0", "evilpkg==1.0 --no-binary=evilpkg", "evilpkg==1.0 --no-binary :all:", "-e ."] {
            let refused = world.install(package, sandbox.clone(), world.variables(&[])).await.unwrap_err();
            assert!(refused.to_string().contains("packages of the skill s"), "{refused}");
            assert!(!world.path("built").exists(), "{package} was built");
            assert!(!world.path("environments/s-1").exists(), "{package}");
        }
    }
}

#[tokio::test]
async fn installer_sees_only_the_environment() {
    let Some(Some(sandbox)) = sandboxes().await.pop() else { return };
    let world = World::new();
    let spy = SPY.replace("SECRET", world.path("home/secret").to_str().unwrap());
    let spy = spy.replace("OUTSIDE", world.path("outside").to_str().unwrap());
    world.installer(&spy);
    let index = "https://me:hunter2@index.example/simple".to_owned();
    let more = [("PIP_INDEX_URL", index), ("PIP_TARGET", "/x".to_owned()), ("UV_CONFIG_FILE", "/x".to_owned())];
    let environment = world.install("goodpkg", Some(sandbox), world.variables(&more)).await.unwrap();
    let report = fs::read_to_string(environment.join("report")).unwrap();
    assert!(!report.contains("s3cret") && !report.contains("it can read"), "{report}");
    assert!(!report.contains("it can write") && !world.path("outside").exists(), "{report}");
    for variable in ["UV_NO_CONFIG=1", "UV_DEFAULT_INDEX=https://me:hunter2@index.example/simple"] {
        assert!(report.contains(variable), "{variable} in {report}");
    }
    assert!(!report.contains("PIP_TARGET") && !report.contains("UV_CONFIG_FILE"), "{report}");
}

/// HTTP server on the loopback interface, for pages and files.
struct Server {
    url: String,
    address: String,
    /// Number of connections accepted so far.
    asked: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server with a response head and a body for each path. Requests for other paths are not answered.
    fn start(pages: Vec<(String, String, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                open.extend(answer(stream, &pages));
            }
        });
        Self { url: format!("http://{address}"), address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Answers one request. Returns the stream if the path is unknown, without answering.
fn answer(stream: TcpStream, pages: &[(String, String, Vec<u8>)]) -> Option<TcpStream> {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let path = first.split(' ').nth(1)?;
    let Some((_, head, body)) = pages.iter().find(|(page, ..)| page == path) else { return Some(stream) };
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = (&stream).write_all(&[head.as_bytes(), body].concat());
    None
}

const WHEEL: &str = "goodpkg-1.0-py3-none-any.whl";
const PAGE: &str = "200 OK\r\nContent-Type: text/html";

/// Returns the index page, which links to the wheel.
fn page(address: &str) -> (String, String, Vec<u8>) {
    ("/simple/goodpkg/".to_owned(), PAGE.to_owned(), format!("<a href=\"{address}/{WHEEL}\">{WHEEL}</a>").into_bytes())
}

impl World {
    fn wheel(&self) -> (String, String, Vec<u8>) {
        let wheel = fs::read(self.path("wheels").join(WHEEL)).unwrap();
        (format!("/{WHEEL}"), "200 OK\r\nContent-Type: application/octet-stream".to_owned(), wheel)
    }

    /// Returns the variables for this index, without the offline settings.
    fn with_index(&self, index: &Server) -> BTreeMap<String, String> {
        let mut variables = self.variables(&[("PIP_INDEX_URL", format!("{}/simple", index.url))]);
        variables.retain(|name, _| !["PIP_FIND_LINKS", "PIP_NO_INDEX"].contains(&name.as_str()));
        variables
    }
}

#[tokio::test]
async fn index_and_configured_hosts_are_reachable() {
    for sandbox in sandboxes().await {
        let world = World::new();
        let files = Server::start(vec![world.wheel()]);
        let index = Server::start(vec![page(&files.url)]);
        let variables = world.with_index(&index);
        let hosts = [files.address.clone()];
        let made = world.install_with("goodpkg", sandbox.clone(), variables, &hosts, CancellationToken::new()).await;
        assert!(has_package(&made.unwrap(), "goodpkg"));
        // Connections go through the user's own proxy.
        let world = World::new();
        let proxy = Server::start(vec![
            ("http://index.example/simple/goodpkg/".to_owned(), PAGE.to_owned(), page("http://index.example").2),
            (format!("http://index.example/{WHEEL}"), PAGE.to_owned(), world.wheel().2),
        ]);
        let mut variables = world.with_index(&index);
        variables.insert("PIP_INDEX_URL".to_owned(), "http://index.example/simple".to_owned());
        variables.insert("PIP_TRUSTED_HOST".to_owned(), "index.example".to_owned());
        variables.insert("http_proxy".to_owned(), proxy.url.clone());
        let made = world.install("goodpkg", sandbox, variables).await;
        assert!(has_package(&made.unwrap(), "goodpkg"));
    }
}

#[tokio::test]
async fn default_index_is_the_index_of_pip() {
    let script = "from pip._internal.models.index import PyPI; print(PyPI.netloc, end='')";
    let output = Command::new("/usr/bin/python3").args(["-I", "-c", script]).output().unwrap();
    let host = String::from_utf8(output.stdout).unwrap();
    for sandbox in sandboxes().await {
        let world = World::new();
        let proxy = Server::start(vec![(format!("{host}:443"), "403 Forbidden".to_owned(), Vec::new())]);
        let mut variables = world.with_index(&proxy);
        variables.remove("PIP_INDEX_URL");
        variables.insert("https_proxy".to_owned(), proxy.url.clone());
        let made = world.install("goodpkg", sandbox, variables).await;
        assert!(!host.is_empty() && proxy.asked() > 0, "{made:?}");
    }
}

#[tokio::test]
async fn index_redirect_to_another_host_is_rejected() {
    for sandbox in sandboxes().await {
        let world = World::new();
        let other = Server::start(vec![world.wheel(), page("")]);
        let moved = format!("302 Found\r\nLocation: {}/simple/goodpkg/", other.url);
        for answer in [page(&other.url), ("/simple/goodpkg/".to_owned(), moved, Vec::new())] {
            let index = Server::start(vec![answer]);
            let variables = world.with_index(&index);
            let refused = world.install("goodpkg", sandbox.clone(), variables).await.unwrap_err();
            let message = refused.to_string();
            assert!(message.contains(&format!("referred the installer to {}", other.address)), "{message}");
            assert!(refused.hint().is_some_and(|hint| hint.contains("skills.package_hosts")), "{refused:?}");
            assert!(index.asked() > 0 && !world.path("environments/s-1").exists());
        }
        assert_eq!(other.asked(), 0);
    }
}

/// Installer that ignores the configured proxy.
const STRAY: &str = r#"
/usr/bin/python3 -c '
import os, socket
def tried(what, run):
    try:
        run(); print(what, "reached", flush=True)
    except OSError as error:
        print(what, "failed", flush=True)
def send(family, address):
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.settimeout(5); made.sendto(b"x", address); made.recv(1)
tried("tcp", lambda: socket.create_connection(("127.0.0.1", PORT), 5))
tried("outside", lambda: socket.create_connection(("192.0.2.1", 443), 5))
tried("udp", lambda: send(socket.AF_INET, ("127.0.0.1", UDP)))
tried("name", lambda: socket.getaddrinfo("index.example", 443))
tried("unix", lambda: socket.socket(socket.AF_UNIX).connect("\0x"))
tried("proxy", lambda: socket.create_connection(("127.0.0.1", int(os.environ["http_proxy"].rsplit(":", 1)[1])), 5))
' >> "$HOME/report" 2>&1
exit 0
"#;

#[tokio::test]
async fn installer_connects_only_to_the_proxy() {
    let Some(Some(sandbox)) = sandboxes().await.pop() else { return };
    let world = World::new();
    let index = Server::start(Vec::new());
    let echo = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = echo.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        while let Ok((_, from)) = echo.recv_from(&mut [0]) {
            let _ = echo.send_to(b"x", from);
        }
    });
    let stray = STRAY.replace("PORT", index.address.rsplit(':').next().unwrap()).replace("UDP", &udp);
    world.installer(&stray);
    let variables = world.with_index(&index);
    let made = world.install("goodpkg", Some(sandbox), variables).await.unwrap();
    let report = fs::read_to_string(made.join("report")).unwrap();
    let last: Vec<&str> = report.lines().rev().take(6).collect();
    let expected = ["proxy reached", "unix failed", "name failed", "udp failed", "outside failed", "tcp failed"];
    assert_eq!(last, expected, "{report}");
    assert_eq!(index.asked(), 0, "{report}");
}

#[tokio::test]
async fn installation_needs_network_confinement() {
    let without = SandboxConfig { namespaces: false, ..SandboxConfig::new(helper()) };
    if !Sandbox::new(without.clone()).status().await.runs {
        return;
    }
    let world = World::new();
    let index = Server::start(vec![page("")]);
    let variables = world.with_index(&index);
    let refused = world.install("goodpkg", Some(without.clone()), variables).await.unwrap_err();
    assert!(refused.to_string().contains("does not allow user namespaces") && index.asked() == 0, "{refused}");
    // Installations that do not use the network still work.
    assert!(has_package(&world.install("goodpkg", Some(without), world.variables(&[])).await.unwrap(), "goodpkg"));
}

#[tokio::test]
async fn cancel_closes_installer_connections() {
    for sandbox in sandboxes().await {
        let world = World::new();
        // The server never answers, and waits until its connection is closed.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let index = Server { url: format!("http://{address}"), address, asked: Arc::default() };
        let cancel = CancellationToken::new();
        let variables = world.with_index(&index);
        let installing = world.install_with("goodpkg", sandbox, variables, &[], cancel.clone());
        let cancelling = async {
            let (mut open, _) = listener.accept().await.unwrap();
            cancel.cancel();
            let mut received = Vec::new();
            let reading = tokio::io::AsyncReadExt::read_to_end(&mut open, &mut received);
            let _ = tokio::time::timeout(Duration::from_secs(60), reading).await.expect("the connection ends");
        };
        let (installed, ()) = tokio::join!(installing, cancelling);
        assert!(installed.unwrap_err().to_string().contains("cancelled"));
    }
}
