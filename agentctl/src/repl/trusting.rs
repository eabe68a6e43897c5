//! Notice about the project's files when a session is opened, and `/trust`.

use agentd_core::{error::ErrorKind, project::ProjectTrust};

use super::{chat::Chat, conversation::ChatBackend as _};
use crate::{daemon, exit::Exit, failure::Failure, project};

impl Chat {
    /// Shows which files an untrusted project has.
    pub(super) async fn tell_of_project(&mut self) {
        // The chat works without this notice.
        let Ok(Some(mount)) = self.project().await else { return };
        let Some(report) = project::load_report(&self.daemon.client, Some(&mount.path)).await else { return };
        let Some(notice) = project::notice(&report) else { return };
        self.shown_project = Some(report.hash.clone());
        self.note(&notice);
        let way = if self.present {
            format!("/trust uses it as it is; {}", project::show_hint(&report))
        } else {
            project::trust_hint(&report)
        };
        self.note(&way);
    }

    /// Trusts the project as it was shown. If it has changed since, it is shown again and not trusted.
    pub(super) async fn trust(&mut self) -> anyhow::Result<Exit> {
        let Some(mount) = self.project().await? else {
            return Err(Failure::new(ErrorKind::NotFound, "/trust needs a project, and no folder is in view")
                .hint("agentctl chat -C . shows this one")
                .into());
        };
        if !self.present {
            return Err(Failure::usage("/trust needs a person at a terminal")
                .hint("agentctl project trust DIR trusts a project")
                .into());
        }
        let folder = project::absolute(&self.daemon.client, &mount.path)?;
        let report = self.daemon.client.project(&folder).await?;
        match report.trust {
            ProjectTrust::Empty => self.note("there is nothing to trust in .agentd/ of this project"),
            ProjectTrust::Trusted => self.note("this project is trusted already"),
            ProjectTrust::Untrusted | ProjectTrust::Changed
                if self.shown_project.as_deref() != Some(report.hash.as_str()) =>
            {
                self.tell_of_project().await;
                self.note("it is not as it was shown before; /trust once more trusts it as it is now");
            }
            ProjectTrust::Untrusted | ProjectTrust::Changed => {
                let trusted = self.daemon.client.trust_project(&folder, &report.hash, daemon::CLIENT).await?;
                let parts = project::parts(&trusted);
                self.note(&format!("trusted: {parts}; the model is told with your next message"));
                self.known.learn(&self.daemon.client, self.place.id()).await;
            }
        }
        Ok(Exit::Done)
    }
}
