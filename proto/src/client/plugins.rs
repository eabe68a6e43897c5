//! Calls about plugins.

use agentd_core::plugin::PluginReport;

use super::{Client, ClientError};
use crate::{
    MAX_MESSAGE_BYTES,
    v1::{self, plugins_client::PluginsClient, show_plugin_request::What},
};

impl Client {
    fn plugins_service(&self) -> PluginsClient<tonic::transport::Channel> {
        PluginsClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// All plugins, in the order in which they were added.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn plugins(&self) -> Result<Vec<PluginReport>, ClientError> {
        self.listed_plugins(false).await
    }

    /// All plugins as they were when the daemon looked at them last, without problems of names.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn known_plugins(&self) -> Result<Vec<PluginReport>, ClientError> {
        self.listed_plugins(true).await
    }

    async fn listed_plugins(&self, as_known: bool) -> Result<Vec<PluginReport>, ClientError> {
        let listed = self.plugins_service().list(v1::ListPluginsRequest { as_known }).await?.into_inner();
        Ok(listed.plugins.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?)
    }

    /// The plugin of that name.
    ///
    /// # Errors
    /// `NotFound` when there is none, and when the connection fails.
    pub async fn plugin(&self, name: &str) -> Result<PluginReport, ClientError> {
        self.shown_plugin(What::Name(name.to_owned())).await
    }

    /// A folder as a plugin; its path is absolute. Nothing is added.
    ///
    /// # Errors
    /// When it is no plugin, and when the connection fails.
    pub async fn plugin_in(&self, folder: &str) -> Result<PluginReport, ClientError> {
        self.shown_plugin(What::Folder(folder.to_owned())).await
    }

    async fn shown_plugin(&self, what: What) -> Result<PluginReport, ClientError> {
        let request = v1::ShowPluginRequest { what: Some(what) };
        Ok(self.plugins_service().show(request).await?.into_inner().try_into()?)
    }

    /// Adds the plugin in a folder as it was shown with this hash, in this client's name.
    ///
    /// # Errors
    /// `Conflict` when it has another hash now, and when the connection fails.
    pub async fn add_plugin(
        &self,
        folder: &str,
        hash: &str,
        source: &str,
        client: &str,
    ) -> Result<PluginReport, ClientError> {
        let (folder, hash) = (folder.to_owned(), hash.to_owned());
        let request = v1::AddPluginRequest { folder, hash, source: source.to_owned(), client: client.to_owned() };
        Ok(self.plugins_service().add(request).await?.into_inner().try_into()?)
    }

    /// Removes a plugin, in this client's name. None where there is none of that name.
    ///
    /// # Errors
    /// When that cannot be stored, and when the connection fails.
    pub async fn remove_plugin(&self, name: &str, client: &str) -> Result<Option<PluginReport>, ClientError> {
        let request = v1::RemovePluginRequest { name: name.to_owned(), client: client.to_owned() };
        let removed = self.plugins_service().remove(request).await?.into_inner();
        Ok(removed.plugin.map(TryInto::try_into).transpose()?)
    }
}
