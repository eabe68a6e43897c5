//! Plugins, for people: which there are, what a folder would bring, and how one is added and removed.

use agentd_core::error::ErrorKind;
use agentd_proto::v1::{self, plugins_server::Plugins, show_plugin_request::What};
use tonic::{Request, Response, Status};

use super::{Context, PluginControl, Refusal, absolute};

#[tonic::async_trait]
impl Plugins for Context {
    async fn list(
        &self,
        request: Request<v1::ListPluginsRequest>,
    ) -> Result<Response<v1::ListPluginsResponse>, Status> {
        let control = self.plugins()?;
        let plugins = if request.into_inner().as_known { control.known() } else { control.list().await? };
        Ok(Response::new(v1::ListPluginsResponse { plugins: plugins.iter().map(Into::into).collect() }))
    }

    async fn show(&self, request: Request<v1::ShowPluginRequest>) -> Result<Response<v1::Plugin>, Status> {
        let plugins = self.plugins()?;
        let report = match request.into_inner().what {
            Some(What::Folder(folder)) => plugins.look(absolute(folder)?).await?,
            Some(What::Name(name)) => {
                let found = plugins.list().await?.into_iter().find(|report| report.name == name);
                found.ok_or_else(|| unknown(&name))?
            }
            None => return Err(Refusal::invalid("neither a folder nor a name is given").into()),
        };
        Ok(Response::new((&report).into()))
    }

    async fn add(&self, request: Request<v1::AddPluginRequest>) -> Result<Response<v1::Plugin>, Status> {
        let v1::AddPluginRequest { folder, hash, source, client } = request.into_inner();
        let report = self.plugins()?.add(absolute(folder)?, hash, source, client).await?;
        Ok(Response::new((&report).into()))
    }

    async fn remove(
        &self,
        request: Request<v1::RemovePluginRequest>,
    ) -> Result<Response<v1::RemovePluginResponse>, Status> {
        let v1::RemovePluginRequest { name, client } = request.into_inner();
        let removed = self.plugins()?.remove(name, client).await?;
        Ok(Response::new(v1::RemovePluginResponse { plugin: removed.as_ref().map(Into::into) }))
    }
}

impl Context {
    fn plugins(&self) -> Result<&dyn PluginControl, Refusal> {
        self.control.plugins().ok_or_else(|| Refusal::invalid("this daemon has no plugins"))
    }
}

fn unknown(name: &str) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    Refusal {
        kind: ErrorKind::NotFound,
        message: format!("there is no plugin {shown:?}"),
        hint: Some("agentctl plugin list shows all".to_owned()),
    }
}
