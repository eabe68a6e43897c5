//! Calls about what is kept on the disk.

use agentd_core::storage::{CleanReport, StorageView};

use super::{Client, ClientError};
use crate::v1::{self, storage_client::StorageClient};

impl Client {
    fn storage_service(&self) -> StorageClient<tonic::transport::Channel> {
        StorageClient::new(self.channel.clone())
    }

    /// Sizes of everything in the data folder.
    ///
    /// # Errors
    /// When it cannot be read, or the connection fails.
    pub async fn storage(&self) -> Result<StorageView, ClientError> {
        Ok(self.storage_service().show(v1::ShowStorageRequest {}).await?.into_inner().into())
    }

    /// Removes what nobody has used for as long as the configuration says, or tells what would be removed.
    ///
    /// # Errors
    /// When the sessions cannot be listed, or the connection fails.
    pub async fn clean(&self, dry_run: bool, client: &str) -> Result<CleanReport, ClientError> {
        let request = v1::CleanRequest { dry_run, client: client.to_owned() };
        Ok(self.storage_service().clean(request).await?.into_inner().into())
    }
}
