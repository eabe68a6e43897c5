//! Skills, for people: which there are, what is wrong with them, and how one is added.

use agentd_core::{
    error::ErrorKind,
    guide::SkillReport,
    ports::{Skills as _, Workspace},
};
use agentd_proto::v1::{self, check_skill_request::What, skills_server::Skills};
use agentd_tools::SkillStore;
use tonic::{Request, Response, Status};

use super::{Context, Refusal, absolute};

#[tonic::async_trait]
impl Skills for Context {
    async fn list(&self, request: Request<v1::ListSkillsRequest>) -> Result<Response<v1::ListSkillsResponse>, Status> {
        let workspace = self.workspace(&request.into_inner().session).await?;
        let reports = self.shelf()?.reports(workspace.as_ref()).await;
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
                let workspace = self.workspace(&session).await?;
                let reports = shelf.reports(workspace.as_ref()).await;
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
        let added = blocking(move || shelf.add(&folder, replace)).await?.map_err(Refusal::from)?;
        Ok(Response::new((&added).into()))
    }
}

impl Context {
    fn shelf(&self) -> Result<SkillStore, Refusal> {
        self.control.skills().ok_or_else(|| refuse("this daemon has no skills", "start it as usual"))
    }

    /// Workspace of a session; none if none is named.
    async fn workspace(&self, session: &str) -> Result<Option<Workspace>, Status> {
        if session.is_empty() {
            return Ok(None);
        }
        let session = self.session_id(session).await?;
        Ok(Some(self.engine.workspace(session).await.map_err(Refusal::from)?))
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
