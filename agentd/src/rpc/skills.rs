//! Skills, for people: which there are, what is wrong with them, and how one is added.

use agentd_core::{
    error::ErrorKind,
    guide::{SkillListing, SkillReport},
    ids::SessionId,
    ports::Skills as _,
};
use agentd_extensions::skills::SkillStore;
use agentd_proto::v1::{self, check_skill_request::What, skills_server::Skills};
use tonic::{Request, Response, Status};

use super::{Context, Refusal, absolute};

#[tonic::async_trait]
impl Skills for Context {
    async fn list(&self, request: Request<v1::ListSkillsRequest>) -> Result<Response<v1::ListSkillsResponse>, Status> {
        let reports = self.reports(&request.into_inner().session).await?;
        let skills = reports.into_iter().map(|report| (&SkillReport { text: String::new(), ..report }).into());
        Ok(Response::new(v1::ListSkillsResponse { skills: skills.collect() }))
    }

    async fn check(&self, request: Request<v1::CheckSkillRequest>) -> Result<Response<v1::SkillReport>, Status> {
        let v1::CheckSkillRequest { session, what } = request.into_inner();
        let shelf = self.shelf()?;
        let report = match what {
            Some(What::Folder(folder)) => {
                let folder = absolute(folder)?;
                blocking(move || shelf.check(&folder)).await?
            }
            Some(What::Name(name)) => {
                let reports = self.reports(&session).await?;
                let mut named = reports.into_iter().filter(|report| report.skill.name == name).collect::<Vec<_>>();
                // The one that is used, where several have the name.
                named.sort_by_key(|report| !report.usable);
                named.into_iter().next().ok_or_else(|| unknown(&name))?
            }
            None => return Err(refuse("neither a folder nor a name is given", "name a skill or a folder").into()),
        };
        Ok(Response::new((&report).into()))
    }

    async fn add(&self, request: Request<v1::AddSkillRequest>) -> Result<Response<v1::SkillReport>, Status> {
        let v1::AddSkillRequest { folder, replace } = request.into_inner();
        let (shelf, folder) = (self.shelf()?, absolute(folder)?);
        let mut added = [blocking(move || shelf.add(&folder, replace)).await?.map_err(Refusal::from)?];
        self.note_listings(None, &mut added).await?;
        Ok(Response::new((&added[0]).into()))
    }
}

impl Context {
    fn shelf(&self) -> Result<SkillStore, Refusal> {
        self.control.skills().ok_or_else(|| refuse("this daemon has no skills", "start it as usual"))
    }

    /// All skills: those of a session's project too, where one is named.
    async fn reports(&self, session: &str) -> Result<Vec<SkillReport>, Status> {
        let session = if session.is_empty() { None } else { Some(self.session_id(session).await?) };
        let workspace = match session {
            Some(session) => Some(self.engine.workspace(session).await.map_err(Refusal::from)?),
            None => None,
        };
        let mut reports = self.shelf()?.reports(workspace.as_ref()).await;
        self.note_listings(session, &mut reports).await?;
        Ok(reports)
    }

    /// Notes the form in which models are shown each.
    async fn note_listings(&self, session: Option<SessionId>, reports: &mut [SkillReport]) -> Result<(), Status> {
        let skills = self.engine.skills(session).await.map_err(Refusal::from)?;
        for report in reports.iter_mut().filter(|report| report.usable) {
            let listed = skills.iter().find(|(skill, _)| skill.path == report.skill.path);
            report.shown = listed.map_or(SkillListing::None, |(_, form)| *form);
        }
        Ok(())
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal {
        kind: ErrorKind::Internal,
        message: "the skill could not be looked at".to_owned(),
        hint: None,
    })
}

fn unknown(name: &str) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    Refusal {
        kind: ErrorKind::NotFound,
        message: format!("there is no skill {shown:?}"),
        hint: Some("agentctl skills list shows all".to_owned()),
    }
}

fn refuse(message: &str, hint: &str) -> Refusal {
    Refusal { kind: ErrorKind::InvalidInput, message: message.to_owned(), hint: Some(hint.to_owned()) }
}
