//! What is brought along, for people: projects, and trust in them; plugins and skills: which there are, what is wrong with them,
//! and how one is added and removed.

use agentd_core::{
    error::ErrorKind,
    guide::{SkillListing, SkillReport},
    ids::SessionId,
    ports::Skills as _,
};
use agentd_proto::v1::{
    self, check_skill_request, plugins_server::Plugins, projects_server::Projects, show_plugin_request,
    skills_server::Skills,
};

use super::{Context, PluginControl, Refusal, absolute, blocking};

/// Message of a failed look at a skill.
const UNREADABLE: &str = "the skill could not be looked at";

service! { Projects:
    async fn show(&self, request: v1::ShowProjectRequest) -> v1::Project {
        Ok((&self.engine.show_project(absolute(request.folder)?).await?).into())
    }

    async fn trust(&self, request: v1::TrustProjectRequest) -> v1::Project {
        Ok((&self.engine.trust_project(absolute(request.folder)?, request.hash, request.client).await?).into())
    }

    async fn distrust(&self, request: v1::DistrustProjectRequest) -> v1::Project {
        Ok((&self.engine.distrust_project(absolute(request.folder)?, request.client).await?).into())
    }
}

service! { Plugins:
    async fn list(&self, request: v1::ListPluginsRequest) -> v1::ListPluginsResponse {
        let control = self.plugins()?;
        let plugins = if request.as_known { control.known() } else { control.list().await? };
        Ok(v1::ListPluginsResponse { plugins: plugins.iter().map(Into::into).collect() })
    }

    async fn show(&self, request: v1::ShowPluginRequest) -> v1::Plugin {
        let plugins = self.plugins()?;
        let report = match request.what {
            Some(show_plugin_request::What::Folder(folder)) => plugins.look(absolute(folder)?).await?,
            Some(show_plugin_request::What::Name(name)) => {
                let found = plugins.list().await?.into_iter().find(|report| report.name == name);
                found.ok_or_else(|| unknown("plugin", &name, "agentctl plugin list shows all"))?
            }
            None => return Err(Refusal::invalid("neither a folder nor a name is given").into()),
        };
        Ok((&report).into())
    }

    async fn add(&self, request: v1::AddPluginRequest) -> v1::Plugin {
        let v1::AddPluginRequest { folder, hash, source, client } = request;
        Ok((&self.plugins()?.add(absolute(folder)?, hash, source, client).await?).into())
    }

    async fn remove(&self, request: v1::RemovePluginRequest) -> v1::RemovePluginResponse {
        let removed = self.plugins()?.remove(request.name, request.client).await?;
        Ok(v1::RemovePluginResponse { plugin: removed.as_ref().map(Into::into) })
    }
}

service! { Skills:
    async fn list(&self, request: v1::ListSkillsRequest) -> v1::ListSkillsResponse {
        let reports = self.reports(&request.session).await?;
        let skills = reports.into_iter().map(|report| (&SkillReport { text: String::new(), ..report }).into());
        Ok(v1::ListSkillsResponse { skills: skills.collect() })
    }

    async fn check(&self, request: v1::CheckSkillRequest) -> v1::SkillReport {
        let shelf = self.parts()?.skills.clone();
        let report = match request.what {
            Some(check_skill_request::What::Folder(folder)) => {
                let folder = absolute(folder)?;
                blocking(UNREADABLE, move || shelf.check(&folder)).await?
            }
            Some(check_skill_request::What::Name(name)) => {
                let named = self.reports(&request.session).await?.into_iter().filter(|report| report.skill.name == name);
                // The one that is used, where several have the name.
                let used = named.min_by_key(|report| !report.usable);
                used.ok_or_else(|| unknown("skill", &name, "agentctl skills list shows all"))?
            }
            None => {
                let refusal = Refusal::invalid("neither a folder nor a name is given");
                return Err(refusal.with_hint("name a skill or a folder").into());
            }
        };
        Ok((&report).into())
    }

    async fn add(&self, request: v1::AddSkillRequest) -> v1::SkillReport {
        let (shelf, folder) = (self.parts()?.skills.clone(), absolute(request.folder)?);
        let mut added = [blocking(UNREADABLE, move || shelf.add(&folder, request.replace)).await??];
        self.note_listings(None, &mut added).await?;
        Ok((&added[0]).into())
    }
}

impl Context {
    fn plugins(&self) -> Result<&dyn PluginControl, Refusal> {
        self.control.plugins().ok_or_else(|| Refusal::invalid("this daemon has no plugins"))
    }

    /// All skills: those of a session's project too, where one is named.
    async fn reports(&self, session: &str) -> Result<Vec<SkillReport>, Refusal> {
        let session = self.named_session(session).await?;
        let workspace = match session {
            Some(session) => Some(self.engine.workspace(session).await?),
            None => None,
        };
        let mut reports = self.parts()?.skills.reports(workspace.as_ref()).await;
        self.note_listings(session, &mut reports).await?;
        Ok(reports)
    }

    /// Notes the form in which models are shown each.
    async fn note_listings(&self, session: Option<SessionId>, reports: &mut [SkillReport]) -> Result<(), Refusal> {
        let skills = self.engine.skills(session).await?;
        for report in reports.iter_mut().filter(|report| report.usable) {
            let listed = skills.iter().find(|(skill, _)| skill.path == report.skill.path);
            report.shown = listed.map_or(SkillListing::None, |(_, form)| *form);
        }
        Ok(())
    }
}

fn unknown(kind: &str, name: &str, hint: &str) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    Refusal::new(ErrorKind::NotFound, format!("there is no {kind} {shown:?}")).with_hint(hint)
}
