//! Settings of a slot that identify the user to a server, and the server to the user: keys and certificates.

use agentd_models::Certificates;
use secrecy::ExposeSecret as _;
use serde_saphyr::Spanned;

use super::{SlotFile, SlotKey, SlotLayer};
use crate::{
    config::{ConfigError, yaml::Reader},
    model_keys,
};

impl SlotLayer {
    /// Drops the settings that belong to a server's address, and returns their names. Headers may also contain keys.
    pub(super) fn drop_account(&mut self) -> [&'static str; 6] {
        (self.api_key, self.headers, self.more.api_key_header) = (None, None, None);
        (self.ca_file, self.client_cert_file, self.client_key_file) = (None, None, None);
        ["api_key", "headers", "api_key_header", "ca_file", "client_cert_file", "client_key_file"]
    }

    /// Returns the certificates of the slot, or else those of the slot whose server it uses.
    pub(super) fn certificates(&self, server: &Self) -> Certificates {
        // A certificate without a key file contains its key.
        let certified = if self.client_cert_file.is_some() { self } else { server };
        Certificates {
            ca_file: self.ca_file.clone().or_else(|| server.ca_file.clone()),
            client_cert_file: certified.client_cert_file.clone(),
            client_key_file: certified.client_key_file.clone(),
        }
    }
}

impl Reader<'_> {
    /// Returns the paths of the certificates' files, whose content is valid.
    pub(super) fn certificates(&self, slot: &SlotFile) -> Result<Certificates, ConfigError> {
        let settings = [&slot.ca_file, &slot.client_cert_file, &slot.client_key_file];
        let path = |path: Option<String>| path.map(|path| self.path(&path));
        let [ca, cert, key] = settings.map(|setting| self.optional(setting.as_ref()).map(path));
        let certificates = Certificates { ca_file: ca?, client_cert_file: cert?, client_key_file: key? };
        let Some(setting) = settings.into_iter().flatten().next() else { return Ok(certificates) };
        if certificates.client_key_file.is_some() && certificates.client_cert_file.is_none() {
            return Err(self.refuse(setting, "`client_key_file` is the key of `client_cert_file`, which is not set"));
        }
        certificates.read().map(drop).map_err(|message| self.refuse(setting, message))?;
        Ok(certificates)
    }

    /// Reads the key of a slot, which has at most one source. A command does not run yet.
    pub(super) fn api_key(&self, slot: &mut SlotFile) -> Result<Option<SlotKey>, ConfigError> {
        let settings = [slot.api_key.take(), slot.api_key_file.take(), slot.api_key_command.take()];
        let given: Vec<&Spanned<String>> = settings.iter().flatten().collect();
        if let [_, other, ..] = given[..] {
            let message = "a slot has only one of `api_key`, `api_key_file` and `api_key_command`";
            return Err(self.refuse(other, message));
        }
        let setting = given.first().copied();
        let Some((setting, text)) = setting.zip(self.optional(setting)?) else { return Ok(None) };
        let source = format!("{}:{}", self.file.origin.path().display(), setting.defined.line());
        let mut key = SlotKey { secret: None, renewable: None, source };
        if settings[1].is_some() {
            let path = self.path(&text);
            let read = model_keys::read_key_file(&path).map_err(|message| self.refuse(setting, message))?;
            key.renewable = Some(model_keys::key_file(path, read.clone()));
            key.secret = Some(read).filter(|key| !key.expose_secret().is_empty());
        } else if settings[2].is_some() {
            key.renewable =
                Some(model_keys::key_command(text.into(), self.file.folder(), self.sources.env.variables()));
        } else {
            key.secret = Some(text.into());
        }
        Ok(Some(key))
    }
}
