//! Python software that agentd is compared with. The scripts are in this repository, and their packages in the target
//! folder.

use std::io::{self, Write as _};

use tokio::process::Command;

use super::*;

/// The scripts for one subject.
pub(super) struct Scripts {
    python: String,
    folder: &'static Path,
    packages: PathBuf,
}

impl Scripts {
    /// Returns the scripts in a folder. The packages listed in `requirements.txt` are installed in the target folder,
    /// in a folder named `packages`.
    pub(super) fn of(folder: &'static str, packages: &str) -> anyhow::Result<Self> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        Ok(Self { python, folder: Path::new(folder), packages: target()?.join(packages) })
    }

    /// Installs missing packages from the registry. This can fail.
    pub(super) async fn install_packages(&self) -> anyhow::Result<()> {
        let wanted = self.folder.join("requirements.txt");
        let ready = self.packages.join("ready.txt");
        if fs::read(&ready).is_ok_and(|known| fs::read(&wanted).is_ok_and(|wanted| known == wanted)) {
            return Ok(());
        }
        say("installing Python packages for the comparison…");
        let mut pip = Command::new(&self.python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"]);
        run(pip.arg(&self.packages).arg("-r").arg(&wanted)).await.context("could not install the Python packages")?;
        fs::copy(wanted, ready)?;
        Ok(())
    }

    /// Returns a command that runs one of the scripts with its packages.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.folder.join(name)).env("PYTHONPATH", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// Returns the target folder of the build.
fn target() -> anyhow::Result<PathBuf> {
    let built = std::env::current_exe()?;
    Ok(built.parent().and_then(Path::parent).context("the bench executable has no parent folder")?.to_owned())
}

/// Runs a command to its end. Its standard error is inherited, so the user sees it.
async fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).status().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Parses the last line that a script prints as JSON.
pub(super) async fn answer<T: serde::de::DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).output().await?;
    if !output.status.success() {
        let last_line = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        bail!("the script exited with {}: {last_line}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}
